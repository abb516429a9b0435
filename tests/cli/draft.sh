#!/usr/bin/env bash
# run --draft: the tokens, digests and states are those of a run without drafts; forced patterns; the printed rounds;
# refused options. Also rounds in golden files.
. "$(dirname "$0")/lib.bash"

make_checkpoint p --preset T5 --recipe predictable
make_checkpoint t1 --preset T1 --recipe predictable
make_checkpoint t4 --preset T4
make_checkpoint bare --preset T4 --no-mtp
p=$work/p t4=$work/t4
prompt=5,25,59,107,169,245

# json NAME PATH: the value at PATH in the document $work/NAME
json() { "$helpers/json_at" "$2" < "$work/$1"; }
keep() { cp "$out" "$work/$1"; }
# the four things that no draft may change
results() { for path in tokens logits_digest state_digest.target state_digest.mtp; do json "$1" $path; done; }
alike() { same "$3 changes the result" "$(results "$1")" "$(results "$2")"; }
# speculate ARG...: the results equal those of the plain run in $work/plain
speculate() {
    run 0 run "$p" --tokens $prompt -n 24 --json "$@"
    keep now
    alike plain now "$*"
}

# --- the same as without drafts --------------------------------------------------------------------------
run 0 run "$p" --tokens $prompt -n 24 --json
keep plain
check "no digest of the head" grep -qE '^[0-9a-f]{32}$' <<< "$(json plain state_digest.mtp)"
differ "the digests of trunk and head" "$(json plain state_digest.target)" "$(json plain state_digest.mtp)"
check "rounds that nobody asked for" test -z "$(json plain rounds 2> /dev/null)"
for k in 1 2 3 4 5 6 7 8; do speculate --draft $k; done
at rounds.0.drafted.length 8
for k in 1 3 8; do speculate --draft $k --rollback replay; done
speculate --draft 3 --threads 1
keep one
speculate --draft 3 --threads 2
check "2 threads, another document" cmp "$work/one" "$work/now"
speculate --draft 3 --rollback snapshots
check "snapshots are no default" cmp "$work/one" "$work/now"
speculate --draft 3,0,2
for i in 0 1 2 3 4 5 6; do
    same "drafts of round $i" "$(json now rounds.$i.drafted.length)" "$(cut -d' ' -f$((i % 3 + 1)) <<< '3 0 2')"
done
printf '# one list\n3 0\n\n2\n' > "$work/pattern"
keep listed
speculate --draft "@$work/pattern"
check "a pattern from a file, another document" cmp "$work/listed" "$out"
speculate --draft 0
at rounds.length 23
at acceptance.rounds 0
at acceptance.mean_accepted null
at acceptance.by_depth '[]'
speculate --draft 2 --accept-mode residual # greedy: there is nothing to draw

# with two attention layers, and with hardly any accepted draft
for ckpt in "$work/t1" "$t4"; do
    run 0 run "$ckpt" --tokens $prompt -n 12 --json
    keep plain
    for options in '--draft 4' '--draft 2,0,5 --rollback replay'; do
        # shellcheck disable=SC2086
        run 0 run "$ckpt" --tokens $prompt -n 12 --json $options
        alike plain stdout "$options"
    done
done

# sampling: the seed determines the tokens, and a draft is accepted if it equals the drawn token
sampling=(--temp 5 --top-k 40 --top-p 0.95 --min-p 0.02)
greedy=$(json now tokens)
run 0 run "$p" --tokens $prompt -n 24 --json "${sampling[@]}"
keep plain
differ "greedy and sampled" "$greedy" "$(json plain tokens)"
for k in 1 4 2,0,3; do speculate --draft $k "${sampling[@]}"; done
speculate --draft 3 --rollback replay --seed 42 --temp 5.0 --top-k 40 --top-p 95e-2 --min-p .02
at sampling '{"seed":"42","temp":"5","top_k":"40","top_p":"0.95","min_p":"0.02"}'
# a draw depends on its position, not on the rounds that led there
drawn=$(json plain tokens | tr -d '[]')
run 0 run "$p" --tokens "$prompt,$(cut -d, -f1-5 <<< "$drawn")" -n 19 --json "${sampling[@]}" --draft 2
at tokens "[$(cut -d, -f6- <<< "$drawn")]"
at state_digest.mtp "$(json plain state_digest.mtp)"
run 0 run "$p" --tokens $prompt -n 24 --json "${sampling[@]}" --seed 43
differ "seeds 42 and 43" "$(json plain tokens)" "$(value tokens)"
run 0 run "$p" --tokens $prompt -n 24 --json "${sampling[@]}" --draft 3 --accept-mode residual
keep residual
at accept_mode residual
differ "match and residual" "$(json plain tokens)" "$(value tokens)"
run 0 run "$p" --tokens $prompt -n 24 --json "${sampling[@]}" --draft 3 --accept-mode residual \
    --rollback replay --threads 1
alike residual stdout "replay"
same "rounds" "$(json residual rounds)" "$(value rounds)"

# every sequence has its own draws, and its rounds start at the beginning of the pattern
printf '%s\n%s\n' $prompt $prompt > "$work/two"
run 0 run "$p" --tokens-file "$work/two" -n 24 --json "${sampling[@]}" --draft 2,0
same "sequence 0" "$(json plain tokens)" "$(value sequences.0.tokens)"
differ "sequence 1" "$(json plain tokens)" "$(value sequences.1.tokens)"
at sequences.1.rounds.0.drafted.length 2
at sequences.1.rounds.1.drafted '[]'

# tokens beyond -n are rolled back, and --logits has the kept rows
for n in 1 2 3 7; do
    run 0 run "$p" --tokens $prompt -n $n --json --logits "$work/plain.npy"
    keep short
    run 0 run "$p" --tokens $prompt -n $n --json --draft 8 --logits "$work/draft.npy"
    alike short stdout "-n $n --draft 8"
    check "-n $n: other logits" cmp "$work/plain.npy" "$work/draft.npy"
    run 0 run "$p" --tokens $prompt -n $n --json --draft 8 --rollback replay --logits "$work/replay.npy"
    check "-n $n: other logits by replay" cmp "$work/plain.npy" "$work/replay.npy"
done
run 0 run "$p" --tokens $prompt -n 0 --json --draft 3
at rounds '[]'

# chunks have no states between rows, so that rollback is by replay
run 0 run "$p" --tokens $prompt -n 6 --json --draft 2 --profile hf
at rollback replay
run 0 run "$p" --tokens $prompt -n 6 --json --draft 2 --profile hf --set delta_rule=recurrent
at rollback snapshots

# --- forced patterns --------------------------------------------------------------------------------------
# rounds_are NAME DRAFTS ACCEPTED: the rounds have these counts; both lists repeat after their ends. Every round but
# the last, which -n may cut, emits the accepted drafts and one token more
rounds_are() {
    local i drafts accepted emitted count
    read -ra drafts <<< "$2"
    read -ra accepted <<< "$3"
    count=$(json "$1" rounds.length)
    for ((i = 0; i < count; i++)); do
        local k=${drafts[i % ${#drafts[@]}]} a=${accepted[i % ${#accepted[@]}]}
        same "round $i drafts" "$(json "$1" rounds.$i.drafted.length)" "$k"
        same "round $i accepts" "$(json "$1" rounds.$i.accepted)" "$a"
        [ $i -lt $((count - 1)) ] || continue
        emitted=$(json "$1" rounds.$i.emitted | tr -d '[]')
        same "round $i emits" "$(tr , '\n' <<< "$emitted" | wc -l)" $((a + 1))
        [ "$a" = 0 ] || same "round $i emits its drafts" "$(cut -d, -f1-"$a" <<< "$emitted")" \
            "$(json "$1" rounds.$i.drafted | tr -d '[]' | cut -d, -f1-"$a")"
    done
}
# the rounds emit all tokens but the first, and the state is the one after feeding these tokens
follows() {
    local i tokens fed
    tokens=$(json "$1" tokens | tr -d '[]')
    fed=${tokens%%,*}
    for ((i = 0; i < $(json "$1" rounds.length); i++)); do fed+=,$(json "$1" rounds.$i.emitted | tr -d '[]'); done
    same "emitted" "$tokens" "$fed"
    run 0 run "$2" --tokens "$prompt,${tokens%,*}" -n 0 --json
    same "target state of feeding them" "$(json "$1" state_digest.target)" "$(value state_digest.target)"
    same "head state of feeding them" "$(json "$1" state_digest.mtp)" "$(value state_digest.mtp)"
}
force() { # force CKPT DRAFTS ACCEPTED ARG...
    local ckpt=$1 drafts=$2 accepted=$3
    shift 3
    run 0 run "$ckpt" --tokens $prompt -n 20 --json --draft "$drafts" --force-accept "$accepted" "$@"
    keep forced
    rounds_are forced "${drafts//,/ }" "${accepted//,/ }"
    follows forced "$ckpt"
}
force "$p" 3 2,0,1
force "$p" 3 2,0,1 --rollback replay
same "force_accept" "$(json forced force_accept)" '[2,0,1]'
force "$t4" 4,0,2 4,0,1,0,0,2,3,0,0
keep list
echo '4,0,1,0,0,2,3,0,0' > "$work/pattern"
run 0 run "$t4" --tokens $prompt -n 20 --json --draft 4,0,2 --force-accept "@$work/pattern"
check "a pattern from a file, another document" cmp "$work/forced" "$out"
force "$p" 2 2 --temp 3
force "$p" 2 0,2,1 --temp 3 --accept-mode residual
# a round that -n cuts: 1 and 3 tokens, then 2 of 5
run 0 run "$p" --tokens $prompt -n 6 --json --draft 4 --force-accept 2,4
at rounds.length 2
at rounds.1.accepted 4
at rounds.1.emitted.length 2
keep forced
follows forced "$p"

# --- what is counted and printed -----------------------------------------------------------------------------
run 0 run "$p" --tokens $prompt -n 24 --json --draft 3,0,2
keep now
rounds=0 drafted=0 accepted=0 depth=(0 0 0) taken=(0 0 0)
for ((i = 0; i < $(json now rounds.length); i++)); do
    k=$(json now rounds.$i.drafted.length) a=$(json now rounds.$i.accepted)
    [ "$k" = 0 ] || rounds=$((rounds + 1))
    drafted=$((drafted + k)) accepted=$((accepted + a))
    for ((j = 0; j < k; j++)); do
        depth[j]=$((depth[j] + 1))
        [ $j -ge "$a" ] || taken[j]=$((taken[j] + 1))
    done
done
check "nothing was accepted, or everything" test $accepted -gt 0 -a $accepted -lt $drafted
at acceptance.rounds $rounds
at acceptance.drafted $drafted
at acceptance.accepted $accepted
for j in 0 1 2; do at acceptance.by_depth.$j "{\"drafted\":${depth[j]},\"accepted\":${taken[j]}}"; done
at acceptance.by_depth.length 3
decimals() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.4f", a / b + 1e-9 }'; }
at acceptance.mean_accepted "$(decimals $accepted $rounds)"
at acceptance.mean_with_bonus "$(decimals $((accepted + rounds)) $rounds)"
run 0 run "$p" --tokens $prompt -n 24 --draft 3,0,2
list() { json now "$1" | tr -d '[]'; }
says "tokens $(list tokens)"
says "state mtp $(json now state_digest.mtp) after 28 entries"
says "round 0 drafted $(list rounds.0.drafted) accepted $(json now rounds.0.accepted) of 3 emitted $(list rounds.0.emitted)"
says "round 1 accepted 0 of 0 emitted $(list rounds.1.emitted)"
says "accepted $accepted of $drafted drafts, $(decimals $accepted $drafted), in $rounds rounds"
says "depth 2: ${taken[1]} of ${depth[1]}, $(decimals ${taken[1]} ${depth[1]})"
says "mean acceptance length $(decimals $accepted $rounds), with the bonus token $(decimals $((accepted + rounds)) $rounds)"
run 0 run "$p" --tokens $prompt -n 3 --draft 0
says 'accepted: no round had a draft'
run 0 run "$p" --tokens $prompt -n 3
check "rounds that nobody asked for" test -z "$(grep -E '^(round|accepted)' "$out")"

# --- without a head ------------------------------------------------------------------------------------------
run 0 run "$work/bare" --tokens 1,2 -n 2 --json --draft 0
at state_digest.mtp null
run 0 run "$work/bare" --tokens 1,2 -n 2
says 'no MTP head'
for k in 1 0,3; do
    refused 2 run "$work/bare" --tokens 1,2 -n 2 --draft $k
    says_err "--draft ${k#0,}"
    says_err mtp.fc.weight
    says_err '--need mtp'
done
refused 2 golden write "$work/none" "$work/bare" --tokens 1,2 -n 2 --draft 1
run 0 run "$work/bare" --overlay "mtp.*=$t4" --tokens 1,2 -n 2 --draft 1 --json
run 0 run "$t4" --tokens 1,2 -n 2 --draft 1 --json
at rounds.length 1

# --- refused ---------------------------------------------------------------------------------------------------
no() { # no WORD ARG...: exit 2, and the message has WORD
    local word=$1
    shift
    refused 2 run "$p" --tokens 1,2 -n 8 "$@"
    says_err "$word"
}
no 'at most 8' --draft 9
no 'number 1 is 9' --draft 1,9
for k in x -1 1.5 '1;2' ''; do no --draft --draft "$k"; done
for option in '--force-accept 1' '--accept-mode match' '--rollback replay'; do
    # shellcheck disable=SC2086
    no "${option% *} applies to drafts" $option
done
no 'round 0' --draft 1 --force-accept 2
no 'round 3' --draft 3,1 --force-accept 1,1,0,2
no 'accepts 2 of 0' --draft 2,0 --force-accept 2
no 'at most 8' --draft 8 --force-accept 9
no 'match or residual' --draft 1 --accept-mode typical
no 'snapshots or replay' --draft 1 --rollback none
no delta_rule=by_call --draft 1 --rollback snapshots --profile hf
no delta_rule=chunk64 --draft 1 --rollback snapshots --set delta_rule=chunk64
for t in '' x -1 +1 1,5 1e 1e+ . 0x1p0 inf nan 1e39 1e-46 ' 1' '1 ' 1.0f; do no --temp --temp "$t"; done
no top_p --top-p 0
no top_p --top-p 1.5
no min_p --min-p 1.01
no --top-k --top-k 4294967296
no --seed --seed 18446744073709551616
run 0 run "$p" --tokens 1,2 -n 2 --seed 18446744073709551615 --temp 1e-45 --json
at sampling.seed 18446744073709551615
at sampling.temp 1e-45
refused 3 run "$p" --tokens 1,2 --draft "@$work/absent"
says_err "$work/absent"
printf '1,2\n3,x\n' > "$work/bad"
refused 3 run "$p" --tokens 1,2 --draft "@$work/bad"
says_err "$work/bad:2"
printf '# nothing\n' > "$work/none.txt"
refused 3 run "$p" --tokens 1,2 --draft "@$work/none.txt"

# --- golden ------------------------------------------------------------------------------------------------------
golden=$work/g/golden.json
run 0 golden write "$work/g" "$p" --tokens $prompt -n 20 --draft 3,2 --temp 3 --seed 7 --rollback replay
cp "$golden" "$work/sound"
at_file() { same "$1" "$(json sound "$1")" "$2"; }
at_file request.draft '[3,2]'
at_file request.force_accept null
at_file request.accept_mode match
at_file request.rollback replay
at_file request.sampling.seed 7
at_file request.sampling.temp 3
run 0 golden verify "$work/g" "$p" --threads 1
says IDENTICAL
run 0 golden write "$work/f" "$p" --tokens $prompt -n 20 --draft 3,2 --force-accept 1,2,0
run 0 golden verify "$work/f" "$p"
refused 2 golden verify "$work/g" "$p" --draft 3,2
says_err --draft
refused 2 golden verify "$work/g" "$p" --seed 7

# plant PATH VALUE: changes a value of the sound file, and runs verify on it
plant() {
    "$helpers/json_at" "$1" "$2" < "$work/sound" > "$golden"
    check "the edit of $1 changed nothing" test "$(cksum < "$golden")" != "$(cksum < "$work/sound")"
}
other() { echo $((($(json sound "$1") + 1) % 377)); }
round() { plant "sequences.0.rounds.$1" "$2" && refused 1 golden verify "$work/g" "$p" && says_err "$3"; }
round 4.drafted.1 "$(other sequences.0.rounds.4.drafted.1)" 'round 4: drafted'
round 2.accepted 9 'round 2: accepted'
round 3.emitted.0 "$(other sequences.0.rounds.3.emitted.0)" 'round 3: emitted'
plant sequences.0.tokens.7 "$(other sequences.0.tokens.7)"
refused 1 golden verify "$work/g" "$p"
says_err 'position 7: tokens'
plant sequences.0.state_digest.mtp '"00000000000000000000000000000000"'
refused 1 golden verify "$work/g" "$p"
says_err 'state digest'
says_err mtp
plant sequences.0.acceptance.accepted 99
refused 1 golden verify "$work/g" "$p"
says_err acceptance
# a changed request makes another run, and a request without meaning is refused
plant request.sampling.seed '"8"'
refused 1 golden verify "$work/g" "$p"
for wrong in 'request.sampling.temp "hot"' 'request.sampling.top_p 1' 'request.sampling.min_p "-1"' \
    'request.draft [9]' 'request.draft []' 'request.draft 3' 'request.force_accept [4]' 'request.force_accept {}' \
    'request.accept_mode null' 'request.accept_mode "maybe"' 'request.rollback "none"' 'request.rollback 1'; do
    plant "${wrong% *}" "${wrong#* }"
    refused 3 golden verify "$work/g" "$p"
    says_err "$golden"
done
finish
