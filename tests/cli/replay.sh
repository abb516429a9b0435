#!/usr/bin/env bash
# replay: the first failing op of a comparison runs again from one file.
. "$(dirname "$0")/lib.bash"

make_checkpoint a --preset T1 --recipe mistakes
a=$work/a b=$work/b.safetensors

# nothing failed: no bundle
run 0 diff "$a" --engine sim:sequential --forced --tokens 1,2,3 -n 1 --bundle "$b"
check "a bundle of nothing" test ! -e "$b"

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

# the same bytes again, and nothing temporary is left
cp "$b" "$work/first"
run 1 diff "$a" --engine sim:sequential+neighbour_pairs --forced --tokens 1,2,3 -n 1 --bundle "$b"
check "two bundles of one failure differ" cmp "$b" "$work/first"
check "something temporary is left" test "$(find "$work" -maxdepth 1 -name 'b.safetensors*' | wc -l)" = 1

# another file of the same kind is no bundle
refused 3 replay "$a/model-00001-of-00003.safetensors"
refused 3 replay "$work/none"
refused 2 replay
printf 'x' > "$work/broken"
refused 3 replay "$work/broken"
head -c 2000 "$b" > "$work/cut"
refused 3 replay "$work/cut"

python=$(ls -d "$BUILD"/venv-*/bin/python3 2> /dev/null | head -n 1)
if [ -n "$python" ] && "$python" -c 'import safetensors, numpy' 2> /dev/null; then
    check "Python sees no element outside" "$python" - "$b" << 'END'
import sys
from safetensors import safe_open
with safe_open(sys.argv[1], "np") as f:
    error = abs(f.get_tensor("recorded").astype("f8") - f.get_tensor("expected"))
    assert (error > f.get_tensor("bound")).any()
    assert f.metadata()["samebit.bundle.op"] == "rope"
END
fi
finish
