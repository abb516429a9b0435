#!/usr/bin/env bash
# bench: what it reports of small checkpoints, and that it reports nothing when an output is not the
# definition's. No time is asserted, only that there is one.
. "$(dirname "$0")/lib.bash"

positive() { check "$1 is $(value "$1"), expected a number above 0" awk -v x="$(value "$1")" 'BEGIN { exit !(x > 0) }'; }
rate() { check "$1 is $(value "$1"), expected a share" awk -v x="$(value "$1")" 'BEGIN { exit !(x >= 0 && x < 0.5) }'; }
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

# a checkpoint that is there, in text; its bytes are those of its tensors
make_checkpoint T4 --preset T4 --layers 3 --format fp8-block --no-mtp
before=$(cat "$work"/T4/* | cksum)
# shellcheck disable=SC2086
run 0 bench cpu "$work/T4" $quick --threads 1 --vs f32 --context 3
says 'outputs equal to the definition; medians of 2 tokens after 3'
says 'extrapolated without a full attention layer'
says 'fp8    1 thread'
check "the checkpoint was changed" test "$(cat "$work"/T4/* | cksum)" = "$before"

# one wrong bit, and there is no figure
for isa in scalar auto; do
    # shellcheck disable=SC2086
    SAMEBIT_ISA=$isa refused 1 bench cpu "$work/T4" $quick --threads 1 --self-test
    says_err 'by the definition'
    says_err 'nothing is timed'
done

check "something is left of the checkpoints that were made" test -z "$(ls "$work/tmp")"
refused 2 bench
refused 2 bench gpu "$work/T4"
refused 2 bench cpu
refused 2 bench cpu "$work/T4" --preset T4
refused 2 bench cpu "$work/T4" --threads 1,0
refused 2 bench cpu "$work/T4" --tokens 0
refused 2 bench cpu "$work/T4" --vs f64
refused 3 bench cpu "$work/none"
# shellcheck disable=SC2086
run 4 bench cpu "$work/T4" $quick --threads 1 --blas "$work/none.so"
says_err 'no OpenBLAS can be loaded'
finish
