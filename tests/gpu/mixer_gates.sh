#!/usr/bin/env bash
# Convolution, delta rule, rotary positions and attention compile for devices without a warning and without a
# spill, attention to the bf16 instruction of the matrix unit. Needs nvcc and no GPU; NVCC names it.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
BUILD=${BUILD:-build}
opcodes=$BUILD/tests/gpu/cubin_opcodes
nvcc=${NVCC:-$(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")}
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
kernels=12

check() { # check NAME COMMAND...
    local name=$1
    shift
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAILED $name"; fi
}
compile() { # compile ARCHITECTURE FLAG...: $work/ARCHITECTURE.cubin, and what ptxas says
    local architecture=$1
    shift
    "$nvcc" -std=c++17 -O3 -fmad=false -Werror all-warnings -Xptxas -v -I. \
        -gencode "arch=compute_$architecture,code=sm_$architecture" "$@" \
        -cubin -o "$work/$architecture.cubin" tests/gpu/mixer_gates.cu > "$work/$architecture.log" 2>&1
}
compiled() { # the log is shown if it failed
    [ -s "$work/$1.cubin" ] && "$opcodes" "$work/$1.cubin" > "$work/$1.list" && return
    grep -v '^ptxas info' "$work/$1.log" | head -20
    false
}
in_registers() { # every kernel has no frame and no spill
    [ "$(grep -c ' 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads' "$work/$1.log")" = $kernels ]
}
has() { # has ARCHITECTURE KERNEL OPCODE: in each of the kernels whose names begin so
    awk -v k="$2" -v o="$3" 'index($1, k) && !($1 in seen) { seen[$1] = 0 }
        index($1, k) && $3 == o { seen[$1] += $4 }
        END { for (name in seen) { n++; bad += seen[name] == 0 } exit !(n > 0 && !bad) }' "$work/$1.list"
}
[ -x "$opcodes" ] || { echo "$opcodes is not built: make tests"; exit 2; }
check "the same file as C++" g++ -std=c++17 -fsyntax-only -Wall -Wextra -Werror -I. -x c++ tests/gpu/mixer_gates.cu
if [ -x "$nvcc" ]; then
    compile 121a & compile 90a & wait
    for architecture in 121a 90a; do
        check "sm_$architecture does not compile" compiled $architecture
        check "sm_$architecture: a kernel spills" in_registers $architecture
        check "sm_$architecture: attention without HMMA" has $architecture sb_attention_kernel HMMA
        check "sm_$architecture: the delta rule has HMMA" eval "! has $architecture sb_delta_rule_kernel HMMA"
    done
    # and it would be seen if the compiler were not content
    compile 90a -maxrregcount=32
    check "spills go unseen" eval '! in_registers 90a'
else # optional even where every other tool is required
    [ "${CI-}" = true ] || skipped=1
    echo "SKIPPED device code: no nvcc; that linear attention and attention compile for sm_121a and sm_90a," \
        "without spills, was not covered"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
