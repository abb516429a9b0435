#!/usr/bin/env bash
# Writes tests/hf/shares.def after the recordings in golden/hf were made anew: tests/hf/shares.sh
#
# The tests must have been built (make tests). The file says how many values of profile hf were identical to
# transformers' in bfloat16; from then on a run with fewer fails. Look at the difference before you keep it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${BUILD:-build}
recording=${SAMEBIT_HF:-golden/hf}/T1.bf16.safetensors
out=tests/hf/shares.def
[ -e "$recording" ] || { echo "$recording: not there" >&2; exit 1; }

# "name version" of a package, from the metadata of the recording
version() { head -c 4096 "$recording" | grep -aoE "\"$1\":\"[^\"]*\"" | tr -d '"' | tr ':' ' '; }

new=$(mktemp)
trap 'rm -f "$new"' EXIT
{
    echo "/* shares.def - how many values of profile hf are identical to transformers', written by"
    echo " * tests/hf/shares.sh. Recorded with $(version transformers), $(version torch), $(version cpu_capability)."
    echo " *"
    echo ' *   HF_SHARE("recording", op, identical, compared, identical binary32 values, compared ones)'
    echo ' *   HF_WHOLE("recording", "calls", identical hidden values, all, identical logits, all)'
    echo ' */'
    for test in test_forced test_end_to_end; do
        SAMEBIT_SHARES=print "$build/suites/hf" "$test" 2> /dev/null | grep -E '^HF_(SHARE|WHOLE)\(' ||
            { echo "$test printed no shares" >&2; exit 1; }
    done
} > "$new"
cp "$new" "$out"
echo "$out: $(grep -c '^HF_' "$out") rows"
