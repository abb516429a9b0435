#!/usr/bin/env bash
# run with --drafter DIR: EAGLE-3 drafters that speculators trained for T4 (golden/drafts/eagle3), and drafters that do not fit.
source "$(dirname "${BASH_SOURCE[0]}")/lib.bash"

make_checkpoint t4 --preset T4 --recipe predictable
make_checkpoint bare --preset T4 --recipe predictable --no-mtp
t4=$work/t4 tokens=1,2,3,4,5

# --- the tokens stay, whatever the drafter guesses --------------------------------------------------------------
for profile in exact hf; do
    run 0 run "$t4" --tokens $tokens -n 24 --profile $profile --json
    plain=$(value tokens) logits=$(value logits_digest) state=$(value state_digest.target)
    for drafter in llama-10-none llama-11-norm_before_fc qwen3-01-fc_norm; do
        for k in 3 2,0,4; do
            run 0 run "$t4" --tokens $tokens -n 24 --profile $profile --draft $k --drafter golden/drafts/eagle3/$drafter --json
            at tokens "$plain"
            [ $profile = hf ] || at logits_digest "$logits"
            [ $profile = hf ] || at state_digest.target "$state"
            accepted=$(value acceptance.accepted) drafted=$(value acceptance.drafted)
            check "$drafter accepts $accepted of $drafted" test "$accepted" -ge $((drafted / 4)) -a "$accepted" -lt "$drafted"
        done
    done
done
# both ways back leave the same drafts; the head of the target is not needed
drafter=golden/drafts/eagle3/llama-10-none
run 0 run "$t4" --tokens $tokens -n 24 --draft 3 --drafter $drafter --json
rounds=$(value rounds)
run 0 run "$t4" --tokens $tokens -n 24 --draft 3 --drafter $drafter --rollback replay --json
at rounds "$rounds"
run 0 run "$work/bare" --tokens $tokens -n 24 --draft 3 --drafter $drafter --json
at rounds "$rounds"
SAMEBIT_ISA=exact run 0 run "$work/bare" --tokens $tokens -n 24 --draft 3 --drafter $drafter --json
at rounds "$rounds"
# sampled: the tokens of the sampler
run 0 run "$t4" --tokens $tokens -n 16 --temp 0.9 --json
plain=$(value tokens)
run 0 run "$t4" --tokens $tokens -n 16 --temp 0.9 --draft 3 --drafter $drafter --json
at tokens "$plain"
# residual acceptance: temperature 0 gives the greedy tokens; above it, accepted drafts and others
run 0 run "$t4" --tokens $tokens -n 24 --draft 3 --drafter $drafter --accept-mode residual --json
at rounds "$rounds"
run 0 run "$t4" --tokens $tokens -n 48 --temp 3 --draft 3 --drafter $drafter --accept-mode residual --json
check "nothing is accepted" test "$(value acceptance.accepted)" -gt 0 -a "$(value acceptance.accepted)" -lt "$(value acceptance.drafted)"
# forced rounds draft and roll back as any others
run 0 run "$t4" --tokens $tokens -n 12 --draft 3 --force-accept 3,0,1 --drafter $drafter --json
at rounds.0.accepted 3
at rounds.1.accepted 0
# a trace says that an EAGLE-3 drafter made the drafts; without its folder they are taken as given
run 0 run "$t4" --backend sim:pairwise --tokens $tokens -n 12 --draft 3 --drafter $drafter --trace "$work/trace"
check "the drafter is not declared" grep -q '"drafter": "eagle3"' "$work/trace/trace.json"
run 0 diff "$t4" --engine "$work/trace" --free --json
at verdict WITHIN

# --- accept: the counters of an engine that wrote the text --------------------------------------------------------
run 0 run "$work/bare" --tokens $tokens -n 24 --draft 3 --drafter $drafter --json
counts="$(value acceptance.rounds) $(value acceptance.drafted) $(value acceptance.accepted)"
echo "$tokens,$(value tokens | tr -d '[] \n')" > "$work/text"
read -r a b c <<< "$counts"
printf 'vllm:spec_decode_num_%s_total %s\n' drafts "$a" draft_tokens "$b" accepted_tokens "$c" > "$work/metrics"
run 0 accept "$work/bare" --tokens-file "$work/text" -K 3 --drafter $drafter --given 5 --observed "$work/metrics" --json
at observed.verdict EQUAL
at drafter $drafter
printf '%s\n' "$(cat "$work/text")" 7,8,9 "$(cat "$work/text")" > "$work/texts"
run 0 accept "$work/bare" --tokens-file "$work/texts" -K 3 --drafter $drafter --json
at positions.0.drafts "$(value positions.30.drafts)"
run 0 accept "$work/bare" --tokens-file "$work/text" -K 3 --drafter $drafter
says '28 positions, 3 drafts at each'
check "drafts at some positions only" grep -qx "drafter $drafter" "$out"
run 1 accept "$work/bare" --tokens-file "$work/text" -K 3 --drafter golden/drafts/eagle3/qwen3-01-fc_norm --given 5 --observed "$work/metrics"
refused 2 accept "$work/bare" --tokens-file "$work/text" -K 3 --given 5 --observed "$work/metrics"

# --- drafters that do not fit -----------------------------------------------------------------------------------
copy() { rm -rf "$work/d"; cp -r $drafter "$work/d"; }
edit() { copy; sed -i "$1" "$work/d/config.json"; cmp -s $drafter/config.json "$work/d/config.json" && check "nothing was edited by $1" false; }
fails() { # STATUS WORDS
    refused "$1" run "$t4" --tokens $tokens -n 2 --draft 2 --drafter "$work/d"
    says_err "$2"
}
edit '/norm_before_residual/d'
fails 3 'norm_before_residual is absent: vLLM then takes true, and speculators false'
edit 's/"model_type": "llama",//'
fails 3 'model_type is absent'
edit 's/"target_hidden_size": 128/"target_hidden_size": 256/'
fails 3 'is for a target of hidden_size 256 and vocab_size 384; this one has 128 and 384'
edit 's/"num_hidden_layers": 1/"num_hidden_layers": 2/'
fails 3 'num_hidden_layers is 2, which is not computed'
edit 's/"norm_before_fc": false/"norm_before_fc": true/'
fails 3 'tensor input_norm.weight is missing'
edit 's/"model_type": "llama"/"model_type": "qwen3"/'
fails 3 'tensor layers.0.self_attn.q_norm.weight is missing'
edit 's/"draft_vocab_size": 288/"draft_vocab_size": 287/'
fails 3 'tensor lm_head.weight has shape [288, 128]; expected [287, 128] from config.json'
edit 's/^    4$/    5/'
fails 3 'state 2 is taken after 5 layers of a target of 4'
edit 's/"attention_bias": false/"attention_bias": true/'
fails 3 'attention_bias is set, which is not computed'
edit 's/"rope_type": "default"/"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 64/'
fails 3 'rope_type is "yarn", which is not read in a drafter'
copy
cp -r golden/drafts/eagle3/llama-11-norm_before_fc/model.safetensors "$work/d/"
fails 3 'tensor input_norm.weight is there, but config.json has no flag for it'
copy
sed -i 's/layers\.0\.hidden_norm/layers.0.hidden_gone/' "$work/d/model.safetensors"
fails 3 'hidden_norm.weight is missing'
rm -rf "$work/d" && mkdir "$work/d" && cp "$t4"/* "$work/d/"
fails 3 'architectures is not that of a drafter'
refused 2 run "$t4" --tokens $tokens -n 2 --draft 2 --drafter "$work/nothing"

# --- states: a run that continues has the drafts of an unbroken one ---------------------------------------------
run 0 make "$work/other" --preset T4 --recipe predictable --drafter eagle3
run 0 make "$work/flags" --preset T4 --recipe predictable --drafter eagle3
sed -i 's/"norm_output": false/"norm_output": true/' "$work/flags/config.json"
for drafter in golden/drafts/eagle3/llama-10-none golden/drafts/eagle3/qwen3-01-fc_norm "$work/other"; do
    # cut behind every round
    run 0 run "$t4" --tokens $tokens -n 24 --draft 3 --drafter "$drafter" --json
    target=$(value state_digest.target) entries=$(value state_digest.drafter) said=$(value tokens)
    for n in 1 2 4 7 12; do
        run 0 run "$t4" --tokens $tokens -n $n --draft 3 --drafter "$drafter" --state-out "$work/half" --json
        first=$(value tokens) digest=$(value state_digest.drafter)
        run 0 state info "$work/half" --json
        at state_digest.drafter "$digest"
        at drafter.entries $((n + 3))
        # the same entries as those of the same tokens without drafts: rejected drafts leave no trace
        fed=$(echo "$tokens,$(echo "$first" | tr -d '[] ')" | sed 's/,[^,]*$//')
        run 0 state save "$t4" --tokens "$fed" --drafter "$drafter" -o "$work/plain" --json
        at state_digest.drafter "$digest"
        run 0 state diff "$work/half" "$work/plain"
        says IDENTICAL
        run 0 run "$t4" --tokens "$(echo "$first" | tr -d '[] ' | sed 's/.*,//')" -n $((24 - n)) --draft 3 --drafter "$drafter" --state-in "$work/half" --json
        at state_digest.drafter "$entries"
        at state_digest.target "$target"
        same "$drafter: other tokens after $n" "$(echo "$first" | tr -d '[] '),$(value tokens | tr -d '[] ')" "$(echo "$said" | tr -d '[] ')"
    done
done
# drafts, too: a round without drafts feeds one token, as a run that continues does
run 0 run "$t4" --tokens $tokens -n 24 --draft 3,0,3,3,3,3,3,3 --drafter "$drafter" --json
end=$((2 + $(value rounds.0.accepted))) third=$(value rounds.2)
run 0 run "$t4" --tokens $tokens -n $end --draft 3 --drafter "$drafter" --state-out "$work/half" --json
last=$(value tokens | tr -d '[] ' | sed 's/.*,//')
run 0 run "$t4" --tokens "$last" -n $((24 - end)) --draft 3 --drafter "$drafter" --state-in "$work/half" --json
same "drafts after a state" "$(value rounds.0)" "$third"
run 0 state save "$t4" --tokens 7,8 --drafter "$drafter" --continue "$work/half" -o "$work/longer" --json
at drafter.entries "$((end + 5))"

# a state belongs to its drafter
for words in "run $t4 --tokens 3 -n 2 --draft 2 --state-in $work/half" "state save $t4 --tokens 3 -o $work/never --continue $work/half"; do
    # shellcheck disable=SC2086
    refused 3 $words --drafter golden/drafts/eagle3/llama-10-none
    says_err 'has entries of the drafter with the digest'
    # shellcheck disable=SC2086
    refused 3 $words --drafter "$work/flags"
    says_err 'belongs to a model with norm_output=0, but this one has norm_output=1'
    # shellcheck disable=SC2086
    run 0 ${words/--draft 2/}
    says_err 'leaves them out'
done
run 0 run "$t4" --tokens $tokens -n 2 --state-out "$work/state"
refused 2 run "$t4" --tokens 36 -n 2 --draft 2 --drafter "$drafter" --state-in "$work/state"
says_err 'has no entries of the drafter'
# without its entries the state is that of a run without a drafter
run 0 run "$t4" --tokens 3 -n 2 --state-in "$work/half" --state-out "$work/dropped"
refused 2 run "$t4" --tokens 36 -n 2 --draft 2 --drafter "$drafter" --state-in "$work/dropped"
run 1 state diff "$work/half" "$work/plain"
says 'drafter'

drafter=golden/drafts/eagle3/llama-10-none
# --- the other dialect: the same weights, numbers counted from layer 0 --------------------------------------------
copy
sed -i 's/layers\.0\./midlayer./g; s/"midlayer\./"midlayer./g' "$work/d/model.safetensors"
cat > "$work/d/config.json" << 'J'
{"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "hidden_size": 128, "vocab_size": 384,
 "draft_vocab_size": 288, "intermediate_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32,
 "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "hidden_act": "silu", "norm_before_residual": true,
 "eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1, 3]}}
J
run 0 run "$t4" --tokens $tokens -n 24 --draft 3 --drafter "$work/d" --json
at rounds "$rounds"
sed -i 's/\[0, 1, 3\]/[0, 1, 2]/' "$work/d/config.json"
run 0 run "$t4" --tokens $tokens -n 24 --draft 3 --drafter "$work/d" --json
check "a state of another layer changes nothing" test "$(value rounds)" != "$rounds"
finish
