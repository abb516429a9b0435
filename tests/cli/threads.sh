#!/usr/bin/env bash
# If threads cannot be started, the program runs without them: the same output, and never status 1. The environment's
# settings for stacks and waiting, and the number of processors, change nothing.
. "$(dirname "$0")/lib.bash"

make_checkpoint T1 --preset T1 --format nvfp4-ct --seed 42
"$SAMEBIT" run "$work/T1" --tokens 1,2,3,4,5,6,7,8,9 -n 2 --threads 1 > "$work/run"
"$SAMEBIT" check "$work/T1" --threads 1 > "$work/check"
as_before() { check "$1 is not as on one thread" cmp "$work/$1" "$out"; }

# a user who may start no thread (root may always)
if [ "$(id -u)" = 0 ] && command -v setpriv > /dev/null; then
    chmod -R a+rX "$work"
    # such a user may have no access to the program's folder
    cp "$SAMEBIT" "$work/samebit"
    nobody() { setpriv --reuid=65534 --clear-groups bash -c 'ulimit -u 1 2> /dev/null || exit 77; exec "$@"' bash "$work/samebit" "$@" > "$out" 2> "$err"; }
    nobody check "$work/T1" --threads 3
    status=$?
    if [ $status = 77 ]; then
        skip "a user without threads" "no ulimit -u"
    else
        check "status $status of a user without threads" test $status = 0
        as_before check
    fi
else
    skip "a user without threads" "only root can become one"
fi

export OMP_STACKSIZE=16k OMP_WAIT_POLICY=active OMP_NUM_THREADS=3
run 0 run "$work/T1" --tokens 1,2,3,4,5,6,7,8,9 -n 2
as_before run
run 0 check "$work/T1"
as_before check
unset OMP_STACKSIZE OMP_WAIT_POLICY OMP_NUM_THREADS

if command -v taskset > /dev/null; then
    taskset -c "$(taskset -cp $$ | sed 's/.*: *//; s/[-,].*//')" "$SAMEBIT" run "$work/T1" --tokens 1,2,3,4,5,6,7,8,9 -n 2 > "$out"
    as_before run
fi

# status 1 means a difference and nothing else
sed 's/^/x/' "$work/run" > "$out"
check "another output is seen" eval '! cmp -s "$work/run" "$out"'
finish
