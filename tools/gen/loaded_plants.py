#!/usr/bin/env python3
"""Plants faults in a live model, for the comparison of loaded parameters with the files.

loaded_plants.py CKPT SOUND PLANTED loads CKPT (made by `samebit make --preset T1`) into the class
of transformers and writes two lists: of the loaded model, and of the same model after planting all
faults of plant(). The comments there give the expected results of `samebit check --loaded`;
tests/cli/check_loaded.sh repeats the check with recorded lists.

exit status: 0 done, 1 the model lacks the expected parameters
"""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "record"))

from params import load, record  # noqa: E402

LAYERS = "model.layers."


def half(weights: torch.Tensor) -> None:
    """RESCALED by 0.5: every value."""
    weights.mul_(0.5)


def third(weights: torch.Tensor) -> None:
    """RESCALED by about 0.3: bf16 rounds, and another program rounds differently."""
    weights.copy_((weights.double() * 0.3).to(weights.dtype))


def swap(one: torch.Tensor, other: torch.Tensor) -> None:
    """SWAPPED, both."""
    kept = one.clone()
    one.copy_(other)
    other.copy_(kept)


def plant(model: torch.nn.Module) -> None:
    """One fault of each kind."""
    named = dict(model.named_parameters())
    named[LAYERS + "0.mlp.shared_expert.up_proj.weight"].zero_()  # OTHER VALUES: all zero
    half(named[LAYERS + "0.linear_attn.out_proj.weight"])
    third(named[LAYERS + "1.linear_attn.out_proj.weight"])
    swap(named[LAYERS + "0.input_layernorm.weight"], named[LAYERS + "1.input_layernorm.weight"])
    experts = named[LAYERS + "2.mlp.experts.down_proj"]  # OTHER VALUES: slices 3 and 5
    swap(experts[3], experts[5])
    named[LAYERS + "1.post_attention_layernorm.weight"].add_(1)  # OTHER VALUES: plus 1
    del model.get_submodule(LAYERS + "0.linear_attn").dt_bias  # DROPPED
    gate = model.get_submodule(LAYERS + "1.mlp.gate")
    gate.weight = torch.nn.Parameter(gate.weight[:-1].clone())  # SHAPE
    model.register_parameter("stray", torch.nn.Parameter(torch.ones(3)))  # EXTRA


def main() -> int:
    """The command line."""
    if len(sys.argv) != 4:
        print("usage: loaded_plants.py CKPT SOUND PLANTED", file=sys.stderr)
        return 2
    folder, sound, planted = map(Path, sys.argv[1:])
    model, program = load(folder, "Qwen3_5MoeForCausalLM", "bfloat16")
    record(model, sound, program)
    try:
        with torch.no_grad():
            plant(model)
    except (KeyError, AttributeError) as error:
        print(f"loaded_plants.py: {error}", file=sys.stderr)
        return 1
    record(model, planted, program + ", with planted faults")
    return 0


if __name__ == "__main__":
    sys.exit(main())
