#!/usr/bin/env python3
"""Writes the list of a live PyTorch model's parameters for `samebit check CKPT --loaded LIST`.

In the process of the engine, after it has loaded its weights:

    from params import record
    record(model, "engine.json")

or from a shell, for a folder loaded by transformers:

    params.py CKPT LIST [--class Qwen3_5MoeForCausalLM] [--dtype bfloat16]

LIST is JSON, "samebit-loaded 1" (docs/check.md): per parameter and buffer the name, the shape, the
type, and a digest of the values. Floating-point values of 16 and 32 bits are hashed as
little-endian binary32, so the digest does not depend on their type in memory; everything else is
hashed as in memory. rms and max distinguish a scaled tensor from a foreign one. A tensor of three
dimensions has a digest per slice, to distinguish experts.

Needs torch and xxhash. exit status: 0 done, 1 something failed, 2 wrong use
"""

import argparse
import json
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import xxhash

FORMAT = "samebit-loaded 1"
FIRST = 16  # values that are listed themselves
CHUNK = 1 << 22  # elements converted at once

# The safetensors names of torch's types; by name, because some versions lack some types.
_NAMES = {
    "float64": "F64",
    "float32": "F32",
    "bfloat16": "BF16",
    "float16": "F16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e8m0fnu": "F8_E8M0",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
}
DTYPES = {
    getattr(torch, name): spelled for name, spelled in _NAMES.items() if hasattr(torch, name)
}
FLOATS = (torch.float32, torch.bfloat16, torch.float16)


class RecordError(Exception):
    """An error that the user can act on."""


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor without gradients and wrappers, with real values behind it."""
    tensor = tensor.detach()
    if hasattr(tensor, "full_tensor"):  # a DTensor has a part per rank
        tensor = tensor.full_tensor()
    if tensor.is_meta:
        raise RecordError("is on the meta device: the model was not loaded")
    if hasattr(tensor, "dequantize") and (tensor.is_quantized or type(tensor) is not torch.Tensor):
        if tensor.is_quantized or type(tensor).__name__.endswith("QuantizedTensor"):
            tensor = tensor.dequantize()
    return tensor


def chunks(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The elements in row-major order, on the CPU; floats as binary32."""
    flat = tensor.reshape(-1)
    for start in range(0, flat.numel(), CHUNK):
        piece = flat[start : start + CHUNK].cpu()
        yield piece.float() if piece.dtype in FLOATS else piece


def to_bytes(piece: torch.Tensor) -> bytes:
    """The bytes of a chunk, little-endian."""
    raw = piece.contiguous().view(torch.uint8)
    if sys.byteorder == "big" and piece.element_size() > 1:
        raw = raw.reshape(-1, piece.element_size()).flip(1).reshape(-1)
    return raw.numpy().tobytes()


def digest_of(tensor: torch.Tensor) -> str:
    """XXH3-128 of the values, most significant digit first."""
    state = xxhash.xxh3_128()
    for piece in chunks(tensor):
        state.update(to_bytes(piece))
    return state.hexdigest()


def size_of(tensor: torch.Tensor) -> dict[str, float]:
    """rms and largest magnitude; nothing if a value is not finite or there is none."""
    total, largest = 0.0, 0.0
    for piece in chunks(tensor):
        wide = piece.double()
        total += float((wide * wide).sum())
        largest = max(largest, float(wide.abs().max()))
    if not tensor.numel() or not math.isfinite(total):
        return {}
    # the order of the sum varies between machines; six digits do not
    return {"rms": float(f"{math.sqrt(total / tensor.numel()):.6g}"), "max": largest}


def first_of(tensor: torch.Tensor) -> dict[str, list[float]]:
    """The first values, to distinguish a factor from chance."""
    values = tensor.reshape(-1)[:FIRST].cpu().double().tolist()
    return {"first": values} if all(map(math.isfinite, values)) else {}


def entry(name: str, tensor: torch.Tensor, kind: str, parts: Any = None) -> dict[str, Any]:
    """One entry of the list."""
    try:
        tensor = plain(tensor)
    except RecordError as error:
        raise RecordError(f"{name}: {error}") from error
    if tensor.dtype not in DTYPES:
        raise RecordError(f"{name}: the type {tensor.dtype} has no name in safetensors")
    out: dict[str, Any] = {
        "name": name,
        "shape": list(tensor.shape),
        "dtype": DTYPES[tensor.dtype],
        "digest": digest_of(tensor),
        "kind": kind,
    }
    if tensor.dtype in FLOATS:
        out |= size_of(tensor) | first_of(tensor)
        if tensor.dim() == 3:
            out["slices"] = [digest_of(piece) for piece in tensor]
    if parts:
        out["parts"] = parts
    return out


def entries(
    model: torch.nn.Module, parts: dict[str, list[dict[str, Any]]]
) -> Iterator[dict[str, Any]]:
    """Parameters and buffers in order of name. Tied parameters are listed once."""
    named = [(name, tensor, "parameter") for name, tensor in model.named_parameters()]
    named += [(name, tensor, "buffer") for name, tensor in model.named_buffers()]
    for name, tensor, kind in sorted(named, key=lambda row: row[0]):
        yield entry(name, tensor, kind, parts.get(name))


def write_list(path: Path, rows: Iterator[dict[str, Any]], program: str) -> int:
    """Write the list to a temporary name, then rename it; return the number of parameters."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    count = 0
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write('{"format": %s,\n' % json.dumps(FORMAT))
            file.write(' "program": %s,\n "parameters": [' % json.dumps(program))
            for row in rows:
                file.write(",\n  " if count else "\n  ")
                json.dump(row, file, allow_nan=False)
                count += 1
            file.write("\n]}\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return count


def record(
    model: torch.nn.Module,
    path: str | os.PathLike[str],
    program: str | None = None,
    parts: dict[str, list[dict[str, Any]]] | None = None,
) -> int:
    """Write the list of MODEL's parameters to PATH; return the number of parameters and buffers.

    PARTS is for parameters that fuse several modules of the checkpoint and whose names samebit does
    not know. It lists these modules in order: {"blocks.0.attn.w": [{"module":
    "model.layers.0.self_attn.q_proj", "rows": [0, 64]}, ...]}. rows may be left out.
    """
    if program is None:
        program = f"{type(model).__name__}, torch {torch.__version__}"
    with torch.no_grad():
        return write_list(Path(path), entries(model, parts or {}), program)


def load(folder: Path, class_name: str | None, dtype: str) -> tuple[torch.nn.Module, str]:
    """Load a folder with transformers, without the network."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("USE_HUB_KERNELS", "0")
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    cls = getattr(transformers, class_name or "AutoModelForCausalLM", None)
    if cls is None:
        raise RecordError(f"transformers {transformers.__version__} has no class {class_name}")
    kind = getattr(torch, dtype, dtype)
    try:
        model = cls.from_pretrained(folder, dtype=kind, local_files_only=True)
    except (OSError, RuntimeError, ValueError, KeyError) as error:
        raise RecordError(f"{folder}: {cls.__name__}.from_pretrained failed: {error}") from error
    program = f"{type(model).__name__}, transformers {transformers.__version__}, "
    return model, program + f"torch {torch.__version__.split('+')[0]}"


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkpoint", type=Path, metavar="CKPT")
    parser.add_argument("output", type=Path, metavar="LIST")
    parser.add_argument("--class", dest="class_name", metavar="CLASS", help="class of transformers (AutoModelForCausalLM)")
    parser.add_argument("--dtype", default="auto", help="dtype for from_pretrained (auto)")
    args = parser.parse_args()
    try:
        model, program = load(args.checkpoint, args.class_name, args.dtype)
        count = record(model, args.output, program)
    except (RecordError, OSError) as error:
        print(f"params.py: {error}", file=sys.stderr)
        return 1
    print(f"{args.output}: {count} parameters and buffers of {program}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
