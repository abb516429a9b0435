#!/usr/bin/env bash
# bench decode, verify, prefill: the ledger as text and as JSON, against that of floor, and wrong use.
. "$(dirname "$0")/lib.bash"

# the bytes are those that `samebit floor` counts in a checkpoint of this recipe
make_checkpoint mix --preset T2 --format nvidia-mix
run 0 floor "$work/mix" --bandwidth 255 --context 100 --kv fp8 --json
bytes=$(value token.total)
run 0 bench decode --preset T2 --context 100 --json
at command bench
at what decode
at recipe nvidia-mix
at rows 1
at context 100
at measured false
same "weights and what is kept, and floor" "$(awk "BEGIN { print $(value step.weights) + $(value step.kept) }")" "$bytes"
at ops.0.op embed
at ops.0.class embedding
at ops.0.weights 512.0
check "the time is not bytes / rate" awk "BEGIN { d = $(value memory_s) * 255e9 / $bytes; exit !(d > 0.999999 && d < 1.000001) }"
check "no latency in the time" awk "BEGIN { d = $(value memory_s) + $(value step.phases) * 2.3e-6 - $(value implied_s);
    exit !(d < 1e-12 && d > -1e-12) }"
check "no latency in the launches" awk "BEGIN { d = $(value kernels_step.launches) * 2.3e-6 - $(value launches_s);
    exit !(d < 1e-12 && d > -1e-12) }"
check "no latency in the phases" awk "BEGIN { d = $(value step.phases) * 2.3e-6 - $(value phases_s);
    exit !(d < 1e-12 && d > -1e-12) }"
at profile sm121
at kernels.0.op embed
at kernels.0.kernel sb_step_begin_kernel
at kernels.2.kernel sb_embed_kernel
at kernels.2.launches 1
at kernels.2.weights 512.0
check "the kernels' weights are no sum" awk "BEGIN { exit !($(value kernels_step.weights) > $(value weights_stored)) }"
same "weights that are stored" "$(value weights_stored)" "$(value step.weights)"
check "nothing is said of rounds" test "$(value rounds)" = ''

# text: it names the origin of the numbers, and says that nothing was measured
run 0 bench decode --preset 35b-a3b
says 'no device: nothing was measured'
says 'decode of 35b-a3b: 1 row after 0 tokens'
says 'nvidia-mix: MLPs and head NVFP4'
says 'memory: 2382447320 bytes at 255 GB/s: 9.343 ms, at most 107.03 tokens per second'
says 'SKIPPED: time, GB/s and share of the floor of each kernel'
says '  delta rule: state           gdn                    30        3939840    128778240 '
says 'packing: kernels read 2261582976 bytes of weights, 6941096 more than the checkpoint has: 0.31 %'
says 'phases of the ops: 653 of 2.3 us: 1.502 ms'
says 'launches of the kernels: 567 of 2.3 us: 1.304 ms, in no sum'
says 'profile: sm121: the GPU path'
for origin in weights kept activations rate latency phases kernels again; do says "$origin: "; done
run 0 bench decode --preset 35b-a3b --bandwidth 510 --latency 0
says 'at 510 GB/s: 4.671 ms, at most '
says 'both, implied: 4.671 ms'

# a profile changes the kernels of layers whose inputs it quantizes, and adds the kernels that quantize these inputs;
# nothing else changes
run 0 bench decode --preset 35b-a3b --profile sm121-w8a8
says 'launches of the kernels: 747 of 2.3 us: 1.718 ms, in no sum'
says 'both, implied: 10.845 ms'
says 'profile: sm121-w8a8: sm121, and the input of FP8 layers'
says '  delta rule: projection out  act_fp8                30              0 '
says '  delta rule: projection out  tile_fp8               30      251904240 '
says '  experts: gate and up        tile                   40      377488640 '
run 0 bench decode --preset 35b-a3b --profile sm121-w4a4
says '  experts: gate and up        sets_fp4               80      377492480 '
says '  experts: swiglu             swiglu                 40 '
says '  delta rule: projection out  linear                 30      251904000 '
run 0 bench prefill --preset 35b-a3b --recipe fp8 --profile sm121-w8a8
says '  op                          kernel              launches '
says '  experts: gate and up        wide_sets_fp8_units       80    22146088960 '
run 0 bench decode --preset T2 --recipe bf16 --json
plain="$(value kernels_step.launches) $(value kernels_step.weights) $(value kernels_step.activations)"
run 0 bench decode --preset T2 --recipe bf16 --profile sm121-w4a4 --json
same "a step in BF16, of which no profile quantizes an input" \
    "$(value kernels_step.launches) $(value kernels_step.weights) $(value kernels_step.activations)" "$plain"

# keys and values: 2 bytes instead of 1
run 0 bench decode --preset T2 --context 100 --kv bf16 --json
same "BF16 keys and values" "$(awk "BEGIN { print $(value step.weights) + $(value step.kept) }")" $((bytes + 101 * 2 * 2 * 256))

# speculation at acceptance 0.6, by bytes alone: two drafts do not pay if everything is NVFP4; in the mixture three do
# not
run 0 bench verify --preset 35b-a3b --recipe nvfp4-all --latency 0 --json
at rows 4
at rounds.length 3
at rounds.0.outcome PAYS
at rounds.1.outcome LOSES
run 0 bench verify --preset 35b-a3b --latency 0 --draft 4 --json
at rounds.length 4
at rounds.1.outcome PAYS
at rounds.2.outcome LOSES
run 0 bench verify --preset 35b-a3b --latency 0 --accept 0.78 --json
at rounds.2.outcome PAYS
run 0 bench verify --preset 35b-a3b
says 'verify of 35b-a3b: 4 rows after 0 tokens'
says 'a round, in plain steps of one token:'

# the MTP head in a round: entries of the rows, drafts, their acceptance, and the sum
says 'keys and values of the rows in the MTP head:'
says 'one draft of the MTP head:'
says '  the draft                                          25      415152320 '
says 'accepting the drafts:'
says 'a round of 3 drafts: 658 launches of 2.3 us: 1.513 ms; kernels read 5122792426 bytes of weights'
run 0 bench verify --preset T2 --draft 2 --json
at kernels_head.0.part entries
at kernels_head.1.part draft
at kernels_head.1.times 2
at kernels_head.1.kernels.0.kernel sb_step_begin_kernel
at kernels_head.2.part accept
same "launches of a round" "$(value kernels_round.launches)" $(($(value kernels_step.launches) +
    $(value kernels_head.0.all.launches) + 2 * $(value kernels_head.1.all.launches) + $(value kernels_head.2.all.launches)))

run 0 bench prefill --preset T4 --recipe bf16 --rows 512
says 'prefill of T4: 512 rows after 0 tokens'
says 'MLP: gate and up'
says '  attention: over the cache   kv_append '
says '  head                        argmax_end              1 '
check "experts in a dense model" test "$(grep -c experts: "$out")" = 0
check "a round of a prefill" test "$(grep -c 'a round' "$out")" = 0

for what in decode verify prefill; do
    run 0 bench $what --help
    says "usage: samebit bench $what --preset P"
    for option in preset recipe context draft accept rows bandwidth latency layers backend profile seed kv json; do says "  --$option"; done
done

refused 2 bench decode
says_err '--preset is missing'
refused 2 bench decode --preset T99
refused 2 bench decode --preset T2 --recipe int4
says_err 'expected one of nvidia-mix, nvfp4-all, fp8, bf16'
refused 2 bench decode --preset T2 --profile exact
says_err "--profile is 'exact', expected sm121, sm121-w8a8 or sm121-w4a4"
refused 2 bench decode --preset T2 extra
refused 2 bench decode --preset T2 --draft 2
says_err '--draft is an option of bench verify, not of bench decode'
refused 2 bench verify --preset T2 --rows 2
refused 2 bench verify --preset T2 --draft 0
refused 2 bench verify --preset T2 --draft 65
refused 2 bench verify --preset T2 --accept 1.5
refused 2 bench prefill --preset T2 --rows 0
refused 2 bench decode --preset T2 --bandwidth 0
refused 2 bench decode --preset T2 --latency x
refused 2 bench decode --preset T2 --context 4294967296
refused 2 bench decode --preset T2 --kv int8
finish
