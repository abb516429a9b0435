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

# --- trees (S-16) --------------------------------------------------------------------------------------------------
make_checkpoint t8 --preset T8
t8=$work/t8
# grown CKPT N: a file of trees for N rounds after 1,2,3. Each has a wrong first branch; the right tokens of a run without
# drafts are on the second one, for 0, 1, 2, 3, 0, ... drafts; the position of each round follows from that
grown() {
    run 0 run "$1" --tokens 1,2,3 -n 40 --json
    local ids round=0 at=0 right a b c
    IFS=, read -ra ids <<< "$(field tokens | tr -d '[]')"
    for ((; round < $2; round++)); do
        right=$((round % 4)) a=$(((ids[at + 1] + 1) % 384)) b=${ids[at + 1]} c=${ids[at + 2]} d=${ids[at + 3]}
        case $right in
            0) b=$(((b + 2) % 384)) ;;
            1) c=$(((c + 2) % 384)) ;;
            2) d=$(((d + 2) % 384)) ;;
        esac
        echo "{\"round\": $round, \"position\": $((3 + at))," \
            "\"drafts\": [$a, $b, 9, $(((c + 1) % 384)), $c, $d], \"parents\": [-1, -1, 0, 1, 1, 4]}"
        at=$((at + right + 1))
    done > "$work/trees"
}
for folder in "$t8" "$t1" "$t4"; do
    grown "$folder" 9
    run 0 run "$folder" --tokens 1,2,3 -n 19 --json
    tokens=$(field tokens) logits=$(field logits_digest) states=$(field state_digest)
    for rollback in snapshots replay; do
        run 0 run "$folder" --tokens 1,2,3 -n 19 --draft-file "$work/trees" --rollback $rollback --json
        same "tokens with trees" "$(field tokens)" "$tokens"
        same "logits with trees" "$(field logits_digest)" "$logits"
        same "states with trees" "$(field state_digest)" "$states"
        for round in 0 1 2 3; do at rounds.$round.accepted $round; done
        at rounds.0.path '[]'
        at rounds.3.path '[1,4,5]'
        at rounds.3.parents '[-1,-1,0,1,1,4]'
        at acceptance.by_depth.length 3
        at acceptance.by_depth.0.drafted "$(field acceptance.rounds)"
        at acceptance.drafted $((6 * $(field acceptance.rounds)))
    done
    # rounds that -n cuts keep a part of the path
    for n in 2 3 5 6; do
        run 0 run "$folder" --tokens 1,2,3 -n $n --json
        states=$(field state_digest)
        run 0 run "$folder" --tokens 1,2,3 -n $n --draft-file "$work/trees" --json
        same "states with trees, -n $n" "$(field state_digest)" "$states"
    done
done
grown "$t8" 9
run 0 run "$t8" --tokens 1,2,3 -n 19 --draft-file "$work/trees"
says 'parents -1,-1,0,1,1,4 accepted 3 of 3 path 1,4,5 emitted'
# the sampler's tokens stay
run 0 run "$t1" --tokens 1,2,3 -n 12 --temp 0.9 --json
tokens=$(field tokens)
run 0 run "$t1" --tokens 1,2,3 -n 12 --temp 0.9 --json
for ((i = 0; i < 12; i++)); do
    echo "{\"drafts\": [7, $(field "tokens.$(((i + 1) % 12))"), 8], \"parents\": [-1, -1, 1]}"
done > "$work/drawn"
run 0 run "$t1" --tokens 1,2,3 -n 12 --temp 0.9 --draft-file "$work/drawn" --json
same "sampled tokens with trees" "$(field tokens)" "$tokens"
at rounds.0.path '[1]'
# drafts that each follow the one before it are no tree
run 0 run "$t1" --tokens 1,2,3 -n 20 --draft 3 --json
expected=$(round_results)
for ((i = 0; i < $(field rounds.length); i++)); do
    echo "{\"drafts\": $(field rounds.$i.drafted), \"parents\": [-1, 0, 1]}"
done > "$work/row"
run 0 run "$t1" --tokens 1,2,3 -n 20 --draft-file "$work/row" --json
same "a tree of one branch" "$(round_results)" "$expected"
# knobs under which a branch cannot begin at its parent
refused 3 run "$t1" --tokens 1,2,3 -n 5 --draft-file "$work/trees" --profile hf
says_err 'knobs under which a sequence can be fed in any parts (S-3)'
# full attention alone has no such knobs
run 0 run "$t8" --tokens 1,2,3 -n 12 --profile hf --json
tokens=$(field tokens)
sed 's/"round": [0-9]*, "position": [0-9]*, //' "$work/trees" > "$work/loose"
yes '{"drafts": []}' | head -n 12 >> "$work/loose"
run 0 run "$t8" --tokens 1,2,3 -n 12 --profile hf --draft-file "$work/loose" --json
same "tokens with trees in profile hf" "$(field tokens)" "$tokens"
# --logits has the rows of the path
run 0 run "$t8" --tokens 1,2,3 -n 12 --logits "$work/plain.npy"
run 0 run "$t8" --tokens 1,2,3 -n 12 --draft-file "$work/trees" --logits "$work/trees.npy"
check "other logits with trees" cmp "$work/plain.npy" "$work/trees.npy"
refused 3 run "$t1" --tokens 1,2,3 -n 5 --temp 1 --draft-file "$work/trees" --accept-mode residual
says_err 'trees:1 has a tree of drafts, for which --accept-mode residual has no rule; expected match'
refused 3 run "$t1" --tokens 1,2,3 -n 5 --draft-file "$work/trees" --trace "$work/none_made"
says_err 'which a trace cannot record yet'
# along a text: the counters of these rounds
grown "$t4" 9
run 0 run "$t4" --tokens 1,2,3 -n 19 --draft-file "$work/trees" --json
counts="$(value acceptance.rounds) $(value acceptance.drafted) $(value acceptance.accepted)"
depths=$(field acceptance.by_depth)
echo "1,2,3,$(field tokens | tr -d '[]')" > "$work/answer"
read -r a b c <<< "$counts"
printf 'vllm:spec_decode_num_%s_total %s\n' drafts "$a" draft_tokens "$b" accepted_tokens "$c" > "$work/metrics"
run 0 accept "$t4" --tokens-file "$work/answer" --given 3 --observed "$work/metrics" --draft-file "$work/trees" --json
at observed.verdict EQUAL
at drafts 3
at rounds.accepted_by_depth "[$(grep -o '"accepted":[0-9]*' <<< "$depths" | tr -d 'a-z":' | paste -sd,)]"

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
wrong ':1: sequence 0, round 0 has 3 drafts and 2 parents; expected a parent for each draft' '{"drafts": [1, 2, 3], "parents": [-1, 0]}'
wrong ':1: sequence 0, round 0: the parent of draft 1 is 1; expected -1 or the number of a draft before it' \
    '{"drafts": [1, 2], "parents": [-1, 1]}'
wrong ':1: sequence 0, round 0: draft 2 has the depth 1, and the draft before it 2; expected drafts in the order' \
    '{"drafts": [1, 2, 3], "parents": [-1, 0, -1]}'
wrong ':1: sequence 0, round 0: drafts 0 and 1 follow the same parent with the same token 4' '{"drafts": [4, 4], "parents": [-1, -1]}'
wrong ':1: sequence 0, round 0 has 9 drafts; expected at most 8' '{"drafts": [1, 2, 3, 4, 5, 6, 7, 8, 9], "parents": [-1, 0, 1, 2, 3, 4, 5, 6, 7]}'
wrong 'draft 9 has the depth 9; expected at most 8' '{"drafts": [1, 9, 2, 3, 4, 5, 6, 7, 8, 9], "parents": [-1, -1, 1, 2, 3, 4, 5, 6, 7, 8]}'
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
