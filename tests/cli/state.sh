#!/usr/bin/env bash
# state: the saved file is the state, resumes to the bit, and is refused for another model; diff names the first
# difference without a checkpoint; info verifies.
. "$(dirname "$0")/lib.bash"

make_checkpoint t1 --preset T1
make_checkpoint t4 --preset T4
make_checkpoint t4b --preset T4 --seed 7
make_checkpoint bare --preset T4 --no-mtp
t1=$work/t1 t4=$work/t4

# --- save -----------------------------------------------------------------------------------------------
for ckpt in t1 t4; do
    run 0 run "$work/$ckpt" --tokens 1,2,3,4 -n 0 --json
    target=$(value state_digest.target)
    run 0 state save "$work/$ckpt" --tokens 1,2,3,4 -o "$work/$ckpt.whole" --json
    at spec 2
    at command state
    at position 4
    at mtp_entries 3
    at profile exact
    at tokens '[1,2,3,4]'
    at state_digest.target "$target"
    mtp=$(value state_digest.mtp)
    run 0 state save "$work/$ckpt" --tokens 1,2 -o "$work/$ckpt.half"
    run 0 state save "$work/$ckpt" --tokens 3,4 --continue "$work/$ckpt.half" -o "$work/$ckpt.resumed" --json
    at state_digest.target "$target"
    at state_digest.mtp "$mtp"
    check "$ckpt: resumed and fed through differ" cmp "$work/$ckpt.whole" "$work/$ckpt.resumed"
done
refused 2 state save "$t4" --tokens 3,4 --continue "$work/t4.half" -o "$work/t4.half"
run 0 state save "$t4" --tokens 3,4 --continue "$work/t4.half" -o "$work/again"
check "a state that continues another" cmp "$work/t4.whole" "$work/again"
printf '# a sequence\n1 2 3 4\n' > "$work/tokens"
run 0 state save "$t4" --tokens-file "$work/tokens" --threads 1 -o "$work/again"
check "from a file" cmp "$work/t4.whole" "$work/again"
SAMEBIT_ISA=exact run 0 state save "$t4" --tokens 1,2,3,4 -o "$work/again"
check "with other kernels" cmp "$work/t4.whole" "$work/again"
run 0 state save "$work/bare" --tokens 1,2 -o "$work/bare.state" --json
at mtp_entries null
at state_digest.mtp null
run 0 state save "$t4" --tokens 1,2 --no-mtp -o "$work/t4.bare" --json
at mtp_entries null
run 0 state save "$t4" --tokens 3 --continue "$work/t4.bare" -o "$work/t4.longer" --json
at mtp_entries null
at position 3

run 0 state save "$t4" --tokens 3,4 --continue "$work/t4.half" --no-mtp -o "$work/headless" --json
at mtp_entries null
run 0 run "$t4" --tokens 1,2,3,4 -n 0 --json
target=$(value state_digest.target)
run 0 state info "$work/headless" --json
at state_digest.target "$target"

# --- what a state belongs to ----------------------------------------------------------------------------
cp "$work/t4.whole" "$work/kept"
run 0 hash "$t4" --json
digest=$(value checkpoint)
run 0 hash "$work/t4b" --json
other=$(value checkpoint)
refused 3 state save "$work/t4b" --tokens 5 --continue "$work/t4.whole" -o "$work/kept"
says_err "$digest"
says_err "$other"
refused 3 state save "$t4" --tokens 5 --continue "$work/t4.whole" -o "$work/kept" --set act=bf16
says_err act=f32
says_err act=bf16
refused 3 state save "$t4" --tokens 5 --continue "$work/t1.whole" -o "$work/kept"
refused 3 state save "$t4" --tokens 5 --continue "$t4/config.json" -o "$work/kept"
refused 3 state save "$t4" --tokens 5 --continue "$(ls "$t4"/*.safetensors | head -n 1)" -o "$work/kept"
says_err 'not a state file'
check "a refusal wrote something" cmp "$work/t4.whole" "$work/kept"
run 0 state save "$t4" --tokens 1,2 -o "$work/bf16" --set act=bf16
run 0 state info "$work/bf16"
says 'act=bf16'

# --- diff -----------------------------------------------------------------------------------------------
run 0 state diff "$work/t4.whole" "$work/t4.resumed"
says IDENTICAL
run 0 state diff "$work/t4.whole" "$work/t4.resumed" --json
at verdict IDENTICAL
at first null
at message null
run 0 state save "$t4" --tokens 1,2,3,9 -o "$work/last"
run 1 state diff "$work/t4.whole" "$work/last"
check "not one line on stderr" one_line
says_err 'layers.0.linear_attn.conv_state: query head 0, row 2, col 0: 0x'
says 'FAIL layers.0.linear_attn.conv_state: query head 0, row 2, col 0: 0x'
says 'layers.3.self_attn.keys'
run 1 state diff "$work/t4.whole" "$work/last" --json
at verdict FAIL
at first.piece layers.0.linear_attn.conv_state
at first.layer 0
at first.part query
at first.head 0
at first.row 2
at first.col 0
at position '[4,4]'
at notes '[]'
run 1 state diff "$work/t4.whole" "$work/t4.half"
says_err 'position 4 and 2; entries of the MTP head 3 and 1; layers.0'
run 1 state diff "$work/t4.bare" "$work/t4.half"
says_err 'only the second has an MTP head'
run 1 state diff "$work/t4.half" "$work/bf16"
says 'different knobs'
refused 3 state diff "$work/t1.whole" "$work/t4.whole"
says_err 'different models'

# --- info -----------------------------------------------------------------------------------------------
run 0 state info "$work/t4.whole"
says 'position    4'
says 'layers.3.self_attn.keys                  [4, 2, 64]'
says 'mtp.hidden                               [128]'
run 0 state info "$work/t4.whole" --json
at pieces.length 11
at pieces.1.name layers.0.linear_attn.recurrent_state
at pieces.1.shape '[2,64,64]'
at pieces.1.bytes 32768
size=$(wc -c < "$work/t4.whole")
head -c $((size - 100)) "$work/t4.whole" > "$work/hurt"
refused 3 state info "$work/hurt"
# one byte of the last tensor, one of the metadata
{ head -c $((size - 100)) "$work/t4.whole"; printf '\001'; tail -c 99 "$work/t4.whole"; } > "$work/hurt"
refused 3 state info "$work/hurt"
says_err 'one of the two was changed'
sed 's/"samebit.state.profile":"exact"/"samebit.state.profile":"exacz"/' "$work/t4.whole" > "$work/hurt"
refused 3 state info "$work/hurt"
says_err seal
refused 3 state info "$work/no-such-file"
refused 3 state diff "$work/t4.whole" "$work/no-such-file"

# --- wrong use ------------------------------------------------------------------------------------------
refused 2 state
refused 2 state save
refused 2 state fly "$t4"
says_err "'fly'"
refused 2 state save "$t4" --tokens 1
refused 2 state save "$t4" -o "$work/x"
refused 2 state save "$t4" --tokens 1 --tokens-file "$work/tokens" -o "$work/x"
refused 2 state save "$t4" "$t4" --tokens 1 -o "$work/x"
refused 2 state save "$t4" --tokens '' -o "$work/x"
refused 2 state save "$t4" --tokens 384 -o "$work/x"
refused 2 state save "$t4" --tokens 1 -o "$work/x" --profile nobody
refused 2 state save "$t4" --tokens 1 -o "$work/x" --threads 9999
refused 2 state diff "$work/t4.whole"
refused 2 state diff "$work/t4.whole" "$work/t4.whole" --tokens 1
refused 2 state info "$work/t4.whole" "$work/t4.whole"
refused 2 state info "$work/t4.whole" -o "$work/x"
refused 3 state save "$t4" --tokens 1 -o "$work/no/such/folder"
check "something was written" test ! -e "$work/x"
finish
