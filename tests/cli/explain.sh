#!/usr/bin/env bash
# What --explain says about planted faults: in one layer, head, expert, token or kind of call, and everywhere; in several
# models, formats, profiles and levels. A fault is named if a sentence "behaves like" names it, and a sentence that names
# another one is wrong. CHECK_ALL=1 tries all faults, otherwise a few; COUNT=1 prints the outcome of each.
. "$(dirname "$0")/lib.bash"
export TMPDIR=$work
all=${CHECK_ALL-}
declare -A outcomes=([named]=0 [nearest]=0 [silent]=0 [wrong]=0)

# Faults that are the same change of the same values, or cannot be told apart by the data of these runs: name, others.
alike="no_dt_bias gates.dropped
last_column_lost linear.dropped batch_path
gate_up_swapped weights_swapped
attention.head kv_map_mod"
is_alike() { # is_alike EXPECTED FOUND
    [ "$1" = "$2" ] || grep -qE "(^| )$1( |$)" <<< "$(grep -E "(^| )$2( |$)" <<< "$alike")"
}

# judged NAME EXPECTED: counts the outcome of the document on stdout. EXPECTED: changes, one of which is right, divided
# by |; none: the list does not know the fault, and any name is wrong
judged() {
    local name=$1 expected=$2 count i found outcome=silent one
    count=$(value explanations.length)
    for ((i = 0; i < count; i++)); do
        if [ "$(value "explanations.$i.fits")" != true ]; then
            [ $outcome = silent ] && outcome=nearest
            continue
        fi
        found=$(value "explanations.$i.change")
        found=${found#mistake } found=${found%% *}
        right=
        IFS='|' read -ra names <<< "$expected"
        for one in "${names[@]}"; do is_alike "$one" "$found" && right=1; done
        if [ -z "$right" ]; then outcome=wrong; elif [ $outcome != wrong ]; then outcome=named; fi
    done
    outcomes[$outcome]=$((outcomes[$outcome] + 1))
    [ -z "${COUNT-}" ] || printf '%-8s %s: %s\n' "$outcome" "$name" "$(value explanations | tr -d '\n')"
    last_outcome=$outcome
    check "$name: a wrong explanation" test $outcome != wrong
}

# planted NAME EXPECTED ARG...: a fault in an engine of this program
planted() {
    local name=$1 expected=$2
    shift 2
    run 1 diff "$@" --explain --json
    judged "$name" "$expected"
}
named() {
    planted "$@"
    check "$1: not named" test "$last_outcome" = named
}

# --- sentences that were wrong --------------------------------------------------------------------------------
# Each of these faults was once said to be another one: flash attention, another softplus, the first token of the head
# paired with zeros, b of the next head, the least probable experts.
make_checkpoint t4 --preset T4 --recipe mistakes --layers 4
t4=$work/t4 some=(--tokens 1,2,3,4,5,6 -n 1) with_drafts=(--tokens 1,2,3,4,5 -n 6 --draft 2)
e=sim:sequential
named 'scale of scores' scores_unscaled "$t4" --engine $e+scores_unscaled "${some[@]}"
named 'no mask' mask_missing "$t4" --engine $e+mask_missing "${some[@]}"
named 'a window' window_4 "$t4" --engine $e+window_4 "${some[@]}"
named 'dt in bf16' dt_bf16 "$t4" --engine $e+dt_bf16 "${some[@]}"
named 'a and b exchanged' ab_swapped "$t4" --engine $e+ab_swapped "${some[@]}"
make_checkpoint t1 --preset T1 --recipe mistakes --layers 4
named 'the second-best expert' second_best "$work/t1" --engine $e+second_best "${some[@]}"
named 'order of mtp.fc' concat_order "$t4" --engine $e+concat_order "${with_drafts[@]}"
named 'norms of the head' norms_swapped "$t4" --engine $e+norms_swapped "${with_drafts[@]}"
named 'hidden vector of the head' mtp_hidden=residual "$t4" --engine $e --engine-set mtp_hidden=residual "${with_drafts[@]}"
# known, and once not named
named 'state in bf16' state_bf16 "$t4" --engine $e+state_bf16 "${some[@]}"
named 'gate and up weights' weights_swapped "$t4" --engine $e+weights_swapped "${some[@]}"
# a mistake of one head, and one of no list
at_site() { # at_site NAME: the checkpoint and the trace of a row of sites.def in $folder
    folder=$work/$1
    run 0 fault "at.$1" --write "$folder" --json
}
sited() { # sited NAME EXPECTED ARG...
    local name=$1 expected=$2
    shift 2
    at_site "$name"
    planted "$name" "$expected" "$folder/checkpoint" --engine "$folder/trace" "$@"
    rm -rf "$folder"
}
sited attention-scale-head scores_unscaled
at explanations.0.change 'mistake scores_unscaled layer=3 part=2/4'
at explanations.0.words 'behaves like a mistake: scores are not multiplied by hd^-1/2; only in layer 3, in columns 128 to 191'
check "one head is not named" test "$last_outcome" = named
sited expert-down linear.sign
at explanations.0.change 'mistake linear.sign layer=1 tap=mlp.experts.down_proj expert=5'
sited router-lost-layer router.dropped
sited attention-own-token newest_unseen
at explanations.0.change 'mistake newest_unseen layer=3 token=10'
# every op is right, and a round left a wrong state: no mistake of an op, and the one of the round is named
run 0 fault F08 --write "$work/F08" --json
run 1 diff "$work/F08/checkpoint" --engine "$work/F08/trace" --explain --json
at explanations.length 0
check "the rollback is not named" grep -q 'the recurrent states are read from the first slot' "$out"
run 1 diff "$work/F08/checkpoint" --engine "$work/F08/trace" --forced --explain
says 'the recurrent states are read from the first slot'
# an op fails before the first round: no round is said to have failed
run 1 diff "$t4" --engine $e+taps_reversed "${with_drafts[@]}" --explain
check "a round without a failure of its own" test "$(grep -c 'no known mistake of a rollback' "$out")" = 0
# a correct engine has no explanation
run 0 diff "$t4" --engine $e "${some[@]}" --explain --json
at explanations.length 0

# --- all faults that are planted at one place, and more everywhere ----------------------------------------------
if [ "$all" = 1 ]; then
    while IFS=$'\t' read -r name expected; do
        sited "$name" "$expected"
    done < <(sed -nE 's/^SB_SITED\("([^"]*)", (op|mistake|special), "([^"]*)".*/\1\t\3/p' tools/judge/fault/lists/sites.def)
    make_checkpoint t5 --preset T5 --recipe mistakes --layers 4
    make_checkpoint fp4 --preset T3 --format nvfp4-ct --layers 4
    make_checkpoint fp8 --preset T4 --format fp8-block --layers 4
    make_checkpoint int4 --preset T4 --format int4-awq --layers 4
    everywhere() { planted "$1 $2 ${4-}" "$2" "$work/$1" --engine "$3+$2" "${some[@]}" ${4-}; }
    for fault in head_map_mod taps_reversed query_unscaled decay_after_prediction gate_before_norm gates.head conv.plus; do
        everywhere t1 $fault sim:pairwise
    done
    for fault in neighbour_pairs rotate_all rope.sign gate_is_silu halves_swapped swiglu.sign residual_lost; do
        everywhere t5 $fault sim:lanes8
    done
    for fault in norm_plain_weight last_column_lost no_renormalisation shared_gate_missing oldest_unseen; do
        everywhere fp4 $fault sim:fma
    done
    for fault in embed.plus router.plus slots_reversed scaled_twice l2norm.minus; do
        everywhere fp8 $fault sim:backward '--profile vllm'
    done
    for fault in kv_map_mod gated_norm_one_plus weights_swapped state_kept_whole; do
        everywhere int4 $fault sim:sequential '--profile hf'
    done
    # other levels: outputs alone, states, fewer taps
    for fault in taps_reversed head_map_mod no_dt_bias gate_up_swapped ab_swapped mask_missing; do
        everywhere t1 $fault sim:sequential '--free'
        everywhere t1 $fault sim:sequential '--taps logits'
        everywhere t1 $fault sim:sequential '--taps layers.*,logits'
    done
    for setting in beta=f32 norm_input=sum swiglu=f32 rope_table=f32 gated_norm=f32 conv_sum=f32; do
        planted "hf $setting" $setting "$t4" --engine $e --profile hf --engine-set $setting "${some[@]}"
    done
fi
total=$((outcomes[named] + outcomes[nearest] + outcomes[silent] + outcomes[wrong]))
echo "$total faults: ${outcomes[named]} named, ${outcomes[nearest]} nearest, ${outcomes[silent]} silent, ${outcomes[wrong]} wrong"
finish
