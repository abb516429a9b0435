#!/usr/bin/env bash
# bench decode, verify, prefill with a backend: everything but the times on the emulator, and, if built with nvcc, on a
# stand-in for the CUDA runtime whose kernels do nothing; the messages without a device; wrong use.
. "$(dirname "$0")/lib.bash"
launches=$BUILD/tests/gpu/samebit_launches

# the emulator: the kernels that measure the card give the right results, every launch belongs to an op, and no time is
# invented
run 0 bench decode --preset T1 --backend emu --context 5
says 'decode of T1: 1 row after 5 tokens'
says 'measured in this run: emulator'
says 'bytes, drawn where kernels run; profile sm121'
says 'SKIPPED: all times, and what follows from them: this backend does not measure time, on the emulator'
check "a rate without a time" test "$(grep -cE 'inf|nan|reaches|per second$' "$out")" = 2 # those of the ledger
check "something is WRONG" test "$(grep -c WRONG "$out")" = 0
check "launches of no op" eval 'grep -qE "^  not in the ledger +[1-9][0-9]? " "$out"'
# the bytes that each kernel must move are given beside its launches, and add up to the ledger by kernels of the step
check "a kernel without its bytes" eval '! grep -vqE "^  sb_[a-z_]+ +[0-9]+ +[0-9]+ +- +- +- +-$" <<< "$(grep -E "^  sb_" "$out")"'
same "bytes of all kernels" "$(awk '/^  sb_/ { sum += $3 } END { print sum }' "$out")" \
    "$(awk '/^  the step / { sum = $4 + $5 + $8 } END { print sum }' "$out")"
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
at run.kernels.0.kernel sb_step_begin_kernel
at run.kernels.0.bytes 12.0
check "a step without launches" test "$(value run.launches)" -gt 50

most=3 recipes="nvidia-mix fp8"
[ "${CHECK_ALL-}" != 1 ] || most=8 recipes="nvidia-mix nvfp4-all fp8 bf16"
# the same for the profiles that quantize inputs, also with a cache of more than one part; every launch is in the
# ledger
while read -r what; do
    run 0 bench $what --backend emu
    check "$what: a kernel without its bytes" eval '! grep -vqE "^  sb_[a-z0-9_]+ +[0-9]+ +[0-9]+ +- +- +- +-$" <<< "$(grep -E "^  sb_" "$out")"'
    same "$what: bytes of all kernels" "$(awk '/^  sb_/ { sum += $3 } END { print sum }' "$out")" \
        "$(awk '/^  the step / { sum = $4 + $5 + $8 } END { print sum }' "$out")"
    same "$what: launches" "$(awk '/^  sb_/ { sum += $2 } END { print sum }' "$out")" \
        "$(sed -n 's/^launches of the kernels: \([0-9]*\) of .*/\1/p' "$out")"
done << END
decode --preset T1 --profile sm121-w8a8
decode --preset T1 --recipe nvfp4-all --profile sm121-w4a4
decode --preset T4 --recipe fp8 --profile sm121-w8a8 --context 300
verify --preset T1 --draft $most --layers 4 --profile sm121-w4a4
END
run 0 bench decode --preset T4 --recipe fp8 --profile sm121-w8a8 --backend emu --json
at profile sm121-w8a8
at run.kernels.0.bytes 12.0

# rounds of 1 draft up to the requested number, each next to the round of the ledger
run 0 bench verify --preset T1 --layers 2 --draft 2 --backend emu
says "rounds as they were run, in plain steps of one token; the ledger's at 255 GB/s and 2.30 us from a phase to the next"
same "rounds that have no time" "$(grep -cE '^ +[12] measured( +-){6}$' "$out")" 2
same "rounds of the ledger" "$(grep -cE '^ +[12] ledger( +[0-9.]+){2} +-( +[0-9.]+){2}  (PAYS|LOSES)$' "$out")" 2
run 0 bench verify --preset T4 --draft 1 --backend emu --json
at run.rounds.0.draft 1
at run.rounds.0.measured null
at run.rounds.0.round_s null
at run.rounds.0.ledger.accept null
check "the ledger's is another one" test "$(value rounds.0.verify)" = "$(value run.rounds.0.ledger.verify)"

# recipes and profiles, all kinds of calls, fewer layers; the launches do not depend on the weights
for recipe in $recipes; do
    run 0 bench verify --preset T3 --recipe $recipe --draft 2 --backend emu --profile sm121-w4a4
    says 'verify of T3: 3 rows after 0 tokens'
done
run 0 bench prefill --preset T4 --rows 40 --backend emu --profile sm121-w8a8
says 'prefill of T4: 40 rows'
check "a kernel of a prompt without its bytes" test "$(grep -cE '^  sb_[a-z0-9_]+ +[0-9]+ +- ' "$out")" = 0
run 0 bench decode --preset T1 --layers 2 --backend emu --json
few=$(value run.launches)
run 0 bench decode --preset T1 --layers 4 --backend emu --json --seed 43
check "more layers, and no more launches" test "$(value run.launches)" -gt "$few"

# without a device: the ledger, and why there are no measurements; status 0
if [ ! -e /dev/nvidia0 ]; then
    run 0 bench decode --preset 35b-a3b --backend gpu
    says 'no device: nothing was measured'
    says 'memory: 2382447320 bytes at 255 GB/s'
    says 'SKIPPED: time, GB/s and share of the floor of each kernel; rates of the card: '
    run 0 bench decode --preset T2 --backend gpu --json
    at measured false
    check "no reason" test -n "$(value reason)"
fi

# a device whose kernels do nothing: the whole driver runs, and rejects every result
stand_in() { # stand_in ARG...: status 1, since all that the meters come to is wrong
    last="$* (on the stand-in for a device)"
    "$launches" "$@" > "$out" 2> "$err" < /dev/null
    same "status" $? 1
    says_err 'a kernel that measures the card computed a wrong result'
}
near() { # near PATH VALUE: but for the rounding of an event, which is a float
    local found
    found=$(value "$1")
    check "$1 is $found, expected $2" awk -v a="$found" -v b="$2" 'BEGIN { d = a / b - 1; exit !(a > 0 && d * d < 1e-10) }'
}
if [ -x "$launches" ]; then
    SAMEBIT_MEMORY=$work/memory stand_in bench verify --preset T1 --draft 3 --backend gpu
    says 'SKIPPED: all times, and what follows from them: this backend does not measure time'
    same "measurements that are WRONG" "$(grep -c 'WRONG$' "$out")" 15
    # the meters have freed their 2 GiB before the weights are loaded
    check "memory that the meters have kept" eval '[ "$(tail -n 1 "$work/memory")" -lt 1048576 ]'

    # a clock that only launches advance, so that every time is known: 2 us each, and 1 us in a graph
    SAMEBIT_CLOCK=2,1 SAMEBIT_GRAPHS=$work/graphs stand_in bench verify --preset T1 --draft 3 --context 5 --backend gpu --json
    awk '$1 == "graph" { n = $2; size[n] = $3; all[n] = $3 == $4 } $1 == "run" { runs[$2]++ }
        END { for (i = 1; i <= n; i++) print size[i], all[i] ? "dependent" : "-", runs[i] }' "$work/graphs" > "$work/each"
    node() { awk -v n="$1" 'NR == n { print $1 }' "$work/each"; } # launches of graph number n
    # Every call is made 18 times, the first time without a graph. The graphs, in this order: three of the meters; the
    # verify; keeping its rows; a plain step; and for 1, 2 and 3 drafts: the last draft, the verify, keeping the right
    # rows. Longer rounds reuse the graphs of the drafts before the last one.
    same "runs of each graph" "$(awk '{ print $3 }' "$work/each" | xargs)" \
        '18 18 18000 17 17 17 53 17 17 35 17 17 17 17 17'
    same "launches of the meters' graphs" "$(head -n 3 "$work/each" | xargs)" '1000 - 18 1000 dependent 18 1 dependent 18000'
    same "graphs of which a launch waits" "$(tail -n +4 "$work/each" | grep -vc dependent)" 0
    same "drafts have the same launches" "$(node 7) $(node 7)" "$(node 10) $(node 13)"
    near run.card.measured.8.seconds.median 0.000002
    near run.card.measured.10.per_second 500000
    near run.card.measured.11.per_second 500000
    for i in 12 13 14; do near run.card.measured.$i.per_second 1000000; done
    near run.step_s.median "$(node 4)e-6"
    near run.keep_s.median "$(node 5)e-6"
    near run.plain_s.median "$(node 6)e-6"
    check "no head in the verify of a round" test "$(node 8)" -gt "$(node 4)"
    routers() { awk -v n="$1" '$1 == "graph" { of = $2 == n } of && /choice/ { sum++ } END { print sum + 0 }' "$work/graphs"; }
    same "routers, of which entries of the head need none" "$(routers 8)" "$(routers 4)"
    same "and a draft one" "$(routers 7)" 1
    phases=$(value step.phases)
    near run.floor_and_phases_s "$(awk -v n="$phases" -v s="$(value run.floor_s)" 'BEGIN { printf "%.17g", n * 1e-6 + s }')"
    for k in 1 2 3; do
        at=run.rounds.$((k - 1))
        near $at.drafts_s.median "$((k * $(node 7)))e-6"
        near $at.verify_s.median "$(node $((5 + 3 * k)))e-6"
        near $at.accept_s.median "$(node $((6 + 3 * k)))e-6"
        launched=$((k * $(node 7) + $(node $((5 + 3 * k))) + $(node $((6 + 3 * k)))))
        near $at.round_s.median "${launched}e-6"
        near $at.measured.round "$(awk -v n=$launched -v m="$(node 6)" 'BEGIN { printf "%.17g", n / m }')"
        # B-8: a round emits as many tokens as it costs steps
        near $at.measured.round "$(awk -v a="$(value $at.measured.break_even_accept)" -v k=$k \
            'BEGIN { for (i = 0; i <= k; i++) sum += a ^ i; printf "%.17g", sum }')"
    done
    found=$(value run.rounds.1.ledger.round)
    rate=$(awk -v s="$(value run.floor_s)" -v b="$(value memory_s)" 'BEGIN { printf "%.17g", 255 * b / s }')
    run 0 bench verify --preset T1 --draft 3 --context 5 --bandwidth "$rate" --latency 1 --json
    check "a round of the ledger, $found" awk -v a="$found" -v b="$(value rounds.1.verify)" -v c="$(value rounds.1.drafts)" \
        'BEGIN { d = a / (b + c) - 1; exit !(a > 0 && d * d < 1e-10) }'

    stand_in bench decode --preset T1 --context 5 --backend gpu --json
    same "launches of a plain step" "$(node 6)" "$(value run.launches)"
    SAMEBIT_CLOCK=2,1 stand_in bench verify --preset T1 --draft 2 --backend gpu --accept 0.01
    says '       2 measured '
    check "what a round gives at --accept" test "$(grep -c ' LOSES$' "$out")" -ge 4
    says 'the step, a graph: 0.'
    says 'phases of 1.00 us, the measured launch of a graph'
    SAMEBIT_CLOCK=2,1 stand_in bench prefill --preset T1 --rows 24 --backend gpu
    says 'the step, launch by launch'
    says 'phases of 2.00 us, the measured launch:'
else
    skip "the driver on the stand-in for a device" "built without nvcc"
fi

refused 2 bench decode --preset T1 --backend cpu
says_err "--backend is 'cpu', expected gpu or emu"
refused 2 bench decode --preset T1 --seed 1
says_err '--seed needs --backend'
refused 2 bench decode --preset 35b-a3b --backend emu
says_err 'too many for the emulator'
refused 2 bench decode --preset T1 --backend emu --profile none
says_err "--profile is 'none', expected sm121, sm121-w8a8 or sm121-w4a4"
refused 2 bench verify --preset T1 --draft 9 --backend emu
refused 2 bench decode --preset T1 --layers 100000
finish
