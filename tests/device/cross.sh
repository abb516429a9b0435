#!/usr/bin/env bash
# Checks what the AArch64 build with kernels (tools/pack/cross.sh --device) does without a device: tests/device/cross.sh,
# a part of `make crosscheck`. The programs of the bundle and of the wheel run under qemu. Nothing here shows that a
# kernel runs on a device. Ends with `N passed, N failed, N skipped`.
#
# BUILD=DIR has what `make tests` builds for this machine, and gets BUILD/aarch64-device, BUILD/gpu-bundle-aarch64, BUILD/wheel/cuda.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
build=$(realpath "${BUILD:-build}")
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
. tools/gen/counts.sh
without() { skip "kernels for AArch64" "$1" && counts; exit; }

qemu=$(command -v qemu-aarch64 || command -v qemu-aarch64-static)
[ "$(uname -m)" != aarch64 ] || without "this machine is one: make gpu-bundle"
[ -n "$qemu" ] || without "no qemu-aarch64"
[ -n "${NVCC:-$(command -v nvcc || ls "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" 2> /dev/null)}" ] || without "no nvcc"
log=$work/log
BUILD=$build bash tests/device/bundle.sh "$build/gpu-bundle-aarch64" aarch64 > "$log" 2>&1
report $? "the bundle, cross-compiled" "$log"
[ $failed = 0 ] || { counts; exit 1; }

# the programs of a copy of the bundle are started under qemu
cp -r "$build/gpu-bundle-aarch64" "$work/bundle"
for program in "$work"/bundle/bin/*; do
    mv "$program" "$program.real"
    printf '#!/bin/sh\nexec %q -L /usr/aarch64-linux-gnu %q "$@"\n' "$qemu" "$program.real" > "$program"
    chmod +x "$program"
done
there=$work/bundle/bin/samebit

"$there" make "$work/T1" --preset T1 --seed 42 > "$log" 2>&1 && "$there" golden verify golden/runs/T1 "$work/T1" >> "$log" 2>&1
report $? "the reference gives the recorded bits" "$log"
emulated() { "$1" run "$work/T1" --tokens 3,1,2 -n 3 --draft 2 --profile sm121 --backend emu; }
emulated "$build/samebit" > "$work/here" 2> "$log" && emulated "$there" > "$work/there" 2>> "$log" &&
    cmp "$work/here" "$work/there" >> "$log" 2>&1
report $? "the emulated kernels give the bits of this machine" "$log"
"$there" run "$work/T1" --tokens 1 -n 1 --profile sm121 --backend gpu > "$log" 2>&1
[ $? = 4 ] && grep -q 'CUDA driver version is insufficient' "$log"
report $? "the kernels are in the program, and without a driver it says so" "$log"
bash "$work/bundle/check.sh" > "$log" 2>&1
[ $? = 4 ] && [ "$(tail -n 1 "$log")" = "0 passed, 0 failed, $(grep -c '^SKIPPED ' "$log") skipped" ] && grep -q '^SKIPPED atoms' "$log"
report $? "check.sh of the bundle: without a device every part is skipped" "$log"
bash "$work/bundle/check.sh" --engine emu --small --limit 300 math > "$log" 2>&1
grep -qE '^[1-9][0-9]* passed, 0 failed' "$log"
report $? "check.sh of the bundle: the functions, on the emulator" "$log"

# What the device runs is the same machine code as in the build for this machine. (nvcc puts a hash of its command line
# into the names of static variables.)
objects() { (cd "$1/device" 2> /dev/null && find . -name '*.cuda.o' | sort); }
code() { # OBJCOPY, object
    "$1" -O binary -j .nv_fatbin "$2" "$work/fatbin" && LC_ALL=C sed 's/_INTERNAL_[0-9a-f]\{8\}_/_INTERNAL_/g' "$work/fatbin"
}
if [ -n "$(objects "$build")" ]; then
    status=0
    [ "$(objects "$build")" = "$(objects "$build/aarch64-device")" ] || status=1
    for object in $(objects "$build/aarch64-device"); do
        code objcopy "$build/device/$object" > "$work/code.here" 2> "$log" &&
            code aarch64-linux-gnu-objcopy "$build/aarch64-device/device/$object" > "$work/code.there" 2>> "$log" &&
            [ -s "$work/code.here" ] && cmp "$work/code.here" "$work/code.there" >> "$log" 2>&1 || { status=1 && break; }
    done
    report $status "the code of the kernels is that of the build for this machine" "$log"
else
    skip "the code of the kernels, compared" "$build was built without nvcc"
fi

BUILD=$build bash tools/py/wheel.sh aarch64-cuda > "$log" 2>&1
report $? "the wheel: $(basename "$(tail -n 1 "$log")")" "$log"
mkdir "$work/wheel" && python3 -m zipfile -e "$build"/wheel/cuda/*.whl "$work/wheel" > "$log" 2>&1 &&
    cmp "$work"/wheel/samebit-*.data/scripts/samebit "$work/bundle/bin/samebit.real" >> "$log" 2>&1
report $? "its program is that of the bundle" "$log"
counts
