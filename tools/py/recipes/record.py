"""Records the outputs of kernels of other projects: python record.py FOLDER. `make check` replays them through
`samebit judge` (tests/cli/recipes.sh), without Python.

FOLDER/LIST has one line per kernel: name, verdict, arithmetic, and the arguments of `samebit vectors`.
"""

import os
import pathlib
import sys

os.environ["TRITON_INTERPRET"] = "1"  # before anything imports Triton

import ct_kernels as ct  # noqa: E402
import fla_kernels as fla  # noqa: E402
import numpy_kernels as numpy_  # noqa: E402
import transformers_kernels as hf  # noqa: E402
import triton_kernels as triton_  # noqa: E402

import samebit  # noqa: E402

ONES = [
    ("triton-nvfp4-linear", triton_.nvfp4_linear, "nvfp4_linear", "fp32", "torch", "n=24,k=96,rows=3", "bf16"),
    ("triton-linear-f32", triton_.linear_f32, "bf16_linear", "fp32", "torch", "n=24,k=96,rows=3", "bf16"),
    ("triton-linear-bf16", triton_.linear, "bf16_linear", "bf16_mma", "torch", "n=24,k=96,rows=3", "bf16"),
    ("numpy-nvfp4-linear", numpy_.nvfp4_linear, "nvfp4_linear", "fp32", "numpy", "n=24,k=96,rows=3", "bf16"),
    ("numpy-fp8-linear", numpy_.fp8_linear, "fp8_linear", "fp32", "numpy", "n=24,k=128,rows=3", "bf16"),
    ("transformers-experts", hf.experts, "bf16_experts", "bf16_mma+bf16", "torch", "hidden=64,inner=32", "bf16"),
    ("transformers-delta-rule", hf.delta_rule, "delta_rule", "fp32", "torch", "dk=16,dv=16", "f32"),
    ("transformers-delta-rule-chunk", hf.delta_rule_chunk, "delta_rule_chunk", "fp32", "torch", "rows=67,dk=16,dv=16", "f32"),
    ("transformers-gated-norm", hf.gated_rmsnorm, "gated_rmsnorm", "fp32+bf16", "torch", "", "bf16"),
    ("transformers-norm", hf.rmsnorm, "rmsnorm", "fp32+bf16", "torch", "", "bf16"),
    ("transformers-router", hf.router, "router", "fp32", "torch", "", "f32"),
    ("fla-delta-rule", fla.delta_rule, "delta_rule", "fp32", "torch", "dk=16,dv=16", "f32"),
    ("fla-delta-rule-fused", fla.delta_rule_fused, "delta_rule", "fp32", "torch", "dk=16,dv=16", "f32"),
    ("compressed-tensors-nvfp4", ct.nvfp4_linear, "nvfp4_linear", "fp32", "torch", "n=24,k=96,rows=3", "bf16"),
    ("compressed-tensors-fp8", ct.fp8_linear, "fp8_linear", "fp32", "torch", "n=24,k=128,rows=3", "bf16"),
    ("fla-delta-rule-chunk", fla.delta_rule_chunk, "delta_rule_chunk", "fp32", "torch", "rows=67,dk=16,dv=16", "f32"),
]  # fmt: skip


def main(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for name, kernel, op, arith, like, shape, kind in ONES:
        for regime in ("normal", "ties", "tiny"):
            case = samebit.vectors(op, shape=shape or None, regime=regime, input=kind)
            got = samebit.cases.call_kernel(kernel, case, like)
            found = samebit.judge(case, got, arith=arith)
            samebit.write_got(folder / f"{name}-{regime}.safetensors", case, got)
            options = case.command(arith).removeprefix("samebit vectors ")
            lines.append(f"{name}-{regime} {found.verdict} {arith} {options}")
    (folder / "LIST").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
