#!/usr/bin/env bash
# run: the same result for every form of the command; JSON, logits, prompts from a file, threads, settings.
. "$(dirname "$0")/lib.bash"

make_checkpoint t3 --preset T3
t3=$work/t3

run 0 run "$t3" --tokens 5,6,7,8,9 -n 3 --json
at spec 2
at command run
at profile exact
at knobs.act f32
at tokens.length 3
at logits_digest.length 3
check "no digest of the head" grep -qE '^[0-9a-f]{32}$' <<< "$(value state_digest.mtp)"
tokens=$(value tokens) state=$(value state_digest.target) logits=$(value logits_digest)
check "no digest" grep -qE '^[0-9a-f]{32}$' <<< "$state"
cp "$out" "$work/first"

# the text output says the same
run 0 run "$t3" --tokens 5,6,7,8,9 -n 3
says "tokens $(tr -d '[]' <<< "$tokens")"
says "state target $state after 7 positions"
for i in 0 1 2; do says "logits $i $("$helpers/json_at" logits_digest.$i < "$work/first")"; done

# identical documents from other forms of the command
again() {
    run 0 run "$t3" -n 3 --json "$@"
    check "another document with $*" cmp "$out" "$work/first"
}
again --tokens '5 6 7 8 9'
again --tokens '5, 6,7 ,8 9 '
printf '# a comment\n\n5,6,7,8,9\n' > "$work/file"
again --tokens-file "$work/file"
printf '5 6\t7 8 9\r\n' > "$work/crlf"
again --tokens-file "$work/crlf"
again --tokens 5,6,7,8,9 --threads 1
again --tokens 5,6,7,8,9 --threads 2
again --tokens 5,6,7,8,9 --threads 7
again --tokens 5,6,7,8,9 --resident-limit 1
check "something on stderr" test ! -s "$err"
again --tokens 5,6,7,8,9 --resident-limit 100000 --threads 2 --stats
says_err 'peak resident set'
again --tokens 5,6,7,8,9 --profile exact --set act=f32 --set beta=f32 --backend ref
again --tokens=5,6,7,8,9 --generate=3
for isa in exact scalar auto; do SAMEBIT_ISA=$isa again --tokens 5,6,7,8,9; done

# other engines: here the same tokens, but other bits; golden files and states are refused
run 0 run "$t3" --tokens 5,6,7,8,9 -n 3 --json --backend sim:sequential
at backend sim:sequential
check "the reference's bits" test "$(value logits_digest)" != "$logits"
cp "$out" "$work/sim"
run 0 run "$t3" --tokens 5,6,7,8,9 -n 3 --json --backend sim:sequential --threads 1
check "threads change a sim" cmp "$out" "$work/sim"
run 0 run "$t3" --tokens 5,6,7,8,9 -n 3 --json --backend sim:chunked
at knobs.delta_rule chunk64
refused 2 run "$t3" --tokens 1 --backend sim:nobody
says_err 'sequential, backward'
refused 2 run "$t3" --tokens 1 --backend sim:sequential --state-out "$work/of-a-sim"
check "a state of a sim" test ! -e "$work/of-a-sim"
refused 2 golden write "$work/of-a-sim" "$t3" --tokens 1 --backend sim:sequential
check "a golden file of a sim" test ! -e "$work/of-a-sim"

# feeding what was generated gives the same state
fed=$(tr -d '[]' <<< "$tokens" | cut -d , -f 1-2)
run 0 run "$t3" --tokens "5,6,7,8,9,$fed" -n 0 --json
at tokens '[]'
at logits_digest '[]'
at state_digest.target "$state"
at state_digest.mtp "$("$helpers/json_at" state_digest.mtp < "$work/first")"
run 0 run "$t3" --tokens "5,6,7,8,9,$fed" -n 1 --json
at logits_digest.0 "$("$helpers/json_at" logits_digest.2 < "$work/first")"

# several sequences
printf '1\n5,6,7,8,9\n' > "$work/two"
run 0 run "$t3" --tokens-file "$work/two" -n 3 --json
at sequences.length 2
at sequences.1.tokens "$tokens"
at sequences.1.logits_digest "$logits"
at sequences.1.state_digest.target "$state"
differ "the two sequences" "$(value sequences.0.state_digest.target)" "$state"
run 0 run "$t3" --tokens-file "$work/two" -n 1
says 'sequence 1'

# 16 tokens by default
run 0 run "$t3" --tokens 1 --json
at tokens.length 16

# settings and profiles change results, and are recorded in the document
run 0 run "$t3" --tokens 5,6,7,8,9 -n 3 --json --set act=bf16 --set scores=act
at knobs.act bf16
at knobs.scores act
at profile exact
differ "bf16 and f32" "$(value state_digest.target)" "$state"
run 0 run "$t3" --tokens 5,6,7,8,9 -n 3 --json --profile hf
at profile hf
at knobs.delta_rule by_call
hf=$(value state_digest.target)
differ "hf and exact" "$hf" "$state"
run 0 run "$t3" --tokens 5,6,7,8,9 -n 3 --json --profile hf --set delta_rule=recurrent
at knobs.delta_rule recurrent
differ "hf with and without by_call" "$(value state_digest.target)" "$hf"

# logits: all fed positions, and the rows from which tokens were drawn
run 0 run "$t3" --tokens 5,6,7,8,9 -n 3 --json --logits "$work/l.npy"
check "--logits changes the document" cmp "$out" "$work/first"
"$helpers/npy_rows" "$work/l.npy" > "$work/rows" 2>> "$err"
check "the file of logits is not sound" test $? = 0
same "shape" "$(head -n 1 "$work/rows")" "7 384"
same "size" "$(wc -c < "$work/l.npy")" $((128 + 4 * 7 * 384))
for i in 0 1 2; do
    same "digest $i" "$(sed -n "$((6 + i))p" "$work/rows")" \
        "$("$helpers/json_at" logits_digest.$i < "$work/first")"
done
run 0 run "$t3" --tokens 5,6,7 -n 0 --logits "$work/m.npy"
same "logits of a prompt" "$("$helpers/npy_rows" "$work/m.npy")" \
    "3 384
$(sed -n 2,4p "$work/rows")"
run 0 run "$t3" --tokens 5,6,7 -n 1 --logits "$work/n.npy"
check "-n 1 feeds nothing more" cmp "$work/m.npy" "$work/n.npy"

# files that cannot be read or written: exit 3, and no partial output
refused 3 run "$t3" --tokens-file "$work/absent"
says_err "$work/absent"
refused 3 run "$t3" --tokens 1 -n 0 --logits "$work/absent/l.npy"
says_err "$work/absent/l.npy"
cp "$work/l.npy" "$work/kept.npy"
refused 2 run "$t3" --tokens 1,999 -n 0 --logits "$work/kept.npy"
check "an old file is lost" cmp "$work/kept.npy" "$work/l.npy"
check "temporary files are left" test -z "$(find "$work" -maxdepth 1 -name '*npy?*')"
finish
