"""samebit: the reference of the Qwen3.5 / Qwen3.6 hybrid models, and a judge of kernels.

    import samebit

    case = samebit.vectors("nvfp4_linear", regime="subnormal")
    result = samebit.judge(case, my_kernel(**case.inputs()), arith="bf16_mma")
    print(result)                           # WITHIN, or which element is wrong and by how much

    report = samebit.check(my_kernel, "nvfp4_linear", arith="bf16_mma")    # all regimes

    model = samebit.Model("Qwen3.5-35B-A3B")
    session = samebit.Session(model)
    session.feed([1, 2, 3])
    session.logits()                        # the same bits on every machine

docs/gates.md of the tree is the manual.
"""

from .cases import (
    Case,
    MetaReport,
    Op,
    Power,
    Report,
    Result,
    ariths,
    case_of,
    check,
    judge,
    metamorphic,
    ops,
    power,
    regimes,
    vectors,
    write_got,
)
from .library import Error, Failed, Mistrusted, Refused, UsageError
from .library import lib as _lib
from .models import Digests, Generated, Model, Session, State

__version__ = _lib.samebit_version().decode()

__all__ = [
    "Case",
    "Op",
    "Power",
    "Report",
    "Result",
    "ariths",
    "case_of",
    "check",
    "judge",
    "metamorphic",
    "ops",
    "power",
    "regimes",
    "vectors",
    "write_got",
    "Digests",
    "Error",
    "Failed",
    "Generated",
    "MetaReport",
    "Mistrusted",
    "Model",
    "Refused",
    "Session",
    "State",
    "UsageError",
]
