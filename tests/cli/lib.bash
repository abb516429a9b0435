# For the scripts of this folder: runs samebit and counts passed and failed checks.
#
#   run STATUS ARG...     samebit ARG...; its exit status must be STATUS
#   refused STATUS ARG... the same, and stdout is empty and stderr one line that starts with samebit:
#   says TEXT             stdout of the last run has TEXT (says_err: stderr)
#   at PATH VALUE         the JSON document on stdout of the last run has VALUE at PATH
#   check NAME COMMAND... any other command that must succeed
#   skip WHAT WHY         something could not be tested here
#   finish                the closing line
#
# $out and $err are files with the output of the last run; $work is a folder that will be removed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
BUILD=${BUILD:-build}
SAMEBIT=${SAMEBIT:-$BUILD/samebit}
helpers=$BUILD/tests/cli
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
out=$work/stdout err=$work/stderr
passed=0 failed=0 skipped=0 last=
for program in "$SAMEBIT" "$helpers/json_at" "$helpers/npy_rows"; do
    [ -x "$program" ] || { echo "$program is not built: make tests"; exit 2; }
done

good() { passed=$((passed + 1)); }
bad() {
    failed=$((failed + 1))
    printf 'FAILED %s\n  after: samebit %s\n' "$1" "$last"
    # truncated output gets a line end, so that the closing line stands alone
    head -c 600 "$out" | sed -e 's/^/  stdout: /' -e '$a\'
    head -c 600 "$err" | sed -e 's/^/  stderr: /' -e '$a\'
}
skip() {
    skipped=$((skipped + 1))
    printf 'SKIPPED %s: %s\n' "$1" "$2"
}
check() {
    local name=$1
    shift
    if "$@"; then good; else bad "$name"; fi
}

run() {
    local expected=$1 status
    shift
    last="$*"
    "$SAMEBIT" "$@" > "$out" 2> "$err" < /dev/null
    status=$?
    if [ $status = "$expected" ]; then good; else bad "exit status $status, expected $expected"; fi
}
one_line() { [ "$(wc -l < "$err")" = 1 ] && grep -q '^samebit: .' "$err"; }
refused() {
    run "$@"
    check "something on stdout" test ! -s "$out"
    check "not one line on stderr" one_line
}
says() { check "stdout lacks: $1" grep -qF -- "$1" "$out"; }
says_err() { check "stderr lacks: $1" grep -qF -- "$1" "$err"; }
at() {
    local value
    value=$("$helpers/json_at" "$1" < "$out" 2>&1)
    check "$1 is $value, expected $2" test "$value" = "$2"
}
value() { "$helpers/json_at" "$1" < "$out"; }
same() { check "$1: $2 and $3" test -n "$2" -a "$2" = "$3"; }
differ() { check "$1: both are $2" test -n "$2" -a -n "$3" -a "$2" != "$3"; }

# make_checkpoint NAME OPTION...: makes $work/NAME without counting it as a test
make_checkpoint() {
    local name=$1
    shift
    "$SAMEBIT" make "$work/$name" "$@" > /dev/null || { echo "cannot make $name"; failed=$((failed + 1)); finish; }
}

finish() {
    printf '%d passed, %d failed, %d skipped\n' $passed $failed $skipped
    [ $failed = 0 ]
    exit
}
