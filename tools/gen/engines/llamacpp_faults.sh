#!/usr/bin/env bash
# Records llama.cpp as it is and with every mistake of tools/record/llamacpp/faults.def, in a mixture, a dense model,
# a Qwen3-Next, a mixture of Qwen3 and a dense Qwen3, and judges the traces: tools/gen/engines/llamacpp_faults.sh OUT [RESULT.json | --golden]
#
# OUT/T1, OUT/T4 and OUT/T5 get the traces. Without RESULT.json the result is golden/engines/inside/llamacpp.json, for
# table.py. --golden only writes the small traces of golden/engines/inside, with the values that tests/cli/engines.sh
# needs. Needs build/llamacpp and build/venv-hf (make engines). Exit status 1 if a mistake is not found at its op.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
out=${1:?usage: tools/gen/engines/llamacpp_faults.sh OUT [RESULT.json | --golden]}
build=${BUILD:-build}
python=$build/venv-hf/bin/python
here=tools/gen/engines
mkdir -p "$out"

checkpoint() { # PRESET
    [ -d "$out/$1-predictable" ] ||
        "${SAMEBIT:-$build/samebit}" make "$out/$1-predictable" --preset "$1" --recipe predictable --tokenizer "${@:2}" > /dev/null
}
small() { # FAULT, patterns of the arrays
    PROMPT=2+1 GENERATE=1 TAPS="${*:2}" "$python" $here/llamacpp_record.py "$out/T5-predictable" "$out/small" 0 "$1"
    rm -rf "golden/engines/inside/llamacpp-T5-$1"
    cp -r "$out/small/$1" "golden/engines/inside/llamacpp-T5-$1"
}
if [ "${2-}" = --golden ]; then
    checkpoint T5
    rm -rf "$out/small"
    norm=(layers.0.attn_residual layers.0.post_attention_layernorm)
    router=(layers.0.post_attention_layernorm layers.0.mlp.gate 'layers.0.mlp.router*')
    conv=(layers.0.linear_attn.in_proj_qkv layers.0.linear_attn.conv state.0.layers.0.linear_attn.conv_state)
    attention=('layers.3.self_attn.*')
    small none "${norm[@]}" "${router[@]}" "${conv[@]}" "${attention[@]}"
    small norm_eps "${norm[@]}"
    small router_second "${router[@]}"
    small conv_state_stale "${conv[@]}"
    small rope_base "${attention[@]}"
    small later_rows "${attention[@]}"
    exit
fi

pairs=() status=0
for preset in T1 T4 T5 T7 T8; do
    options=() drafts=2
    [ $preset != T7 ] || options=(--layers 1) # the converter refuses the dense layer behind it
    checkpoint $preset "${options[@]}"
    case $preset in T5 | T7 | T8) drafts=0 ;; esac # the state of a Qwen3-Next cannot be rolled back; Qwen3 has no head
    "$python" $here/llamacpp_record.py "$out/$preset-predictable" "$out/$preset" $drafts || status=1
    pairs+=("$out/$preset" "$out/$preset-predictable")
done
"$python" $here/faults.py llamacpp "${pairs[@]}" ${2:+--out "$2"} || status=1
exit $status
