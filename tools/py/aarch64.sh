#!/usr/bin/env bash
# Tests the wheel for AArch64 on this machine: tools/py/aarch64.sh DIR. tools/py/wheel.sh cross-compiles the wheel. Its
# program, and docs/examples/example.c with its library, run under qemu; their output must equal that of this machine.
# Exit status: 0, 1, or 77 if a tool is missing. The last line names the tested wheel, or the missing tool.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
out=$(realpath -m "${1:?usage: tools/py/aarch64.sh DIR}")
build=$(realpath "${BUILD:-build}")
cc=aarch64-linux-gnu-gcc
qemu=$(command -v qemu-aarch64 || command -v qemu-aarch64-static)
missing=
command -v $cc > /dev/null || missing="no $cc"
[ -n "$qemu" ] || missing="no qemu-aarch64"
[ -z "$missing" ] || { echo "$missing"; exit 77; }
mkdir -p "$out"
BUILD=$build bash tools/py/wheel.sh aarch64 || exit 1
rm -rf "$out/wheel" && mkdir "$out/wheel" && (cd "$out/wheel" && python3 -m zipfile -e "$build"/wheel/*aarch64.whl .) || exit 1
library=$(echo "$out"/wheel/samebit/libsamebit.so.0)
program=$(echo "$out"/wheel/samebit-*.data/scripts/samebit)

chmod +x "$program"
rm -rf "$out/T1" && "$qemu" "$program" make "$out/T1" --preset T1 --seed 42 > /dev/null &&
    "$qemu" "$program" golden verify golden/runs/T1 "$out/T1" || exit 1
$cc -I ref docs/examples/example.c "$library" -Wl,-rpath,"$(dirname "$library")" -o "$out/example" || exit 1
gcc -I ref docs/examples/example.c -L "$build" -l:libsamebit.so.0 -Wl,-rpath,"$build" -o "$out/example-here" || exit 1
"$out/example-here" "$out/T1" > "$out/here" && "$qemu" -L /usr/aarch64-linux-gnu "$out/example" "$out/T1" > "$out/there" &&
    cmp "$out/here" "$out/there" || exit 1
echo "a wheel for aarch64, cross-compiled, its program and its library run under qemu: $(basename "$build"/wheel/*aarch64.whl)"
