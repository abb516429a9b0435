#!/usr/bin/env bash
# run --prompt: text in and text out. run --state-in and --state-out: a run cut in two gives the same as one run.
. "$(dirname "$0")/lib.bash"

make_checkpoint p --preset T5 --recipe predictable --tokenizer
make_checkpoint other --preset T5 --recipe predictable --seed 7
make_checkpoint bare --preset T5 --recipe predictable --no-mtp
p=$work/p

# --- text --------------------------------------------------------------------------------------------------
run 0 tokenize "$p" 'the same bits'
ids=$(sed 's/^tokens //' "$out")
run 0 run "$p" --tokens "$ids" -n 8 --json
cp "$out" "$work/ids"
check "text that nobody asked for" test -z "$("$helpers/json_at" text < "$out" 2> /dev/null)"
run 0 run "$p" --prompt 'the same bits' -n 8 --json
at prompt "[$ids]"
for path in tokens logits_digest state_digest; do at $path "$("$helpers/json_at" $path < "$work/ids")"; done
tokens=$(value tokens | tr -d '[]') text=$(value text)
run 0 tokenize "$p" --decode "$tokens"
# bytes that are no character become U+FFFD, one for each
head -c -1 "$out" > "$work/decoded"
iconv -c -f UTF-8 -t UTF-8 "$work/decoded" > "$work/sound" 2> /dev/null
printf %s "$text" > "$work/text"
LC_ALL=C sed 's/\xef\xbf\xbd/?/g' "$work/text" > "$work/marked"
broken=$(($(wc -c < "$work/decoded") - $(wc -c < "$work/sound")))
same "bytes that are no character" "$(tr -cd '?' < "$work/marked" | wc -c)" \
    $((broken + $(tr -cd '?' < "$work/sound" | wc -c)))
check "no such byte: the case shows nothing" test $broken -gt 0
check "the rest of the text" cmp <(tr -d '?' < "$work/marked") <(tr -d '?' < "$work/sound")
run 0 run "$p" --prompt 'the same bits' -n 8 --draft 2
says "prompt $ids"
check "text is not one line" test "$(grep -c '^text ".*"$' "$out")" = 1
run 0 golden write "$work/g" "$p" --prompt 'the same bits' -n 4
run 0 golden verify "$work/g" "$p"
refused 2 run "$p" --prompt ''
says_err 'no token'
refused 2 run "$p" --prompt x --tokens 1
says_err --prompt
refused 3 run "$work/other" --prompt x
says_err "$work/other/tokenizer.json"

# --- state -------------------------------------------------------------------------------------------------
prompt=5,25,59,107,169,245
results() { for path in tokens logits_digest state_digest.target state_digest.mtp; do "$helpers/json_at" $path < "$1"; done; }
# cut_in_two OPTION...: 12 tokens in one run equal 5 tokens, a state file and 7 more tokens; a prompt is cut likewise
cut_in_two() {
    local first all
    run 0 run "$p" --tokens $prompt -n 12 --json "$@" --state-out "$work/whole"
    cp "$out" "$work/all"
    run 0 run "$p" --tokens $prompt -n 5 --json "$@" --state-out "$work/half"
    first=$(value tokens | tr -d '[]')
    run 0 run "$p" --state-in "$work/half" --tokens "${first##*,}" -n 7 --json "$@" --state-out "$work/end"
    all=$("$helpers/json_at" tokens < "$work/all" | tr -d '[]')
    same "tokens" "$all" "$first,$(value tokens | tr -d '[]')"
    for path in target mtp; do
        same "$path" "$(value state_digest.$path)" "$("$helpers/json_at" state_digest.$path < "$work/all")"
    done
    check "another file at the end" cmp "$work/whole" "$work/end"
    # the prompt cut in two
    run 0 run "$p" --tokens 5,25,59,107 -n 0 --state-out "$work/half"
    run 0 run "$p" --state-in "$work/half" --tokens 169,245 -n 12 --json "$@" --state-out "$work/end"
    same "a prompt in two" "$(results "$work/all")" "$(results "$out")"
    check "another file at the end of two prompts" cmp "$work/whole" "$work/end"
}
cut_in_two
cut_in_two --draft 3
cut_in_two --draft 2,0,4 --rollback replay --temp 5 --top-p 0.9
# accepted drafts count as fed, rejected ones do not
run 0 run "$p" --tokens $prompt -n 9 --draft 4 --force-accept 1,3 --state-out "$work/forced" --json
tokens=$(value tokens | tr -d '[]')
run 0 state save "$p" --tokens "$prompt,${tokens%,*}" -o "$work/fed"
run 0 state diff "$work/forced" "$work/fed"

# without a head drafts are refused, and the digest of the head is null
run 0 state save "$p" --tokens 1,2,3 --no-mtp -o "$work/headless"
run 0 run "$p" --state-in "$work/headless" --tokens 4 -n 2 --json
at state_digest.mtp null
refused 2 run "$p" --state-in "$work/headless" --tokens 4 -n 2 --draft 1
says_err "$work/headless"
# refused: another checkpoint, other settings, several sequences, a missing file
refused 3 run "$work/other" --state-in "$work/half" --tokens 4 -n 2
says_err "$work/half"
refused 3 run "$p" --state-in "$work/half" --tokens 4 -n 2 --set act=bf16
refused 3 run "$work/bare" --state-in "$work/half" --tokens 4 -n 2
refused 3 run "$p" --state-in "$work/absent" --tokens 4 -n 2
says_err "$work/absent"
printf '1\n2\n' > "$work/two"
refused 2 run "$p" --tokens-file "$work/two" --state-out "$work/none"
says_err --state-out
refused 2 run "$p" --tokens-file "$work/two" --state-in "$work/half"
refused 2 run "$p" --tokens 1,999 --state-out "$work/none"
check "a file was left" test ! -e "$work/none"
refused 2 golden write "$work/h" "$p" --tokens 1 --state-in "$work/half"
finish
