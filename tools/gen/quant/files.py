"""Files of the quantized fixtures: deterministic safetensors, digests, and the counter-based hash.

Nothing here needs torch, so that the codec vectors and the checks of a folder can use it too. A
tensor is a numpy array; its safetensors type is given by name, because numpy has neither BF16 nor
8-bit floats.
"""

import hashlib
import json
import os
import struct
from pathlib import Path

import numpy as np
import xxhash

# safetensors type -> the numpy type of its bytes
STORAGE = {
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<u2"),
    "BF16": np.dtype("<u2"),
    "F8_E4M3": np.dtype("u1"),
    "U8": np.dtype("u1"),
    "U16": np.dtype("<u2"),
    "U32": np.dtype("<u4"),
    "I16": np.dtype("<i2"),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
}


class FixtureError(Exception):
    """An error that the user can act on; the command line prints it and exits with 1."""


class Tensor:
    """An array and the name of its safetensors type."""

    def __init__(self, dtype: str, array: np.ndarray):
        if dtype not in STORAGE or array.dtype != STORAGE[dtype]:
            raise FixtureError(f"type {dtype} with elements {array.dtype}: no place in a fixture")
        self.dtype = dtype
        self.array = np.ascontiguousarray(array).reshape(array.shape)

    def bytes(self) -> bytes:
        """The elements, row-major and little-endian."""
        return self.array.tobytes()

    def digest(self) -> str:
        """32 hex digits of the canonical XXH3-128 of bytes()."""
        return xxhash.xxh3_128_hexdigest(self.bytes())


def mix64(counter: np.ndarray, seed: int) -> np.ndarray:
    """64 random bits for each counter: the finaliser of SplitMix64, the same on every machine."""
    with np.errstate(over="ignore"):
        z = counter.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def uniform(count: int, seed: int) -> np.ndarray:
    """COUNT doubles in (0, 1), multiples of 2^-53."""
    bits = mix64(np.arange(1, count + 1), seed) >> np.uint64(11)
    return (bits.astype(np.float64) + 0.5) * 2.0**-53


def bell(count: int, seed: int) -> np.ndarray:
    """COUNT doubles with mean 0, variance 1 and bell-shaped density: 12 uniforms minus 6.

    Sums of multiples of 2^-54 below 16 need 58 bits, so each term is first truncated to 2^-40: then
    the sum is exact and does not depend on numpy's order of additions.
    """
    parts = np.floor(uniform(12 * count, seed) * 2.0**40).reshape(12, count)
    return parts.sum(axis=0) * 2.0**-40 - 6.0


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> int:
    """Write a safetensors file whose bytes depend on the contents alone; return its size.

    The safetensors package writes __metadata__ in the order of a hash map.
    """
    header: dict[str, object] = {"__metadata__": dict(sorted(metadata.items()))}
    blobs = []
    offset = 0
    # Wide types first: every tensor starts at a multiple of its element size.
    for name in sorted(tensors, key=lambda name: (-tensors[name].array.itemsize, name)):
        blob = tensors[name].bytes()
        header[name] = {
            "dtype": tensors[name].dtype,
            "shape": list(tensors[name].array.shape),
            "data_offsets": [offset, offset + len(blob)],
        }
        offset += len(blob)
        blobs.append(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.writelines(blobs)
    os.replace(temporary, path)
    return path.stat().st_size


def write_json(path: Path, value: object) -> None:
    """Write VALUE with sorted keys, one key per line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")


def checkpoint_digest(folder: Path) -> str:
    """SHA-256 over the safetensors files in name order; identifies the weights of a recording."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.safetensors")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def folder_bytes(folder: Path) -> int:
    """The bytes that a folder adds to the repository."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
