#!/usr/bin/env bash
# Records the results of the real transformers for folders of `samebit make`.
#
#   tools/gen/record.sh OUT
#
# OUT receives NAME.f32.safetensors and NAME.bf16.safetensors for each row of the list below, small/ with the
# checkpoints that transformers itself writes, and yarn.safetensors with the frequencies of R-24. golden/hf is made this way (make
# golden-hf), and `make crosscheck` records again and runs the same comparison on the result.
set -euo pipefail

out=${1:?usage: tools/gen/record.sh OUT}
build=${BUILD:-build}
python=${PYTHON:-$build/venv-hf/bin/python}
samebit=$build/samebit
work=$build/record
fixtures=tools/gen/hf_fixtures.py
export OMP_NUM_THREADS=1

# preset, class, ids in use; _yarn: the same weights under the rotation of R-24. Records the first linear (if there is
# one) and the first full attention layer.
list="
T1 Qwen3_5MoeForCausalLM 377
T2 Qwen3_5MoeForCausalLM 1024
T3 Qwen3_5MoeForCausalLM 377
T4 Qwen3_5ForCausalLM 377
T5 Qwen3NextForCausalLM 377
T7 Qwen3MoeForCausalLM 377
T8 Qwen3ForCausalLM 377
T8_yarn Qwen3ForCausalLM 377
"

yarn='{"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}' # as in tests/hf/fixture.c

mkdir -p "$out" "$work"
while read -r preset class used; do
    [ -n "$preset" ] || continue
    "$samebit" make "$work/$preset" --preset "${preset%_yarn}" --recipe mistakes --seed 42 --replace
    [ "$preset" = "${preset%_yarn}" ] || sed -i "s/\"rope_scaling\": null/\"rope_scaling\": $yarn/" "$work/$preset/config.json"
    for dtype in f32 bf16; do
        "$python" "$fixtures" record "$work/$preset" "$out/$preset.$dtype.safetensors" \
            --class "$class" --dtype "$dtype" --ids-used "$used"
    done
done <<<"$list"
rm -rf "$out/small"
"$python" "$fixtures" small "$out/small"
"$python" "$fixtures" yarn "$out/yarn.safetensors"
