#!/usr/bin/env bash
# Checks the programs of suites: every file has cases in them. No inline C++ function uses a static variable
# of one file: the linker keeps only one copy of the function for all files.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
build=${BUILD:-build}
passed=0 failed=0
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
check() { # check NAME COMMAND...
    local name=$1
    shift
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAILED $name"; fi
}

# Each file of each suite, as `SUITE FILE`, except those that have their own main.
files() {
    local source
    for source in tests/*/{test,prop}_*.c tests/gpu/test_*.cc; do
        [ -e "$source" ] && ! grep -qw '^int main' "$source" || continue
        source=${source#tests/}
        [ "${source%%/*}" = gpu ] && [ ! -e "$build/suites/gpu" ] && [ -n "$no_gpu" ] && continue
        echo "${source%%/*} $(basename "${source%.c*}")"
    done | sort
}
no_gpu=$(grep -sx gpu/absent.c "$build/members") # without a C++ compiler
have() {
    local suite
    for suite in $(files | cut -d' ' -f1 | uniq); do
        "$build/suites/$suite" --list | sed "s|^\([^/]*\)/.*|$suite \1|" | uniq
    done | sort
}
check "a file without a case" diff <(files) <(have)

# of_one_file OBJECT...: inline functions that use data of their file only
of_one_file() {
    local object
    for object in "$@"; do
        objdump -r "$object" | awk -v object="$object" '/^RELOCATION RECORDS FOR/ { section = $4 }
            section ~ /^\[\.text\._Z/ && $3 ~ /^\.(data|bss)([+.-]|$)/ { print object ": " section " " $3 }'
    done
}
cat > "$work/x.cc" <<'X'
static int of_file = 1;
inline int *shared() { return &of_file; }
inline const int *mine() { static int one = 1; return &one; }
int use(int i) { of_file += i; return *shared() + *mine(); }
X
if command -v g++ > "$work/g++"; then
    g++ -O0 -c "$work/x.cc" -o "$work/x.o"
    check "what is shared by mistake is not seen" [ "$(of_one_file "$work/x.o" | grep -c shared)" = 1 ]
    check "what is shared on purpose is called a mistake" [ "$(of_one_file "$work/x.o" | grep -c mine)" = 0 ]
fi
found=$(of_one_file $(files | sed -n "s|^gpu \(.*\)|$build/obj/tests/gpu/\1.o|p" | xargs -r ls 2> "$work/absent"))
check "an inline function with a static variable of its file, which another file's may replace: $found" [ -z "$found" ]
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
