"""Follows the draws of vLLM on the CPU from the reference's logits: vllm_sampler.py RUN.json CKPT, in the environment of
vLLM.

RUN is a result of run.py with sampling and without drafts (build/engines/vllm_server/T4-sampled-draft0.json). A request's
seed starts a Mersenne Twister, which gives a seed of 31 bits for each token. SplitMix64 of that seed and a token's id gives
the token's noise, and the largest sum of logit and noise is drawn. Prints how many of the engine's tokens these rules
give. The rules are those of vLLM 0.32.0: vllm/v1/sample (sampler.py, ops/topk_topp_sampler.py) and csrc/cpu.
"""

import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch

SAMEBIT = os.environ.get("SAMEBIT", os.environ.get("BUILD", "build") + "/samebit")
WORD = (1 << 64) - 1


def mixed(word):
    """The last steps of SplitMix64."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 & WORD
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB & WORD
    return word ^ (word >> 31)


def noise(seed, token):
    """The Gumbel noise of a token."""
    bits = mixed((mixed(seed) + (token + 1) * 0x9E3779B97F4A7C15) & WORD) >> 11
    return -math.log(-math.log((bits + 0.5) * 2.0**-53))


def cut(logits, top_k, top_p):
    """The logits that top_k and top_p leave, by id: first top_k, then top_p from the smallest probability up."""
    order = sorted(range(len(logits)), key=lambda i: logits[i])[-top_k or None :]
    row = torch.tensor([logits[i] for i in order], dtype=torch.float32)
    lost = torch.cumsum(row.softmax(-1), -1) <= 1 - torch.tensor(top_p, dtype=torch.float32)
    lost[-1] = False
    return {i: logits[i] for i, gone in zip(order, lost.tolist()) if not gone}


def reference_logits(checkpoint, ids):
    """The reference's logits (positions, V) under the profile vllm."""
    with tempfile.TemporaryDirectory() as work:
        out = str(pathlib.Path(work, "logits.npy"))
        words = ["--tokens", ",".join(map(str, ids)), "-n", "0", "--profile", "vllm", "--logits", out]
        subprocess.run([SAMEBIT, "run", checkpoint, *words], check=True, stdout=subprocess.DEVNULL)
        return numpy.load(out)


def main():
    """Prints the number of tokens that agree."""
    with open(sys.argv[1], encoding="utf-8") as file:
        run = json.load(file)
    words = run["sampling"].split()
    options = {name: json.loads(value) for name, value in zip(words[::2], words[1::2], strict=True)}
    same = count = 0
    for prompt, answer in zip(run["prompts"], run["answers"]):
        tokens = answer["choices"][0]["token_ids"]
        rows = reference_logits(sys.argv[2], prompt + tokens[:-1])[len(prompt) - 1 :]
        generator = torch.Generator().manual_seed(options["--seed"])
        for row, token in zip(rows, tokens, strict=True):
            seed = int(torch.randint(0, 2**31, (1,), generator=generator))
            scaled = (torch.from_numpy(row) / options["--temp"]).tolist()
            left = cut(scaled, options.get("--top-k", 0), options.get("--top-p", 1.0))
            same += token == max(left, key=lambda i: left[i] + noise(seed, i))  # pylint: disable=cell-var-from-loop
            count += 1
    print(f"{same} of {count} tokens follow these rules")


main()
