#!/usr/bin/env bash
# diff of state digests without recorded arrays: a digest that differs is a failure if the engine claims every bit of
# the reference (T-89). For an engine that adds in another way it is only counted.
. "$(dirname "$0")/lib.bash"

make_checkpoint t4 --preset T4 --recipe predictable --layers 4
t4=$work/t4 trace=$work/trace

# record NAME OPTION...: $work/NAME; the engine name of the reference is changed, or the trace would be MISTRUSTED
record() {
    local name=$1
    shift
    run 0 run "$t4" --tokens 11,12,13,14,15 -n 6 --draft 2 --trace "$work/$name" "$@"
    sed -i 's/samebit ref/mine/' "$work/$name/trace.json"
}
# edited NAME FILE SED STATUS TEXT: diff of an edited copy
edited() {
    rm -rf "$trace"
    cp -r "$work/$1" "$trace"
    LC_ALL=C sed -i "$3" "$trace/$2"
    check "nothing was edited by $3" test "$(cmp -s "$work/$1/$2" "$trace/$2"; echo $?)" = 1
    run 0 trace "$trace" --checkpoint "$t4"
    run "$4" diff "$t4" --engine "$trace" --json
    check "not in the document: $5" grep -qF -- "$5" "$out"
}
# nudge TRACE TAP: changes the lowest bit of the tap's first value in the first step that has the tap
nudge() {
    local file header at byte
    file=$(grep -laF "\"$2\"" "$1"/step-*.safetensors | head -n 1)
    header=$(od -An -tu8 -N8 "$file")
    at=$(dd if="$file" bs=1 skip=8 count="$((header))" 2> /dev/null |
        sed "s/.*\"$2\": *{[^}]*\"data_offsets\": *\[\([0-9]*\).*/\1/")
    at=$((8 + header + at))
    byte=$(od -An -tu1 -j "$at" -N1 "$file")
    LC_ALL=C sed -i 's/\\"'"$2"'\\":/\\"x'"${2:1}"'\\":/' "$file" # its digest is no longer its own
    printf "\\$(printf %o $((byte ^ 1)))" | dd of="$file" bs=1 seek="$at" conv=notrunc 2> /dev/null
}
other=0123456789abcdef0123456789abcdef
none='and its data are not recorded; the trace says that its arithmetic is exact'

record exact --taps 'logits,mtp.logits'
run 0 diff "$t4" --engine "$work/exact" --json
at verdict IDENTICAL
at notes '[]'
for name in target mtp; do
    change="/\"step\": 6,/s/\"$name\": \"[0-9a-f]*\"/\"$name\": \"$other\"/"
    edited exact trace.json "$change" 1 "the digest $name of the whole state differs $none"
    at verdict FAIL
    at first_failure.tap $name
    at first_failure.expected null
    # a second failure does not excuse the digest
    cp -r "$work/exact" "$work/exact-off"
    nudge "$work/exact-off" mtp.logits
    edited exact-off trace.json "$change" 1 "the digest $name of the whole state differs $none"
    rm -r "$work/exact-off"
    # without that claim, equal logits under knobs that round nothing leave the question open
    edited exact trace.json "$change; s/\"arithmetic\": \"exact\", //" 4 "the digest $name of the whole state"
    at verdict MISTRUSTED
done
# only digests are recorded: those of the other pieces show that the engine has the reference's bits
record bare --taps none
run 0 diff "$t4" --engine "$work/bare" --json
at notes '[]'
piece=layers.1.linear_attn.recurrent_state
change="s/\\(state.0.$piece[^]]*\"\\)[0-9a-f]\\{32\\}/\\1$other/"
edited bare step-000006.safetensors "$change" 1 "the digest of $piece differs $none"
at rounds.0.state.recurrent.verdict FAIL
at rounds.0.state.kv.verdict IDENTICAL
at rounds.1.state.recurrent.verdict IDENTICAL
at first_failure.layer 1
# the trace does not claim the reference's arithmetic, and there are no logits
sed -i 's/"arithmetic": "exact", //' "$work/bare/trace.json"
edited bare step-000006.safetensors "$change" 0 '1 digest of states differs from the reference'
at rounds.0.state.recurrent.verdict SKIPPED

# correct engines that add in another order: in binary32 all logits differ; in bfloat16, in such a short run, none does
for options in '' '--profile hf'; do
    # shellcheck disable=SC2086
    record "sim${options##* }" --backend sim:pairwise $options
    # shellcheck disable=SC2086
    run 0 diff "$t4" --engine "$work/sim${options##* }" $options --json
    check "they are not counted" grep -q ' digests of states differ from the reference.s and were not judged' "$out"
done
run 0 run "$t4" --backend sim:lanes16 --profile hf --tokens 1,2 -n 2 --trace "$work/short"
run 0 diff "$t4" --engine "$work/short" --profile hf --json
at verdict IDENTICAL
check "they are not counted" grep -q ' digests of states differ from the reference.s and were not judged' "$out"
finish
