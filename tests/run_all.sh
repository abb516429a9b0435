#!/usr/bin/env bash
# Runs the test suites in a fixed order and adds up the results that they print.
#
#   tests/run_all.sh [--all] [--times] [SUITE...]     all suites of `make check`, or those named
#   tests/run_all.sh --programs PROGRAM...           any programs with the output of tests (the runner's own tests)
#
#   --all           the longer forms of `make check-all`
#   --times         at the end, seconds of wall clock and of processor: of the slowest members and of each suite
#   BUILD=DIR       the build to test (build); its tests must have been built: make tests
#   JOBS=N          members of a suite that run at the same time, and jobs of the builds that the suites make
#                   for themselves (the processors and one more: some members sleep, or wait for a file)
#   CI=true         every tool is required: what would be SKIPPED is FAILED
#
# A test is a cmocka program, whose summary lines are counted, or a script with the closing line `N passed, N
# failed[, N skipped]`. A test has failed if it crashes, prints nothing, counts nothing, exceeds the time
# limit, or has exit status 0 after a failure. A suite without a member has failed, too. The outputs of
# members that run at the same time are shown one after the other, in the order of the list; with JOBS=1 they
# are shown while they are written. A suite begins while the last members of the suite before still run, so
# that their times overlap. The last line is `N passed, N failed, N skipped`. The exit status is 1 if anything
# failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
# the suites call make with their own settings
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES CMOCKA_XML_FILE CMOCKA_TEST_ABORT SAMEBIT_ISA OMP_NUM_THREADS
export LC_ALL=C CMOCKA_MESSAGE_OUTPUT=stdout
export BUILD=${BUILD:-build} JOBS=${JOBS:-$(($(nproc) + 1))}
export SAMEBIT=${SAMEBIT:-$PWD/$BUILD/samebit}
[ "${BUILD#/}" = "$BUILD" ] || SAMEBIT=$BUILD/samebit
[[ $JOBS =~ ^[1-9][0-9]*$ ]] || { echo "JOBS=$JOBS is no number of jobs" >&2; exit 2; }
limit=${LIMIT:-600} # seconds one program may take
grace=${GRACE:-10}  # seconds that it has left when it was asked to end
at_once=$JOBS       # members that may run at the same time
all=0

# asan runs alone. The suites before it have many short members, so that no processor waits long.
SUITES=(lint meta unit prop fault mtp hf quant check gate gpu matrix cli golden fuzz asan)
# processor seconds of each suite, measured once: only their ratios are used, to estimate the time left
declare -A cost=([lint]=19 [meta]=23 [unit]=220 [prop]=18 [fault]=76 [mtp]=42 [hf]=19 [quant]=14 [check]=107
    [gate]=74 [gpu]=415 [matrix]=250 [cli]=400 [golden]=22 [fuzz]=20 [asan]=430 [exhaustive]=40000)

logs=$(mktemp -d) || exit 2
trap 'rm -rf "$logs"' EXIT
mkfifo "$logs/ended" "$logs/live" && exec {ended}<> "$logs/ended" || exit 2
passed=0 failed=0 skipped=0
problems=() # one line each, repeated at the end

# --- one program ------------------------------------------------------------------------------------
# Reads an output and prints "passed failed skipped told"; told is 0 if there was no summary. A script may
# show the summaries of programs that it runs: only its own closing line counts.
count() {
    awk '
    /^\[==========\] ([^ ]+: )?[0-9]+ test\(s\) run\./ {
        run += $2 ~ /^[0-9]+$/ ? $2 : $3; groups++
    }
    /^\[  PASSED  \] [0-9]+ test\(s\)/ { p += $4 }
    /^\[  FAILED  \] [0-9]+ test\(s\)/ { f += $4 }
    /^\[  SKIPPED \] [0-9]+ test\(s\)/ { s += $4 }
    NF { last = $0 }
    END {
        if (last ~ /^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$/) {
            split(last, word, " ")
            print word[1], word[3], word[5] + 0, 1
            exit
        }
        if (run > p + s && run - p - s > f) f = run - p - s # tests whose setup failed
        print p + 0, f + 0, s + 0, (groups > 0)
    }' "$1"
}

problem() { problems+=("$1"); printf '%s\n' "$1"; }

# Every member runs in the background in its own shell, writes its own file, and reports its end through a
# pipe, because `wait -n` may miss one. The first `shown` members have been shown. The status is empty while a
# member runs, `left` for one that is left out, and `opens` or `closes` for the two lines around a suite,
# which have entries among the members.
names=() suites=() statuses=() shown=0 running=0
live=() # those that are shown while they run
times=0 # whether each leaves its times

# begin INDEX OUTPUT COMMAND...: runs one member to its end; a signal is passed to the group that timeout
# makes
begin() {
    local index=$1 output=$2 status stopped= start=$EPOCHREALTIME
    shift 2
    trap '' HUP INT # which the whole group may get; the runner sends TERM
    trap 'trap "" TERM; stopped=1; kill $(jobs -pr)' TERM # once: what is being cleaned up is left in peace
    timeout -k "$grace" "$limit" "$@" < /dev/null > "$output" 2>&1 {ended}>&- &
    [ -z "$stopped" ] || kill $!
    while wait $!; status=$?; [ -n "$stopped" ] && kill -0 $!; do :; done # a signal ends wait, not the program
    # ends the processes that remain in the group, or that timeout has missed
    if { [ -n "$stopped" ] || [ $status = 124 ]; } && kill -- -$!; then
        timeout "$grace" bash -c "while kill -0 -- -$!; do sleep 0.1; done" || kill -KILL -- -$!
    fi
    [ $times = 0 ] || { echo "$start $EPOCHREALTIME" && times; } > "$logs/$index.times"
    echo "$index $status" >&"$ended"
}
# member NAME COMMAND...: runs one test program as soon as there is room
member() {
    local index=${#names[@]}
    names+=("$1")
    suites[index]=${suite-}
    shift
    while [ $running -ge "$at_once" ]; do one_ends; done
    running=$((running + 1))
    if [ "$at_once" = 1 ]; then
        live[index]=1
        printf -- '--- %s\n' "${names[index]}"
        begin $index "$logs/live" "$@" 2> /dev/null &
        (trap '' HUP INT TERM; exec tee "$logs/$index" < "$logs/live") & # to the end of the member
        wait $!
        one_ends
    else
        begin $index "$logs/$index" "$@" 2> /dev/null &
    fi
}
# Waits until any member ends, and shows all members that can be shown.
one_ends() {
    local index status
    read -r index status <&"$ended"
    statuses[index]=$status
    running=$((running - 1))
    show_ended
}
show_ended() {
    while [ -n "${statuses[shown]-}" ]; do
        case ${statuses[shown]} in
            opens | closes) "${statuses[shown]}" "${names[shown]}" ;;
            *) verdict $shown "${names[shown]}" "${statuses[shown]}" ;;
        esac
        shown=$((shown + 1))
    done
}
all_end() { while [ $running -gt 0 ]; do one_ends; done; }
# place STATUS NAME: adds an entry to the list that does not run
place() {
    statuses[${#names[@]}]=$1
    names+=("$2")
    show_ended
}
# stop STATUS: ends everything that was started, then this script
stop() {
    trap '' HUP INT PIPE TERM
    kill $(jobs -pr) 2> /dev/null
    wait
    exit "$1"
}
trap 'stop 129' HUP
trap 'stop 130' INT
trap 'stop 141' PIPE
trap 'stop 143' TERM

# verdict INDEX NAME STATUS: shows the output of a member, and adds up its counts
verdict() {
    local name=$2 status=$3 p f s told log="$logs/$1" why=
    if [ "$status" = left ]; then
        printf -- '--- %s: left out\n' "$name"
        return
    elif [ -z "${live[$1]-}" ]; then
        printf -- '--- %s\n' "$name"
        cat "$log"
    fi
    read -r p f s told < <(count "$log")
    case $status in
        0) [ "$f" = 0 ] || { why="ends with status 0 after a failure" f=$((f + 1)); } ;;
        124 | 137) why="took more than $limit seconds" f=$((f + 1)) ;;
        *) [ $status -lt 128 ] || why="died of signal $((status - 128))"
           [ "$f" != 0 ] && [ $status -lt 128 ] || { why=${why:-"ends with status $status"} f=$((f + 1)); } ;;
    esac
    if [ "$told" = 0 ]; then
        why="${why:+$why, }no summary" f=$((f > 0 ? f : 1))
    elif [ $((p + f + s)) = 0 ]; then
        why="no test ran" f=1
    fi
    [ "$f" = 0 ] || problem "FAILED $name: $f${why:+ ($why)}"
    if [ "$s" != 0 ]; then
        problem "SKIPPED $name: $s$(sed -n 's/^SKIP\(PED\)\{0,1\}[: ] */; /p' "$log" | tr -d '\n')"
        if [ "${CI-}" = true ]; then f=$((f + s)) s=0; fi
    fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

# --- suites: each calls member for its tests ----------------------------------------------------------
# The cases of a source: in its suite, BUILD/suites/FOLDER, or in a separate program, if it has a main. A
# missing program prints nothing and therefore fails.
compiled() {
    local source name
    for source in "$@"; do
        [ -e "$source" ] && wanted "$source" || continue
        name=${source%.c*}
        if grep -qw '^int main' "$source"; then
            member "$name" "$BUILD/$name"
        else
            name=${name#tests/}
            member "tests/$name" "$BUILD/suites/${name%%/*}" "${name##*/}"
        fi
    done
}
scripts() {
    local script
    for script in "$@"; do
        [ -e "$script" ] && wanted "$script" && member "$script" bash "$script"
    done
}
# A long script: each of the parts that `SCRIPT --list` prints is a member.
parts() {
    local part
    for part in $(bash "$1" --list); do member "$1 $part" bash "$1" "$part"; done
}
# LEAVE_OUT names sources that a caller does not want to run: asan.sh
wanted() {
    [[ " ${LEAVE_OUT-} " == *" $1 "* ]] || return 0
    place left "$1"
    return 1
}

suite_lint() { scripts tools/lint/*.sh; }
suite_meta() { scripts tests/meta/*.sh; }
suite_unit() { compiled tests/unit/test_*.c; }
suite_prop() { compiled tests/prop/prop_*.c; }
suite_fault() { compiled tests/fault/test_*.c; scripts tests/fault/*.sh; }
suite_mtp() { compiled tests/mtp/test_*.c; }
suite_hf() { compiled tests/hf/test_*.c; }
suite_quant() { compiled tests/quant/test_*.c; }
suite_check() { compiled tests/check/test_*.c; scripts tests/check/*.sh; }
suite_gate() { compiled tests/gate/test_*.c; scripts tests/gate/*.sh; }
suite_cli() { scripts tests/cli/*.sh; }
suite_golden() { parts tests/golden.sh; }
suite_fuzz() { parts tests/fuzz.sh; }
suite_gpu() {
    if grep -qsx gpu/absent.c "$BUILD/members" && ! grep -qsx gpu/emu/grid.cc "$BUILD/members"; then # nothing was built
        member tests/gpu printf '%s\n' 'SKIPPED the emulator: built without a C++ compiler' '0 passed, 0 failed, 1 skipped'
        return
    fi
    compiled tests/gpu/test_*.c tests/gpu/test_*.cc
    scripts tests/gpu/*.sh
    parts tests/models.sh
}
suite_matrix() {
    parts tests/matrix.sh
    [ "${CHECK_ALL-}" != 1 ] || scripts tests/macos.sh
}
# suites that use every processor by themselves run alone, and are shown while they run
suite_asan() { # threads, too, if all is asked for
    at_once=1 scripts tests/asan.sh $([ "${CHECK_ALL-}" != 1 ] || echo tests/tsan.sh)
}
suite_exhaustive() {
    local at_once=1
    member "tests/exhaustive/all32 --screen" "$BUILD/tests/exhaustive/all32" --screen
    member "tests/exhaustive/codecs32 --codecs" "$BUILD/tests/exhaustive/codecs32" --codecs
    member "tests/exhaustive/codecs32 --forms" "$BUILD/tests/exhaustive/codecs32" --forms docs/e2m1.md
}

run_suite() {
    case $1 in asan | exhaustive) all_end ;; esac # they run alone
    began[${#names[@]}]=$SECONDS
    place opens "$1"
    "suite_$1"
    place closes "$1"
}
opens() {
    before=$((passed + failed + skipped)) opened=$shown
    printf '=== %s\n' "$1"
}
# all members of the suite have ended, so that those of the next may run
closes() {
    if [ $((passed + failed + skipped)) = $before ]; then
        problem "FAILED $1: the suite has no tests"
        failed=$((failed + 1))
    fi
    printf '=== %s: %d s%s\n' "$1" $((SECONDS - began[opened])) "$(time_left "$1")"
}
# the number of suites after this one, and the minutes that they take at the speed of those before
time_left() {
    local suite left=0 spent=0 suites=0 behind=0
    for suite in "${chosen[@]}"; do
        if [ $behind = 1 ]; then
            suites=$((suites + 1)) left=$((left + cost[$suite]))
        else
            spent=$((spent + cost[$suite]))
        fi
        [ "$suite" != "$1" ] || behind=1
    done
    [ $suites = 0 ] || printf '; %d of %d suites left, about %d min' \
        $suites ${#chosen[@]} $((SECONDS * left / spent / 60 + 1))
}

# For each member: `start end`, and the output of bash's `times`, for its own shell and for all of its children.
show_times() {
    local index
    echo
    for index in "${!names[@]}"; do
        [ ! -e "$logs/$index.times" ] || echo "${suites[index]:-programs} ${names[index]// /_} $(tr '\n' ' ' < "$logs/$index.times")"
    done | awk '
    function seconds(t,    part) { split(t, part, /[ms]/); return part[1] * 60 + part[2] }
    {
        spent = seconds($5) + seconds($6) + seconds($7) + seconds($8)
        printf "1 %8.1f %8.1f  %s\n", $4 - $3, spent, $2
        count[$1]++
        sum[$1] += spent
        if (!($1 in first) || $3 < first[$1]) first[$1] = $3
        if ($4 > last[$1]) last[$1] = $4
    }
    END { for (s in count) printf "2 %8.1f %8.1f  %s, %d members\n", last[s] - first[s], sum[s], s, count[s] }' |
        sort -k1,1n -k3,3nr | awk '
    $1 != part { part = $1; n = 0; print part == 1 ? "  wall processor  the slowest members" : "  wall processor  suites" }
    part == 2 || n++ < 25 { print substr($0, 3) }'
}

# --- main -----------------------------------------------------------------------------------------------
chosen=()
while [ $# -gt 0 ]; do
    case "$1" in
        --all) all=1 limit=${LIMIT:-3000} ;;
        --times) times=1 ;;
        --programs)
            shift
            for program in "$@"; do member "$program" "$program"; done
            all_end
            chosen=(none)
            break ;;
        *)
            declare -F "suite_$1" > /dev/null || { echo "no such suite: $1 (${SUITES[*]})" >&2; exit 2; }
            chosen+=("$1") ;;
    esac
    shift
done
if [ ${#chosen[@]} = 0 ]; then
    chosen=("${SUITES[@]}")
    [ $all = 0 ] || chosen+=(exhaustive)
fi
export CHECK_ALL=$all
[ $all = 0 ] || export SAMEBIT_CASES="${SAMEBIT_CASES:-1000000}" # reductions of each kind against MPFR
[ ${#chosen[@]} -lt 2 ] || printf '%d suites: %s\n' ${#chosen[@]} "${chosen[*]}"
for suite in "${chosen[@]}"; do [ "$suite" = none ] || run_suite "$suite"; done
all_end
[ $times = 0 ] || show_times

echo
if [ ${#problems[@]} -gt 0 ]; then
    printf '%s\n' "${problems[@]}"
    [ "${CI-}" = true ] && [ "$failed" -gt 0 ] && echo "CI=true: what is skipped counts as failed"
fi
[ $((passed + failed + skipped)) -gt 0 ] || failed=1
printf '%d passed, %d failed, %d skipped\n' $passed $failed $skipped
[ $failed = 0 ]
