#!/usr/bin/env bash
# Makes a folder with everything that tests/device/check.sh needs on a machine with a GPU, but without this
# tree and its libraries: programs without debug information, their libraries, golden/atoms, golden/device. Used by
# make gpu-bundle.
#
#   bundle.sh FOLDER     which is written anew
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
BUILD=${BUILD:-build}
to=${1?bundle.sh: expected a folder}
programs=("$BUILD/samebit" "$BUILD"/tests/gpu/device_{ops,ops_jitter,atoms,math})
for program in "${programs[@]}"; do
    [ -x "$program" ] || { echo "$program is not built: make gpu-bundle, where nvcc is" >&2; exit 2; }
done
rm -rf "$to.new"
mkdir -p "$to.new"/{bin,lib,golden}
for program in "${programs[@]}"; do strip -o "$to.new/bin/${program##*/}" "$program"; done
# all libraries except those of libc, which every machine has
ldd "${programs[@]}" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -vE '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so' | xargs -I{} cp -L {} "$to.new/lib/"
cp -r golden/atoms golden/device "$to.new/golden/"
install tests/device/check.sh "$to.new/" # which may be started by its name
rm -rf "$to"
mv "$to.new" "$to"
echo "wrote $to: $(du -sh "$to" | cut -f1), libraries $(ls "$to/lib" | tr '\n' ' ')"
