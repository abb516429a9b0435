#!/usr/bin/env bash
# info --laws: the number of values of quantized layers that depend on the order of roundings.
. "$(dirname "$0")/lib.bash"

make_checkpoint ct --preset T1 --format nvfp4-ct
run 0 info "$work/ct" --laws
for law in $(sed -n 's/^SB_LAW(\([a-z_0-9]*\),.*/\1/p' ref/math/laws.def); do says "$law "; done
says 'mlp.experts.gate_proj (nvfp4-ct)'
says 'together (every kind)'
check "rates that no NVFP4 layer has" awk '
    /^  exact .*differ/ { n++; if ($6 + 0 < 5 || $6 + 0 > 45) bad = 1 }
    END { exit bad || !n }' <(grep -A 12 together "$out")
run 0 info "$work/ct" --laws --json
at command info
matrices=$(value total.matrices)
same "matrices and rows" "$matrices" "$(grep -c '"name"' "$out")"
check "no value differs" test "$(value total.pairs.0.f32)" -gt 0
check "more values differ than there are" test "$(value total.pairs.0.f32)" -lt "$(value total.values)"
at total.pairs.0.laws '["exact","mo_mul"]'

# the laws agree if nothing has to be rounded twice
for format in fp8-block mxfp4; do
    make_checkpoint $format --preset T1 --format $format
    run 0 info "$work/$format" --laws
    says 'so all laws agree'
    says 'the laws agree everywhere'
done
make_checkpoint gptq --preset T1 --format int4-gptq
run 0 info "$work/gptq" --laws
says 'bf16_scale'
make_checkpoint bf16 --preset T1
run 0 info "$work/bf16" --laws
says 'the laws agree everywhere'
# any folder is accepted, also one that is no model of this family
rm "$work/ct/config.json"
refused 3 info "$work/ct"
run 0 info "$work/ct" --laws
refused 3 info "$work/none" --laws
refused 2 info --laws

# info: containers per kind of layer
run 0 info "$work/gptq"
says 'int-gptq'
run 0 info "$work/gptq" --json
check "no containers" grep -q '"container": "int-gptq"' "$out"
finish
