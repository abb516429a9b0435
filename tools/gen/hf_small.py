"""Small random checkpoints written by transformers itself, with the values that it computes from
them.

They test that a reader understands the output of save_pretrained in this version: names, expert
layout, shards, config. The dimensions differ from the presets of the project, so that nothing fits
by accident.
"""

import json
import math
from argparse import Namespace
from pathlib import Path

import torch
import transformers

from hf_models import (
    FixtureError,
    load_strictly,
    metadata_for,
    model_class,
    tokens_for,
    write_tensors,
)
from hf_taps import Taps

SEED = 42
TOKENS = 9
LIMIT = 1 << 20  # bytes per checkpoint folder

_COMMON = {
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "vocab_size": 96,
    "num_attention_heads": 4,
    "linear_num_key_heads": 2,
    "max_position_embeddings": 256,
}

# name: (class, config class, dtype of the file, shard size or None, config)
MODELS = {
    # Two files, so that an index is needed.
    "moe": (
        "Qwen3_5MoeForCausalLM",
        "Qwen3_5MoeTextConfig",
        torch.bfloat16,
        "400KB",
        {
            "num_key_value_heads": 2,
            "head_dim": 32,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 16,
            "linear_value_head_dim": 16,
            "num_experts": 8,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "shared_expert_intermediate_size": 48,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000000.0,
                "partial_rotary_factor": 0.25,
                "mrope_section": [2, 1, 1],
                "mrope_interleaved": True,
            },
        },
    ),
    # Different sizes of keys and values reveal a transposed state; three value heads share a key
    # head.
    "dense": (
        "Qwen3_5ForCausalLM",
        "Qwen3_5TextConfig",
        torch.float32,
        None,
        {
            "num_key_value_heads": 1,
            "head_dim": 16,
            "linear_num_value_heads": 6,
            "linear_key_head_dim": 16,
            "linear_value_head_dim": 32,
            "intermediate_size": 80,
            "tie_word_embeddings": True,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "partial_rotary_factor": 0.5,
                "mrope_section": [2, 1, 1],
                "mrope_interleaved": True,
            },
        },
    ),
    "next": (
        "Qwen3NextForCausalLM",
        "Qwen3NextConfig",
        torch.bfloat16,
        None,
        {
            "num_key_value_heads": 2,
            "head_dim": 32,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 32,
            "linear_value_head_dim": 32,
            "num_experts": 6,
            "num_experts_per_tok": 3,
            "moe_intermediate_size": 16,
            "shared_expert_intermediate_size": 32,
            "intermediate_size": 64,
            "norm_topk_prob": True,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 5000000.0,
                "partial_rotary_factor": 0.25,
            },
        },
    ),
}


def perturb(model: torch.nn.Module) -> None:
    """Move every parameter away from its initial value, so that a wrong convention shows.

    A zero norm weight hides the "1 +", a dt_bias that is equal in all heads hides a permutation of
    heads. Matrices get a spread of 1 / sqrt(columns), which keeps activations near one.
    """
    generator = torch.Generator().manual_seed(SEED)
    for name, parameter in sorted(model.named_parameters()):
        if name.endswith("embed_tokens.weight"):
            spread = 1.0
        elif name.endswith("A_log"):
            spread = 0.5
        elif name.endswith("dt_bias"):
            spread = 3.0
        elif name.endswith("conv1d.weight"):
            spread = 0.5
        elif parameter.dim() == 1:
            spread = 0.3
        else:
            spread = 1.0 / math.sqrt(parameter.shape[-1])
        parameter += spread * torch.randn(parameter.shape, generator=generator)


def folder_bytes(folder: Path) -> int:
    """The bytes that a checkpoint folder adds to the repository."""
    return sum(file.stat().st_size for file in folder.iterdir())


def make_one(outdir: Path, name: str) -> None:
    """Write the folder and the expected values of one model."""
    class_name, config_name, dtype, shard_size, fields = MODELS[name]
    torch.manual_seed(SEED)
    config = getattr(transformers, config_name)(**_COMMON, **fields)
    model = model_class(class_name)(config)
    perturb(model)
    folder = outdir / name
    if folder.exists():
        raise FixtureError(f"{folder}: exists; remove it first")
    model.to(dtype).save_pretrained(
        folder, **({} if shard_size is None else {"max_shard_size": shard_size})
    )

    # Loaded again from the file: the expected values belong to the written weights.
    loaded = load_strictly(folder, class_name, torch.float32)
    tokens = tokens_for(TOKENS, config.vocab_size)
    taps = Taps(loaded, set())
    with taps.watch():
        logits = loaded(input_ids=tokens.to(torch.int64)[None]).logits[0]
    tensors = {"tokens": tokens, "hidden": taps.hidden, "logits": logits}
    tensors |= {f"router_ids.{layer}": ids for layer, ids in taps.router_ids.items()}
    size = write_tensors(
        outdir / f"{name}.expect.safetensors", tensors, metadata_for(class_name, "f32")
    )

    total = folder_bytes(folder)
    files = sorted(file.name for file in folder.iterdir())
    print(
        f"{folder}: {total / 1024:.1f} KiB in {json.dumps(files)},"
        f" expectation {size / 1024:.1f} KiB"
    )
    if total > LIMIT:
        raise FixtureError(f"{folder}: {total} bytes, the limit is {LIMIT}")


def small(args: Namespace) -> int:
    """The `small` subcommand."""
    args.outdir.mkdir(parents=True, exist_ok=True)
    for name in MODELS:
        make_one(args.outdir, name)
    return 0
