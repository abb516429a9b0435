#!/usr/bin/env bash
# A folder includes only folders to its left (the table is in includes.awk).
. "$(dirname "${BASH_SOURCE[0]}")/lib.bash"
mapfile -t sources < <(files_matching '^(ref|gpu|tools|tests)/.*\.(c|cc|h|cu|cuh|def|inc)$')
{
    [ ${#sources[@]} -gt 0 ] || echo "no sources found"
    [ ${#sources[@]} = 0 ] || awk -f "$lint_dir/includes.awk" "${sources[@]}" || echo "awk failed"
} | rule "${#sources[@]} sources include only what stands to their left"
close_lint
