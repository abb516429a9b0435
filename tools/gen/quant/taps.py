"""Run a model on the fixture's prompt and keep values that a reader of its weights can check.

Every quantized linear layer is recorded separately (input and output), so that a difference in the
logits can be traced to the layer where it starts.
"""

import os
import tempfile
from collections.abc import Iterable

# Before the first import of transformers: never look at the network, never swap a kernel in.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"
os.environ["USE_HUB_KERNELS"] = "0"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
# auto_round makes a folder on import, by default in the current folder.
os.environ.setdefault("AR_WORK_SPACE", os.path.join(tempfile.gettempdir(), "samebit-auto-round"))

import torch  # noqa: E402

from quant.files import FixtureError, Tensor  # noqa: E402

TOKENS = 24
LINEAR_ROWS = 4
EXPERTS_KEPT = 2  # per layer, of experts that receive rows
_TYPES = {
    torch.float32: ("F32", torch.float32),
    torch.bfloat16: ("BF16", torch.int16),
    torch.float16: ("F16", torch.int16),
    torch.float8_e4m3fn: ("F8_E4M3", torch.uint8),
    torch.uint8: ("U8", torch.uint8),
    torch.int16: ("I16", torch.int16),
    torch.int32: ("I32", torch.int32),
}


def prepare_torch() -> None:
    """Fix everything in torch that could make two runs on one machine differ."""
    if torch.cuda.is_available():
        raise FixtureError("torch sees a GPU: the fixtures are those of the CPU")
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    torch.manual_seed(42)
    torch.use_deterministic_algorithms(True)
    torch.set_float32_matmul_precision("highest")


def tensor(value: torch.Tensor) -> Tensor:
    """A torch tensor as a tensor of a fixture."""
    if value.dtype not in _TYPES:
        raise FixtureError(f"type {value.dtype} has no place in a fixture")
    name, storage = _TYPES[value.dtype]
    array = value.detach().contiguous().view(storage).numpy()
    return Tensor(name, array.view("<u2") if name in ("BF16", "F16") else array)


def prompt(vocabulary: int) -> torch.Tensor:
    """The ids of the fixture's prompt."""
    ids = [(7 * i * i + 13 * i + 5) % vocabulary for i in range(TOKENS)]
    return torch.tensor(ids, dtype=torch.int32)


class Taps:
    """Hooks on the linear layers NAMES of a model, on its routers and on its final norm."""

    def __init__(self, model: torch.nn.Module, names: Iterable[str]):
        self.linear: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        self.router_ids: dict[int, torch.Tensor] = {}
        self.hidden: torch.Tensor | None = None
        self._handles = [model.model.norm.register_forward_hook(self._norm)]
        for name in names:
            module = model.get_submodule(name)
            self._handles.append(module.register_forward_hook(self._linear(name)))
        for index, layer in enumerate(model.model.layers):
            if hasattr(layer.mlp, "gate"):
                self._handles.append(layer.mlp.gate.register_forward_hook(self._router(index)))

    def _norm(self, _module, _args, out: torch.Tensor) -> None:
        self.hidden = out[0].detach().clone()

    def _linear(self, name: str):
        def hook(_module, args, out):
            rows = args[0].reshape(-1, args[0].shape[-1])[:LINEAR_ROWS]
            if rows.shape[0]:
                results = out.reshape(-1, out.shape[-1])[:LINEAR_ROWS]
                self.linear[name] = (rows.detach().clone(), results.detach().clone())

        return hook

    def _router(self, index: int):
        def hook(_module, _args, out):
            self.router_ids[index] = out[2].to(torch.int16)

        return hook

    def close(self) -> None:
        """Remove the hooks."""
        for handle in self._handles:
            handle.remove()

    def kept(self) -> list[str]:
        """The linear layers to record: all, but only EXPERTS_KEPT experts per layer."""
        seen: dict[str, set[str]] = {}
        names = []
        for name in sorted(self.linear):
            head, _, tail = name.partition(".mlp.experts.")
            if tail:
                expert = tail.split(".")[0]
                chosen = seen.setdefault(head, set())
                if expert not in chosen and len(chosen) == EXPERTS_KEPT:
                    continue
                chosen.add(expert)
            names.append(name)
        return names


def run(model: torch.nn.Module, names: Iterable[str], prefix: str) -> dict[str, Tensor]:
    """Run the prompt; the tensors of the fixture, each name starting with PREFIX.

    The linear layers are recorded only without a prefix: once is enough.
    """
    model.eval()
    if model.model.rotary_emb.inv_freq.dtype != torch.float32:
        raise FixtureError("the RoPE frequencies were rounded: float32 expected")
    tokens = prompt(model.config.vocab_size)
    taps = Taps(model, names)
    with torch.no_grad():
        logits = model(input_ids=tokens.to(torch.int64)[None], use_cache=False).logits[0]
    taps.close()
    if not torch.isfinite(logits).all():
        raise FixtureError(f"{prefix}logits: not finite")
    out = {
        "tokens": tensor(tokens),
        f"{prefix}logits": tensor(logits),
        f"{prefix}hidden": tensor(taps.hidden),
    }
    for index, ids in taps.router_ids.items():
        out[f"{prefix}router_ids.{index}"] = tensor(ids)
    for name in [] if prefix else taps.kept():
        for part, value in zip(("in", "out"), taps.linear[name], strict=True):
            out[f"{prefix}linear.{name}.{part}"] = tensor(value)
    return out
