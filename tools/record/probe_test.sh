#!/usr/bin/env bash
# Tests probe.py with fake_server.py: every fault must be named with its count, right servers must pass, and a probe
# that could not have found a fault must not pass. PYTHON runs them (python3), BUILD has samebit (build). Ends with
# the line "N passed, N failed, N skipped".
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
python=${PYTHON:-python3} build=${BUILD:-build}
probe=tools/record/probe.py
work=$(mktemp -d) || exit 2
passed=0 failed=0 asked=0
servers=()
trap 'stop; rm -rf "$work"' EXIT
stop() {
    [ ${#servers[@]} = 0 ] || kill "${servers[@]}" 2> "$work/kill"
    [ ${#servers[@]} = 0 ] || wait "${servers[@]}" 2> "$work/kill"
    servers=()
}

check() { # NAME COMMAND...
    local name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $name"
        [ ! -e "$work/said" ] || tail -n 4 "$work/said" | cut -c1-240 | sed 's/^/  /'
    fi
}
exits() { # STATUS COMMAND...
    local wanted=$1 status
    shift
    "$@" > "$work/said" 2>&1
    status=$?
    [ $status = "$wanted" ] || echo "exit status $status, expected $wanted"
    [ $status = "$wanted" ]
}
says() { grep -qF -- "$1" "$work/said"; }
start() { # OPTION...: sets url
    local said=$work/url-$((asked += 1))
    "$python" tools/record/fake_server.py "$@" > "$said" &
    servers+=($!)
    until [ -s "$said" ]; do sleep 0.02; done
    url=$(cat "$said")
}
# Prints the groups that are not EQUAL: NAME VERDICT DIFFER.
others() {
    "$python" -c 'import json, sys
for g in json.loads(sys.stdin.read() or "{\"groups\": []}")["groups"]:
    if g["verdict"] != "EQUAL" and g["verdict"] != "NEAR_TIE":
        print(g["group"], g["verdict"], g["differ"])' 2> "$work/kill" | paste -sd, -
}
answered() { cat "$work/$1/answers.jsonl.live" 2> "$work/kill" | wc -l; }
lengths=(--lengths 15,16,17,63,64,65,255,256)

# judge_of WHAT STATUS OTHERS: of the probe in $work/p
judge_of() {
    local found
    check "$1: judged" exits "$2" "$python" "$probe" judge "$work/p" --json
    found=$(others < "$work/said")
    [ "$found" = "$3" ] || echo "  found $found, expected $3"
    check "$1: what differs" test "$found" = "$3"
}
# fault NAME STATUS OTHERS PROBE-OPTION...: one llama-server for both sides; fault2: two vLLM servers
fault() {
    local name=$1 status=$2 wanted=$3
    shift 3
    rm -rf "$work/p"
    start --fault "$name"
    check "$name: asked" exits 0 "$python" "$probe" "$url" --out "$work/p" "${lengths[@]}" "$@"
    stop
    judge_of "$name" "$status" "$wanted"
}
fault2() {
    local name=$1 status=$2 wanted=$3 off
    shift 3
    rm -rf "$work/p"
    start --style vllm --fault "$name" --no-speculation
    off=$url
    start --style vllm --fault "$name"
    check "$name, vLLM: asked" exits 0 "$python" "$probe" "$url/v1" --baseline "$off" \
        --out "$work/p" "${lengths[@]}" "$@"
    stop
    judge_of "$name, vLLM" "$status" "$wanted"
}

# --- wrong in one way -----------------------------------------------------------------------------------------
fault cache-mtp 1 'cache.on DIFFERS 17'
check "the published count" exits 1 "$python" "$probe" judge "$work/p" --claim 0.01,0.1
check "17 of 32" says '17 of 32 differ (0.364 to 0.691)'
check "a claim that is broken" says 'at most 0.01 against 0.1: broken'
check "who is right" says "--engine $work/p/groups/cache.on.first.ids --versus $work/p/groups/cache.on.again.ids"
fault2 cache-mtp 1 'cache.on DIFFERS 17' --only again,together
fault cache 1 'cache.off DIFFERS 16,cache.on DIFFERS 16' --only again
fault2 stale-logprobs 1 'logprobs.off DIFFERS 8,logprobs.on DIFFERS 8' --only logprobs
fault multi-accept 1 'resume.on DIFFERS 27,speculation DIFFERS 32' --only again,resume
fault2 multi-accept 1 'speculation DIFFERS 32' --only again
fault block-edge 1 'resume.off DIFFERS 32,resume.on DIFFERS 32' --only again,resume
fault concurrency 1 'concurrency-8.off DIFFERS 3,concurrency-8.on DIFFERS 3' --only again,together --runs 8
batches=(--only again,together,mixed,twins --lengths 15,16,17,63 --runs 8 --concurrency 2,4)
fault neighbours 1 'order.off DIFFERS 8,twins.off DIFFERS 16,order.on DIFFERS 8,twins.on DIFFERS 16' "${batches[@]}"
fault twins 1 'twins.off DIFFERS 16,twins.on DIFFERS 16' "${batches[@]}"
fault not-largest 1 'greedy DIFFERS 38' --only again --runs 16
fault bad-json 1 'answers DIFFERS 4' --only again --runs 16
fault nan 1 'answers DIFFERS 4' --only again --runs 16
fault http-500 1 'answers DIFFERS 4' --only again --runs 16
check "what the server said" exits 1 "$python" "$probe" judge "$work/p"
check "HTTP 500" says 'HTTP 500'
fault other-prompt 1 'answers DIFFERS 8' --only again --runs 16

# --- right ----------------------------------------------------------------------------------------------------
fault none 0 ''
cp -r "$work/p" "$work/none"
fault none 0 ''
check "the same tokens again" diff -r -x '*.jsonl' "$work/none/groups" "$work/p/groups"
check "judged in words" exits 0 "$python" "$probe" judge "$work/p"
check "a claim that is open" says 'never: open, rarer than 0.134'
fault2 none 0 ''
fault near-tie 0 ''
check "near ties are counted" grep -qE '"near_ties": ([1-9]|[12][0-9])' "$work/said"
check "near ties under a limit of 0" exits 1 "$python" "$probe" judge "$work/p" --tie 0
fault slow 0 '' --only again --runs 4
# a field that the server refuses by name is left out afterwards, with a message
for style in llama-server vllm; do
    start --style $style --fault strict
    rm -rf "$work/p"
    check "$style, strict: asked" exits 0 "$python" "$probe" "$url" --out "$work/p" "${lengths[@]}" --only again --runs 4
    check "$style, strict: said" says 'the server refuses ignore_eos, so requests were sent without it; an answer ends where a text'
    check "$style, strict: not asked for again" test "$(grep -c ignore_eos "$work/p/answers.jsonl")" = 0
    check "$style, strict: all answered" test -z "$(grep '"status": 4' "$work/p/answers.jsonl")"
    stop
done

# --- no fault could be found ------------------------------------------------------------------------------------
fault constant 4 'answers NOTHING 0,greedy NOTHING 0,cache.off NOTHING 0,cache.on NOTHING 0,speculation NOTHING 0' \
    --only again --runs 4
fault no-cache 0 'cache.off NOTHING 0,cache.on NOTHING 0' --only again --runs 4
fault one-at-a-time 0 'concurrency-8.off NOTHING 0,concurrency-8.on NOTHING 0' --only again,together --runs 4
fault no-switch 0 'speculation NOTHING 0' --only again --runs 4
check "which switch" exits 0 "$python" "$probe" judge "$work/p"
check "use --baseline" says 'use --baseline'

# --- limits, ends and bad input -------------------------------------------------------------------------------
start --fault none
rm -rf "$work/p"
check "a limit of requests" exits 4 "$python" "$probe" "$url" --out "$work/p" --max-requests 10
check "says so" says 'not all requests were made: limit of 10 requests'
check "what was asked is judged" exits 0 "$python" "$probe" judge "$work/p"
check "and is said to be a part" says ': not all requests were made'
check "no second probe in one folder" exits 3 "$python" "$probe" "$url" --out "$work/p"
check "an option that is cut short" exits 2 "$python" "$probe" "$url" --out "$work/cut" --max-req 10
check "a limit of seconds" exits 4 "$python" "$probe" "$url" --out "$work/seconds" --max-seconds 0.5
check "no prompt fits" exits 3 "$python" "$probe" "$url" --out "$work/long" --lengths 4000
printf '5,6,7,8,9\n11,12,13\n' > "$work/ids"
check "prompts of ids" exits 0 "$python" "$probe" "$url" --out "$work/ids.p" --ids "$work/ids" \
    --lengths 7 --runs 2 --only again
check "are those ids" grep -qF '"prompt": [5, 6, 7, 8, 9, 5, 6]' "$work/ids.p/answers.jsonl"
echo 'a text of some words' > "$work/text"
check "prompts of text" exits 0 "$python" "$probe" "$url" --out "$work/text.p" --prompts "$work/text" \
    --lengths 5 --runs 2 --only again
check "are the server's ids" grep -qF '"prompt": [97, 32, 116, 101, 120]' "$work/text.p/answers.jsonl"
"$python" "$probe" "$url" --out "$work/ended" > "$work/said" 2>&1 &
asking=$!
until [ "$(answered ended)" -gt 20 ]; do sleep 0.02; done
kill -TERM $asking
check "asked to end" exits 4 wait $asking
check "what is complete is kept" exits 0 "$python" "$probe" judge "$work/ended"
"$python" "$probe" "$url" --out "$work/killed" > "$work/said" 2>&1 &
asking=$!
until [ "$(answered killed)" -gt 20 ]; do sleep 0.02; done
kill -KILL $asking
{ wait $asking; } 2> "$work/kill"
check "killed" exits 3 "$python" "$probe" judge "$work/killed"
check "how to go on" says "probe.py finish $work/killed"
printf '{"half' >> "$work/killed/answers.jsonl.live"
check "finished" exits 0 "$python" "$probe" finish "$work/killed"
check "and judged" exits 0 "$python" "$probe" judge "$work/killed"
stop
check "no server" exits 3 "$python" "$probe" "$url" --out "$work/none.p"
check "no URL" exits 3 "$python" "$probe" localhost --out "$work/none.p"
check "wrong use" exits 2 "$python" "$probe" "$url" --out "$work/none.p" --lengths 0
check "wrong use of judge" exits 2 "$python" "$probe" judge "$work/p" --claim 2,1
check "no folder" exits 3 "$python" "$probe" judge "$work/nowhere"
sed -i '1s/5/6/' "$work/p/answers.jsonl"
check "answers that were changed" exits 3 "$python" "$probe" judge "$work/p"
check "files are left over" test -z "$(find "$work" -name '*.part')"

# --- the test of "never", like in samebit diff ----------------------------------------------------------------
check "4593 without a difference" "$python" - <<'END'
import sys
sys.path.insert(0, "tools/record")
from probe_judge import interval, sequential
assert sequential([False] * 4593, 0, 1e-3)["claim"] == "holds"
assert sequential([False] * 4592, 0, 1e-3) == {"p0": 0, "p1": 1e-3, "claim": "open", "after": 4592, "more": 1}
assert sequential([False] * 9 + [True], 0, 1e-3)["claim"] == "broken"
assert sequential([False] * 40 + [True], 0.01, 0.1)["claim"] == "open"
for end in interval(17, 32):
    assert abs(abs(17 / 32 - end) - 1.959963984540054 * (end * (1 - end) / 32) ** 0.5) < 1e-12
END

# --- answers in real layouts: their tokens -------------------------------------------------------
check "golden/dumps" "$python" - <<'END'
import json, sys
from pathlib import Path
sys.path.insert(0, "tools/record")
from probe_answers import BadAnswer, read
kinds = {"vllm": "vllm", "sglang": "sglang", "llama-server": "llama-server",
         "llamacpp-completion": "llama-server", "llamacpp-mtp-completion": "llama-server"}
found = 0
for name, kind in kinds.items():
    path = Path("golden/dumps", name + ".json")
    if path.exists():
        document = json.loads(path.read_text())
        answer = read(kind, document)
        assert answer.are_ids and len(answer.tokens) > 1 and any(answer.tops), name
        assert answer.prompt_count and answer.count is not None, name
        found += 1
        for wrong in ({}, [], {"choices": [{}]}, {"tokens": [1, None]}, {"output_ids": "1"}):
            try:
                assert not read(kind, wrong).tokens
            except BadAnswer:
                pass
        if kind == "llama-server":
            document["tokens"].reverse()
            try:
                sys.exit(f"{name}: {read(kind, document).tokens}")
            except BadAnswer:
                pass
assert found >= 3
END

# --- the reference takes the files ------------------------------------------------------------------------------
if [ -x "$build/samebit" ]; then
    start --style vllm --fault cache-mtp
    check "two prompts" exits 0 "$python" "$probe" "$url" --out "$work/two" --lengths 7 --runs 2 -n 8 --only again
    stop
    "$build/samebit" make "$work/t1" --preset T1 > "$work/said"
    files=$work/two/groups/cache.plain
    cp "$files.first.ids" "$work/a.ids"
    awk -F, -v OFS=, '{ $9 = ($9 + 1) % 384; print }' "$work/a.ids" > "$work/b.ids"
    check "samebit diff takes the ids" exits 1 "$build/samebit" diff "$work/t1" --engine "$work/a.ids" \
        --versus "$work/b.ids"
    check "of both prompts" says 'sequence 1: '
    check "samebit trace takes the answers" exits 0 "$build/samebit" trace "$files.first.jsonl" \
        --as answers --checkpoint "$work/t1"
    check "with log-probabilities" says 'top_logprobs'
else
    echo "note    $build/samebit is not built: its part is left out"
fi
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
