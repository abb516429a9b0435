#!/usr/bin/env bash
# Every lint catches what it is made for, and passes the nearest harmless case. Each test plants one fault
# into its own small tree.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
lints=$PWD/tools/lint
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0 skipped=0

clean_tree() { # a tree that every lint likes, with us inside
    rm -rf "$scratch/tree"
    mkdir -p "$scratch"/tree/{docs,golden,ref/{base,math,ops,run},tools/cli,tests/unit}
    cd "$scratch/tree" || exit 2
    touch Makefile
    cat > docs/spec.md <<'END'
# A specification

**R-1** embed: x_t is row token_t of the
embedding, unscaled, R.

**R-2** linear: y_t[n] = R( dot(W[n], x_t) ).

## Another section
END
    printf '%s\n' 'SB_OP(embed, "R-1")' 'SB_OP(linear, "R-2")' > ref/ops/ops.def
    cat > ref/ops/embed.c <<'END'
#include "ref/ops/op.h"

/* R-1: "row token_t of the embedding,
 *       unscaled" */
void sb_embed_ref(void)
{
}

/* R-2: "y_t[n] = R( dot(W[n], x_t) )" */
void sb_linear_ref(void)
{
}
END
    printf '%s\n' '# A tree' '' 'Its [pages](docs/index.md).' > README.md
    printf '%s\n' '# The pages' '' '* [the specification](spec.md)' > docs/index.md
    printf '%s\n' '#include "ref/base/status.h"' 'void sb_embed_ref(void);' > ref/ops/op.h
    printf '%s\n' '#include <string.h>' 'int sb_status(void);' > ref/base/status.h
    printf '%s\n' '#include "ref/run/session.h"' > tools/cli/main.c
    printf '%s\n' '#include "ref/ops/op.h"' > ref/run/session.h
}

result() { # result STATUS NAME
    if [ "$1" = 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAILED %s\n' "$2"
        sed 's/^/    /' "$scratch/output"
    fi
}
lint() { bash "$lints/$1.sh" "$PWD" "${@:2}" > "$scratch/output" 2>&1; }

# caught LINT WORDS WHAT: the lint fails with these words
caught() {
    ! lint "$1" && grep -qF -- "$2" "$scratch/output" && tail -n 1 "$scratch/output" | grep -q ' [1-9][0-9]* failed'
    result $? "$1 does not catch: $3"
    clean_tree
}
# harmless LINT WHAT: the lint passes and has checked something
harmless() {
    lint "$1" && tail -n 1 "$scratch/output" | grep -qE '^[1-9][0-9]* passed, 0 failed, 0 skipped$'
    result $? "$1 complains about: $2"
    clean_tree
}
lines() { local i; for ((i = 0; i < $1; i++)); do echo "    int line$i;"; done; } # lines COUNT

clean_tree
for name in includes clauses sizes tree links; do harmless $name "a clean tree"; done

# --- includes
echo '#include "ref/run/session.h"' >> ref/ops/op.h
caught includes "ref/ops/op.h:3: ref/ops may not include ref/run/session.h" "ops that know the session"
echo '#include "tools/cli/cli.h"' >> ref/run/session.h
caught includes "ref/run may not include tools/cli/cli.h" "a library that knows its program"
echo '#include "tests/unit/scratch.h"' >> tools/cli/main.c
caught includes "tools/cli may not include tests/unit/scratch.h" "a program that needs its tests"
echo '#include "ref/math/exact.h"' >> tools/cli/main.c
caught includes "tools/cli may not include ref/math/exact.h" "one header too many of an allowed pair"
echo '#include "op.h"' >> ref/ops/embed.c
caught includes "write the path from the root" "a path relative to the folder"
echo '#  include <math.h>' >> ref/base/status.h
caught includes "<math.h> is for" "libm in ref/"
echo '#include <jansson.h>' >> ref/ops/op.h
caught includes "<jansson.h> is for" "JSON in an op"
mkdir ref/extra && echo '#include "ref/base/status.h"' > ref/extra/x.c
caught includes "has no row" "a folder that the table lacks"
printf '%s\n' 'extern "C" {' '#include "ref/base/status.h"' '}' >> tools/cli/main.c
caught includes "include after extern" "a C header that is C only where this file includes it"
rm -r ref tools tests
caught includes "no sources found" "nothing to look at"
cp -r "$lints" "$scratch/lint"
sed -i 's|row("tools/make", "|&tools/check/read |' "$scratch/lint/includes.awk"
lints=$scratch/lint caught includes "tools/make names tools/check/read, a room to its right" "a row against the order of rooms"
echo '#include "ref/math/start.h"' >> tools/cli/main.c
echo '#include "tools/cli/main.c"' > tests/unit/test_x.c
echo '#include <math.h>' >> tests/unit/test_x.c
printf '%s\n' 'extern "C" {' '#include <cmocka.h>' '#include "ref/ops/ops.def"' '}' >> tests/unit/test_x.c
echo '/* an #include "ref/run/x.h" in a comment */' >> ref/ops/op.h
harmless includes "allowed headers, tests that see everything"

# --- clauses
sed -i 's/unscaled"/scaled"/' ref/ops/embed.c
caught clauses "R-1: the clause does not say: row token_t of the embedding, scaled" "a false quotation"
sed -i 's/R-2: /R-3: /' ref/ops/embed.c
caught clauses "R-3: there is no such clause" "a quotation of no clause"
sed -i 's/R-2: "/R-2 "/' ref/ops/embed.c
caught clauses "R-2: no source quotes this clause" "a clause without code"
printf '%s\n' '' '**R-2** linear again' >> docs/spec.md
caught clauses "R-2: the number stands twice" "a clause number used twice"
printf '%s\n' '/* R-2: "y_t" */' >> ref/ops/embed.c
caught clauses "quotes too little" "an empty quotation"
printf '%s\n' '/* R-2: "y_t[n] = R( */' >> ref/ops/embed.c
caught clauses "a quotation without an end" "a quotation that never ends"
printf '%s\n' '/* R-2: "y_t[n] = R( dot(W[n]" and "dot(W[m], x_t)" */' >> ref/ops/embed.c
caught clauses "R-2: the clause does not say: dot(W[m], x_t)" "a second quotation that is false"
printf '%s\n' '/* R-2:' ' * "y_t[n] = S( dot(W[n]" */' >> ref/ops/embed.c
caught clauses "R-2: the clause does not say: y_t[n] = S( dot(W[n]" "a false quotation on the next line"
printf '%s\n' '/* R-2: "y_t[n] = R( dot(W[n]" and' ' * "dot(W[n], x_t) )" */' >> ref/ops/embed.c
harmless clauses "two quotations of a clause"
printf '%s\n' '**T-1** an error is at most half an ulp.' > docs/tolerances.md
caught clauses "docs/tolerances.md: T-1: no source quotes this clause" "a clause of another document without code"
sed -i 's/(linear, "R-2")/(linear, "R-1")/' ref/ops/ops.def
caught clauses "clause R-1 of docs/spec.md does not define linear" "an op that names another's clause"
echo 'SB_OP(conv, "R-2")' >> ref/ops/ops.def
caught clauses "no sb_conv_ref in ref/ops" "an op without a function"
echo 'SB_OP( conv, R-2)' >> ref/ops/ops.def
caught clauses "2 rows could be read" "a row that cannot be read"
: > docs/spec.md
caught clauses "no clause was found" "an empty specification"
printf '%s\n' '// R-1: "x_t is row' '//      token_t of the   embedding" R-2: "linear: y_t[n] = R("' > tests/unit/test_y.c
printf '%s\n' '# Bounds' '' '**T-1** an error is at most' 'half an ulp.' > docs/tolerances.md
printf '%s\n' '// T-1: "is at most half an ulp"' > tests/unit/test_z.c
harmless clauses "a quotation over lines, two in a row"

# --- sizes
{ echo 'int f(void)' && echo '{' && lines 61 && echo '}'; } > ref/base/long.c
caught sizes "ref/base/long.c:2: 61 lines in int f(void)" "a function of 61 lines"
lines 801 > tests/unit/test_z.c
caught sizes "tests/unit/test_z.c:801" "a file of 801 lines"
{ echo 'int f(void)' && echo '{' && lines 60 && echo '}'; } > ref/base/long.c
lines 800 > tests/unit/test_z.c
lines 900 > ref/base/table.inc
{ echo 'static const int t[] = {' && lines 70 && echo '};'; } > ref/base/table.c
harmless sizes "exactly 60 and 800 lines, tables"

# --- links
sed -i 's/spec.md/specs.md/' docs/index.md
caught links "docs/index.md:3: leads to docs/specs.md, which is not there" "a link to no file"
echo 'See [the section](docs/spec.md#another-sections).' >> README.md
caught links "README.md:4: docs/spec.md has no heading #another-sections" "a link to no heading"
echo '![A picture](docs/images/report.png)' >> README.md
caught links "README.md:4: leads to docs/images/report.png" "a picture that is not there"
mkdir docs/check && echo '# One check' > docs/check/one.md
caught links "docs/check/one.md: does not stand in docs/index.md" "a page that no index lists"
rm README.md && : > docs/index.md
caught links "no link was found" "pages without a link"
mkdir docs/check && printf '%s\n' '# One' '' 'Back to [R-2](../spec.md#another-section), [above](#one).' > docs/check/one.md
echo '* [one](check/one.md), [the site](https://example.org/no/such/page)' >> docs/index.md
printf '%s\n' 'In C++ `[](int x)`, and' '```' '[code](none.md)' '```' '' '    [more](none.md)' >> docs/spec.md
harmless links "headings, folders, other sites, code"

# --- tree (the planted words are put together here, so that this file stays clean)
touch notes.txt
caught tree "notes.txt: has no place" "a file at the top level"
printf 'see /%s/someone/models\n' home >> docs/spec.md
caught tree "a path of one machine" "the path of somebody's folder"
printf '// TO%s: later\n' DO >> ref/ops/op.h
caught tree "unfinished" "work put off"
printf 'int x = ra%s();\n' nd >> ref/ops/op.h
caught tree "the random numbers of one C library" "the C library's random numbers"
printf 'CFLAGS = -O2 -ff%s-math\n' ast > Makefile
caught tree "not the arithmetic of A-3" "fast mathematics"
for i in 1 2 3 4 5; do head -c $((10 << 20)) /dev/zero > golden/$i.bin; done
caught tree "golden: 52428800 bytes" "a golden folder of 50 MiB"
printf '%s\n' 'see /usr/include, ref/root/x, -fno-fast-math and operand(x), todo' >> docs/spec.md
printf '%s\n' 'CFLAGS = -fno-fast-math' > Makefile
printf '%s\n' 'int operand(int); int brand(void); int x = operand(1);' >> ref/ops/op.h
head -c $((47 << 20)) /dev/zero > golden/1.bin
mkdir -p build && touch build/anything
harmless tree "words that only look alike, golden files of 47 MiB, a build folder"
if command -v git > /dev/null; then
    git init -q . 2>/dev/null && echo '/build/' > .gitignore && mkdir build && touch build/x notes.txt
    caught tree "notes.txt: has no place" "a file at the top level of a checkout"
    git init -q . 2>/dev/null && echo '/build/' > .gitignore && mkdir build && touch build/x
    harmless tree "a checkout with a build folder"
fi

# --- format
if "$lints/../deps" --clang-format > /dev/null 2>&1; then
    printf 'int f(void) {\n  return 0; }\n' > ref/base/bad.c
    cp "$lints/../../.clang-format" .
    caught format "ref/base/bad.c:1: not formatted" "another style"
    cp "$lints/../../.clang-format" .
    harmless format "sources in our style"
else
    echo "SKIPPED format: no clang-format of version 14"
    skipped=$((skipped + 2))
fi

# --- libm
calls='free(malloc(1)); calloc(1, 1); puts(""); getenv(""); atexit(0); remove("");
    rewind(stdin); fclose(tmpfile()); fputs("", stdout); fgetc(stdin); ferror(stdin); system(""); perror(""); fflush(stdin); rename("", ""); qsort(0, 0, 1, 0);'
library() { # library STATEMENTS: an archive of one object
    printf '%s\n' '#include <math.h>' '#include <stdio.h>' '#include <stdlib.h>' "float f(float x);" \
        "float f(float x) { if (x > 2) { $calls } $1 }" | gcc -x c -w -O1 -c - -o f.o && ar rcs lib.a f.o
}
library 'return expf(x);'
lint libm lib.a
[ $? = 1 ] && grep -q 'wants from libm: expf' "$scratch/output"
result $? "libm does not catch a call of expf"
library 'return x * x;'
lint libm lib.a
result $? "libm complains about a library without libm"
lint libm no-such-library.a
[ $? = 1 ] && grep -q 'cannot read its symbols' "$scratch/output"
result $? "libm accepts a library that is not there"

printf '%d passed, %d failed, %d skipped\n' $passed $failed $skipped
[ $failed = 0 ]
