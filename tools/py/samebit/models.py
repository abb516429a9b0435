"""Checkpoints, sessions and states: the reference itself."""

from __future__ import annotations

import ctypes
import os
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Union

import numpy as np

from . import arrays, library
from .library import Array, Digest, Handle, Name, SessionOptions, call, ids, lib, text

Path = Union[str, "os.PathLike[str]"]


class Model(Handle):
    """A checkpoint folder in the layout of Hugging Face; its sessions share the weights."""

    _free = "samebit_checkpoint_close"

    def __init__(self, folder: Path, overlays: Sequence[str] = ()):
        super().__init__()
        listed, count = library.words(overlays, "overlays")
        call("samebit_checkpoint_open", text(folder), listed, count, ctypes.byref(self._pointer))

    @property
    def config(self) -> Dict[str, float]:
        """Numbers of the configuration: hidden_size, layers, vocab_size, ..."""
        found = {}
        for i in range(lib.samebit_config_count()):
            name, value = lib.samebit_config_name(i), ctypes.c_double()
            call("samebit_checkpoint_config", self._held, name, ctypes.byref(value))
            found[name.decode()] = int(value.value) if value.value.is_integer() else value.value
        return found

    @property
    def family(self) -> str:
        return lib.samebit_checkpoint_family(self._held).decode()

    @property
    def tensors(self) -> List[str]:
        names = []
        for i in range(lib.samebit_checkpoint_tensors(self._held)):
            one = Array()
            call("samebit_checkpoint_tensor", self._held, i, ctypes.byref(one))
            names.append(one.name.decode())
        return names

    def tensor(self, name: str) -> np.ndarray:
        """A tensor as in the file; if NumPy lacks its type, as a type with the same bits."""
        one = Array()
        call("samebit_checkpoint_find", self._held, library.word(name, "name"), ctypes.byref(one))
        return arrays.raw(one.memory(self), one.bytes)

    @property
    def digest(self) -> str:
        """The checkpoint's digest, as printed by `samebit hash`."""
        found = Digest()
        call("samebit_checkpoint_digest", self._held, ctypes.byref(found))
        return str(found)

    def session(self, **options: object) -> "Session":
        return Session(self, **options)  # type: ignore[arg-type]


class Digests(NamedTuple):
    target: str
    mtp: str


class Generated(NamedTuple):
    tokens: List[int]
    logits: List[str]  # one digest per token


class State(Handle):
    """Everything that a sequence remembers, as a value."""

    _free = "samebit_state_free"

    @property
    def position(self) -> int:
        return lib.samebit_state_position(self._held)

    @property
    def digests(self) -> Digests:
        target, mtp = Digest(), Digest()
        call("samebit_state_digests", self._held, ctypes.byref(target), ctypes.byref(mtp))
        return Digests(str(target), str(mtp))

    @property
    def pieces(self) -> Dict[str, np.ndarray]:
        """Its arrays by name, in place."""
        found = {}
        for i in range(lib.samebit_state_pieces(self._held)):
            one, name = Array(), Name()
            call("samebit_state_piece", self._held, i, ctypes.byref(one), ctypes.byref(name))
            found[name.text.decode()] = (
                arrays.raw(one.memory(self), one.bytes)
                if one.bytes
                else np.empty(tuple(one.shape[: one.rank]), np.float32)
            )
        return found

    def difference(self, other: "State") -> Optional[str]:
        """None if both are equal to the bit, otherwise the first difference."""
        if not isinstance(other, State):
            raise TypeError(f"{other!r} is not a State")
        status, said = library.status_of("samebit_state_compare", self._held, other._held)
        if status in (0, 1):
            return said if status else None
        raise library.Error(said)


class Session(Handle):
    """One sequence fed through a model.

    profile    a named table of rounding points: "exact", "hf", "vllm", ... (docs/profiles.md)
    settings   single knobs on top of it: ["beta=act"]
    threads    0: all; never changes a bit
    mtp        also feeds the MTP head
    tap        called as tap(name, array) after every intermediate value; may change the array
    """

    _free = "samebit_session_free"
    _raised: Optional[BaseException] = None  # raised by the tap

    def __init__(
        self,
        model: Model,
        profile: str = "exact",
        settings: Sequence[str] = (),
        threads: int = 0,
        mtp: bool = False,
        tap: Optional[Callable[[str, np.ndarray], None]] = None,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 0.0,
        min_p: float = 0.0,
        seed: int = 42,
        sequence: int = 0,
    ):
        super().__init__()
        self._model = model  # must outlive it
        if not isinstance(model, Model):
            raise TypeError(f"{model!r} is not a Model")
        if tap is not None and not callable(tap):
            raise TypeError(f"tap is {tap!r}, expected a function")
        listed, count = library.words(settings, "settings")
        options = SessionOptions(size=ctypes.sizeof(SessionOptions))
        options.profile, options.settings = library.word(profile, "profile"), listed
        options.setting_count = count
        options.threads, options.mtp = library.number(threads, "threads"), int(bool(mtp))
        options.temperature = library.real(temperature, "temperature")
        options.top_k = library.number(top_k, "top_k")
        options.top_p, options.min_p = library.real(top_p, "top_p"), library.real(min_p, "min_p")
        options.seed = library.number(seed, "seed", 2**64 - 1)
        options.sequence = library.number(sequence, "sequence", 2**64 - 1)
        if tap is not None:
            options.tap = self._tap = self._tapped(tap)
        call("samebit_session_new", model._held, ctypes.byref(options), ctypes.byref(self._pointer))

    @property
    def model(self) -> Model:
        """The model of the session, whose widths its arrays have."""
        self._held  # raises if there is none
        return self._model

    def _tapped(self, tap: Callable[[str, np.ndarray], None]) -> "library.TAP":
        def run(_: object, name: bytes, data: object, rows: int, cols: int) -> int:
            try:
                there = np.ctypeslib.as_array(data, shape=(rows, cols))
                shown = there.copy()  # a copy may be kept; the original is valid only during this call
                tap(name.decode(), shown)
                there[...] = shown.reshape(there.shape)
                return 0
            except BaseException as why:  # raised again after the call: it cannot pass through C
                self._raised = why
                return 1

        return library.TAP(run)

    def _call(self, name: str, *arguments: object) -> None:
        try:
            call(name, self._held, *arguments)
        except library.Error:
            raised, self._raised = self._raised, None
            if raised is not None:
                raise raised from None
            raise

    def feed(self, tokens: Sequence[int]) -> None:
        """Feeds tokens in one call; any split of a sequence into calls gives the same bits in profile exact."""
        given = ids(tokens)
        self._call("samebit_session_feed", given, len(given))

    def verify(self, tokens: Sequence[int]) -> None:
        """The same, but `keep` can undo it."""
        given = ids(tokens)
        self._call("samebit_session_verify", given, len(given))

    def keep(self, kept: int) -> None:
        """Keeps the first rows of the last verify step, as if only these rows had been fed."""
        self._call("samebit_session_keep", library.number(kept, "kept"))

    def draft(self, token: int) -> np.ndarray:
        """One step of the MTP head: logits for the token after `token`."""
        found = np.empty(self._width("vocab_size"), np.float32)
        self._call("samebit_session_draft", library.number(token, "token"), found.ctypes.data)
        return found

    def _width(self, name: str) -> int:
        return int(self.model.config[name])

    @property
    def rows(self) -> int:
        """Rows of the last call."""
        return lib.samebit_session_rows(self._held)

    def _rows(self, function: str, width: str, rows: Optional[int]) -> np.ndarray:
        count = self.rows
        if isinstance(rows, (bool, np.bool_, slice)):
            raise TypeError(f"row is {rows!r}, expected an integer or None")
        first = 0 if rows is None else range(count)[rows]
        taken = count if rows is None else 1
        found = np.empty((taken, self._width(width)), np.float32)
        self._call(function, first, taken, found.ctypes.data)
        return found if rows is None else found[0]

    def logits(self, row: Optional[int] = -1) -> np.ndarray:
        """Logits of one row of the last call, by default the last row; None: of all rows."""
        return self._rows("samebit_session_logits", "vocab_size", row)

    def hidden(self, row: Optional[int] = -1) -> np.ndarray:
        """Hidden vectors after the final norm; rows as for logits."""
        return self._rows("samebit_session_hidden", "hidden_size", row)

    @property
    def position(self) -> int:
        return lib.samebit_session_position(self._held)

    def reset(self) -> None:
        lib.samebit_session_reset(self._held)

    def generate(self, prompt: Sequence[int], n: int, drafts: int = 0) -> Generated:
        """Feeds a prompt and generates n tokens, in rounds with `drafts` drafts of the MTP head."""
        given, n = ids(prompt), library.number(n, "n", library.LONGEST)
        drafts = library.number(drafts, "drafts")
        tokens, digests = (ctypes.c_uint32 * max(n, 1))(), (Digest * max(n, 1))()
        self._call("samebit_session_generate", given, len(given), n, drafts, tokens, digests)
        return Generated(list(tokens[:n]), [str(one) for one in digests[:n]])

    @property
    def state(self) -> State:
        """A copy of the state; assign a state to continue from it."""
        found = State()
        self._call("samebit_session_state", ctypes.byref(found._pointer))
        return found

    @state.setter
    def state(self, state: State) -> None:
        if not isinstance(state, State):
            raise TypeError(f"{state!r} is not a State")
        self._call("samebit_session_set_state", state._held)

    def state_at(self, kept: int) -> State:
        """The state that keep(kept) would leave."""
        found = State()
        self._call("samebit_session_state_at", library.number(kept, "kept"), ctypes.byref(found._pointer))
        return found

    def save(self, path: Path, tokens: Optional[Sequence[int]] = None) -> None:
        self._call("samebit_session_save", text(path), None if tokens is None else self._fed(tokens))

    def _fed(self, tokens: Sequence[int]) -> "ctypes.Array":
        """All fed tokens, one per position: C reads that many."""
        given = ids(tokens)
        if len(given) != self.position:
            raise library.UsageError(f"{len(given)} tokens are given, expected the {self.position} that were fed")
        return given

    def load(self, path: Path) -> None:
        self._call("samebit_session_load", text(path))
