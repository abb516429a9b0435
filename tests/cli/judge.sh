#!/usr/bin/env bash
# judge: compares the output of a kernel with test vectors; outputs that pass, outputs that fail, and the messages.
. "$(dirname "$0")/lib.bash"
. "$(dirname "$0")/page.bash"

v=$work/v.safetensors got=$work/got.safetensors
made() { "$helpers/gate_got" "$@" || bad "gate_got $*"; }
run 0 vectors linear --format nvfp4-ct --arith bf16_mma -o "$v"

# --- right, in every type of values ---------------------------------------------------------------------------------
for type in F32 F64 BF16 F16; do
    made "$v" "$got" out=exact:$type
    run 0 judge "$v" "$got"
    says 'v.safetensors: IDENTICAL: all 640 elements have the same bits as profile exact'
    says 'arithmetic exact, the tightest of 16 under which the output passes'
    run 0 judge "$v" "$got" --arith bf16_mma --json
    at command judge
    at verdict IDENTICAL
    at cases.0.arithmetic.inferred false
    at cases.0.outputs.0.dtype $type
done

run 0 judge "$v" "$got" --arith bf16_mma:cuda_fast+bf16 --json
at cases.0.arithmetic.name bf16_mma:cuda_fast+bf16
refused 2 judge "$v" "$got" --arith bf16_mma:nobody
refused 2 judge "$v" "$got" --arith exact:cuda
# rows of a chunk of the delta rule, in a file and in its judgement
run 0 vectors delta_rule_chunk --shape rows=20,k_heads=1,v_heads=1,dk=4,dv=4 --arith fp32@16:cuda -o "$work/chunk.safetensors"
made "$work/chunk.safetensors" "$got" out=exact:F32 out.state=exact.state:F32
run 0 judge "$work/chunk.safetensors" "$got" --arith fp32@512+bf16 --json
at cases.0.arithmetic.name fp32@512+bf16
for arith in fp32@100 fp32@8 bf16_mma@1024:cuda; do
    refused 2 judge "$work/chunk.safetensors" "$got" --arith $arith
    says_err 'expected a power of two from 16 to 512'
done
refused 2 judge "$work/chunk.safetensors" "$got" --arith exact@128

# --- wrong: where, what, how far ------------------------------------------------------------------------------------
made "$v" "$got" out=exact:F32@323=99
run 1 judge "$v" "$got" --arith bf16_mma
says 'v.safetensors: FAIL: 1 of 640 elements are outside of their bound; first out: token 2, row 3 is 99, expected '
says_err 'samebit: FAIL: v.safetensors: 1 of 640 elements are outside'
run 1 judge "$v" "$got" --arith bf16_mma --json
at verdict FAIL
at cases.0.outside 1
at cases.0.element.output out
at cases.0.element.index.0 2
at cases.0.element.index.1 3
at cases.0.element.place 'token 2, row 3'
at cases.0.element.found 99.0
run 1 judge "$v" "$got"
says 'arithmetic: none of 16 explains the output'
made "$v" "$got" out=exact:BF16@7=nan
run 1 judge "$v" "$got" --arith fp32
says '(1 NaN); first out: token 0, row 7 is NaN'
made "$v" "$got" out=bf16:F32
run 1 judge "$v" "$got" --arith exact
says 'elements differ; first out: token 0, row 0 is '
run 0 judge "$v" "$got"
says 'rounding point act=bf16: type to which activations are rounded'
check "a point that is not needed is listed" test "$(grep -c '^  rounding point ' "$out")" = 1

# --- what the inputs can show ---------------------------------------------------------------------------------------
made "$v" "$got" out=exact:F32
run 0 judge "$v" "$got" --arith fp32
says 'these inputs would have shown 12 of 12 planted mistakes: last_column_lost, linear.dropped, '
made "$v" "$got" out=exact:BF16
run 0 judge "$v" "$got" --arith fp32 --json
at cases.0.power.planted 12

# --- files that do not belong together ------------------------------------------------------------------------------
made "$v" "$got" out=exact:I32
refused 3 judge "$v" "$got"
says_err 'got.safetensors: out: found I32, expected F32, BF16, F16 or F64'
made "$v" "$got" result=exact:F32
refused 3 judge "$v" "$got"
says_err 'no tensor `out`; expected the outputs of linear: out'
made "$v" "$got" out=exact:F32 out.state=exact:F32
refused 3 judge "$v" "$got"
says_err 'out.state is not an output of linear, expected out'
made "$v" "$got" out=real.hi:F32 other=exact:F32
run 0 judge "$v" "$got"
says 'note: ignored: other'
run 0 vectors linear --format bf16 --shape rows=2,n=160 -o "$work/small.safetensors"
made "$work/small.safetensors" "$got" out=exact:F32
refused 3 judge "$v" "$got"
says_err 'out: found the shape [2, 160], expected [4, 160] (token,row)'
refused 3 judge "$v" "$work/none.safetensors"
refused 3 judge "$got" "$got"
made "$v" "$got" out=exact:F32
refused 2 judge "$v"
refused 2 judge "$v" "$got" --arith bf17_mma
refused 2 judge "$v" "$got" --need state
refused 2 judge "$v" "$got" --same-bits
refused 2 judge "$v" "$work"
refused 2 judge "$v" "$got" --metamorphic --arith fp32

# --- further outputs --------------------------------------------------------------------------------------------------
run 0 vectors conv -o "$work/conv.safetensors"
made "$work/conv.safetensors" "$got" out=exact:F32
run 0 judge "$work/conv.safetensors" "$got"
says 'out.state: missing, not judged'
for need in state all; do
    run 1 judge "$work/conv.safetensors" "$got" --need $need
    says 'FAIL: out.state is required, but missing'
done
made "$work/conv.safetensors" "$got" out=exact:F32 out.state=exact.state:F32
run 0 judge "$work/conv.safetensors" "$got" --need state
run 0 judge "$work/conv.safetensors" "$got" --need all

# --- folders, JUnit -------------------------------------------------------------------------------------------------
mkdir "$work/outputs"
run 0 vectors linear --format bf16 --regime all --shape rows=3,n=16,k=32 -o "$work/vectors/"
for f in "$work"/vectors/*; do made "$f" "$work/outputs/${f##*/}" out=exact:BF16; done
run 0 judge "$work/vectors" "$work/outputs" --arith bf16_mma --junit "$work/pass.xml"
says ' cases, 0 fail: IDENTICAL'
made "$work/vectors/linear.bf16.normal.rows=3,n=16,k=32.safetensors" \
    "$work/outputs/linear.bf16.normal.rows=3,n=16,k=32.safetensors" out=exact:BF16@33=5
rm "$work/outputs/linear.bf16.ties.rows=3,n=16,k=32.safetensors"
run 1 judge "$work/vectors" "$work/outputs" --arith bf16_mma --junit "$work/fail.xml" --json
at verdict FAIL
check "not one failure and one refusal" test "$(grep -c '<failure ' "$work/fail.xml")" = 2
check "the suite does not count both" grep -q '<testsuite name="samebit judge" tests="[0-9]*" failures="2"' "$work/fail.xml"
check "no refusal" grep -q '<failure type="REFUSED"' "$work/fail.xml"
check "the failure has no place" grep -q 'type="FAIL" message="1 of 48 .*token 2, row 1 is 5,' "$work/fail.xml"
# the page: a matrix of regimes, the failure in words, the refusal
run 1 judge "$work/vectors" "$work/outputs" --arith bf16_mma --html "$work/fail.html"
page "$work/fail.html" FAIL
has() { check "the page lacks: $1" grep -qE -- "$1" "$work/fail.html"; }
has '^<tr><td class="cell"><code>linear</code><br/>bf16, BF16</td><td class="cell"><span class="verdict bad">FAIL</span>'
has '1 of 48 elements are outside of their bound; first out: token 2, row 1 is 5,'
has 'linear.bf16.ties.*: cannot open'
check "not one case fails" test "$(grep -c '^<tr class="hit"><td><span class="verdict bad">FAIL' "$work/fail.html")" = 1
check "not one case is refused" test "$(grep -c '^<tr><td><span class="verdict open">SKIPPED' "$work/fail.html")" = 1
same "cases" "$(grep -cE '^<tr[^>]*><td><span class="verdict' "$work/fail.html")" "$(find "$work/vectors" -type f | wc -l)"
same "regimes of the matrix, without the refused one" \
    "$(grep '^<tr><td class="cell"><code>' "$work/fail.html" | grep -o 'class="verdict' | wc -l)" \
    $(($(find "$work/vectors" -type f | wc -l) - 1))
cp "$work/fail.html" "$work/first.html"
run 1 judge "$work/vectors" "$work/outputs" --arith bf16_mma --html "$work/fail.html"
check "another page" cmp "$work/fail.html" "$work/first.html"
made "$v" "$work/<script>" out=exact:F32
run 0 judge "$v" "$work/<script>" --json
cp "$out" "$work/main.json"
made "$v" "$work/<script>" out=exact:BF16
run 1 judge "$v" "$work/<script>" --baseline "$work/main.json" --same-bits --html "$work/bits.html"
page "$work/bits.html" FAIL
check "no baseline on the page" grep -q 'data-section="baseline"' "$work/bits.html"
refused 3 judge "$v" "$work/<script>" --html "$work/none/page.html"
if command -v xmllint > /dev/null; then
    for name in pass fail; do
        check "$name.xml breaks the schema" xmllint --noout --schema tests/cli/junit.xsd "$work/$name.xml" 2> /dev/null
    done
else
    skip "the schema of JUnit files" "no xmllint: tools/deps browser"
fi
mkdir "$work/empty"
refused 4 judge "$work/empty" "$work/outputs"
made "$work/vectors/linear.bf16.normal.rows=3,n=16,k=32.safetensors" \
    "$work/outputs/linear.bf16.normal.rows=3,n=16,k=32.safetensors" out=exact:BF16
run 3 judge "$work/vectors" "$work/outputs" --arith bf16_mma
says_err 'linear.bf16.ties'

# --- names and seeds ------------------------------------------------------------------------------------------------
made "$v" "$got" out=exact:F32
run 2 judge "$v" "$got" --need ''
cp "$v" "$work/"$'v\xff.safetensors'
run 0 judge "$work/"$'v\xff.safetensors' "$got" --json
at cases.0.verdict IDENTICAL
run 0 vectors rmsnorm --seed 18446744073709551615 --json -o "$work/seed.safetensors"
at seed 18446744073709551615
made "$work/seed.safetensors" "$work/seed.got.safetensors" out=exact:F32
run 0 judge "$work/seed.safetensors" "$work/seed.got.safetensors" --json
at cases.0.seed 18446744073709551615

# --- since an earlier judgement -------------------------------------------------------------------------------------
made "$v" "$got" out=exact:F32
run 0 judge "$v" "$got" --arith bf16_mma --json
cp "$out" "$work/main.json"
run 0 judge "$v" "$got" --arith bf16_mma --baseline "$work/main.json" --same-bits
says 'main.json: 0 worse, 0 better, 0 outputs with changed bits'
made "$v" "$got" out=exact:F32@0=-0.84406
run 0 judge "$v" "$got" --arith bf16_mma --baseline "$work/main.json"
says 'out: bits changed, at '
says '; worst error / bound '
run 1 judge "$v" "$got" --arith bf16_mma --baseline "$work/main.json" --same-bits
says_err '--same-bits: 1 output differs from '
run 1 judge "$v" "$got" --arith bf16_mma --baseline "$work/main.json" --same-bits --junit "$work/bits.xml"
check "other bits fail in JUnit, too" grep -q 'failures="1"' "$work/bits.xml"
made "$v" "$got" out=exact:F32@5=99
run 1 judge "$v" "$got" --arith bf16_mma --baseline "$work/main.json" --junit "$work/change.xml"
says 'WORSE v.safetensors: verdict FAIL, was IDENTICAL'
says 'at 1 of 4 indices of the first axis, first at 0'
check "the baseline is no case" grep -q 'name="baseline"' "$work/change.xml"
run 0 vectors linear --format nvfp4-ct --seed 43 -o "$v"
made "$v" "$got" out=exact:F32
refused 3 judge "$v" "$got" --baseline "$work/main.json"
says_err 'case v.safetensors has different inputs in this run'
refused 3 judge "$v" "$got" --baseline "$v"

# --- the metamorphic gate -------------------------------------------------------------------------------------------
batches=$work/batches gave=$work/gave
run 0 vectors linear --format bf16 --metamorphic -o "$batches" --json
at folder "$batches"
rm -r "$batches"
run 0 vectors linear --format bf16 --metamorphic -o "$batches"
mkdir "$gave"
kernel() { for f in "$batches"/*; do made --rows "$f" "$gave/${f##*/}" "$@"; done; }
kernel
run 0 judge --metamorphic "$batches" "$gave" --junit "$work/meta.xml"
says 'alone         IDENTICAL 4 calls'
says 'width         IDENTICAL 11 calls'
says 'split         IDENTICAL 6 calls'
kernel neighbour
run 1 judge --metamorphic "$batches" "$gave"
says 'alone-0: out: row 0, element 0 of the row is '
kernel rows
run 1 judge --metamorphic "$batches" "$gave" --json --html "$work/batches.html"
page "$work/batches.html" FAIL
check "relations: all, and one that fails" test "$(grep -c '^<tr><td>[a-z]* *[a-z]*</td><td class="left"><span class="verdict' \
    "$work/batches.html")" = 6
at verdict FAIL
at variants.4.name width
at variants.4.verdict FAIL
at variants.3.verdict IDENTICAL
kernel zeros
run 4 judge --metamorphic "$batches" "$gave"
says_err 'MISTRUSTED: every element of the output is the same'
kernel
rm "$gave/width-5.safetensors"
refused 3 judge --metamorphic "$batches" "$gave"
refused 3 judge --metamorphic "$gave" "$gave"
pages_seen
finish
