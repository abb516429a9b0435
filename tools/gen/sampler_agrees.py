#!/usr/bin/env python3
"""Compares the cases of golden/sampler with the processors of the same names in transformers.

sampler_agrees.py [GOLDEN] applies the temperature, top_k, top_p and min_p of transformers to the
logits of each case, in the order of generate(). The same tokens must remain, and their
probabilities may differ only by rounding. Exceptions by section P of docs/spec.md: a removed token
has the same logit as a kept one, and the cases of RANGE.

exit status: 0 agreement, 1 disagreement
"""

import json
import struct
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import GenerationConfig
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

# If a quotient or a difference overflows binary32, transformers gets NaN or keeps another token.
RANGE = {"beyond range, cold", "beyond range, hot", "coldest"}


def real(bits: str) -> float:
    return struct.unpack(">f", bytes.fromhex(bits))[0]


def processors(case: dict) -> LogitsProcessorList:
    """The list of processors, made like generate() makes it."""
    chain = LogitsProcessorList([TemperatureLogitsWarper(real(case["temperature"]))])
    if case["top_k"]:
        chain.append(TopKLogitsWarper(case["top_k"]))
    if real(case["top_p"]) < 1:
        chain.append(TopPLogitsWarper(real(case["top_p"])))
    if real(case["min_p"]) > 0:
        chain.append(MinPLogitsWarper(real(case["min_p"])))
    return chain


def order_is_theirs() -> bool:
    """Compares with the list that generate() itself makes."""
    from transformers.generation.utils import GenerationMixin

    config = GenerationConfig(do_sample=True, temperature=0.5, top_k=3, top_p=0.5, min_p=0.1)
    config.num_beams = 1
    made = GenerationMixin()._get_logits_processor(config, input_ids_seq_length=1)
    wanted = [TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper, MinPLogitsWarper]
    return [type(p) for p in made] == wanted


def main() -> int:
    """The command line."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "golden/sampler")
    document = json.loads((folder / "sampler.json").read_text(encoding="utf-8"))
    arrays = load_file(folder / "sampler.safetensors")
    counts = {"agree": 0, "tie": 0, "range": 0, "differ": 0}
    for case in document["cases"]:
        if real(case["temperature"]) == 0:
            continue
        logits, ours = arrays["logits/" + case["logits"]], arrays["p/" + case["name"]]
        theirs = torch.softmax(processors(case)(None, logits[None].clone()), -1)[0]
        kept = ours > 0
        same = torch.equal(kept, theirs > 0) and float((ours - theirs).abs().max()) < 1e-6
        tied = bool((~kept).any()) and float(logits[kept].min()) == float(logits[~kept].max())
        verdict = "agree" if same else "tie" if tied else "range"
        if verdict == "range" and case["name"] not in RANGE:
            verdict = "differ"
        counts[verdict] += 1
        print(f"{verdict:6} {case['name']}")
    order = order_is_theirs()
    print(f"order of generate(): {'the same' if order else 'ANOTHER'};", counts)
    return 0 if order and not counts["differ"] and counts["agree"] > 20 else 1


if __name__ == "__main__":
    sys.exit(main())
