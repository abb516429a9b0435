"""libsamebit through ctypes: finding it, its structs, and errors as exceptions (ref/samebit.h of the tree)."""

from __future__ import annotations

import ctypes
import math
import numbers
import operator
import os
import pathlib
from ctypes import POINTER, c_char, c_char_p, c_double, c_float, c_int, c_size_t, c_uint32, c_uint64, c_void_p

import numpy as np

from .arrays import Memory

NAME = "libsamebit.so.0"


class Error(Exception):
    """A refusal of the library: one line with what was found and what was expected."""

    status = 3


class Failed(Error):
    """A comparison failed."""

    status = 1


class UsageError(Error, ValueError):
    """The call makes no sense."""

    status = 2


class Refused(Error):
    """A file is damaged or of another kind, or memory ran out."""

    status = 3


class Mistrusted(Error):
    """The comparison could not have revealed a fault."""

    status = 4


_ERRORS = {one.status: one for one in (Failed, UsageError, Refused, Mistrusted)}


class ErrorText(ctypes.Structure):
    _fields_ = [("text", c_char * 1024)]


class Digest(ctypes.Structure):
    _fields_ = [("hex", c_char * 33)]

    def __str__(self) -> str:
        return self.hex.decode()


RANK = 8


class Array(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("dtype", c_char_p),
        ("axes", c_char_p),
        ("rank", c_uint32),
        ("shape", c_uint64 * RANK),
        ("data", c_void_p),
        ("bytes", c_uint64),
    ]

    def memory(self, owner: object) -> Memory:
        return Memory(self.data or 0, self.dtype.decode(), tuple(self.shape[: self.rank]), owner)


class Name(ctypes.Structure):
    _fields_ = [("text", c_char * 64)]


TAP = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, POINTER(c_float), c_size_t, c_size_t)


class SessionOptions(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("profile", c_char_p),
        ("settings", POINTER(c_char_p)),
        ("setting_count", c_size_t),
        ("threads", ctypes.c_uint),
        ("mtp", c_int),
        ("tap", TAP),
        ("tap_ctx", c_void_p),
        ("rollback", c_int),
        ("temperature", c_float),
        ("top_k", c_uint32),
        ("top_p", c_float),
        ("min_p", c_float),
        ("seed", c_uint64),
        ("sequence", c_uint64),
        ("residual", c_int),
    ]


class CaseInfo(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("op", c_char_p),
        ("format", c_char_p),
        ("shape", c_char_p),
        ("regime", c_char_p),
        ("input", c_char_p),
        ("seed", c_uint64),
    ]


class JudgeResult(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("status", c_int),
        ("verdict", c_char * 16),
        ("arith", Name),
        ("count", c_uint64),
        ("identical", c_uint64),
        ("outside", c_uint64),
        ("near_ties", c_uint64),
        ("worst", c_double),
        ("has_first", c_uint32),
        ("output", c_uint32),
        ("first", c_uint64),
        ("nearest", c_uint64),
        ("index", c_uint64 * RANK),
        ("found", c_double),
        ("expected", c_double),
        ("bound", c_double),
        ("words", c_char * 768),
        ("note", c_char * 512),
    ]


class PowerResult(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("planted", c_uint64),
        ("caught", c_uint64),
        ("of_ops", c_uint64),
        ("of_ops_caught", c_uint64),
        ("shown", c_char * 1024),
        ("missed", c_char * 1024),
    ]


class Room(ctypes.Structure):
    _fields_ = [("dtype", c_char_p), ("data", c_void_p), ("bytes", c_uint64)]


KERNEL = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, POINTER(Room))


class MetaRow(ctypes.Structure):
    _fields_ = [
        ("name", c_char * 32),
        ("verdict", c_char * 16),
        ("calls", c_uint64),
        ("elements", c_uint64),
        ("words", c_char * 400),
    ]


class MetaResult(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("status", c_int),
        ("words", c_char * 400),
        ("rows", c_uint32),
        ("row", MetaRow * 12),
    ]


def _find() -> str:
    """The path: SAMEBIT_LIBRARY, the library of the wheel, of the tree with this file, or of the system."""
    named = os.environ.get("SAMEBIT_LIBRARY")
    if named:
        return named
    here = pathlib.Path(__file__).resolve().parent
    for path in (here / NAME, here.parents[2] / "build" / NAME):
        if path.is_file():
            return str(path)
    return NAME


try:
    lib = ctypes.CDLL(_find())
except OSError as why:
    raise ImportError(
        f"{NAME} cannot be loaded: {why}. `pip install` of tools/py brings it, `make lib` builds it, and "
        "SAMEBIT_LIBRARY names another one"
    ) from None

_pp = POINTER(c_void_p)
_err = POINTER(ErrorText)
#: name: (result, arguments); a result of None is a status; failures are raised
PROTOTYPES = {
    "samebit_version": (c_char_p, []),
    "samebit_spec_version": (ctypes.c_uint, []),
    "samebit_digest_f32": (None, [c_void_p, c_size_t, POINTER(Digest), _err]),
    "samebit_checkpoint_open": (None, [c_char_p, POINTER(c_char_p), c_size_t, _pp, _err]),
    "samebit_checkpoint_close": ("void", [c_void_p]),
    "samebit_checkpoint_resident_limit": (None, [c_void_p, c_uint64, _err]),
    "samebit_config_count": (c_size_t, []),
    "samebit_config_name": (c_char_p, [c_size_t]),
    "samebit_checkpoint_config": (None, [c_void_p, c_char_p, POINTER(c_double), _err]),
    "samebit_checkpoint_family": (c_char_p, [c_void_p]),
    "samebit_checkpoint_architecture": (c_char_p, [c_void_p]),
    "samebit_checkpoint_tensors": (c_size_t, [c_void_p]),
    "samebit_checkpoint_tensor": (None, [c_void_p, c_size_t, POINTER(Array), _err]),
    "samebit_checkpoint_find": (None, [c_void_p, c_char_p, POINTER(Array), _err]),
    "samebit_checkpoint_digest": (None, [c_void_p, POINTER(Digest), _err]),
    "samebit_profile_count": (c_size_t, []),
    "samebit_profile_name": (c_char_p, [c_size_t]),
    "samebit_session_new": (None, [c_void_p, POINTER(SessionOptions), _pp, _err]),
    "samebit_session_free": ("void", [c_void_p]),
    "samebit_session_feed": (None, [c_void_p, POINTER(c_uint32), c_size_t, _err]),
    "samebit_session_verify": (None, [c_void_p, POINTER(c_uint32), c_size_t, _err]),
    "samebit_session_keep": (None, [c_void_p, c_size_t, _err]),
    "samebit_session_draft": (None, [c_void_p, c_uint32, c_void_p, _err]),
    "samebit_session_rows": (c_size_t, [c_void_p]),
    "samebit_session_logits": (None, [c_void_p, c_size_t, c_size_t, c_void_p, _err]),
    "samebit_session_hidden": (None, [c_void_p, c_size_t, c_size_t, c_void_p, _err]),
    "samebit_session_position": (c_uint64, [c_void_p]),
    "samebit_session_reset": ("void", [c_void_p]),
    "samebit_session_generate": (
        None,
        [c_void_p, POINTER(c_uint32), c_size_t, c_size_t, c_uint32, POINTER(c_uint32), POINTER(Digest), _err],
    ),
    "samebit_session_state": (None, [c_void_p, _pp, _err]),
    "samebit_session_state_at": (None, [c_void_p, c_size_t, _pp, _err]),
    "samebit_state_free": ("void", [c_void_p]),
    "samebit_session_set_state": (None, [c_void_p, c_void_p, _err]),
    "samebit_state_position": (c_uint64, [c_void_p]),
    "samebit_state_digests": (None, [c_void_p, POINTER(Digest), POINTER(Digest), _err]),
    "samebit_state_pieces": (c_size_t, [c_void_p]),
    "samebit_state_piece": (None, [c_void_p, c_size_t, POINTER(Array), POINTER(Name), _err]),
    "samebit_state_compare": (None, [c_void_p, c_void_p, _err]),
    "samebit_session_save": (None, [c_void_p, c_char_p, POINTER(c_uint32), _err]),
    "samebit_session_load": (None, [c_void_p, c_char_p, _err]),
    "samebit_op_count": (c_size_t, []),
    "samebit_op_name": (c_char_p, [c_size_t]),
    "samebit_op_help": (c_char_p, [c_size_t]),
    "samebit_op_clause": (c_char_p, [c_size_t]),
    "samebit_op_format": (c_char_p, [c_size_t, c_size_t]),
    "samebit_op_param": (c_char_p, [c_size_t, c_size_t]),
    "samebit_op_shape": (c_char_p, [c_size_t, c_size_t]),
    "samebit_op_takes": (c_int, [c_size_t, c_size_t]),
    "samebit_regime_count": (c_size_t, []),
    "samebit_regime_name": (c_char_p, [c_size_t]),
    "samebit_regime_help": (c_char_p, [c_size_t]),
    "samebit_arith_count": (c_size_t, []),
    "samebit_arith_name": (c_char_p, [c_size_t, POINTER(Name)]),
    "samebit_arith_help": (c_char_p, [c_size_t]),
    "samebit_case_make": (None, [c_char_p, c_char_p, c_char_p, c_char_p, c_char_p, c_uint64, _pp, _err]),
    "samebit_case_from_arrays": (
        None,
        [c_char_p, c_char_p, c_char_p, c_char_p, POINTER(Array), c_size_t, _pp, _err],
    ),
    "samebit_case_read": (None, [c_char_p, _pp, POINTER(Name), _err]),
    "samebit_case_write": (None, [c_void_p, c_char_p, c_char_p, _err]),
    "samebit_case_free": ("void", [c_void_p]),
    "samebit_case_about": (None, [c_void_p, POINTER(CaseInfo), _err]),
    "samebit_case_inputs": (c_size_t, [c_void_p]),
    "samebit_case_input": (None, [c_void_p, c_size_t, POINTER(Array), _err]),
    "samebit_case_outputs": (c_size_t, [c_void_p]),
    "samebit_case_output": (None, [c_void_p, c_size_t, POINTER(Array), _err]),
    "samebit_case_is_choice": (c_int, [c_void_p, c_size_t]),
    "samebit_case_real": (None, [c_void_p, c_size_t, c_void_p, c_void_p, _err]),
    "samebit_case_bound": (None, [c_void_p, c_size_t, c_char_p, c_void_p, _err]),
    "samebit_case_judge": (None, [c_void_p, c_char_p, POINTER(Array), c_size_t, POINTER(JudgeResult), _err]),
    "samebit_case_power": (
        None,
        [c_void_p, c_char_p, c_char_p, POINTER(PowerResult), POINTER(JudgeResult), _err],
    ),
    "samebit_case_metamorphic": (
        None,
        [c_void_p, KERNEL, c_void_p, POINTER(c_char_p), ctypes.c_uint, POINTER(MetaResult), _err],
    ),
}


def _declare(prototypes: dict) -> None:
    for name, (result, arguments) in prototypes.items():
        function = getattr(lib, name)
        function.restype = c_int if result is None else None if result == "void" else result
        function.argtypes = arguments


_declare(PROTOTYPES)


# --- arguments for C: ctypes itself truncates an integer to its width and a text at its first NUL ---------------
_BITS = {c_uint32: 32, c_uint64: 64, c_size_t: 8 * ctypes.sizeof(c_size_t), ctypes.c_uint: 32}
LONGEST = 1 << 24  # positions of a sequence


def number(value: object, name: str, high: int = 2**32 - 1) -> int:
    """An integer of any type, from 0 to `high`; refuses truth values, real numbers, texts, masked values."""
    if isinstance(value, (bool, np.bool_, np.ma.MaskedArray)):
        raise TypeError(f"{name} is {value!r}, expected an integer")
    try:
        found = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} is {value!r}, expected an integer") from None
    if not 0 <= found <= high:
        raise UsageError(f"{name} is {found}, expected an integer from 0 to {high}")
    return found


def real(value: object, name: str) -> float:
    """A real number with a finite binary32 value."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (numbers.Real, np.floating, np.integer)):
        raise TypeError(f"{name} is {value!r}, expected a number")
    found = float(value)
    if not math.isfinite(c_float(found).value):
        raise UsageError(f"{name} is {value!r}, expected a number that binary32 can hold")
    return found


def word(value: object, name: str) -> bytes:
    """A text without NUL, as UTF-8."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r}, expected a string")
    return _whole(value.encode(), name)


def word_or_none(value: object, name: str) -> "bytes | None":
    """The same; None and an empty text select the library's default."""
    return None if value is None else word(value, name) or None


def _whole(value: bytes, name: str) -> bytes:
    if b"\0" in value:
        raise UsageError(f"{name} is {value!r}, expected a string without NUL")
    return value


def words(values: object, name: str) -> "tuple[ctypes.Array, int]":
    """A list of texts for C with at least one place, and their actual number, whatever `values` says of itself."""
    if isinstance(values, (str, bytes)):
        raise TypeError(f"{name} is one string, expected a sequence of strings")
    listed = [_whole(os.fsencode(one), name) for one in values]  # type: ignore[attr-defined]
    return (c_char_p * max(len(listed), 1))(*listed), len(listed)


def _checked(name: str, i: int, value: object, kind: object) -> object:
    where = f"argument {i + 1} of {name}"
    if kind in _BITS:
        return number(value, where, 2 ** _BITS[kind] - 1)
    if kind is c_char_p and value is not None:
        if not isinstance(value, bytes):
            raise TypeError(f"{where} is {value!r}, expected bytes")
        return _whole(value, where)
    if isinstance(value, c_void_p) and not value:
        raise UsageError(f"{where} is an object without content: it is closed, or its creation failed")
    return value


def status_of(name: str, *arguments: object) -> "tuple[int, str]":
    """Calls a function that returns a status: the status, and the message of a failure."""
    said = ErrorText()
    kinds = PROTOTYPES[name][1]
    checked = [_checked(name, i, value, kind) for i, (value, kind) in enumerate(zip(arguments, kinds))]
    status = getattr(lib, name)(*checked, ctypes.byref(said))
    return status, said.text.decode("utf-8", "replace")


def call(name: str, *arguments: object) -> None:
    """Calls a function that returns a status; raises anything except SAMEBIT_OK."""
    status, said = status_of(name, *arguments)
    if status:
        raise _ERRORS.get(status, Error)(said or f"{name} gave status {status}")


def text(value: "str | os.PathLike | None") -> "bytes | None":
    return None if value is None else _whole(os.fsencode(value), "a path")


def ids(tokens: object) -> "ctypes.Array":
    """Token ids from any iterable of integers."""
    if isinstance(tokens, (str, bytes)):
        raise TypeError("token ids are a string, expected integers")
    if isinstance(tokens, np.ma.MaskedArray):
        raise TypeError("token ids are a masked array, expected integers: masked elements have no value")
    values = [number(token, f"token id {i}") for i, token in enumerate(tokens)]  # type: ignore[arg-type]
    return (c_uint32 * len(values))(*values)


class Handle:
    """An object of the library, freed with its Python object."""

    _free = ""

    def __init__(self) -> None:
        self._pointer = c_void_p()

    @property
    def _held(self) -> c_void_p:
        pointer = getattr(self, "_pointer", None)
        if not pointer:
            raise UsageError(f"this {type(self).__name__} has no content: it is closed, or its creation failed")
        return pointer

    def __reduce_ex__(self, protocol: object) -> str:
        """Refuses copies: each would free the same object."""
        raise TypeError(f"a {type(self).__name__} cannot be copied or pickled")

    def __del__(self) -> None:
        pointer = getattr(self, "_pointer", None)
        if pointer and lib is not None:
            getattr(lib, self._free)(pointer)
            self._pointer = None
