"""A plain transformers model whose quantized layers compute with given weights.

For producers whose folders transformers cannot load on a CPU: the quantized weights are dequantized
by the library, everything else is the unquantized rest of the folder, in F32.
"""

import json
from collections.abc import Callable
from pathlib import Path

import quant.taps  # noqa: F401  (sets the environment before transformers is imported)

import torch
from safetensors.torch import load_file
from transformers import AutoConfig, Qwen3_5ForCausalLM, Qwen3_5MoeForCausalLM, Qwen3NextForCausalLM

from quant.files import FixtureError

CLASSES = {"moe": Qwen3_5MoeForCausalLM, "moe-mtp": Qwen3_5MoeForCausalLM}
CLASSES["dense"] = Qwen3_5ForCausalLM

CLASS_OF_TYPE = {
    "qwen3_5_moe_text": Qwen3_5MoeForCausalLM,
    "qwen3_5_text": Qwen3_5ForCausalLM,
    "qwen3_next": Qwen3NextForCausalLM,
}

# input of a layer -> input of its matrix product
Quantizer = Callable[[torch.Tensor], torch.Tensor]


class Linear(torch.nn.Module):
    """A linear layer without bias, after an activation quantizer."""

    def __init__(self, weight: torch.Tensor, quantizer: Quantizer | None = None):
        super().__init__()
        self.weight = torch.nn.Parameter(weight, requires_grad=False)
        self.quantizer = quantizer

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """rows [..., K] to [..., N]."""
        seen = rows if self.quantizer is None else self.quantizer(rows)
        return torch.nn.functional.linear(seen, self.weight)


class Expert(torch.nn.Module):
    """Three linear layers with the names of the checkpoints; they are set later."""

    gate_proj: torch.nn.Module
    up_proj: torch.nn.Module
    down_proj: torch.nn.Module

    def __init__(self):
        super().__init__()
        for name in ("gate_proj", "up_proj", "down_proj"):
            setattr(self, name, torch.nn.Identity())

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """SwiGLU."""
        return self.down_proj(
            torch.nn.functional.silu(self.gate_proj(rows)) * self.up_proj(rows)
        )


class Experts(torch.nn.ModuleList):
    """The routed experts as modules, in the order of operations of transformers' eager loop."""

    def forward(
        self, rows: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor
    ) -> torch.Tensor:
        """rows [T, H], ids and weights [T, k] to [T, H]."""
        out = torch.zeros_like(rows)
        for index, expert in enumerate(self):
            row, place = torch.where(ids == index)
            if row.numel():
                part = expert(rows[row]) * weights[row, place, None]
                out.index_add_(0, row, part.to(out.dtype))
        return out


def text_names(value):
    """VALUE (of a JSON file) with the module names of transformers' text classes."""
    return json.loads(json.dumps(value).replace("model.language_model.", "model."))


def class_of(config) -> type:
    """The transformers class for the text part of a configuration."""
    config = config.get_text_config()
    if config.model_type not in CLASS_OF_TYPE:
        raise FixtureError(f"model_type {config.model_type}: expected {', '.join(CLASS_OF_TYPE)}")
    return CLASS_OF_TYPE[config.model_type]


def tensors_of(folder: Path) -> dict[str, torch.Tensor]:
    """Every tensor of a folder."""
    out = {}
    for file in sorted(folder.glob("*.safetensors")):
        out |= load_file(file)
    return out


def build(
    folder: Path,
    kind: str,
    weights: dict[str, torch.Tensor],
    quantizers: dict[str, Quantizer] | None = None,
) -> torch.nn.Module:
    """The F32 model of FOLDER with WEIGHTS [N, K] in its quantized layers."""
    config = AutoConfig.from_pretrained(folder)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    model = CLASSES[kind]._from_config(
        config, dtype=torch.float32, attn_implementation="eager"
    )
    if kind != "dense":
        for layer in model.model.layers:
            layer.mlp.experts = Experts([Expert() for _ in range(config.num_experts)])
    for name, weight in weights.items():
        if not name.startswith("mtp."):
            quantizer = (quantizers or {}).get(name)
            model.set_submodule(name, Linear(weight.float(), quantizer))
    rest = {
        name: tensor.float()
        for name, tensor in tensors_of(folder).items()
        if name.rpartition(".")[0] not in weights and not name.startswith("mtp.")
    }
    if config.tie_word_embeddings:  # the file stores the weight once
        rest["lm_head.weight"] = rest["model.embed_tokens.weight"]
    wrong = model.load_state_dict(rest, strict=False)
    missing = [key for key in wrong.missing_keys if key.rpartition(".")[0] not in weights]
    if missing or wrong.unexpected_keys:
        raise FixtureError(f"{folder}: missing {missing}, unexpected {wrong.unexpected_keys}")
    return model
