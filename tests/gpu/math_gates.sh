#!/usr/bin/env bash
# Checks the code that the compiler makes of gpu/math for a device: no warning, no spill, nothing
# contracted. Needs nvcc, but no GPU; NVCC names nvcc.
. "$(dirname "$0")/gates.bash"
functions=$(sed -n '/define MATH_FUNCTION_NAMES/,/^$/s/^ *X(\([a-z0-9_]*\)).*/\1/p' tests/gpu/math_functions.h)
for f in $(grep -o 'sb_gpu_[a-z0-9_]*' gpu/math/fn.h | sort -u); do
    check "$f of gpu/math/fn.h is not on the list of functions" grep -qx "${f#sb_gpu_}" <<< "$functions"
done
if [ ! -x "$nvcc" ]; then
    without_nvcc "that the functions compile for sm_121a and sm_90a without spills and contracted operations"
fi

count() { # count NAME FUNCTION DIGITS: an opcode's last two digits say what it does, the first with what
    awk -v k="math_$2" -v o="^0x[0-9a-f]$3\$" '$1 == k && $2 ~ o { n += $4 } END { print n + 0 }' "$work/$1.list"
}
# sine and cosine add (29) and use no fused operation, so that one in binary64 (2b) would be a contraction
separate() { [ "$(count "$1" "$2" 2b)" = 0 ] && [ "$(count "$1" "$2" 29)" -gt 0 ]; }
# the others have fused operations (23), and none in binary64 (28, 29, 2b)
single() { [ "$(count "$1" "$2" '2[89b]')" = 0 ] && [ "$(count "$1" "$2" 23)" -gt 0 ]; }

compile tests/gpu/math_gates.cu 121a target -fmad=false & compile tests/gpu/math_gates.cu 90a hopper -fmad=false & wait
compile tests/gpu/math_gates.cu 121a planted -fmad=true
for name in target hopper planted; do check "$name does not compile" compiled $name; done
for name in target hopper; do
    check "$name: a kernel spills" in_registers $name
    for f in sin cos; do check "$name: $f is contracted" separate $name $f; done
    for f in $(grep -vx "sin\|cos" <<< "$functions"); do check "$name: $f is not in binary32" single $name $f; done
done
contracted() { ! separate planted "$1"; }
for f in sin cos; do check "contracted operations of $f are not seen" contracted $f; done
close
