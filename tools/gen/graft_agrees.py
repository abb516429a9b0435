#!/usr/bin/env python3
"""Checks a grafted folder with transformers and compressed-tensors.

Runs with the environment venv-llmcompressor. The files that transformers finds by the index must
hold exactly the tensors of the index. And each linear module must be quantized by its tensors
exactly if the libraries' own matching of the configuration's lists says so.

usage: graft_agrees.py FOLDER...
Prints "FOLDER: ok" for each that agrees, and what is wrong with the others.
exit status: 0 all agree, 1 one does not
"""

import json
import sys
from pathlib import Path

import torch
from compressed_tensors.quantization import QuantizationConfig
from compressed_tensors.utils.match import is_match
from safetensors import safe_open
from transformers.quantizers.quantizers_utils import should_convert_module
from transformers.utils.hub import get_checkpoint_shard_files

CODES = ("weight_packed", "weight_scale", "weight_scale_inv", "qweight")
NO_LINEAR = ("embed_tokens", "pos_embed", "conv1d", "norm", "mlp.gate")


def tensors_by_index(folder: Path) -> dict[str, list[int]]:
    """All tensors with their shapes, opened as by transformers."""
    index = folder / "model.safetensors.index.json"
    files, metadata = get_checkpoint_shard_files(str(folder), str(index))
    shapes: dict[str, list[int]] = {}
    total = 0
    for file in files:
        with safe_open(file, framework="pt") as opened:
            for name in opened.keys():
                if name in shapes:
                    raise ValueError(f"{name} stands in two files")
                if metadata["weight_map"][name] != Path(file).name:
                    raise ValueError(f"{name} is not in the file that the index names")
                tensor = opened.get_tensor(name)
                shapes[name] = list(tensor.shape)
                total += tensor.numel() * tensor.element_size()
    if set(shapes) != set(metadata["all_checkpoint_keys"]):
        raise ValueError("the index names other tensors than the files hold")
    if total != metadata["total_size"]:
        raise ValueError(f"total_size is {metadata['total_size']}, the tensors have {total} bytes")
    return shapes


def modules_of(shapes: dict[str, list[int]]) -> dict[str, bool]:
    """Linear modules, and whether they are quantized; a stack is listed by the names of its
    experts."""
    modules: dict[str, bool] = {}
    for name, shape in shapes.items():
        module, _, part = name.rpartition(".")
        if part in ("gate_up_proj", "down_proj") and len(shape) == 3:
            modules[f"{module}.0.gate_proj"] = False
            modules[f"{module}.0.down_proj"] = False
        elif part in CODES:
            modules[module] = True
        elif part == "weight" and len(shape) == 2 and not module.endswith(NO_LINEAR):
            modules.setdefault(module, False)
    return modules


def declared_by(config: dict, module: str) -> bool:
    """True if the libraries would quantize a module of this name."""
    if config["quant_method"] == "fp8":
        return should_convert_module(module, config["modules_to_not_convert"])
    parsed = QuantizationConfig.model_validate(config)
    linear = torch.nn.Linear(1, 1, device="meta")
    targets = [t for group in parsed.config_groups.values() for t in group.targets]
    return is_match(module, linear, targets, parsed.ignore or [])


def check(folder: Path) -> int:
    """Prints the modules that do not agree; returns their number."""
    try:
        shapes = tensors_by_index(folder)
    except (ValueError, KeyError, OSError) as error:
        print(f"{folder}: {error}")
        return 1
    text = json.loads((folder / "config.json").read_text())
    config = text["quantization_config"]
    config = {key: value for key, value in config.items() if not key.startswith("_")}
    wrong = 0
    for module, quantized in modules_of(shapes).items():
        if declared_by(config, module) != quantized:
            print(f"{folder}: {module} is {'' if quantized else 'not '}quantized, the list differs")
            wrong += 1
    heads = text.get("text_config", text).get("mtp_num_hidden_layers")
    if any(name.startswith("mtp.") for name in shapes) != bool(heads):
        print(f"{folder}: mtp_num_hidden_layers is {heads}")
        wrong += 1
    if not wrong:
        print(f"{folder}: ok")
    return wrong


if __name__ == "__main__":
    sys.exit(1 if sum([check(Path(folder)) for folder in sys.argv[1:]]) else 0)
