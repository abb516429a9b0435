#!/usr/bin/env bash
# info: every tensor of every preset is accounted for; the lists of formats, profiles and so on.
. "$(dirname "$0")/lib.bash"

# preset, family, tensors: those outside the layers, of each layer, of MTP; full layers, tensors per expert
expect() {
    local preset=$1 family=$2 tensors=$3 experts=$4
    make_checkpoint ckpt --preset "$preset" --replace
    run 0 info "$work/ckpt"
    says "$family"
    says "MTP head: present"
    says "tensors: $tensors bound"
    run 0 info "$work/ckpt" --json
    at spec 2
    at command info
    at config.model_type "$family"
    at storage.bound_tensors "$tensors"
    at storage.ignored_vision_tensors 0
    at storage.experts "$experts"
    at storage.mtp true
    at storage.prefix model.
    at formats.BF16.tensors "$tensors"
    check "bytes of the formats" test "$(value formats.BF16.bytes)" = "$(value storage.bound_bytes)"
}
expect T1 qwen3_5_moe $((3 + 6 * 18 + 2 * 15 + 19)) fused
at config.layers '["linear_attention","linear_attention","linear_attention","full_attention","linear_attention","linear_attention","linear_attention","full_attention"]'
at config.hidden_size 128
at config.shared_intermediate 256
at config.moe_intermediate 128
expect T2 qwen3_5_moe $((3 + 3 * 18 + 15 + 19)) fused
at config.rotary_dim 64
expect T3 qwen3_5_moe $((3 + 3 * 18 + 15 + 19)) fused
at config.linear_value_heads 6
expect T4 qwen3_5 $((2 + 3 * 14 + 11 + 15)) "per expert"
at config.tied_head true
expect T5 qwen3_next $((3 + 3 * (14 + 48) + 13 + 48 + 17 + 48)) "per expert"
expect T5-raw qwen3_next $((3 + 3 * (14 + 48) + 13 + 48 + 17 + 48)) "per expert"
expect T6 qwen3_5_moe $((3 + 3 * 18 + 15 + 19)) fused
at config.vocab_size 1000

make_checkpoint vl --preset T4 --layout vl --no-mtp
run 0 info "$work/vl" --json
at storage.prefix model.language_model.
at storage.bound_tensors 55
at storage.mtp false
check "no vision tensors" test "$(value storage.ignored_vision_tensors)" -gt 0
run 0 info "$work/vl"
says "MTP head: absent"
sed -i 's/"mtp_num_hidden_layers": 0/"mtp_num_hidden_layers": 1/' "$work/vl/config.json"
run 0 info "$work/vl"
says "MTP head: ABSENT, although config.json declares one"

# differences between declaration and storage: the hybrid declares its INT4 layers only (three matrices of each of four
# layers are FP8), and the two files of nvidia-mix disagree
make_checkpoint bf16 --preset T2
make_checkpoint hybrid --preset T2 --format int4-fp8-hybrid
make_checkpoint mix --preset T2 --format nvidia-mix
run 0 info "$work/bf16"
says 'declared: no quantization'
says 'every layer is stored as declared'
run 0 info "$work/bf16" --json
at declared '{"dialect":null,"kv_cache":"none","notes":[]}'
at disagreements '{"count":0,"first":[]}'
run 0 info "$work/hybrid"
says 'declared: auto-round, KV cache none'
says 'layers that are not stored as declared, and are read as stored: 12'
says 'model.layers.0.mlp.shared_expert.gate_proj is stored as fp8-block; declared: not quantized'
says '  and 8 more'
run 0 info "$work/hybrid" --json
at declared.dialect auto-round
at disagreements.count 12
check "fewer or more texts than four" test "$(grep -c 'shared_expert.*is stored as fp8-block' "$out")" = 4
run 0 info "$work/mix"
says 'declared: modelopt, KV cache none'
says 'note: hf_quant_config.json says kv_cache_quant_algo fp8, but config.json none'
says 'every layer is stored as declared'
run 0 info "$work/mix" --json
at disagreements.count 0
at declared.notes.1 'hf_quant_config.json says producer.version 0.44.0, but config.json 0.37.0'
make_checkpoint kv --preset T2 --format nvfp4-ct --kv-scales
run 0 info "$work/kv" --json
at declared.kv_cache fp8
at disagreements.count 0
# the configuration of another checkpoint, and a missing configuration
cp "$work/bf16/config.json" "$work/kv/config.json"
run 0 info "$work/kv" --json
at declared.dialect null
check "nothing disagrees with no declaration" test "$(value disagreements.count)" -gt 100

run 0 info --ops
for op in $(sed -n 's/^SB_OP(\([a-z_0-9]*\),.*/\1/p' ref/ops/ops.def); do says "$op "; done
check "operations without a clause" test "$(grep -c ' R-[0-9]*$' "$out")" = "$(grep -c '^SB_OP(' ref/ops/ops.def)"
run 0 info --knobs
for knob in $(sed -n 's/^SB_KNOB(\([a-z_0-9]*\),.*/\1/p' ref/ops/knobs.def); do says "$knob "; done
run 0 info --profiles
says 'exact: '
says 'act=bf16'
run 0 info --machine
says 'dot product kernels: '
# every list is also a JSON document, as --json promises
run 0 info --ops --json
at ops.0.name "$(sed -n 's/^SB_OP(\([a-z_0-9]*\),.*/\1/p' ref/ops/ops.def | head -n 1)"
run 0 info --knobs --json
at knobs.0.name act
at knobs.0.values.0 f32
run 0 info --profiles --json
at profiles.0.name exact
at profiles.1.set.act bf16
run 0 info --ops --machine --json
at ops.0.clause R-1
check "the kernels" test -n "$(value dot)"
run 0 trace --kinds --json
at kinds.0.name npy
run 0 make --list --json
at preset.0.name T1
run 0 fault --list --json
at faults.0.name F06
at faults.0.must_pass false
for isa in exact scalar; do
    SAMEBIT_ISA=$isa "$SAMEBIT" info --machine > "$out"
    says "dot product kernels: $isa"
done
# a file of another kind: the message names the kind, and says what to do
given() { # BYTES WORDS
    printf "$1" > "$work/given"
    refused 3 info "$work/given"
    says_err "$2"
}
given 'GGUF\3\0\0\0' 'this is a GGUF file of llama.cpp'
given 'PK\3\4\0\0\10\10' 'this is a zip archive'
given '\200\2ctorch._utils' 'this is a Python pickle'
given 'version https://git-lfs.github.com/spec/v1' 'this is a pointer of Git LFS'
given '<!DOCTYPE html><html>' 'this is a web page; the download failed'
given '{}' 'this is JSON; pass the folder that contains it'
given '\377\377\377\377\0\0\0\0' 'expected at most 100000000'
check "another file is named" test -z "$(grep 'this is' "$err")"
finish
