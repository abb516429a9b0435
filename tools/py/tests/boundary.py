"""Fuzzes the boundary from Python to the library: every public function and method with drawn arguments.

    boundary.py [--seed 42] [--calls N | --seconds S] [--first I]

A call is a pure function of the seed and its number. All calls run in a child, so that a crash is seen with the
number of its call; --first repeats it. Only the documented exceptions may be raised: TypeError, ValueError,
samebit.Error, and OSError for files. An accepted value must have the type and range of its argument: a number
silently converted to another one would be a wrong answer.

Needs numpy, SAMEBIT (the program, which makes a checkpoint) and SAMEBIT_LIBRARY or an installed package.
"""

from __future__ import annotations

import argparse
import array
import copy
import decimal
import fractions
import inspect
import operator
import os
import pathlib
import pickle
import random
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = pathlib.Path(__file__).resolve()
SILENCE = 120  # seconds without the end of a call: a hang


class Planted(Exception):
    """Raised by arguments themselves; must be passed on."""


class Index:
    def __init__(self, value):
        self.value = value

    def __index__(self):
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


class Longer(list):
    """Claims to be longer than it is."""

    def __len__(self):
        return super().__len__() + 4096


class Text(str):
    pass


class Whole(int):
    pass


class Sub(np.ndarray):
    pass


class NoPack:
    def __dlpack__(self, **_):
        return "no capsule"


# --- wrong values ------------------------------------------------------------------------------------
NUMBERS = [
    0, 1, 2, 3, 7, -1, -2, 127, 255, 256, 2**16, 2**24, 2**24 + 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1,
    2**32 + 2, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**64 + 1, -(2**31), -(2**63), 10**30, -(10**30),
]  # fmt: skip
REALS = [0.0, -0.0, 0.5, 1.0, 1.5, -1.0, float("nan"), float("inf"), -float("inf"), 1e-320, 1e38, 3.5e38, 1e300]
TEXTS = ["", "x", "1", "exact", "a\0b", "\0", "\udc80", "é" * 200, "rows=1", "%s%n", "\033[2J", "x" * 5000, "out", "numpy"]
DTYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "?", "O", "U3", "S3", "M8[s]", ">f4", ">i8"]


def odd_array(r):
    shape = r.choice([(), (0,), (1,), (3,), (32,), (1, 32), (2, 3), (0, 4), (1,) * 9, (64,), (2, 64)])
    dtype = np.dtype(r.choice(DTYPES + ["f4"] * 12))
    made = np.zeros(shape, dtype)
    if dtype.kind in "fiu" and made.size:
        made.reshape(-1)[r.randrange(made.size)] = r.choice([1, 3, 100])
    how = r.randrange(10)
    if how == 0 and made.ndim:
        made = made[::2]
    elif how == 1:
        made = made.T
    elif how == 2 and made.ndim:
        made = made[::-1]
    elif how == 3:
        made.flags.writeable = False
    elif how == 4:
        made = np.ma.masked_array(made, np.ones(made.shape, bool))
    elif how == 5:
        made = made.view(Sub)
    elif how == 6 and dtype.kind != "O":
        made = np.broadcast_to(made, (2, *shape)) if len(shape) < 9 else made
    return made


def anything(r):
    kind = r.randrange(12)
    if kind == 0:
        return r.choice(NUMBERS)
    if kind == 1:
        return r.choice(REALS)
    if kind == 2:
        return r.choice(TEXTS)
    if kind in (3, 4):
        return odd_array(r)
    number = r.choice(NUMBERS)
    return r.choice(
        [
            None, True, False, np.bool_(True), b"x", b"", [], [1], [[1]], (), {}, {"out": 1}, {1: 2}, set(), object(), len, int,
            1j, decimal.Decimal(number), fractions.Fraction(number), fractions.Fraction(1, 3), np.float32(1.5), np.float64(2),
            np.int64(r.choice([0, 1, -1])), np.uint64(2**64 - 1), np.ma.masked, memoryview(b"abc"), bytearray(b"abc"),
            array.array("f", [1.0, 2.0]), range(3), iter([1, 2]), Index(number), Index(Planted("index")), Index("x"),
            Longer([1, 2]), Longer(["x"]), Text("exact"), Whole(number), NoPack(), pathlib.Path("x"), [number], [None], ["a\0b"],
            np.matrix([[1.0]]), float, ..., NotImplemented, Exception("x"),
        ]
    )  # fmt: skip


# --- kinds of arguments: drawing them, and which values may be accepted --------------------------------
def is_whole(value, high):
    if isinstance(value, (bool, np.bool_)):
        return False
    try:
        return 0 <= operator.index(value) <= high
    except (TypeError, Planted):
        return False


def f32(value):
    with np.errstate(over="ignore"):
        return np.float32(value)


class Kind:
    def __init__(self, good, takes):
        self.good, self.takes = good, takes

    def draw(self, r, world):
        return self.good(r, world) if r.random() < 0.8 else anything(r)


def of(*values):
    return lambda r, world: r.choice(values)


def is_text(value):
    return isinstance(value, str) and "\0" not in value


def is_path(value):
    return isinstance(value, (str, bytes, os.PathLike)) and (b"\0" not in os.fsencode(value))


def maybe(test):
    return lambda value: value is None or test(value)


def is_array(value):
    return hasattr(value, "__dlpack__") or isinstance(value, (np.ndarray, np.generic))


def is_tokens(value):
    """An iterator that has been read cannot be checked any more."""
    if isinstance(value, (str, bytes)) or isinstance(value, np.ma.MaskedArray):
        return False
    return not hasattr(value, "__len__") or all(is_whole(one, 2**32 - 1) for one in value)


def kernel(r, world):
    def zero(case):
        return {name: np.zeros(tuple(one.shape[: one.rank]), np.float32) for name, one in case.outputs.items()}

    odd = anything(r)

    def wrong(case):
        return odd

    def fails(case):
        raise Planted("kernel")

    return r.choice([zero, zero, zero, wrong, fails])


U32, U64 = 2**32 - 1, 2**64 - 1
SMALL = Kind(of(0, 1, 2, np.int8(1), Whole(2)), lambda v: is_whole(v, U32))
SEED = Kind(of(0, 42, U64), lambda v: is_whole(v, U64))
REAL = Kind(of(0, 0.0, 0.5, 1.0, np.float32(0.25)), lambda v: not isinstance(v, (bool, np.bool_)) and bool(np.isfinite(f32(v))))
TOKENS = Kind(
    of([1, 2], (3,), np.array([1, 2], np.uint16), range(3), iter([1, 2]), [], Longer([1, 2]), [383, 400]), is_tokens
)
TOKEN = Kind(of(0, 1, 383), lambda v: is_whole(v, U32))
ROW = Kind(of(-1, 0, 1, None), lambda v: v is None or (not isinstance(v, (bool, np.bool_)) and hasattr(v, "__index__")))
FLAG = Kind(of(True, False), lambda v: True)
WORD = Kind(of("exact", "hf", "vllm"), is_text)
WORDS = Kind(of([], ["beta=act"], ("act=bf16",), Longer(["beta=act"])), lambda v: not isinstance(v, (str, bytes)))
FOLDER = Kind(lambda r, w: r.choice([w.folder, str(w.folder), w.tmp]), is_path)
FILE = Kind(lambda r, w: r.choice([w.tmp / "f", str(w.tmp / "f"), w.tmp / "none" / "f", w.tmp, os.fsencode(w.tmp / "f")]), is_path)
NAME = Kind(of("model.norm.weight", "lm_head.weight", "none"), is_text)
TAP = Kind(lambda r, w: r.choice([None, w.tap]), lambda v: v is None or callable(v))
OP = Kind(of("rmsnorm", "rmsnorm", "l2norm", "swiglu"), is_text)
FORMAT = Kind(of(None, "bf16", ""), maybe(is_text))
SHAPE = Kind(of("rows=1,n=32", "rows=2,n=64", "rows=1"), maybe(is_text))
REGIME = Kind(of(None, "normal", "subnormal", "all"), maybe(is_text))
INPUT = Kind(of(None, "bf16", "f32", "f16"), maybe(is_text))
ARITH = Kind(of(None, "fp32", "bf16_mma"), maybe(is_text))
LIKE = Kind(of("numpy"), is_text)
OUTPUT = Kind(of("out", "none"), is_text)
NEED = Kind(of(None, "out", "all"), maybe(is_text))
DTYPE = Kind(of("F32", "BF16", "F16"), is_text)
REPEATS = Kind(of(0, 1, 2), lambda v: is_whole(v, U32))
KERNEL = Kind(kernel, callable)
CASE = Kind(lambda r, w: w.case(r), lambda v: type(v).__name__ == "Case")
STATE = Kind(lambda r, w: w.session(r).state, lambda v: type(v).__name__ == "State")
MODEL = Kind(lambda r, w: w.model, lambda v: type(v).__name__ == "Model")
ANY = Kind(lambda r, w: odd_array(r), lambda v: True)
GOT = Kind(lambda r, w: r.choice([np.zeros((1, 32), np.float32), {"out": odd_array(r)}, [odd_array(r)], odd_array(r)]), lambda v: True)
INPUTS = Kind(lambda r, w: {**w.case(r).inputs(), **({"x": anything(r)} if r.random() < 0.5 else {})}, lambda v: hasattr(v, "items"))

OPTIONS = {
    "profile": WORD, "settings": WORDS, "threads": SMALL, "mtp": FLAG, "tap": TAP, "temperature": REAL, "top_k": SMALL,
    "top_p": REAL, "min_p": REAL, "seed": SEED, "sequence": SEED,
}  # fmt: skip
CASES = {"op": OP, "format": FORMAT, "shape": SHAPE, "regime": REGIME, "input": INPUT, "seed": SEED}

#: public functions of the package: the arguments of each
FUNCTIONS = {
    "Model": {"folder": FOLDER, "overlays": WORDS},
    "Session": {"model": MODEL, **OPTIONS},
    "vectors": CASES,
    "case_of": {"op": OP, "inputs": INPUTS, "shape": SHAPE, "format": FORMAT, "input": INPUT},
    "judge": {"case": CASE, "got": GOT, "arith": ARITH, "need": NEED},
    "power": {"case": CASE, "arith": Kind(of("fp32"), is_text), "dtype": DTYPE},
    "check": {
        "kernel": KERNEL, "op": OP, "regimes": Kind(of("normal", ["tiny"]), lambda v: True), "shapes": SHAPE, "arith": ARITH,
        "input": INPUT, "like": LIKE, "need": NEED, "seed": SEED,
    },
    "metamorphic": {"kernel": KERNEL, "case": CASE, "like": LIKE, "repeats": REPEATS},
    "write_got": {"path": FILE, "case": CASE, "got": GOT},
    "ops": {}, "regimes": {}, "ariths": {},
}  # fmt: skip
#: methods and properties: the arguments of each; None is a property
METHODS = {
    "Model": {
        "config": None, "family": None, "tensors": None, "digest": None, "tensor": {"name": NAME}, "session": OPTIONS,
    },
    "Session": {
        "feed": {"tokens": TOKENS}, "verify": {"tokens": TOKENS}, "keep": {"kept": SMALL}, "draft": {"token": TOKEN},
        "rows": None, "position": None, "state": None, "model": None, "reset": {}, "logits": {"row": ROW}, "hidden": {"row": ROW},
        "generate": {"prompt": TOKENS, "n": SMALL, "drafts": SMALL}, "state_at": {"kept": SMALL},
        "save": {"path": FILE, "tokens": Kind(of(None, [1, 2], [1]), maybe(is_tokens))}, "load": {"path": FILE},
    },
    "State": {"position": None, "digests": None, "pieces": None, "difference": {"other": STATE}},
    "Case": {
        "op": None, "format": None, "shape": None, "regime": None, "seed": None, "params": None, "outputs": None,
        "command": {"arith": ARITH}, "inputs": {"like": LIKE}, "raw": {"name": Kind(of("x", "in", "weight", "none"), is_text)},
        "exact": {"name": OUTPUT}, "real": {"name": OUTPUT}, "real_parts": {"name": OUTPUT},
        "bound": {"arith": Kind(of("fp32"), is_text), "name": OUTPUT}, "write": {"path": FILE, "arith": ARITH},
        "read": {"path": FILE},
    },
}  # fmt: skip
#: properties that are set, not called
SETTERS = {("Session", "state"): STATE}
#: results and exceptions: never passed to the library
OF_RESULTS = {"Op", "Power", "Report", "Result", "MetaReport", "Digests", "Generated"}
OF_ERRORS = {"Error", "Failed", "Mistrusted", "Refused", "UsageError"}


def not_in_the_table():
    """Public names that are not called here."""
    import samebit

    missing = set(samebit.__all__) - set(FUNCTIONS) - set(METHODS) - OF_RESULTS - OF_ERRORS
    for name, known in METHODS.items():
        own = {one for one in vars(getattr(samebit, name)) if not one.startswith("_")}
        missing |= {f"{name}.{one}" for one in own - set(known)}
    for name, known in FUNCTIONS.items():
        wanted = inspect.signature(getattr(samebit, name)).parameters
        missing |= {f"{name}({one})" for one in set(wanted) - set(known) - {"more"}}
    return sorted(missing)


# --- one call ---------------------------------------------------------------------------------------------
class World:
    def __init__(self, tmp):
        import samebit

        self.samebit, self.tmp, self.kept = samebit, pathlib.Path(tmp), []
        self.folder = self.tmp / "T4"
        self.model = samebit.Model(self.folder)
        self.cases = {}

    def case(self, r):
        key = r.choice([("rmsnorm", "rows=1,n=32"), ("rmsnorm", "rows=2,n=64")])
        if key not in self.cases:
            self.cases[key] = self.samebit.vectors(key[0], shape=key[1])
        return self.cases[key]

    def session(self, r):
        session = self.samebit.Session(self.model, mtp=r.random() < 0.5, threads=1)
        if r.random() < 0.8:
            session.feed([1, 2])
        return session

    def tap(self, name, array):
        """Keeps the array longer than the call."""
        self.kept = self.kept[-20:] + [array]

    def look(self):
        return sum(float(one.sum()) for one in self.kept)

    def object_of(self, name, r):
        return {"Model": lambda: self.model, "Session": lambda: self.session(r), "Case": lambda: self.case(r),
                "State": lambda: self.session(r).state}[name]()  # fmt: skip


def arguments(kinds, r, world):
    """Draws values of each argument, most of them valid."""
    found = {}
    for name, kind in kinds.items():
        optional = r.random() < 0.4 and name not in ("case", "op", "kernel", "model", "folder", "tokens", "got", "path")
        if not optional:
            found[name] = kind.draw(r, world)
    if r.random() < 0.02:
        found["no_such"] = 1
    return found


def draw(r, world):
    """(words, what to call, its arguments, their kinds)"""
    samebit = world.samebit
    how = r.random()
    if how < 0.03:
        one = world.object_of(r.choice(list(METHODS)), r)
        what = r.choice([copy.copy, copy.deepcopy, pickle.dumps, repr, bool, hash])
        return what.__name__, lambda: what(one), {}, {}
    if how < 0.06:  # made by hand, without the library's values
        kind = r.choice(["Session", "State", "Case", "Model"])
        one = getattr(samebit, kind).__new__(getattr(samebit, kind))
        name = r.choice(list(METHODS[kind]))
        kinds = METHODS[kind][name]
        given = arguments(kinds or {}, r, world)
        return f"empty {kind}.{name}", (lambda: getattr(one, name)) if kinds is None else lambda **k: getattr(one, name)(**k), given, kinds
    if how < 0.1:
        (kind, name), value = r.choice(list(SETTERS.items()))
        one, given = world.object_of(kind, r), value.draw(r, world)
        return f"{kind}.{name} =", lambda value: setattr(one, name, value), {"value": given}, {"value": value}
    if how < 0.5:
        name = r.choice(list(FUNCTIONS))
        return name, getattr(samebit, name), arguments(FUNCTIONS[name], r, world), FUNCTIONS[name]
    kind = r.choice(["Model", "Session", "Session", "Session", "State", "Case", "Case"])
    name = r.choice(list(METHODS[kind]))
    one, kinds = world.object_of(kind, r), METHODS[kind][name]
    if kinds is None:
        return f"{kind}.{name}", lambda: getattr(one, name), {}, {}
    return f"{kind}.{name}", getattr(one, name), arguments(kinds, r, world), kinds


def long(given):
    """Numbers that are in range but would take hours."""
    return any(
        is_whole(given.get(name), U64) and operator.index(given[name]) > most
        for name, most in (("n", 64), ("repeats", 8), ("threads", 64))
    )


def shown(given):
    return ", ".join(f"{name}={value!r:.60}" for name, value in given.items())


def one_call(seed, i, world):
    """The error of call i, or None."""
    r = random.Random(f"{seed}.{i}")
    words, function, given, kinds = draw(r, world)
    if long(given):
        return None
    if os.environ.get("BOUNDARY_SHOW"):
        print(f"{i}: {words}({shown(given)})", file=sys.stderr, flush=True)
    try:
        result = function(**given)
        world.look()
    except (TypeError, ValueError, OSError, Planted, world.samebit.Error):
        return None
    except (KeyError, IndexError) as why:  # for a missing name or row
        return None if words in ("Case.raw", "Session.logits", "Session.hidden") else f"{words}({shown(given)}): {why!r}"
    except BaseException as why:
        return f"{words}({shown(given)}): {why!r}"
    if words == "check" and not result.results:
        return None  # no case to run: an empty report, which has not passed
    for name, value in given.items():
        if name == "no_such" and words in ("check", "metamorphic"):
            continue  # for the kernel
        if name not in kinds or not kinds[name].takes(value):
            return f"{words}({shown(given)}): took {name}"
    return None


# --- child and parent -------------------------------------------------------------------------------------
def child(o):
    world = World(o.tmp)
    missing = not_in_the_table()
    if missing:
        print("broken", "nothing here calls", ", ".join(missing), flush=True)
        return 1
    end, i = time.monotonic() + o.seconds, o.first
    while time.monotonic() < end if o.seconds else i < o.first + o.calls:
        print("call", i, flush=True)
        wrong = one_call(o.seed, i, world)
        if wrong:
            print("broken", wrong, flush=True)
            return 1
        i += 1
    print("end", i, flush=True)
    return 0


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=42)
    p.add_argument("--calls", type=int, default=1000)
    p.add_argument("--seconds", type=int, default=0)
    p.add_argument("--first", type=int, default=0)
    p.add_argument("--tmp")
    p.add_argument("--child", action="store_true")
    o = p.parse_args()
    if o.child:
        return child(o)
    with tempfile.TemporaryDirectory() as tmp:
        make = [os.environ["SAMEBIT"], "make", f"{tmp}/T4", "--preset", "T4", "--layers", "1"]
        subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
        run = [sys.executable, "-X", "faulthandler", str(HERE), "--child", "--tmp", tmp]
        run += [f"--{name}={getattr(o, name)}" for name in ("seed", "calls", "seconds", "first")]
        log = pathlib.Path(tmp) / "log"
        begin = time.monotonic()
        with open(log, "w") as out:
            one = subprocess.Popen(run, stdout=out, cwd=tmp)
        while one.poll() is None:
            time.sleep(0.05)
            if time.time() - max(log.stat().st_mtime, time.time() - (time.monotonic() - begin)) > SILENCE:
                one.kill()
        last = log.read_text(errors="replace").splitlines()[-1:] or ["call none"]
    if one.returncode == 0 and last[0].startswith("end "):
        print(f"fuzz python: {int(last[0][4:]) - o.first} calls, seed {o.seed}, {time.monotonic() - begin:.1f} s")
        return 0
    how = f"ended with {one.returncode}: " if one.returncode != 1 else ""
    print(f"FAILED seed {o.seed}: {how}{last[0]}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
