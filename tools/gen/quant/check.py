"""Compare a live recording of the quantized fixtures with the committed one.

The decisions of a quantizer and the dequantized weights must be the same bit for bit on any
machine, except values calibrated or tuned on activations. The values computed by a model may differ
in the last bits of a matrix product on another CPU: these tensors are compared with a tolerance. If
this difference changed the largest activation of a calibration, the scale may differ by two last
places of BF16, and the values of the layer and of everything after it are not compared.
"""

import json
import struct
from pathlib import Path

import numpy as np

from quant.files import FixtureError
from quant.recipes import AUTOROUND

# These depend on matrix products: the scales that AutoRound searches, with their codes, and the
# scales of activations.
SEARCHED = set(AUTOROUND)
CALIBRATED = ("input_scale", "input_global_scale")
COMPUTED = ("logits", "hidden", ".in", ".out")
WHOLE = ("logits", "hidden")  # values of all layers together
TOLERANCE = 0.02  # of the largest magnitude: BF16 logits, and activations at a rounding boundary
SCALE_TOLERANCE = 2.0**-6  # relative: two last places of the BF16 in which models are calibrated


def read(path: Path) -> dict[str, tuple[str, list[int], bytes]]:
    """Type, shape and bytes of every tensor of a file."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    body = data[8 + length :]
    return {
        name: (entry["dtype"], entry["shape"], body[slice(*entry["data_offsets"])])
        for name, entry in header.items()
    }


def values(dtype: str, data: bytes) -> np.ndarray:
    """Floats of a computed tensor."""
    if dtype == "F32":
        return np.frombuffer(data, "<f4")
    if dtype == "BF16":
        return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
    raise FixtureError(f"a computed tensor of type {dtype}")


def far(one: tuple[str, list[int], bytes], two: tuple[str, list[int], bytes]) -> bool:
    """True if two calibrated scales differ by more than the noise of a calibration."""
    if one[:2] != two[:2]:
        return True
    ours, theirs = values(one[0], one[2]), values(two[0], two[2])
    return not bool(np.all(np.abs(theirs - ours) <= SCALE_TOLERANCE * np.abs(ours)))


def moved(golden: Path, live: Path) -> set[str]:
    """Layers of a folder with another calibrated scale of their activations."""
    layers = set()
    for file in golden.glob("*.safetensors"):
        if (live / file.name).is_file():
            ours, theirs = read(file), read(live / file.name)
            layers |= {
                name.rpartition(".")[0]
                for name in ours
                if name.endswith(CALIBRATED) and ours[name] != theirs.get(name)
            }
    return layers


def follows(name: str, layers: set[str]) -> bool:
    """True if a computed tensor depends on the scale of one of the layers."""
    if name in WHOLE:
        return bool(layers)
    return name.endswith(".out") and name.removeprefix("linear.").removesuffix(".out") in layers


def differences(golden: Path, live: Path, layers: set[str]) -> tuple[list[str], float, list[str]]:
    """Names of tensors that differ, the largest deviation of the computed ones, and the names of
    tensors that depend on the scales of `layers` and were not compared."""
    ours, theirs = read(golden), read(live)
    wrong = sorted(set(ours) ^ set(theirs))
    worst = 0.0
    left = []
    for name in sorted(set(ours) & set(theirs)):
        if ours[name] == theirs[name]:
            continue
        if name.endswith(CALIBRATED):
            if far(ours[name], theirs[name]):
                wrong.append(name)
            continue
        if follows(name, layers) and ours[name][:2] == theirs[name][:2]:
            left.append(name)
            continue
        computed = name.endswith(COMPUTED) and not name.startswith("act.")
        if not computed or ours[name][:2] != theirs[name][:2]:
            wrong.append(name)
            continue
        one, two = (values(side[name][0], side[name][2]) for side in (ours, theirs))
        deviation = float(np.abs(one - two).max() / max(np.abs(one).max(), 1e-30))
        worst = max(worst, deviation)
        if not deviation <= TOLERANCE:
            wrong.append(name)
    return wrong, worst, left


def without_amp(path: Path) -> object:
    """The JSON of a file without every "amp": false, and without a torch_dtype that repeats the
    dtype, which a cast model has."""

    def strip(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if found.get("amp") is False:
            del found["amp"]
        if found.get("torch_dtype") == found.get("dtype"):
            found.pop("torch_dtype", None)
        return found

    return json.loads(path.read_text(), object_pairs_hook=strip)


def other_processor(name: str, golden: Path, live: Path) -> bool:
    """True if the only difference is that AutoRound computed in binary32. On a processor without
    AVX512_BF16 it does, and writes "amp": false; golden/quant was recorded on a processor with
    it."""
    return (
        name in SEARCHED
        and golden.suffix == ".json"
        and without_amp(golden) == without_amp(live)
    )


def check(golden: Path, live: Path) -> int:
    """Print one line per file; return 1 if a file differs that must not."""
    status = 0
    files = sorted(path.relative_to(golden) for path in golden.rglob("*") if path.is_file())
    if not files:
        raise FixtureError(f"{golden}: no files")
    for file in files:
        name = file.parts[0].split(".")[0]
        if not (live / file).is_file():
            print(f"FAILED  {file}: not recorded")
            status = 1
            continue
        if (golden / file).read_bytes() == (live / file).read_bytes():
            continue
        if other_processor(name, golden / file, live / file):
            print(f"note    {file}: AutoRound without bf16 (the processor lacks AVX512_BF16)")
            continue
        if file.suffix != ".safetensors":
            soft = name in SEARCHED and file.name.endswith(".expect.json")
            print(f"{'note   ' if soft else 'FAILED '} {file}: other bytes")
            status |= 0 if soft else 1
            continue
        layers = moved(golden / name, live / name)
        wrong, worst, left = differences(golden / file, live / file, layers)
        soft = name in SEARCHED or not wrong
        words = f"{len(wrong)} tensors differ (first {wrong[0]})" if wrong else "not the same bytes"
        print(
            f"{'note   ' if soft else 'FAILED '} {file}: {words},"
            f" computed tensors by {worst:.2g} of their largest"
            + (f"; not compared, another scale of inputs: {', '.join(left)}" if left else "")
        )
        status |= 0 if soft else 1
    for path in sorted(live.rglob("*")):
        if path.is_file() and not (golden / path.relative_to(live)).is_file():
            print(f"FAILED  {path.relative_to(live)}: recorded, but not in {golden}")
            status = 1
    print(f"{len(files)} files of {golden} compared")
    return status
