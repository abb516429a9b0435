"""The Hugging Face side of the cross-check: classes, strict loading, tokens, and files.

This makes recorded numbers trustworthy: only the torch path of transformers computes them (no hub
kernels, no network, one thread), and a checkpoint loads completely or not at all.
"""

import hashlib
import json
import os
import re
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

# Before the first import of transformers: never look at the network, never swap a kernel in.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"
os.environ["USE_HUB_KERNELS"] = "0"

import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors import safe_open  # noqa: E402
from transformers.utils import (
    is_causal_conv1d_available,
    is_flash_linear_attention_available,
)  # noqa: E402

GENERATOR = "samebit tools/gen/hf_fixtures.py 1"
MOE_CLASSES = ("Qwen3_5MoeForCausalLM", "Qwen3NextForCausalLM", "Qwen3MoeForCausalLM")
CLASSES = MOE_CLASSES + ("Qwen3_5ForCausalLM", "Qwen3ForCausalLM")
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}

_TYPE_NAMES = {
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.int32: "I32",
    torch.int16: "I16",
}


class FixtureError(Exception):
    """An error that the user can act on; the command line prints it and exits with 1."""


def prepare_torch() -> None:
    """Fix everything in torch that could make two runs on one machine differ."""
    if is_causal_conv1d_available() or is_flash_linear_attention_available():
        raise FixtureError(
            "causal-conv1d or flash-linear-attention is installed: it would replace the torch path"
        )
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.set_float32_matmul_precision("highest")
    torch.set_grad_enabled(False)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()


def tokens_for(count: int, ids_used: int) -> torch.Tensor:
    """Ids that are easy to recompute, below the padding rows of a vocabulary."""
    return torch.tensor(
        [(i * i * 7 + i * 13 + 5) % ids_used for i in range(count)], dtype=torch.int32
    )


@dataclass(frozen=True)
class Loaded:
    """A model and the report of from_pretrained about its checkpoint."""

    model: torch.nn.Module
    missing: list[str]
    unexpected: list[str]
    mismatched: list[str]
    errors: list[str]
    ignored: list[str]  # left out by the class on purpose: mtp.*, and model.visual.* of Qwen3.5

    def complaints(self) -> list[str]:
        """One line per reason why this checkpoint does not match its class."""
        lines = [f"missing: {key}" for key in self.missing]
        lines += [f"unexpected: {key}" for key in self.unexpected]
        lines += [f"mismatched: {key}" for key in self.mismatched]
        return lines + [f"error: {text}" for text in self.errors]


def model_class(name: str) -> type:
    """The transformers class called NAME."""
    if name not in CLASSES:
        raise FixtureError(f"class {name}: expected one of {', '.join(CLASSES)}")
    return getattr(transformers, name)


def class_of(checkpoint: Path) -> str:
    """The class that the configuration names; for a vision model the class of its text part."""
    try:
        names = json.loads((checkpoint / "config.json").read_text())["architectures"]
        return names[0].replace("ForConditionalGeneration", "ForCausalLM")
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise FixtureError(f"{checkpoint}: config.json names no class: {error}") from error


def load(
    checkpoint: Path,
    class_name: str,
    dtype: torch.dtype,
    attention: str = "eager",
    experts: str = "grouped_mm",
) -> Loaded:
    """Load CHECKPOINT through from_pretrained, by default with the implementations of the `hf` profile.

    The dtype goes through from_pretrained, not through model.to(): to() would also round the RoPE
    frequencies, which from_pretrained leaves in float32.
    """
    if not (checkpoint / "config.json").is_file():
        raise FixtureError(f"{checkpoint}: no config.json")
    cls = model_class(class_name)
    implementations = {"attn_implementation": attention}
    if class_name in MOE_CLASSES:  # a dense class refuses the option
        implementations["experts_implementation"] = experts
    try:
        model, info = cls.from_pretrained(
            checkpoint,
            dtype=dtype,
            **implementations,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # lists them all; load_strictly() refuses them
            local_files_only=True,
        )
    except (OSError, RuntimeError, ValueError, KeyError, TypeError) as error:
        raise FixtureError(f"{checkpoint}: {class_name}.from_pretrained failed: {error}") from error
    model.eval()
    patterns = cls._keys_to_ignore_on_load_unexpected or []
    ignored = sorted(
        k for k in checkpoint_keys(checkpoint) if any(re.search(p, k) for p in patterns)
    )
    return Loaded(
        model=model,
        missing=sorted(map(str, info["missing_keys"])),
        unexpected=sorted(map(str, info["unexpected_keys"])),
        mismatched=sorted(map(str, info["mismatched_keys"])),
        errors=[str(text) for text in info["error_msgs"]],
        ignored=ignored,
    )


def load_strictly(
    checkpoint: Path,
    class_name: str,
    dtype: torch.dtype,
    attention: str = "eager",
    experts: str = "grouped_mm",
) -> torch.nn.Module:
    """As load(), but anything that does not match is an error."""
    loaded = load(checkpoint, class_name, dtype, attention, experts)
    complaints = loaded.complaints()
    if complaints:
        shown = "\n  ".join(complaints[:20])
        raise FixtureError(
            f"{checkpoint} does not match {class_name} ({len(complaints)} differences):\n  {shown}"
        )
    if loaded.ignored:
        print(
            f"{checkpoint}: {len(loaded.ignored)} tensors ignored by the class,"
            f" first {loaded.ignored[0]}",
            file=sys.stderr,
        )
    model = loaded.model
    config = model.config
    if config._attn_implementation != attention:
        raise FixtureError(
            f"attention implementation is {config._attn_implementation}, wanted {attention}"
        )
    if class_name in MOE_CLASSES and config._experts_implementation != experts:
        raise FixtureError(
            f"experts implementation is {config._experts_implementation}, wanted {experts}"
        )
    if model.model.rotary_emb.inv_freq.dtype != torch.float32:
        raise FixtureError("the RoPE frequencies were rounded: float32 expected")
    return model


def checkpoint_keys(checkpoint: Path) -> list[str]:
    """Every tensor name that the safetensors files of CHECKPOINT hold."""
    files = sorted(checkpoint.glob("*.safetensors"))
    if not files:
        raise FixtureError(f"{checkpoint}: no .safetensors file")
    keys = []
    for file in files:
        with safe_open(file, framework="pt") as tensors:
            keys += tensors.keys()
    return keys


def checkpoint_digest(checkpoint: Path) -> str:
    """SHA-256 over the safetensors files in name order; identifies the weights of a recording."""
    digest = hashlib.sha256()
    for file in sorted(checkpoint.glob("*.safetensors")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def metadata_for(class_name: str, dtype: str) -> dict[str, str]:
    """Metadata that a reader needs to repeat or to judge a recording."""
    return {
        "class": class_name,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "dtype": dtype,
        "generator": GENERATOR,
        "threads": str(torch.get_num_threads()),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def write_tensors(path: Path, tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> int:
    """Write a safetensors file whose bytes depend on the contents alone; return its size.

    The safetensors package writes __metadata__ in the order of a hash map, so the same recording
    would give other bytes on every run and would show up as a change of a committed file.
    """
    header: dict[str, object] = {"__metadata__": dict(sorted(metadata.items()))}
    blobs = []
    offset = 0
    # Wide types first, as in the package: every tensor starts at a multiple of its element size.
    for name in sorted(tensors, key=lambda name: (-tensors[name].element_size(), name)):
        tensor = tensors[name].detach().clone(memory_format=torch.contiguous_format)
        if tensor.dtype not in _TYPE_NAMES:
            raise FixtureError(f"{name}: type {tensor.dtype} has no place in a fixture")
        blob = tensor.reshape(-1).view(torch.uint8).numpy().tobytes()
        header[name] = {
            "dtype": _TYPE_NAMES[tensor.dtype],
            "shape": list(tensor.shape),
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
        for blob in blobs:
            file.write(blob)
    os.replace(temporary, path)
    return path.stat().st_size
