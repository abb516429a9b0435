#!/usr/bin/env python3
"""Tests hf.py with the calls that scripts make: hf_test.py CKPT OUT

OUT/batch: generate() with two prompts, then with a third one. OUT/padded: with two prompts of different
lengths. Also tests that calls that cannot be recorded are refused, that a run that ends in an exception has
no trace.json, and that the model is restored. exit status: 0 all passed, 1 something failed
"""

import sys
from pathlib import Path

from hf import RecordError, record

import torch
from hf_models import class_of, load_strictly, prepare_torch
from transformers import DynamicCache


def refused(what: str, model: torch.nn.Module, folder: Path, act) -> None:
    """act() must be refused, and leave no trace."""
    try:
        with record(model, folder, taps="state.*"):
            act()
    except RecordError:
        if (folder / "trace.json").exists():
            sys.exit(f"hf_test.py: {what}: there is a trace.json")
        return
    sys.exit(f"hf_test.py: not refused: {what}")


def main() -> None:
    checkpoint, out = Path(sys.argv[1]), Path(sys.argv[2])
    out.mkdir()
    prepare_torch()
    model = load_strictly(checkpoint, class_of(checkpoint), torch.bfloat16)
    ids, short = torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.tensor([[9, 8]])
    before = model(ids).logits
    usual = {"do_sample": False, "pad_token_id": 0}
    with record(model, out / "batch", taps="all,state.*"):
        model.generate(ids, max_new_tokens=4, **usual)
        model.generate(short, max_new_tokens=3, **usual)
    padded, mask = torch.tensor([[1, 2, 3, 7], [0, 0, 5, 6]]), torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1]])
    with record(model, out / "padded", taps="all,state.*"):
        model.generate(padded, attention_mask=mask, max_new_tokens=4, **usual)

    def cut() -> None:
        cache = DynamicCache(config=model.config)
        model(ids, past_key_values=cache)
        for layer in cache.layers:
            if hasattr(layer, "keys"):
                layer.keys, layer.values = layer.keys[:, :, :2], layer.values[:, :, :2]
        model(ids[:, :1], past_key_values=cache)

    refused("a cache that was cut", model, out / "cut", cut)
    nothing = torch.zeros(1, 2, model.config.hidden_size)
    refused("embeddings", model, out / "embeds", lambda: model(inputs_embeds=nothing))
    if not torch.equal(before, model(ids).logits):
        sys.exit("hf_test.py: the model computes something else afterwards")


if __name__ == "__main__":
    main()
