#!/usr/bin/env bash
# Records the values of the real transformers for folders of `samebit make` as traces (docs/trace.md):
#
#   tools/record/hf_traces.sh OUT          the traces of golden/trace
#   tools/record/hf_traces.sh OUT live     every preset in both types: short prompts and some longer than a chunk,
#                                          generated tokens, states; compared with the reference at once
#
# `make crosscheck` does both. T1-eager and T1-weights differ on purpose; `samebit diff --explain` should find the
# cause.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=${1:?usage: tools/record/hf_traces.sh OUT [live]}
build=${BUILD:-build}
python=${PYTHON:-$build/venv-hf/bin/python}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1

tokens() { # COUNT: ids below the padding rows of every preset
    seq 0 $(($1 - 1)) | while read -r i; do echo $(((i * i * 7 + i * 13 + 5) % 377)); done | paste -sd,
}
# checkpoint PRESET RECIPE: $folder, and its digest in $digest
checkpoint() {
    folder=$work/$1-$2
    [ -d "$folder" ] || "$build/samebit" make "$folder" --preset "$1" --recipe "$2" --seed 42 > /dev/null
    digest=$("$build/samebit" hash "$folder" | sed -n 's/^checkpoint //p')
}
record() { # NAME TYPE OPTION...
    local name=$1 type=$2
    shift 2
    rm -rf "${out:?}/$name"
    "$python" tools/record/hf.py "$folder" "$out/$name" --dtype "$type" --checkpoint-digest "$digest" "$@" \
        2> >(grep -v 'ignored by the class' >&2)
}

# summary NAME OPTIONS: one line with the result of diff
summary() {
    printf '%s (%s): %s; %s\n' "$1" "$2" "$(sed -n 's/^tokens: //p' "$out/$1.txt")" \
        "$(grep -aE '^(IDENTICAL|WITHIN|NEAR_TIE|FAIL|MISTRUSTED|SKIPPED)' "$out/$1.txt" || tail -n 1 "$out/$1.txt")"
}

mkdir -p "$out"
if [ "${2-}" = live ]; then
    status=0
    # name, type, prompt, options of diff. A binary32 prompt is computed in chunks by transformers and row by row by
    # profile `exact`; the frequencies of the rotary embedding are torch's (K-8). transformers does not show the
    # queries and keys of the delta rule after their norms, so that under BF16 some values inside may be open: then
    # the chunks of a layer are not judged (T-91).
    kinds="
    f32      f32  6  --profile exact --set rope_freq=torch
    f32-long f32  66 --profile exact --set rope_freq=torch
    bf16     bf16 66 --profile hf --need-ops 0.95
    "
    for preset in T1 T2 T3 T4 T5 T6 T7 T8; do
        for recipe in mistakes predictable; do
            checkpoint $preset $recipe
            while read -r kind type prompt options; do
                [ -n "$kind" ] || continue
                name=$preset-$recipe-$kind
                # shellcheck disable=SC2086
                { record "$name" "$type" --tokens "$(tokens "$prompt")" -n 4 --taps 'all,state.*' &&
                    "$build/samebit" trace "$out/$name" --checkpoint "$folder" &&
                    "$build/samebit" diff "$folder" --engine "$out/$name" $options; } \
                    > "$out/$name.txt" 2>&1 || status=1
                summary "$name" "$options"
                rm -rf "${out:?}/$name"
            done <<< "$kinds"
        done
    done
    exit $status
fi

# name, preset, type, calls, further options
list="
T1-f32     T1 f32  6,1,1
T1-bf16    T1 bf16 6,1,1
T1-eager   T1 bf16 3,1   --experts eager
T1-weights T1 bf16 3,1   --router-weights f32
T4-f32     T4 f32  6,1,1 --taps all,state.*
T4-bf16    T4 bf16 6,1,1 --taps all,state.*
T5-f32     T5 f32  6,1,1
T5-bf16    T5 bf16 6,1,1
"
set -f # state.* is no file pattern
while read -r name preset type calls options; do
    [ -n "$name" ] || continue
    checkpoint "$preset" mistakes
    # shellcheck disable=SC2086
    record "$name" "$type" --tokens "$(tokens $((${calls//,/+})))" --calls "$calls" $options
done <<< "$list"
