"""Modules of a folder that are quantized by its declaration, with the library's own rules, but floats in the
files: an engine that follows the declaration looks for scales that do not exist.

Uses only the module that reads the declaration: compressed-tensors, or the FP8 quantizer of transformers.
"""

import json
from pathlib import Path

import torch
from safetensors import safe_open

FLOATS = ("BF16", "F16", "F32")
NOT_LINEAR = ("embed_tokens", "lm_head", "mlp.gate")  # a router is a separate parameter


def _matrices(folder: Path) -> list[str]:
    """The names of matrices of floats."""
    names = []
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            for name in sorted(file.keys()):
                part = file.get_slice(name)
                if name.endswith(".weight") and len(part.get_shape()) == 2 and part.get_dtype() in FLOATS:
                    names.append(name.removesuffix(".weight"))
    return names


def _by_compressed_tensors(declared: dict, names: list[str]) -> list[str]:
    from compressed_tensors.quantization import QuantizationConfig
    from compressed_tensors.utils.match import is_match

    config = QuantizationConfig.model_validate(declared)
    linear = torch.nn.Linear(1, 1)
    return [
        name
        for name in names
        if any(is_match(name, linear, group.targets, config.ignore) for group in config.config_groups.values())
    ]


def _by_fp8(declared: dict, names: list[str]) -> list[str]:
    from transformers.quantizers.quantizers_utils import should_convert_module

    kept = declared.get("modules_to_not_convert") or declared.get("ignored_layers") or []
    return [name for name in names if should_convert_module(name, kept)]


def claimed(folder: Path) -> list[str]:
    """Names of modules."""
    declared = json.loads((folder / "config.json").read_text()).get("quantization_config", {})
    names = [name for name in _matrices(folder) if not name.endswith(NOT_LINEAR)]
    method = declared.get("quant_method")
    if method == "compressed-tensors":
        return _by_compressed_tensors(declared, names)
    if method == "fp8":
        return _by_fp8(declared, names)
    return []
