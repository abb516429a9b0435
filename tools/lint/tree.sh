#!/usr/bin/env bash
# The tree as a whole: its top level, its size, and words that must not occur in it.
. "$(dirname "${BASH_SOURCE[0]}")/lib.bash"
files=$(tree_files)

cut -d/ -f1 <<< "$files" | sort -u |
    grep -vxE 'Makefile|ref|gpu|tests|golden|tools|docs|README\.md|\.ci|LICENSE|\.gitignore|\.clang-format' |
    sed 's/$/: has no place at the top level/' | rule "the top level is the fixed one"

# in_files PATTERN FILES-PATTERN MESSAGE: file:line of every line that matches
in_files() {
    grep -E "$2" <<< "$files" | tr '\n' '\0' | xargs -0 -r grep -InHE -- "$1" | cut -c1-160 |
        sed "s/\$/   <- $3/"
}
in_files '(^|[^A-Za-z0-9_.$}*])/(root|home|work|farm|mnt|Users)/' '.' 'a path of one machine' |
    rule "no path of one machine"
in_files '\b(TO[D]O|FIX[M]E|XX[X])\b' '^(ref|gpu|tools|tests|docs)/|^Makefile$' 'unfinished' |
    rule "nothing is unfinished by its own words"
in_files '(^|[^A-Za-z0-9_])(s?rand(om)?|[dlm]rand48|rand_r)[ ]*\(' '^(ref|gpu|tools|tests)/.*\.(c|cc|h|cu|cuh)$' \
    'the random numbers of one C library' | rule "no random numbers but those of ref/base/rng.h"
in_files '-(ff[a]st-math|Of[a]st)|use_f[a]st_math' '^Makefile$|^\.ci/|^tools/' 'not the arithmetic of A-3' |
    grep -v '^tools/.*\.[ch]:' | rule "no flag that changes arithmetic"
# nvcc extends a bool that a kernel is given as the host extends char: its code would depend on the host
grep -E '^gpu/.*\.(cuh|cu)$' <<< "$files" | tr '\n' '\0' | xargs -0 -r awk '
    FNR == 1 { head = "" }
    /__global__/ { head = FILENAME ":" FNR }
    head && /(^|[(, ])bool / { print head ": " $0 "   <- a kernel with a bool" }
    /^[{]/ { head = "" }' | rule "no kernel has a parameter of type bool"

golden=$(grep '^golden/' <<< "$files" | tr '\n' '\0' | xargs -0 -r cat | wc -c)
{ [ "$golden" -le $((48 << 20)) ] || echo "golden: $golden bytes"; } | rule "golden/ stays under 48 MiB"
close_lint
