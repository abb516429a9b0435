#!/usr/bin/env bash
# diff says which regimes the compared data reached, and --propose finds prompts that reach the others.
. "$(dirname "$0")/lib.bash"

make_checkpoint t1 --preset T1
make_checkpoint dense --preset T4 --recipe predictable
t1=$work/t1

# reached NAME: the count of this regime in the last document
reached() { value "coverage.$1.reached"; }

# --- what is reached ---------------------------------------------------------------------------------------
run 0 diff "$t1" --engine sim:sequential --tokens 1,2,3 -n 2 --json
few=$(reached experts)
at coverage.position.reached 3
at coverage.chunk.reached 0
check "$few experts of three tokens" test "$few" -gt 20 -a "$few" -lt "$(value coverage.experts.of)"
check "no detail" grep -q ' lacks ' "$out"
check "accepted counts without drafts" test -z "$("$helpers/json_at" coverage.accepted < "$out" 2> /dev/null)"
# the trace of another engine gives the same, compared by ops or freely
run 0 run "$t1" --tokens 1,2,3 -n 2 --trace "$work/trace" --taps all
for way in --forced --free; do
    run 0 diff "$t1" --engine "$work/trace" --allow-self $way --json
    same "experts by $way" "$(reached experts)" "$few"
    at coverage.position.reached 3
done
# text: what is missing, and with --all every regime
run 0 diff "$t1" --engine sim:sequential --tokens 1,2,3 -n 2
says "not reached: experts routed ($few of 144), borders of chunks of the delta rule"
run 0 diff "$t1" --engine sim:sequential --tokens 1,2,3 -n 2 --all
says "reached: experts routed                       $few of 144"
says 'borders of chunks of the delta rule  0 (borders of 64 rows inside a call)'
# a call of 130 rows has two borders in each linear layer; a call of 64 has none
for rows in 64 65 130; do
    run 0 run "$t1" --tokens "$(seq -s , 1 "$rows")" -n 0 --trace "$work/trace$rows" --taps all
    run 0 diff "$t1" --engine "$work/trace$rows" --allow-self --json
    at coverage.position.reached $((rows - 1))
    borders[rows]=$(reached chunk)
done
same "borders of 64 rows" "${borders[64]}" 0
check "borders of 65 and of 130 rows: ${borders[*]}" test "${borders[65]}" -gt 0 -a "${borders[130]}" = $((2 * borders[65]))
# rounds that accept 0, 2 and 3 of 3 drafts
run 0 run "$t1" --tokens 1,2,3 -n 12 --draft 3 --force-accept 0,2,3 --trace "$work/rounds" --taps all
run 0 diff "$t1" --engine "$work/rounds" --allow-self --json
at coverage.accepted.reached 3
at coverage.accepted.of 4
at coverage.accepted.detail 'no round accepted 1'
check "rejected drafts" test "$(reached rejected)" -ge 2
# a dense model has no experts
run 0 diff "$work/dense" --engine sim:sequential --tokens 1,2,3 -n 2 --json
for name in experts ties; do
    check "$name of a dense model" test -z "$("$helpers/json_at" coverage.$name < "$out" 2> /dev/null)"
done

# --- what is proposed --------------------------------------------------------------------------------------
run 0 diff "$t1" --engine sim:sequential --tokens 1,2,3 -n 2 --propose
sed -n '/^# proposed/,$p' "$out" > "$work/proposed"
check "no prompt of 80 tokens" grep -q '^# borders of chunks' "$work/proposed"
{ echo 1,2,3; cat "$work/proposed"; } > "$work/texts"
run 0 diff "$t1" --engine sim:sequential --tokens-file "$work/texts" --rows 512
check "proposed prompts miss something" test -z "$(grep '^not reached' "$out")"
cp "$work/proposed" "$work/first"
run 0 diff "$t1" --engine sim:sequential --tokens 1,2,3 -n 2 --propose --threads 1
check "another proposal with one thread" cmp <(sed -n '/^# proposed/,$p' "$out") "$work/first"
# regimes that no random prompt reaches are named
run 0 diff "$work/dense" --engine sim:sequential --tokens 1,2,3 -n 2 --propose
says '# no prompt that was tried reaches all of: beta below 2^-8'
run 0 diff "$work/dense" --engine sim:sequential --tokens 1,2,3 -n 2 --propose --json
check "no proposed list" grep -q '"proposed": \[' "$out"

finish
