#!/usr/bin/env bash
# Tests tools/bench/hf.py --device cuda without a GPU. Wrong requests must be refused with a clear message before
# anything is loaded. The calls of transformers run on the CPU instead of the GPU. The output of samebit comes from an
# emulated device with a timer. PYTHON: an interpreter with the packages of tools/gen/venv.sh (python3). BUILD has
# samebit (build).
# Ends with the line "N passed, N failed, N skipped".
. "$(dirname "$0")/../../tests/cli/lib.bash"
python=${PYTHON:-python3} launches=$BUILD/tests/gpu/samebit_launches
export PYTHONDONTWRITEBYTECODE=1
mkdir "$work/without"
echo 'raise ImportError("no torch here")' > "$work/without/torch.py"
make_checkpoint model --preset T1 --layers 4 --format bf16

words() { # words TEXT ARG...: status 1, nothing on stdout, and one line that has TEXT
    local text=$1
    shift
    last="(hf.py $*)"
    "$python" tools/bench/hf.py "$@" > "$out" 2> "$err" < /dev/null
    same "status" $? 1
    same "lines" "$(wc -l < "$err")$(wc -c < "$out")" 10
    says_err "hf.py: $text"
}
on=(--device cuda --preset T1 --layers 4)
words '--device cuda needs --preset and --layers' "$work/model" --device cuda
words '--device cuda needs --preset and --layers' "$work/model" --device cuda --preset T1
words "$work is no folder with a config.json" "$work" "${on[@]}"
words '--tokens and --prefill are at least 1' "$work/model" "${on[@]}" --prefill 0
PYTHONPATH=$work/without words 'no torch here: --device cuda needs torch and transformers' "$work/model" "${on[@]}"
if [ -e /dev/nvidia0 ]; then
    skip "no CUDA device" "there is one"
else
    words 'torch ' "$work/model" "${on[@]}"
    says_err ' finds no CUDA device, which --device cuda needs'
fi
mkdir "$work/other"
echo '{"architectures": ["Other"]}' > "$work/other/config.json"
words 'class Other: expected one of' "$work/other" --one bf16

script() { # script ARG...: Python on stdin, beside hf.py
    last="(python $*)"
    PYTHONPATH=tools/bench "$python" - "$@" > "$out" 2> "$err"
}
# the function for a GPU: it runs four prompts and five steps, three of them untimed, with two waits each
script "$work/model" << 'PY'
import argparse, json, sys
from pathlib import Path
import hf
import torch

waits = []
torch.cuda.synchronize = lambda: waits.append(0)
torch.cuda.get_device_name = lambda: "no GPU"
options = argparse.Namespace(checkpoint=Path(sys.argv[1]), one="bf16", device="cuda", threads=1, tokens=2, prefill=24)
gpu, hf.run_cuda = hf.run_cuda, lambda *a: gpu(*a[:2], argparse.Namespace(**{**vars(options), "device": "cpu"}))
print(json.dumps(hf.run_transformers(options) | {"waits": len(waits)}))
PY
at waits 18
at device 'no GPU'
check "no time of a step" eval '[[ $(value tokens_per_s) =~ ^[0-9.]+$ ]]'
check "no time of a prompt" eval '[[ $(value prefill_tokens_per_s) =~ ^[0-9.]+$ ]]'

ours() { # ours PROGRAM: the result of samebit's part, as JSON
    script "$1" << 'PY'
import argparse, json, sys
import hf

options = argparse.Namespace(program=sys.argv[1], preset="T1", layers=4, prefill=24)
print(json.dumps(hf.run_samebit_on_gpu(options)))
PY
}
if [ -x "$launches" ]; then
    # all its measurements are wrong, so its status is 1
    printf '#!/bin/sh\n%s "$@" 2> /dev/null || true\n' "$(realpath "$launches")" > "$work/stand_in"
    chmod +x "$work/stand_in"
    ours "$launches"
    says_err ' ended with 1'
    ours "$work/stand_in"
    says_err 'hf.py: samebit bench decode has no time of its step'
    SAMEBIT_CLOCK=2,1 ours "$work/stand_in"
    cp "$out" "$work/ours"
    SAMEBIT_CLOCK=2,1 "$work/stand_in" bench decode --preset T1 --layers 4 --recipe bf16 --context 24 --backend gpu --json > "$out"
    step=$(value run.step_s.median) floor=$(value run.floor_s)
    SAMEBIT_CLOCK=2,1 "$work/stand_in" bench prefill --preset T1 --layers 4 --recipe bf16 --rows 24 --backend gpu --json > "$out"
    prompt=$(value run.step_s.median)
    cp "$work/ours" "$out"
    inverse() { awk -v a="$(value "$1")" -v n="$2" -v s="$3" 'BEGIN { d = a * s / n - 1; exit !(a > 0 && d * d < 1e-10) }'; }
    check "tokens per second" inverse tokens_per_s 1 "$step"
    check "of a prompt" inverse prefill_tokens_per_s 24 "$prompt"
    check "the floor" inverse floor_tokens_per_s 1 "$floor"
else
    skip "samebit's part beside transformers" "built without nvcc"
fi
if [ ! -e /dev/nvidia0 ]; then
    ours "$SAMEBIT"
    says_err 'hf.py: '
    check "no plain words" test "$(wc -l < "$err")" = 1
fi
finish
