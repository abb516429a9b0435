#!/usr/bin/env bash
# Records what the real llama.cpp computes from folders of `samebit make`, as traces (docs/trace.md):
#
#   tools/record/llamacpp.sh OUT
#
# OUT/CKPT-* are the folders, OUT/NAME the traces; docs/llamacpp.md has what they show. The first call
# builds llama.cpp under build/llamacpp (half an hour).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=${1:?usage: tools/record/llamacpp.sh OUT}
build=${BUILD:-build}
python=${PYTHON:-$build/venv-hf/bin/python}
llama=$build/llamacpp
here=tools/record/llamacpp
export OMP_NUM_THREADS=1
"$here/build.sh" "$llama"
mkdir -p "$out"

ids() { # how many
    seq -s, 11 7 "$((11 + 7 * ($1 - 1)))"
}

checkpoint() { # preset, type of the file, further options of make
    local folder=$out/CKPT-$1 type=$2
    "$build/samebit" make "$folder" --preset "$1" --seed 42 --tokenizer --replace "${@:3}" > /dev/null
    rm -rf "$out/digest"
    "$build/samebit" run "$folder" --tokens 1 -n 1 --trace "$out/digest" > /dev/null
    grep -o '"checkpoint": "[0-9a-f]*"' "$out/digest/trace.json" | cut -d'"' -f4 > "$folder.digest"
    rm -rf "$out/digest"
    "$python" "$here/convert.py" "$llama/source" "$folder" "$folder-$type.gguf" --outtype "$type" \
        > "$folder-$type.log" 2>&1
}

record() { # name, preset, type of the file, ids, calls, level, options of llama.cpp
    local name=$1 folder=$out/CKPT-$2 model=$out/CKPT-$2-$3.gguf
    "$llama/bin/llama_record" "$out/$name.record" "$4" "$5" -m "$model" -t 1 -c 512 "${@:7}" \
        > "$out/$name.log" 2>&1
    rm -rf "${out:?}/$name"
    "$python" "$here/to_trace.py" "$out/$name.record" "$folder" "$out/$name" --level "$6" \
        --checkpoint-digest "$(cat "$folder.digest")" --note "llama.cpp, $3, ${*:7}"
    rm "$out/$name.record"
}

for preset in T1 T4 T5; do
    checkpoint $preset bf16 --recipe mistakes
    record "$preset-bf16" $preset bf16 "$(ids 8)" 6+1+1 4 -fa off
done
