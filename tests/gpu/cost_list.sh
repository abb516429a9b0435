#!/usr/bin/env bash
# Every kernel of gpu/kernel has its line in gpu/kernel/cost.def (B-15), every line has its kernel, and a line
# has its buffers. So a kernel that no test of the ledger launches is on the list as well, or this script
# fails.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
export LC_ALL=C
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

# kernels FOLDER: the names of the __global__ functions there; a declaration may take several lines
kernels() {
    cat "$1"/*.cuh | awk '
        { sub(/^ *(\/?\*|\/\/).*/, "") }
        /__global__/ { text = ""; open = 1 }
        open {
            text = text " " $0
            whole = text
            gsub(/__launch_bounds__\([^()]*\)/, "", whole)
            sub(/.*__global__/, "", whole)
            if (match(whole, /[A-Za-z_][A-Za-z_0-9]* *\(/)) {
                name = substr(whole, RSTART, RLENGTH - 1)
                if (name != "__launch_bounds__") { print name; open = 0 }
            }
        }' | sort -u
}
# lines FILE: ID NAME of each line; for "name<...>" only the name
lines() { sed -n 's/^SB_COST_KERNEL(\([a-z0-9_]*\), "\([A-Za-z0-9_]*\)["<].*/\1 \2/p' "$1"; }
named() { lines "$1" | cut -d' ' -f2 | sort -u; }
# buffers FILE: the ids that have buffers, directly or by a macro for several
buffers() { sed -n 's/^SB_COST_[A-Z_]*(\([a-z0-9_]*\)[,)].*/\1/p' "$1" | sort | uniq -c | awk '$1 > 1 { print $2 }'; }

wrong() { # wrong FOLDER: a line for each thing
    comm -23 <(kernels "$1") <(named "$1/cost.def") | sed 's/$/: cost.def has no line of it/'
    comm -13 <(kernels "$1") <(named "$1/cost.def") | sed 's/$/: a line, and no kernel/'
    comm -23 <(lines "$1/cost.def" | cut -d' ' -f1 | sort) <(buffers "$1/cost.def") | sed 's/$/: no buffers/'
}
check() { # check NAME EXPECTED FOLDER: the one thing that is wrong, or nothing
    local is
    is=$(wrong "$3")
    if [ "$is" = "$2" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAILED %s\n%s\n' "$1" "${is:-nothing is wrong}"
    fi
}
check "kernels and lines" "" gpu/kernel

# errors would be detected; first, a list that is right
mkdir "$work/right" && : > "$work/right/none.cuh"
cat > "$work/right/some.cuh" <<'END'
/* what is __global__ void in_words(int) here is none */
template <class T>
static __global__ void __launch_bounds__(SOME_THREADS *SOME_WARPS, 2)
    sb_some_kernel(T x, int y)
{
}
static __global__ void sb_other(const int x) { return_of(x); }
END
cat > "$work/right/cost.def" <<'END'
SB_COST_KERNEL(some, "sb_some_kernel<A, B>", 1, 0)
SB_COST_BUFFER(some, "in", VALUE, 4, 0, 4)
SB_COST_KERNEL(more, "sb_some_kernel", 1, 0)
SB_COST_SETS(more)
SB_COST_KERNEL(other, "sb_other", 1, 0)
SB_COST_BUFFER(other, "in", VALUE, 4, 0, 4)
END
check "a small list that is right" "" "$work/right"
planted() { # planted NAME EXPECTED FILE SED
    rm -rf "$work/wrong" && cp -r "$work/right" "$work/wrong" && sed -i "$4" "$work/wrong/$3"
    check "$1" "$2" "$work/wrong"
}
planted "a new kernel" "sb_new_kernel: cost.def has no line of it" some.cuh \
    '$a template <int N> __global__ void\n    __launch_bounds__(N)\n    sb_new_kernel(int x)\n{\n}'
planted "a kernel that has gone" "sb_other: a line, and no kernel" some.cuh '/sb_other/d'
planted "a line that is left out" "sb_other: cost.def has no line of it" cost.def '/other/d'
planted "a kernel without buffers" "more: no buffers" cost.def '/SETS/d'
planted "a comment more" "" some.cuh '$a /* sb_more_kernel is no\n * __global__ void sb_more_kernel(int) */'
echo "$passed passed, $failed failed"
[ $failed = 0 ]
