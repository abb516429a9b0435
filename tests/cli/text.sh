#!/usr/bin/env bash
# Where token ids are taken, --prompt and --text take text: the same result as from the ids of tokenize.
. "$(dirname "$0")/lib.bash"

make_checkpoint p --preset T5 --recipe predictable --tokenizer
make_checkpoint q --preset T5 --recipe predictable --tokenizer --format fp8-block
p=$work/p
text='the same bits, and the same bits again'
printf %s "$text" > "$work/text"
run 0 tokenize "$p" "$text"
ids=$(sed 's/^tokens //' "$out")
check "more than ten ids" test "$(tr -cd , <<< "$ids" | wc -c)" -gt 10

# the_same STATUS COMMAND...: the results are the same with --tokens, --text and --prompt in the place of {}
the_same() {
    local status=$1 form
    shift
    for form in "--tokens $ids" "--text $work/text" "--prompt"; do
        local args=()
        for word in "$@"; do
            if [ "$word" != '{}' ]; then
                args+=("$word")
            elif [ "$form" = --prompt ]; then
                args+=(--prompt "$text")
            else
                args+=(${form})
            fi
        done
        run "$status" "${args[@]}"
        [ "$form" = "--tokens $ids" ] && cp "$out" "$work/by_ids"
        check "$1 $form: another result than from ids" cmp "$out" "$work/by_ids"
    done
}
the_same 0 accept "$p" {} -K 2 --json
the_same 0 compare "$p" "$work/q" {} --json
the_same 0 diff "$p" --engine sim:sequential {} -n 2 --json
for form in "--tokens=$ids" "--text=$work/text" "--prompt=$text"; do
    run 0 run "$p" "${form%%=*}" "${form#*=}" -n 0 --logits "$work/l.npy"
    cp "$work/l.npy" "$work/logits${form%%=*}"
    check "logits of ${form%%=*}" cmp "$work/l.npy" "$work/logits--tokens"
done
the_same 0 trace "$work/l.npy" --as npy --checkpoint "$p" {} --json
the_same 0 diff "$p" --engine "$work/l.npy" --as npy {} --json
the_same 0 check "$p" --run 8 {} --only 1 --quiet
for form in text prompt; do
    value=$text
    [ $form = text ] && value=$work/text
    run 0 state save "$p" --tokens "$ids" -o "$work/by_ids.state"
    run 0 state save "$p" --$form "$value" -o "$work/$form.state"
    check "state of --$form" cmp "$work/by_ids.state" "$work/$form.state"
    run 0 golden write "$work/golden_$form" "$p" --$form "$value" -n 2
    run 0 golden verify "$work/golden_$form" "$p"
done

# --- what is refused ---------------------------------------------------------------------------------------
: > "$work/empty"
refused 3 run "$p" --text "$work/empty"
says_err "$work/empty: the text has no token"
refused 3 run "$p" --text "$work/absent"
refused 2 accept "$p" --text "$work/text" --prompt x
says_err 'one of --tokens, --tokens-file, --prompt and --text'
refused 2 compare "$p" "$work/q"
says_err 'one of --tokens'
refused 2 trace "$work/l.npy" --as npy --text "$work/text"
says_err '--text needs a checkpoint'
refused 2 check "$p" --text "$work/text"
says_err 'needs --run N: it is the text of the run'
# a model with fewer tokens than its tokenizer
make_checkpoint small --preset T5 --recipe predictable
one='"single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true'
sed "/\"id\": 383,/,/}/ s/}/},{\"id\":384,\"content\":\"bits again\",$one}/" "$p/tokenizer.json" \
    > "$work/small/tokenizer.json"
refused 3 run "$work/small" --text "$work/text"
says_err 'of the text has id 384 in tokenizer.json; the vocabulary of the model has 384'

finish
