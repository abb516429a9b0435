#!/usr/bin/env bash
# Help: every command of commands.def is listed, and explains every option of its table.
. "$(dirname "$0")/lib.bash"

commands=$(sed -n 's/^SB_COMMAND(\([a-z_]*\),.*/\1/p' tools/cli/commands.def)
# options SOURCE...: the long names in tables of options, and -x for those with a letter
# and those of the macros that stand for rows
options() {
    sed -n "s/.*{\"\([a-z-]*\)\", *[0'][^\"]*SB_OPT_.*/--\1/p" "$@"
    ! grep -q 'SB_OPT_JSON(' "$@" || echo --json
    ! grep -q 'SB_DUMPED_OPTS(' "$@" || printf -- '--as\n--map\n'
}

run 2
says 'usage: samebit COMMAND'
for flag in --help -h; do
    run 0 "$flag"
    check "stderr is not empty" test ! -s "$err"
    for command in $commands; do
        check "$command is not listed" grep -q "^  $command  *[a-z]" "$out"
    done
done
check "no commands in commands.def" test "$(wc -w <<< "$commands")" -ge 4
request=$(options tools/cli/request.c)
check "no options in request.c" test "$(wc -w <<< "$request")" -ge 8

for command in $commands; do
    own=$(options "tools/cli/cmd_$command.c")
    [[ $command != run && $command != golden ]] || own="$own $request"
    check "no options of $command found in its source" test -n "$own"
    for flag in --help -h; do
        run 0 "$command" "$flag"
        says "usage: samebit $command"
        says '-h, --help'
        check "stderr is not empty" test ! -s "$err"
        for option in $own; do
            check "$option has no line with an explanation" grep -qE -- "^ .*$option( [^ ]+)? +[^ ]" "$out"
        done
        # and nothing is offered that the table does not have
        for shown in $(grep -oE '^ +(-[a-z], )?--[a-z-]+' "$out" | grep -oE -- '--[a-z-]+'); do
            check "$shown is in no table" grep -qw -- "$shown" <<< "$own --help"
        done
    done
    # help needs nothing else, and asks for nothing else
    run 0 "$command" --help --no-such-thing
done
run 0 run --help
says '-n, --generate'
finish
