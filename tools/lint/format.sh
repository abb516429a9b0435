#!/usr/bin/env bash
# The C, C++ and CUDA sources are formatted by clang-format 14 (`make format`).
. "$(dirname "${BASH_SOURCE[0]}")/lib.bash"
name="clang-format leaves the sources as they are"
if clang_format=$("$lint_dir/../deps" --clang-format 2>/dev/null); then
    mapfile -t sources < <(files_matching '^(ref|gpu|tools|tests)/.*\.(c|cc|h|cu|cuh)$')
    {
        [ ${#sources[@]} -gt 0 ] || echo "no sources found"
        [ ${#sources[@]} = 0 ] || "$clang_format" --dry-run -Werror "${sources[@]}" 2>&1 |
            grep -E '(error|warning):' | awk -F: '!seen[$1]++ { print $1 ":" $2 ": not formatted (make format)" }'
    } | rule "$name"
else
    skip "$name" "no clang-format of version 14"
fi
close_lint
