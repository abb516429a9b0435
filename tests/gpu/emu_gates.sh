#!/usr/bin/env bash
# The kernels that test the emulator have one source. It is C++ for the host's compiler, and CUDA that nvcc
# compiles for devices without a warning or a spill. Needs no GPU; NVCC names nvcc.
. "$(dirname "$0")/gates.bash"

host_and_device() { # ARCHITECTURE FILE KERNELS FLAG...: so many, none of which spills
    local architecture=$1 file=$2 kernels=$3
    shift 3
    rm -f "$work/gates.o"
    "$nvcc" -std=c++17 -O3 -fmad=false -Werror all-warnings -Xptxas -v -I. \
        -gencode "arch=compute_$architecture,code=sm_$architecture" "$@" \
        -c -o "$work/gates.o" "$file" > "$work/log" 2>&1 &&
        [ "$(grep -c 'bytes stack frame, 0 bytes spill stores, 0 bytes spill loads' "$work/log")" = "$kernels" ]
}
if "${CXX:-g++}" -std=c++17 -fsyntax-only -Wall -Wextra -Werror -I. -x c++ tests/gpu/emu_gates.cu; then
    passed=$((passed + 1))
else
    failed=$((failed + 1)) && echo "FAILED the same file as C++"
fi
if [ -x "$nvcc" ]; then
    for architecture in 121a 90a; do
        if host_and_device $architecture tests/gpu/emu_gates.cu 9; then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
            echo "FAILED sm_$architecture" && head -n 20 "$work/log"
        fi
    done
    # a spill would be detected, although it is no error of the compiler
    if host_and_device 90a tests/gpu/atom_gates.cu 2 -DPLANT_EXPANSION || ! [ -s "$work/gates.o" ] ||
        ! grep -q '[1-9][0-9]* bytes spill stores' "$work/log"; then
        failed=$((failed + 1)) && echo "FAILED spills go unseen" && head -n 20 "$work/log"
    else
        passed=$((passed + 1))
    fi
else
    without_nvcc "that the emulator's kernels compile for sm_121a and sm_90a"
fi
close
