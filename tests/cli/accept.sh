#!/usr/bin/env bash
# accept: the table and the document, counters of engines and exit statuses, wrong use; check --run with and without an
# original.
. "$(dirname "$0")/lib.bash"
. "$(dirname "$0")/page.bash"

make_checkpoint t4 --preset T4 --recipe predictable --layers 1
t4=$work/t4
# a text: a prompt and the tokens that the target generates after it
run 0 run "$t4" --tokens 5,6,7,8 -n 44 --json
ids=$(value tokens | tr -d '[] ')
echo "5,6,7,8,$ids" > "$work/text"

run 0 accept "$t4" --tokens-file "$work/text" -K 3
says "$t4: 1 text, 48 tokens, 47 positions, 3 drafts at each, profile exact"
says 'depth   drafted  accepted    rate     low    high  of those reached'
check "something on stderr" test ! -s "$err"
check "a line per position" test "$(wc -l < "$out")" = 9
cp "$out" "$work/table"
run 0 accept "$t4" --tokens-file "$work/text" -K 3 --threads 3
check "threads change the table" cmp "$out" "$work/table"
run 0 accept "$t4" --tokens-file "$work/text" --drafts 3 --verbose
check "no line per position" test "$(wc -l < "$out")" = $((9 + 1 + 47))

run 0 accept "$t4" --tokens-file "$work/text" -K 3 --json
at spec 2
at command accept
at profile exact
at drafts 3
at positions.length 47
at positions.0.position 1
at positions.0.token 6
at positions.0.drafts.length 3
at positions.0.target.length 4
at positions.46.position 47
at by_depth.length 3
at by_depth.0.drafted 47
at observed null
rounds=$(value rounds.rounds) drafted=$(value rounds.drafted) accepted=$(value rounds.accepted)
same "3 drafts a round" "$drafted" $((3 * rounds))
at rounds.from 4
one=$(value by_depth.0.accepted) two=$(value by_depth.1.accepted) three=$(value by_depth.2.accepted)
at by_depth.1.reached "$one"
check "half of the first drafts at least: $one" test "$one" -ge 24 -a "$one" -le 42
check "not less and less: $one $two $three" test "$one" -ge "$two" -a "$two" -ge "$three"
cp "$out" "$work/document"
for isa in exact scalar auto; do
    SAMEBIT_ISA=$isa run 0 accept "$t4" --tokens-file "$work/text" -K 3 --json
    check "another document with $isa" cmp "$out" "$work/document"
done
# K = 4 by default, several texts, and a profile with rollback by replay
printf '1,2,3\n\n9\n4,5,6,7\n' > "$work/texts"
run 0 accept "$t4" --tokens-file "$work/texts" --profile hf --json
at profile hf
at positions.length 5
at by_depth.length 4
at positions.2.text 2
at rounds null
# the half of mtp.fc from another head is detected
make_checkpoint weak --preset T4 --recipe mistakes --layers 1
run 0 accept "$t4" --overlay "mtp.*=$work/weak" --tokens-file "$work/text" -K 3 --json
check "a foreign head is accepted" test "$(value by_depth.0.accepted)" -lt 5

# counters of an engine: the right ones for this text, lower ones, higher ones, and counters without a verdict
v=vllm:spec_decode_num_
metrics() { # rounds drafted accepted, then by position
    printf '%s{engine="0"} %s\n' ${v}drafts_total "$1" ${v}draft_tokens_total "$2" ${v}accepted_tokens_total "$3"
    shift 3
    local j=0
    for n in "$@"; do
        printf '%s{engine="0",position="%d"} %s.0\n' ${v}accepted_tokens_per_pos_total $j "$n"
        j=$((j + 1))
    done
}
observed() {
    local status=$1
    shift
    run "$status" accept "$t4" --tokens-file "$work/text" -K 3 --observed "$work/observed" "$@"
}
metrics 47 141 $((one + two + three)) "$one" "$two" "$three" > "$work/observed"
observed 0
says 'vLLM: 1 part, 47 rounds, 141 drafts'
says 'depth 3: engine '
says 'CONSISTENT: vLLM accepts as often as the reference'
observed 0 --json
at observed.engine vLLM
at observed.verdict CONSISTENT
at observed.compared.length 3
at observed.compared.0.difference 0.0
at observed.rounds 47
metrics "$rounds" "$drafted" "$accepted" > "$work/observed"
observed 0 --json
at observed.compared.length 1
at observed.compared.0.depth null
metrics 100 300 20 12 5 3 > "$work/observed"
observed 1 --html "$work/below.html" --json
page "$work/below.html" BELOW
has() { check "the page lacks: $1" grep -qF -- "$1" "$work/below.html"; }
has "$(printf '<td>%.4f</td><td>%.4f</td>' "$(value observed.compared.0.reference)" "$(value observed.compared.0.engine)")"
has "$(printf '<td>%.4f to %.4f</td>' "$(value by_depth.2.low)" "$(value by_depth.2.high)")"
has '<dt>engine</dt><dd>vLLM</dd>'
same "depths observed" "$(grep -c '^<tr><td>depth ' "$work/below.html")" 3
same "spans of both sides" "$(grep -c 'class="eng at"' "$work/below.html")" 3
same "depths" "$(grep -c '^<tr><td>[1-3]</td><td>[0-9]*</td><td>47</td>' "$work/below.html")" 3
same "all positions" "$(sed -n '/data-section="lengths"/,/section>/s/^<tr><td>[0-9]<.td><td>\([0-9]*\)<.*/\1/p' "$work/below.html" |
    awk '{ n += $1 } END { print n }')" 47
observed 1
says 'BELOW: vLLM accepts less often than the reference at depth 1'
check "not one line on stderr" one_line
says_err "$work/observed: BELOW"
metrics 100 300 290 99 97 94 > "$work/observed"
observed 1
says 'ABOVE: '
metrics 100 200 70 > "$work/observed"
observed 4
says 'UNKNOWN: vLLM drafted 200 tokens in 100 rounds, expected 3 per round'
check "not one line on stderr" one_line
metrics 100 300 400 > "$work/observed"
refused 3 accept "$t4" --tokens-file "$work/text" --observed "$work/observed"
says_err 'are bonus tokens counted as accepted?'
echo '{"meta_info": {"spec_verify_ct": 100, "spec_accept_rate": 0.02, "spec_accept_length": 1.06}}' > "$work/observed"
observed 1 --json
at observed.engine SGLang
at observed.verdict BELOW
at observed.accepted null
echo '{"meta_info": {"spec_verify_ct": 100, "spec_accept_length": 2.06}}' > "$work/observed"
observed 4 --json
at observed.verdict UNKNOWN
echo "{\"timings\": {\"draft_n\": $drafted, \"draft_n_accepted\": $accepted, \"predicted_n\": $((rounds + accepted + 1))}}" > "$work/observed"
observed 0 --json
at observed.engine llama-server
at observed.verdict CONSISTENT
observed 0 --html "$work/same.html"
page "$work/same.html" CONSISTENT
run 0 accept "$t4" --tokens-file "$work/text" -K 3 --html "$work/alone.html"
page "$work/alone.html" MEASURED
check "counters without counters" test "$(grep -c 'data-section="observed"' "$work/alone.html")" = 0
cp "$work/alone.html" "$work/first.html"
run 0 accept "$t4" --tokens-file "$work/text" -K 3 --html "$work/alone.html"
check "another page" cmp "$work/alone.html" "$work/first.html"
refused 3 accept "$t4" --tokens-file "$work/text" --html "$work/none/page.html"
refused 2 accept "$t4" --tokens-file "$work/text" --html "$work/text"
pages_seen
for bad in golden/bad/config-good.json golden/bad/config-truncated.json golden/bad/good.safetensors "$work/none" "$work"; do
    refused 3 accept "$t4" --tokens-file "$work/text" --observed "$bad"
    says_err "$bad"
done

# --given: the text is an engine's answer, and its counters are compared to the unit
run 0 run "$t4" --tokens 5,6,7,8 -n 44 --draft 3
grep -E '^(accepted|depth)' "$out" > "$work/counted"
read -r rounds drafted accepted <<< "$(sed -n 's/[^0-9]*\([0-9]*\) of \([0-9]*\) drafts.* in \([0-9]*\) rounds/\3 \2 \1/p' "$work/counted")"
read -r one two three <<< "$(sed -n 's/^depth [123]: \([0-9]*\) of.*/\1/p' "$work/counted" | tr '\n' ' ')"
metrics "$rounds" "$drafted" "$accepted" "$one" "$two" "$three" > "$work/observed"
observed 0 --given 4
says "reference: $rounds rounds, $drafted drafts, $accepted accepted; by depth $one, $two, $three"
says "engine:    $rounds rounds, $drafted drafts, $accepted accepted; by depth $one, $two, $three"
says 'EQUAL: every counter of vLLM is that of the reference'
observed 0 --given 4 --json
at observed.verdict EQUAL
at observed.accepted_by_depth.0 "$one"
at rounds.accepted_by_depth.2 "$three"
at positions.length 44
observed 0 --given 4 --html "$work/equal.html"
page "$work/equal.html" EQUAL
metrics "$((rounds + 1))" "$drafted" "$accepted" "$one" "$two" "$three" > "$work/observed"
observed 1 --given 4
says "DIFFERS: rounds: the engine counted $((rounds + 1)), the reference $rounds"
check "not one line on stderr" one_line
metrics "$rounds" "$drafted" "$accepted" "$((one - 1))" "$((two + 1))" "$three" > "$work/observed"
observed 1 --given 4
says "DIFFERS: accepted at depth 1: "
refused 2 accept "$t4" --tokens-file "$work/text" --given 0
refused 2 accept "$t4" --tokens-file "$work/text" --given 49
refused 2 accept "$t4" --tokens-file "$work/text" --given 4,4
says_err '--given has 2 numbers, expected one or 1'

# wrong use, and requests that cannot be measured
refused 2 accept "$t4"
says_err --tokens-file
for K in 0 9 x; do refused 2 accept "$t4" --tokens-file "$work/text" -K $K; done
refused 2 accept "$t4" --tokens-file "$work/text" --profile nobody
refused 2 accept --tokens-file "$work/text"
echo 3 > "$work/single"
refused 3 accept "$t4" --tokens-file "$work/single"
says_err 'at least two tokens'
echo 3,9999 > "$work/beyond"
refused 3 accept "$t4" --tokens-file "$work/beyond"
refused 3 accept "$t4" --tokens-file "$work/absent"
refused 3 accept "$work/absent" --tokens-file "$work/text"
make_checkpoint headless --preset T4 --layers 1 --no-mtp
refused 2 accept "$work/headless" --tokens-file "$work/text"
says_err 'no MTP head'

# check --run: without an original the verdict is UNKNOWN; with it, HEAD-OK for the same head and HEAD-WEAK for another
run 0 check "$t4" --run 80
run 4 check "$t4" --run 80 --need mtp
says_err '--need mtp: not known: '
says 'HEAD UNKNOWN: the head drafts better than a constant'
says '  head own      trunk own      accepted '
says '; MTP FILE-OK; run UNKNOWN'
run 0 check "$t4" --run 80 --against "$t4" --json
at mtp_verdict FILE-OK
at run.verdict HEAD-OK
at run.table.length 4
at run.table.3.head original
at run.table.3.trunk original
at run.trunk_bad false
run 0 check "$t4" --json
at run null
run 0 graft "$t4" --take 'mtp.*' --from "$work/weak" -o "$work/grafted"
run 0 check "$work/grafted" --run 80 --json --junit "$work/report.xml"
at verdict PASS
at mtp_verdict HEAD-WEAK
at run.verdict HEAD-WEAK
at run.table.length 1
at mtp.suspects '[]'
at mtp.settle '[]'
check "no HEAD-WEAK in JUnit" grep -q '<system-out>HEAD-WEAK: ' "$work/report.xml"
run 1 check "$work/grafted" --run 80 --need mtp --junit "$work/report.xml"
says 'MTP HEAD-WEAK: the head drafts no better than a constant token'
says "  next: samebit graft $work/grafted --take 'mtp.*' --from ORIGINAL -o OUT"
says_err '--need mtp: the MTP head drafts worse than the original'"'"'s, or no better than a constant token'
check "no failure in JUnit" grep -q '<failure type="HEAD-WEAK"' "$work/report.xml"
run 0 check "$work/grafted" --run 80 --against "$t4" --skip untouched --json
at mtp_verdict HEAD-WEAK
at mtp.next "samebit graft $work/grafted --take 'mtp.*' --from $t4 -o OUT"
same "the original's head" "$(value run.table.2.accepted)" "$(value run.table.3.accepted)"
# a fault of the files stays the verdict, whatever the run says
run 1 check "$work/grafted" --run 80 --against "$t4" --json
at mtp_verdict FILE-BAD
at run.verdict HEAD-WEAK
# a text from a file, cut to 30 tokens
run 0 check "$t4" --run 30 --tokens-file "$work/text" --only 1
says 'HEAD UNKNOWN: fewer than 64 positions are not conclusive'
says "  text: $work/text"
says ' of 30, '
run 0 check "$work/headless" --run 80
says 'HEAD UNKNOWN: there is no head to run'
# a run that is requested but not possible: exit status 4
mkdir "$work/files"
cp "$t4"/*.safetensors* "$work/files/"
run 4 check "$work/files" --run 80 --only 1
says 'HEAD UNKNOWN: cannot run the head: '
check "not one line on stderr" one_line
refused 2 check "$t4" --tokens-file "$work/text"
refused 2 check "$t4" --run 80 --headers
refused 2 check "$t4" --run 99999999
refused 3 check "$t4" --run 80 --tokens-file "$work/absent"
finish
