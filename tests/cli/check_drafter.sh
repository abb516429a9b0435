#!/usr/bin/env bash
# check and info of EAGLE-3 drafters, alone and for a target. tests/check/faults.def has the planted faults of each check.
source "$(dirname "${BASH_SOURCE[0]}")/lib.bash"

make_checkpoint t4 --preset T4 --recipe predictable --tokenizer
make_checkpoint vl --preset T4 --recipe predictable --layout vl
t4=$work/t4 drafter=golden/drafts/eagle3/llama-10-none

# --- drafters that speculators wrote: no alarm, alone and for their target, from headers and from all bytes ---------
for name in llama-10-none llama-11-norm_before_fc qwen3-01-fc_norm; do
    for target in "" "$t4" "$work/vl"; do
        for more in "" --headers; do
            set -- golden/drafts/eagle3/$name
            [ -z "$target" ] || set -- "$target" --drafter golden/drafts/eagle3/$name
            run 0 check "$@" ${more:+"$more"} --json
            at verdict PASS
            at counts.warn 0
            at checkpoint golden/drafts/eagle3/$name
            at target "${target:-null}"
            at mtp_verdict null
        done
    done
done
run 0 check "$t4" --drafter $drafter --only 60 --json
check "the embedding is not its own" grep -q 'is its own: 384 of 384 rows differ' "$out"
at looked '[60]'
run 4 check $drafter --only 60
says 'needs a target: samebit check CKPT --drafter DIR'
run 0 check $drafter -v
says 'not applicable 10 mtp-presence: the folder is a drafter'
run 4 check "$t4" --only 56,57,58,59,60
run 0 check "$t4" -v
says 'not applicable 58 drafter-vocabulary: the folder is not a drafter'

# --- against another drafter ------------------------------------------------------------------------------------
run 0 check $drafter --against $drafter --json
at counts.warn 0
at against.not_compared 0
copy() { rm -rf "$work/d"; cp -r "${1:-$drafter}" "$work/d"; }
copy
printf '\001' | dd of="$work/d/model.safetensors" bs=1 seek=100000 conv=notrunc status=none
run 1 check "$work/d" --against $drafter --json
check "the changed byte" grep -q '"untouched"' "$out"

# --- all forms of the report --------------------------------------------------------------------------------------
copy
sed -i '/norm_before_residual/d' "$work/d/config.json"
run 1 check "$t4" --drafter "$work/d" --html "$work/p.html" --sarif "$work/p.sarif" --junit "$work/p.xml" --markdown "$work/p.md" \
    --badge "$work/p.svg" --image "$work/i.svg"
says "a drafter for $t4: 4 layers"
says 'ERROR 56 drafter-config'
says 'norm_before_residual is absent: vLLM then takes true'
for file in p.html p.sarif p.xml p.md; do
    check "$file lacks the finding" grep -q 'is absent: vLLM then takes true' "$work/$file"
done
check "the page of a drafter" grep -q 'the folder is an EAGLE-3 drafter' "$work/p.html"
check "the badge names a head" test "$(grep -c MTP "$work/p.svg")" = 0

# --- tokens that the target does not have -------------------------------------------------------------------------
cp -r "$t4" "$work/short"
sed -i 's/: *300\b/: 900/' "$work/short/tokenizer.json"
cmp -s "$t4/tokenizer.json" "$work/short/tokenizer.json" && check "the token is still there" false
run 0 check "$work/short" --drafter $drafter --only 60
says 'd2t: 1 of 288 tokens that are drafted are not in the target'

# --- what is not computed is refused by name ----------------------------------------------------------------------
fails() { # STATUS WORDS
    refused "$1" check "$work/d"
    says_err "$2"
}
edit() { copy; sed -i "$1" "$work/d/config.json"; cmp -s $drafter/config.json "$work/d/config.json" && check "nothing was edited by $1" false; }
edit 's/"num_hidden_layers": 1/"num_hidden_layers": 2/'
fails 3 'num_hidden_layers is 2, which is not computed'
edit 's/"attention_bias": false/"attention_bias": true/'
fails 3 'attention_bias is set, which is not computed'
edit 's/"rope_type": "default"/"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 64/'
fails 3 'rope_type is "yarn", which is not read in a drafter'
edit 's/"hidden_act": "silu"/"hidden_act": "gelu"/'
fails 3 'hidden_act is "gelu", which is not computed'
edit 's/"fc_norm": false/"fc_norm": false, "quantization_config": {"quant_method": "fp8"}/'
fails 3 'quantization_config is set, which is not computed'
copy
sed -i 's/"layers\.0\.hidden_norm\.weight"/"mask_hidden"                /' "$work/d/model.safetensors"
refused 3 check "$work/d"
says_err 'mask_hidden belongs to a parallel drafter'
for flag in use_aux_hidden_state use_input_layernorm_in_first_layer use_last_layernorm; do
    copy
    cat > "$work/d/config.json" << J
{"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "hidden_size": 128, "vocab_size": 384,
 "draft_vocab_size": 288, "intermediate_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32,
 "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "hidden_act": "silu", "eagle_config": {"$flag": false}}
J
    fails 3 "eagle_config.$flag is false, which is not computed"
done
sed -i 's/"use_last_layernorm": false/"parallel_draft_step": 4/' "$work/d/config.json"
fails 3 'eagle_config.parallel_draft_step is set, which is not computed'
sed -i 's/"parallel_draft_step": 4/"parallel_draft_step": 1/' "$work/d/config.json"
run 0 check "$work/d"

# --- wrong use ----------------------------------------------------------------------------------------------------
refused 2 check "$t4" --drafter $drafter --need mtp
says_err '--need asks for something else'
refused 2 check "$t4" --drafter $drafter --against "$t4"
refused 3 check "$t4" --drafter "$t4"
says_err 'architectures is not that of a drafter'
refused 3 check $drafter --drafter $drafter
says_err 'is a drafter itself'
refused 3 check "$t4" --drafter "$work/nothing"

# --- info ---------------------------------------------------------------------------------------------------------
run 0 info $drafter --json
at drafter.dialect speculators
at drafter.layer.type llama
at drafter.after_layers '[1,2,4]'
at drafter.draft_vocab_size 288
at drafter.norm_before_residual true
at drafter.embedding own
at drafter.parameters $(((405120 - 8 * 288 - 384) / 2)) # without the maps
run 0 info golden/drafts/eagle3/qwen3-01-fc_norm
says 'one layer of type qwen3'
says 'reads 3 states of 128, after 1, 2, 4 layers of its target'
says 'fc_norm true'
run 0 info "$work/d"
says 'after 2, L/2 and L - 3 layers'
finish
