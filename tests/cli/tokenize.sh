#!/usr/bin/env bash
# tokenize: ids of a text and the text of ids, from a folder or a file, and what is refused; make --tokenizer.
. "$(dirname "$0")/lib.bash"

make_checkpoint a --preset T1 --tokenizer
make_checkpoint b --preset T1 --tokenizer --seed 43
make_checkpoint without --preset T1
a=$work/a
check "the seed changes the tokenizer" cmp "$a/tokenizer.json" "$work/b/tokenizer.json"
check "no tokenizer_config.json" grep -q '"eos_token": "<|im_end|>"' "$a/tokenizer_config.json"
check "--tokenizer changes other files" cmp "$a/config.json" "$work/without/config.json"
check "a tokenizer nobody asked for" test ! -e "$work/without/tokenizer.json"
# as many ids as T1 uses
run 0 tokenize "$a" '<|endoftext|><|im_start|><|im_end|>'
says 'tokens 374,375,376'
check "more than the ids" test "$(cat "$out")" = 'tokens 374,375,376'
run 0 run "$a" --tokens 376 -n 1

# a text on the command line, from a file, from a tokenizer.json; back
run 0 tokenize "$a" 'the same bits'
tokens=$(sed 's/^tokens //' "$out")
check "no ids" test -n "$tokens"
printf 'the same bits' > "$work/text"
run 0 tokenize "$a" --file "$work/text"
says "tokens $tokens"
run 0 tokenize "$a/tokenizer.json" --file "$work/text" --json
at spec 2
at command tokenize
at text 'the same bits'
at unknown 0
same "the first id of JSON" "$(value tokens.0)" "${tokens%%,*}"
run 0 tokenize "$a" --decode "$tokens"
check "another text" test "$(cat "$out")" = 'the same bits'
run 0 tokenize "$a" 'the same bits' --pieces
says '"the"'
check "not one line for each id" test "$(wc -l < "$out")" = "$(tr ',' '\n' <<< "$tokens" | wc -l)"
run 0 tokenize "$a" ''
check "ids of nothing" test "$(cat "$out")" = tokens

# normalization, and bytes that are no UTF-8 (docs/tokenizer.md, N-4 and N-1)
printf 'e\314\201' > "$work/two"
printf '\303\251' > "$work/one"
run 0 tokenize "$a" --file "$work/two"
decomposed=$(cat "$out")
run 0 tokenize "$a" --file "$work/one"
same "NFC" "$decomposed" "$(cat "$out")"
printf 'a\377\0b\303' > "$work/bytes"
run 0 tokenize "$a" --file "$work/bytes" --json
at text null
at tokens.4 127
run 0 tokenize "$a" --decode "64,187,188,65,127"
check "other bytes" test "$(head -c -1 "$out" | od -An -tx1 | tr -d ' \n')" = 61ff0062c3

# ids without a token are reported, but are no failure
run 0 tokenize "$a" --decode '64,5000,65'
check "another text" test "$(cat "$out")" = ab
says_err '1 of 3 ids have no token'
run 0 tokenize "$a" --decode '5000' --json
at unknown 1
run 0 tokenize "$a" --decode '5000' --pieces
says 'no token'

# every recorded variant loads; a step that the program lacks is named
for file in golden/tokenizer/*.json; do run 0 tokenize "$file" 'a b'; done
sed 's/"NFC"/"NFKC"/' "$a/tokenizer.json" > "$work/nfkc.json"
refused 3 tokenize "$work/nfkc.json" x
says_err 'nfkc.json: normalizer.type is the string "NFKC", which is not supported'
sed 's/"behavior": "Isolated"/"behavior": "Removed"/' "$a/tokenizer.json" > "$work/removed.json"
refused 3 tokenize "$work/removed.json" x
says_err 'pre_tokenizer.pretokenizers.0.behavior is the string "Removed"'
head -c 4000 "$a/tokenizer.json" > "$work/short.json"
refused 3 tokenize "$work/short.json" x
says_err 'short.json:'

refused 3 tokenize "$work/without" x
says_err tokenizer.json
refused 3 tokenize "$work/no-such-folder" x
refused 3 tokenize "$a" --file "$work/no-such-file"
refused 2 tokenize "$a"
refused 2 tokenize
refused 2 tokenize "$a" x --decode 1
refused 2 tokenize "$a" x --file "$work/text"
refused 2 tokenize "$a" --decode x
refused 2 tokenize "$a" x y
last='tokenize > /dev/full'
"$SAMEBIT" tokenize "$a" x > /dev/full 2> "$err"
check "exit status of a full device" test $? = 3
says_err 'could not be written to stdout'
finish
