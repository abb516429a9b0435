#!/usr/bin/env python3
"""Writes a trace that `samebit trace` and `samebit diff` read; docs/trace.md is the contract.

One file that needs only NumPy: copy it next to your engine. Report the fed tokens call by call, in the order of
the calls. Positions, slots and the numbers of rounds are tracked here.

    with Trace("t", engine="mine 1.0", vocab_size=248320, level=2) as trace:
        chat = trace.sequence(slot=0)
        with trace.call() as call:
            call.prompt(chat, [1, 2, 3])
            call.logits(logits, rows=[2])
        with trace.call() as call:
            call.verify(chat, token=127, drafts=[153], accepted=1, emitted=[153, 16])
            call.logits(logits)

Tensors are NumPy arrays, Bf16, or tensors of torch and mlx (converted by values()). A `with` that ends in an
exception leaves steps without a trace.json; readers treat that as an incomplete run.

From a shell: reads the trace FROM and writes it again, with all numbers in the given type.

    samebit_trace.py FROM TO [F32|F16|BF16]
"""

import json
import os
import sys
from collections.abc import Iterable, Sequence as List
from pathlib import Path
from typing import Any

import numpy as np

NAMES = {
    np.dtype("<f4"): "F32",
    np.dtype("<f2"): "F16",
    np.dtype("<i4"): "I32",
    np.dtype("<u4"): "U32",
    np.dtype("<i8"): "I64",
}
DTYPES = {name: dtype for dtype, name in NAMES.items()} | {"BF16": np.dtype("<u2")}
HEAD = ("spec", "profile", "knobs", "arithmetic", "checkpoint", "note")
HEAD += ("rollback", "drafter", "functions", "delta_chunk")  # of version 2
HEAD += ("prefix", "prefix_block")  # of version 3
SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "presence_penalty")
SAMPLING += ("frequency_penalty", "penalty_window", "sampler", "generator", "seed")
SOME_ROWS = ("logits", "top_ids", "top_logprobs", "uniforms")  # may have only the rows in logits_rows


class TraceError(ValueError):
    """A violation of the contract; the message describes it."""


class Bf16:
    """An array of bfloat16, which NumPy does not have: its bits, as uint16."""

    def __init__(self, bits: np.ndarray) -> None:
        self.bits = np.asarray(bits)
        if self.bits.dtype != np.uint16:
            raise TraceError(f"Bf16 takes bits as uint16, not {self.bits.dtype}")

    @classmethod
    def rounded(cls, values: Any) -> "Bf16":
        """The nearest bfloat16 of each binary32, ties to even; NaN stays NaN."""
        wide = np.asarray(values, dtype="<f4").view("<u4")
        up = wide + (0x7FFF + ((wide >> 16) & 1))
        nan = (wide & 0x7FFFFFFF) > 0x7F800000
        return cls(np.where(nan, (wide >> 16) | 0x40, up >> 16).astype("<u2"))

    def floats(self) -> np.ndarray:
        """The values in binary32."""
        return (self.bits.astype("<u4") << 16).view("<f4")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.bits.shape

    def __getitem__(self, key: Any) -> "Bf16":
        return Bf16(self.bits[key])

    def reshape(self, *shape: int) -> "Bf16":
        return Bf16(self.bits.reshape(*shape))


def values(tensor: Any) -> Any:
    """A copy of a tensor of any common library, which later calls do not change: an array or a Bf16."""
    if isinstance(tensor, Bf16):
        return Bf16(tensor.bits.copy())
    if hasattr(tensor, "detach"):  # torch, on any device
        tensor = tensor.detach().cpu()
        if str(tensor.dtype) == "torch.bfloat16":
            return Bf16(tensor.contiguous().view(sys.modules["torch"].int16).numpy().view(np.uint16).copy())
        return np.array(tensor.numpy())
    name = str(getattr(tensor, "dtype", ""))
    if name == "mlx.core.bfloat16":
        return Bf16(np.array(tensor.view(sys.modules["mlx.core"].uint16)))
    if name == "bfloat16":  # ml_dtypes
        return Bf16(np.asarray(tensor).view(np.uint16).copy())
    return np.array(tensor)


def brought(tensor: Any) -> Any:
    """An array or a Bf16, copied only if necessary."""
    usual = isinstance(tensor, Bf16) or (isinstance(tensor, np.ndarray) and tensor.dtype.name != "bfloat16")
    return tensor if usual else values(tensor)


def plain(tensor: Any, name: str) -> tuple[str, np.ndarray]:
    """The safetensors name of the type, and the elements in order."""
    if isinstance(tensor, Bf16):
        return "BF16", np.ascontiguousarray(tensor.bits, dtype="<u2")
    if tensor.dtype == np.uint16:
        raise TraceError(f"{name}: uint16 could hold bfloat16 or numbers; expected Bf16(array) or another type")
    kind = NAMES.get(tensor.dtype.newbyteorder("<"))
    if kind is None:
        raise TraceError(f"{name}: its type is {tensor.dtype}, expected one of {', '.join(DTYPES)}")
    return kind, np.ascontiguousarray(tensor, dtype=DTYPES[kind])


def write_whole(path: Path, parts: Iterable[bytes]) -> None:
    """Writes under another name until the file is complete."""
    part = path.with_name(path.name + ".part")
    try:
        with open(part, "wb") as file:
            for piece in parts:
                file.write(piece)
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_tensors(path: Path, tensors: dict[str, Any], digests: dict[str, Any] | None = None) -> None:
    """A safetensors file; the same tensors give the same bytes."""
    header: dict[str, Any] = {"__metadata__": {"samebit.digests": json.dumps(digests)} if digests else {}}
    found = {name: plain(tensor, name) for name, tensor in tensors.items()}
    # wide types first, so that every tensor starts at a multiple of its element size
    order = sorted(found, key=lambda name: (-found[name][1].itemsize, name))
    at = 0
    for name in order:
        kind, array = found[name]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    write_whole(path, [len(text).to_bytes(8, "little"), text, *(found[name][1].tobytes() for name in order)])


def read_tensors(path: Path) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Reads a file of write_tensors(): the tensors, and the digests if there are any."""
    data = Path(path).read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    digests = header.pop("__metadata__", {}).get("samebit.digests")
    tensors = {}
    for name, entry in header.items():
        first, last = entry["data_offsets"]
        array = np.frombuffer(data[start + first : start + last], DTYPES[entry["dtype"]])
        array = array.reshape(entry["shape"])
        tensors[name] = Bf16(array) if entry["dtype"] == "BF16" else array
    return tensors, json.loads(digests) if digests else None


class Sequence:
    """One sequence and its position; made by Trace.sequence()."""

    def __init__(self, number: int, position: int, slot: int | None) -> None:
        self.number, self.position, self.slot = number, position, slot
        self.rounds = 0  # verified rounds
        self.drafted = 0  # steps of the MTP head since the last round
        self.prefix: dict[str, Any] | None = None  # its parent, until its first call names it


class Call:
    """One forward call: its fed rows, and the observed values."""

    def __init__(self, trace: "Trace") -> None:
        self.trace = trace
        self.rows: list[dict[str, Any]] = []
        self.rounds: list[dict[str, Any]] = []
        self.states: list[dict[str, Any]] = []
        self.prefixes: list[dict[str, Any]] = []
        self.samplings: list[dict[str, Any]] = []
        self.tensors: dict[str, Any] = {}
        self.digests: dict[str, Any] = {}
        self.logits_rows: list[int] | None = None
        self.note: Any = None
        self._began: dict[int, int] = {}  # position of each sequence at the beginning of the call

    def __enter__(self) -> "Call":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.write()

    # The fed tokens

    def _row(self, s: Sequence, position: int, token: int, kind: str, **more: int) -> None:
        where = {"sequence": s.number} if s.slot is None else {"sequence": s.number, "slot": s.slot}
        self.rows.append({**where, "position": position, "token": int(token), "kind": kind, **more})

    def _begin(self, s: Sequence) -> int:
        if s.number in self._began:
            raise TraceError(f"sequence {s.number} was fed twice in one call, expected all its rows together")
        self._began[s.number] = s.position
        if s.prefix:
            self.prefixes.append(s.prefix)
            s.prefix = None
        return s.position

    def prompt(self, s: Sequence, tokens: Iterable[int]) -> None:
        """Feeds prompt tokens, all at once or in pieces."""
        at = self._begin(s)
        for token in tokens:
            self._row(s, at, token, "prompt")
            at += 1
        s.position = at

    def decode(self, s: Sequence, token: int) -> None:
        """Feeds the last generated token."""
        self._row(s, self._begin(s), token, "decode")
        s.position += 1

    def verify(
        self,
        s: Sequence,
        token: int,
        drafts: List[int],
        accepted: int | None = None,
        emitted: List[int] = (),
        forced: bool = False,
    ) -> None:
        """A speculative round: feeds the last emitted token and all drafts. accepted counts drafts, never the
        bonus token; emitted are the accepted drafts and the token after them. From level 2 on both are
        required. forced: the number of accepted drafts was forced, not decided by the engine."""
        at = self._begin(s)
        for i, fed in enumerate([token, *drafts]):
            self._row(s, at + i, fed, "verify", round=s.rounds)
        if accepted is None:
            raise TraceError("accepted is None, expected the number of accepted drafts: the sequence continues after them")
        if not 0 <= accepted <= len(drafts):
            raise TraceError(f"accepted is {accepted}, expected 0 to {len(drafts)}, the number of drafts")
        self.rounds.append(
            {
                "sequence": s.number,
                "round": s.rounds,
                "position": at,
                "drafts": [int(t) for t in drafts],
                "accepted": int(accepted),
                "emitted": [int(t) for t in emitted],
                **({"forced": True} if forced else {}),
            }
        )
        s.position, s.rounds, s.drafted = at + 1 + accepted, s.rounds + 1, 0

    def draft(self, s: Sequence, token: int) -> None:
        """One step of the MTP head, in its own call: feed first the last emitted token, then the drafts."""
        self._row(s, s.position + s.drafted, token, "draft", round=s.rounds)
        s.drafted += 1

    def sampling(self, s: Sequence, **settings: Any) -> None:
        """How the tokens of a sequence of this call are drawn, from its next token on: temperature, top_k, top_p,
        min_p, repetition_penalty, presence_penalty, frequency_penalty, penalty_window, sampler, generator, seed
        (docs/trace.md, U-12). What is left out is not declared."""
        for key in settings:
            if key not in SAMPLING:
                raise TraceError(f"{key}: a sampler has no such key; it has {', '.join(SAMPLING)}")
        self.samplings.append({"sequence": s.number, **settings})

    # The observed values

    def tensor(self, name: str, tensor: Any) -> None:
        """The values of a tap; axis 0 is the rows of the call."""
        self.tensors[name] = values(tensor)

    def logits(self, logits: Any, rows: Iterable[int] | None = None) -> None:
        """Logits of all rows, or of the given rows in their order."""
        self.tensor("logits", logits)
        self._some(rows)

    def top(self, ids: Any, logprobs: Any, rows: Iterable[int] | None = None) -> None:
        """Natural logarithms of the largest probabilities, the largest first, if all logits are too much
        data."""
        self.tensor("top_ids", ids)
        self.tensor("top_logprobs", logprobs)
        self._some(rows)

    def _some(self, rows: Iterable[int] | None) -> None:
        if rows is not None:
            self.logits_rows = sorted(int(row) for row in rows)

    def state(
        self, s: Sequence, arrays: dict[str, Any] | None = None, target: str | None = None, mtp: str | None = None
    ) -> None:
        """The state before the call, which the call reads: arrays by the names of docs/state.md
        ("layers.0.linear_attn.conv_state"), or digests if every bit is the reference's."""
        entry: dict[str, Any] = {"sequence": s.number, "position": self._began.get(s.number, s.position)}
        entry |= {key: text for key, text in (("target", target), ("mtp", mtp)) if text}
        self.states.append(entry)
        for piece, array in (arrays or {}).items():
            self.tensor(f"state.{s.number}.{piece}", array)

    def digest(self, name: str, rows: int, columns: int, digest: str) -> None:
        """A digest (D-1) of a tap or of a state's array, in addition to the values or instead of them."""
        self.digests[name] = [int(rows), int(columns), digest]

    def write(self) -> None:
        """Ends the call; `with` does this."""
        lists = {"logits_rows": self.logits_rows, "rounds": self.rounds, "states": self.states}
        lists |= {"prefixes": self.prefixes, "sampling": self.samplings, "note": self.note}
        self.trace.step(
            self.rows, self.tensors, digests=self.digests, **{k: v for k, v in lists.items() if v not in (None, [])}
        )


class Trace:
    """The folder. engine: name of the engine. head: the keys of HEAD."""

    def __init__(
        self, folder: str | os.PathLike[str], engine: str, vocab_size: int, level: int = 0, **head: Any
    ) -> None:
        for key in head:
            if key not in HEAD:
                raise TraceError(f"{key}: a trace has no such key; it has {', '.join(HEAD)}")
        if not 0 < len(engine.encode()) < 96:
            raise TraceError(f"engine is {engine!r:.120}, expected a name of 1 to 95 bytes")
        if vocab_size < 1 or not 0 <= level <= 4:
            raise TraceError(f"vocab_size is {vocab_size} and level is {level}, expected at least 1 and 0 to 4")
        self.folder = Path(folder)
        self.folder.mkdir()
        self.head = {"format": "samebit-trace", "version": 3, "engine": engine, **head}
        self.head |= {"vocab_size": int(vocab_size), "level": level}
        self.steps: list[dict[str, Any]] = []
        self._sequences = 0

    def __enter__(self) -> "Trace":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.finish()

    def sequence(self, position: int = 0, slot: int | None = None) -> Sequence:
        """A new sequence; recomputing a sequence makes it a new one, too. slot: the engine's slot of its state,
        required from level 2 on."""
        if slot is None and self.head["level"] >= 2:
            raise TraceError("slot is None, but level 2 and above need the engine's slot of the sequence's state")
        self._sequences += 1
        return Sequence(self._sequences - 1, position, slot)

    def continued(
        self, parent: Sequence, position: int, slot: int | None = None, tokens: Iterable[int] | None = None
    ) -> Sequence:
        """A sequence that begins with the state of parent after its first `position` tokens: a hit of the prefix
        cache. Feed it the tokens from there on. tokens: the tokens before, if the engine knows them."""
        if not 0 < position <= parent.position:
            raise TraceError(
                f"sequence {parent.number} was fed {parent.position} tokens and cannot be continued at {position}"
            )
        s = self.sequence(position, slot)
        s.prefix = {"sequence": s.number, "parent": parent.number, "position": position}
        if tokens is not None:
            s.prefix["tokens"] = [int(token) for token in tokens]
        return s

    def sequences(self) -> int:
        """The number of sequences."""
        return self._sequences

    def call(self) -> Call:
        """The next forward call."""
        return Call(self)

    def step(
        self,
        rows: list[dict[str, Any]],
        tensors: dict[str, Any] | None = None,
        digests: dict[str, Any] | None = None,
        **lists: Any,
    ) -> None:
        """A call in the form of the contract: rows of {sequence, position, token, kind} and from level 2 on
        slot and round; lists: logits_rows, rounds, states, prefixes, sampling, note."""
        number, tensors = len(self.steps), {name: brought(t) for name, t in (tensors or {}).items()}
        some = lists.get("logits_rows")
        for row in rows:
            if not 0 <= row["token"] < self.head["vocab_size"]:
                below = self.head["vocab_size"]
                raise TraceError(f"step {number}: token id is {row['token']}, expected an id below {below}")
        for name, tensor in tensors.items():
            wanted = len(some) if name in SOME_ROWS and some is not None else len(rows)
            free = name == "step" or name.startswith(("state.", "mtp."))
            if not free and tensor.shape[:1] != (wanted,):
                raise TraceError(f"step {number}: {name} has the shape {list(tensor.shape)}, expected {wanted} rows")
        if digests and not tensors:
            tensors = {"step": np.array([number])}  # a file has at least one tensor
        if tensors:
            write_tensors(self.folder / f"step-{number:06}.safetensors", tensors, digests)
        self.steps.append({"step": number, "tensors": len(tensors), "rows": rows, **lists})

    def finish(self) -> None:
        """Writes trace.json at the end: without it the run counts as incomplete."""
        text = json.dumps({**self.head, "steps": self.steps})
        write_whole(self.folder / "trace.json", [text.encode()])


def converted(tensor: Any, name: str) -> Any:
    """Numbers in the type `name`; ids in 64 bits."""
    array = tensor.floats() if isinstance(tensor, Bf16) else tensor
    if array.dtype.kind != "f":
        return array.astype("<i8")
    return Bf16.rounded(array) if name == "BF16" else array.astype(DTYPES[name])


def again(source: Path, target: Path, name: str) -> None:
    """Reads a trace and writes it again in another type. Drops digests, because they are of the old values."""
    head = json.loads((source / "trace.json").read_text())
    steps = head.pop("steps")
    known = {key: head[key] for key in ("engine", "vocab_size", "level", *HEAD) if key in head}
    with Trace(target, **known) as trace:
        for step in steps:
            number, tensors = step.pop("step"), {}
            for state in step.get("states", []):
                for key in ("target", "mtp"):
                    state.pop(key, None)
            if step.pop("tensors"):
                tensors, _ = read_tensors(source / f"step-{number:06}.safetensors")
            trace.step(tensors={n: converted(t, name) for n, t in tensors.items()}, **step)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4) or sys.argv[3:] not in ([], ["F32"], ["F16"], ["BF16"]):
        sys.exit(__doc__)
    again(Path(sys.argv[1]), Path(sys.argv[2]), (*sys.argv[3:], "F32")[0])
