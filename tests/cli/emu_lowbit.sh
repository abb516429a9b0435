#!/usr/bin/env bash
# Whole models with quantized layer inputs on the kernels: every op is within its bound, with drafts and in both
# profiles; under another arithmetic, the failing op is named; a row has the same bits in a prompt, in a step and in a
# verify of any width.
. "$(dirname "$0")/lib.bash"

make_checkpoint fp4 --preset T1 --format nvfp4-ct --layers 4
make_checkpoint fp8 --preset T1 --format fp8-block --layers 4
make_checkpoint static --preset T1 --format fp8-tensor --layers 2
make_checkpoint token --preset T1 --format fp8-channel --layers 2
make_checkpoint mix --preset T1 --format nvidia-mix --layers 2
if ! "$SAMEBIT" run "$work/token" --tokens 1 -n 0 --backend emu > "$out" 2> "$err"; then
    skip "the kernels on the emulator" "$(cat "$err")"
    finish
fi

# --- op by op ---------------------------------------------------------------------------------------------------
within() { # every op that was compared, on its own
    check "an op that is not right" test -z "$(grep -E ' (FAIL|INHERITED|SUSPECT)$' "$out")"
    check "linear was not compared" grep -qE '^linear +[0-9]+ .* (IDENTICAL|WITHIN)$' "$out"
    says 'arithmetic sm120'
}
run 0 diff "$work/fp4" --engine emu:1 --profile sm121-w4a4 --tokens 3,1,4,1 -n 2 --draft 3
within
run 0 diff "$work/fp8" --engine emu:2 --profile sm121-w8a8 --tokens 3,1,4,1 -n 2 --draft 3
within
for name in static token mix; do
    run 0 diff "$work/$name" --engine emu:3 --profile sm121-w8a8 --tokens 3,1,4 -n 1
    within
done
run 0 diff "$work/mix" --engine emu --profile sm121-w4a4 --tokens 3,1,4 -n 1 --set act_fp8_group=vllm_cuda \
    --set act_fp8_token=vllm --set act_fp8_static=vllm
within
# sums of a matrix unit are outside the bounds of the reference's arithmetic
run 1 diff "$work/mix" --engine emu --profile sm121-w4a4 --tokens 3,1,4 -n 1 --arithmetic reference --json
at first_failure.op linear

# --- one row, whatever is beside it -----------------------------------------------------------------------------
last() { sed -n "s/^logits $1 //p" "$out"; }
state() { sed -n 's/^state target //p' "$out"; }
places() { # CHECKPOINT PROFILE N DRAFTS: verifies that keep all drafts, and a prompt of the same tokens
    local tokens verified kept
    run 0 run "$work/$1" --profile "$2" --backend emu:5 --tokens 3,1,4 -n "$3" --draft "$4" --force-accept "$4"
    tokens=$(sed -n 's/^tokens //p' "$out") verified=$(last $(($3 - 1))) kept=$(state)
    run 0 run "$work/$1" --profile "$2" --backend emu --tokens "3,1,4,${tokens%,*}" -n 1
    same "the last logits" "$verified" "$(last 0)"
    same "the states of all rows" "$kept" "$(state)"
}
places fp4 sm121-w4a4 14 3,8
places fp8 sm121-w8a8 10 1,6
finish
