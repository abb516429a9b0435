#!/usr/bin/env bash
# replay: the first failing op of a comparison runs again from one file.
. "$(dirname "$0")/lib.bash"

make_checkpoint a --preset T1 --recipe mistakes
a=$work/a b=$work/b.safetensors

# nothing failed: no bundle
run 0 diff "$a" --engine sim:sequential --forced --tokens 1,2,3 -n 1 --bundle "$b"
check "a bundle of nothing" test ! -e "$b"
says_err 'b.safetensors: not written: no op failed'

for mistake in no_dt_bias gate_up_swapped last_column_lost kv_map_mod neighbour_pairs; do
    rm -f "$b"
    run 1 diff "$a" --engine sim:sequential+$mistake --forced --tokens 1,2,3 -n 1 --bundle "$b"
    run 1 replay "$b"
    says "bit for bit"
    says "FAIL: "
    run 1 replay "$b" --json
    at command replay
    at changed 0
    at verdict FAIL
done
at op rope

# another engine is right here, and an engine with the same mistake is wrong in the same way
run 0 replay "$b" --backend sim:pairwise
says 'sim:pairwise: WITHIN: 0 of '
run 0 replay "$b" --backend ref --json
at verdict IDENTICAL
at backend ref
run 1 replay "$b" --backend sim:pairwise+neighbour_pairs --json
at verdict FAIL
at changed 0
refused 2 replay "$b" --backend pairwise
refused 2 replay "$b" --backend sim:none

# the same bytes again, and nothing temporary is left
cp "$b" "$work/first"
run 1 diff "$a" --engine sim:sequential+neighbour_pairs --forced --tokens 1,2,3 -n 1 --bundle "$b"
check "two bundles of one failure differ" cmp "$b" "$work/first"
check "something temporary is left" test "$(find "$work" -maxdepth 1 -name 'b.safetensors*' | wc -l)" = 1

# a bound so small that error / bound is no number: null; this once gave "out of memory"
run 1 replay "$work/first" --json
bounds=$(sed -n 's/.*"elements": \([0-9]*\).*/\1/p' "$out")
data=$((8 + $(od -An -tu8 -N8 "$work/first")))
cp "$work/first" "$work/tiny"
printf '\001\0\0\0\0\0\0\0%.0s' $(seq "$bounds") | dd of="$work/tiny" bs=4096 seek=$data oflag=seek_bytes conv=notrunc 2> "$err"
run 1 replay "$work/tiny" --json
at verdict FAIL
at worst null
run 1 replay "$work/tiny"
check "a worst that is no number" sh -c "! grep -q 'worst inf' '$out'"
printf '\0\0\0\0\0\0\131\100%.0s' $(seq "$bounds") | dd of="$work/tiny" bs=4096 seek=$data oflag=seek_bytes conv=notrunc 2> "$err"
run 0 replay "$work/tiny" --json
at verdict WITHIN

# a failure without an op is not replayed: from a pack, and with a file left by another run
run 1 diff "$a" --engine sim:sequential+neighbour_pairs --free --tokens 1,2,3 -n 1 --bundle "$work/free.tar" -q
says_err 'free.tar: contains reports only, nothing to replay: no op was judged alone'
refused 3 replay "$work/free.tar"
says_err 'no replay.safetensors, for no op was judged alone'
says_err 'the members are: report.html, report.json, '
run 1 diff "$a" --engine sim:sequential+neighbour_pairs --free --tokens 1,2,3 -n 1 --bundle "$b" --json
says_err 'b.safetensors: not written, the existing file is from another run: no op was judged alone'
at bundle.op null
check "an old bundle was touched" cmp "$b" "$work/first"

# a recorded state that differs from the result of its op
run 1 diff "$a" --engine sim:sequential+conv_state_stale --tokens 1,2,3 -n 2 --bundle "$b" --json
at bundle.missing null
at first_failure.tap layers.0.linear_attn.conv_state
run 1 replay "$b" --json
at output state
at verdict FAIL

# another safetensors file is no bundle
refused 3 replay "$a/model-00001-of-00003.safetensors"
refused 3 replay "$work/none"
refused 2 replay
printf 'x' > "$work/broken"
refused 3 replay "$work/broken"
head -c 2000 "$b" > "$work/cut"
refused 3 replay "$work/cut"

python=$(ls -d "$BUILD"/venv-*/bin/python3 2> /dev/null | head -n 1)
if [ -n "$python" ] && "$python" -c 'import safetensors, numpy' 2> /dev/null; then
    check "Python sees no element outside" "$python" - "$work/first" << 'END'
import sys
from safetensors import safe_open
with safe_open(sys.argv[1], "np") as f:
    error = abs(f.get_tensor("recorded").astype("f8") - f.get_tensor("expected"))
    assert (error > f.get_tensor("bound")).any()
    assert f.metadata()["samebit.bundle.op"] == "rope"
END
fi
finish
