#!/usr/bin/env bash
# floor: the ledger as text and as JSON, claims and their exit status, what is missing, wrong use.
. "$(dirname "$0")/lib.bash"

make_checkpoint mix --preset T2 --format nvidia-mix --layout vl --kv-scales
mix=$work/mix

run 0 floor "$mix" --bandwidth 273
says 'qwen3_5_moe, 4 layers, from the headers of 3 files'
for class in 'routed experts' 'shared experts' 'delta rule mixers' attention 'routers and gates' norms head \
    'embedding, a row' 'delta rule state' 'convolution state' 'keys and values, past' total; do
    check "no line of: $class" grep -qE "^  $class +[0-9]+" "$out"
done
says 'U8 + F8_E4M3 + F32'
says 'of the vision tower'
check "a missing weight" test "$(grep -c MISSING "$out")" = 0

# the sum of the lines is the total, and the rate is the bandwidth over it
run 0 floor "$mix" --bandwidth 0.5 --context 100 --json
at command floor
at context 100
at kv_bytes_per_token $((2 * 2 * 256))
at token.kv_past $((100 * 2 * 2 * 256))
at token.state $((3 * 4 * 128 * 128 * 4 * 2))
at missing_weights.count 0
at missing_files.count 0
at speculation null
at claim null
total=$(value token.total)
sum=$(($(value token.state) + $(value token.conv_state) + $(value token.kv_past) + $(value token.kv_new)))
for class in experts shared dense gdn attention router norms fusion head embedding; do
    sum=$((sum + $(value token.weights.$class)))
done
same "the classes and the total" "$sum" "$total"
# 8 of 32 experts, 3 matrices of 128 x 256 in each of 4 layers: half a byte, a scale for 16, two scalars
at token.weights.experts $((4 * 8 * 3 * (128 * 256 / 2 + 128 * 256 / 16 + 8)))
at stored.experts.tensors $((4 * 32 * 3 * 4))
at stored.experts.dtypes.U8 $((4 * 32 * 3 * 128 * 256 / 2))
rate=$(value tokens_per_s)
check "the rate is $rate" awk "BEGIN { exit !($rate * $total > 0.49999e9 && $rate * $total < 0.50001e9) }"

run 0 floor "$mix" --bandwidth 0.5 --kv bf16 --state bf16 --json
at kv_bytes_per_token $((2 * 2 * 2 * 256))
at token.state $((3 * 4 * 128 * 128 * 2 * 2))

# claims
run 0 floor "$mix" --bandwidth 273 --claim 20000
says 'POSSIBLE: 20000 tokens per second are 4'
run 1 floor "$mix" --bandwidth 273 --claim 50000
says 'IMPOSSIBLE: 50000 tokens per second'
says_err 'impossible: they need 3'
run 1 floor "$mix" --bandwidth 273 --claim 50000 --json
at claim.verdict IMPOSSIBLE
run 0 floor "$mix" --bandwidth 330 --claim 50000 --json
at claim.verdict POSSIBLE

# speculation
run 0 floor "$mix" --bandwidth 273 --draft 3 --accept 0.78
says 'a verification of 4 tokens: '
says 'with 21.9 of 32 experts per layer where one token reads 8'
says 'fusion of the MTP head'
says '2.863 tokens each at acceptance 0.78'
says 'break-even: not slower if the acceptance is at least 0.9'
run 0 floor "$mix" --bandwidth 273 --draft 1 --accept 1 --json
at speculation.draft 1
at speculation.tokens_per_round 2.0
at speculation.experts_per_layer 14.0
at speculation.verify.state "$(value token.state)"
at speculation.draft_step.weights.gdn 0
same "a round" "$(value speculation.bytes_per_round)" \
    $(($(value speculation.verify.total) + $(value speculation.draft_step.total)))
run 1 floor "$mix" --bandwidth 273 --draft 3 --accept 0.1 --claim 40000
make_checkpoint no-mtp --preset T2 --no-mtp
refused 3 floor "$work/no-mtp" --bandwidth 273 --draft 1 --accept 0.5
says_err 'has no MTP head'

# missing weights are reported, and a claim below the ceiling proves nothing
rm "$mix/model-00002-of-00003.safetensors"
run 0 floor "$mix" --bandwidth 273
says 'MISSING: 1 files or tensors of an index'
says 'model-00002-of-00003.safetensors: is missing'
says 'weights of the model: every figure counts only what is there'
run 3 floor "$mix" --bandwidth 273 --claim 10
says 'UNKNOWN: 10 tokens per second'
run 1 floor "$mix" --bandwidth 273 --claim 10000000
says 'IMPOSSIBLE: '
run 3 floor "$mix" --bandwidth 273 --claim 10 --json
at claim.verdict UNKNOWN
at missing_files.count 1

# only headers are read: the data may be a hole of a sparse file
make_checkpoint hole --preset T1 --format nvfp4-ct
run 0 floor "$work/hole" --bandwidth 273
cp "$out" "$work/before"
for file in "$work"/hole/*.safetensors; do
    size=$(stat -c %s "$file") header=$(($(od -An -tu8 -N8 "$file") + 8))
    truncate -s "$header" "$file"
    truncate -s "$size" "$file"
done
run 0 floor "$work/hole" --bandwidth 273
check "other figures without data" cmp -s "$out" "$work/before"

refused 2 floor
refused 2 floor "$mix"
says_err '--bandwidth'
refused 2 floor "$mix" --bandwidth 0
refused 2 floor "$mix" --bandwidth 1e9
refused 2 floor "$mix" --bandwidth 2.7.3
refused 2 floor "$mix" --bandwidth .
refused 2 floor "$mix" --bandwidth 273 --draft 2
refused 2 floor "$mix" --bandwidth 273 --accept 0.5
refused 2 floor "$mix" --bandwidth 273 --draft 2 --accept 1.5
refused 2 floor "$mix" --bandwidth 273 --draft 65 --accept 0.5
refused 2 floor "$mix" --bandwidth 273 --kv int8
refused 2 floor "$mix" --bandwidth 273 --state f16
refused 2 floor "$mix" --bandwidth 273 --claim -1
refused 2 floor "$mix" --bandwidth 273 --context 5000000000
refused 3 floor "$work/nowhere" --bandwidth 273

# a checkpoint named by its id, in the cache of the hub
mkdir -p "$work/hub/models--org--mix/refs" "$work/hub/models--org--mix/snapshots"
mv "$mix" "$work/hub/models--org--mix/snapshots/abc"
printf abc > "$work/hub/models--org--mix/refs/main"
HF_HUB_CACHE=$work/hub run 0 floor org/mix --bandwidth 273
HF_HUB_CACHE=$work/hub refused 3 floor org/mixed --bandwidth 273
says_err 'hf download org/mixed'
finish
