"""Cases: inputs of one operation, the expected outputs, and the judgement of a kernel's outputs."""

from __future__ import annotations

import ctypes
import inspect
import itertools
import json
import os
import shlex
import struct
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from . import arrays, library
from .library import Array, CaseInfo, Handle, JudgeResult, Name, PowerResult, call, lib, text

Path = Union[str, "os.PathLike[str]"]
#: a kernel's output: the first output; all outputs in order; or outputs by name, "out", "state", ...
Got = Union[Any, Sequence[Any], Mapping[str, Any]]


# --- lists ------------------------------------------------------------------------------------------------
class Op(NamedTuple):
    """An operation with cases."""

    name: str
    help: str
    clause: str  # of docs/spec.md
    formats: List[str]  # formats of weights, the default first
    params: List[str]  # parameters of its shape
    shapes: List[str]  # sizes at the limits of kernels
    regimes: List[str]  # regimes of inputs that its contract allows


def _listed(function: str, *before: int) -> Iterator[str]:
    i = 0
    while True:
        name = getattr(lib, function)(*before, i)
        if name is None:
            return
        yield name.decode()
        i += 1


def ops() -> Dict[str, Op]:
    """All operations by name."""
    found = {}
    regimes = list(_listed("samebit_regime_name"))
    for i, name in enumerate(_listed("samebit_op_name")):
        found[name] = Op(
            name=name,
            help=lib.samebit_op_help(i).decode(),
            clause=lib.samebit_op_clause(i).decode(),
            formats=list(_listed("samebit_op_format", i)),
            params=list(_listed("samebit_op_param", i)),
            shapes=list(_listed("samebit_op_shape", i)),
            regimes=[regime for r, regime in enumerate(regimes) if lib.samebit_op_takes(i, r)],
        )
    return found


def regimes() -> Dict[str, str]:
    """The regimes of inputs, each with the faults that it reveals."""
    return {name: lib.samebit_regime_help(i).decode() for i, name in enumerate(_listed("samebit_regime_name"))}


def ariths() -> Dict[str, str]:
    """The arithmetics, the tightest first, each with what it allows."""
    found, room = {}, Name()
    for i in range(lib.samebit_arith_count()):
        name = lib.samebit_arith_name(i, ctypes.byref(room)).decode()
        found[name] = lib.samebit_arith_help(i).decode()
    return found


def describe(op: str) -> Op:
    known = ops()
    if op not in known:
        raise library.UsageError(f"there are no cases of {op!r}; there are of {', '.join(known)}")
    return known[op]


def find(name: str) -> Tuple[str, str]:
    """The op and the format of a name like "nvfp4_linear"; "nvfp4" is the first format with this beginning."""
    known = ops()
    library.word(name, "op")
    if name in known:
        formats = known[name].formats
        return name, formats[0] if formats else ""
    for op in sorted(known, key=len, reverse=True):
        if name.endswith("_" + op):
            wanted = name[: -len(op) - 1].replace("_", "-")
            for form in known[op].formats:
                if form == wanted:
                    return op, form
            for form in known[op].formats:
                if form.startswith(wanted):
                    return op, form
            raise library.UsageError(f"{op} has no format {wanted!r}; it has {', '.join(known[op].formats)}")
    raise library.UsageError(f"there are no cases of {name!r}; there are of {', '.join(known)}")


# --- cases ------------------------------------------------------------------------------------------------
def _described(array: Any, name: str) -> Tuple[Array, Any]:
    at = arrays.memory(array)
    if len(at.shape) > library.RANK:
        raise library.UsageError(f"{name} has {len(at.shape)} axes, expected at most {library.RANK}")
    one = Array(name=library.word(name, "the name of an array"), dtype=at.dtype.encode(), rank=len(at.shape), data=at.address)
    count = 1
    for i, size in enumerate(at.shape):
        one.shape[i] = size
        count *= size
    one.bytes = count * arrays.SIZE[at.dtype]
    return one, at.owner


def _case(value: object) -> "Case":
    if not isinstance(value, Case):
        raise TypeError(f"{value!r} is not a Case")
    return value


class Case(Handle):
    """One operation on one set of inputs, with the expected outputs. `vectors` makes one."""

    _free = "samebit_case_free"

    def _about(self) -> CaseInfo:
        info = CaseInfo(size=ctypes.sizeof(CaseInfo))
        call("samebit_case_about", self._held, ctypes.byref(info))
        return info

    @property
    def op(self) -> str:
        return self._about().op.decode()

    @property
    def format(self) -> str:
        return self._about().format.decode()

    @property
    def shape(self) -> str:
        """All parameters of the shape: "rows=4,n=160,k=384"."""
        return self._about().shape.decode()

    @property
    def regime(self) -> str:
        return self._about().regime.decode()

    @property
    def seed(self) -> int:
        return self._about().seed

    @property
    def params(self) -> Dict[str, int]:
        """The same by name."""
        pairs = (one.split("=") for one in self.shape.split(",") if one)
        return {name: int(value) for name, value in pairs}

    def __repr__(self) -> str:
        parts = [self.format, self.op, self.regime, self.shape]
        return "Case(" + " ".join(part for part in parts if part) + ")"

    def command(self, arith: Optional[str] = None) -> str:
        """The command that writes the file of this case, without -o."""
        info = self._about()
        words = ["samebit", "vectors", self.op]
        if self.format:
            words += ["--format", self.format]
        words += ["--shape", self.shape, "--regime", self.regime, "--input", info.input.decode().lower()]
        words += ["--seed", str(self.seed)] + (["--arith", arith] if library.word_or_none(arith, "arith") else [])
        return shlex.join(words)

    def _input_arrays(self) -> Dict[str, Array]:
        found = {}
        for i in range(lib.samebit_case_inputs(self._held)):
            one = Array()
            call("samebit_case_input", self._held, i, ctypes.byref(one))
            found[one.name.decode().removeprefix("in.")] = one
        return found

    def inputs(self, like: str = "numpy") -> Dict[str, Any]:
        """The inputs by name, as "numpy" or "torch" arrays (arrays.py describes types that NumPy lacks)."""
        make = {"numpy": arrays.numpy_of, "torch": arrays.torch_of}.get(like)
        if make is None:
            raise library.UsageError(f'like={like!r}; expected "numpy" or "torch"')
        return {name: make(one.memory(self), one.bytes) for name, one in self._input_arrays().items()}

    def raw(self, name: str) -> np.ndarray:
        """An input in place, as a NumPy type with the same bits."""
        one = self._input_arrays()[name]
        return arrays.raw(one.memory(self), one.bytes)

    @property
    def outputs(self) -> Dict[str, Array]:
        """The expected outputs: the first is "out", others have their own names."""
        found = {}
        for i in range(lib.samebit_case_outputs(self._held)):
            one = Array()
            call("samebit_case_output", self._held, i, ctypes.byref(one))
            found[one.name.decode().removeprefix("out.")] = one
        return found

    def _output(self, name: str) -> Tuple[int, Tuple[int, ...]]:
        known = self.outputs
        if name not in known:
            raise library.UsageError(f"{self} has no output {name!r}; it has {', '.join(known)}")
        one = known[name]
        return list(known).index(name), tuple(one.shape[: one.rank])

    def exact(self, name: str = "out") -> np.ndarray:
        """The values of profile exact in binary32, correctly rounded at each of its rounding points."""
        self._output(name)
        one = self.outputs[name]
        return arrays.raw(one.memory(self), one.bytes)

    def real(self, name: str = "out") -> np.ndarray:
        """The values of the whole op in real numbers, rounded once to binary64."""
        return self.real_parts(name)[0]

    def real_parts(self, name: str = "out") -> Tuple[np.ndarray, np.ndarray]:
        """The same as a sum of two binary64 numbers."""
        i, shape = self._output(name)
        hi, lo = np.empty(shape), np.empty(shape)
        call("samebit_case_real", self._held, i, hi.ctypes.data, lo.ctypes.data)
        return hi, lo

    def bound(self, arith: str, name: str = "out") -> np.ndarray:
        """The bound of each element's distance to the real value for a correct kernel of this arithmetic."""
        i, shape = self._output(name)
        found = np.empty(shape)
        call("samebit_case_bound", self._held, i, library.word(arith, "arith"), found.ctypes.data)
        return found

    def write(self, path: Path, arith: Optional[str] = None) -> None:
        """Writes the file like `samebit vectors`."""
        call("samebit_case_write", self._held, library.word_or_none(arith, "arith") or b"fp32", text(path))

    @staticmethod
    def read(path: Path) -> "Case":
        found, arith = Case(), Name()
        call("samebit_case_read", text(path), ctypes.byref(found._pointer), ctypes.byref(arith))
        return found


def _upper(input: Optional[str]) -> Optional[bytes]:
    named = library.word_or_none(input, "input")
    return named.upper() if named else None


def vectors(
    op: str,
    format: Optional[str] = None,
    shape: Optional[str] = None,
    regime: Optional[str] = None,
    input: Optional[str] = None,
    seed: int = 42,
) -> Case:
    """A case: a pure function of its arguments. `op` may begin with a format, "nvfp4_linear"."""
    name, found = find(op)
    form = found if format is None or format == "" else format
    case = Case()
    call(
        "samebit_case_make",
        name.encode(),
        library.word_or_none(form, "format"),
        library.word_or_none(shape, "shape"),
        library.word_or_none(regime, "regime"),
        _upper(input),
        library.number(seed, "seed", 2**64 - 1),
        ctypes.byref(case._pointer),
    )
    return case


def case_of(
    op: str,
    inputs: Mapping[str, Any],
    shape: str,
    format: Optional[str] = None,
    input: Optional[str] = None,
) -> Case:
    """A case with the caller's inputs: all inputs of a made case of this op, format and shape."""
    name, found = find(op)
    form = found if format is None or format == "" else format
    if not isinstance(inputs, Mapping):
        raise TypeError(f"inputs are {type(inputs).__name__}, expected arrays by name")
    described = [_described(array, key) for key, array in inputs.items()]
    listed = (Array * max(len(described), 1))(*[one for one, _ in described])
    case = Case()
    call(
        "samebit_case_from_arrays",
        name.encode(),
        library.word_or_none(form, "format"),
        library.word(shape, "shape"),
        _upper(input),
        listed,
        len(described),
        ctypes.byref(case._pointer),
    )
    return case


# --- kernels ----------------------------------------------------------------------------------------------
def call_kernel(kernel: Callable[..., Any], case: Case, like: str = "numpy", **more: Any) -> Got:
    """Runs a kernel on a case. The kernel's parameters are named like inputs or shape parameters; a parameter `case`
    gets the case itself; `more` has other arguments. A parameter with a default that is not in the case keeps the
    default."""
    __tracebackhide__ = True  # pytest shows an error of the kernel from the kernel on
    given: Dict[str, Any] = {**_case(case).params, **case.inputs(like), "case": case, **more}
    wanted = inspect.signature(kernel).parameters
    if any(one.kind == one.VAR_KEYWORD for one in wanted.values()):
        return kernel(**{**case.inputs(like), **more})
    missing = [
        name
        for name, one in wanted.items()
        if name not in given and one.default is one.empty and one.kind != one.VAR_POSITIONAL
    ]
    if missing:
        raise library.UsageError(
            f"the kernel has the parameters {', '.join(missing)}, but {case} has {', '.join(case.inputs())} and in its shape "
            f"{', '.join(case.params)}"
        )
    only = [name for name, one in wanted.items() if one.kind == one.POSITIONAL_ONLY]
    positional = [given[name] for name in itertools.takewhile(given.__contains__, only)]
    named = {
        name: given[name] for name, one in wanted.items() if name in given and one.kind not in (one.POSITIONAL_ONLY,)
    }
    return kernel(*positional, **named)


def _named(case: Case, got: Got) -> Dict[str, Any]:
    """A kernel's outputs by name."""
    names = list(_case(case).outputs)
    if isinstance(got, Mapping):
        for name in got:
            library.word(name, "the name of an output")
        found = {name.removeprefix("out.") if name != "out" else name: value for name, value in got.items()}
    elif isinstance(got, (tuple, list)):
        if len(got) > len(names):
            raise library.UsageError(f"the kernel gave {len(got)} outputs; {case} has {', '.join(names)}")
        found = dict(zip(names, got))
    else:
        found = {names[0]: got}
    return {name: value for name, value in found.items() if value is not None}


class Result:
    """The result of a judgement. True if the kernel passed."""

    def __init__(self, case: Case, raw: JudgeResult, missing: Sequence[str]):
        self.case = case
        self.verdict = raw.verdict.decode()
        self.status = raw.status
        self.arith = raw.arith.text.decode()
        self.count, self.identical = raw.count, raw.identical
        self.outside, self.near_ties = raw.outside, raw.near_ties
        self.worst = raw.worst
        self.output = list(case.outputs)[raw.output]
        rank = case.outputs[self.output].rank
        self.index = tuple(raw.index[:rank])
        self.found, self.expected, self.bound = raw.found, raw.expected, raw.bound
        self.words = raw.words.decode()
        self.note = raw.note.decode()
        self.missing = list(missing)  # required outputs that are missing

    @property
    def passed(self) -> bool:
        return self.status == 0 and not self.missing

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        return f"{self.verdict}: {self.words}"

    def block(self) -> str:
        """A description of the failure: the request, the outcome, and what to do."""
        lines = [f"samebit: {self.verdict} {self.case}, arithmetic {self.arith or 'none of the list'}"]
        lines.append("  " + self.words)
        if self.missing:
            lines.append(f"  the kernel did not give {', '.join(self.missing)}")
        lines.append(
            f"  {self.count} elements: {self.identical} identical to profile exact, {self.outside} outside of their bound, "
            f"{self.near_ties} near ties; worst error/bound {self.worst:.3g}"
        )
        if self.note:
            lines.append("  " + self.note)
        return "\n".join(lines)


def judge(case: Case, got: Got, arith: Optional[str] = None, need: Optional[str] = None) -> Result:
    """Compares a kernel's outputs with the case. arith None: finds the tightest arithmetic of the list that passes.
    need: a further output, or "all", that is required to pass."""
    found = _named(case, got)
    names = list(case.outputs)
    unknown = [name for name in found if name not in names]
    if unknown:
        raise library.UsageError(f"{case} has no output {unknown[0]!r}; it has {', '.join(names)}")
    needed = library.word_or_none(need, "need")
    wanted = names if need == "all" else [need] if needed else []
    described = [_described(value, name if name == "out" else "out." + name) for name, value in found.items()]
    listed = (Array * max(len(described), 1))(*[one for one, _ in described])
    raw = JudgeResult(size=ctypes.sizeof(JudgeResult))
    name = library.word_or_none(arith, "arith")
    status, said = library.status_of(
        "samebit_case_judge", case._held, name, listed, len(described), ctypes.byref(raw)
    )
    if not raw.verdict:
        raise library._ERRORS.get(status, library.Error)(said)
    if raw.status == 0:  # could these inputs have revealed a mistake?
        power = PowerResult(size=ctypes.sizeof(PowerResult))
        call(
            "samebit_case_power",
            case._held,
            raw.arith.text,
            described[0][0].dtype if described else None,
            ctypes.byref(power),
            ctypes.byref(raw),
        )
    return Result(case, raw, [one for one in wanted if one not in found])


class Power(NamedTuple):
    """The mistakes that the inputs of a case would have revealed."""

    planted: int
    caught: int
    shown: List[str]
    missed: List[str]


def power(case: Case, arith: str = "fp32", dtype: str = "F32") -> Power:
    """dtype: type of the outputs in safetensors' spelling; narrow types reveal less."""
    raw = PowerResult(size=ctypes.sizeof(PowerResult))
    call("samebit_case_power", _case(case)._held, library.word(arith, "arith"), library.word(dtype, "dtype"), ctypes.byref(raw), None)
    names = [[one for one in part.decode().split(", ") if one] for part in (raw.shown, raw.missed)]
    return Power(raw.planted, raw.caught, *names)


class Report:
    """All cases that a kernel was tested with. True if it passed all of them."""

    def __init__(self) -> None:
        self.results: List[Result] = []

    @property
    def failures(self) -> List[Result]:
        return [one for one in self.results if not one.passed]

    @property
    def passed(self) -> bool:
        return bool(self.results) and not self.failures

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        lines = []
        for one in self.results:
            lines.append(f"{one.verdict:10} {one.case!r} worst {one.worst:.3g}")
        lines += [one.block() for one in self.failures[:1]]
        lines.append(f"{len(self.results) - len(self.failures)} passed, {len(self.failures)} failed")
        return "\n".join(lines)


def _texts(given: Any, name: str) -> List[str]:
    """A text, or a sequence of texts."""
    found = [given] if isinstance(given, str) else list(given)
    if not all(isinstance(one, str) for one in found):
        raise TypeError(f"{name} is {given!r}, expected a string or a sequence of strings")
    return found


def check(
    kernel: Callable[..., Any],
    op: str,
    regimes: Union[str, Sequence[str]] = "all",
    shapes: Union[str, Sequence[str], None] = None,
    arith: Optional[str] = None,
    input: Optional[str] = None,
    like: str = "numpy",
    need: Optional[str] = None,
    seed: int = 42,
    **more: Any,
) -> Report:
    """Tests a kernel with an op's cases: all regimes that its contract allows, at its default shape or at
    shapes="all". If no case ran, the kernel has not passed."""
    name, form = find(op)
    info = describe(name)
    if not callable(kernel):
        raise TypeError(f"kernel is {kernel!r}, expected a function")
    library.number(seed, "seed", 2**64 - 1)
    chosen = info.regimes if regimes == "all" else _texts(regimes, "regimes")
    at = [None, *info.shapes] if shapes == "all" else [None] if shapes is None else _texts(shapes, "shapes")
    report = Report()
    for regime in chosen:
        for shape in at:
            case = vectors(name, form, shape, regime, input, seed)
            report.results.append(judge(case, call_kernel(kernel, case, like, **more), arith, need))
    return report


class MetaRow(NamedTuple):
    """One way of calling a kernel."""

    name: str
    verdict: str  # "IDENTICAL", "FAIL", or "SKIPPED"
    calls: int
    words: str


class MetaReport(NamedTuple):
    """The result of the metamorphic gate. `passed` if all calls gave the same bits."""

    passed: bool
    words: str
    rows: List[MetaRow]

    def __bool__(self) -> bool:
        return self.passed


class _Borrowed(Case):
    """A case that lives only during a call."""

    def __init__(self, pointer: int):
        self._pointer = ctypes.c_void_p(pointer)

    def __del__(self) -> None:
        pass


def metamorphic(
    kernel: Callable[..., Any], case: Case, like: str = "numpy", repeats: int = 100, **more: Any
) -> MetaReport:
    """Calls a kernel repeatedly: with the same inputs, each row alone, rows in another order, in batches of other
    widths, in two calls. All must give the same bits: there are no expected values and no tolerances."""
    names = list(_case(case).outputs)
    first = _named(case, call_kernel(kernel, case, like, **more))
    types = [arrays.memory(first[name]).dtype if name in first else "F32" for name in names]
    raised: List[BaseException] = []

    def run(_: object, pointer: int, rooms: Any) -> int:
        try:
            borrowed = _Borrowed(pointer)
            got = _named(borrowed, call_kernel(kernel, borrowed, like, **more))
            for i, name in enumerate(names):
                if name not in got:
                    ctypes.memset(rooms[i].data, 0, rooms[i].bytes)
                    continue
                one, _owner = _described(got[name], name)
                if one.dtype != rooms[i].dtype or one.bytes != rooms[i].bytes:
                    raise library.UsageError(
                        f"{name} is {one.bytes} bytes of {one.dtype.decode()}; expected "
                        f"{rooms[i].bytes} of {rooms[i].dtype.decode()}"
                    )
                ctypes.memmove(rooms[i].data, one.data, one.bytes)
            return 0
        except BaseException as why:  # cannot pass through C
            raised.append(why)
            return 1

    raw = library.MetaResult(size=ctypes.sizeof(library.MetaResult))
    dtypes = (ctypes.c_char_p * len(types))(*[one.encode() for one in types])
    status, said = library.status_of(
        "samebit_case_metamorphic",
        case._held,
        library.KERNEL(run),
        None,
        dtypes,
        library.number(repeats, "repeats"),
        ctypes.byref(raw),
    )
    if raised:
        raise raised[0]
    if not raw.rows:
        raise library._ERRORS.get(status, library.Error)(said)
    rows = [
        MetaRow(one.name.decode(), one.verdict.decode(), one.calls, one.words.decode()) for one in raw.row[: raw.rows]
    ]
    return MetaReport(raw.status == 0, raw.words.decode() or said, rows)


# --- files --------------------------------------------------------------------------------------------------
def write_got(path: Path, case: Case, got: Got) -> None:
    """Writes a kernel's outputs as the file that `samebit judge` reads."""
    header: Dict[str, Any] = {}
    parts: List[bytes] = []
    at = 0
    for name, value in _named(case, got).items():
        one, _ = _described(value, name)
        data = ctypes.string_at(one.data, one.bytes) if one.bytes else b""
        key = name if name == "out" else "out." + name
        header[key] = {
            "dtype": one.dtype.decode(),
            "shape": list(one.shape[: one.rank]),
            "data_offsets": [at, at + len(data)],
        }
        parts.append(data)
        at += len(data)
    written = json.dumps(header, separators=(",", ":")).encode()
    written += b" " * (-len(written) % 8)
    with open(os.fspath(path), "wb") as file:  # an integer would be a file descriptor of the process
        file.write(struct.pack("<Q", len(written)) + written + b"".join(parts))
