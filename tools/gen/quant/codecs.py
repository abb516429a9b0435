"""Codec vectors: chosen f32 values encoded, and all codes decoded, by ml_dtypes, numpy and torch.

E8M0 has no sign and no zero, E2M1 no NaN and no infinity: a library's result for such an input is
recorded, not judged.
"""

from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import torch

from quant.files import Tensor, mix64, write_tensors

INPUTS = 20000
ALL_CODES_UP_TO = 256  # wider formats have chosen codes and a digest: their tables are too large


@dataclass(frozen=True)
class Format:
    """One number format and its types in the libraries; torch has no element type for E2M1."""

    name: str
    bits: int
    mantissa: int
    numpy_type: type
    numpy_label: str
    torch_type: torch.dtype | None
    low: int  # f32 exponent fields between which half of the random inputs lie
    high: int


FORMATS = (
    Format("e2m1", 4, 1, ml_dtypes.float4_e2m1fn, "ml_dtypes", None, 123, 130),
    Format("e4m3fn", 8, 3, ml_dtypes.float8_e4m3fn, "ml_dtypes", torch.float8_e4m3fn, 115, 136),
    Format("e5m2", 8, 2, ml_dtypes.float8_e5m2, "ml_dtypes", torch.float8_e5m2, 108, 144),
    Format("e8m0", 8, 0, ml_dtypes.float8_e8m0fnu, "ml_dtypes", torch.float8_e8m0fnu, 0, 255),
    Format("bf16", 16, 7, ml_dtypes.bfloat16, "ml_dtypes", torch.bfloat16, 0, 255),
    Format("fp16", 16, 10, np.float16, "numpy", torch.float16, 100, 144),
)


def code_type(form: Format) -> np.dtype:
    """The unsigned integer that holds one code."""
    return np.dtype("<u2") if form.bits == 16 else np.dtype("u1")


def chosen_codes(form: Format) -> np.ndarray:
    """All codes, or for a 16-bit format those at both ends and in the middle of each binade, and
    some others."""
    if 1 << form.bits <= ALL_CODES_UP_TO:
        return np.arange(1 << form.bits, dtype=code_type(form))
    top = 1 << form.mantissa
    ends = np.array([0, 1, top // 2 - 1, top // 2, top - 2, top - 1])
    step = max(1, (1 << (16 - form.mantissa)) // 256)  # every second binade of BF16
    prefixes = np.arange(0, 1 << (16 - form.mantissa), step)
    edges = (prefixes[:, None] * top + ends).reshape(-1)
    last = np.array([0, 1, 2, 3]) * 0x4000 + 0x3F80  # the uppermost binades of both signs
    edges = np.concatenate([edges, (last[:, None] + np.arange(0x80)).reshape(-1)])
    other = mix64(np.arange(256), 16) & np.uint64(0xFFFF)
    codes = np.unique(np.concatenate([edges, other.astype(np.int64)]) & 0xFFFF)
    return codes.astype(code_type(form))


def decode_numpy(form: Format, codes: np.ndarray) -> np.ndarray:
    """The f32 bits of CODES by ml_dtypes (FP16: by numpy)."""
    with np.errstate(invalid="ignore"):  # a signalling NaN is a code too
        return codes.view(form.numpy_type).astype(np.float32).view(np.uint32)


def decode_torch(form: Format, codes: np.ndarray) -> np.ndarray:
    """The f32 bits of CODES by torch."""
    return torch.from_numpy(codes).view(form.torch_type).to(torch.float32).numpy().view(np.uint32)


def encode_numpy(form: Format, inputs: np.ndarray) -> np.ndarray:
    """The codes of the f32 bits INPUTS by ml_dtypes (FP16: by numpy)."""
    with np.errstate(over="ignore", invalid="ignore"):
        return inputs.view(np.float32).astype(form.numpy_type).view(code_type(form))


def encode_torch(form: Format, inputs: np.ndarray) -> np.ndarray:
    """The codes of the f32 bits INPUTS by torch, whose .to() does not saturate."""
    values = torch.from_numpy(inputs.view(np.float32)).to(form.torch_type)
    storage = torch.uint8 if form.bits <= 8 else torch.int16
    return values.view(storage).numpy().view(code_type(form))


def around(values: np.ndarray) -> np.ndarray:
    """The f32 bits of non-negative VALUES, of the next smaller and of the next larger number."""
    bits = values.astype(np.float32).view(np.uint32)
    return np.concatenate([bits, bits - np.minimum(bits, 1), bits + np.uint32(1)])


def encode_inputs(form: Format) -> np.ndarray:
    """INPUTS f32 bit patterns: all difficult cases, then pseudo-random ones."""
    magnitudes = chosen_codes(form)
    if form.name != "e8m0":
        magnitudes = magnitudes[magnitudes < 1 << (form.bits - 1)]
    bits = decode_numpy(form, magnitudes)
    value = np.sort(bits[bits < 0x7F800000].view(np.float32).astype(np.float64))
    if form.bits == 16:
        # Only for chosen codes; their upper neighbour is one step of the format away.
        above = decode_numpy(form, (magnitudes + 1).astype(code_type(form)))
        pairs = (bits < 0x7F800000) & (above < 0x7F800000)
        low, high = (x[pairs].view(np.float32).astype(np.float64) for x in (bits, above))
        middle = (low + high) / 2
    else:
        middle = (value[1:] + value[:-1]) / 2
    largest = value[-1]
    beyond = largest * np.array([1, 1 + 2.0**-4, 1 + 2.0**-3, 1.25, 1.5, 1.75, 2, 4, 1024])
    beyond = np.concatenate([beyond, largest * (1 + np.array([0.5, 1, 2]) * 2.0**-form.mantissa)])
    smallest = value[value > 0][0] * np.array([0.25, 0.5, 0.75, 1, 1.5, 1.75])
    with np.errstate(over="ignore"):
        real = np.concatenate([value, middle, beyond, smallest]).astype(np.float32)
    real = real[np.isfinite(real)]
    special = [0, 1, 2, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0x7F800000]
    special += [0x7F800001, 0x7FBFFFFF, 0x7FC00000, 0x7FFFFFFF, 0x3F800000, 0x3FB504F3, 0x3FB504F4]
    exact = np.concatenate([np.array(special, np.uint32), around(real)])
    exact = np.concatenate([exact, exact | np.uint32(0x80000000)])
    _, first = np.unique(exact, return_index=True)
    exact = exact[np.sort(first)]
    count = INPUTS - exact.size
    random = mix64(np.arange(count), form.mantissa + 64 * form.bits)
    wild = (random >> np.uint64(32)).astype(np.uint32)
    span = np.uint32(form.high - form.low)
    near = (wild & np.uint32(0x807FFFFF)) | (
        (np.uint32(form.low) + (wild >> np.uint32(23)) % span) << np.uint32(23)
    )
    return np.concatenate([exact, np.where(random & np.uint64(1), wild, near)])


def record(output: Path) -> str:
    """Write the codec vectors; return a sentence about them."""
    tensors: dict[str, Tensor] = {}
    metadata = {
        "generator": "samebit tools/gen/quant_fixtures.py codecs 1",
        "ml_dtypes": ml_dtypes.__version__,
        "numpy": np.__version__,
        "torch": torch.__version__,
    }
    for form in FORMATS:
        kind = "U16" if form.bits == 16 else "U8"
        codes, inputs = chosen_codes(form), encode_inputs(form)
        every = np.arange(1 << form.bits, dtype=code_type(form))
        tensors[f"{form.name}.codes"] = Tensor(kind, codes)
        tensors[f"{form.name}.in"] = Tensor("U32", inputs)
        sides = {form.numpy_label: (decode_numpy, encode_numpy)}
        if form.torch_type is not None:
            sides["torch"] = (decode_torch, encode_torch)
        for side, (decode, encode) in sides.items():
            tensors[f"{form.name}.decoded.{side}"] = Tensor("U32", decode(form, codes))
            tensors[f"{form.name}.{side}"] = Tensor(kind, encode(form, inputs))
            table = Tensor("U32", decode(form, every)).digest()
            metadata[f"{form.name}.decoded.{side}.xxh3_128"] = table
    size = write_tensors(output, tensors, metadata)
    return f"{output}: {len(tensors)} tensors, {size / 1024:.1f} KiB"
