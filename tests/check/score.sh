#!/usr/bin/env bash
# Checks that as many planted faults are refused as docs/check/score.md says.
#
#   tests/check/score.sh            compares; without CHECK_ALL only the number of faults
#   tests/check/score.sh --write    writes the tables anew
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
document=docs/check/score.md
tables=$(mktemp) || exit 2
trap 'rm -f "$tables"' EXIT
passed=0 failed=0
tell() { # tell NAME: after a condition
    if [ $? = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAILED $1"; fi
}

planted=$(grep -c '^SB_SCORE(' tests/check/score.def)
if [ "${CHECK_ALL:-0}" != 0 ] || [ "${1-}" = --write ]; then
    "${BUILD:-build}/tests/check/score" | grep -v '^\[' > "$tables"
    if [ "${1-}" = --write ]; then
        { sed '/^## /,$d' "$document"; sed -n '/^## /,$p' "$tables"; } > "$document.new" && mv "$document.new" "$document"
    fi
    diff <(sed -n '/^## /,$p' "$document") <(sed -n '/^## /,$p' "$tables")
    tell "$document is not what the program says"
fi
grep -q "^| all | $planted |" "$document"
tell "$document is of another number of faults than the $planted of tests/check/score.def"
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
