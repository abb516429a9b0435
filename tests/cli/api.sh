#!/usr/bin/env bash
# The files of `make install`: the header alone under every language and compiler, the names of the shared library, and
# docs/examples/ built against a fresh prefix, with the shared and with the static library. A fault is planted in each
# kind of check, and must be seen.
. "$(dirname "${BASH_SOURCE[0]}")/lib.bash"
prefix=$work/prefix
header=ref/samebit.h
library=$BUILD/libsamebit.so.0
strict=(-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wundef -Werror)
: > "$err"
flags=
[ ! -e "$BUILD/flags" ] || flags=$(head -n 1 "$BUILD/flags")
if [[ "$flags" == *-fsanitize* || "$flags" == *-static* ]]; then
    skip "the installed library" "this build has none (Makefile, LIBRARIES)"
    finish
fi

# --- the header -------------------------------------------------------------------------------------
alone() { # alone COMPILER LANGUAGE-AND-STANDARD FILE
    $1 ${2/\// -std=} "${strict[@]}" -fsyntax-only "$3"
}
cp $header "$work/header.h"
printf '#include "header.h"\n#include "header.h"\nint main(void) { return 0; }\n' > "$work/alone.c"
for compiler in gcc clang; do
    command -v $compiler > /dev/null || { skip "$header by $compiler" "no $compiler"; continue; }
    for language in c/c99 c/c11 c++/c++11 c++/c++17; do
        check "$header alone, $compiler $language" alone $compiler "-x $language" "$work/alone.c"
    done
done
check "$header includes more than it may" test \
    "$(grep '^#include' $header | tr '\n' ' ')" = "#include <stddef.h> #include <stdint.h> "

# --- names ------------------------------------------------------------------------------------------
declared() { # what a header promises
    gcc -E -P "$1" | tr -d '\n' | tr ';' '\n' |
        sed -n 's/.*visibility("default")))[^(]*[ *]\(samebit_[a-z0-9_]*\)(.*/\1/p' | sort
}
exported() { # what a library has: NAME@@VERSION, and the version itself
    nm -D --defined-only "$1" | awk '$2 != "A" { print $3 }' | sort
}
agree() { # header, library
    diff <(declared "$1" | sed 's/$/@@SAMEBIT_0/') <(exported "$2")
}
check "$library has other names than $header" agree $header "$library"
check "$header has few functions" test "$(declared $header | wc -l)" -gt 40
sed 's/samebit_version(void)/samebit_other(void)/' $header > "$work/planted.h"
agree "$work/planted.h" "$library" > "$out" 2>&1
check "a name that is missing is not seen" grep -q 'samebit_other' "$out"
check "the name of the library" test \
    "$(readelf -d "$library" | sed -n 's/.*soname: \[\(.*\)\]/\1/p')" = libsamebit.so.0
# the static library also has no name that could clash with one of the program
others() { nm --defined-only "$1" | awk 'NF == 3 && $2 ~ /[A-Z]/ && $3 !~ /^samebit_/ { print $3 }'; }
check "the static library has names of its own: $(others "$BUILD/install/libsamebit.a" | head -n 3 | tr '\n' ' ')" \
    test -z "$(others "$BUILD/install/libsamebit.a")"
others "$BUILD/libsamebit.a" > "$out"
check "names of another archive are not seen" test -s "$out"

# --- an installed prefix ------------------------------------------------------------------------------
# the files name another prefix than the folder where they are installed
install_into() { make -s install-built BUILD="$BUILD" DESTDIR="$1" PREFIX=/opt/samebit > "$out" 2>&1; }
check "make install" install_into "$work/to"
check "make install twice" install_into "$work/to"
pages=$(sed -n 's|^SB_COMMAND(\([a-z]*\),.*|share/man/man1/samebit-\1.1|p' tools/cli/commands.def)
expected=$(printf '%s\n' bin/samebit include/samebit.h lib/libsamebit.a lib/libsamebit.so lib/libsamebit.so.0 \
    lib/pkgconfig/samebit.pc share/man/man1/samebit.1 $pages share/bash-completion/completions/samebit \
    share/zsh/site-functions/_samebit share/fish/vendor_completions.d/samebit.fish | sort | tr '\n' ' ')
installed() { (cd "$1/opt/samebit" && find . ! -type d | sed 's|^\./||' | sort | tr '\n' ' '); }
check "what is installed: $(installed "$work/to")" test "$(installed "$work/to")" = "$expected"
check "the tree is named in what is installed" test -z "$(grep -l "$PWD" "$work"/to/opt/samebit/lib/pkgconfig/samebit.pc)"
check "the installed program" "$work/to/opt/samebit/bin/samebit" --help > /dev/null

# pkg-config as a user calls it, except that the prefix lies inside $work/to
if command -v pkg-config > /dev/null; then
    wants() { PKG_CONFIG_PATH=$work/to/opt/samebit/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$work/to pkg-config "$@" samebit; }
    check "pkg-config --modversion" test "$(wants --modversion)" = "$(sed -n 's/^.define SAMEBIT_VERSION "\(.*\)"/\1/p' $header)"
else
    # without pkg-config: the fields that it would read
    wants() {
        local line
        for line in "$@"; do
            case $line in --cflags) line=Cflags ;; --libs) line=Libs ;; --static) line=Libs.private ;; esac
            sed -n "s/^$line: //p" "$work/to/opt/samebit/lib/pkgconfig/samebit.pc"
        done | tr '\n' ' ' | sed "s|\${[a-z]*}|&|g; s|\${includedir}|$work/to/opt/samebit/include|; s|\${libdir}|$work/to/opt/samebit/lib|"
    }
fi

# build KIND COMPILER SOURCE PROGRAM [OPTION...]: compiles an example as docs/examples describe
build() {
    local kind=$1 compiler=$2 source=$3 program=$4
    shift 4
    if [ "$kind" = static ]; then # the .so beside it must not be what is linked
        "$compiler" "${strict[@]}" "$@" "$source" $(wants --cflags) -o "$program" \
            $(wants --libs --static | sed "s|-lsamebit|$work/to/opt/samebit/lib/libsamebit.a|")
    else
        "$compiler" "${strict[@]}" "$@" "$source" $(wants --cflags) -o "$program" $(wants --libs) \
            -Wl,-rpath,"$work/to/opt/samebit/lib"
    fi
}
uses_shared() { grep -q 'libsamebit.so.0' <<< "$(readelf -d "$1")"; }

# --- example.c ----------------------------------------------------------------------------------------
make_checkpoint T4 --preset T4 --recipe predictable --seed 42
run 0 run "$work/T4" --tokens 1,2,3 -n 4 --json
for i in 0 1 2 3; do echo "token $(value tokens.$i) logits $(value logits_digest.$i)"; done > "$work/expected"
echo "state of 6 tokens: target $(value state_digest.target) mtp $(value state_digest.mtp)" >> "$work/expected"
says_the_same() { diff "$work/expected" <("$1" "$work/T4"); }
for compiler in gcc clang; do
    command -v $compiler > /dev/null || { skip "docs/examples by $compiler" "no $compiler"; continue; }
    for kind in shared static; do
        check "example.c, $compiler, $kind" build $kind $compiler docs/examples/example.c "$work/example"
        check "example.c, $compiler, $kind, is samebit run" says_the_same "$work/example"
        if [ $kind = shared ]; then check "not shared" uses_shared "$work/example"
        else check "not static" eval '! uses_shared "$work/example"'; fi
    done
done
sed 's/{1, 2, 3}/{1, 2, 4}/' docs/examples/example.c > "$work/planted.c"
check "the planted example" build shared gcc "$work/planted.c" "$work/planted"
says_the_same "$work/planted" > "$out"
check "another prompt is not seen" grep -q '^[<>] token' "$out"

# --- example.cpp and kernel.cu ------------------------------------------------------------------------
# Each example judges a right kernel, which passes, and a wrong kernel, which fails; the status is 0 then.
shows() { # shows TEXT PROGRAM: its status is 0, and it says so
    "$2" > "$out" 2> "$err" && grep -qF -- "$1" "$out"
}
cxx=${flags%% *}
cxx=${cxx##*/}
cxx=$(sed 's/clang/clang++/; s/gcc/g++/' <<< "$cxx")
for compiler in g++ clang++; do
    command -v $compiler > /dev/null || { skip "docs/examples by $compiler" "no $compiler"; continue; }
    check "example.cpp, $compiler" build shared $compiler docs/examples/example.cpp "$work/example" -std=c++11
    check "example.cpp, $compiler, judges" shows 'with a mistake: FAIL' "$work/example"
    # nvcc gives the warnings of its host compiler, except for those about CUDA's own keywords
    check "kernel.cu, $compiler" build shared $compiler docs/examples/kernel.cu "$work/kernel" -x c++
    check "kernel.cu, $compiler, judges" shows 'without the last column: FAIL' "$work/kernel"
done
if command -v "$cxx" > /dev/null; then
    check "example.cpp, static" build static "$cxx" docs/examples/example.cpp "$work/example" -std=c++11
    check "example.cpp, static, judges" shows 'with a mistake: FAIL' "$work/example"
    check "its right kernel passes" grep -q '^\(WITHIN\|IDENTICAL\): ' "$out"
    # the example itself must fail if the mistake is in the other kernel, or in neither
    for planted in 's/!(mistaken/!(!mistaken/' 's/!(mistaken \&\&/!(mistaken \&\& false \&\&/'; do
        sed "$planted" docs/examples/example.cpp > "$work/planted.cpp"
        check "the planted example" build shared "$cxx" "$work/planted.cpp" "$work/planted" -std=c++11
        "$work/planted" > "$out" 2> "$err"
        status=$?
        check "status $status of an example with $planted" test $status = 1
    done
fi
nvcc=${NVCC:-$(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")}
if [ -x "$nvcc" ]; then
    cuda() { "$nvcc" docs/examples/kernel.cu $(wants --cflags --libs) -Xlinker -rpath="$work/to/opt/samebit/lib" -o "$work/kernel"; }
    check "kernel.cu, nvcc" cuda
    check "kernel.cu, nvcc, judges" shows 'without the last column: FAIL' "$work/kernel"
else
    skip "kernel.cu by nvcc" "no nvcc"
fi

# --- uninstalling ---------------------------------------------------------------------------------------
check "make uninstall" make -s uninstall BUILD="$BUILD" DESTDIR="$work/to" PREFIX=/opt/samebit
check "make uninstall left: $(installed "$work/to")" test -z "$(installed "$work/to")"
finish
