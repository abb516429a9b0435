"""Write the values of a quantized folder by its producer's own code:
NAME.expect.{json,safetensors}."""

from importlib.metadata import version
from pathlib import Path

import torch

from quant.files import (
    FixtureError,
    Tensor,
    checkpoint_digest,
    folder_bytes,
    write_json,
    write_tensors,
)
from quant.taps import tensor

LIMIT = 3 << 19  # bytes per quantized folder
GENERATOR = "samebit tools/gen/quant_fixtures.py 1"

# module -> the library's dequantized weight [N, K], by safetensors type
Weights = dict[str, dict[str, torch.Tensor]]


def versions(*packages: str) -> dict[str, str]:
    """Metadata about the packages used."""
    names = ("torch", "transformers", *packages)
    known = {name: version(name) for name in names}
    return known | {
        "torch": torch.__version__,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "threads": str(torch.get_num_threads()),
        "generator": GENERATOR,
    }


def weight_records(weights: Weights) -> tuple[dict, dict[str, Tensor]]:
    """The digests of all weights, and two rows of each (F32 if the library gives F32)."""
    digests: dict[str, dict] = {}
    rows: dict[str, Tensor] = {}
    for module, values in sorted(weights.items()):
        entries = []
        for label, weight in sorted(values.items()):
            whole = tensor(weight)
            if whole.dtype != label:
                raise FixtureError(f"{module}: {whole.dtype} found, {label} expected")
            entry = {"dtype": label, "shape": list(weight.shape), "xxh3_128": whole.digest()}
            entries.append(entry)
        widest = values.get("F32", next(iter(values.values())))
        rows[f"row.{module}.first"] = tensor(widest[0])
        rows[f"row.{module}.last"] = tensor(widest[-1])
        digests[module] = {"values": entries}
    return digests, rows


def write(
    folder: Path,
    output: Path,
    weights: Weights,
    runs: dict[str, Tensor],
    metadata: dict[str, str],
    limited: bool = True,
) -> str:
    """Write OUTPUT.expect.* about FOLDER; return a sentence about them.

    LIMITED: checks the size, for a folder to be committed."""
    size = folder_bytes(folder)
    if size > LIMIT and limited:
        raise FixtureError(f"{folder}: {size} bytes, the limit is {LIMIT}")
    digests, rows = weight_records(weights)
    tensors = rows | runs
    metadata = metadata | {
        "dtype": "f32; bf16.*: bf16",
        "sha256": checkpoint_digest(folder),
    }
    write_json(output.with_name(f"{output.name}.expect.json"), digests)
    path = output.with_name(f"{output.name}.expect.safetensors")
    written = write_tensors(path, tensors, metadata)
    return (
        f"{folder}: {size / 1024:.0f} KiB, {len(digests)} quantized modules,"
        f" expectation {written / 1024:.0f} KiB"
    )
