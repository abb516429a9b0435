"""Tests the plug-in from outside: sessions of pytest in their own folders."""

pytest_plugins = ["pytester"]

GOOD = """
import numpy as np
from samebit.pytest_plugin import samebit_case

norm = samebit_case("rmsnorm", arith="fp32")

def kernel(x, weight):
    x = np.asarray(x, np.float32)
    r = np.sqrt(np.mean(x * x, -1, keepdims=True) + np.float32(1e-6))
    return (x / r * (1 + np.asarray(weight, np.float32))).astype(np.float32)
"""


def run(pytester, text, *options):
    pytester.makepyfile(text)
    return pytester.runpytest_subprocess(*options)


def test_passes_and_counts(pytester):
    found = run(pytester, GOOD + "def test(norm): norm(kernel)\n")
    found.assert_outcomes(passed=10)
    found.stdout.fnmatch_lines(["rmsnorm: 10 passed, 0 failed; normal, negative,*"])


def test_failure_says_how_to_repeat(pytester):
    found = run(pytester, GOOD + "def test(norm): norm(lambda x, weight: kernel(x, weight) * 1.01)\n", "-k", "normal")
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines(
        ["*samebit: FAIL*", "*first out: row 0, column 0*", "*samebit vectors rmsnorm*-o *", "*samebit judge * --arith fp32"]
    )
    assert list(pytester.path.glob(".samebit/*.got.safetensors"))


def test_a_wrong_shape_names_the_case(pytester):
    found = run(pytester, GOOD + "def test(norm): norm(lambda x, weight: kernel(x, weight)[:, :-1])\n", "-k", "normal")
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines(["*rmsnorm*normal*out*"])
    assert "samebit/" not in found.stdout.str() and "Error" not in found.stdout.str()


def test_an_error_of_the_kernel_is_shown_from_there_on(pytester):
    found = run(pytester, GOOD + "def test(norm): norm(lambda x, weight: x['no'])\n", "-k", "normal")
    found.assert_outcomes(failed=1)
    assert "IndexError" in found.stdout.str() and "call_kernel" not in found.stdout.str()


def test_never_called(pytester):
    found = run(pytester, GOOD + "def test(norm): pass\n", "-k", "normal")
    found.assert_outcomes(passed=1, errors=1)
    found.stdout.fnmatch_lines(["*never called*"])


def test_nothing_judged(pytester):
    found = run(pytester, GOOD + "import pytest\n@pytest.mark.skip\ndef test(norm): norm(kernel)\n")
    assert found.ret == 1
    found.stdout.fnmatch_lines(["FAILED 10 cases were collected and none was judged*"])


def test_all_deselected(pytester):
    found = run(pytester, GOOD + "def test(norm): norm(kernel)\n", "-k", "nothing", "--samebit-require=rmsnorm")
    assert found.ret == 1
    found.stdout.fnmatch_lines(["FAILED --samebit-require: no case of rmsnorm was judged"])


def test_required(pytester):
    text = GOOD + "def test(norm): norm(kernel)\n"
    assert run(pytester, text, "--samebit-require=rmsnorm").ret == 0
    assert run(pytester, text, "--samebit-require=rmsnorm,linear").ret == 1


def test_unknown_regime(pytester):
    found = run(pytester, GOOD.replace('arith="fp32"', 'regimes="strange"') + "def test(norm): norm(kernel)\n")
    assert found.ret != 0
    assert "strange" in found.stdout.str() + found.stderr.str()


def test_other_projects_see_nothing(pytester):
    found = run(pytester, "def test(): pass\n")
    found.assert_outcomes(passed=1)
    found.stdout.no_fnmatch_line("*samebit*FAILED*")
