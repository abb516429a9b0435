#!/usr/bin/env bash
# Help: every command of commands.def is listed, and explains every option of its table.
. "$(dirname "$0")/lib.bash"

commands=$(sed -n 's/^SB_COMMAND(\([a-z_]*\),.*/\1/p' tools/cli/commands.def)
# options SOURCE...: the long names of the options in the tables of these sources, including the rows that macros stand
# for
options() {
    sed -n "s/.*{\"\([a-z-]*\)\", *[0'][^\"]*SB_OPT_.*/--\1/p" "$@"
    ! grep -q 'SB_OPT_JSON(' "$@" || echo --json
    ! grep -q 'SB_OPT_REMOTE(' "$@" || printf -- '--remote\n--remote-cache\n'
    ! grep -q 'SB_DUMPED_OPTS(' "$@" || printf -- '--as\n--map\n'
    ! grep -q 'SB_PROMPT_OPTS(' "$@" || printf -- '--tokens\n--tokens-file\n--prompt\n--text\n'
    ! grep -q 'SB_DRAFTER_OPTS(' "$@" || printf -- '--drafter\n--draft-file\n'
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
        # the help lists no option that the table lacks
        for shown in $(grep -oE '^ +(-[a-z], )?--[a-z-]+' "$out" | grep -oE -- '--[a-z-]+'); do
            check "$shown is in no table" grep -qw -- "$shown" <<< "$own --help"
        done
    done
    # help works without any other argument
    run 0 "$command" --help --no-such-thing
done
run 0 run --help
says '-n, --generate'

# `samebit help run` prints the same text
cp "$out" "$work/run"
run 0 help run
check "'help run' is not 'run --help'" cmp -s "$out" "$work/run"
run 0 help
says 'usage: samebit COMMAND'

# the version of the program
run 0 --version
says "samebit $(sed -n 's/^.define SAMEBIT_VERSION "\(.*\)"/\1/p' ref/samebit.h)"
says "specification $(sed -n 's/.*SB_SPEC_VERSION = \([0-9]*\).*/\1/p' ref/base/spec.h)"
SAMEBIT_ISA=scalar run 0 --version
says 'instructions scalar'
SAMEBIT_ISA=mmx refused 2 --version

# for a mistyped name the message suggests the closest one, if there is a close one
while read -r typed meant; do
    refused 2 "$typed"
    says_err "there is no command '$typed', but there is $meant; see"
done <<< $'rnu run\ndif diff\ngratf\tgraft\nchek check\ntokenise tokenize'
refused 2 quantize
says_err "there is no command 'quantize'; see"
refused 2 run --temperature 1
says_err "'--temperature', but there is --temp; see"
refused 2 run --generat=3
says_err "but there is --generate; see"
refused 2 run --genrate 3
says_err "but there is --generate; see"
refused 2 run --colour
says_err "'--colour'; see"

# a man page of every command: roff without a warning, in which every option stands
roff() { groff -man -Tutf8 -ww -z "$1" 2>&1; }
for command in $commands; do
    run 0 help "$command" --man
    check "no title" grep -q "^\.TH SAMEBIT\\\\-${command^^} 1 " "$out"
    cp "$out" "$work/page"
    [ -z "$(command -v groff)" ] || check "roff warns" test -z "$(roff "$work/page")"
    "$SAMEBIT" "$command" --help | grep -oE '^ +(-[a-z], )?--[a-z-]+' | grep -oE -- '--[a-z-]+' > "$work/options"
    while read -r option; do
        check "$option is not in the page" grep -qF -- "${option//-/\\-}" "$work/page"
    done < "$work/options"
done
[ -n "$(command -v groff)" ] || skip "man pages by groff" "no groff"
run 0 help --man
for command in $commands; do says "samebit\\-$command"; done
refused 2 help rnu --man
says_err "but there is run; see"

# color: only on a terminal, only for a verdict at the beginning of a line, and never if the user does not want it
on_terminal() { # ENVIRONMENT... -- ARG...: what a terminal gets
    local set=()
    while [ "$1" != -- ]; do set+=("$1") && shift; done
    shift
    env "${set[@]}" script -qec "$(printf '%q ' "$SAMEBIT" "$@")" /dev/null < /dev/null | tr -d '\r'
}
if [ -n "$(command -v script)" ]; then
    make_checkpoint T4 --preset T4 --seed 42
    run 0 hash "$work/T4"
    cp "$out" "$work/manifest"
    green=$'\033[1;32mIDENTICAL\033[0m '
    check "no color" grep -qF "$green" <(on_terminal TERM=xterm NO_COLOR= -- hash "$work/T4" --verify "$work/manifest")
    colors() { on_terminal "${@}" -- hash "$work/T4" --verify "$work/manifest" | grep -c $'\033\[1'; }
    check "color in spite of NO_COLOR" test "$(colors TERM=xterm NO_COLOR=1)" = 0
    check "color on a dumb terminal" test "$(colors TERM=dumb)" = 0
    check "the color of a word inside a line" test -z "$(on_terminal TERM=xterm -- info "$work/T4" | grep $'\033\[1')"
    for command in "info $work/T4" "--help"; do
        # shellcheck disable=SC2086
        check "other text on a terminal: $command" diff <(on_terminal TERM=xterm -- $command) <("$SAMEBIT" $command)
    done
else
    skip "color on a terminal" "no program 'script'"
fi

# completion: bash runs it, zsh and fish read it
run 0 help --completion bash
complete_line() {
    bash -c '. "$1"; shift; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _samebit; printf "%s\n" "${COMPREPLY[@]}"' \
        bash "$work/completion" "$@" | sort | tr '\n' ' '
}
cp "$out" "$work/completion"
check "commands" test "$(complete_line samebit gra)" = "graft "
check "all commands" test "$(complete_line samebit '')" = "$(printf '%s\n' $commands --help --version | sort | tr '\n' ' ')"
check "options" test "$(complete_line samebit run --tokens)" = "--tokens --tokens-file "
check "an option's value" test -z "$(complete_line samebit run --seed | tr -d ' ' | grep -v '^--seed$')"
check "no word for a number" test -z "$(complete_line samebit run --seed '' | tr -d ' ')"
check "a file" test "$(complete_line samebit run --tokens-file "$work/compl")" = "$work/completion "
check "an operand" test "$(complete_line samebit info "$work/compl")" = "$work/completion "
for shell in zsh fish; do
    run 0 help --completion $shell
    cp "$out" "$work/completion"
    for command in $commands; do says "$command"; done
    if [ -n "$(command -v $shell)" ]; then
        check "$shell does not read it" $shell -n "$work/completion"
    else
        skip "completion of $shell" "no $shell"
    fi
done
refused 2 help --completion csh
says_err "'csh', expected bash, zsh or fish"
refused 2 help run --completion bash
refused 2 help --man --completion bash
finish
