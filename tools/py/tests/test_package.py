"""Tests the package: its functions match the header, arrays go in and out, errors have the right messages."""

import copy
import os
import pathlib
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest

import samebit
from samebit import arrays, library

TREE = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("made") / "T1"
    subprocess.run([os.environ["SAMEBIT"], "make", path, "--preset", "T1"], check=True, stdout=subprocess.DEVNULL)
    return path


def test_functions_are_those_of_the_header():
    header = (TREE / "ref" / "samebit.h").read_text()
    declared = set(re.findall(r"\b(samebit_\w+)\(", header))
    assert set(library.PROTOTYPES) <= declared
    for name in library.PROTOTYPES:
        text = re.search(rf"SAMEBIT_API[^;]*\b{name}\(([^;]*)\);", header).group(1)
        count = 0 if text.strip() == "void" else text.count(",") + 1
        assert len(library.PROTOTYPES[name][1]) == count, name


def test_session_is_that_of_the_program(folder):
    said = subprocess.run(
        [os.environ["SAMEBIT"], "run", folder, "--tokens", "1,2,3", "-n", "4"], check=True, capture_output=True, text=True
    ).stdout
    found = samebit.Model(folder).session(mtp=True).generate([1, 2, 3], 4)
    assert "tokens " + ",".join(map(str, found.tokens)) in said
    assert re.findall(r"logits \d+ (\w+)", said) == found.logits


def test_state_comes_back(folder):
    session = samebit.Session(samebit.Model(folder))
    session.feed([1, 2, 3])
    kept = session.state
    session.feed([5])
    first = session.logits()
    session.state = kept
    assert kept.difference(session.state) is None
    session.feed([5])
    assert np.array_equal(first, session.logits())
    assert "position" in kept.difference(session.state)


def test_tap_sees_and_stops(folder):
    names = []
    samebit.Session(samebit.Model(folder), tap=lambda name, array: names.append((name, array.shape))).feed([1, 2])
    assert names[0] == ("embed", (2, 128))

    def stop(name, array):
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        samebit.Session(samebit.Model(folder), tap=stop).feed([1])


def test_errors(folder, tmp_path):
    with pytest.raises(samebit.Refused, match="nowhere"):
        samebit.Model(tmp_path / "nowhere")
    with pytest.raises(samebit.UsageError, match="1000000"):
        samebit.Session(samebit.Model(folder)).feed([1000000])
    with pytest.raises(samebit.UsageError, match="no cases of"):
        samebit.vectors("matmul")
    with pytest.raises(samebit.UsageError, match="no format"):
        samebit.vectors("int3_linear")
    case = samebit.vectors("rmsnorm")
    with pytest.raises(samebit.UsageError, match="has the parameters eps"):
        samebit.cases.call_kernel(lambda x, eps: x, case)
    with pytest.raises(samebit.Error, match="shape"):
        samebit.judge(case, np.zeros((3, 3), np.float32))


def test_arrays_are_taken_where_they_lie():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    at = arrays.memory(x)
    assert (at.address, at.dtype, at.shape) == (x.ctypes.data, "F32", (2, 3))
    assert arrays.memory(x.T).address != x.ctypes.data  # a copy

    class Other:
        def __dlpack__(self, **_):
            return x.__dlpack__()

        def __dlpack_device__(self):
            return (1, 0)

    assert arrays.memory(Other()).address == x.ctypes.data
    with pytest.raises(TypeError, match="not an array"):
        arrays.memory("x")


def test_torch():
    torch = pytest.importorskip("torch")
    for name, dtype in (("bfloat16", "BF16"), ("float8_e4m3fn", "F8_E4M3"), ("float16", "F16"), ("int64", "I64")):
        x = torch.zeros(2, 3).to(getattr(torch, name))
        assert arrays.memory(x)[:3] == (x.data_ptr(), dtype, (2, 3))
    case = samebit.vectors("nvfp4_linear")
    inputs = case.inputs("torch")
    assert inputs["x"].dtype == torch.bfloat16 and inputs["weight_scale"].dtype == torch.float8_e4m3fn
    assert np.array_equal(inputs["x"].float().numpy(), case.inputs("numpy")["x"].astype(np.float32))


def test_judge():
    case = samebit.vectors("bf16_linear")
    exact = case.exact()
    assert samebit.judge(case, exact, arith="exact").verdict == "IDENTICAL"
    assert samebit.judge(case, exact).arith == "exact"
    assert np.all(np.abs(exact - case.real()) <= case.bound("fp32"))
    assert np.any(samebit.vectors("rmsnorm").real_parts()[1] != 0)
    wrong = np.array(exact)
    wrong[2, 17] *= 1.01
    found = samebit.judge(case, wrong, arith="bf16_mma")
    assert not found and found.outside == 1 and found.index == (2, 17) and "17" in found.words
    nan = np.array(exact)
    nan[0, 0] = np.nan
    assert not samebit.judge(case, nan)
    assert not samebit.judge(case, {"out": exact}, need=None, arith="exact").missing


def test_missing_output_is_said():
    case = samebit.vectors("delta_rule")
    found = samebit.judge(case, case.exact(), need="state")
    assert not found.passed and found.missing == ["state"]


def test_inputs_of_ones_own():
    case = samebit.vectors("rmsnorm", input="f32")
    inputs = case.inputs()
    own = samebit.case_of("rmsnorm", inputs, case.shape, input="f32")
    assert np.array_equal(own.exact(), case.exact())


def test_files(tmp_path):
    case = samebit.vectors("rmsnorm")
    case.write(tmp_path / "c.safetensors", "fp32")
    assert samebit.Case.read(tmp_path / "c.safetensors").command() == case.command()
    samebit.write_got(tmp_path / "g.safetensors", case, case.exact())
    subprocess.run(
        [os.environ["SAMEBIT"], "judge", tmp_path / "c.safetensors", tmp_path / "g.safetensors"], check=True
    )


class Rare:
    """Wrong once in 50 calls."""

    def __init__(self):
        self.calls = 0

    def __call__(self, x, weight):
        self.calls += 1
        out = np.asarray(x, np.float32) @ np.asarray(weight, np.float32).T
        out[0, 0] += self.calls % 50 == 0
        return out


def test_metamorphic():
    case = samebit.vectors("bf16_linear")

    def by_rows(x, weight):
        w = np.asarray(weight, np.float32)
        return np.stack([(w * row).sum(1) for row in np.asarray(x, np.float32)])

    assert samebit.metamorphic(by_rows, case, repeats=3).passed
    assert not samebit.metamorphic(Rare(), case).passed

    def neighbour(x, weight):
        out = by_rows(x, weight)
        return out + np.float32(1e-3) * out.sum(0)

    assert not samebit.metamorphic(neighbour, case, repeats=2).passed
    with pytest.raises(ZeroDivisionError):
        samebit.metamorphic(lambda **inputs: 1 / 0, case)


def test_what_crosses_to_c_is_checked(folder, tmp_path):
    """Each of these was once truncated to another number, or read memory out of bounds."""
    model = samebit.Model(folder)
    session = model.session(mtp=True)
    far = 2**32 + 1
    for call in (
        lambda: session.generate([1, 2], -1),
        lambda: session.generate([1, 2], 2**40),
        lambda: session.generate([1, 2], 1, -1),
        lambda: session.generate([1, 2], 1, far),
        lambda: session.generate([far], 1),
        lambda: session.feed([far]),
        lambda: session.feed([-1]),
        lambda: session.verify([far]),
        lambda: session.draft(far),
        lambda: session.keep(-1),
        lambda: session.state_at(-1),
        lambda: session.save(tmp_path / "s", [1, 2, 3]),
        lambda: session.save(str(tmp_path / "s") + "\0more"),
        lambda: model.session(seed=2**64),
        lambda: model.session(seed=-1),
        lambda: model.session(sequence=2**64),
        lambda: model.session(top_k=-1),
        lambda: model.session(threads=far),
        lambda: model.session(temperature=1e300),
        lambda: model.session(top_p=float("nan")),
        lambda: model.session(profile="exact\0hf"),
        lambda: model.session(settings=["beta=act\0"]),
        lambda: model.tensor("x\0y"),
        lambda: samebit.vectors("rmsnorm", seed=2**64),
        lambda: samebit.vectors("rmsnorm", seed=-1),
        lambda: samebit.vectors("rmsnorm", shape="rows=4\0"),
        lambda: samebit.judge(samebit.vectors("rmsnorm"), np.zeros((1,) * 9, np.float32)),
        lambda: samebit.State().position,
        lambda: samebit.State().digests,
        lambda: samebit.Case().shape,
    ):
        with pytest.raises(samebit.UsageError):
            call()
    for call in (
        lambda: session.feed([1.5]),
        lambda: session.feed([1.0]),
        lambda: session.feed([True]),
        lambda: session.feed("123"),
        lambda: session.feed(np.array([1.0])),
        lambda: session.feed(np.ma.masked_array([1, 2], [True, False])),
        lambda: session.feed(None),
        lambda: session.generate([1], 1.0),
        lambda: session.generate([1], 1, None),
        lambda: session.draft(1.0),
        lambda: model.session(seed="7"),
        lambda: model.session(top_k=1.0),
        lambda: model.session(temperature="hot"),
        lambda: model.session(settings="beta=act"),
        lambda: model.session(profile=b"exact"),
        lambda: model.session(tap=3),
        lambda: samebit.Model(folder, overlays="mtp.*=x"),
        lambda: samebit.Session(folder),
        lambda: setattr(session, "state", None),
        lambda: session.state.difference(session),
        lambda: samebit.vectors("rmsnorm", seed=1.5),
        lambda: samebit.metamorphic(lambda x: x, samebit.vectors("rmsnorm"), repeats=1.5),
        lambda: arrays.memory(np.ma.masked_array(np.zeros(3, np.float32), [0, 1, 0])),
        lambda: arrays.memory(np.ma.masked),
    ):
        with pytest.raises(TypeError):
            call()


class Longer(list):
    """Claims to be longer than it is."""

    def __len__(self):
        return 4096


def test_a_copy_would_free_twice(folder):
    model = samebit.Model(folder)
    for one in (model, model.session(), model.session().state, samebit.vectors("rmsnorm")):
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="cannot be copied"):
                copied(one)


def test_what_an_argument_says_of_itself_is_not_believed(folder):
    model = samebit.Model(folder, overlays=Longer())
    assert model.session(settings=Longer(["beta=act"])).rows == 0
    session = model.session()
    session.feed(Longer([1, 2]))
    assert session.rows == 2
    with pytest.raises(AttributeError):
        session.model = model
    for call in (
        lambda: session.keep(np.ma.masked_array(1, True)),
        lambda: session.logits(True),
        lambda: samebit.vectors("rmsnorm", shape=0),
        lambda: samebit.vectors("rmsnorm", format=False),
        lambda: samebit.vectors("rmsnorm", regime=[]),
        lambda: samebit.vectors("rmsnorm", input=0.0),
        lambda: samebit.judge(samebit.vectors("rmsnorm"), None, arith=0),
        lambda: samebit.judge(samebit.vectors("rmsnorm"), {1: np.zeros(1)}),
        lambda: samebit.judge("case", None),
        lambda: samebit.power(None),
        lambda: samebit.write_got(2, samebit.vectors("rmsnorm"), None),
        lambda: samebit.vectors("rmsnorm").command(b""),
        lambda: samebit.case_of("rmsnorm", [], "rows=1,n=32"),
        lambda: samebit.check(None, "rmsnorm", regimes=[]),
        lambda: samebit.check(lambda x, weight: x, "rmsnorm", regimes=["tiny"], shapes=[None]),
        lambda: samebit.check(lambda x, weight: x, "rmsnorm", regimes=["tiny", None]),
    ):
        with pytest.raises(TypeError):
            call()
    assert len(samebit.check(lambda x, weight: x, "rmsnorm", regimes=["tiny"], shapes=["rows=2,n=7"]).results) == 1
    with pytest.raises(samebit.UsageError):
        samebit.Session.__new__(samebit.Session).feed([1])


def test_what_a_tap_keeps_stays(folder):
    """The memory is valid only during a call, and gone with the session."""
    kept = []
    session = samebit.Model(folder).session(tap=lambda name, array: kept.append((array, array.copy())))
    session.feed([1, 2])
    session.feed([3])
    del session
    assert len(kept) > 20 and all(np.array_equal(one, then) for one, then in kept)
    changed = samebit.Model(folder).session(tap=lambda name, array: array.fill(0) if name == "embed" else None)
    plain = samebit.Model(folder).session()
    changed.feed([1])
    plain.feed([1])
    assert not np.array_equal(changed.logits(), plain.logits())


def test_boundary():
    """A part of the fuzzer's calls; tests/fuzz.sh runs it for any time."""
    found = subprocess.run([sys.executable, TREE / "tools/py/tests/boundary.py", "--calls", "300"], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr


def test_a_kernel_keeps_its_defaults():
    case = samebit.vectors("rmsnorm", shape="rows=1,n=32")
    assert samebit.cases.call_kernel(lambda n, other=7, /: (n, other), case) == (32, 7)
    assert samebit.cases.call_kernel(lambda n, /, other=7: (n, other), case) == (32, 7)


def test_what_may_cross_does(folder, tmp_path):
    model = samebit.Model(folder)
    session = model.session(mtp=np.bool_(True), seed=2**64 - 1, sequence=np.uint64(7), top_k=np.int32(0), temperature=0)
    session.feed(np.array([1, 2], np.uint16))
    session.feed(iter((np.int64(3),)))
    assert session.position == 3
    session.save(tmp_path / "s", (1, 2, 3))
    again = model.session(mtp=True)
    again.load(tmp_path / "s")
    assert session.state.difference(again.state) is None
    assert again.generate(range(1, 3), np.int8(2), drafts=0).tokens
    assert model.session(settings=("beta=act",), threads=1).rows == 0
    assert samebit.vectors("rmsnorm", seed=2**64 - 1).seed == 2**64 - 1
