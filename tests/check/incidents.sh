#!/usr/bin/env bash
# Checks that the program still prints for planted faults what docs/check/incidents.md quotes.
#
#   tests/check/incidents.sh            compares
#   tests/check/incidents.sh --write    writes the tables anew
set -uo pipefail
shopt -s lastpipe # what the end of a pipeline counts, counts
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
document=docs/check/incidents.md
tables=$(mktemp) || exit 2
trap 'rm -f "$tables"' EXIT

# No number of a report depends on the instruction set: CHECK_ALL=1 takes the scalar loops, which all must agree with.
[ "${CHECK_ALL-}" != 1 ] || export SAMEBIT_ISA=scalar
if ! "${BUILD:-build}/suites/check" test_faults --table > "$tables"; then
    echo "test_faults --table failed"
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
fi
head=$(sed '/^## /,$d' "$document")
if [ "${1-}" = --write ]; then
    { printf '%s\n' "$head"; cat "$tables"; } > "$document.new" && mv "$document.new" "$document"
fi
passed=0 failed=0
same() { # same NAME < differences
    if [ -z "$(tee /dev/stderr)" ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAILED $1"; fi
}
sed -n '/^## /,$p' "$document" | diff - <(sed -n '/^## /,$p' "$tables") | same "$document is not what the program says"
grep -n '| nothing |$' "$tables" | same "a planted fault is not found"
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
