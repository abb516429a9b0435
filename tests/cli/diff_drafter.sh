#!/usr/bin/env bash
# diff --drafter DIR: the drafts and the ops of EAGLE-3 drafters; engines that are right pass, drafters with another flag,
# another state or another map fail where they differ; a folder that is not given; wrong use.
. "$(dirname "$0")/lib.bash"

make_checkpoint t4 --preset T4 --recipe predictable --no-mtp
t4=$work/t4 tokens=1,2,3,4,5 drafters=golden/drafts/eagle3
llama=$drafters/llama-10-none qwen3=$drafters/qwen3-01-fc_norm before=$drafters/llama-11-norm_before_fc

# record NAME DRAFTER OPTION...: a trace with every value, of a right engine of this program
record() {
    local name=$1 drafter=$2
    shift 2
    rm -rf "${work:?}/$name"
    run 0 run "$t4" --backend sim:pairwise --tokens $tokens -n 12 --draft 3,1,2 --drafter "$drafter" --trace "$work/$name" "$@"
}
# judged: no value of the drafter was left out, and the drafts are the same
judged() {
    check "something was not judged" test -z "$(grep -E '[0-9] not judged|never judged' "$out")"
    check "no acceptance by depth" grep -q '^  draft 3: reference [0-9]* of [0-9]*, engine' "$out"
    check "no acceptance" grep -Eq '^acceptance: reference ([0-9]+) of ([0-9]+) drafts, engine \1 of \2$' "$out"
}

# --- engines that are right -----------------------------------------------------------------------------------------
record right $llama --taps 'all,state.*'
run 0 trace "$work/right" --checkpoint "$t4"
says 'drafter eagle3'
says 'drafter.states, drafter.fc, drafter.hidden'
run 0 diff "$t4" --engine "$work/right" --drafter $llama
judged
run 0 diff "$t4" --engine "$work/right" --drafter $llama --json
at verdict WITHIN
check "not the same drafts" test "$(value by_depth.2.ref)" = "$(value by_depth.2.engine)"
record qwen3 $qwen3 --taps 'all,state.*' --profile hf --rollback replay
run 0 diff "$t4" --engine "$work/qwen3" --drafter $qwen3
judged
run 0 diff "$t4" --engine sim:flash --tokens $tokens -n 12 --draft 3 --drafter $before
judged
run 0 diff "$t4" --engine sim:lanes16 --tokens $tokens -n 12 --draft 3 --drafter $before --profile vllm
judged
# drafts that were drawn; a trace without the values of ops
record drawn $qwen3 --temp 0.8 --accept-mode residual
run 0 trace "$work/drawn"
says 'drafter eagle3-sampled'
run 0 diff "$t4" --engine "$work/drawn" --drafter $qwen3 --json
at ways free
at first_failure null
# the folder is not given
run 0 diff "$t4" --engine "$work/right"
says 'an EAGLE-3 drafter made the drafts, and its folder is not given'

# --- drafters that are wrong: the first failure is the first wrong value ----------------------------------------------
wrong() { # DRAFTER PATTERN REPLACEMENT TAP OPTION...
    local drafter=$1 pattern=$2 replacement=$3 tap=$4
    shift 4
    rm -rf "$work/d"
    cp -r "$drafter" "$work/d"
    sed -i "s/$pattern/$replacement/" "$work/d/config.json"
    check "nothing was edited by $pattern" test -n "$(cmp "$drafter/config.json" "$work/d/config.json")"
    record wrong "$work/d" --taps all
    run 1 diff "$t4" --engine "$work/wrong" --drafter "$drafter" --json "$@"
    at first_failure.tap "$tap"
    at first_failure.layer drafter.0
}
wrong $llama '"norm_before_residual": true' '"norm_before_residual": false' drafter.layers.0.attn_residual
wrong $llama '^    1,' '    0,' drafter.states
wrong $llama '"rope_theta": 10000.0' '"rope_theta": 1000000.0' drafter.layers.0.self_attn.q_rope
wrong $qwen3 '"norm_output": true' '"norm_output": false' drafter.hidden
# the same with the drafts and their logits alone
rm -rf "$work/wrong"
record wrong "$work/d"
run 1 diff "$t4" --engine "$work/wrong" --drafter $qwen3 --json
at first_failure.op draft
at first_failure.tap drafter.logits
# another drafter's folder
run 1 diff "$t4" --engine "$work/right" --drafter $before --forced --json
at first_failure.layer drafter.0

# --- wrong use --------------------------------------------------------------------------------------------------------
refused 2 diff "$t4" --engine "$work/right" --drafter nobody
says_err "expected own, sampled, external or the folder of an EAGLE-3 drafter"
refused 2 diff "$t4" --engine sim:flash --tokens $tokens --drafter $llama
says_err "--drafter applies to drafts; expected --draft as well"
refused 2 diff "$t4" --engine sim:flash --tokens $tokens --draft 2 --drafter own
says_err "--drafter has no effect here"
refused 3 diff "$t4" --engine "$work/right" --drafter "$t4"
says_err 'architectures is not that of a drafter'
finish
