#!/usr/bin/env bash
# Holds the engines that `make engines` has made against the reference: a part of `make crosscheck`.
#
#   tools/gen/engines/live.sh WORK     WORK: a folder for logs and recordings
#
# docs/engines.md has the comparisons. Runs the slice of cases that cases.py names; with CHECK_ALL=1 all cases. BUILD=DIR
# has the program and the environments. Ends with `N passed, N failed, N skipped`.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.." || exit 2
build=${BUILD:-build}
work=${1:?usage: tools/gen/engines/live.sh WORK}
. tools/gen/counts.sh
mkdir -p "$work"

slice=--slice
[ "${CHECK_ALL-}" != 1 ] || slice=
for engine in vllm vllm_server mlx transformers llamacpp; do
    section "$engine"
    there=$build/venv-${engine%_server}/bin/python
    [ $engine != llamacpp ] || there=$build/llamacpp/bin/llama_record
    if [ ! -x "$there" ]; then
        skip "$engine" "not there: make engines"
        continue
    fi
    BUILD=$build tools/gen/engines/run.py --anew $slice "$engine" >"$work/engine-$engine.log" 2>&1
    report $? "$engine against the reference: $(grep -c '"tokens": "EQUAL"' "$work/engine-$engine.log") cases with equal tokens" "$work/engine-$engine.log"
done

section "inside mlx-lm"
# The unchanged engine is within the bounds, and a planted mistake is found at its op.
mlx_inside() { # preset, op, mistake, options of make
    local folder=$work/mlx-inside/$1 traces=$work/mlx-inside/$1-traces op=$2 mistake=$3
    "$build/samebit" make "$folder" --preset "$1" --recipe predictable --format f32 "${@:4}" &&
        "$build/venv-mlx/bin/python" tools/gen/engines/mlx_record.py "$folder" "$traces" none "$mistake" &&
        "$build/samebit" diff "$folder" --engine "$traces/none" --profile exact &&
        ! "$build/samebit" diff "$folder" --engine "$traces/$mistake" --profile exact >"$work/mlx-inside/said" &&
        grep "^first failure: .*, $op (" "$work/mlx-inside/said"
}
if [ -x "$build/venv-mlx/bin/python" ]; then
    rm -rf "$work/mlx-inside"
    mkdir -p "$work/mlx-inside"
    {
        mlx_inside T1 router top_k_off_by_one --layout vl && mlx_inside T4 delta_rule state_not_carried --layout vl &&
            mlx_inside T5 linear v_and_z_swapped
    } >"$work/mlx-inside.log" 2>&1
    report $? "inside mlx-lm: a mixture, a dense model and Qwen3-Next" "$work/mlx-inside.log"
else
    skip "inside mlx-lm" "not there: make engines"
fi
# vLLM as it is, and mistakes planted in it. Each must be found, except the one that docs/engines.md has as not found.
if [ -x "$build/venv-vllm/bin/python" ]; then
    section "inside vLLM"
    python=$build/venv-vllm/bin/python folder=$work/vllm-inside/T4 traces=$work/vllm-inside/traces
    rm -rf "$work/vllm-inside"
    mkdir -p "$work/vllm-inside"
    "$build/samebit" make "$folder" --preset T4 --layout vl --recipe predictable >"$work/vllm-inside.log" 2>&1 &&
        "$python" tools/gen/engines/vllm_record.py "$folder" "$traces" 2 >>"$work/vllm-inside.log" 2>&1 &&
        rm -rf "$traces/bf16_state" &&
        BUILD=$build tools/gen/engines/faults.py vllm "$traces" "$folder" --out "$work/vllm-inside.json" >>"$work/vllm-inside.log" 2>&1
    report $? "inside vLLM: $(find "$traces" -mindepth 1 -maxdepth 1 ! -name none | wc -l) planted mistakes, $(tail -n 1 "$work/vllm-inside.log")" "$work/vllm-inside.log"

    section "parameters that vLLM has loaded"
    mkdir -p "$work/vllm-loaded"
    echo 'loaded model.visual.* # no images are asked for' >"$work/vllm-loaded/waivers"
    for fault in none shard_skipped scales_dropped mtp_as_made; do
        folder=$work/vllm-loaded/T4 expected=0
        planted=(--fault "$fault")
        [ $fault = none ] && planted=() || expected=1
        "$build/samebit" make "$folder" --preset T4 --layout vl --recipe predictable --format fp8-channel --replace >"$work/vllm-loaded/$fault.log" 2>&1 &&
            "$python" tools/record/vllm_loaded.py "$folder" "$work/vllm-loaded/$fault.json" "${planted[@]}" >>"$work/vllm-loaded/$fault.log" 2>&1 &&
            "$build/samebit" check "$folder" --loaded "$work/vllm-loaded/$fault.json" --waivers "$work/vllm-loaded/waivers" \
                >>"$work/vllm-loaded/$fault.log" 2>&1
        [ $? -eq $expected ] && grep -q '^LOADED' "$work/vllm-loaded/$fault.log"
        report $? "check --loaded on vLLM: $fault, $(grep -o '^LOADED [A-Z]*' "$work/vllm-loaded/$fault.log")" "$work/vllm-loaded/$fault.log"
    done
else
    skip "inside vLLM, and the parameters that it has loaded" "not there: make engines"
fi

section "speculators"
if [ -x "$build/venv-speculators/bin/python" ]; then
    "$build/venv-speculators/bin/python" tools/gen/engines/speculators_run.py >"$work/speculators.log" 2>&1
    report $? "speculators: $(tail -n 1 "$work/speculators.log")"
    # EAGLE-3: every kind of drafter with random weights, and those that are committed, trained anew.
    rm -rf "$work/eagle3"
    BUILD=$build "$build/venv-speculators/bin/python" tools/gen/engines/eagle3.py "$work/eagle3" all >"$work/eagle3.log" 2>&1 &&
        SAMEBIT_EAGLE3=$work/eagle3 "$build/suites/unit" test_eagle3 >>"$work/eagle3.log" 2>&1
    report $? "speculators: what 24 drafters compute" "$work/eagle3.log"
    # the same drafters are sound: no WARN and no ERROR
    sound=0 drafters=0
    for config in "$work"/eagle3/*/config.json; do
        drafters=$((drafters + 1))
        "$build/samebit" check "$(dirname "$config")" -q >>"$work/eagle3.log" 2>&1 && sound=$((sound + 1))
    done
    ! grep -E ': [0-9]+ FATAL, [0-9]+ ERROR, [1-9][0-9]* WARN' "$work/eagle3.log" && [ $drafters -ge 24 ] && [ $sound = $drafters ]
    report $? "samebit check has no alarm for $drafters drafters of speculators"
    # The other way round: speculators loads the same kinds as samebit make writes them.
    rm -rf "$work/eagle3-made"
    BUILD=$build "$build/venv-speculators/bin/python" tools/gen/engines/eagle3.py "$work/eagle3-made" made >"$work/eagle3.log" 2>&1 &&
        SAMEBIT_EAGLE3=$work/eagle3-made "$build/suites/unit" test_eagle3/test_speculators >>"$work/eagle3.log" 2>&1
    report $? "speculators: 24 drafters of samebit make" "$work/eagle3.log"
else
    skip speculators "not there: make engines"
fi

section "n-gram drafters of vLLM and llama.cpp"
if [ -x "$build/venv-vllm/bin/python" ] && [ -d "$build/llamacpp/cmake" ]; then
    "$build/venv-vllm/bin/python" tools/gen/engines/ngram.py "$work/ngram.json" >"$work/ngram.log" 2>&1 &&
        cmp "$work/ngram.json" golden/drafts/ngram.json
    report $? "golden/drafts/ngram.json is what vLLM and llama.cpp propose"
else
    skip "n-gram drafters" "vLLM or llama.cpp is not there: make engines"
fi

section "llama.cpp"
# The values inside llama.cpp: its recordings must be within the bounds of its profile, and every mistake that is planted
# in it must be found at its op. llama-server, which make engines leaves out, is built now: some ten minutes.
if [ -x "$build/llamacpp/bin/llama_record" ]; then
    rm -rf "$work/llamacpp" "$work/llamacpp-faults"
    bash tools/record/llamacpp.sh "$work/llamacpp" >"$work/llamacpp.log" 2>&1
    report $? "recording llama.cpp" "$work/llamacpp.log"
    TRACES=$work/llamacpp bash tests/cli/llamacpp.sh >"$work/llamacpp.log" 2>&1
    report $? "llama.cpp, recorded now, is within the bounds of its profile" "$work/llamacpp.log"
    BUILD=$build tools/gen/engines/llamacpp_faults.sh "$work/llamacpp-faults" "$work/llamacpp-faults.json" \
        >"$work/llamacpp.log" 2>&1
    report $? "mistakes planted in llama.cpp: $(tail -n 1 "$work/llamacpp.log")" "$work/llamacpp.log"
else
    skip "inside llama.cpp" "not there: make engines"
fi

counts
