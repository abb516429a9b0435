#!/usr/bin/env bash
# Makes a folder with everything that tests/device/check.sh needs on a machine with a GPU, but without this
# tree and its libraries: programs without debug information, their libraries, golden/atoms, golden/device. Used by
# make gpu-bundle.
#
#   bundle.sh FOLDER [aarch64]     FOLDER is written anew; aarch64: cross-compiled in BUILD/aarch64-device (tools/pack/cross.sh)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
BUILD=${BUILD:-build}
to=${1?bundle.sh: expected a folder} arch=${2-$(uname -m)} strip=strip
names=(samebit tests/gpu/device_{ops,ops_jitter,atoms,math})
if [ "$arch" != "$(uname -m)" ]; then
    [ "$arch" = aarch64 ] || { echo "bundle.sh: $arch: expected aarch64, or this machine" >&2; exit 2; }
    BUILD=$BUILD/aarch64-device strip=aarch64-linux-gnu-strip
    given=$(bash tools/pack/cross.sh "$BUILD/include" --device)
    mapfile -t variables <<< "$given"
    unset MAKEFLAGS MFLAGS
    make -s BUILD="$BUILD" "${variables[@]}" "${names[@]/#/$BUILD/}"
fi
programs=("${names[@]/#/$BUILD/}")
for program in "${programs[@]}"; do
    [ -x "$program" ] || { echo "$program is not built: make gpu-bundle, where nvcc is" >&2; exit 2; }
done
rm -rf "$to.new"
mkdir -p "$to.new"/{bin,lib,golden}
for program in "${programs[@]}"; do "$strip" -o "$to.new/bin/${program##*/}" "$program"; done
# all libraries except those of libc, which every machine has
libc='(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so'
if [ "$arch" = "$(uname -m)" ]; then
    ldd "${programs[@]}" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u | grep -vE "/$libc" | xargs -I{} cp -L {} "$to.new/lib/"
elif readelf -d "${programs[@]}" | grep NEEDED | grep -vE "\[$libc"; then
    echo "bundle.sh: these libraries were to be linked statically" >&2
    exit 1
fi
cp -r golden/atoms golden/device "$to.new/golden/"
install tests/device/check.sh "$to.new/" # which may be started by its name
rm -rf "$to"
mv "$to.new" "$to"
echo "wrote $to: $(du -sh "$to" | cut -f1), libraries $(ls "$to/lib" | tr '\n' ' ')"
