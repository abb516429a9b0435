"""The pytest plug-in: a case of samebit as a fixture that a test calls with its kernel.

    from samebit.pytest_plugin import samebit_case

    linear = samebit_case("nvfp4_linear", regimes="all", arith="bf16_mma")

    def test_linear(linear):
        linear(my_kernel)

The fixture is parametrized over regimes, shapes, formats and types of inputs. It calls the kernel with the
inputs that its parameters name, and judges the result. A failure shows the wrong element, the expected value,
and the command that repeats it. A test that requests the fixture but never calls it fails. A session that
collects cases but judges none fails as a whole. The summary lists the ops and their regimes.
"""

from __future__ import annotations

import os
import pathlib
import re
import shlex
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple, Union

import pytest

from . import cases as _cases
from . import library as _library

_KEY = "samebit"
_Names = Union[str, Sequence[str], None]


class _Session:
    """The judgements so far: (op, format, regime) -> [passed, failed]."""

    def __init__(self, folder: str, required: Sequence[str]):
        self.folder = pathlib.Path(folder)
        self.required = list(required)
        self.collected = 0
        self.judged: Dict[Tuple[str, str, str], List[int]] = {}
        self.idle: List[str] = []

    def note(self, case: _cases.Case, passed: bool) -> None:
        cell = self.judged.setdefault((case.op, case.format, case.regime), [0, 0])
        cell[0 if passed else 1] += 1


class KernelCase:
    """One case, to be called with a kernel."""

    def __init__(self, session: _Session, request: Dict[str, Any], name: str):
        self._session, self._name = session, name
        self._request = request
        self.called = False
        self._case: Optional[_cases.Case] = None

    @property
    def case(self) -> _cases.Case:
        """The case itself: its inputs and expected outputs."""
        if self._case is None:
            keys = ("op", "format", "shape", "regime", "input", "seed")
            self._case = _cases.vectors(**{key: self._request[key] for key in keys})
        return self._case

    def __call__(self, kernel: Callable[..., Any], **more: Any) -> "_cases.Result":
        """Runs the kernel on the inputs and judges its output; `more` has arguments that are no inputs."""
        __tracebackhide__ = True  # pytest shows an error of the kernel from the kernel on
        self.called = True
        case, request = self.case, self._request
        try:
            got = _cases.call_kernel(kernel, case, like=request["like"], **more)
            result = _cases.judge(case, got, arith=request["arith"], need=request["need"])
        except _library.Error as error:  # an output of another shape, a parameter that no input has
            self._session.note(case, False)
            pytest.fail(f"{case}: {error}", pytrace=False)
        self._session.note(case, result.passed)
        if not result.passed:
            pytest.fail(self._failure(case, got, result), pytrace=False)
        if request["repeats"]:
            report = _cases.metamorphic(
                lambda **inputs: kernel(**inputs, **more), case, like=request["like"], repeats=request["repeats"]
            )
            if not report.passed:
                self._session.note(case, False)
                pytest.fail(f"{case}: {report.words}", pytrace=False)
        return result

    def _failure(self, case: _cases.Case, got: Any, result: "_cases.Result") -> str:
        folder = self._session.folder
        folder.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^A-Za-z0-9_.-]+", "_", self._name)
        files = [str(folder / f"{name}.{what}.safetensors") for what in ("case", "got")]
        case.write(files[0], arith=self._request["arith"])
        _cases.write_got(files[1], case, got)
        commands = [f"{case.command(self._request['arith'])} -o {shlex.quote(files[0])}"]
        # without the arithmetic, judge would look for one that the output fits
        arith = f" --arith {self._request['arith']}" if self._request["arith"] else ""
        commands.append(f"samebit judge {shlex.quote(files[0])} {shlex.quote(files[1])}{arith}")
        lines = [result.block(), "the output of the kernel is in " + files[1] + "; to repeat:"]
        return "\n".join(lines + ["  " + command for command in commands])


def _listed(names: _Names, all_of: Iterable[str], what: str) -> List[str]:
    known = list(all_of)
    if names is None:
        return known[:1]
    if names == "all":
        return known
    chosen = [names] if isinstance(names, str) else list(names)
    for name in chosen:
        if what != "shapes" and name not in known:
            raise pytest.UsageError(f"samebit: {name!r} is not one of the {what}: {', '.join(known)}")
    return chosen


def samebit_case(
    op: str,
    *,
    regimes: _Names = "all",
    shapes: _Names = None,
    arith: Optional[str] = None,
    inputs: _Names = None,
    like: str = "numpy",
    need: Optional[str] = None,
    repeats: int = 0,
    seed: int = 42,
) -> Any:
    """A fixture of the cases of an op; bind it to a name in the test module.

    op       "linear", or with a format before it: "nvfp4_linear", "fp8_experts"; `samebit vectors --list`
    regimes  "all" (allowed by the op's contract), one, or a list
    shapes   "all" (of the op's list), texts like "rows=3,k=256", or None: the default
    arith    the kernel's arithmetic; None: finds and reports the tightest that fits
    inputs   types of activations: "bf16" (None), "f32", "f16", or a list
    like     type of the kernel's arrays: "numpy" or "torch"
    need     further required outputs: a name, or "all"
    repeats  above 0: also runs the metamorphic gate with so many repetitions
    """
    name, form = _cases.find(op)
    info = _cases.describe(name)
    grid = [
        {
            "op": name, "format": form, "shape": shape, "regime": regime, "input": kind, "seed": seed,
            "arith": arith, "like": like, "need": need, "repeats": repeats,
        }
        for regime in _listed(regimes, info.regimes, "regimes")
        for shape in _listed(shapes, [""] + list(info.shapes), "shapes")
        for kind in _listed(inputs, ["bf16", "f32", "f16"], "inputs")
    ]  # fmt: skip

    def ident(request: Dict[str, Any]) -> str:
        parts = [request["format"], request["op"], request["regime"], request["shape"], request["input"]]
        return "-".join(part for part in parts if part)

    @pytest.fixture(params=grid, ids=ident)
    def fixture(request: pytest.FixtureRequest) -> Iterable[KernelCase]:
        session = request.config.stash[_SESSION]
        one = KernelCase(session, request.param, request.node.nodeid.split("::", 1)[-1])
        session.collected += 1
        yield one
        if not one.called:
            session.idle.append(request.node.nodeid)
            pytest.fail("the test took the case but never called it: nothing was judged", pytrace=False)

    return fixture


_SESSION = pytest.StashKey[_Session]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("samebit")
    group.addoption(
        "--samebit-dir",
        default=".samebit",
        help="folder for the cases that fail and the outputs of the kernel (.samebit)",
    )
    group.addoption(
        "--samebit-require",
        default="",
        metavar="OPS",
        help="ops that must be judged, separated by commas: without one of them the session fails",
    )


def pytest_configure(config: pytest.Config) -> None:
    required = [one for one in config.getoption("--samebit-require").split(",") if one]
    config.stash[_SESSION] = _Session(config.getoption("--samebit-dir"), required)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: List[pytest.Item]) -> None:
    session = config.stash[_SESSION]
    session.asked = sum(1 for item in items if _asks(item))


def _asks(item: pytest.Item) -> bool:
    spec = getattr(item, "callspec", None)
    return spec is not None and any(
        isinstance(value, dict) and "regime" in value and "arith" in value for value in spec.params.values()
    )


def _missing(session: _Session) -> List[str]:
    """The reasons why a session cannot be trusted, one per line."""
    said = []
    if getattr(session, "asked", 0) and not session.judged:
        said.append(f"{session.asked} cases were collected and none was judged: a pass would mean nothing")
    judged = {op for op, _, _ in session.judged}
    for op in session.required:
        if _cases.find(op)[0] not in judged:
            said.append(f"--samebit-require: no case of {op} was judged")
    return said


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if session.config.getoption("collectonly", False):
        return
    if _missing(session.config.stash[_SESSION]) and exitstatus in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    session = config.stash[_SESSION]
    said = _missing(session)
    if not session.judged and not said:
        return
    terminalreporter.section("samebit")
    rows = sorted({(op, form) for op, form, _ in session.judged})
    for op, form in rows:
        cells = {regime: count for (o, f, regime), count in session.judged.items() if (o, f) == (op, form)}
        every = _cases.describe(op).regimes
        shown = [
            regime + (f" {cells[regime][1]} FAILED" if cells[regime][1] else "") for regime in every if regime in cells
        ]
        title = f"{form} {op}" if form else op
        total = [sum(cells[regime][i] for regime in cells) for i in (0, 1)]
        terminalreporter.write_line(f"{title}: {total[0]} passed, {total[1]} failed; {', '.join(shown)}")
        left = [regime for regime in every if regime not in cells]
        if left:
            terminalreporter.write_line(f"{title}: regimes that did not run: {', '.join(left)}")
    for line in said:
        terminalreporter.write_line("FAILED " + line, red=True)
