"""The rows of act_inputs, quantized by ModelOpt's activation quantizers."""

from pathlib import Path

import quant.taps  # noqa: F401  (sets the environment before transformers is imported)

import torch
from modelopt.torch.quantization.qtensor import NVFP4QTensor

from quant import act_inputs, expect
from quant.files import Tensor, write_tensors
from quant.mopt import BLOCK, fp8_activations
from quant.taps import tensor

TYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def nvfp4(name: str, rows: torch.Tensor, multiplier: torch.Tensor) -> dict[str, Tensor]:
    """All tensors of NVFP4QTensor with the second scale MULTIPLIER."""
    packed, scale, second = NVFP4QTensor.quantize(
        rows.clone(), BLOCK, weights_scaling_factor_2=multiplier
    )
    data = packed._quantized_data
    out = packed.dequantize(
        rows.dtype, scale=scale, double_scale=second, block_sizes={-1: BLOCK}
    )
    return {
        f"act.{name}.in": tensor(rows),
        f"act.{name}.global": tensor(multiplier.reshape(1)),
        f"act.{name}.scale": tensor(scale),
        f"act.{name}.codes": tensor(torch.stack((data & 15, data >> 4), dim=-1).flatten(1)),
        f"act.{name}.out": tensor(out),
    }


def record(output: Path) -> str:
    """Write the activation vectors; return a sentence about them."""
    source = torch.from_numpy(act_inputs.rows())
    tensors: dict[str, Tensor] = {}
    for label, dtype in TYPES.items():
        rows = source.to(dtype)
        for divisor in act_inputs.GLOBALS:
            multiplier = torch.tensor(1.0) / divisor
            tensors |= nvfp4(f"nvfp4-g{divisor:g}.{label}", rows, multiplier)
        for amax in (448.0, 11.0625):
            name = f"fp8-tensor-a{amax:g}.{label}"
            scale = torch.tensor(amax) / 448.0
            tensors[f"act.{name}.in"] = tensor(rows)
            tensors[f"act.{name}.global"] = tensor(scale.reshape(1))
            tensors[f"act.{name}.out"] = tensor(fp8_activations(scale)(rows))
    metadata = expect.versions("nvidia-modelopt") | {
        "producer": "modelopt NVFP4QTensor.quantize and dequantize; TensorQuantizer (4, 3)",
        "law": "global is a multiplier (input_scale); TensorQuantizer gives no codes",
    }
    size = write_tensors(output, tensors, metadata)
    return f"{output}: {len(tensors)} tensors, {size / 1024:.0f} KiB"
