#!/usr/bin/env bash
# tests/run_all.sh counts the results that its programs print, and detects programs that crash, lie or print
# nothing. It runs several at a time, shows them in order, and leaves nothing behind when it is stopped.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
runner=$PWD/tests/run_all.sh
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0 part=${1-}

# most of the time is waiting: the parts run at the same time, each in its own folder
if [ -z "$part" ]; then
    parts="one several stopped-1 stopped-2"
    for part in $parts; do bash "$0" $part > "$scratch/$part" 2>&1 & done
    wait
    for part in $parts; do
        cat "$scratch/$part"
        read -r p _ f _ < <(tail -n 1 "$scratch/$part")
        if [[ "$p $f" =~ ^[0-9]+\ [0-9]+$ ]]; then
            passed=$((passed + p)) failed=$((failed + f))
        else
            failed=$((failed + 1)) && echo "FAILED $part says nothing of its tests"
        fi
    done
    printf '%d passed, %d failed, 0 skipped\n' $passed $failed
    [ $failed = 0 ]
    exit
fi

program() { # program NAME: a script from standard input
    { echo '#!/usr/bin/env bash'; cat; } > "$scratch/$1" && chmod +x "$scratch/$1"
}
# runs WANTED-STATUS WANTED-CLOSING-LINE WHAT PROGRAM... (settings before the call)
runs() {
    local want=$1 closing=$2 what="JOBS=$JOBS: $3" status
    shift 3
    (cd "$scratch" && bash "$runner" --programs "${@/#/$scratch/}") > "$scratch/output" 2>&1
    status=$?
    if [ $status = "$want" ] && [ "$(tail -n 1 "$scratch/output")" = "$closing" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAILED %s: status %s\n' "$what" $status
        sed 's/^/    /' "$scratch/output"
    fi
}

cmocka='echo "[==========] Running 3 test(s)."; echo "[==========] 3 test(s) run."'
program good <<< "$cmocka; echo '[  PASSED  ] 3 test(s).' >&2"
program named <<< "echo '[==========] group: 2 test(s) run.'; echo '[  PASSED  ] 2 test(s).'"
program groups <<< "$cmocka; echo '[  PASSED  ] 3 test(s).'; $cmocka; echo '[  PASSED  ] 3 test(s).'"
program bad <<< "$cmocka; echo '[  PASSED  ] 2 test(s).'
    echo '[  FAILED  ] 1 test(s), listed below:'; echo '[  FAILED  ] test_x'; exit 1"
program no_setup <<< "$cmocka; echo '[  PASSED  ] 1 test(s).'
    echo '[  FAILED  ] 1 test(s), listed below:'; exit 2"
program no_group <<< "echo '[==========] 0 test(s) run.'; echo '[  PASSED  ] 0 test(s).'; exit 1"
program liar <<< "$cmocka; echo '[  FAILED  ] 3 test(s), listed below:'"
program silent <<< 'echo all is well'
program nothing <<< 'echo "0 passed, 0 failed, 0 skipped"'
program crash <<< 'echo "2 passed, 0 failed, 0 skipped"; kill -SEGV $$'
program status <<< 'echo "2 passed, 0 failed, 0 skipped"; exit 3'
program slow <<< 'echo "1 passed, 0 failed, 0 skipped"; sleep 60'
program script <<< 'echo "1 passed, 2 failed, 3 skipped"; echo done; echo "5 passed, 0 failed"'
program skipping <<< 'echo "SKIPPED x: no x"; echo "5 passed, 0 failed, 2 skipped"'
program nested <<< "$cmocka; echo '[  PASSED  ] 3 test(s).'; echo '1 passed, 0 failed, 0 skipped'
    echo '3 passed, 1 failed, 2 skipped'; echo; exit 1"
program early <<< 'echo "2 passed, 0 failed, 0 skipped"; echo and then it went wrong'
program quoting <<< 'echo "it says: 9 passed, 0 failed, 0 skipped"; echo "1 passed, 0 failed, 0 skipped"'

unset CI
export JOBS
# a program has the same result alone and beside another
one_by_one() {
    runs 0 "3 passed, 0 failed, 0 skipped" "a green program" good
    runs 0 "13 passed, 0 failed, 0 skipped" "sums" good named groups named
    runs 1 "5 passed, 1 failed, 0 skipped" "a failed test" good bad
    runs 1 "1 passed, 2 failed, 0 skipped" "a test whose setup failed" no_setup
    runs 1 "0 passed, 1 failed, 0 skipped" "a group whose setup failed" no_group
    runs 1 "0 passed, 4 failed, 0 skipped" "status 0 after failures" liar
    runs 1 "3 passed, 1 failed, 0 skipped" "no summary" silent good
    runs 1 "0 passed, 1 failed, 0 skipped" "no test" nothing
    runs 1 "2 passed, 1 failed, 0 skipped" "a crash after a good summary" crash
    runs 1 "2 passed, 1 failed, 0 skipped" "a bad status after a good summary" status
    LIMIT=1 runs 1 "1 passed, 1 failed, 0 skipped" "the time limit" slow
    runs 1 "0 passed, 1 failed, 0 skipped" "a program that is not there" absent
    runs 0 "5 passed, 0 failed, 0 skipped" "the closing line of a script is its last" script
    runs 1 "3 passed, 1 failed, 2 skipped" "a script that shows programs" nested
    runs 1 "0 passed, 1 failed, 0 skipped" "a closing line that is not the last" early
    runs 0 "5 passed, 0 failed, 2 skipped" "a skip" skipping
    runs 0 "1 passed, 0 failed, 0 skipped" "a line that only quotes a summary" quoting
    CI=true runs 1 "5 passed, 2 failed, 0 skipped" "a skip where every tool is required" skipping
    runs 1 "0 passed, 1 failed, 0 skipped" "no program at all"
}
[ $part != one ] || { JOBS=1 one_by_one; JOBS=2 one_by_one; }

# --- several at a time
check() { # check WHAT COMMAND...
    local what=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1)) && echo "FAILED $what" && sed 's/^/    /' "$scratch/output"
    fi
}
shown() { # shown LINE...: the output so far as it is of this test, up to the closing lines
    diff <(printf '%s\n' "$@") <(sed '/^$/,$d' "$scratch/output")
}
gone() { # gone NAME: the processes that a program has noted are there no more, or soon
    local pid i
    for pid in $(cat "$scratch/$1.pid" || echo $$); do
        for ((i = 0; i < 50; i++)); do kill -0 "$pid" 2> /dev/null || continue 2; sleep 0.1; done
        return 1
    done
    rm "$scratch/$1.pid"
}
program first <<< "echo one; sleep 0.3; echo two; echo '1 passed, 0 failed'"
program second <<< "echo three; echo four >&2; echo '2 passed, 0 failed, 1 skipped'"
# two programs that wait for each other, and end in the reverse order
program meet_a <<< "touch '$scratch/here-a'; for ((i = 0; i < \${TRIES:-100}; i++)); do
    [ ! -e '$scratch/here-b' ] || { sleep 0.3; echo '1 passed, 0 failed'; exit; }; sleep 0.1; done; exit 1"
program meet_b <<< "touch '$scratch/here-b'; for ((i = 0; i < \${TRIES:-100}; i++)); do
    [ ! -e '$scratch/here-a' ] || { echo '1 passed, 0 failed'; exit; }; sleep 0.1; done; exit 1"
program third_too_many <<< "mkdir '$scratch/with-'\$\$; ls -d '$scratch'/with-* | wc -l > '$scratch/count-'\$\$; sleep 0.5
    rmdir '$scratch/with-'\$\$; [ \$(cat '$scratch/count-'\$\$) -le 2 ] && echo '1 passed, 0 failed'"
program tidy <<< "trap 'sleep 0.5; touch \"$scratch/tidied\"; exit 1' TERM; echo \$\$ > '$scratch/tidy.pid'
    while :; do sleep 0.1; done"
# a program with a child that outlives it, unless the whole group is ended
program lasting <<< "sleep 60 & echo \$! >> '$scratch/lasting.pid'; echo begins; wait; echo '1 passed, 0 failed'"
program stubborn <<< "trap '' TERM; echo \$\$ >> '$scratch/stubborn.pid'; while :; do sleep 0.2; done"
program childish <<< "'$scratch/stubborn' & echo begins; wait"
program nested_runner <<< "bash '$runner' --programs '$scratch/lasting' '$scratch/lasting' | cat"

several() {
    local wanted JOBS
    wanted=("--- $scratch/first" one two "1 passed, 0 failed" "--- $scratch/second" three four
        "2 passed, 0 failed, 1 skipped" "SKIPPED $scratch/second: 1")
    for JOBS in 1 2 7; do
        runs 0 "3 passed, 0 failed, 1 skipped" "the order of the list" first second
        check "JOBS=$JOBS: all is shown, whole and in order" shown "${wanted[@]}"
        rm -f "$scratch"/here-*
        case $JOBS in
            1) TRIES=5 runs 1 "1 passed, 1 failed, 0 skipped" "one at a time" meet_a meet_b ;;
            *) runs 0 "2 passed, 0 failed, 0 skipped" "both at a time" meet_a meet_b
               runs 1 "12 passed, 4 failed, 0 skipped" "a crash and a lie beside good ones" first crash good silent named status bad
               ;;
        esac
    done
    JOBS=2 runs 0 "5 passed, 0 failed, 0 skipped" "not more at a time than JOBS" third_too_many third_too_many \
        third_too_many third_too_many third_too_many
    GRACE=0.5 LIMIT=1 runs 1 "3 passed, 2 failed, 0 skipped" "the time limit, beside a good one" lasting childish good
    check "what ran too long is gone" gone lasting
    check "what did not want to end is gone" gone stubborn
    LIMIT=1 runs 1 "0 passed, 1 failed, 0 skipped" "the time limit of a runner" nested_runner
    check "what a runner had begun is gone" gone lasting
    # (in a pipe, times would speak of a shell that has just begun)
    program busy <<< "timeout 60 bash -c 'until times > \"$scratch/spent\" && grep -qE \"m([1-9]|0[.][5-9])\" \"$scratch/spent\"
        do :; done' && echo '1 passed, 0 failed'"
    (cd "$scratch" && bash "$runner" --times --programs "$scratch/first" "$scratch/busy") > "$scratch/output" 2>&1
    check "what takes processor time is first among the slowest" eval \
        'grep -A1 "the slowest members" "$scratch/output" | tail -n 1 | grep -qE " +[0-9.]+ +(0[.][5-9]|[1-9]).* $scratch/busy$"'
    check "the last line counts" [ "$(tail -n 1 "$scratch/output")" = "2 passed, 0 failed, 0 skipped" ]
    JOBS=none runs 2 "JOBS=none is no number of jobs" "a number of jobs that is none" good
}
[ $part != several ] || several

empty() { # empty FOLDER: or soon
    local i
    for ((i = 0; i < 50; i++)); do [ -n "$(ls -A "$1")" ] || return 0; sleep 0.1; done
    return 1
}
# stopped SIGNAL STATUS NAME [NOTES]: the whole group gets the signal while programs run, as from the
# keyboard; no process and no file is left
stopped() {
    local status i notes=${4:-$3}
    mkdir -p "$scratch/tmp"
    TMPDIR=$scratch/tmp timeout 60 bash "$runner" --programs "$scratch/good" "$scratch/$3" "$scratch/$3" \
        "$scratch/good" > "$scratch/output" 2>&1 &
    for ((i = 0; i < 300; i++)); do [ ! -s "$scratch/$notes.pid" ] || break; sleep 0.1; done
    kill -s "$1" $! # timeout passes it on to the group
    wait $!
    status=$?
    [ ! -e "$scratch/tidied" ] || mv "$scratch/tidied" "$scratch/in-time"
    check "JOBS=$JOBS, $1: status $status, expected $2" test $status = "$2"
    check "JOBS=$JOBS, $1: a process is left" gone "$notes"
    check "JOBS=$JOBS, $1: a file is left" empty "$scratch/tmp"
}
[[ $part != stopped-? ]] || for JOBS in ${part#stopped-}; do
    stopped INT 130 lasting
    stopped TERM 143 lasting
    GRACE=40 stopped INT 130 nested_runner lasting # on a busy machine a runner tidies up in more than 10 seconds
    GRACE=1 stopped INT 130 stubborn
    GRACE=1 stopped INT 130 childish stubborn
    stopped TERM 143 tidy
    check "JOBS=$JOBS: the runner ends before its programs" rm "$scratch/in-time"
done

[ $part != one ] || {
    mkdir -p "$scratch/empty/tests" && cp "$runner" "$scratch/empty/tests" && runner=$scratch/empty/tests/run_all.sh
    bash "$runner" prop > "$scratch/output" 2>&1
    if [ $? = 1 ] && grep -qx "FAILED prop: the suite has no tests" "$scratch/output"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1)) && echo "FAILED a suite without a member" && cat "$scratch/output"
    fi

    # two suites of one member each, one of them a separate program, that wait for each other: JOBS=2 runs
    # both, and shows one after the other
    cd "$scratch/empty" && mkdir -p tests/{prop,fault} b/{suites,tests/fault}
    touch tests/prop/prop_a.c && echo "int main(void)" > tests/fault/test_b.c
    cp "$scratch/meet_a" b/suites/prop && cp "$scratch/meet_b" b/tests/fault/test_b
    for JOBS in 1 2; do
        rm -f "$scratch"/here-*
        TRIES=$((JOBS == 1 ? 5 : 100)) BUILD=b bash "$runner" prop fault 2>&1 | sed 's/: [0-9]* s/: N s/' > "$scratch/output"
        check "JOBS=$JOBS: that many suites at a time" \
            [ "$(tail -n 1 "$scratch/output")" = "$JOBS passed, $((2 - JOBS)) failed, 0 skipped" ]
    done
    check "suites at the same time are shown in order" shown "2 suites: prop fault" "=== prop" "--- tests/prop/prop_a" \
        "1 passed, 0 failed" "=== prop: N s; 1 of 2 suites left, about 1 min" "=== fault" "--- tests/fault/test_b" "1 passed, 0 failed" "=== fault: N s"
}

printf '%d passed, %d failed, 0 skipped\n' $passed $failed
[ $failed = 0 ]
