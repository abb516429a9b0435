#!/usr/bin/env bash
# ref/ has its own functions: the library uses nothing from libm (A-4).
#   tools/lint/libm.sh [TREE [LIBRARY]]
. "$(dirname "${BASH_SOURCE[0]}")/lib.bash"
library=${2:-${BUILD:-build}/libsamebit.a}
libm=$(gcc -print-file-name=libm.so.6)
{
    names=$(nm -D --defined-only "$libm" | awk '{ sub(/@.*/, "", $3); print $3 }' | sort -u)
    wanted=$(nm -u "$library" | awk '$1 == "U" { print $2 }' | sort -u)
    [ "$(wc -l <<< "$names")" -gt 300 ] || echo "$libm: cannot read its symbols"
    [ "$(wc -l <<< "$wanted")" -gt 10 ] || echo "$library: cannot read its symbols"
    comm -12 <(echo "$names") <(echo "$wanted") | sed "s|^|$library: wants from libm: |"
} | rule "$library needs nothing of libm"
close_lint
