"""ModelOpt folders, dequantized by ModelOpt's tensor classes.

ModelOpt's fake quantizer for NVFP4 activations asserts a CUDA tensor, so the activations of the
NVFP4 model are quantized by NVFP4QTensor, which is ModelOpt's real quantizer and runs on a CPU.
"""

from pathlib import Path

import quant.taps  # noqa: F401  (sets the environment before transformers is imported)

import modelopt.torch.quantization as mtq
import torch
from modelopt.torch.export import export_hf_checkpoint
from modelopt.torch.quantization.config import QuantizerAttributeConfig
from modelopt.torch.quantization.nn import TensorQuantizer
from modelopt.torch.quantization.qtensor import FP8QTensor, NVFP4QTensor

from quant import dense, expect, inputs
from quant.files import FixtureError
from quant.recipes import MODELOPT
from quant.taps import run

BLOCK = 16
ROWS, LENGTH = 4, 32  # of the calibration data

LAW = {
    "NVFP4_DEFAULT_CFG": "NVFP4QTensor.dequantize: fp32(fp32(scale * weight_scale_2) * code),"
    " rounded to the type",
    "FP8_DEFAULT_CFG": "FP8QTensor.dequantize: code * scale with both converted to the type first",
    "FP8_2D_BLOCKWISE_WEIGHT_ONLY_CFG": "FP8QTensor.dequantize with blocks of 128 x 128:"
    " code * scale with both converted to the type first",
}
ACTIVATIONS = {
    "NVFP4_DEFAULT_CFG": "NVFP4QTensor.quantize with input_scale as second scale, dequantized",
    "FP8_DEFAULT_CFG": "TensorQuantizer (4, 3), amax = 448 * input_scale",
    "FP8_2D_BLOCKWISE_WEIGHT_ONLY_CFG": "none",
}


def calibrate(model: torch.nn.Module) -> None:
    """Run a few rows of pseudo-random tokens."""
    for row in range(ROWS):
        ids = [(7 * i * i + 13 * i + 5 + 31 * row) % inputs.VOCABULARY for i in range(LENGTH)]
        model(torch.tensor([ids]))


def quantize(source: Path, folder: Path, kind: str, config: str) -> None:
    """Let ModelOpt quantize SOURCE and write FOLDER."""
    model = dense.CLASSES[kind].from_pretrained(
        source, dtype="auto", attn_implementation="eager"
    )
    model.eval()
    mtq.quantize(model, getattr(mtq, config), calibrate)
    with torch.inference_mode():
        export_hf_checkpoint(model, export_dir=folder)


def nvfp4_weight(parts: dict[str, torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
    """The weight [N, K] of an NVFP4 layer."""
    packed = parts["weight"]
    shape = torch.Size((packed.shape[0], packed.shape[1] * 2))
    return NVFP4QTensor(shape, dtype, packed).dequantize(
        dtype,
        scale=parts["weight_scale"],
        double_scale=parts["weight_scale_2"],
        block_sizes={-1: BLOCK},
    )


def fp8_weight(parts: dict[str, torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
    """The weight [N, K] of an FP8 layer."""
    codes, scale = parts["weight"], parts["weight_scale"]
    blocks = {}
    if scale.dim() == 4:  # [N/128, 1, K/128, 1]
        scale = scale.squeeze(3).squeeze(1)
        blocks = {"block_sizes": {-1: 128, -2: 128}}
    return FP8QTensor(codes.shape, dtype, codes).dequantize(dtype, scale=scale, **blocks)


def parts_of(folder: Path) -> dict[str, dict[str, torch.Tensor]]:
    """The tensors of every quantized layer of FOLDER."""
    layers: dict[str, dict[str, torch.Tensor]] = {}
    for name, tensor in dense.tensors_of(folder).items():
        module, _, part = name.rpartition(".")
        layers.setdefault(module, {})[part] = tensor
    return {name: parts for name, parts in layers.items() if "weight_scale" in parts}


def nvfp4_activations(input_scale: torch.Tensor) -> dense.Quantizer:
    """Quantize and dequantize rows with NVFP4QTensor."""

    def quantizer(rows: torch.Tensor) -> torch.Tensor:
        flat = rows.reshape(-1, rows.shape[-1])
        packed, scale, second = NVFP4QTensor.quantize(
            flat.clone(), BLOCK, weights_scaling_factor_2=input_scale
        )
        seen = packed.dequantize(
            rows.dtype, scale=scale, double_scale=second, block_sizes={-1: BLOCK}
        )
        return seen.reshape(rows.shape)

    return quantizer


def fp8_activations(input_scale: torch.Tensor) -> dense.Quantizer:
    """ModelOpt's fake quantizer with a static scale."""
    quantizer = TensorQuantizer(QuantizerAttributeConfig(num_bits=(4, 3), axis=None))
    quantizer.amax = input_scale * 448.0
    return lambda rows: quantizer(rows)  # not a module, because its amax is no weight of the model


def record(source: Path, folder: Path) -> str:
    """Quantize SOURCE into FOLDER, whose name is one of recipes.MODELOPT, and record it."""
    kind, config = MODELOPT[folder.name]
    quantize(source, folder, kind, config)
    weights: expect.Weights = {}
    quantizers: dict[str, dense.Quantizer] = {}
    for name, parts in parts_of(folder).items():
        four = parts["weight"].dtype == torch.uint8
        weight = nvfp4_weight if four else fp8_weight
        weights[name] = {
            "F32": weight(parts, torch.float32),
            "BF16": weight(parts, torch.bfloat16),
        }
        if "input_scale" in parts:
            make = nvfp4_activations if four else fp8_activations
            quantizers[name] = make(parts["input_scale"])
    if not weights:
        raise FixtureError(f"{folder}: no quantized module")
    plain = {name: values["F32"] for name, values in weights.items()}
    runs = run(dense.build(folder, kind, plain), weights, "a16.") | run(
        dense.build(folder, kind, plain, quantizers), weights, ""
    )
    metadata = expect.versions("nvidia-modelopt") | {
        "producer": f"modelopt mtq.quantize {config}, export_hf_checkpoint",
        "law": LAW[config],
        "logits_from": "transformers in F32 with ModelOpt's F32 dequantized weights; activation"
        f" quantizer: {ACTIVATIONS[config]}; a16.*: without activation quantizers",
    }
    return expect.write(folder, folder, weights, runs, metadata)
