#!/usr/bin/env bash
# The tables of docs/atoms.md are right, and the program that writes them detects a wrong bit.
#
#   tests/cli/atoms.sh                      compares the table of published vectors with the output of the program
#   tests/cli/atoms.sh --write [FILE]       writes it; with a file of tools/gen/atoms/simulated.py that of MMA-Sim
#   tests/cli/atoms.sh --simulated FILE     compares the table of MMA-Sim with the output for this file
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
document=docs/atoms.md
vectors=golden/atoms/published.safetensors
program=("${BUILD:-build}/suites/unit" test_atoms_published)
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

check() { # check NAME COMMAND...
    local name=$1
    shift
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAILED $name"; fi
}
heading() { case $1 in "$vectors") echo "### What hardware gave" ;; *) echo "### What MMA-Sim gives" ;; esac; }
# rows HEADING: the rows that the document has below it, up to the next heading
rows() { awk -v heading="$1" '/^#/ { here = $0 == heading } here && /^\| `/' "$document"; }
write() { # write FILE: its rows in the place of those that are there
    "${program[@]}" --table "$1" > "$work/rows" || exit 1
    awk -v heading="$(heading "$1")" 'NR == FNR { rows = rows $0 "\n"; next } /^#/ { here = $0 == heading }
        here && /^\| `/ { next } { print } here && /^\|---/ { printf "%s", rows }' "$work/rows" "$document" \
        > "$work/document" && cat "$work/document" > "$document"
}
same() { # same FILE
    "${program[@]}" --table "$1" > "$work/rows" && [ -s "$work/rows" ] &&
        diff <(rows "$(heading "$1")") "$work/rows"
}

case ${1-} in
    --write) write "${2-$vectors}" ;;
    --simulated) check "$document: the table of MMA-Sim is not what the program says" same "$2" ;;
    *)
        check "$document: the table of vectors is not what the program says" same "$vectors"
        size=$(wc -c < "$vectors") head=$(od -An -tu8 -N8 "$vectors" | tr -d ' ')
        first=$(grep -ao '"d/ada_fp8/Ada/e4m3/[^}]*' "$vectors" | sed 's/.*"data_offsets":.\([0-9]*\).*/\1/')
        sees() { # sees OFFSET: that a file with another byte there fails
            cp "$vectors" "$work/published" && printf '\125' |
                dd of="$work/published" bs=1 seek="$1" conv=notrunc 2> "$work/dd" &&
                ! "${program[@]}" "$work/published" > "$work/said" 2>&1 && grep -q 'differ, first vector' "$work/said"
        }
        check "a wrong result is not seen" sees $((head + 8 + first))
        check "a wrong operand is not seen" sees $((size - 1)) # the last of the last vector of E5M2
        sed 's|"d/ada_fp8/|"d/ada_fp9/|' "$vectors" > "$work/renamed"
        check "a row that is none is not refused" eval \
            '! "${program[@]}" "$work/renamed" > "$work/said" 2>&1 && grep -q "does not fit" "$work/said"'
        ;;
esac
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
