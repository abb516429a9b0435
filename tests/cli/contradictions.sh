#!/usr/bin/env bash
# diff of traces that contradict themselves: it fails with the words of `samebit trace`, whatever the values are.
. "$(dirname "$0")/lib.bash"

make_checkpoint t4 --preset T4 --recipe predictable --layers 4
t4=$work/t4 trace=$work/trace
printf '1,2,3\n\n9,8,7\n' > "$work/texts"
run 0 run "$t4" --backend sim:pairwise --tokens-file "$work/texts" -n 4 --draft 2 --trace "$work/whole" --taps logits
# the same trace without values, and with alternating calls of the two sequences
mkdir "$work/bare" "$work/turns"
sed 's/"tensors": [0-9]*/"tensors": 0/; s/"states": \[{[^]]*\]/"states": []/; s/"level": [0-9]/"level": 0/' \
    "$work/whole/trace.json" > "$work/bare/trace.json"
awk '/^{"step"/ { sub(/,$/, ""); s = /"sequence": 1/ + 0; calls[s, n[s]++] = $0; next }
    { out = out $0 (/"steps"/ ? "\nSTEPS" : "\n") }
    END {
        split(out, parts, "STEPS")
        printf "%s", parts[1]
        for (i = 0; i < n[0] || i < n[1]; i++)
            for (s = 0; s < 2; s++)
                if (i < n[s]) {
                    sub(/"step": [0-9]+/, ("\"step\": " steps++), calls[s, i])
                    printf("%s%s\n", (steps > 1 ? "," : ""), calls[s, i])
                }
        printf "%s", parts[2]
    }' "$work/bare/trace.json" > "$work/turns/trace.json"

# edited FOLDER SED FINDING: both commands have this finding in an edited copy of the folder
edited() {
    rm -rf "$trace"
    cp -r "$work/$1" "$trace"
    sed -i "$2" "$trace/trace.json"
    check "nothing was edited by $2" test "$(cmp -s "$work/$1/trace.json" "$trace/trace.json"; echo $?)" = 1
    run 1 trace "$trace" --checkpoint "$t4"
    says "FAIL $3"
    sed -n 's/^FAIL //p' "$out" | head -n 1 > "$work/first"
    run 1 diff "$t4" --engine "$trace" --json
    at verdict FAIL
    at reason "$(cat "$work/first")"
    at first_failure.op "$(sed 's/:.*//' "$work/first")"
    at first_failure.found null
    at first_failure.expected null
}
for folder in whole bare turns; do
    run 0 trace "$work/$folder" --checkpoint "$t4"
    run 0 diff "$t4" --engine "$work/$folder"
done
edited whole '/"step": 11,/s/"kind": "verify", "round": 0}\],/"kind": "decode", "round": 0}],/' \
    'kind: step 11, row 2, sequence 1: is of kind decode, but the previous row of kind verify'
edited whole '/"step": 6,/s/"round": 1, "position": 5/"round": 1, "position": 6/' \
    'round: step 6, row 0, sequence 0: round 1 is at position 6'
edited whole '/"step": 6,/s/"round": 1/"round": 5/g' \
    'round: step 6, row 0, sequence 0: is round 5, but the previous one was round 0'
edited whole '/"step": 6,/s/"rounds": \[\({.*}\)\], "states"/"rounds": [\1, \1], "states"/' \
    'round: step 6, sequence 0: round 1 is the second of this sequence in this step'
edited turns 's/"slot": 1/"slot": 0/g' 'slot: step 6, row 0, sequence 0: slot 0 was read by sequence 1 in step 1'
# a second sequence with a number that is already used
edited bare 's/"sequence": 1/"sequence": 0/g' 'position: step 8, row 0, sequence 0: begins at position 0, expected 6'
# digests of whole states, and the arrays that they belong to
run 0 run "$t4" --backend sim:pairwise --tokens 1,2,3 -n 4 --draft 2 --trace "$work/arrays" --taps 'logits,state.*'
run 0 diff "$t4" --engine "$work/arrays"
for name in target mtp; do
    edited arrays "/\"step\": 6,/s/\"$name\": \"[0-9a-f]*\"/\"$name\": \"0123456789abcdef0123456789abcdef\"/" \
        "state: step 6, sequence 0: the digest $name is 0123456789abcdef0123456789abcdef, but the recorded arrays give "
done
sed -i 's/, "target": "[0-9a-f]*"//; s/, "mtp": "[0-9a-f]*"//' "$work/arrays/trace.json"
check "there are digests" test "$(grep -c '"target"\|"mtp"' "$work/arrays/trace.json")" = 0
run 0 trace "$work/arrays" --checkpoint "$t4"
run 0 diff "$t4" --engine "$work/arrays"
# a part of the arrays does not give a digest, so that nothing is compared
run 0 run "$t4" --backend sim:pairwise --tokens 1,2,3 -n 4 --draft 2 --trace "$work/some" --taps 'logits,state.*conv_state'
run 0 diff "$t4" --engine "$work/some"
# an unrecorded round is no fault of the engine: the next row, or the next draft, says how many rows stayed
run 0 run "$t4" --backend sim:pairwise --tokens 1,2,3 -n 6 --draft 2 --trace "$trace.all" --taps 'all,state.*'
sed -i '/"step": 3,/s/"rounds": \[{.*}\], "states"/"rounds": [], "states"/' "$trace.all/trace.json"
lacks='the trace claims level 4, but step 3 lacks the round of row 0'
run 1 trace "$trace.all" --checkpoint "$t4"
says "FAIL level: step 0, sequence 0: $lacks"
run 0 diff "$t4" --engine "$trace.all" --json
at notes "[\"$lacks\"]"
finish
