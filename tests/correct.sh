#!/usr/bin/env bash
# Runs correct engines of every kind, none of which may fail, in parts of some minutes:
#   tests/correct.sh [PARTS [TOKENS]]     PARTS parts (100) of TOKENS tokens (10000); WRITE=1: also the table
#                                         of docs/faults.md
# A finished part leaves a file in CORRECT_LOG (build/correct) and is not run again, so that the script can be
# stopped and started at will. Several can run at the same time with PART=i/n, which takes each n-th part. A
# part belongs to the program that ran it, by its SHA-256; parts of another program are neither added nor
# removed. SAMEBIT=PROGRAM names a copy of the program that does not change while the tree does. CONTINUE=1
# continues after the parts in the table of docs/faults.md and adds to that table: for another machine, as long
# as no verdict has changed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
SAMEBIT=${SAMEBIT:-${BUILD:-build}/samebit}
parts=${1:-100} tokens=${2:-10000}
log=${CORRECT_LOG:-${BUILD:-build}/correct}
every=${PART:-0/1}
program=$(sha256sum < "$SAMEBIT" | cut -c1-12)
[ -n "$program" ] && mkdir -p "$log" || exit 2
before=0 old=/dev/null # parts of the table, and the table
if [ "${CONTINUE-}" = 1 ]; then
    old=docs/faults.md
    before=$(sed -n "s/^<!-- correct engines.*: \([0-9]*\) parts of $tokens tokens -->/\1/p" "$old")
    [ -n "$before" ] || { echo "$old has no table of parts of $tokens tokens" >&2; exit 2; }
fi

for ((part = ${every%/*}; part < parts; part += ${every#*/})); do
    [ "$part" -ge "$before" ] || continue
    done=$log/part-$part-of-$tokens-$program.txt
    [ -e "$done" ] && continue
    "$SAMEBIT" fault clean --quiet --tokens "$tokens" --part "$part" > "$done.partial"
    [ $? -le 1 ] && mv "$done.partial" "$done" # 1: a false alarm is a result, too
done

# Sums the rows "axis name runs tokens alarms mistrusted" of all parts, in the order of the first part.
table() {
    awk '
    function add(axis, name, r, t, a, m,    key) {
        key = axis " | " name
        if (!(key in runs)) order[++count] = key
        runs[key] += r; tokens[key] += t; alarms[key] += a; mistrusted[key] += m
    }
    FNR == 1 { rows = 0 }
    /^<!-- correct engines/ { inside = 1 }
    /^<!-- end/ { inside = 0 }
    inside && split($0, cell, / *\| */) == 8 && cell[4] + 0 && cell[2] != "all" {
        add(cell[2], cell[3], cell[4], cell[5], cell[6], cell[7])
    }
    FILENAME ~ /faults.md$/ { next }
    /^correct +engine/ { rows = 1; next }
    !NF { rows = 0 }
    rows {
        axis = $1; n = NF; name = $2
        for (i = 3; i <= n - 4; i++) name = name " " $i
        add(axis, name, $(n - 3), $(n - 2), $(n - 1), $n)
    }
    END {
        print "| in | kind | runs | tokens | false alarms | mistrusted |\n|---|---|---|---|---|---|"
        for (i = 1; i <= count; i++) {
            key = order[i]
            printf "| %s | %d | %d | %d | %d |\n", key, runs[key], tokens[key], alarms[key], mistrusted[key]
            if (index(key, "engine | ") == 1) { r += runs[key]; t += tokens[key]; a += alarms[key]; m += mistrusted[key] }
        }
        printf "| all | | %d | %d | %d | %d |\n", r, t, a, m
        for (key in tokens) if (least == "" || tokens[key] < tokens[least] || (tokens[key] == tokens[least] && key < least)) least = key
        print "least: " least ", " tokens[least] " tokens" > "/dev/stderr"
    }' "$old" "${mine[@]}"
}

mine=() # up to the first that is not done
for ((part = before; ; part++)); do
    done=$log/part-$part-of-$tokens-$program.txt
    [ -e "$done" ] && mine+=("$done") || break
done
ready=$((before + ${#mine[@]}))
[ "$ready" -gt "$before" ] || { echo "0 passed, 0 failed, 0 skipped"; exit 1; }
table > "$log/table.md"
cat "$log/table.md"
if [ "${WRITE-}" = 1 ]; then
    awk -v table="$log/table.md" -v head="<!-- correct engines, by tests/correct.sh: $ready parts of $tokens tokens -->" '
    /^<!-- correct engines/ { print head; print ""; while ((getline line < table) > 0) print line; print ""; inside = 1; next }
    /^<!-- end/ { inside = 0 }
    !inside' docs/faults.md > docs/faults.md.partial && mv docs/faults.md.partial docs/faults.md
fi
alarms=$(awk -F'|' '$2 == " all " { print $6 + 0 }' "$log/table.md")
[ "$alarms" = 0 ]
status=$?
[ $status = 0 ] && echo "$ready passed, 0 failed, 0 skipped" || echo "0 passed, $ready failed, 0 skipped"
exit $status
