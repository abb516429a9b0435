#!/usr/bin/env bash
# Records what the real transformers computes from folders of `samebit make` as traces (docs/trace.md):
#
#   tools/record/hf_traces.sh OUT
#
# golden/trace is made this way; `make crosscheck` records again and compares both with the reference.
# T1-eager and T1-weights make another choice on purpose, which `samebit diff --explain` is to name.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=${1:?usage: tools/record/hf_traces.sh OUT}
build=${BUILD:-build}
python=${PYTHON:-$build/venv-hf/bin/python}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1

# name, preset, class, type, further options
list="
T1-f32     T1 Qwen3_5MoeForCausalLM f32
T1-bf16    T1 Qwen3_5MoeForCausalLM bf16
T1-eager   T1 Qwen3_5MoeForCausalLM bf16 --prompt 3 --decode 1 --experts eager
T1-weights T1 Qwen3_5MoeForCausalLM bf16 --prompt 3 --decode 1 --router-weights f32
T4-f32     T4 Qwen3_5ForCausalLM f32 --states
T4-bf16    T4 Qwen3_5ForCausalLM bf16 --states
T5-f32     T5 Qwen3NextForCausalLM f32
T5-bf16    T5 Qwen3NextForCausalLM bf16
"
mkdir -p "$out"
while read -r name preset class dtype options; do
    [ -n "$name" ] || continue
    "$build/samebit" make "$work/$preset" --preset "$preset" --recipe mistakes --seed 42 --replace > /dev/null
    rm -rf "${out:?}/$name"
    # shellcheck disable=SC2086
    "$python" tools/record/hf_trace.py "$work/$preset" "$out/$name" --class "$class" --dtype "$dtype" \
        --ids-used 377 --checkpoint-digest "$("$build/samebit" run "$work/$preset" --tokens 1 -n 1 \
        --trace "$work/trace" > /dev/null && grep -o '"checkpoint": "[0-9a-f]*"' "$work/trace/trace.json" |
        cut -d'"' -f4)" $options 2> >(grep -v 'ignored by the class' >&2)
    rm -rf "$work/trace"
done <<< "$list"
