"""Load a quantized folder from another source, and record its values.

compressed-tensors folders are loaded by quant.ct, which explains why. Folders with quant_method fp8
are loaded by transformers alone, which dequantizes them on a machine without a GPU: code times
weight_scale_inv in F32, rounded once to the type of the model. transformers 5.17 derives the block
size from the shapes, so N and K must be multiples of 128 or a single block; otherwise it is wrong
or refuses the folder.
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from quant import dense, expect
from quant.files import FixtureError, Tensor
from quant.taps import run

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, CompressedTensorsConfig

SUFFIX = ".weight_scale_inv"
LAW = "transformers Fp8Dequantize: F32 code * weight_scale_inv, rounded to the type"
LABELS = {"F32": torch.float32, "BF16": torch.bfloat16}


def text_folder(folder: Path, work: Path) -> Path:
    """FOLDER, or for a multimodal one a copy in WORK with the names of the text classes.

    transformers 5.17 renames such a folder itself, but then dequantizes FP8 weights to the type of
    the scales instead of the model's type.
    """
    tensors = dense.tensors_of(folder)
    if not any(name.startswith("model.language_model.") for name in tensors):
        return folder
    fields = json.loads((folder / "config.json").read_text())
    text = fields.get("text_config", fields)
    text["architectures"] = [dense.class_of(AutoConfig.from_pretrained(folder)).__name__]
    text["quantization_config"] = dense.text_names(fields["quantization_config"])
    (work / "config.json").write_text(json.dumps(text))
    kept = {
        name.replace("model.language_model.", "model."): value
        for name, value in tensors.items()
        if not name.startswith(("mtp.", "model.visual."))
    }
    save_file(kept, work / "model.safetensors", metadata={"format": "pt"})
    return work


def fp8_model(folder: Path, dtype: torch.dtype) -> torch.nn.Module:
    """The dequantized model of FOLDER."""
    with TemporaryDirectory() as work:
        text = text_folder(folder, Path(work))
        cls = dense.class_of(AutoConfig.from_pretrained(text))
        model, info = cls.from_pretrained(
            text, dtype=dtype, attn_implementation="eager", output_loading_info=True
        )
    for key in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        if info[key]:
            raise FixtureError(f"{folder}: {key}: {sorted(map(str, info[key]))[:8]}")
    return model


def fp8_weight(model: torch.nn.Module, name: str) -> torch.Tensor:
    """The weight [N, K] of a layer by its name in the folder; the model stacks its experts."""
    head, _, tail = name.partition(".mlp.experts.")
    if not tail:
        return model.get_submodule(name).weight.data
    experts = model.get_submodule(head + ".mlp.experts")
    index, projection = tail.split(".")
    if projection == "down_proj":
        return experts.down_proj.data[int(index)]
    halves = experts.gate_up_proj.data[int(index)].chunk(2)
    return halves[0 if projection == "gate_proj" else 1].contiguous()


def fp8(folder: Path) -> tuple[expect.Weights, dict[str, Tensor]]:
    """The dequantized weights of an FP8 folder, and its model's values in BF16 and in F32."""
    names = [
        name[: -len(SUFFIX)].replace("model.language_model.", "model.")
        for name in dense.tensors_of(folder)
        if name.endswith(SUFFIX) and not name.startswith("mtp.")
    ]
    if not names:
        raise FixtureError(f"{folder}: no {SUFFIX}")
    alone = [name for name in names if ".mlp.experts." not in name]
    weights: expect.Weights = {name: {} for name in names}
    runs: dict[str, Tensor] = {}
    for label, dtype in LABELS.items():
        model = fp8_model(folder, dtype)
        for name in names:
            weights[name][label] = fp8_weight(model, name)
        runs |= run(model, alone, "" if label == "F32" else "bf16.")
    return weights, runs


def alone(folder: Path, weights: expect.Weights) -> str:
    """A sentence with the number of weights of a compressed-tensors folder that transformers alone
    gets right."""
    try:
        with TemporaryDirectory() as work:
            text = text_folder(folder, Path(work))
            model = dense.class_of(AutoConfig.from_pretrained(text)).from_pretrained(
                text,
                dtype=torch.bfloat16,
                attn_implementation="eager",
                quantization_config=CompressedTensorsConfig(dequantize=True),
            )
        right = sum(
            torch.equal(fp8_weight(model, name), values["BF16"])
            for name, values in weights.items()
        )
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        return f"transformers alone: {type(error).__name__}"
    return f"transformers alone: {right} of {len(weights)} weights equal"


def load(folder: Path, output: Path) -> str:
    """Record FOLDER in OUTPUT.expect.*; return a sentence about them."""
    fields = json.loads((folder / "config.json").read_text())
    method = fields.get("quantization_config", {}).get("quant_method")
    if method == "compressed-tensors":
        from quant import ct

        weights, runs = ct.describe(folder)
        words = {"transformers_alone": alone(folder, weights)}
        metadata = ct.metadata("not known") | words
        written = expect.write(folder, output, weights, runs, metadata, limited=False)
        return f"{written}; {words['transformers_alone']}"
    if method != "fp8":
        raise FixtureError(f"{folder}: quant_method {method}: expected compressed-tensors or fp8")
    weights, runs = fp8(folder)
    metadata = expect.versions() | {
        "producer": "not known",
        "law": LAW,
        "logits_from": "transformers loads the folder and dequantizes it; no activation"
        " quantizer; bf16.*: dtype BF16; others: dtype F32",
    }
    return expect.write(folder, output, weights, runs, metadata, limited=False)
