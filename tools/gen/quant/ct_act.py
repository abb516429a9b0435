"""The rows of act_inputs, quantized by compressed-tensors' activation quantizers."""

from pathlib import Path

import quant.taps  # noqa: F401  (sets the environment before transformers is imported)

import torch
from compressed_tensors.compressors.nvfp4.helpers import pack_fp4_to_uint8
from compressed_tensors.quantization import QuantizationArgs
from compressed_tensors.quantization.lifecycle.forward import fake_quantize, quantize
from compressed_tensors.quantization.quant_scheme import preset_name_to_scheme
from compressed_tensors.quantization.utils import compute_dynamic_scales_and_zp

from quant import act_inputs, expect
from quant.files import Tensor, write_tensors
from quant.taps import tensor

PRESETS = {
    "nvfp4": "NVFP4",
    "fp8-token": "FP8_DYNAMIC",
    "fp8-group128": "FP8_BLOCK",
    "mxfp4": "MXFP4",
    "mxfp8": "MXFP8",
}
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def codes_of(values: torch.Tensor, args: QuantizationArgs) -> torch.Tensor:
    """One byte per element: the E2M1 code in the low half, or the E4M3 code."""
    if args.num_bits == 8:
        return values.to(torch.float8_e4m3fn).view(torch.uint8)
    packed = pack_fp4_to_uint8(values.float())
    return torch.stack((packed & 15, packed >> 4), dim=-1).flatten(start_dim=1)


def one(
    name: str, rows: torch.Tensor, args: QuantizationArgs, divisor: float | None
) -> dict[str, Tensor]:
    """All tensors of one quantizer; rows [T, K]."""
    value = rows[None]  # the per-token strategy keeps two axes
    shared = None if divisor is None else torch.tensor([divisor])
    scale, zero_point = compute_dynamic_scales_and_zp(
        value=value, args=args, module=torch.nn.Module(), global_scale=shared
    )
    out = fake_quantize(value, scale, zero_point, args, global_scale=shared)
    plain = quantize(value, scale, zero_point, args, global_scale=shared)
    tensors = {
        f"act.{name}.in": tensor(rows),
        f"act.{name}.scale": tensor(scale[0]),
        f"act.{name}.codes": tensor(codes_of(plain[0], args)),
        f"act.{name}.out": tensor(out[0]),
    }
    if shared is not None:
        tensors[f"act.{name}.global"] = tensor(shared)
    return tensors


def record(output: Path) -> str:
    """Write the activation vectors; return a sentence about them."""
    source = torch.from_numpy(act_inputs.rows())
    tensors: dict[str, Tensor] = {}
    for label, dtype in TYPES.items():
        rows = source.to(dtype)
        for name, preset in PRESETS.items():
            args = preset_name_to_scheme(preset, ["Linear"]).input_activations
            if name != "nvfp4":
                tensors |= one(f"{name}.{label}", rows, args, None)
                continue
            for divisor in act_inputs.GLOBALS:
                tensors |= one(f"{name}-g{divisor:g}.{label}", rows, args, divisor)
    metadata = expect.versions("compressed-tensors") | {
        "producer": "compressed_tensors compute_dynamic_scales_and_zp, quantize, fake_quantize",
        "law": "global is a divisor; scale as the library returns it; codes of quantize();"
        " out of fake_quantize()",
    }
    size = write_tensors(output, tensors, metadata)
    return f"{output}: {len(tensors)} tensors, {size / 1024:.0f} KiB"
