#!/usr/bin/env bash
# Outputs of other people's kernels, recorded in golden/gate/recipes (tools/py/recipes/record.py), are judged again:
# the vectors are made anew, and the verdict must be the one in the list. One kernel under Triton's interpreter is
# wrong and must fail. Every other kernel must fail with one changed bit in its output.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
samebit=${SAMEBIT:-build/samebit}
list=golden/gate/recipes/LIST
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
is() { # what, wanted, found
    if [ "$2" = "$3" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED  $1: $3; expected $2"
    fi
}
verdict() { # vectors, got, arithmetic: the verdict of `samebit judge`
    "$samebit" judge "$1" "$2" --arith "$3" --json 2> "$work/said" | tr -d ' \n' | sed -n 's/.*"verdict":"\([A-Z_]*\)".*/\1/p'
}
wrong=0
while read -r name wanted arith options; do
    got=golden/gate/recipes/$name.safetensors
    # shellcheck disable=SC2086
    "$samebit" vectors $options -o "$work/case.safetensors" > /dev/null 2> "$work/said" || {
        is "$name: samebit vectors $options" "0" "$(cat "$work/said")"
        continue
    }
    is "$name" "$wanted" "$(verdict "$work/case.safetensors" "$got" "$arith")"
    if [ "$wanted" = FAIL ]; then
        wrong=$((wrong + 1))
        continue
    fi
    # the first byte behind the header belongs to an output: its sign or exponent, or a low bit that is rounded away
    size=$(od -An -tu8 -N8 "$got" | tr -d ' ')
    cp "$got" "$work/got.safetensors"
    printf '\377\377\177\177' | dd of="$work/got.safetensors" bs=1 seek=$((8 + size)) conv=notrunc status=none
    is "$name with an element changed" FAIL "$(verdict "$work/case.safetensors" "$work/got.safetensors" "$arith")"
done < "$list"
is "kernels that are wrong" 3 "$wrong"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
