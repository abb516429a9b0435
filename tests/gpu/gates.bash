# gates.bash - shared by the gates of device code. They need nvcc, but no GPU; NVCC names nvcc.
# Sourced by the scripts in this folder.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
opcodes=${BUILD:-build}/tests/gpu/cubin_opcodes
nvcc=${NVCC:-$(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")}
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0

check() { # check NAME COMMAND...
    local name=$1
    shift
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAILED $name"; fi
}
without_nvcc() { # without_nvcc WHAT: ends a script
    skipped=$((skipped + 1))
    echo "SKIPPED device code: no nvcc; $1 was not covered"
    close
}
close() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ $failed = 0 ]
    exit
}
[ -x "$opcodes" ] || { echo "$opcodes is not built: make tests"; exit 2; }

compile() { # compile FILE ARCHITECTURE NAME FLAG...: $work/NAME.cubin, and what ptxas says
    local file=$1 architecture=$2 name=$3
    shift 3
    "$nvcc" -std=c++17 -O3 -Werror all-warnings -Xptxas -v -I. \
        -gencode "arch=compute_$architecture,code=sm_$architecture" "$@" \
        -cubin -o "$work/$name.cubin" "$file" > "$work/$name.log" 2>&1
}
compiled() { # the log is shown if it failed
    [ -s "$work/$1.cubin" ] && "$opcodes" "$work/$1.cubin" > "$work/$1.list" && return
    grep -v '^ptxas info' "$work/$1.log" | head -20
    false
}
in_registers() { # every kernel that ptxas speaks of has no frame and no spill
    grep -q 'bytes spill stores' "$work/$1.log" &&
        ! grep 'bytes spill stores' "$work/$1.log" |
        grep -qv ' 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads'
}
