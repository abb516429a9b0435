#!/usr/bin/env bash
# vectors protocol and judge: rounds over a pool of states, from file to verdict.
. "$(dirname "$0")/lib.bash"
give=$BUILD/tests/gate/protocol_give
f=$work/f.safetensors got=$work/got.safetensors

for layout in plain vllm fla flashinfer mlx llamacpp; do
    for op in delta_rule conv; do
        [ $layout,$op != flashinfer,conv ] || continue
        run 0 vectors protocol --layout $layout --op $op --rounds 5 -o "$f"
        says "layout $layout, 5 rounds"
        check "no output" "$give" "$f" "$got"
        run 0 judge "$f" "$got"
        says 'pass  '
        run 1 judge "$f" "$got" --arith exact
        says 'FAIL  round '
    done
done
refused 2 vectors protocol --layout flashinfer --op conv -o "$f"
says_err 'layout flashinfer has neither a convolution'
refused 2 vectors protocol --layout flashinfer --chained -o "$f"
run 0 vectors protocol --list
says 'llamacpp'

# the same bytes again, and a folder
run 0 vectors protocol --seed 7 -o "$f"
run 0 vectors protocol --seed 7 -o "$work/folder/"
check "two files of one request differ" cmp "$f" "$work/folder/protocol.delta_rule.vllm.safetensors"

# a fault, in words and as a document
check "no output" "$give" "$f" "$got" 1
run 1 judge "$f" "$got" --json
at command judge
at protocol.verdict FAIL
run 1 judge "$f" "$got"
check "no value with its bound" grep -Eq ' is [-0-9.e+]+, expected [-0-9.e+]+ within [-0-9.e+]+' "$out"
says_err 'FAIL: '

# a kernel that goes on from its own states
run 0 vectors protocol --chained -o "$f"
check "no output" "$give" "$f" "$got"
run 0 judge "$f" "$got" --json
at protocol.verdict WITHIN
at protocol.changed 0

# damaged files and other files are refused
printf X | dd of="$f" bs=1 seek=200000 conv=notrunc 2> /dev/null
refused 3 judge "$f" "$got"
says_err 'is not the tensor that the metadata describe'
run 0 vectors protocol --op conv -o "$f"
refused 3 judge "$f" "$got"
refused 2 judge "$f" "$got" --need all
refused 2 vectors protocol --layout sglang -o "$f"
says_err "layout is 'sglang', expected plain"
refused 2 vectors protocol --layout fla --chained -o "$f"
refused 2 vectors protocol --op linear -o "$f"
says_err "op is 'linear'"
refused 2 vectors protocol --rounds 65 -o "$f"
says_err 'rounds is 65, expected at most 64'
refused 2 vectors protocol --regime ties -o "$f"
says_err "regime is 'ties'"
refused 2 vectors protocol
finish
