#!/usr/bin/env bash
# diff and trace of sequences that continue another one (U-11), a hit of a prefix cache: the right state passes in
# every way, a wrong one is named with its piece, its parent, and the sequence that it came from.
. "$(dirname "$0")/lib.bash"
export TMPDIR=$work

# written NAME: $folder has the checkpoint and the trace of a row of hits.def
written() {
    folder=$work/$1
    run 0 fault "$1" --write "$folder" --json
    run 0 trace "$folder/trace" --checkpoint "$folder/checkpoint"
    says '1 sequence continues another one'
}
# edited SED: a copy of the trace with this edit
edited() {
    rm -rf "$work/trace"
    cp -r "$folder/trace" "$work/trace"
    sed -i "$1" "$work/trace/trace.json"
    check "nothing was edited by $1" test "$(cmp -s "$folder/trace/trace.json" "$work/trace/trace.json"; echo $?)" = 1
}

# --- right states pass ---------------------------------------------------------------------------------------
written sound.hit
says 'prefixes: block, multiples of 8 tokens'
for way in '' --forced --free; do
    run 0 diff "$folder/checkpoint" --engine "$folder/trace" $way --json
    at verdict WITHIN
    at hits.length 1
    at hits.0.sequence 2
    at hits.0.parent 0
    at hits.0.position 16
    at hits.0.verdict WITHIN
done
at hits.0.state.kv.verdict WITHIN
at hits.0.state.conv.verdict WITHIN
at hits.0.state.recurrent.verdict WITHIN
at hits.0.state.mtp.verdict WITHIN
at tokens.length "$(grep -o '"kind": "\(prompt\|decode\|verify\)"' "$folder/trace/trace.json" | wc -l)"
run 0 diff "$folder/checkpoint" --engine "$folder/trace" --free --junit "$work/junit.xml"
check "JUnit has no case for the hit" grep -q 'name="hit.2"' "$work/junit.xml"
says 'sequence 2 continues sequence 0 at position 16: WITHIN, kv WITHIN, conv WITHIN, recurrent WITHIN, mtp WITHIN'
# without the parent, nothing is known of the state: a trace that says nothing wrong, and a comparison that is not whole
edited 's/, "prefixes": \[[^]]*\]//'
run 0 trace "$work/trace"
says '1 sequence begins after position 0 without a parent, the first is 2 at 16'
run 4 diff "$folder/checkpoint" --engine "$work/trace" --free
says_err 'sequence 2: it begins behind position 0'
says_err 'names no parent (U-11)'

# --- contradictions ------------------------------------------------------------------------------------------
# contradicts SED FINDING: both commands have this finding
contradicts() {
    edited "$1"
    run 1 trace "$work/trace"
    says "FAIL $2"
    run 1 diff "$folder/checkpoint" --engine "$work/trace" --free
    says_err "$2"
}
contradicts 's/"parent": 0, "position": 16/"parent": 0, "position": 24/' \
    'position: step 20, row 0, sequence 2: begins at position 16, but continues its parent at 24'
contradicts 's/"parent": 0, "position": 16/"parent": 7, "position": 16/' \
    'prefix: step 20, sequence 2: continues sequence 7, which no earlier step feeds'
contradicts 's/"prefix_block": 8/"prefix_block": 5/' \
    'prefix: step 20, sequence 2: continues sequence 0 at position 16, expected a multiple of prefix_block 5'
contradicts 's/"prefix": "block"/"prefix": "checkpoint"/' \
    'prefix: step 20, sequence 2: continues sequence 0 at position 16, where no call of that sequence ended'
# a parent that exists, but had other tokens: the values show it
edited 's/"parent": 0, "position": 16/"parent": 1, "position": 16/'
run 0 trace "$work/trace"
run 1 diff "$folder/checkpoint" --engine "$work/trace" --free --json
at hits.0.parent 1
at hits.0.verdict FAIL
at first_failure.sequence 2

# --- a prefix with rounds in it, and a parent of a parent -------------------------------------------------------
# split STEP PARENT CHILD: from this step on, the rows of one sequence are those of another one that continues it
split() {
    awk -v from="$1" -v parent="$2" -v child="$3" 'match($0, /"step": [0-9]+/) {
            n = substr($0, RSTART + 8, RLENGTH - 8) + 0
            if (n >= from)
                gsub("\"sequence\": " parent ",", "\"sequence\": " child ",")
            if (n == from) {
                match($0, /"position": [0-9]+/)
                at = substr($0, RSTART + 12, RLENGTH - 12)
                sub(/"states": \[/, "\"prefixes\": [{\"sequence\": " child ", \"parent\": " parent \
                    ", \"position\": " at "}], &")
            }
        } { print }' "$work/long/trace.json" > "$work/list"
    mv "$work/list" "$work/long/trace.json"
    for file in "$work"/long/step-*; do
        number=${file##*/step-} number=$((10#${number%.*}))
        [ $number -lt "$1" ] || LC_ALL=C sed -i "s/state\.$2\./state.$3./g" "$file"
    done
}
make_checkpoint t1 --preset T1 --recipe predictable --layers 4
for way in 'pairwise snapshots' 'batched replay'; do
    rm -rf "$work/long"
    run 0 run "$work/t1" --backend "sim:${way% *}" --rollback "${way#* }" --tokens 1,2,3,4,5 -n 12 --draft 2 \
        --force-accept 1,0,2 --trace "$work/long" --taps 'all,state.*'
    split 7 0 1
    split 10 1 2
    run 0 trace "$work/long" --checkpoint "$work/t1"
    says '2 sequences continue another one'
    for only in '' --forced --free; do
        run 0 diff "$work/t1" --engine "$work/long" $only --json
        at hits.length 2
        at hits.1.parent 1
        at hits.0.verdict WITHIN
        at hits.1.verdict WITHIN
    done
done
# with other knobs than those of the engine, both sequences fail, and so does the parent
run 1 diff "$work/t1" --engine "$work/long" --free --set mtp_hidden=residual --set norm_input=sum

# --- wrong states ----------------------------------------------------------------------------------------------
# wrong NAME PIECE HYPOTHESIS: the first wrong piece, in both ways, and where it came from
wrong() {
    written "hit.$1"
    for way in --forced --free; do
        run 1 diff "$folder/checkpoint" --engine "$folder/trace" $way --json
        at first_failure.sequence 2
        at first_failure.token 15
        at first_failure.tap "$2"
        says_err 'sequence 2 continues sequence 0 at position 16'
        at hits.0.verdict FAIL
    done
    for part in kv conv recurrent mtp; do
        case " $4 " in *" $part "*) at "hits.0.state.$part.verdict" FAIL ;;
        *) at "hits.0.state.$part.verdict" WITHIN ;; esac
    done
    [ -n "$3" ] || return 0
    run 1 diff "$folder/checkpoint" --engine "$folder/trace" --free --explain --runs 2
    says "  sequence 2 behaves as if $3"
    says 'sequence 2 fails where it continues sequence 0: the mistake lies in the state that it begins with'
}
linear=layers.0.linear_attn
wrong recurrent_of_block $linear.recurrent_state 'the recurrent states were those of sequence 0 at position 8' recurrent
wrong conv_shifted $linear.conv_state 'the conv states were those of sequence 0 at position 15' conv
wrong wrong_slot $linear.conv_state 'the conv and recurrent states were those of sequence 0 at position 20' 'conv recurrent'
wrong not_restored $linear.conv_state 'the conv and recurrent states were empty' 'conv recurrent'
wrong keys_of_other layers.3.self_attn.keys 'the keys and values were those of sequence 1 at position 16' kv
wrong hidden_stale mtp.hidden '' mtp
# the tokens alone: a trace of level 0 keeps its parents
edited 's/"states": \[{[^]]*\]/"states": []/; s/"tensors": [0-9]*/"tensors": 0/; s/"level": 4/"level": 0/'
rm "$work"/trace/step-*
run 0 trace "$work/trace" --json
at prefixes 1
at level 0
finish
