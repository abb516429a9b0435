#!/usr/bin/env bash
# Records the values of the real llama.cpp for folders of `samebit make`: traces (docs/trace.md), a file of
# --kl-divergence-base, and answers of llama-server.
#
#   tools/record/llamacpp.sh OUT [--golden]
#
# OUT/CKPT-* are the folders, OUT/T* the traces, OUT/llamacpp-* the files of its other programs. docs/llamacpp.md
# has the results; tests/cli/llamacpp.sh checks them for OUT (TRACES=OUT). --golden: fewer rows, as in golden/dumps.
# The first call builds llama.cpp under build/llamacpp, which takes long.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=${1:?usage: tools/record/llamacpp.sh OUT}
build=${BUILD:-build}
python=${PYTHON:-$build/venv-hf/bin/python}
llama=$build/llamacpp
here=tools/record/llamacpp
export OMP_NUM_THREADS=1
"$here/build.sh" "$llama" server
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

flags=() # of llama_record
record() { # name, preset, type of the file, ids, calls, level, options of llama.cpp
    local name=$1 folder=$out/CKPT-$2 model=$out/CKPT-$2-$3.gguf
    "$llama/bin/llama_record" "${flags[@]}" "$out/$name.record" "$4" "$5" -m "$model" -t 1 -c 512 "${@:7}" \
        > "$out/$name.log" 2>&1
    rm -rf "${out:?}/$name"
    "$python" "$here/to_trace.py" "$out/$name.record" "$folder" "$out/$name" --level "$6" \
        --checkpoint-digest "$(cat "$folder.digest")" --note "llama.cpp, $3, ${*:7}"
    rm "$out/$name.record"
}

all=yes n=24
[ "${2-}" != --golden ] || { all=no; n=8; }
checkpoint T1 bf16 --recipe predictable-1
checkpoint T4 bf16 --recipe mistakes
record llamacpp-T4 T4 bf16 "$(ids 2)" 2 4 -fa off -n 2
flags=(--logits --sample)
record llamacpp-T4-sampled T4 bf16 "$(ids 4)" 4 1 -fa off -n 40 -s 42 --temp 0.5 --top-k 20 --repeat-penalty 3 \
    --repeat-last-n 16
flags=()
record llamacpp-T1-mtp T1 bf16 "$(ids 4)" 4 2 -fa off -n $n --spec-type draft-mtp --spec-draft-n-max 3

# 32 one-byte tokens, three times: no real text, but a file of the real program
seq -s, 1000 1061 | tr -d '\n' > "$out/text"
"$llama/bin/llama-perplexity" -m "$out/CKPT-T1-bf16.gguf" -f "$out/text" -c 32 -b 32 -ub 32 -t 1 -fa off --chunks 3 \
    --kl-divergence-base "$out/llamacpp-kld.bin" > "$out/kld.log" 2>&1
server() { # name of the answers, options of server.py and llama-server
    "$python" "$here/server.py" "$llama/bin/llama-server" "$out/CKPT-T1-bf16.gguf" "$out" --name "$1" "${@:2}" \
        --alias T1 -c 512 -fa off
}
server llamacpp
server llamacpp-mtp --tokens 24 --only completion --spec-type draft-mtp --spec-draft-n-max 3

[ $all = yes ] || exit 0
record T4-flash T4 bf16 "$(ids 4)" 4 4 -fa on
checkpoint T4 f32 --recipe mistakes
record T4-f32 T4 f32 "$(ids 6)" 6 4 -fa off -n 3
record T1-mtp T1 bf16 "$(ids 4)" 4 4 -fa off -n 24 --spec-type draft-mtp --spec-draft-n-max 3
for preset in T1 T4 T5; do
    checkpoint $preset bf16 --recipe mistakes
    record $preset-bf16 $preset bf16 "$(ids 40)" 6+30+4 4 -fa off -n 4
    record $preset-f32-cache $preset bf16 "$(ids 8)" 8 4 -fa off -ctk f32 -ctv f32
done
