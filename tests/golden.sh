#!/usr/bin/env bash
# Recorded runs of the reference: golden/runs/NAME/golden.json.
#
#   tests/golden.sh [NAME...]   makes each checkpoint, or these, and verifies the recorded run, bit for bit
#   tests/golden.sh --list      the names
#   tests/golden.sh --write [NAME...]   records them anew, or these: for a new row or a change of the
#                               specification, never for a failure
#
# Ends with "N passed, N failed, N skipped".
set -uo pipefail

build=${BUILD:-build}
samebit=${SAMEBIT:-$build/samebit}
work=${SAMEBIT_TMP:-$build/test-data}/golden
passed=0 failed=0

# The rows: name, options of make, options of run. 70 ids and more cross the chunk of 64 rows.
ids() { # how many, below what
    awk -v n="$1" -v below="$2" 'BEGIN { for (i = 0; i < n; i++) printf "%s%d", i ? "," : "", (i*i*7 + i*13 + 5) % below }'
}
preset_of() { # the preset, and options, of the run of a format
    case $1 in
        fp8-block | mxfp4) echo T6 ;;
        fp8-block-ue8m0 | nvfp4-modelopt | int8-gptq | nvidia-mix) echo T2 ;;
        fp8-channel | int4-gptq) echo T3 ;;
        nvfp4-ct | int4-autoround | int4-fp8-hybrid) echo T1 ;;
        nvfp4a16-ct | int4-awq) echo T5 ;;
        int4-ct) echo T6 --group-size 32 ;;
        mxfp4-quark | nvidia-max | nvidia-max-conv | int8-ct) echo T9 ;;
        int4-int8-head) echo T9 --group-size 32 ;;
        nvfp4-modelopt-all) echo T7 ;;
        *) echo T4 ;;
    esac
}
list() {
    echo "T1 | --preset T1 | --tokens $(ids 70 377) -n 8"
    echo "T1-hf | --preset T1 | --tokens $(ids 70 377) -n 8 --profile hf"
    echo "T1-f16-qwen3.5 | --preset T1 --format f16 --storage qwen3.5 | --tokens $(ids 9 377) -n 8"
    echo "T1-predictable | --preset T1 --recipe predictable | --tokens $(ids 9 377) -n 16"
    echo "T2 | --preset T2 | --tokens $(ids 9 1024) -n 8"
    echo "T3 | --preset T3 | --tokens $(ids 70 377) -n 8"
    echo "T3-chunk | --preset T3 | --tokens $(ids 130 377) -n 4 --set delta_rule=chunk64"
    echo "T4 | --preset T4 | --tokens $(ids 70 377) -n 8"
    echo "T4-vl-hf | --preset T4 --layout vl | --tokens $(ids 20 377) -n 8 --profile hf"
    echo "T5 | --preset T5 | --tokens $(ids 70 377) -n 8"
    echo "T5-hf-f16 | --preset T5 | --tokens $(ids 20 377) -n 8 --profile hf --set act=f16"
    echo "T6 | --preset T6 | --tokens $(ids 9 377) -n 8"
    echo "T7 | --preset T7 | --tokens $(ids 70 377) -n 8"
    echo "T8 | --preset T8 | --tokens $(ids 70 377) -n 8"
    echo "T9 | --preset T9 | --tokens $(ids 70 377) -n 8"
    # every format once, with the presets in turn; then the profiles that quantize inputs
    local format preset options
    for format in $(sed -n '/none, 0, plain/!s/^SB_MAKE_FORMAT([a-z0-9_]*, "\([^"]*\)".*/\1/p' tools/make/formats.def); do
        read -r preset options <<< "$(preset_of "$format")"
        echo "$preset-$format | --preset $preset --format $format $options | --tokens $(ids 9 300) -n 4"
    done
    echo "T9-fp8-block | --preset T9 --format fp8-block | --tokens $(ids 9 300) -n 4"
    echo "T2-nvfp4-ct-w4a4 | --preset T2 --format nvfp4-ct | --tokens $(ids 20 1024) -n 4 --profile w4a4"
    echo "T1-fp8-block-w8a8 | --preset T1 --format fp8-block | --tokens $(ids 20 377) -n 4 --profile w8a8"
    echo "T6-fp8-channel-w8a8 | --preset T6 --format fp8-channel | --tokens $(ids 9 377) -n 4 --profile w8a8"
    echo "T2-nvidia-mix-kv | --preset T2 --format nvidia-mix --kv-scales | --tokens $(ids 20 1024) -n 4 --profile w8a8 --set act_fp4=fast --set kv_cache=fp8"
    # drafts: the recipe whose head is usually right, and K = 1 with enough rounds for statistics
    while read -r name preset n options; do
        echo "$name | --preset $preset --recipe predictable | --tokens $(ids 9 377) -n $n $options"
    done <<'ROUNDS'
T1-mtp1 T1 48 --draft 1
T2-mtp1 T2 24 --draft 1
T3-mtp1 T3 48 --draft 1
T4-mtp1 T4 48 --draft 1
T5-mtp1 T5 48 --draft 1
T6-mtp1 T6 24 --draft 1
T1-mtp8 T1 24 --draft 8
T2-mtp2-replay T2 12 --draft 2 --rollback replay
T3-mtp3-zero T3 24 --draft 3,0,2
T4-mtp4 T4 32 --draft 4
T5-mtp4-replay T5 24 --draft 4 --rollback replay
T1-mtp-forced T1 24 --draft 3,0,4 --force-accept 2,0,4,3,0,1,0,0,2
T4-mtp-forced T4 24 --draft 5 --force-accept 5,0,3,1
T1-sampled T1 24 --temp 3 --top-k 40 --top-p 0.95 --min-p 0.02
T1-mtp-sampled T1 24 --temp 3 --top-k 40 --top-p 0.95 --min-p 0.02 --draft 3
T5-mtp-residual T5 24 --temp 2.5 --top-p 0.9 --draft 3 --accept-mode residual --seed 42
T4-mtp-residual-forced T4 24 --temp 4 --draft 2 --accept-mode residual --force-accept 1,2,0
T1-mtp-hf T1 16 --draft 3 --profile hf
T1-mtp-llamacpp T1 24 --draft 3 --profile llamacpp
T4-mtp-vllm T4 24 --draft 3 --profile vllm
T4-mtp-sglang T4 24 --draft 3 --profile sglang
ROUNDS
    # the head in containers, fused and per expert; and drafts that are hardly ever right
    echo "T1-nvfp4-ct-mtp | --preset T1 --recipe predictable --format nvfp4-ct | --tokens $(ids 9 377) -n 12 --draft 2"
    echo "T4-fp8-block-mtp | --preset T4 --recipe predictable --format fp8-block | --tokens $(ids 9 377) -n 12 --draft 2 --profile w8a8"
    echo "T1-mistakes-mtp | --preset T1 | --tokens $(ids 9 377) -n 16 --draft 4 --force-accept 4,1"
    echo "T3-mistakes-mtp | --preset T3 | --tokens $(ids 70 377) -n 8 --draft 2"
    # the profiles of engines, with a prompt of more than a chunk and with steps
    echo "T1-vllm | --preset T1 | --tokens $(ids 70 377) -n 8 --profile vllm"
    echo "T3-sglang | --preset T3 | --tokens $(ids 70 377) -n 8 --profile sglang --set delta_state=act"
    echo "T5-llamacpp | --preset T5 | --tokens $(ids 70 377) -n 8 --profile llamacpp --set delta_rule=by_rows --set q_scale=multiply"
    echo "T1-nvfp4-ct-hf | --preset T1 --format nvfp4-ct | --tokens $(ids 20 377) -n 4 --profile hf"
}

[ "${1-}" != --list ] || { list | cut -d' ' -f1 && exit; }
action=verify
[ "${1-}" != --write ] || { action=write && shift; }
chosen=" $* "
mkdir -p "$work"
while IFS='|' read -r name make run; do
    name=${name// /}
    [[ $# = 0 || $chosen = *" $name "* ]] || continue
    # shellcheck disable=SC2086 # the options are words
    if ! "$samebit" make "$work/$name" $make --seed 42 --replace >/dev/null; then
        failed=$((failed + 1))
        continue
    fi
    if [ "$action" = write ]; then
        mkdir -p golden/runs
        # shellcheck disable=SC2086
        "$samebit" golden write "golden/runs/$name" "$work/$name" $run
    else
        "$samebit" golden verify "golden/runs/$name" "$work/$name"
    fi && passed=$((passed + 1)) || failed=$((failed + 1))
    rm -rf "${work:?}/$name"
done < <(list)
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
