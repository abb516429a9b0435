#!/usr/bin/env bash
# bench decode, verify, prefill with a backend: all of it but the times on the emulator, and, where nvcc was, on a
# stand-in for the CUDA runtime whose kernels do nothing; what is said where there is no device; wrong use.
. "$(dirname "$0")/lib.bash"
launches=$BUILD/tests/gpu/samebit_launches

# the emulator: what measures the card comes to what it must, every launch belongs to an op, and no time is made up
run 0 bench decode --preset T1 --backend emu --context 5
says 'decode of T1: 1 row behind 5 tokens'
says 'measured in this run: emulator'
says 'bytes, drawn where kernels run; profile sm121'
says 'SKIPPED: all times, and what follows from them: nothing keeps time here, on the emulator'
check "a rate without a time" test "$(grep -cE 'inf|nan|reaches|per second$' "$out")" = 2 # those of the ledger
check "something is WRONG" test "$(grep -c WRONG "$out")" = 0
check "launches of no op" eval 'grep -qE "^  of no op of the ledger +[1-9][0-9]? " "$out"'
for op in 'embedding' 'delta rule: state' 'attention: over the cache' 'experts: gate and up' 'head'; do
    check "$op was not launched" eval 'grep -qE "^  $op +[1-9][0-9]* +[0-9]+ +- +- +- +-$" "$out"'
done

run 0 bench decode --preset T2 --recipe fp8 --backend emu --json
at measured true
at run.card.name emulator
at run.card.measured.0.right true
at run.step_s.median null
at run.implied_s null
at run.ops.0.op embed
at run.ops.0.seconds null
check "a step without launches" test "$(value run.launches)" -gt 50

# every recipe and profile, all kinds of calls, fewer layers; the same launches whatever the weights
for recipe in nvidia-mix nvfp4-all fp8 bf16; do
    run 0 bench verify --preset T3 --recipe $recipe --draft 2 --backend emu --profile sm121-w4a4
    says 'verify of T3: 3 rows behind 0 tokens'
done
run 0 bench prefill --preset T4 --rows 40 --backend emu --profile sm121-w8a8
says 'prefill of T4: 40 rows'
run 0 bench decode --preset T1 --layers 2 --backend emu --json
few=$(value run.launches)
run 0 bench decode --preset T1 --layers 4 --backend emu --json --seed 43
check "more layers, and no more launches" test "$(value run.launches)" -gt "$few"

# no device: the ledger, what is missing, and why; status 0
if [ ! -e /dev/nvidia0 ]; then
    run 0 bench decode --preset 35b-a3b --backend gpu
    says 'no device: nothing was measured'
    says 'memory: 2382447320 bytes at 255 GB/s'
    says 'SKIPPED: time, GB/s and share of the floor of each kernel; rates of the card: '
    run 0 bench decode --preset T2 --backend gpu --json
    at measured false
    check "no reason" test -n "$(value reason)"
fi

# a device whose kernels do nothing: the whole driver runs, of the large model too, and believes nothing
if [ -x "$launches" ]; then
    SAMEBIT_MEMORY=$work/memory "$launches" bench verify --preset T1 --draft 3 --backend gpu > "$out" 2> "$err"
    same "status" $? 1
    # what measured the card has given its 2 GiB back when the weights come
    check "memory that the meters have kept" eval '[ "$(tail -n 1 "$work/memory")" -lt 1048576 ]'
    says 'SKIPPED: all times, and what follows from them: nothing keeps time here'
    says 'WRONG'
    says_err 'a kernel that measures the card came to another result'
else
    skip "the driver on the stand-in for a device" "built without nvcc"
fi

refused 2 bench decode --preset T1 --backend cpu
says_err "--backend is 'cpu', expected gpu or emu"
refused 2 bench decode --preset T1 --profile sm121
says_err '--profile says how --backend runs the step'
refused 2 bench decode --preset 35b-a3b --backend emu
says_err 'too many for the emulator'
refused 2 bench decode --preset T1 --backend emu --profile none
refused 2 bench verify --preset T1 --draft 9 --backend emu
refused 2 bench decode --preset T1 --layers 100000
finish
