#!/usr/bin/env bash
# diff of rounds that the checkpoint's head and the rows did not decide alone: forced acceptance, drafts from
# elsewhere, and a rollback that makes other roundings. Declared facts are taken as given; everything else about the
# round is judged as usual.
. "$(dirname "$0")/lib.bash"

make_checkpoint t1 --preset T1 --recipe predictable
t1=$work/t1

# record OPTION...: records $work/trace by an engine that is not the reference
record() {
    rm -rf "$work/trace"
    run 0 run "$t1" --backend sim:pairwise --tokens 1,2,3 -n 10 --trace "$work/trace" --taps 'logits,state.*' "$@" --json
}
# edited SED WORDS: FAIL with these words after the edit of trace.json; restores the file
edited() {
    cp "$work/trace/trace.json" "$work/kept"
    sed -i "$1" "$work/trace/trace.json"
    check "nothing was edited by $1" test "$(cmp -s "$work/kept" "$work/trace/trace.json"; echo $?)" = 1
    run 1 diff "$t1" --engine "$work/trace" --free --json
    says_err "$2"
    found=$(value first_failure.found)
    check "found $found is what was expected" test "$found" = null -o "$found" != "$(value first_failure.expected)"
    cp "$work/kept" "$work/trace/trace.json"
}

# --- forced acceptance --------------------------------------------------------------------------------------
record --draft 3 --force-accept 1,0,3
check "no round is forced" grep -q '"forced": true' "$work/trace/trace.json"
check "not version 3" grep -q '"version": 3' "$work/trace/trace.json"
run 0 trace "$work/trace" --checkpoint "$t1"
run 0 diff "$t1" --engine "$work/trace" --free
run 0 diff "$t1" --engine "$work/trace" --free --json
at verdict WITHIN
# without the declaration, the same rounds are not those of a correct engine
edited 's/, "forced": true//g' 'round '
# everything else about forced rounds is judged: the token after the accepted drafts, the drafts, the next position
edited '0,/"emitted": \[153, [0-9]*\]/s//"emitted": [153, 7]/' '7 was emitted'
edited '0,/"drafts": \[153, /s//"drafts": [152, /' 'round 0'
edited '0,/"accepted": 1, "emitted": \[153, /s//"accepted": 0, "emitted": [153], "note": [/; s/, "note": \[[0-9]*\]//' 'round'

# a right draft that was rejected is counted as the reference counts it
record --draft 1
edited '0,/"accepted": 1, "emitted": \[\([0-9]*\), [0-9]*\]/s//"accepted": 0, "emitted": [\1]/' 'is rejected'
counts=$(tr -d ' \n' < "$out" | grep -o '"accepted":{"ref":1,"engine":0}')
check "both counts of that round" test -n "$counts"

# --- drafts that are drawn --------------------------------------------------------------------------------------
record --draft 2 --temp 0.9 --accept-mode residual --seed 5
check "the drafts are not declared as drawn" grep -q '"drafter": "sampled"' "$work/trace/trace.json"
run 0 trace "$work/trace" --checkpoint "$t1"
run 0 diff "$t1" --engine "$work/trace" --free --sampled --json
at verdict WITHIN
run 1 diff "$t1" --engine "$work/trace" --free --sampled --drafter own
says_err 'the head gives'
# the inputs of the head are judged as usual
refused 2 diff "$t1" --engine "$work/trace" --drafter drawn
says_err 'expected own, sampled, external or the folder of an EAGLE-3 drafter'

# --- drafts from elsewhere ------------------------------------------------------------------------------------
run 0 run "$t1" --backend sim:pairwise --tokens 1,2,3 -n 10 --json
plain=$(value tokens)
IFS=', ' read -ra ids <<< "${plain//[\[\]]/}"
# all right; two of three; none; one
printf '%s\n' "${ids[1]},${ids[2]}" "${ids[4]},${ids[5]},7" 9 "${ids[8]}" > "$work/drafts"
record --draft-file "$work/drafts"
at tokens "$plain"
at rounds.0.accepted 2
at rounds.1.accepted 2
at rounds.2.accepted 0
check "the drafter is not declared" grep -q '"drafter": "external"' "$work/trace/trace.json"
run 0 trace "$work/trace" --checkpoint "$t1"
run 0 diff "$t1" --engine "$work/trace" --free --json
at verdict WITHIN
run 1 diff "$t1" --engine "$work/trace" --free --drafter own
says_err 'the head gives'
sed -i 's/, "drafter": "external"//' "$work/trace/trace.json"
run 1 diff "$t1" --engine "$work/trace" --free
says_err 'the head gives'
run 0 diff "$t1" --engine "$work/trace" --free --drafter external
sed -i 's/"rollback"/"drafter": "external", "rollback"/' "$work/trace/trace.json"
run 0 diff "$t1" --engine "$work/trace" --free
# mistakes in verification, acceptance, bonus token, position and states fail
bonus="\"accepted\": 2, \"emitted\": \\[${ids[1]}, ${ids[2]}, ${ids[3]}\\]"
edited "0,/$bonus/s//\"accepted\": 2, \"emitted\": [${ids[1]}, ${ids[2]}, 7]/" '7 was emitted'
edited "0,/$bonus/s//\"accepted\": 1, \"emitted\": [${ids[1]}, ${ids[2]}]/" 'a draft is rejected'
edited "0,/$bonus/s//\"accepted\": 2, \"emitted\": [${ids[1]}, ${ids[2]}]/" 'begins at position'
edited "0,/\"accepted\": 2, \"emitted\": \\[${ids[4]}, ${ids[5]}, ${ids[6]}\\]/s//\"accepted\": 3, \"emitted\": [${ids[4]}, ${ids[5]}, 7, ${ids[6]}]/" \
    '7 was emitted'

# --- states that another call made (T-85) --------------------------------------------------------------------
# declared WAY STATUS: diff with this `rollback` in the trace
declared() {
    sed -i "s/\"rollback\": \"[a-z]*\"/\"rollback\": \"$1\"/" "$work/trace/trace.json"
    run "$2" diff "$t1" --engine "$work/trace"
}
record --backend sim:batched -n 5 --draft 2 --rollback replay --taps 'all,state.*'
declared replay 0
says ' not judged'
declared snapshots 1
says_err 'layers.0.linear_attn.conv_state query, head 0, row 1, column 0'
sed -i 's/"rollback": "[a-z]*",//' "$work/trace/trace.json"
check "it is still declared" test "$(grep -c rollback "$work/trace/trace.json")" = 0
run 0 diff "$t1" --engine "$work/trace"
# states that the recorded call left are compared with it, to the bit
record --backend sim:batched -n 5 --draft 2 --rollback snapshots --taps 'all,state.*'
declared slots 0

# --- wrong use ------------------------------------------------------------------------------------------------
refused 2 run "$t1" --tokens 1,2,3 --draft 2 --draft-file "$work/drafts"
refused 2 diff "$t1" --engine "$work/trace" --drafter eagle
refused 2 diff "$t1" --engine sim:pairwise --tokens 1,2,3 --draft 2 --drafter external
refused 2 run "$t1" --tokens 1,2,3 --draft-file "$work/drafts" --temp 1 --accept-mode residual
echo '1,2,3,4,5,6,7,8,9' > "$work/many"
refused 3 run "$t1" --tokens 1,2,3 --draft-file "$work/many"
echo 384 > "$work/foreign"
refused 3 run "$t1" --tokens 1,2,3 --draft-file "$work/foreign"
echo '# none' > "$work/empty"
refused 3 run "$t1" --tokens 1,2,3 --draft-file "$work/empty"
finish
