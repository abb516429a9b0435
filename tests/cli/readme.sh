#!/usr/bin/env bash
# README.md is true: every "$ samebit ..." line of it is run, and must print what stands below it.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
samebit=${SAMEBIT:-build/samebit}
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

# One command and the lines it printed, up to the next command, an empty line or the end of the block.
verify() { # command, expected output
    local got
    got=$(eval "${1/#samebit/\"\$samebit\"}" 2>&1 | sed "s|$work/|build/demo/|g")
    if [ "$got" = "$2" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED  README.md: ${1//$work/build/demo}"
        diff <(echo "$2") <(echo "$got") | head -10
    fi
}

command='' expected=''
finish() {
    [ -z "$command" ] || verify "$command" "$expected"
    command='' expected=''
}
while IFS= read -r line; do
    case $line in
        '$ samebit '*)
            finish
            command=${line#'$ '}
            command=${command//build\/demo/$work}
            ;;
        '' | '```'*) finish ;;
        *) [ -z "$command" ] || expected+=${expected:+$'\n'}$line ;;
    esac
done <README.md
finish
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
