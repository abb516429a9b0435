#!/usr/bin/env bash
# run and accept with --draft-file: drafts that a file gives for each round or position (docs/draft-files.md).
source "$(dirname "${BASH_SOURCE[0]}")/lib.bash"

make_checkpoint t1 --preset T1 --recipe predictable
make_checkpoint t4 --preset T4 --recipe predictable --no-mtp
t1=$work/t1 t4=$work/t4

# written NAME: the drafts of the last run's rounds as a file, an entry for each round
field() { "$helpers/json_at" "$1" < "$out" | tr -d ' \n'; }
written() {
    local i count position=$2
    count=$(field rounds.length)
    for ((i = 0; i < count; i++)); do
        echo "{\"round\": $i, \"position\": $position, \"drafts\": $(field rounds.$i.drafted)}"
        position=$((position + $(field rounds.$i.emitted.length)))
    done > "$work/$1"
}
# round_results: what the drafts decide, and the states
round_results() { for path in tokens logits_digest state_digest rounds acceptance; do field $path; done; }

# --- an entry for each round: the drafts of any drafter, replayed --------------------------------------------------
prompt=1,2,3,127,153,16,35,1,2,3 # an n-gram finds something, too
for drafter in mtp ngram:1-3; do
    run 0 run "$t1" --tokens $prompt -n 20 --draft 3,0,2 --drafter $drafter --json
    written rounds 10
    expected=$(round_results)
    sed 's/"round": [0-9]*, "position": [0-9]*, //' "$work/rounds" > "$work/bare"
    sed 's/"round": [0-9]*, //' "$work/rounds" > "$work/positions"
    for file in rounds bare positions; do
        for rollback in snapshots replay; do
            run 0 run "$t1" --tokens $prompt -n 20 --draft-file "$work/$file" --drafter external --rollback $rollback --json
            same "$drafter, $file" "$(round_results)" "$expected"
        done
    done
done
check "the n-gram has no draft" test "$(value acceptance.drafted)" -gt 0
# --draft-file alone means the same
run 0 run "$t1" --tokens $prompt -n 20 --draft-file "$work/rounds" --json
same "without --drafter" "$(round_results)" "$expected"
# a sampler's tokens stay, whatever the file proposes
run 0 run "$t1" --tokens 1,2,3 -n 20 --temp 0.9 --json
tokens=$(value tokens)
yes '{"drafts": [7, 9, 11]}' | head -n 20 > "$work/wrong"
run 0 run "$t1" --tokens 1,2,3 -n 20 --temp 0.9 --draft-file "$work/wrong" --json
at tokens "$tokens"
# sequences have rounds of their own, in any order of lines
printf '%s\n' 1,2,3 5,6,7 > "$work/two"
run 0 run "$t1" --tokens-file "$work/two" -n 8 --draft 2 --json
for s in 0 1; do
    for ((i = 0; i < $(field sequences.$s.rounds.length); i++)); do
        echo "{\"sequence\": $s, \"drafts\": $(field sequences.$s.rounds.$i.drafted)}"
    done
done > "$work/both"
sequences=$(field sequences)
sort -s -t: -k2,2 -r "$work/both" > "$work/turned"
differ "the order of lines" "$(cat "$work/both")" "$(cat "$work/turned")"
for file in both turned; do
    run 0 run "$t1" --tokens-file "$work/two" -n 8 --draft-file "$work/$file" --json
    same "two sequences, $file" "$(field sequences)" "$sequences"
done
# the rounds of a trace
run 0 run "$t1" --tokens 1,2,3 -n 12 --draft 3 --trace "$work/trace" --json
expected=$(round_results)
run 0 run "$t1" --tokens 1,2,3 -n 12 --draft-file "$work/trace/trace.json" --json
same "the rounds of a trace" "$(round_results)" "$expected"
# drafts of a file and the trace of a run with them
run 0 run "$t1" --backend sim:pairwise --tokens 1,2,3 -n 12 --draft-file "$work/trace/trace.json" --trace "$work/again"
check "the drafter is not declared" grep -q '"drafter": "external"' "$work/again/trace.json"
run 0 diff "$t1" --engine "$work/again" --free --json
at verdict WITHIN

# --- distributions -------------------------------------------------------------------------------------------------
run 0 run "$t1" --tokens 1,2,3 -n 1 --json
next=$(field tokens.0)
sure() { # P Q: the same draft in 8 rounds, of probability P; its neighbour has Q
    local i
    for ((i = 0; i < 8; i++)); do echo "{\"drafts\": [9], \"probabilities\": [[[10, $2], [9, $1]]]}"; done > "$work/odds"
}
residual=(run "$t1" --tokens "1,2,3,$next" -n 8 --temp 1 --accept-mode residual --draft-file)
# tests/mtp/test_residual.c has the law
printf '{"drafts": [9]}\n' > "$work/none"
refused 3 "${residual[@]}" "$work/none"
says_err "none:1: sequence 0, round 0 has no probabilities"
sure 0.5 0.5
run 0 "${residual[@]}" "$work/odds" --json
at accept_mode residual
at acceptance.drafted "$(value acceptance.rounds)"
# greedy runs need none
run 0 run "$t1" --tokens 1,2,3 -n 2 --draft-file "$work/none" --accept-mode residual
printf '{"drafts": []}\n%.0s' 1 2 3 4 5 6 7 8 > "$work/empty_rounds"
run 0 "${residual[@]}" "$work/empty_rounds"
says 'accepted: no round had a draft'

# --- accept --------------------------------------------------------------------------------------------------------
run 0 run "$t4" --tokens 5,6,7 -n 12 --json
answer=$(field tokens | tr -d '[]')
prompt=5,6,7,$answer,5,6,7
run 0 run "$t4" --tokens "$prompt" -n 24 --draft 4 --drafter ngram:1-3 --json
written rounds 18
counts="$(value acceptance.rounds) $(value acceptance.drafted) $(value acceptance.accepted)"
echo "$prompt,$(field tokens | tr -d '[]')" > "$work/text"
metrics() { printf 'vllm:spec_decode_num_%s_total %s\n' drafts "$1" draft_tokens "$2" accepted_tokens "$3" > "$work/metrics"; }
# shellcheck disable=SC2086
metrics $counts
judge=(accept "$t4" --tokens-file "$work/text" --given 18 --observed "$work/metrics" --drafter external --draft-file)
run 0 "${judge[@]}" "$work/rounds" --json
at drafter external
at observed.verdict EQUAL
# a drafter that the file does not describe: one draft less in the first round that has one
sed 's/"round": [0-9]*, "position": [0-9]*, //' "$work/rounds" | sed '0,/\(drafts": \[[0-9][0-9, ]*\), *[0-9]*\]/s//\1]/' > "$work/less"
differ "nothing was edited" "$(cat "$work/less")" "$(cat "$work/rounds")"
yes '{"drafts": []}' | head -n 40 >> "$work/less"
run 1 "${judge[@]}" "$work/less"
says_err DIFFERS
# positions: every position has its drafts; an n-gram as a file gives the table of the n-gram
run 0 accept "$t4" --tokens-file "$work/text" -K 3 --drafter ngram:1-3 --json
for ((i = 0; i < $(field positions.length); i++)); do
    echo "{\"position\": $(field positions.$i.position), \"drafts\": $(field positions.$i.drafts)}"
done > "$work/each"
table=$(field by_depth) rounds=$(field rounds)
run 0 accept "$t4" --tokens-file "$work/text" -K 3 --draft-file "$work/each" --json
at by_depth "$table"
at rounds "$rounds"
run 0 accept "$t4" --tokens-file "$work/text" --draft-file "$work/each" --json
at drafts 3
refused 3 accept "$t4" --tokens-file "$work/text" -K 2 --draft-file "$work/each"
says_err 'found a round of 3 drafts; expected at most 2, the number of -K'
refused 2 accept "$t4" --tokens-file "$work/text" --draft-file "$work/rounds"
says_err 'has rounds and not positions, so --given has to say'
sed -i 1d "$work/each"
refused 3 accept "$t4" --tokens-file "$work/text" --draft-file "$work/each"
says_err 'found no entry for position 1'

# --- files that do not fit ------------------------------------------------------------------------------------------
# wrong WORDS LINE...: these lines are refused; the message names the file and has the words
wrong() {
    local words=$1
    shift
    printf '%s\n' "$@" > "$work/bad"
    refused 3 run "$t1" --tokens 1,2,3 -n 6 --draft-file "$work/bad"
    says_err "$work/bad"
    says_err "$words"
}
wrong ':2: sequence 0, round 1: draft 2 is token 384; expected an id below 384' '{"drafts": []}' '{"drafts": [1, 2, 384]}'
wrong ':1: sequence 0, round 0 has 9 drafts; expected at most 8' '{"drafts": [1, 2, 3, 4, 5, 6, 7, 8, 9]}'
wrong ': sequence 0: found 1 round; expected round 1, which begins at position 4' '{"drafts": [0]}'
wrong ':2: sequence 0: found round 2; expected round 1' '{"round": 0, "drafts": []}' '{"round": 2, "drafts": []}'
wrong ':1: sequence 1, round 0; expected a sequence below 1' '{"sequence": 1, "drafts": []}'
wrong ':2: sequence 0, round 1 begins at position 7 in the file; expected 4' '{"drafts": [0]}' '{"round": 1, "position": 7, "drafts": []}'
wrong 'sequence 0, round 1: found no entry for position 4' '{"position": 3, "drafts": [0]}'
wrong ':2: sequence 0, position 3 is also in line 1' '{"position": 3, "drafts": [0]}' '{"position": 3, "drafts": []}'
wrong ':2: an entry for a position after entries for rounds' '{"drafts": []}' '{"position": 3, "drafts": []}'
wrong ':2: an entry for a round after entries for positions' '{"position": 3, "drafts": []}' '{"drafts": []}'
wrong ':1: sequence 0, round 0: the probabilities of draft 1 have the sum 0.9; expected 1, within 0.001' \
    '{"drafts": [4, 5], "probabilities": [[[4, 1]], [[5, 0.4], [6, 0.5]]]}'
wrong ':1: sequence 0, round 0: draft 0 is token 4, which has no probability in its own' '{"drafts": [4], "probabilities": [[[5, 1]]]}'
wrong ':1: sequence 0, round 0: probabilities of draft 0: token 4 is there twice' '{"drafts": [4], "probabilities": [[[4, 0.5], [4, 0.5]]]}'
wrong 'the probability of token 4 is the real number 1.5; expected 0 to 1' '{"drafts": [4], "probabilities": [[[4, 1.5]]]}'
wrong 'has 2 drafts and probabilities of 1; expected a list for each' '{"drafts": [4, 5], "probabilities": [[[4, 1]]]}'
wrong 'draft 0 has a probability for token 384; expected an id below 384' '{"drafts": [4], "probabilities": [[[4, 0.5], [384, 0.5]]]}'
wrong 'draft 0 is -4; expected a token id' '{"drafts": [-4]}'
wrong 'expected a list of token ids' '{"drafts": 4}'
wrong ':1' '{"drafts": [4], "kind": "tree"}'
wrong ':2' '{"drafts": []}' '{"drafts": [4'
wrong ":1: number 1 begins with 'x'" '4 x'
wrong 'no drafts: expected' '# nothing'

# --- wrong use ------------------------------------------------------------------------------------------------------
refused 2 run "$t1" --tokens 1,2,3 --draft 2 --drafter external
says_err 'expected --draft-file as well'
refused 2 run "$t1" --tokens 1,2,3 --draft 2 --draft-file "$work/rounds"
refused 2 run "$t1" --tokens 1,2,3 --drafter ngram --draft-file "$work/rounds"
refused 2 run "$t1" --tokens 1,2,3 --draft-file "$work/rounds" --force-accept 1
refused 2 accept "$t1" --tokens-file "$work/text" --drafter external
finish
