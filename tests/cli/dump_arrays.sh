#!/usr/bin/env bash
# Arrays of other programs on the command line: right ones pass, one changed value or a wrong name does not pass, and a
# pickle that would run a command is refused and runs nothing.
. "$(dirname "$0")/lib.bash"
make_checkpoint t1 --preset T1 --recipe predictable
t1=$work/t1 from=golden/dumps/arrays

run 0 trace --kinds
for kind in npy npz torch safetensors sglang sglang-hook; do says "$kind "; done

# --- logits of our own, as NumPy has them ------------------------------------------------------------------
run 0 run "$t1" --tokens 3,1,4,15,9 -n 1 --logits "$work/l.npy"
run 0 diff "$t1" --engine "$work/l.npy" --tokens 3,1,4,15,9
says IDENTICAL
refused 2 diff "$t1" --engine "$work/l.npy"
says_err --tokens
refused 3 diff "$t1" --engine "$work/l.npy" --tokens 3,1,4
says_err "expected 3 on axis 0"
# the exponent of the first number of the last row
printf '\x7f' | dd of="$work/l.npy" bs=1 seek=$((128 + 4 * 384 * 4 + 3)) conv=notrunc status=none
run 1 diff "$t1" --engine "$work/l.npy" --tokens 3,1,4,15,9

# --- transformers' debugger, in binary32, with the names of its modules -----------------------------------
name=Qwen3_5MoeForCausalLM
cat > "$work/map.json" << END
{"${name}_inputs_kwargs_input_ids": "tokens", "$name.lm_head_outputs": "logits", "$name.model.norm_outputs": "norm",
 "$name.model.embed_tokens_outputs": "embed", "$name.model.layers.*_layernorm_outputs": "layers.*_layernorm"}
END
run 0 diff "$t1" --engine "$from/hf" --map "$work/map.json" --free
says "tokens: 4 WITHIN"
run 4 diff "$t1" --engine "$from/hf" --map "$work/map.json" # most ops have no arrays in the fixture
says "norm "
sed -i "s/\"norm\"/\"\", \"$name.model.layers.0.input_layernorm_outputs\": \"norm\"/" "$work/map.json"
run 1 diff "$t1" --engine "$from/hf" --map "$work/map.json"
says "first failure: "
refused 3 diff "$t1" --engine "$from/hf" --tokens 1,2,3,4
says_err "none of its 6 arrays"

# --- the arrays, written as a trace, are the same ------------------------------------------------------------
run 0 trace "$from/nested.pt" --write "$work/trace"
run 0 trace "$work/trace"
says "taps 6, 6 with values"

# --- hostile ---------------------------------------------------------------------------------------------------
for file in bad-system.pt bad-eval.pt; do
    refused 3 trace "$from/$file" --write "$work/none" --tokens 1,5,3
    says_err "nothing was executed"
done
check "a pickle was executed" test ! -e executed-by-a-pickle -a ! -e "$work/none"
finish
