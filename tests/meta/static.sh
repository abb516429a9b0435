#!/usr/bin/env bash
# The static program: it needs no library and no environment, gives the same bits as the shared one, and comes with a
# list of its contents.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
build=${BUILD:-build}
program=$build/static/samebit
passed=0 failed=0 skipped=0
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
check() { # check NAME COMMAND...
    local name=$1
    shift
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAILED $name"; fi
}

if [ ! -x "$program" ]; then
    echo "SKIPPED the static program: this build has none"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
check "it wants a loader" test -z "$(readelf -lW "$program" | grep INTERP)"
check "it wants a library" test -z "$(readelf -dW "$program" 2> /dev/null | grep NEEDED)"
version() { env -i "$program" --version; }
check "it is another version" test "$(version)" = "$("$build/samebit" --version)"
check "make" env -i "$program" make "$work/T1" --preset T1 --seed 42 --tokenizer > /dev/null
check "other bits" env -i "$program" golden verify golden/runs/T1 "$work/T1" > /dev/null
tokens=$("$build/samebit" tokenize "$work/T1" 'ab ab')
check "a tokenizer" test -n "$tokens" -a "$(env -i "$program" tokenize "$work/T1" 'ab ab')" = "$tokens"
env -i "$program" bench cpu "$work/T1" --blas auto --tokens 1 --passes 1 > "$work/out" 2> "$work/err"
status=$?
check "with OpenBLAS: status $status, expected 4" test $status = 4
check "no reason" grep -q 'a static program cannot load a library' "$work/err"

# every library that it was linked with is listed
contents=$program.spdx.json
for name in jansson PCRE2 utf8proc minizip zlib 'OpenSSL libcrypto' xxHash glibc; do
    check "$name is not in the list of contents" grep -qF "\"name\": \"$name\"" "$contents"
done
check "another program is meant" grep -qF "$(sha256sum < "$program" | cut -d' ' -f1)" "$contents"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
