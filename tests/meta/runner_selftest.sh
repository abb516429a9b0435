#!/usr/bin/env bash
# tests/run_all.sh counts what its programs say, and sees those that crash, lie or say nothing.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
runner=$PWD/tests/run_all.sh
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0

program() { # program NAME: a script from standard input
    { echo '#!/usr/bin/env bash'; cat; } > "$scratch/$1" && chmod +x "$scratch/$1"
}
# runs WANTED-STATUS WANTED-CLOSING-LINE WHAT PROGRAM... (settings before the call)
runs() {
    local want=$1 closing=$2 what=$3 status
    shift 3
    (cd "$scratch" && bash "$runner" --programs "${@/#/$scratch/}") > "$scratch/output" 2>&1
    status=$?
    if [ $status = "$want" ] && [ "$(tail -n 1 "$scratch/output")" = "$closing" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAILED %s: status %s\n' "$what" $status
        sed 's/^/    /' "$scratch/output"
    fi
}

cmocka='echo "[==========] Running 3 test(s)."; echo "[==========] 3 test(s) run."'
program good <<< "$cmocka; echo '[  PASSED  ] 3 test(s).' >&2"
program named <<< "echo '[==========] group: 2 test(s) run.'; echo '[  PASSED  ] 2 test(s).'"
program groups <<< "$cmocka; echo '[  PASSED  ] 3 test(s).'; $cmocka; echo '[  PASSED  ] 3 test(s).'"
program bad <<< "$cmocka; echo '[  PASSED  ] 2 test(s).'
    echo '[  FAILED  ] 1 test(s), listed below:'; echo '[  FAILED  ] test_x'; exit 1"
program no_setup <<< "$cmocka; echo '[  PASSED  ] 1 test(s).'
    echo '[  FAILED  ] 1 test(s), listed below:'; exit 2"
program no_group <<< "echo '[==========] 0 test(s) run.'; echo '[  PASSED  ] 0 test(s).'; exit 1"
program liar <<< "$cmocka; echo '[  FAILED  ] 3 test(s), listed below:'"
program silent <<< 'echo all is well'
program nothing <<< 'echo "0 passed, 0 failed, 0 skipped"'
program crash <<< 'echo "2 passed, 0 failed, 0 skipped"; kill -SEGV $$'
program status <<< 'echo "2 passed, 0 failed, 0 skipped"; exit 3'
program slow <<< 'echo "1 passed, 0 failed, 0 skipped"; sleep 60'
program script <<< 'echo "1 passed, 2 failed, 3 skipped"; echo done; echo "5 passed, 0 failed"'
program skipping <<< 'echo "SKIPPED x: no x"; echo "5 passed, 0 failed, 2 skipped"'
program nested <<< "$cmocka; echo '[  PASSED  ] 3 test(s).'; echo '1 passed, 0 failed, 0 skipped'
    echo '3 passed, 1 failed, 2 skipped'; echo; exit 1"
program early <<< 'echo "2 passed, 0 failed, 0 skipped"; echo and then it went wrong'
program quoting <<< 'echo "it says: 9 passed, 0 failed, 0 skipped"; echo "1 passed, 0 failed, 0 skipped"'

unset CI
runs 0 "3 passed, 0 failed, 0 skipped" "a green program" good
runs 0 "13 passed, 0 failed, 0 skipped" "sums" good named groups named
runs 1 "5 passed, 1 failed, 0 skipped" "a failed test" good bad
runs 1 "1 passed, 2 failed, 0 skipped" "a test whose setup failed" no_setup
runs 1 "0 passed, 1 failed, 0 skipped" "a group whose setup failed" no_group
runs 1 "0 passed, 4 failed, 0 skipped" "status 0 after failures" liar
runs 1 "3 passed, 1 failed, 0 skipped" "no summary" silent good
runs 1 "0 passed, 1 failed, 0 skipped" "no test" nothing
runs 1 "2 passed, 1 failed, 0 skipped" "a crash after a good summary" crash
runs 1 "2 passed, 1 failed, 0 skipped" "a bad status after a good summary" status
LIMIT=1 runs 1 "1 passed, 1 failed, 0 skipped" "the time limit" slow
runs 1 "0 passed, 1 failed, 0 skipped" "a program that is not there" absent
runs 0 "5 passed, 0 failed, 0 skipped" "the closing line of a script is its last" script
runs 1 "3 passed, 1 failed, 2 skipped" "a script that shows programs" nested
runs 1 "0 passed, 1 failed, 0 skipped" "a closing line that is not the last" early
runs 0 "5 passed, 0 failed, 2 skipped" "a skip" skipping
runs 0 "1 passed, 0 failed, 0 skipped" "a line that only quotes a summary" quoting
CI=true runs 1 "5 passed, 2 failed, 0 skipped" "a skip where every tool is required" skipping
runs 1 "0 passed, 1 failed, 0 skipped" "no program at all"

mkdir -p "$scratch/empty/tests" && cp "$runner" "$scratch/empty/tests" && runner=$scratch/empty/tests/run_all.sh
bash "$runner" prop > "$scratch/output" 2>&1
if [ $? = 1 ] && grep -qx "FAILED prop: the suite has no tests" "$scratch/output"; then
    passed=$((passed + 1))
else
    failed=$((failed + 1)) && echo "FAILED a suite without a member" && cat "$scratch/output"
fi

printf '%d passed, %d failed, 0 skipped\n' $passed $failed
[ $failed = 0 ]
