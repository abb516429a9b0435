#!/usr/bin/env bash
# Traces of transformers (golden/trace, tools/record/hf_traces.sh) against the reference: within the bounds; a choice
# that was changed on purpose is named. TRACES names another folder (`make crosscheck`).
. "$(dirname "$0")/lib.bash"
traces=${TRACES:-golden/trace}

for preset in T1 T4 T5; do
    run 0 make "$work/$preset" --preset $preset --recipe mistakes --seed 42
    for type in f32 bf16; do
        case $type in f32) profile=exact ;; bf16) profile=hf ;; esac
        run 0 diff "$work/$preset" --engine "$traces/$preset-$type" --profile $profile
        says "tokens: "
        check "$preset-$type is within, or next to a tie" grep -qE '^(IDENTICAL|WITHIN|NEAR_TIE)' "$out"
    done
done
# the profile of the other type is another arithmetic
run 1 diff "$work/T4" --engine "$traces/T4-bf16" --profile exact
says "first failure: token 0, layer 0"

run 1 diff "$work/T1" --engine "$traces/T1-eager" --profile hf --explain
says "first failure: token 0, layer 0, moe_combine"
says "moe_sum=eager"
run 1 diff "$work/T1" --engine "$traces/T1-weights" --profile hf --explain
says "first failure: token 0, layer 0, router"
says "router_weight=f32"
finish
