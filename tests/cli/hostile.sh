#!/usr/bin/env bash
# Names and values from files that could control a terminal or a report are never printed unescaped.
. "$(dirname "$0")/lib.bash"
export LC_ALL=C

# C1, a right-to-left override, a separator of lines, an isolate; and a byte that is no UTF-8
bad=$'\xc2\x9b\xe2\x80\xae\xe2\x80\xa8\xe2\x81\xa6'
forbidden=$'\xc2[\x80-\x9f]|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]|\xd8\x9c|\xff|\x1b|\x7f'
calm() { ! grep -saqE "$forbidden" "$@"; }
good_text='déjà 漢字 😀'

make_checkpoint plain --preset T4 --layers 1 --tokenizer
make_checkpoint other --preset T4 --layers 1 --seed 7
name=layers.0.input_layernorm.weight
evil="layers.0.xxxx$bad.weight"
cp -r "$work/plain" "$work/evil"
sed -i "s/$name/$evil/" "$work"/evil/*.safetensors "$work/evil/model.safetensors.index.json"
check "a name of another length" cmp -s <(wc -c < "$work/plain/model-00001-of-00003.safetensors") \
    <(wc -c < "$work/evil/model-00001-of-00003.safetensors")
cp -r "$work/plain" "$work/value"
sed -i "s/\"model_type\": \"[^\"]*\"/\"model_type\": \"$bad\"/" "$work/value/config.json"
cp -r "$work/plain" "$work/"$'f\xff'"$bad"
cp "$work/plain/model-00001-of-00003.safetensors" "$work/plain/"$'x\xff'"$bad.safetensors"

# under every verdict the output is safe to show
told() {
    last="$*"
    "$SAMEBIT" "$@" > "$out" 2> "$err" < /dev/null
    check "stdout steers a terminal" calm "$out"
    check "stderr steers a terminal" calm "$err"
    check "nothing is told" test -s "$out" -o -s "$err"
}
for folder in evil value plain $'f\xff'"$bad"; do
    for json in '' --json; do
        told check "$work/$folder" $json --junit "$work/junit.xml"
        check "JUnit steers what shows it" calm "$work/junit.xml"
        told info "$work/$folder" $json
        told info "$work/$folder" --laws $json
        told hash "$work/$folder" $json
        told hash "$work/$folder" --values $json
        told floor "$work/$folder" --bandwidth 100 $json
        told run "$work/$folder" --tokens 1 $json
        told graft "$work/$folder" --take 'layers.*' --from "$work/other" --dry-run -o "$work/g" $json
        told convert "$work/$folder" "$work/c" --to nvfp4-ct $json
        told diff "$work/$folder" --engine sim:fma --tokens 1,2 $json --report "$work/page.html" \
            --junit "$work/junit.xml" --jsonl "$work/lines.jsonl"
        check "a report steers what shows it" calm "$work"/page.html "$work"/junit.xml "$work"/lines.jsonl
        told compare "$work/$folder" "$work/other" --tokens 1,2,3 $json
    done
done
for command in check info run make "no$bad"; do
    told $command "$work/plain" "--$bad"
    told $command "$bad" "$bad" "$bad" "$bad" "$bad"
    told $command "$work/plain" --seed "$bad" --preset "$bad" --only "$bad" --tokens "$bad"
done
told make "$work/m" --preset "$bad"
told run "$work/plain" --tokens "$bad"
told run "$work/plain" --tokens 1 --set "$bad=$bad"
told run "$work/plain" --tokens 1 --profile "$bad"
told check "$work/plain" --only "$bad"
told check "$work/plain" --for "$bad"

# safe text stays unchanged, and text that goes through JSON keeps its meaning
cp -r "$work/other" "$work/$good_text"
run 0 check "$work/$good_text" --json
says "$good_text"
run 0 hash "$work/$good_text" --json
rm "$work/plain/"x*
run 0 tokenize "$work/plain" "$bad$good_text" --json
at text "$bad$good_text"
check "the document steers a terminal" calm "$out"
says "$good_text"
finish
