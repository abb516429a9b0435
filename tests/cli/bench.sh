#!/usr/bin/env bash
# bench: its report on small checkpoints and on hard rows. It reports nothing if an output differs from the definition.
# Times are not asserted, only that they are given. The outputs that rounding tests leave open are counted, and are the
# same in every run.
. "$(dirname "$0")/lib.bash"

positive() { check "$1 is $(value "$1"), expected a number above 0" awk -v x="$(value "$1")" 'BEGIN { exit !(x > 0) }'; }
# with weights and tokens like those of a model, the first rounding test leaves at most one output in a thousand open
rate() { check "$1 is $(value "$1"), expected below 1e-3" awk -v x="$(value "$1")" 'BEGIN { exit !(x >= 0 && x < 1e-3) }'; }
quick='--tokens 2 --stream 4 --passes 1'
mkdir "$work/tmp"
export TMPDIR=$work/tmp

# shellcheck disable=SC2086
run 0 bench cpu --preset T1 --format nvfp4-ct $quick --threads 1,2 --vs f32 --prefill 8 --json
at command bench
at what cpu
at layers 4
at runs.length 2
at runs.0.threads 1
at runs.1.threads 2
positive compared
positive scaling
positive peak_bytes
check "the peak is below what the weights take" test "$(value peak_bytes)" -gt "$(value weight_bytes)"
check "the kernels have no name" test -n "$(value f32_kernels)"
for run in 0 1; do
    for key in stream_bytes_per_s.median token_seconds.median bytes gb_per_s share_of_stream tokens_per_s \
        tokens_per_s_extrapolated prefill_tokens_per_s.median prefill_over_decode; do
        positive runs.$run.$key
    done
    rate runs.$run.fallback_rate
    rate runs.$run.exact_rate
done
same "threads change bytes" "$(value runs.0.bytes)" "$(value runs.1.bytes)"
for op in experts 'shared expert' router 'attention projections' 'delta projections' head attention \
    'delta rule' convolution norms rest; do
    says "\"op\": \"$op\""
done
for format in bf16 nvfp4; do positive exact_over_f32.$format; done
at versus.length 4
positive versus.0.f32_share_of_stream

# the same with more outputs and with formats that have other readers; outputs that are sums of integers count
# separately
for format in bf16 fp8-block nvidia-mix; do
    # shellcheck disable=SC2086
    run 0 bench cpu --preset T2 --format $format $quick --threads 1 --json
    rate runs.0.fallback_rate
    rate runs.0.exact_rate
    same "outputs tried and compared" "$(value runs.0.outputs_tried)" "$(value compared)"
    at runs.0.outputs_of_integers 0
done
# shellcheck disable=SC2086
run 0 bench cpu --preset T2 --format nvfp4-ct --profile w4a4 $quick --threads 1 --json
rate runs.0.fallback_rate
positive runs.0.outputs_tried
positive runs.0.outputs_of_integers
same "outputs tried, of integers, and compared" \
    $(($(value runs.0.outputs_tried) + $(value runs.0.outputs_of_integers))) "$(value compared)"
run 0 bench cpu --preset T2 --format nvfp4-ct --profile w4a4 --tokens 2 --stream 4 --threads 1
says ' integers'
says 'peak resident set'

# hard rows: the counts show that each family serves its purpose
run 0 bench cpu --worst --passes 1 --json
at what cpu
at worst.length 88
positive compared
positive most_times_normal
positive most_prompt_times_normal
for format in 0 1 2 3 4 5 6 7 8 9 10; do
    at worst.$((8 * format)).family normal
    at worst.$((8 * format)).exact_rate 0.0
    for family in cancel:3 zero:4 tie:6 decided:7; do
        at worst.$((8 * format + ${family#*:})).family "${family%:*}"
        at worst.$((8 * format + ${family#*:})).fallback_rate 1.0
    done
    at worst.$((8 * format + 5)).family deep
    at worst.$((8 * format + 5)).exact_rate 1.0
    positive worst.$((8 * format + 5)).times_normal.median
    positive worst.$((8 * format + 5)).prompt_times_normal.median
done
run 0 bench cpu --worst --passes 1
says 'times normal data with one input'

# an existing checkpoint, as text; its bytes are those of its tensors
make_checkpoint T4 --preset T4 --layers 3 --format fp8-block --no-mtp
before=$(cat "$work"/T4/* | cksum)
# shellcheck disable=SC2086
run 0 bench cpu "$work/T4" $quick --threads 1 --vs f32 --context 3
says 'outputs equal to the definition; medians of 2 tokens after 3'
says 'extrapolated without a full attention layer'
says 'fp8    1 thread'
check "the checkpoint was changed" test "$(cat "$work"/T4/* | cksum)" = "$before"

# if one bit is wrong, no figure is printed
for isa in scalar auto; do
    # shellcheck disable=SC2086
    SAMEBIT_ISA=$isa refused 1 bench cpu "$work/T4" $quick --threads 1 --self-test
    says_err 'by the definition'
    says_err 'nothing is timed'
    SAMEBIT_ISA=$isa refused 1 bench cpu --worst --self-test
    says_err 'nothing is timed'
done

# a run that a signal ends leaves nothing behind either, and its status is that of the signal
for signal in TERM HUP; do
    # under nohup HUP is ignored from the start
    env --default-signal=HUP "$SAMEBIT" bench cpu --preset T2 --tokens 256 --context 60000 --stream 4 --threads 1 > /dev/null 2>&1 &
    until [ -n "$(ls "$work/tmp")" ] || ! kill -0 $! 2> /dev/null; do sleep 0.05; done
    check "no folder was seen" test -n "$(ls "$work/tmp")"
    kill -$signal $!
    { wait $!; } 2> /dev/null
    status=$?
    check "status $status after SIG$signal" test "$status" = $((128 + $(kill -l $signal)))
    check "something is left after SIG$signal" test -z "$(ls "$work/tmp")"
done

check "something is left of the checkpoints that were made" test -z "$(ls "$work/tmp")"
refused 2 bench
refused 2 bench gpu "$work/T4"
refused 2 bench cpu
refused 2 bench cpu "$work/T4" --preset T4
refused 2 bench cpu "$work/T4" --format fp8-block
says_err '--format applies to --preset'
refused 2 bench cpu "$work/T4" --layers 3
refused 2 bench cpu "$work/T4" --worst
refused 2 bench cpu --worst --preset T4
refused 2 bench cpu --worst --prefill 8
refused 2 bench cpu "$work/T4" --threads 1,0
refused 2 bench cpu "$work/T4" --tokens 0
refused 2 bench cpu "$work/T4" --vs f64
refused 3 bench cpu "$work/none"
# shellcheck disable=SC2086
run 4 bench cpu "$work/T4" $quick --threads 1 --blas "$work/none.so"
says_err 'OpenBLAS cannot be loaded'
# --- beside busy processes, which are gone at the end --------------------------------------------------
run 0 bench cpu --preset T1 --tokens 2 --passes 1 --hogs 2 --json
at hogs 2
at passes 1
positive ratio.median
positive token_seconds.median
positive token_seconds_of_one_thread.median
refused 2 bench cpu --preset T1 --hogs 2 --threads 1
says_err 'excludes --threads'
refused 2 bench cpu --preset T1 --hogs 300

finish
