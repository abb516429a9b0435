#!/usr/bin/env bash
# The kernels on the emulator as a backend: every op alone agrees with the reference, in each profile, on two
# geometries, and with drafts. Under other knobs all ops are INHERITED. The order of threads changes nothing, a planted
# mistake is named, and wrong use is refused.
. "$(dirname "$0")/lib.bash"

make_checkpoint t1 --preset T1 --recipe predictable
make_checkpoint t6 --preset T6
# delta_rule_chunk is in no profile of this path
all=$(sed -n 's/^SB_OP(\([a-z0-9_]*\).*/\1/p' ref/ops/ops.def | grep -vx delta_rule_chunk)
check "no ops in ref/ops/ops.def" test -n "$all"

verdict() { awk -v op="$1" '$1 == op && $2 ~ /^[0-9]+$/ { print $NF }' "$out"; }
judged() { # every op as it should be
    local op
    for op in $all; do
        check "$op is $(verdict "$op")" grep -qxE 'IDENTICAL|WITHIN' <<< "$(verdict "$op")"
    done
}
if ! "$SAMEBIT" run "$work/t1" --tokens 1 -n 0 --backend emu > "$out" 2> "$err"; then
    skip "the kernels on the emulator" "$(cat "$err")"
    finish
fi
run 0 diff "$work/t1" --engine emu --profile sm121 --tokens 1,2,3,4,5 -n 4 --draft 2 --arithmetic sm120_f16
says 'engine emu against the reference, profile sm121, arithmetic sm120_f16'
judged
run 0 diff "$work/t6" --engine emu:7 --profile sm121-w4a4 --tokens 3,1,4 -n 2
check "another arithmetic" grep -q 'profile sm121-w4a4, arithmetic sm120$' "$out"
judged
# the default profile is the one that these kernels compute, and the output says so
run 0 diff "$work/t1" --engine emu --tokens 1,2,3 -n 1
says 'profile sm121, which these kernels compute'
says 'against the reference, profile sm121, '
judged
run 0 diff "$work/t1" --engine emu --profile sm121 --tokens 1,2,3 -n 1
check "a note where a profile was named" test -z "$(grep 'which these kernels compute' "$out")"
run 0 diff "$work/t1" --engine sim:sequential --tokens 1,2,3 -n 1
says 'against the reference, profile exact, '
# under other knobs the kernels compute nothing
run 4 diff "$work/t1" --engine emu --profile exact --tokens 1,2,3 -n 1
check "an op of profile exact" test -z "$(grep -E '^[a-z][a-z0-9_]+ .* (IDENTICAL|WITHIN|FAIL)$' "$out")"

# --- the order of threads, the reference's bits ---------------------------------------------------------------
run 0 run "$work/t1" --tokens 1,2,3 -n 5 --draft 2 --profile sm121 --backend emu
cp "$out" "$work/first"
for seed in 1 2; do
    run 0 run "$work/t1" --tokens 1,2,3 -n 5 --draft 2 --profile sm121 --backend emu:$seed
    check "the order of threads changes the result" cmp "$out" "$work/first"
done
check "a note where kernels compute" test ! -s "$err"
run 0 run "$work/t1" --tokens 1,2,3 -n 5 --backend emu
says_err 'note: under profile exact the kernels compute no op'
cp "$out" "$work/first"
run 0 run "$work/t1" --tokens 1,2,3 -n 5
check "profile exact is not the reference's" cmp "$out" "$work/first"
run 0 run "$work/t1" --tokens 1,2 -n 1 --profile sm121 --backend emu --json
at backend emu

# --- draws -------------------------------------------------------------------------------------------------------
# under profile exact the logits are the reference's, and only the draws are those of kernels
drawn() { # drawn OPTION...: the reference's tokens, and those of two orders of threads
    run 0 run "$work/t1" --tokens 1,2,3 -n 6 "$@"
    cp "$out" "$work/first"
    for backend in emu emu:5; do
        run 0 run "$work/t1" --tokens 1,2,3 -n 6 --backend $backend "$@"
        check "$backend draws other tokens: $*" cmp "$out" "$work/first"
    done
}
drawn --seed 42 --temp 0.8 --top-k 40 --top-p 0.95
drawn --seed 7 --temp 3 --min-p 0.01 --draft 2 --accept-mode residual
# and the draws do not depend on drafts
warm=(--tokens 1,2,3 -n 3 --profile sm121 --seed 42 --temp 3 --top-k 40 --top-p 0.95 --json)
run 0 run "$work/t1" "${warm[@]}" --backend emu
tokens=$(value tokens)
run 0 run "$work/t1" "${warm[@]}" --backend emu:2 --draft 2
same "with drafts and without" "$tokens" "$(value tokens)"

# --- a planted mistake ------------------------------------------------------------------------------------------
run 1 diff "$work/t1" --engine emu+no_dt_bias --profile sm121 --tokens 1,2,3 -n 1 --json
at verdict FAIL
at first_failure.op gates

# --- wrong use --------------------------------------------------------------------------------------------------
for name in emu: emu:x emu:1234567890123456789; do
    refused 2 run "$work/t1" --tokens 1 --backend $name
    says_err 'expected emu, or emu:SEED'
done
refused 2 run "$work/t1" --tokens 1 --backend emulator
says_err 'expected ref, sim:NAME, emu or gpu'
# --backend gpu: a device, or the reason why there is none
if ! "$SAMEBIT" run "$work/t1" --tokens 1 -n 0 --backend gpu > "$out" 2> "$err"; then
    refused 4 run "$work/t1" --tokens 1 -n 0 --backend gpu
    check "no reason" grep -qE 'without nvcc|no device|the device is' "$err"
fi
finish
