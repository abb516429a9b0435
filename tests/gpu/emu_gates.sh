#!/usr/bin/env bash
# The kernels that test the emulator are one source: C++ for the host's compiler, and CUDA that nvcc compiles
# for devices without a warning and without a spill. Needs no GPU; NVCC names nvcc.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
nvcc=${NVCC:-$(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")}
passed=0 failed=0 skipped=0
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT

compile() { # compile ARCHITECTURE FLAG...: seven kernels, none of which spills
    local architecture=$1
    shift
    "$nvcc" -std=c++17 -O3 -fmad=false -Werror all-warnings -Xptxas -v -I. \
        -gencode "arch=compute_$architecture,code=sm_$architecture" "$@" \
        -c -o "$work/gates.o" tests/gpu/emu_gates.cu > "$work/log" 2>&1 &&
        [ "$(grep -c 'bytes stack frame, 0 bytes spill stores, 0 bytes spill loads' "$work/log")" = 7 ]
}
if g++ -std=c++17 -fsyntax-only -Wall -Wextra -Werror -I. -x c++ tests/gpu/emu_gates.cu; then
    passed=$((passed + 1))
else
    failed=$((failed + 1)) && echo "FAILED the same file as C++"
fi
if [ -x "$nvcc" ]; then
    for architecture in 121a 90a; do
        if compile $architecture; then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
            echo "FAILED sm_$architecture" && head -n 20 "$work/log"
        fi
    done
    # and it would be seen if the compiler were not content
    if compile 90a -maxrregcount=16; then
        failed=$((failed + 1)) && echo "FAILED spills go unseen"
    else
        passed=$((passed + 1))
    fi
else # optional even where every other tool is required
    [ "${CI-}" = true ] || skipped=1
    echo "SKIPPED device code: no nvcc; that the emulator's kernels compile for sm_121a and sm_90a was not covered"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
