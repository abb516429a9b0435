#!/usr/bin/env bash
# run --step: whole calls of a run as steps (docs/gpu.md). Every line of output is that of the same run op by op, over
# presets, profiles, drafts, samplers, both rules of acceptance, and states from elsewhere. What a step cannot compute
# goes op by op, with a note.
. "$(dirname "$0")/lib.bash"

make_checkpoint t4 --preset T4 --recipe predictable --format nvfp4-ct
if ! "$SAMEBIT" run "$work/t4" --tokens 1 -n 0 --backend emu > "$out" 2> "$err"; then
    skip "steps on the emulator" "$(cat "$err")"
    finish
fi

# both CHECKPOINT OPTION...: op by op and as steps
both() {
    local folder=$work/$1
    shift
    run 0 run "$folder" --backend emu "$@" --json
    check "a run op by op says otherwise" grep -q '"step": false' "$out"
    grep -v '^ *"step":' "$out" > "$work/by_op"
    run 0 run "$folder" --backend emu --step "$@" --json
    check "a run on steps says otherwise" grep -q '"step": true' "$out"
    check "a note about a run that is on steps" test ! -s "$err"
    grep -v '^ *"step":' "$out" > "$work/on_step"
    check "steps give other results: $*" cmp "$work/by_op" "$work/on_step"
    check "nothing was compared" grep -q '"logits_digest"' "$work/on_step"
}

# --- profiles, drafts, samplers -------------------------------------------------------------------------------
greedy=(--tokens 1,2,3 -n 5)
sampled=("${greedy[@]}" --seed 42 --temp 6 --top-k 40 --top-p 0.95)
both t4 "${greedy[@]}" --profile sm121
both t4 "${greedy[@]}" --profile sm121-w4a4 --draft 3
both t4 "${greedy[@]}" --profile sm121 --draft 2,0,3 --force-accept 1,0,3 --logits "$work/logits.npy"
both t4 "${sampled[@]}" --profile sm121 --draft 1
both t4 "${sampled[@]}" --profile sm121-w4a4 --draft 2 --accept-mode residual
both t4 --tokens 5,6 -n 1 --profile sm121 --set kv_cache=fp8
echo '7,9' > "$work/drafts"
both t4 "${greedy[@]}" --profile sm121 --draft-file "$work/drafts"
# several sequences, the second longer than the first
printf '1,2\n3,1,4,1,5\n' > "$work/two"
both t4 --tokens-file "$work/two" -n 3 --profile sm121 --draft 1
# rows of a prompt that a step has no logits for
"$SAMEBIT" run "$work/t4" --backend emu --step --tokens 1,2,3,4,5 -n 2 --profile sm121 --logits "$work/a.npy" > "$out"
"$SAMEBIT" run "$work/t4" --backend emu --tokens 1,2,3,4,5 -n 2 --profile sm121 --logits "$work/b.npy" > "$out"
check "the logits of a prompt" cmp "$work/a.npy" "$work/b.npy"
check "the order of threads" test "$("$SAMEBIT" run "$work/t4" --backend emu:3 --step "${greedy[@]}" --profile sm121 --draft 2)" = \
    "$("$SAMEBIT" run "$work/t4" --backend emu "${greedy[@]}" --profile sm121 --draft 2)"

# --- presets and formats ----------------------------------------------------------------------------------------
# case NAME PRESET FORMAT PROFILE OPTION...
case_of() {
    local name=$1 preset=$2 format=$3 profile=$4
    shift 4
    make_checkpoint "$name" --preset "$preset" --format "$format" --recipe predictable --layers 4
    both "$name" --tokens 1,2,3 -n 4 --profile "$profile" "$@"
    rm -rf "${work:?}/$name"
}
case_of t1 T1 fp8-block sm121-w8a8 --draft 3
case_of t3 T3 nvidia-mix sm121-w8a8 --draft 1 --temp 3 --accept-mode residual
case_of t5 T5 int4-gptq sm121 --draft 2
if [ "${CHECK_ALL:-0}" = 1 ]; then
    for preset in T1 T2 T3 T4 T5 T6; do
        for drafts in 0 1 2 3; do
            group=$([ $preset = T6 ] && echo '--group-size 32')
            make_checkpoint all --preset $preset --format nvfp4-ct --recipe predictable --replace
            for profile in sm121 sm121-w4a4; do
                both all "${greedy[@]}" --profile $profile --draft $drafts
                both all "${sampled[@]}" --profile $profile --draft $drafts
            done
            # shellcheck disable=SC2086 # no option, or two words
            make_checkpoint all --preset $preset --format fp8-block --recipe predictable --replace $group
            both all "${greedy[@]}" --profile sm121-w8a8 --draft $drafts
        done
    done
fi

# --- states ------------------------------------------------------------------------------------------------------
run 0 run "$work/t4" "${greedy[@]}" --profile sm121 --state-out "$work/state"
both t4 --state-in "$work/state" --tokens 7 -n 4 --profile sm121 --draft 2
both t4 --state-in "$work/state" --tokens 7,8 -n 2 --profile sm121
run 0 run "$work/t4" "${greedy[@]}" --profile sm121 --set kv_cache=fp8 --state-out "$work/fp8"
both t4 --state-in "$work/fp8" --tokens 7 -n 2 --profile sm121 --set kv_cache=fp8 --draft 1

# a state that steps computed is that of ops, and both continue it; the reference does not
for way in step no-step; do
    run 0 run "$work/t4" "${greedy[@]}" --profile sm121 --backend emu --$way --draft 2 --state-out "$work/$way"
done
check "states of steps and of ops" cmp "$work/step" "$work/no-step"
run 0 state info "$work/step" --json
at kernels true
both t4 --state-in "$work/step" --tokens 7 -n 3 --profile sm121 --draft 1
refused 3 run "$work/t4" --state-in "$work/step" --tokens 7 --profile sm121
says_err 'was computed by kernels'
# a run in two parts is one run
run 0 run "$work/t4" "${greedy[@]}" --profile sm121 --backend emu --step --json
first=$(value tokens)
run 0 run "$work/t4" --tokens 1,2,3 -n 3 --profile sm121 --backend emu --step --state-out "$work/part" --json
tokens=$(value tokens)
last=${tokens##*,}
run 0 run "$work/t4" --state-in "$work/part" --tokens "${last//[^0-9]/}" -n 2 --profile sm121 --backend emu --step --json
same "a run in two parts" "${first//[^0-9,]/}" "$(echo "$tokens,$(value tokens)" | tr -cd '0-9,')"
run 0 run "$work/t4" "${greedy[@]}" --backend emu --state-out "$work/exact"
run 0 state info "$work/exact" --json
at kernels false

# --- op by op, with a note -----------------------------------------------------------------------------------------
# op_by_op REASON OPTION...
op_by_op() {
    local reason=$1
    shift
    run 0 run "$work/t4" --backend emu --tokens 1,2 -n 2 --step --json "$@"
    says_err "note: the run goes op by op, not in steps: $reason"
    at step false
    check "no reason in the document" grep -q "\"step_refused\": \"$reason" "$out"
}
op_by_op '--trace records taps' --profile sm121 --trace "$work/trace"
op_by_op 'the kernels do not compute' --profile exact
op_by_op 'the rounds roll back by replay' --profile sm121 --draft 1 --rollback replay
op_by_op 'the rounds roll back by replay' --profile sm121 --draft 1 --set delta_rule=chunk_fla
run 0 run "$work/t4" --backend emu --tokens 1,2 -n 1 --no-step --profile sm121 --json
at step false
check "a reason without a wish" test "$(grep -c step_refused "$out")" = 0

# --- wrong use --------------------------------------------------------------------------------------------------
refused 2 run "$work/t4" --tokens 1 --backend emu --step --no-step
says_err 'exclude each other'
for way in step no-step; do
    refused 2 run "$work/t4" --tokens 1 --backend ref --$way
    says_err 'expected --backend emu or gpu, found ref'
done
finish
