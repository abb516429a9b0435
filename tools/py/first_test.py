"""The first ten lines with samebit (docs/gates.md): a kernel in NumPy, all regimes."""

import numpy as np
import samebit


def rmsnorm(x, weight):
    x = np.asarray(x, np.float32)
    return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + np.float32(1e-6)) * (1 + np.asarray(weight, np.float32))


report = samebit.check(rmsnorm, "rmsnorm", arith="fp32")
print(report)
raise SystemExit(not report.passed)
