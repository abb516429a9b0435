#!/usr/bin/env bash
# fault: planted faults are caught by the right check, a correct engine passes, and the score says so.
. "$(dirname "$0")/lib.bash"
export TMPDIR=$work

run 0 fault --list
says "F08 "
says "op.linear.sign"
says "F17 "

run 0 fault F08 op.rope.sign N01 --tokens 20 --threads 1 --json
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

# T-70: a fault that fails by tokens alone also fails with logits
run 0 fault op.rmsnorm.sign --levels --tokens 0
says "| generated, in one op | 1 | 1 | 1 | 1 | 1 | 1 | 1 | 1 |"

# the other commands find a fault that --write has written: between calls, in files, in the trace
run 0 fault F09 --write "$work/slip"
says "samebit diff $work/slip/checkpoint --engine $work/slip/trace"
run 0 trace "$work/slip/trace" --checkpoint "$work/slip/checkpoint"
run 1 diff "$work/slip/checkpoint" --engine "$work/slip/trace" --forced --json
at first_failure.tap layers.0.linear_attn.conv_state
run 0 fault F02 --write "$work/file" --json
run 1 check "$work/file/engine" -q
run 1 diff "$work/file/checkpoint" --engine "$work/file/trace" --forced --json
at first_failure.layer mtp.0
# the trace of a correct engine passes
run 0 fault N04 --write "$work/right" --json
run 0 diff "$work/right/checkpoint" --engine "$work/right/trace" --forced -q
refused 2 fault F09 --write "$work/slip"
refused 2 fault F09 F10 --write "$work/none"
refused 2 fault 'op.rope.*' --write "$work/none"
refused 2 fault N01 --write "$work/none"
refused 3 fault F09 --write "$work/none/deeper"
check "a folder of nothing" test ! -e "$work/none" -a ! -e "$work/none.partial"
mkdir "$work/slip2.partial" # of a run that was cut off
refused 2 fault F09 --write "$work/slip2"
says_err "left by an interrupted run"

refused 2 fault no-such-fault
refused 2 fault --tokens many
finish
