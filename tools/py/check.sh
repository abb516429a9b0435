#!/usr/bin/env bash
# Tests the Python package like a user: builds it, installs it into fresh environments, tests it, and uses it on
# kernels of other projects. Part of `make crosscheck`; needs Python 3.9 or later and the network.
#
#   tools/py/check.sh            all of it
#   tools/py/check.sh package    without the kernels of recipes/, which need torch (0.7 GB)
#
# BUILD=DIR has the library and the program (make all). Ends with `N passed, N failed, N skipped`.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
build=$(realpath "${BUILD:-build}")
work=$build/py
part=${1:-all}
export SAMEBIT=$build/samebit SAMEBIT_LIBRARY=$build/libsamebit.so.0 SAMEBIT_PROGRAM=$build/static/samebit
. tools/gen/counts.sh

[ -f "$SAMEBIT_LIBRARY" ] || { echo "$SAMEBIT_LIBRARY is not there: make all"; exit 1; }
[ -f "$SAMEBIT_PROGRAM" ] || { echo "$SAMEBIT_PROGRAM is not there: make static"; exit 1; }
rm -rf "$work" && mkdir -p "$work"
python=${PYTHON:-python3}
"$python" -m venv "$work/tests" && "$work/tests/bin/pip" install -q --no-deps -r tools/py/requirements.txt > "$work/pip" 2>&1
report $? "the packages of tools/py/requirements.txt" "$work/pip"

# The wheel; two builds must give the same bytes.
for i in 1 2; do "$work/tests/bin/pip" wheel -q --no-deps -w "$work/wheel$i" ./tools/py > "$work/pip" 2>&1; done
cmp "$work"/wheel[12]/*.whl > "$work/same" 2>&1
report $? "a wheel, built twice: the same bytes" "$work/same"
wheel=$(echo "$work"/wheel1/*.whl)

# From nothing to the first result, like a user: no compiler, no tree, no SAMEBIT_LIBRARY.
begin=$SECONDS
"$python" -m venv "$work/fresh" && "$work/fresh/bin/pip" install -q "$wheel" numpy==2.4.6 > "$work/pip" 2>&1 &&
    cp tools/py/first_test.py "$work/" &&
    (cd "$work" && env -u SAMEBIT_LIBRARY PATH=/nowhere "$work/fresh/bin/python" first_test.py) > "$work/first" 2>&1
report $? "a fresh environment: install, first test, $((SECONDS - begin)) seconds" "$work/first"

# The program in it, with nothing else on the PATH.
program() { env -i "$work/fresh/bin/samebit" "$@"; }
program make "$work/T1" --preset T1 --seed 42 > "$work/program" 2>&1 &&
    program golden verify golden/runs/T1 "$work/T1" >> "$work/program" 2>&1
report $? "its program: golden/runs/T1" "$work/program"

"$work/tests/bin/pip" install -q --no-deps "$wheel" > "$work/pip" 2>&1
(cd tools/py/tests && env -u SAMEBIT_LIBRARY "$work/tests/bin/python" -m pytest -q -p no:cacheprovider .) > "$work/package" 2>&1
report $? "the package and the plug-in: $(tail -n 1 "$work/package")" "$work/package"

# The same boundary with unusual arguments (docs/fuzzing.md).
(cd "$work" && env -u SAMEBIT_LIBRARY "$work/tests/bin/python" "$OLDPWD/tools/py/tests/boundary.py" --calls 5000) > "$work/boundary" 2>&1
report $? "the boundary, 5000 calls" "$work/boundary"

# Wheels that others can install: for an old glibc, on both architectures.
BUILD=$build bash tools/py/wheel.sh x86_64 > "$work/wheel.log" 2>&1
report $? "a wheel for old systems: $(tail -n 1 "$work/wheel.log" | sed 's|.*/||')" "$work/wheel.log"
"$python" -m venv "$work/other" &&
    "$work/other/bin/pip" install -q "$build"/wheel/*manylinux*x86_64.whl numpy==2.4.6 > "$work/pip" 2>&1 &&
    (cd "$work" && env -u SAMEBIT_LIBRARY "$work/other/bin/python" first_test.py) > "$work/first" 2>&1
report $? "the same test with it" "$work/first"
bash tools/py/aarch64.sh "$work/aarch64" > "$work/aarch64.log" 2>&1
case $? in
    0) report 0 "$(tail -n 1 "$work/aarch64.log")" ;;
    77) skip "a wheel for aarch64" "$(tail -n 1 "$work/aarch64.log")" ;;
    *) report 1 "a wheel for aarch64" "$work/aarch64.log" ;;
esac

# The workflow for users to copy.
if command -v actionlint > /dev/null; then
    actionlint docs/examples/gate.yml > "$work/workflow" 2>&1
    report $? "actionlint: docs/examples/gate.yml" "$work/workflow"
else
    skip "docs/examples/gate.yml" "there is no actionlint, and no package index has one without its download"
fi
"$python" -m venv "$work/schema" && "$work/schema/bin/pip" install -q check-jsonschema==0.39.0 > "$work/pip" 2>&1 &&
    "$work/schema/bin/check-jsonschema" --builtin-schema vendor.github-workflows docs/examples/gate.yml > "$work/workflow" 2>&1
report $? "docs/examples/gate.yml fits the schema of workflows" "$work/workflow"
"$work/schema/bin/check-jsonschema" --builtin-schema vendor.github-actions docs/examples/action.yml > "$work/action" 2>&1
report $? "docs/examples/action.yml fits the schema of actions" "$work/action"
"$work/schema/bin/pip" install -q pre-commit==4.7.0 > "$work/pip" 2>&1 &&
    "$work/schema/bin/pre-commit" validate-manifest docs/examples/pre-commit-hooks.yaml > "$work/hooks" 2>&1
report $? "docs/examples/pre-commit-hooks.yaml is a manifest" "$work/hooks"

# Kernels of other projects, and broken ones.
if [ "$part" = all ]; then
    cat tools/gen/requirements.txt tools/py/requirements-gates.txt > "$work/requirements.txt"
    bash tools/gen/venv.sh "$build/venv-gates" "$work/requirements.txt" > "$work/venv" 2>&1
    report $? "the packages of tools/py/requirements-gates.txt" "$work/venv"
    gates=$build/venv-gates/bin/python
    "$gates" -m pip install -q --no-deps --force-reinstall "$wheel" > "$work/pip" 2>&1
    (cd tools/py/tests && env -u SAMEBIT_LIBRARY "$gates" -m pytest -q -p no:cacheprovider -k torch test_package.py) \
        > "$work/torch" 2>&1
    report $? "the package with torch: $(tail -n 1 "$work/torch")" "$work/torch"
    for one in kernels broken; do
        (cd tools/py/recipes && "$gates" -m pytest -q -p no:cacheprovider --samebit-dir="$work/failures" "test_$one.py") \
            > "$work/$one" 2>&1
        report $? "recipes, $one: $(tail -n 1 "$work/$one")" "$work/$one"
    done
    (cd tools/py/recipes && "$gates" record.py "$work/recorded") > "$work/record" 2>&1 &&
        diff "$work/recorded/LIST" golden/gate/recipes/LIST >> "$work/record" 2>&1
    report $? "golden/gate/recipes: the same verdicts now" "$work/record"
    (cd tools/py/recipes && "$gates" test_broken.py 2> /dev/null) > "$work/table"
    [ -s "$work/table" ] && ! grep -vxFf docs/gates/recipes.md "$work/table" > "$work/missing"
    report $? "docs/gates/recipes.md: the table of broken kernels is what comes out now" "$work/missing"
fi
counts
