#!/usr/bin/env python3
"""golden/mtp: the small checkpoints of golden/hf with an MTP block, and the values of the head.

mtp_fixtures.py OUTDIR [SMALL] writes, for each of moe, dense and next, a folder OUTDIR/NAME (the
weight files of SMALL/NAME, default golden/hf/small, as links; a file with the tensors mtp.*; config
and index) and OUTDIR/NAME.expect.safetensors:

  tokens, next        the sequence; entry t takes the hidden state of token t and next[t]: the token
                      after it, and for the last one the choice of the model (largest logit)
  hidden, logits      of transformers in float32: after the final norm, and the target's logits
  hidden.before_norm  the same before the final norm, which a wrong head would use
  ...                 everything else from mtp.py, which describes its arithmetic

Run it with the interpreter that tools/gen/venv.sh makes. Before it writes anything, mtp.py
evaluates the full-attention layer of the trunk, with experts as single tensors and as stacks, and
the result is compared with transformers. This shows that mtp.py computes a decoder layer like
transformers. Only the wiring around that layer relies on the equations alone.

exit status: 0 done, 1 something does not fit or a limit was exceeded, 2 wrong use
"""

import json
import math
import os
import sys
from pathlib import Path

import numpy as np
import torch

from hf_models import (
    FixtureError,
    checkpoint_digest,
    load_strictly,
    metadata_for,
    prepare_torch,
    tokens_for,
    write_tensors,
)
from hf_taps import Taps
from mtp import Config, HeadError, Layer, Values, evaluate, read_checkpoint, to_float32

GENERATOR = "samebit tools/gen/mtp_fixtures.py 1"
SEED = 47  # the one with the widest margins of a few tried
TOKENS = 12
LIMIT = 1 << 20  # bytes per file written
TRUNK_LIMIT = 1e-5  # relative; float32 in transformers against mtp.py, one layer
MARGIN = 3e-3  # least margin between the chosen and the next one, for drafts and experts

# name: (class, storage of the MTP layer's experts, further members of config.json)
MODELS = {
    "moe": ("Qwen3_5MoeForCausalLM", "stack", {}),  # its trunk has single tensors
    "dense": ("Qwen3_5ForCausalLM", None, {}),
    "next": ("Qwen3NextForCausalLM", "single", {"norm_topk_prob": False}),  # others: True
}


class Uniform:
    """Reproducible values without a library: splitmix64, 24 bits of each output."""

    def __init__(self, seed: int):
        self._state = seed

    def values(self, count: int) -> np.ndarray:
        """COUNT values between -1 and 1."""
        steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = steps + np.uint64(self._state)
        self._state = int(z[-1])
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
        return (z >> np.uint64(40)).astype(np.float64) / (1 << 23) - 1.0 + 1.0 / (1 << 24)


def shapes_of(config: dict, storage: str | None) -> dict[str, tuple[int, ...]]:
    """The tensors of the block."""
    hidden, width = config["hidden_size"], config["head_dim"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    layer = "mtp.layers.0."
    shapes: dict[str, tuple[int, ...]] = {
        "mtp.pre_fc_norm_embedding.weight": (hidden,),
        "mtp.pre_fc_norm_hidden.weight": (hidden,),
        "mtp.fc.weight": (hidden, 2 * hidden),
        "mtp.norm.weight": (hidden,),
        layer + "input_layernorm.weight": (hidden,),
        layer + "post_attention_layernorm.weight": (hidden,),
        layer + "self_attn.q_proj.weight": (heads * 2 * width, hidden),
        layer + "self_attn.k_proj.weight": (kv_heads * width, hidden),
        layer + "self_attn.v_proj.weight": (kv_heads * width, hidden),
        layer + "self_attn.o_proj.weight": (hidden, heads * width),
        layer + "self_attn.q_norm.weight": (width,),
        layer + "self_attn.k_norm.weight": (width,),
    }

    def mlp(prefix: str, inner: int) -> None:
        shapes[prefix + "gate_proj.weight"] = shapes[prefix + "up_proj.weight"] = (inner, hidden)
        shapes[prefix + "down_proj.weight"] = (hidden, inner)

    if storage is None:
        mlp(layer + "mlp.", config["intermediate_size"])
        return shapes
    experts, inner = config["num_experts"], config["moe_intermediate_size"]
    shapes[layer + "mlp.gate.weight"] = (experts, hidden)
    shapes[layer + "mlp.shared_expert_gate.weight"] = (1, hidden)
    mlp(layer + "mlp.shared_expert.", config["shared_expert_intermediate_size"])
    if storage == "single":
        for expert in range(experts):
            mlp(f"{layer}mlp.experts.{expert}.", inner)
    else:
        shapes[layer + "mlp.experts.gate_up_proj"] = (experts, 2 * inner, hidden)
        shapes[layer + "mlp.experts.down_proj"] = (experts, hidden, inner)
    return shapes


def block(config: dict, storage: str | None) -> dict[str, torch.Tensor]:
    """The tensors mtp.*: norm weights of both signs and not near 0, so that 1 + w shows; matrices
    that preserve the size of vectors; a steeper router, so that choices have a margin."""
    source = Uniform(SEED)
    dtype = getattr(torch, config["dtype"])
    tensors = {}
    for name, shape in sorted(shapes_of(config, storage).items()):
        values = source.values(math.prod(shape))
        if len(shape) == 1:
            values = np.sign(values) * (0.2 + 0.4 * np.abs(values))
        else:
            steep = 3.0 if name.endswith("mlp.gate.weight") else 1.0
            values = values * steep * math.sqrt(3.0 / shape[-1])
        tensors[name] = torch.from_numpy(values.reshape(shape)).to(torch.float32).to(dtype)
    return tensors


def write_folder(source: Path, folder: Path, storage: str | None, fields: dict) -> None:
    """SOURCE with an MTP block, and FIELDS in its config, as FOLDER."""
    if folder.exists():
        raise FixtureError(f"{folder}: exists; remove it first")
    folder.mkdir(parents=True)
    config = json.loads((source / "config.json").read_text())
    files = sorted(source.glob("*.safetensors"))
    count = len(files) + 1
    weight_map = {}
    total = 0
    for number, file in enumerate(files, 1):
        name = f"model-{number:05d}-of-{count:05d}.safetensors"
        (folder / name).symlink_to(os.path.relpath(file, folder))
        keys, size = shard_contents(file)
        weight_map |= {key: name for key in keys}
        total += size
    name = f"model-{count:05d}-of-{count:05d}.safetensors"
    write_tensors(folder / name, block(config, storage), {"format": "pt"})
    keys, size = shard_contents(folder / name)
    weight_map |= {key: name for key in keys}
    write_json(folder / "config.json", config | fields | {"mtp_num_hidden_layers": 1})
    index = {"metadata": {"total_size": total + size}, "weight_map": weight_map}
    write_json(folder / "model.safetensors.index.json", index)


def shard_contents(file: Path) -> tuple[list[str], int]:
    """Tensor names of a safetensors file, and the bytes of its tensors."""
    with open(file, "rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        header = json.loads(stream.read(length))
    header.pop("__metadata__", None)
    return list(header), max(entry["data_offsets"][1] for entry in header.values())


def write_json(path: Path, fields: dict) -> None:
    """Writes JSON like save_pretrained."""
    path.write_text(json.dumps(fields, indent=2, sort_keys=True) + "\n")


def trunk(folder: Path, class_name: str) -> Values:
    """The values of the sequence in transformers; checks mtp.py on one of its layers."""
    model = load_strictly(folder, class_name, torch.float32)
    tokens = tokens_for(TOKENS, model.config.vocab_size)
    last = len(model.model.layers) - 1
    taps = Taps(model, {last})
    with taps.watch():
        logits = model(input_ids=tokens.to(torch.int64)[None]).logits[0]
    stored, held = read_checkpoint(folder), held_tensors(model)
    for weights in (stored, held):  # experts as single tensors, and as the stacks of the class
        compare_layer(folder, weights, f"model.layers.{last}.", taps.values[last])
    chosen = logits[-1].argmax().to(torch.int32)[None]
    found = {
        "tokens": tokens,
        "next": torch.cat([tokens[1:], chosen]),
        "hidden": taps.hidden,
        "hidden.before_norm": taps.values[last]["output"],
        "logits": logits,
    }
    return {
        name: tensor.numpy().astype(np.float64 if tensor.is_floating_point() else np.int32)
        for name, tensor in found.items()
    }


def held_tensors(model: torch.nn.Module) -> Values:
    """The parameters in the layout of the class."""
    return {name: p.numpy().astype(np.float64) for name, p in model.named_parameters()}


def compare_layer(
    folder: Path, weights: Values, prefix: str, seen: dict[str, torch.Tensor]
) -> None:
    """Compares mtp.py's decoder layer with that of transformers."""
    layer = Layer(Config.read(folder), weights, prefix)
    cache, worst, compared = [], 0.0, set()

    def tap(name: str, value: np.ndarray) -> np.ndarray:
        nonlocal worst
        if name in seen:
            compared.add(name)
            recorded = seen[name][position].numpy().astype(np.float64).reshape(-1)
            difference = np.abs(recorded - value.reshape(-1)).max() / np.abs(recorded).max()
            worst = max(worst, float(difference))
        return value if value.dtype.kind == "i" else to_float32(value)

    for position, row in enumerate(seen["input"].numpy().astype(np.float64)):
        layer.step(row, position, cache, tap)
    if not worst < TRUNK_LIMIT:
        raise FixtureError(f"{folder}: {prefix} differs from transformers by {worst:.1e}")
    missed = sorted(seen.keys() - compared - {"input"})
    if missed:
        raise FixtureError(f"{folder}: {prefix} not compared: {', '.join(missed)}")
    print(f"{folder}: {len(compared)} values of {prefix} as in transformers, to {worst:.1e}")


def smallest_margin(values: Values, top_k: int) -> float:
    """Between the last chosen and the first not chosen, over all drafts and all routing."""

    def margin(logits: np.ndarray, count: int) -> float:
        ordered = np.sort(logits, axis=-1)[..., ::-1]
        return float((ordered[..., :count] - ordered[..., 1 : count + 1]).min())

    found = [margin(values["draft_logits"], 1)]
    if top_k:
        found += [margin(v, top_k) for k, v in values.items() if k.endswith(".mlp.gate")]
    return min(found)


def to_torch(values: Values) -> dict[str, torch.Tensor]:
    """Integers as I32, everything else as F32."""
    return {
        name: torch.from_numpy(np.asarray(v, np.int32 if v.dtype.kind == "i" else np.float32))
        for name, v in values.items()
    }


def make_one(outdir: Path, small: Path, name: str) -> None:
    """The folder and the recording of one model."""
    class_name, storage, fields = MODELS[name]
    folder = outdir / name
    write_folder(small / name, folder, storage, fields)
    inputs = trunk(folder, class_name)
    values, worst = evaluate(folder, inputs)
    margin = smallest_margin(values, Config.read(folder).top_k)
    if margin < MARGIN:
        raise FixtureError(f"{folder}: a choice has a margin of {margin:.1e} only")
    metadata = metadata_for(class_name, "f32") | {
        "arithmetic": "hidden, logits: transformers; others: float64 inside an operation,"
        " float32 between operations",
        "checkpoint": checkpoint_digest(folder),
        "generator": GENERATOR,
        "numpy": np.__version__,
    }
    expect = outdir / f"{name}.expect.safetensors"
    size = write_tensors(expect, to_torch(inputs | values), metadata)
    print(
        f"{expect}: {len(values)} tensors, {size / 1024:.1f} KiB, smallest margin {margin:.1e},"
        f" written differently {worst:.1e}"
    )
    if size > LIMIT:
        raise FixtureError(f"{expect}: {size} bytes, the limit is {LIMIT}")


def main() -> int:
    """The command line."""
    if len(sys.argv) not in (2, 3):
        print("usage: mtp_fixtures.py OUTDIR [SMALL]", file=sys.stderr)
        return 2
    small = Path(sys.argv[2] if len(sys.argv) == 3 else "golden/hf/small")
    try:
        prepare_torch()
        for name in MODELS:
            make_one(Path(sys.argv[1]), small, name)
    except (FixtureError, HeadError, OSError) as error:
        print(f"mtp_fixtures.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
