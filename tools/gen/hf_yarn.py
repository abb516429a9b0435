"""The rotation "yarn": what transformers computes from a configuration (R-24 of docs/spec.md)."""

from argparse import Namespace

import torch
from transformers import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

from hf_models import metadata_for, write_tensors

POSITIONS = (0, 1, 77, 32767, 131071)
# theta, head_dim, factor, original_max_position_embeddings, attention_factor or 0
CASES = (
    (1e6, 128, 4.0, 32768, 0.0),  # as Qwen recommends for its models of 40960 positions
    (1e6, 128, 2.0, 32768, 0.0),
    (1e7, 128, 4.0, 262144, 0.0),
    (1e6, 64, 3.0, 32768, 0.0),  # 1/3 is no binary fraction
    (1e6, 64, 4.0, 64, 1.0),  # low is cut at 0
    (1e4, 96, 40.0, 4096, 0.75),  # exponents that are no binary fractions
    (1e6, 128, 1.0, 32768, 0.0),
)


def yarn(args: Namespace) -> int:
    """The `yarn` subcommand."""
    tensors = {"position": torch.tensor(POSITIONS, dtype=torch.int32)}
    for number, (theta, head_dim, factor, original, attention) in enumerate(CASES):
        rope = {"rope_type": "yarn", "rope_theta": theta, "factor": factor, "original_max_position_embeddings": original}
        if attention:
            rope["attention_factor"] = attention
        config = Qwen3Config(head_dim=head_dim, max_position_embeddings=int(factor * original), rope_parameters=rope)
        module = Qwen3RotaryEmbedding(config)
        cosine, sine = module(torch.zeros(1), tensors["position"][None].long())
        tensors[f"{number}.case"] = torch.tensor([theta, head_dim, factor, original, attention], dtype=torch.float32)
        tensors[f"{number}.inv_freq"] = module.inv_freq
        tensors[f"{number}.attention"] = torch.tensor([module.attention_scaling], dtype=torch.float32)
        tensors[f"{number}.cos"] = cosine[0, :, : head_dim // 2]
        tensors[f"{number}.sin"] = sine[0, :, : head_dim // 2]
    size = write_tensors(args.output, tensors, metadata_for("Qwen3RotaryEmbedding", "f32"))
    print(f"{args.output}: {len(CASES)} cases, {size / 1024:.1f} KiB")
    return 0
