#!/usr/bin/env bash
# Disks that are full or too small, files that change while they are read, pipes where files are expected.
. "$(dirname "$0")/lib.bash"

make_checkpoint t4 --preset T4 --layers 1
make_checkpoint other --preset T4 --layers 1 --seed 7
t4=$work/t4
shard=model-00002-of-00003.safetensors

# --- a pipe in the place of a shard is refused; a missing shard is counted ---
cp -r "$t4" "$work/pipe"
rm "$work/pipe/$shard"
run 0 floor "$work/pipe" --bandwidth 100
says "$shard: is missing"
mkfifo "$work/pipe/$shard"
refused 3 floor "$work/pipe" --bandwidth 100
says_err "$shard: is a pipe, socket or device"
refused 3 floor "$work/pipe" --bandwidth 100 --json
run 1 check "$work/pipe" --quiet

# --- a disk that is too small: refused before anything is written ---
refused 3 make "$work/huge" --preset 397b-a17b
says_err 'needs 8'
says_err 'GB left'
check "something was written" test ! -e "$work/huge" -a ! -e "$work/huge.partial"

# --- a file that would become too large ---
last="files of at most 100 and 20 kB"
(ulimit -f 100; "$SAMEBIT" make "$work/large" --preset T4 --layers 1) > "$out" 2> "$err"
check "exit status $?, expected 3" test $? = 3
says_err 'File too large'
check "something was written" test ! -e "$work/large" -a ! -e "$work/large.partial"
(ulimit -f 20; "$SAMEBIT" run "$t4" --tokens 1,2 --state-out "$work/state") > "$out" 2> "$err"
check "exit status $?, expected 3" test $? = 3
says_err 'File too large'
check "something was written" test -z "$(ls "$work" | grep state)"

# --- help on a stdout that is full ---
if mknod "$work/full" c 1 7 2> /dev/null && ! (echo > "$work/full") 2> /dev/null; then
    for command in '' check make run; do
        last="$command --help > full"
        # shellcheck disable=SC2086
        "$SAMEBIT" $command --help > "$work/full" 2> "$err"
        check "exit status $?, expected 3" test $? = 3
        says_err 'stdout'
    done
else
    skip "a full device" "mknod is not allowed here"
fi
run 0 --help
says 'commands:'

# --- two writers of one folder: one wins, the other is refused; the remains of a killed writer are named ---
# The first is stopped while it writes; if it had already finished, the test starts again.
for ((try = 0; try < 50; try++)); do
    rm -rf "$work/two"
    "$SAMEBIT" make "$work/two" --preset T1 > "$work/first" 2>&1 &
    first=$!
    until compgen -G "$work/two.partial/*" > /dev/null || ! kill -0 $first 2> /dev/null; do :; done
    kill -STOP $first 2> /dev/null
    [ -e "$work/two" ] || break
    kill -CONT $first 2> /dev/null
    wait $first
done
refused 2 make "$work/two" --preset T4
says_err 'another process is writing it'
kill -CONT $first
wait $first
check "the first writer fails" test $? = 0
run 0 info "$work/two"
mkdir "$work/old.partial"
refused 2 make "$work/old" --preset T4
says_err 'left by an interrupted run'
check "a leftover was touched" test -d "$work/old.partial" -a ! -e "$work/old"

# --- a shard that becomes shorter while it is mapped ---
# The command is stopped as soon as it has mapped the file; then the file is cut and the command continues. A command
# that finished before it could be stopped is started again.
seq -s, 1 380 > "$work/ids"
shrink() {
    local command status maps try
    last="$*"
    for ((try = 0; try < 50; try++)); do
        rm -rf "$work/short"
        cp -r "$t4" "$work/short"
        "$SAMEBIT" "$@" > "$out" 2> "$err" < /dev/null &
        command=$!
        # `read` is a builtin of the shell, so that no process has to start between two looks
        while read -r -d '' maps < /proc/$command/maps || [ -n "$maps" ]; do
            [[ $maps == *"short/$shard"* ]] && break
        done 2> /dev/null
        kill -STOP $command 2> /dev/null
        for file in "$work"/short/*.safetensors; do
            : > "$file"
        done
        kill -CONT $command 2> /dev/null
        wait $command
        status=$?
        [ $status = 0 ] || break
    done
    check "exit status $status, expected 3" test $status = 3
    check "not one line on stderr" one_line
    says_err '.safetensors'
}
shrink diff "$work/short" --engine sim:fma --tokens-file "$work/ids" -n 1
shrink compare "$t4" "$work/short" --tokens-file "$work/ids"
# two threads meet the end of the file together, and only one reports it
for _ in 1 2 3 4 5 6 7 8; do
    shrink run "$work/short" --tokens-file "$work/ids"
done
finish
