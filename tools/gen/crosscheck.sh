#!/usr/bin/env bash
# make crosscheck: the real programs, live.
#
# Installs pinned torch and transformers into a virtual environment, loads every folder that
# `samebit make` can write into the real classes (no tensor missing, none unexpected), records anew
# what they compute, and runs the comparison of `make check` on that recording. Ends with the line
# "N passed, N failed, N skipped".
set -uo pipefail

build=${BUILD:-build}
venv=$build/venv-hf
work=$build/crosscheck
passed=0 failed=0

report() { # status, what
    if [ "$1" -eq 0 ]; then
        passed=$((passed + 1))
        echo "ok      $2"
    else
        failed=$((failed + 1))
        echo "FAILED  $2"
    fi
}

tools/gen/venv.sh "$venv" || exit 1
mkdir -p "$work"

# Strict loading: presets, layouts, storages, expert layouts.
class_of() {
    case $1 in
        T4) echo Qwen3_5ForCausalLM ;;
        T5) echo Qwen3NextForCausalLM ;;
        *) echo Qwen3_5MoeForCausalLM ;;
    esac
}
strict() { # preset, further options of make
    local folder=$work/load
    rm -rf "$folder"
    "$build/samebit" make "$folder" --preset "$@" >/dev/null &&
        "$venv/bin/python" tools/gen/hf_fixtures.py load "$folder" --class "$(class_of "$1")" \
            >"$work/load.log" 2>&1
    local status=$?
    report $status "transformers loads: make --preset $*"
    [ $status -eq 0 ] || cat "$work/load.log"
}
for preset in T1 T2 T3 T4 T5 T6; do
    strict "$preset"
    strict "$preset" --recipe predictable
done
for preset in T1 T4; do
    strict "$preset" --layout vl
    strict "$preset" --storage qwen3.5
done
strict T1 --experts split
strict T1 --format f32
strict T1 --format f16

# The same comparison as in make check, on what was recorded here and now.
tools/gen/record.sh "$work/hf" >"$work/record.log" 2>&1
report $? "recording"
for test in "$build"/tests/hf/test_*; do
    case $test in *.d | *.o) continue ;; esac
    SAMEBIT_HF=$work/hf "$test"
    report $? "$(basename "$test") on the live recording"
done
for file in golden/hf/*.safetensors; do
    name=$(basename "$file")
    cmp -s "$file" "$work/hf/$name" && same=identical || same="other bits (another CPU or library)"
    echo "note    golden/hf/$name: $same"
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
