#!/usr/bin/env bash
# README.md and the pages with examples are true: every "$ samebit ..." line of them is run, and must print what stands
# below it. The commands of a page run in order, with a folder of their own in place of build/demo.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
samebit=${SAMEBIT:-build/samebit}
pages=(README.md docs/trust.md docs/tutorials/*.md docs/howto/*.md)
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0 count=0

fails() { # what
    failed=$((failed + 1))
    echo "FAILED  $page: $1"
}

# One command and the lines it printed, up to the next command, an empty line or the end of the block.
verify() { # command, expected output
    local got
    got=$(eval "${1/#samebit/\"\$samebit\"}" 2>&1 | sed "s|$work/|build/demo/|g")
    if [ "$got" = "$2" ]; then
        passed=$((passed + 1))
    else
        fails "${1//$work/build/demo}"
        diff <(echo "$2") <(echo "$got") | head -10
    fi
}

command='' expected=''
finish() {
    [ -z "$command" ] || verify "$command" "$expected"
    command='' expected=''
}
for page in "${pages[@]}"; do
    count=$((count + 1)) commands=0
    work=$scratch/$count # short: messages cut long names
    mkdir "$work" || exit 2
    while IFS= read -r line; do
        case $line in
            '$ samebit '*)
                finish
                commands=$((commands + 1))
                command=${line#'$ '}
                command=${command//build\/demo/$work}
                ;;
            '' | '```'*) finish ;;
            *) [ -z "$command" ] || expected+=${expected:+$'\n'}$line ;;
        esac
    done < "$page"
    finish
    [ "$commands" -gt 0 ] || fails "no command that begins with '\$ samebit '"
    rm -rf "$work"
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
