"""Activation vectors: chosen inputs of a linear layer, quantized by compressed-tensors.

Calls its functions like its quantized layers do: scales from the input (or the stored scale), then
quantize and dequantize in one pass. No arithmetic is repeated here.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from compressed_tensors.quantization import QuantizationArgs
from compressed_tensors.quantization.lifecycle.forward import fake_quantize
from compressed_tensors.quantization.utils import compute_dynamic_scales_and_zp

from quant.files import Tensor, mix64, write_tensors

ROWS = 8
COLS = 256
STATIC_SCALE = 0.0291748046875  # BF16 numbers, as llm-compressor stores static scales
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Scheme:
    """One way to quantize an input, under the global scale or the static scale of a file."""

    name: str
    args: QuantizationArgs
    global_scale: float | None = None
    static_scale: float | None = None


def nvfp4() -> QuantizationArgs:
    """Groups of 16 under a global scale."""
    return QuantizationArgs(
        num_bits=4, type="float", strategy="tensor_group", symmetric=True, dynamic="local",
        group_size=16, scale_dtype=torch.float8_e4m3fn, zp_dtype=torch.float8_e4m3fn,
    )


def groups(bits: int, size: int, scale_dtype: torch.dtype | None) -> QuantizationArgs:
    """Groups of a row with their own scales."""
    return QuantizationArgs(
        num_bits=bits, type="float", strategy="group", symmetric=True, dynamic=True,
        group_size=size, scale_dtype=scale_dtype, zp_dtype=scale_dtype,
    )


def whole(strategy: str, dynamic: bool) -> QuantizationArgs:
    """One scale per row, or for everything."""
    return QuantizationArgs(
        num_bits=8, type="float", strategy=strategy, symmetric=True, dynamic=dynamic
    )


SCHEMES = (
    Scheme("nvfp4", nvfp4(), global_scale=2688 / 11.0625),
    Scheme("nvfp4-one", nvfp4(), global_scale=1.0),
    Scheme("fp8-group", groups(8, 128, None)),
    Scheme("fp8-token", whole("token", True)),
    Scheme("fp8-static", whole("tensor", False), static_scale=STATIC_SCALE),
    Scheme("mxfp4", groups(4, 32, torch.uint8)),
    Scheme("mxfp8", groups(8, 32, torch.uint8)),
)


def inputs() -> np.ndarray:
    """Rows similar to activations, including outliers, zeros, ties and very small groups."""
    bits = mix64(np.arange(ROWS * COLS * 4), 42).reshape(ROWS, COLS, 4)
    normal = ((bits >> np.uint64(40)).astype(np.float64) / 2**24).sum(-1) - 2.0
    spread = mix64(np.arange(ROWS * COLS // 16), 43).reshape(ROWS, -1) % np.uint64(12)
    x = normal * np.repeat(2.0 ** (spread.astype(np.float64) - 6), 16, axis=1)
    x[0, 37] = 300.0
    x[1] = 0.0
    x[2, 16:48] = 0.0
    x[3, :64] *= 2.0**-30
    x[4] = np.tile([0.25, -0.75, 1.25, -1.75, 2.5, -3.5, 5.0, 6.0], COLS // 8)
    x[5] = np.tile([448.0, 17.0, -19.0, 0.0625, -1.0625, 2**-9, 2**-10, -0.0], COLS // 8)
    return x.astype(np.float32)


def quantized(scheme: Scheme, x: torch.Tensor) -> torch.Tensor:
    """x as multiplied by the layer. It has three dimensions, because otherwise compressed-tensors
    takes the scale of a "token" from all tokens."""
    shared = None
    if scheme.global_scale is not None:
        shared = torch.tensor([scheme.global_scale], dtype=torch.float32)
    if scheme.static_scale is not None:
        scale, zero = torch.tensor([scheme.static_scale], dtype=x.dtype), None
    else:
        scale, zero = compute_dynamic_scales_and_zp(x, scheme.args, torch.nn.Module(), shared)
    return fake_quantize(x, scale, zero, scheme.args, global_scale=shared)


def stored(x: torch.Tensor) -> Tensor:
    """A tensor in its own type."""
    if x.dtype == torch.bfloat16:
        return Tensor("BF16", x.view(torch.uint16).numpy())
    return Tensor("F32", x.numpy())


def record(path: Path) -> str:
    """Writes the file; returns a sentence about it."""
    x = torch.from_numpy(inputs())
    tensors = {}
    for name, dtype in TYPES.items():
        typed = x.to(dtype)
        tensors[f"in.{name}"] = stored(typed)
        for scheme in SCHEMES:
            out = quantized(scheme, typed.unsqueeze(0)).squeeze(0)
            if out.dtype != dtype:
                raise TypeError(f"{scheme.name}: {out.dtype} of {dtype}")
            tensors[f"{scheme.name}.{name}"] = stored(out)
    write_tensors(path, tensors, {"recorded_by": "tools/gen/quant/activations.py"})
    return f"{path}: {len(tensors)} tensors"


if __name__ == "__main__":
    import sys

    print(record(Path(sys.argv[1])))
