"""AutoRound folders, dequantized by the pure torch layers that AutoRound uses on a CPU.

Loading a folder back: auto_round 0.16.1 has a CPU layer only for auto_round:auto_gptq. The AWQ
packing gets a layer without weights ("auto_round:fake"). `gptq` requires optimum and `awq`
gptqmodel, which have no pure CPU installation here. So the logits are those of a plain model with
the library's dequantized weights, and for auto_round:auto_gptq also those of the loaded folder.
"""

import json
import shutil
from pathlib import Path
from unittest.mock import patch

import quant.taps  # noqa: F401  (sets the environment before transformers is imported)

import torch
from auto_round import AutoRound
from auto_round.export.export_to_awq.utils import dequantize_gemm
from auto_round_extension.torch.qlinear_torch_zp import QuantLinear
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from quant import dense, expect, hfload, inputs
from quant.files import FixtureError, Tensor
from quant.recipes import AUTOROUND, AutoRoundRecipe
from quant.taps import run

ROWS, LENGTH = 4, 32  # of the calibration data
SAME_LOGITS = 1e-5  # relative to the largest: one model computed in two orders, F32


LAW = {
    "gptq": {
        "F16": "auto_round_extension.torch.qlinear_torch_zp.QuantLinear, the operand of its matrix"
        " product: F16(scale * (q - (z + 1)))",
        "F32": "the same layer with its scales converted to F32",
    },
    "awq": {
        "F16": "auto_round.export.export_to_awq.utils.dequantize_gemm: F16((q - z) * scale)",
        "F32": "the same function with the scales converted to F32",
    },
}


def tokenizer() -> PreTrainedTokenizerFast:
    """One word for each id: AutoRound needs a tokenizer even for tokenised data."""
    words = {f"t{i}": i for i in range(inputs.VOCABULARY)}
    model = models.WordLevel(words, unk_token="t0")
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(model), unk_token="t0", pad_token="t0"
    )


def calibration() -> list[torch.Tensor]:
    """A few rows of pseudo-random tokens."""
    return [
        torch.tensor(
            [[(7 * i * i + 13 * i + 5 + 31 * r) % inputs.VOCABULARY for i in range(LENGTH)]]
        )
        for r in range(ROWS)
    ]


def quantize(source: Path, folder: Path, kind: str, recipe: AutoRoundRecipe) -> None:
    """Let AutoRound quantize SOURCE and write FOLDER."""
    model = dense.CLASSES[kind].from_pretrained(
        source, dtype="auto", attn_implementation="eager"
    )
    how = {"bits": recipe.bits, "group_size": recipe.group, "sym": recipe.symmetric}
    if recipe.scheme is not None:
        how = {"scheme": recipe.scheme}
    rounder = AutoRound(
        model,
        tokenizer(),
        **how,
        iters=recipe.iters,
        seqlen=LENGTH,
        nsamples=ROWS,
        batch_size=1,
        device_map="cpu",
        dataset=calibration(),
        enable_torch_compile=False,
    )
    work = folder.with_name(folder.name + ".work")
    with torch.enable_grad():
        rounder.quantize_and_save(work, format=recipe.form)
    written = [path.parent for path in work.rglob("config.json")]
    if len(written) != 1:
        raise FixtureError(f"{work}: {len(written)} folders with a config.json")
    shutil.move(written[0], folder)  # AutoRound makes a subfolder in the given folder
    shutil.rmtree(work, ignore_errors=True)


def gptq_layer(
    parts: dict[str, torch.Tensor], recipe: AutoRoundRecipe, scales: torch.Tensor
) -> torch.Tensor:
    """The weight [N, K] of a layer in GPTQ packing.

    Checks g_idx but does not pass it on: with g_idx, the layer of auto_round 0.16.1 cuts the N
    columns of scales to K.
    """
    columns = parts["qweight"].shape[0] * 32 // recipe.bits
    rows = parts["qweight"].shape[1]
    layer = QuantLinear(recipe.bits, recipe.group, columns, rows, False)
    layer.qweight, layer.qzeros, layer.scales = parts["qweight"], parts["qzeros"], scales
    if "g_idx" in parts:
        straight = torch.arange(columns, dtype=torch.int32) // recipe.group
        if not torch.equal(parts["g_idx"], straight):
            raise FixtureError("g_idx is not k / group_size")
    seen = []

    def product(rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        seen.append(weight)
        return rows @ weight

    # The layer has no function that returns its weight; a product with the identity would lose -0.
    with patch("torch.matmul", product):
        layer(torch.zeros(1, columns, dtype=scales.dtype))
    return seen[0].T.contiguous()


def dequantized(folder: Path, recipe: AutoRoundRecipe) -> expect.Weights:
    """Every quantized weight of FOLDER, dequantized by the library's own code."""
    tensors = dense.tensors_of(folder)
    weights: expect.Weights = {}
    for name in tensors:
        module, _, part = name.rpartition(".")
        if part != "qweight":
            continue
        parts = {
            key: tensors[f"{module}.{key}"]
            for key in ("qweight", "qzeros", "scales", "g_idx")
            if f"{module}.{key}" in tensors
        }
        if "awq" in packing(folder):
            both = [
                dequantize_gemm(
                    parts["qweight"], parts["qzeros"], scales, recipe.bits, recipe.group
                ).T.contiguous()
                for scales in (parts["scales"], parts["scales"].float())
            ]
        else:
            both = [
                gptq_layer(parts, recipe, scales)
                for scales in (parts["scales"], parts["scales"].float())
            ]
        weights[module] = {"F16": both[0].half(), "F32": both[1].float()}
        if not torch.equal(weights[module]["F16"].float(), both[0].float()):
            raise FixtureError(f"{module}: the library's weight is not F16")
    return weights


def packing(folder: Path) -> str:
    """The packing in config.json."""
    fields = json.loads((folder / "config.json").read_text())["quantization_config"]
    return fields.get("packing_format", fields["quant_method"])


def loaded_run(folder: Path) -> dict[str, Tensor]:
    """The logits of FOLDER loaded by transformers and AutoRound, in BF16 (F16 weights)."""
    model, info = dense.CLASSES["moe"].from_pretrained(
        folder, dtype=torch.bfloat16, attn_implementation="eager", output_loading_info=True
    )
    if info["missing_keys"] or info["unexpected_keys"]:
        raise FixtureError(f"{folder}: transformers does not load it: {info}")
    return run(model, (), "bf16.")


def record_fp8(folder: Path, kind: str) -> str:
    """Record an FP8 folder, which transformers loads (without layers of AutoRound)."""
    weights, runs = hfload.fp8(folder)
    plain = {name: values["F32"] for name, values in weights.items()}
    again = run(dense.build(folder, kind, plain), weights, "")
    one, two = (side["logits"].array for side in (runs, again))
    if abs(one - two).max() > SAME_LOGITS * abs(one).max():
        raise FixtureError(f"{folder}: the logits of linear and of stacked experts differ")
    metadata = expect.versions("auto-round") | {
        "producer": "auto_round AutoRound, scheme FP8_BLOCK, format fp8, iters 0",
        "law": hfload.LAW,
        "logits_from": "transformers in F32 with its own F32 dequantized weights, no activation"
        " quantizer; bf16.*: transformers loads the folder, dtype BF16",
    }
    return expect.write(folder, folder, weights, runs | again, metadata)


def record(source: Path, folder: Path) -> str:
    """Quantize SOURCE into FOLDER, whose name is one of recipes.AUTOROUND, and record it."""
    kind, recipe = AUTOROUND[folder.name]
    quantize(source, folder, kind, recipe)
    if recipe.form == "fp8":
        return record_fp8(folder, kind)
    weights = dequantized(folder, recipe)
    if not weights:
        raise FixtureError(f"{folder}: no quantized module")
    plain = {name: values["F32"] for name, values in weights.items()}
    model = dense.build(folder, kind, plain)
    runs = run(model, [name for name in weights if not name.startswith("mtp.")], "")
    origin = "transformers in F32 with the library's F32 dequantized weights"
    if packing(folder) == "auto_round:auto_gptq":
        runs |= loaded_run(folder)
        origin += "; bf16.*: transformers and auto_round load the folder, BF16"
    law = LAW["awq" if "awq" in packing(folder) else "gptq"]
    metadata = expect.versions("auto-round") | {
        "producer": f"auto_round AutoRound, format {recipe.form}, bits {recipe.bits},"
        f" group_size {recipe.group}, sym {recipe.symmetric}, iters {recipe.iters}",
        "law.F16": law["F16"],
        "law.F32": law["F32"],
        "logits_from": origin,
    }
    return expect.write(folder, folder, weights, runs, metadata)
