#!/usr/bin/env bash
# logprob_fixtures.sh OUT: makes KLD base files and server answers from logits of an engine of this program on T1,
# with another arithmetic than the reference's. BUILD=DIR has samebit, and venv-hf with numpy and safetensors.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=${1:?OUT} BUILD=${BUILD:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=$BUILD/venv-hf/bin/python engine=(--backend sim:pairwise)
mkdir -p "$out"
"$BUILD/samebit" make "$work/t1" --preset T1 --recipe predictable --tokenizer > /dev/null
chunks=()
for c in 0 1; do
    ids=$(seq -s, 0 15 | awk -F, -v c=$c '{ for (i = 1; i <= NF; i++) printf "%s%d", (i == 1 ? "" : ","), ($i * 7 + c * 101 + 3) % 384 }')
    echo "$ids" > "$work/chunk$c.ids"
    "$BUILD/samebit" run "$work/t1" --tokens "$ids" -n 0 --logits "$work/chunk$c.npy" "${engine[@]}" > /dev/null
    chunks+=("$work/chunk$c.ids,$work/chunk$c.npy")
done
"$python" tools/record/kld_fixture.py "$out/kld-16.bin" 16 "${chunks[@]}"
"$python" tools/record/kld_fixture.py "$out/kld-24.bin" 24 "${chunks[@]}"
# a planted fault: cut off 8 nats below the largest; no version of llama.cpp does this
"$python" tools/record/kld_fixture.py "$out/kld-plant-8.bin" 8 "${chunks[@]}"
"$python" - "$work" << 'END'
import sys
import numpy as np
x = np.random.default_rng(1).normal(0, 9, (2, 6, 5)).astype("<f4")
for c in (0, 1):
    np.save(f"{sys.argv[1]}/seed{c}.npy", x[c])
    open(f"{sys.argv[1]}/seed{c}.ids", "w").write("0,1,2,3,4,0")
END
"$python" tools/record/kld_fixture.py "$out/seed-kld.bin" 16 "$work/seed0.ids,$work/seed0.npy" \
    "$work/seed1.ids,$work/seed1.npy"
# one row, in the form of llama.cpp's model conversion
"$python" - "$work" "$out" << 'END'
import sys
import numpy as np
work, out = sys.argv[1:]
x = np.load(work + "/chunk0.npy")[-1].astype("<f4")
x.tofile(out + "/llamacpp-T1.bin")
np.array(open(work + "/chunk0.ids").read().split(","), dtype="<i4").tofile(out + "/llamacpp-T1-tokens.bin")
with open(out + "/llamacpp-T1.txt", "w") as f:
    f.writelines(f"{i}: {v:.6f}\n" for i, v in enumerate(x))
END
prompt=3,1,4,15,9
"$BUILD/samebit" run "$work/t1" --tokens $prompt -n 6 --logits "$work/run.npy" --trace "$work/trace" \
    --taps '*.router_ids' "${engine[@]}" > /dev/null
"$python" tools/record/answer_fixtures.py "$out" "$work/t1" $prompt "$work/run.npy" "$work/trace"
# hidden states after layers 1 and 5, in the form of vLLM's example connector
"$BUILD/samebit" run "$work/t1" --tokens $prompt -n 0 --trace "$work/hidden" --taps 'layers.1.output,layers.5.output' \
    "${engine[@]}" > /dev/null
"$python" - "$work/hidden/step-000000.safetensors" "$out/vllm-hidden.safetensors" << 'END'
import sys
import numpy as np
from safetensors.numpy import load_file, save_file
step = load_file(sys.argv[1])
states = np.stack([step["layers.1.output"], step["layers.5.output"]], 1)
save_file({"hidden_states": states, "token_ids": step["tokens"].astype(np.int64)}, sys.argv[2])
END
