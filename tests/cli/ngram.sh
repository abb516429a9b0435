#!/usr/bin/env bash
# run and accept with --drafter: n-grams in place of the MTP head (S-13, S-14).
source "$(dirname "${BASH_SOURCE[0]}")/lib.bash"

t1=$work/t1 t4=$work/t4
run 0 make "$t1" --preset T1 --recipe predictable
run 0 make "$t4" --preset T4 --recipe predictable --no-mtp

# A prompt that contains what the model writes next, so that an n-gram finds it.
repeated() { # CKPT
    run 0 run "$1" --tokens 5,6,7 -n 12 --json
    written=$(value tokens | tr -d '[] \n')
    prompt=5,6,7,$written,5,6,7,${written%%,*}
}

# --- run ------------------------------------------------------------------------------------------------------
for folder in "$t1" "$t4"; do
    repeated "$folder"
    run 0 run "$folder" --tokens "$prompt" -n 16 --json
    tokens=$(value tokens) logits=$(value logits_digest) state=$(value state_digest.target)
    for drafter in ngram:1-3 ngram:2 ngram-simple:2; do
        for k in 2 4,0,3; do
            run 0 run "$folder" --tokens "$prompt" -n 16 --draft $k --drafter $drafter --json
            at tokens "$tokens"
            at logits_digest "$logits"
            at state_digest.target "$state"
            check "$drafter accepts nothing" test "$(value acceptance.accepted)" -gt 2
            check "$drafter accepts everything" test "$(value acceptance.accepted)" -lt "$(value acceptance.drafted)"
        done
    done
done
# the sampler's tokens stay, too
run 0 run "$t1" --tokens "$prompt" -n 16 --temp 0.8 --json
tokens=$(value tokens)
run 0 run "$t1" --tokens "$prompt" -n 16 --temp 0.8 --draft 3 --drafter ngram:1-2 --json
at tokens "$tokens"
# without a repeated n-gram no round has a draft
run 0 run "$t1" --tokens 1,2,3 -n 3 --draft 4 --drafter ngram
says 'accepted: no round had a draft'
# the first place counts for ngram, the last one for ngram-simple
run 0 run "$t1" --tokens 40,1,2,41,42,1,2,43,44,45,46,1 -n 1 --json
next=$(value tokens.0)
run 0 run "$t1" --tokens "40,1,$next,41,42,1,$next,43,44,45,46,1" -n 1 --json
again=$(value tokens.0)
run 0 run "$t1" --tokens "40,1,$again,41,42,1,$again,43,44,45,46,1" -n 2 --draft 2 --drafter ngram:2 --json
at rounds.0.drafted '[41,42]'
run 0 run "$t1" --tokens "40,1,$again,41,42,1,$again,43,44,45,46,1" -n 2 --draft 2 --drafter ngram-simple:2 --json
at rounds.0.drafted '[43,44]'

# --- a trace, and a state ---------------------------------------------------------------------------------------
repeated "$t1"
run 0 run "$t1" --backend sim:pairwise --tokens "$prompt" -n 12 --draft 3 --drafter ngram:1-3 --trace "$work/trace"
check "the drafter is not declared" grep -q '"drafter": "external"' "$work/trace/trace.json"
run 0 diff "$t1" --engine "$work/trace" --free --json
at verdict WITHIN
# a continued run looks in the tokens of the state
run 0 run "$t1" --tokens "$prompt" -n 9 --draft 3 --drafter ngram:1-3 --json
whole=$(value tokens | tr -d '[] \n')
run 0 run "$t1" --tokens "$prompt" -n 1 --state-out "$work/state"
run 0 run "$t1" --tokens "${whole%%,*}" -n 8 --draft 3 --drafter ngram:1-3 --state-in "$work/state" --json
same "tokens of the continued run" "$(value tokens | tr -d '[] \n')" "${whole#*,}"
check "the state was not looked in" test "$(value acceptance.accepted)" -gt 0

# --- accept ---------------------------------------------------------------------------------------------------
run 0 run "$t4" --tokens "$prompt" -n 24 --draft 3 --drafter ngram:1-3 --json
rounds=$(value acceptance.rounds) drafted=$(value acceptance.drafted) accepted=$(value acceptance.accepted)
run 0 run "$t4" --tokens "$prompt" -n 24 --json
echo "$prompt,$(value tokens | tr -d '[] \n')" > "$work/text"
given=$(tr ',' '\n' <<< "$prompt" | wc -l)
metrics() { # ROUNDS DRAFTED ACCEPTED
    printf 'vllm:spec_decode_num_%s_total %s\n' drafts "$1" draft_tokens "$2" accepted_tokens "$3"
}
metrics "$rounds" "$drafted" "$accepted" > "$work/metrics"
accept=(accept "$t4" --tokens-file "$work/text" -K 3 --given "$given" --observed "$work/metrics")
run 0 "${accept[@]}" --drafter ngram:1-3 --json
at drafter ngram:1-3
at observed.verdict EQUAL
at rounds.accepted "$accepted"
run 1 "${accept[@]}" --drafter ngram:9 --json
at observed.verdict DIFFERS
metrics "$rounds" "$drafted" $((accepted - 1)) > "$work/metrics"
run 1 "${accept[@]}" --drafter ngram:1-3
says_err 'DIFFERS: accepted drafts'
run 0 accept "$t4" --tokens-file "$work/text" -K 3 --drafter ngram:1-3 --html "$work/page.html"
says 'drafter ngram:1-3: drafts at '
check "the page does not name the drafter" grep -q 'ngram:1-3' "$work/page.html"
# counters without depths cannot be compared as rates
run 4 accept "$t4" --tokens-file "$work/text" -K 3 --drafter ngram:1-3 --observed "$work/metrics"
says_err 'different numbers of drafts'

# --- wrong use ------------------------------------------------------------------------------------------------
refused 2 run "$t1" --tokens 1,2,3 --drafter ngram
says_err 'expected --draft as well'
refused 2 run "$t1" --tokens 1,2,3 --draft 2 --drafter eagle
says_err "--drafter is 'eagle'; expected mtp, the folder of a drafter, ngram"
refused 2 run "$t1" --tokens 1,2,3 --draft 2 --drafter ngram:3-2
refused 2 run "$t1" --tokens 1,2,3 --draft 2 --drafter ngram --force-accept 1
refused 2 run "$t1" --tokens 1,2,3 --draft 2 --drafter ngram --temp 1 --accept-mode residual
refused 2 accept "$t1" --tokens-file "$work/text" --drafter ngram-simple
echo 1,2,3,4 > "$work/different"
refused 3 accept "$t1" --tokens-file "$work/different" --drafter ngram:1
says_err 'no draft at any of'
run 0 run "$t1" --tokens 1,2,3 -n 4 --draft 2 --drafter mtp
finish
