#!/usr/bin/env bash
# All 2^32 inputs of every function through MPFR, and 10^7 rows by every kernel against the definition, in
# parts of a few minutes: tests/long.sh [PARTS] A finished part is a line of docs/exhaustive.log and is not
# run again, so that the script can be stopped and started at will. A finished function gets a line with the
# date. Remove the log after a change of ref/math.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
build=${BUILD:-build}
parts=${1:-64}
log=docs/exhaustive.log
passed=0 failed=0

functions=$(sed -n 's/.*exceptions_\([a-z0-9]*\)\[\].*/\1/p' ref/math/exceptions.inc)
for function in $functions; do
    before=$failed
    for ((part = 0; part < parts; part++)); do
        if "$build/tests/exhaustive/all32" --full "$function" --part $part/"$parts" --log $log; then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
        fi
    done
    done_line="# $function: all $parts parts"
    if [ $failed = $before ] && ! grep -qF "$done_line" $log; then
        echo "$done_line, $(date -u +%Y-%m-%d)" >> $log
    fi
done
for ((part = 0; part < 20; part++)); do # 1 500 000 matrices are some 10 400 000 rows
    if "$build/tests/exhaustive/rows_long" --matrices 1500000 --part $part/20 --log $log; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
done
printf '%d passed, %d failed, 0 skipped\n' $passed $failed
[ $failed = 0 ] && [ $passed -gt 0 ]
