# gates.bash - what the gates of device code have in common: they need nvcc and no GPU; NVCC names it.
# Sourced by the scripts beside it.
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
close() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ $failed = 0 ]
    exit
}
[ -x "$opcodes" ] || { echo "$opcodes is not built: make tests"; exit 2; }
