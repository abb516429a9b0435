"""Tests the kernels of broken_kernels.py: the judge fails each; comparisons that projects use pass most of them.

    python test_broken.py        prints the table of docs/gates.md
"""

import numpy as np
import pytest
import torch
from broken_kernels import FAULTS

import samebit


def judged(fault):
    """The case, the output of the broken kernel, and the judge's result."""
    case = samebit.vectors(fault.op, **fault.case)
    got = samebit.cases.call_kernel(fault.kernel, case)
    if fault.repeats:
        return case, got, samebit.metamorphic(fault.kernel, case, repeats=fault.repeats)
    return case, got, samebit.judge(case, got, arith="fp32")


def pairs(case, got):
    """Outputs of the kernel and the right ones, in binary32."""
    named = got if isinstance(got, dict) else {"out": got}
    for name, value in named.items():
        yield name, torch.tensor(np.asarray(value, np.float32)), torch.tensor(np.array(case.exact(name)))


def default_passes(case, got):
    """torch.testing.assert_close with its defaults."""
    try:
        for _, found, right in pairs(case, got):
            torch.testing.assert_close(found, right)
    except AssertionError:
        return False
    return True


def published_passes(case, got):
    """atol 0.3, rtol 0.3, and up to 20 % of the elements may be outside."""
    for _, found, right in pairs(case, got):
        outside = ~((found - right).abs() <= 0.3 + 0.3 * right.abs())
        if outside.float().mean() > 0.2:
            return False
    return True


@pytest.mark.parametrize("fault", FAULTS, ids=lambda one: one.name.replace(" ", "-"))
def test_broken(fault):
    case, got, result = judged(fault)
    assert not result.passed, f"{fault.name} was not seen: {case}"


@pytest.mark.parametrize("fault", [one for one in FAULTS if one.hidden], ids=lambda one: one.name)
def test_hidden(fault):
    """With the usual random inputs the same kernel passes."""
    case = samebit.vectors(fault.op, **{**fault.case, "regime": "normal"})
    got = samebit.cases.call_kernel(fault.kernel, case)
    assert samebit.judge(case, got, arith="fp32").passed and default_passes(case, got)


def row(fault):
    case, got, result = judged(fault)
    said = "caught" if not result.passed else "NOT CAUGHT"
    if not fault.repeats:
        worst = "infinite" if not np.isfinite(result.worst) else f"{result.worst:.2g}"
        said += f", {worst} of the bound"
    at = ", ".join(part for part in (case.regime, fault.case.get("shape")) if part)
    passes = ["passes" if one(case, got) else "fails" for one in (default_passes, published_passes)]
    return f"| {fault.name} | {fault.what} | `{fault.op}`, {at} | {said} | {passes[0]} | {passes[1]} |"


if __name__ == "__main__":
    print("| fault | the mistake | case | samebit | assert_close | atol 0.3, rtol 0.3, 20 % |")
    print("|---|---|---|---|---|---|")
    for one in FAULTS:
        print(row(one))
