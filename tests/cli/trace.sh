#!/usr/bin/env bash
# run --trace and trace: the trace of a run is complete and names its level, and every kind of damage is named.
. "$(dirname "$0")/lib.bash"

make_checkpoint t1 --preset T1 --recipe predictable
make_checkpoint t4 --preset T4 --recipe predictable
make_checkpoint t5 --preset T5
t1=$work/t1
trace=$work/trace

# new NAME OPTION...: a trace $work/NAME of T1
new() {
    local name=$1
    shift
    rm -rf "${work:?}/$name"
    run 0 run "$t1" --tokens 1,2,3 -n 6 --trace "$work/$name" "$@"
}
# edit OLD NEW: trace.json of $trace with every OLD replaced
edit() { sed -i "s/$1/$2/" "$trace/trace.json"; }
# planted TEXT: exit status 1, and the finding has this text
planted() {
    run 1 trace "$trace"
    check "not one line on stderr" one_line
    says "$1"
}

# --- the trace of a run ---------------------------------------------------------------------------------
for ckpt in t1 t4 t5; do
    for options in '' '--draft 3' '--draft 2,0,3 --force-accept 1,0,3' '--draft 2 --rollback replay --temp 0.7'; do
        rm -rf "$trace"
        # shellcheck disable=SC2086
        run 0 run "$work/$ckpt" --tokens 1,2,3,4 -n 8 $options --json
        cp "$out" "$work/plain"
        # shellcheck disable=SC2086
        run 0 run "$work/$ckpt" --tokens 1,2,3,4 -n 8 $options --trace "$trace" --taps 'all,state.*' --json
        check "$ckpt $options: a trace changes the result" cmp "$out" "$work/plain"
        target=$(value state_digest.target)
        run 0 trace "$trace" --checkpoint "$work/$ckpt" --json
        at verdict PASS
        at level 4
        at missing null
        at found 0
        at unknown 0
        at not_finite 0
        check "no state at the end" grep -q "\"target\": \"$target\"" "$trace/trace.json"
    done
done
new again --draft 2 --taps all --threads 1
new trace --draft 2 --taps all --threads 2
check "two runs leave other bytes" diff -r "$work/again" "$trace"
SAMEBIT_ISA=exact new again --draft 2 --taps all
check "other kernels leave other bytes" diff -r "$work/again" "$trace"

run 0 trace "$trace"
says 'engine samebit ref'
says 'profile exact, arithmetic exact'
says 'level 4'
says PASS
check "a temporary file is left" test -z "$(find "$trace" ! -name 'step-*.safetensors' ! -name trace.json ! -name trace)"

# --taps
new trace --draft 2
run 0 trace "$trace" --json
at taps.values_of '["logits","mtp.logits"]'
new trace --draft 2 --taps none
run 0 trace "$trace" --json
at taps.with_values 0
at level 4
new trace --taps '*.router_ids,layers.0.mlp.gate,state.*conv_state'
run 0 trace "$trace" --json
at taps.values_of '["mlp.gate","mlp.router_ids"]'
printf '1,2,3\n4,5\n' > "$work/two"
rm -rf "$trace"
run 0 run "$t1" --tokens-file "$work/two" -n 3 --draft 1 --trace "$trace"
run 0 trace "$trace" --json
at sequences 2
at rows.prompt 5

# a run that continues from a state
rm -rf "$trace"
run 0 state save "$t1" --tokens 1,2,3 -o "$work/three.state"
run 0 run "$t1" --state-in "$work/three.state" --tokens 4 -n 4 --draft 1 --trace "$trace"
run 0 trace "$trace" --checkpoint "$t1"

# --- wrong use, and what is no trace --------------------------------------------------------------------
refused 2 run "$t1" --tokens 1 --taps all
says_err '--trace'
refused 2 run "$t1" --tokens 1 --trace "$trace"
says_err 'not empty'
refused 3 run "$t1" --tokens 1 --trace "$work/none/here"
refused 2 trace
refused 3 trace "$work/none"
refused 3 trace "$t1"
says_err 'is a checkpoint, not a trace'
# the message names what is there and what is expected
mkdir -p "$work/nothing" "$work/other"
: > "$work/zero"
echo 1,2,3 > "$work/some.ids"
echo 'hello, world' > "$work/other/text"
no_trace() { # no_trace PATH TEXT
    refused 3 trace "$1"
    says_err "$2"
}
no_trace "$t1" 'is a checkpoint, not a trace; samebit run CKPT'
no_trace "$work/nothing" 'the folder is empty; samebit run --trace or an engine writes one'
no_trace "$work/other" 'the folder has 1 file but no trace.json'
no_trace "$work/other/text" "it begins with 'hello, world'"
no_trace "$work/zero" 'the file is empty'
no_trace "$work/some.ids" 'contains token ids, not a trace; samebit diff CKPT --engine FILE reads them'
no_trace "$work/nowhere" 'no such file or folder'
no_trace "$t1/config.json" 'this is the config.json of a checkpoint'
no_trace "$trace/trace.json" 'this is the list of a trace; pass the trace folder instead'
no_trace "$(ls "$t1"/model-*.safetensors | head -n 1)" 'weights of a checkpoint'
refused 3 diff "$t1" --engine "$t1"
says_err 'is a checkpoint, not a trace'
refused 3 trace "$t1/config.json"
new trace --draft 2
rm "$trace/trace.json"
refused 3 trace "$trace"
says_err 'is an unfinished trace'

# --- planted faults: one of each kind -------------------------------------------------------------------
new whole --draft 1 --taps 'logits,*.g,state.*'
again() {
    rm -rf "$trace"
    cp -r "$work/whole" "$trace"
}
again
run 0 trace "$trace" --checkpoint "$t1"
run 1 trace "$trace" --checkpoint "$work/t4"
says 'FAIL checkpoint: '
says 'FAIL shape: '

again
edit '"accepted": 1, "emitted": \[153, 16\]' '"accepted": 0, "emitted": [153]'
planted 'begins at position 5, expected 4'
again
edit '"token": 16, "kind": "verify"' '"token": 17, "kind": "verify"'
refused 3 trace "$trace"
says_err 'step-000004.safetensors: "tokens" has 16 at 0, expected 17'
again
edit '"emitted": \[153, 16\]' '"emitted": [153, 17]'
planted 'token: step 3, row 0, sequence 0: drafts after token 16, expected 17'
again
edit '"round": 1, "position": 5, "drafts"' '"round": 2, "position": 5, "drafts"'
planted 'is round 2, but the previous one was round 0'
again
edit '"states": \[{"sequence": 0, "position": 5' '"states": [{"sequence": 0, "position": 4'
planted 'is a state at position 4, expected 5'
again
edit '"target": "[0-9a-f]*", ' ''
run 0 trace "$trace" # the arrays are there
again
edit ', "states": \[{[^]]*\]}' '}'
refused 3 trace "$trace"
says_err 'lists no state of sequence 0'
again
edit '"level": 4' '"level": 3'
run 0 trace "$trace"
says 'trace.json claims less'
edit '"rounds": \[{[^]]*\][^]]*\]}\], ' ''
planted 'FAIL level: step 0, sequence 0: the trace claims level 3, but step 2 lacks the round of row 0'
again
edit '"slot": 0, ' ''
sed -i 's/"slot": 0, //g' "$trace/trace.json"
planted 'the trace claims level 4, but step 0 lacks the slot of row 0'

# files
again
rm "$trace/step-000002.safetensors"
refused 3 trace "$trace"
says_err step-000002
again
cp "$trace/step-000002.safetensors" "$trace/step-000099.safetensors"
refused 3 trace "$trace"
says_err 'has the file step-000099.safetensors'
again
cp "$trace/step-000002.safetensors" "$trace/step-000004.safetensors"
refused 3 trace "$trace"
says_err 'step-000004.safetensors: '
again
printf 'x' | dd of="$trace/step-000002.safetensors" bs=1 seek=$(($(wc -c < "$trace/step-000002.safetensors") - 7)) \
    conv=notrunc 2> "$work/dd"
refused 3 trace "$trace"
says_err 'step-000002.safetensors: '
again
truncate -s -4 "$trace/step-000002.safetensors"
refused 3 trace "$trace"
says_err step-000002

# --- what another engine wrote --------------------------------------------------------------------------
for folder in golden/trace/*/; do
    run 0 trace "$folder" --json
    at verdict PASS
    at unknown 0
done
check "no traces of transformers" test -d "$folder"

# --- the examples of the document, and the list of taps -------------------------------------------------
rm -rf "$trace"
mkdir "$trace"
awk '/^```json/ { on = ++n == 1; next } /^```/ { on = 0 } on' docs/trace.md > "$trace/trace.json"
run 0 trace "$trace" --json
at level 0
at rows.decode 3
at missing 'step 0 lacks the logits of row 2 (sequence 0, position 2)'
sed -n 's/^SB_TAP([a-z]*, "\([^"]*\)".*, "\([^"]*\)")$/| `\1` | \2 | /p' tools/judge/trace/taps.def > "$work/taps"
check "no taps in taps.def" test "$(wc -l < "$work/taps")" -gt 40
while IFS= read -r row; do
    check "docs/trace.md lacks the row $row" grep -qF -- "$row" docs/trace.md
done < "$work/taps"

finish
