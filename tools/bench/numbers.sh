#!/usr/bin/env bash
# The figures of docs/performance.md: tools/bench/numbers.sh [--write] [FORMAT:LAYERS[:PROFILE]]...
#
# Runs `samebit bench cpu` on real-shape checkpoints that it makes in $TMPDIR (or here) one after the other, about
# LAYERS/2 + 2 GB each, and prints what the document has between its two markers; --write puts it there. PREFILL is
# the length of the prompt (512), TOKENS the number of tokens (16), PRESET the shape, HF=1 adds transformers
# (tools/bench/hf.py, in the environment of tools/gen/venv.sh), BLAS=auto or a library OpenBLAS.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
BUILD=${BUILD:-build}
PRESET=${PRESET:-35b-a3b}
document=docs/performance.md
write=
if [ "${1-}" = --write ]; then write=1; shift; fi
[ $# -gt 0 ] || set -- nvidia-mix:4 nvfp4-ct:4 nvfp4-ct:4:w4a4 fp8-block:4 bf16:2
folder=$(mktemp -d "${TMPDIR:-.}/samebit-numbers-XXXXXX")
trap 'rm -rf "$folder"' EXIT

machine() {
    local flags
    flags=$(grep -m1 -E '^(flags|Features)' /proc/cpuinfo)
    echo "Machine: $(uname -m), $(nproc) processors, with" \
        "$(grep -owE 'avx2|avx512f|avx512_vnni|avx512_bf16|amx_int8|asimd' <<< "$flags" | sort -u | tr '\n' ' ')" |
        sed 's/ $/;/'
    echo "$(awk '/MemTotal/ { printf "%.0f", $2 / 1e6 }' /proc/meminfo) GB of memory;" \
        "$(${CC:-gcc} --version | head -n 1)."
}

block() { # title, command...
    echo
    echo "$1"
    shift
    echo '```'
    echo "\$ $*" | sed "s|$folder/||g; s|$BUILD/||"
    "$@" 2> /dev/null | sed "s|$folder/||g; s| *$||"
    echo '```'
}

figures() {
    local one format layers profile made=
    machine
    for one in "$@"; do
        IFS=: read -r format layers profile <<< "$one"
        if [ "$made" != "$format-$layers" ]; then
            rm -rf "${folder:?}"/*
            "$BUILD/samebit" make "$folder/$format-$layers" --preset "$PRESET" --format "$format" --layers "$layers" \
                --recipe plain --no-mtp > /dev/null
            made=$format-$layers
        fi
        block "$format, $layers layers${profile:+, profile $profile}:" "$BUILD/samebit" bench cpu "$folder/$made" \
            --vs f32 --tokens "${TOKENS:-16}" --prefill "${PREFILL:-512}" ${profile:+--profile "$profile"} ${BLAS:+--blas "$BLAS"}
        [ -z "${HF-}" ] || [ "$format" != bf16 ] ||
            block "The same checkpoint by transformers:" "$BUILD/venv-hf/bin/python" tools/bench/hf.py "$folder/$made" \
                --program "$BUILD/samebit"
    done
    block "The same with AVX2 alone:" env SAMEBIT_ISA=avx2 "$BUILD/samebit" bench cpu "$folder/$made" --vs f32 \
        --tokens "${TOKENS:-16}"
}

figures "$@" > "$folder.txt"
if [ -n "$write" ]; then
    awk -v from="$folder.txt" '
        /^<!-- figures -->$/ { print; while ((getline line < from) > 0) print line; skip = 1 }
        /^<!-- end of figures -->$/ { skip = 0 }
        !skip' "$document" > "$folder.md"
    mv "$folder.md" "$document"
else
    cat "$folder.txt"
fi
rm -f "$folder.txt"
