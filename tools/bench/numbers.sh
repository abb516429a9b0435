#!/usr/bin/env bash
# The figures of docs/performance.md: tools/bench/numbers.sh [--write] [--mix DIR] [--bf16 DIR]
#
# Runs `samebit bench cpu` on two checkpoints of real shape and on hard rows, and prints the text between the
# document's two markers; --write stores it there. Takes about six minutes on two processors, plus the time to make
# the checkpoints.
#
#   --mix DIR     an existing checkpoint: samebit make DIR --preset 35b-a3b --format nvidia-mix --layers 4
#                 --recipe plain --no-mtp (3 GB)
#   --bf16 DIR    another, --format bf16 --layers 2 (5 GB)
#                 A checkpoint that is not given is made in $TMPDIR (or $BUILD) and removed again.
#   BLAS=FILE     the OpenBLAS to compare with; auto: the system's, if installed; BLAS= for none
#   HF=1          also transformers (tools/bench/hf.py, in the environment of tools/gen/venv.sh)
#   QUICK=1       few tokens, to test that everything runs
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
BUILD=${BUILD:-build}
samebit=$BUILD/samebit
document=docs/performance.md
write='' mix='' bf16=''
usage() { echo "usage: tools/bench/numbers.sh [--write] [--mix DIR] [--bf16 DIR]" >&2; exit 2; }
while [ $# -gt 0 ]; do
    case $1 in
    --write) write=1 ;;
    --mix) [ $# -gt 1 ] || usage; mix=$2; shift ;;
    --bf16) [ $# -gt 1 ] || usage; bf16=$2; shift ;;
    *) usage ;;
    esac
    shift
done
for dir in "$mix" "$bf16"; do
    [ -z "$dir" ] || [ -e "$dir/config.json" ] || { echo "numbers.sh: $dir is no checkpoint" >&2; exit 2; }
done
folder=$(mktemp -d "${TMPDIR:-$BUILD}/samebit-numbers-XXXXXX")
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' INT TERM HUP
if [ -z "${BLAS+set}" ]; then # status 4: there is none
    BLAS=auto
    "$samebit" bench cpu --preset T4 --layers 1 --tokens 1 --stream 1 --threads 1 --blas auto > /dev/null 2>&1 || BLAS=
fi
blas=(${BLAS:+--blas "$BLAS"})

tokens() { echo "--tokens ${QUICK:-$1} --passes ${QUICK:-$2}"; }

machine() {
    local flags
    flags=$(grep -m1 -E '^(flags|Features)' /proc/cpuinfo)
    echo "Machine: $(uname -m), $(nproc) processors, with" \
        "$(grep -owE 'avx2|avx512f|avx512_vnni|avx512_bf16|amx_int8|asimd' <<< "$flags" | sort -u | tr '\n' ' ')" |
        sed 's/ $/;/'
    echo "$(awk '/MemTotal/ { printf "%.0f", $2 / 1e6 }' /proc/meminfo) GB of memory;" \
        "$(${CC:-gcc} --version | head -n 1). What else the machine, or its host, did is not known: see the stream."
}

# block TITLE PATTERN COMMAND...: the command and the matching lines of its output; if drop is set, without the lines
# from "outputs of" to the next empty line
block() {
    local title=$1 pattern=$2
    shift 2
    echo
    echo "$title"
    echo '```'
    echo "\$ $*" | sed "s|$mix|mix|g; s|$bf16|bf16|g; s|^\$ env |$ |; s|$samebit|samebit|"
    "$@" 2> "$folder/stderr" > "$folder/output" || { cat "$folder/stderr" >&2; exit 1; }
    sed "${drop:+/^outputs of/,/^\$/d;}s| *$||" "$folder/output" | grep -E -- "$pattern"
    echo '```'
}

have() { SAMEBIT_ISA=$1 "$samebit" bench cpu --worst --passes 1 > /dev/null 2>&1; }

figures() {
    local last='^against|exact_over_f32' isa format
    local parts="^kernels|^[0-9]+ thread|^  head|^  token|^  prompt|^peak|OpenBLAS|gemv|gemm|$last"
    machine
    # shellcheck disable=SC2046
    block "35b-a3b, nvidia-mix, 4 layers:" '' \
        "$samebit" bench cpu "$mix" --vs f32 --prefill "${QUICK:-512}" $(tokens 12 7) "${blas[@]}"
    # shellcheck disable=SC2046
    block "The same with inputs of NVFP4 layers quantized, one number of threads (parts of the output):" \
        "$parts|integers" "$samebit" bench cpu "$mix" --profile w4a4 --vs f32 --threads 2 $(tokens 8 5)
    # shellcheck disable=SC2046
    block "35b-a3b, bf16, 2 layers (parts of the output):" "$parts" \
        "$samebit" bench cpu "$bf16" --vs f32 $(tokens 8 5)
    # shellcheck disable=SC2046
    ! have avx2 || block "nvidia-mix with AVX2 alone (parts of the output):" "$parts" \
        env SAMEBIT_ISA=avx2 "$samebit" bench cpu "$mix" --vs f32 --threads 2 $(tokens 4 3)
    for format in int4-gptq int4-awq; do # made and removed by the command
        # shellcheck disable=SC2046
        block "$format, one layer (parts of the output):" '^kernels|^[0-9]+ thread|  int-' \
            "$samebit" bench cpu --preset 35b-a3b --format $format --layers 1 $(tokens 8 3)
    done
    [ -z "${HF-}" ] || block "The bf16 checkpoint by transformers:" '' \
        "$BUILD/venv-hf/bin/python" tools/bench/hf.py "$bf16" --program "$samebit"
    block "Rows that are hard to round:" '' "$samebit" bench cpu --worst --passes "${QUICK:-15}"
    for isa in avx512 avx2 neon scalar; do
        ! have $isa || drop=1 block "The same with SAMEBIT_ISA=$isa (parts of the output):" \
            '^kernels|^one|^32|^  weights|ns |^at most' \
            env SAMEBIT_ISA=$isa "$samebit" bench cpu --worst --passes "${QUICK:-9}"
    done
}

make_checkpoint() { # FORMAT LAYERS
    echo "making $1, $2 layers" >&2
    "$samebit" make "$folder/$1" --preset 35b-a3b --format "$1" --layers "$2" --recipe plain --no-mtp > /dev/null
}
[ -n "$mix" ] || { make_checkpoint nvidia-mix 4; mix=$folder/nvidia-mix; }
[ -n "$bf16" ] || { make_checkpoint bf16 2; bf16=$folder/bf16; }

figures > "$folder/figures"
if [ -n "$write" ]; then
    awk -v from="$folder/figures" '
        /^<!-- figures -->$/ { print; while ((getline line < from) > 0) print line; skip = 1 }
        /^<!-- end of figures -->$/ { skip = 0 }
        !skip' "$document" > "$folder/document"
    cat "$folder/document" > "$document"
else
    cat "$folder/figures"
fi
