#!/usr/bin/env bash
# A wheel for AArch64 on this machine: tools/py/aarch64.sh DIR. The library is cross-compiled with the foreign libraries
# of tools/deps cross (their code goes into it), and docs/examples/example.c runs with it under qemu: its output is
# that of this machine. Exit status: 0, 1, or 77 where a tool is missing. The last line says what there is.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
out=$(realpath -m "${1:?usage: tools/py/aarch64.sh DIR}")
build=$(realpath "${BUILD:-build}")
there=$build/aarch64 root=$PWD/build/cross/arm64/usr
lib=$root/lib/aarch64-linux-gnu cc=aarch64-linux-gnu-gcc
qemu=$(command -v qemu-aarch64 || command -v qemu-aarch64-static)
missing=
command -v $cc > /dev/null || missing="no $cc"
[ -n "$qemu" ] || missing="no qemu-aarch64"
[ -f "$lib/libjansson.a" ] && [ -f "$lib/libpcre2-8.a" ] || missing="no foreign libraries (tools/deps cross)"
[ -z "$missing" ] || { echo "$missing"; exit 77; }
mkdir -p "$out"

make BUILD="$there" NVCC= CC=$cc JANSSON_CFLAGS="-isystem $root/include" JANSSON_LIBS="$lib/libjansson.a" \
    PCRE2_LIBS="$lib/libpcre2-8.a" UTF8PROC_LIBS= ZIP_LIBS= "$there/libsamebit.so.0" || exit 1
$cc -I ref docs/examples/example.c -L "$there" -l:libsamebit.so.0 -Wl,-rpath,"$there" -o "$out/example" || exit 1
rm -rf "$out/T1" && "$build/samebit" make "$out/T1" --preset T1 > /dev/null || exit 1
gcc -I ref docs/examples/example.c -L "$build" -l:libsamebit.so.0 -Wl,-rpath,"$build" -o "$out/example-here" || exit 1
"$out/example-here" "$out/T1" > "$out/here" && "$qemu" -L /usr/aarch64-linux-gnu "$out/example" "$out/T1" > "$out/there" &&
    cmp "$out/here" "$out/there" || exit 1

SAMEBIT_LIBRARY=$there/libsamebit.so.0 SAMEBIT_PLATFORM=linux_aarch64 \
    "$build/py/tests/bin/pip" wheel -q --no-deps -w "$out/plain" ./tools/py || exit 1
LD_LIBRARY_PATH=/usr/aarch64-linux-gnu/lib PATH=$build/py/tests/bin:$PATH \
    "$build/py/tests/bin/auditwheel" repair --plat auto -w "$out/many" "$out"/plain/*.whl || exit 1
echo "a wheel for aarch64, cross-compiled, its library run under qemu: $(cd "$out/many" && echo ./*.whl)"
