#!/usr/bin/env bash
# No source has more than 800 lines (except generated tables), and no function of ref/ and gpu/ more than 60.
. "$(dirname "${BASH_SOURCE[0]}")/lib.bash"
files_matching '\.(c|cc|h|cu|cuh|sh|bash|awk|py|def)$|(^|/)Makefile$|^tools/deps$' | while IFS= read -r file; do
    lines=$(wc -l < "$file")
    [ "$lines" -le 800 ] || echo "$file:$lines: over 800 lines: look for the two files inside"
done | rule "no source has more than 800 lines"

# the formatter puts the braces of functions, and of C++ classes, alone into the first column
mapfile -t sources < <(files_matching '^(ref|gpu)/.*\.(c|cc|h|cu|cuh)$')
{
    [ ${#sources[@]} -gt 0 ] || echo "no sources in ref/ and gpu/"
    [ ${#sources[@]} = 0 ] || awk '
    FNR == 1 { start = 0; head = "" }
    /^\{$/ && head ~ /\(/ { start = FNR; name = head }
    /^\}$/ && start {
        if (FNR - start - 1 > 60)
            printf "%s:%d: %d lines in %s\n", FILENAME, start, FNR - start - 1, name
        start = 0
    }
    /^[a-zA-Z]/ { head = $0 }' "${sources[@]}"
} | rule "no function of ref/ and gpu/ has more than 60 lines"
close_lint
