#!/usr/bin/env bash
# fault: what is planted is caught where it belongs, a correct engine passes, and the score says so.
. "$(dirname "$0")/lib.bash"
export TMPDIR=$work

run 0 fault --list
says "F08 "
says "op.linear.sign"
says "needs emu/gpu"

run 0 fault F08 op.rope.sign F17 --tokens 20 --threads 1 --json
at command fault
at planted 4
at caught 4
at survivors '[]'
at misplaced 0
at false_alarms 0
at skipped 1
at peers.top-1.false_alarms 0
check "checkpoints are left behind" test -z "$(ls "$work" | grep samebit-fault)"

run 0 fault bit-scale all-nan --tokens 0 --threads 1
says "2 caught, 0 survived"
says "check:fp4-scale-bytes"

refused 2 fault no-such-fault
refused 2 fault --tokens many
finish
