"""Tests kernels of other projects, and in NumPy and Triton, through the plug-in, in every regime that the
contracts of the ops allow. `make crosscheck` runs this with tools/py/check.sh."""

import ct_kernels as ct
import fla_kernels as fla
import numpy_kernels as numpy_
import transformers_kernels as hf
import triton_kernels as triton_
from samebit.pytest_plugin import samebit_case

linear = samebit_case("bf16_linear", arith="fp32", like="torch")
nvfp4 = samebit_case("nvfp4_linear", shapes=["", "rows=9", "n=8,k=32", "n=120,k=128"], arith="fp32")
nvfp4_torch = samebit_case("nvfp4_linear", arith="fp32", like="torch")
nvfp4_shapes = samebit_case("nvfp4_linear", shapes=["", "rows=9", "n=8,k=32", "n=120,k=128"], arith="fp32", like="torch")
fp8_torch = samebit_case("fp8_linear", shapes=["", "n=120,k=128", "n=264,k=640"], arith="fp32", like="torch")
experts_bf16 = samebit_case("bf16_experts", arith="bf16_mma+bf16", like="torch")
rows_default = samebit_case("delta_rule", shapes=["", "rows=9", "k_heads=1,v_heads=3"], arith="fp32", inputs="f32",
                            like="torch")  # fmt: skip
fp8 = samebit_case("fp8_linear", shapes=["", "n=120,k=128", "n=264,k=640"], arith="fp32")
experts = samebit_case("bf16_experts", arith="fp32", inputs="f32", like="torch")
rows = samebit_case("delta_rule", shapes=["", "rows=1", "rows=9", "k_heads=1,v_heads=3", "dk=7,dv=13", "state=0"], arith="fp32", inputs="f32", like="torch")
chunk = samebit_case("delta_rule_chunk", shapes=["", "rows=1", "rows=63", "rows=65", "rows=129", "rows=66,dk=7,dv=13"],
                     arith="fp32", inputs="f32", like="torch")  # fmt: skip
gated_norm = samebit_case("gated_rmsnorm", arith="fp32+bf16", like="torch")
gated_norm_f32 = samebit_case("gated_rmsnorm", shapes="all", arith="fp32", inputs="f32", like="torch")
norm = samebit_case("rmsnorm", shapes="all", inputs=["bf16", "f32"], arith="fp32", like="torch")
router = samebit_case("router", arith="fp32", inputs="f32", like="torch", need="all")


def test_triton_nvfp4(nvfp4_torch):
    nvfp4_torch(triton_.nvfp4_linear)


def test_triton_linear_f32(linear):
    linear(triton_.linear_f32)


def test_numpy_nvfp4(nvfp4):
    nvfp4(numpy_.nvfp4_linear)


def test_numpy_fp8(fp8):
    fp8(numpy_.fp8_linear)


def test_transformers_experts(experts):
    experts(hf.experts)


def test_transformers_delta_rule(rows):
    rows(hf.delta_rule)


def test_transformers_delta_rule_chunk(chunk):
    chunk(hf.delta_rule_chunk)


def test_transformers_gated_norm(gated_norm):
    gated_norm(hf.gated_rmsnorm)


def test_transformers_gated_norm_f32(gated_norm_f32):
    gated_norm_f32(hf.gated_rmsnorm)


def test_transformers_norm(norm):
    norm(hf.rmsnorm)


def test_transformers_router(router):
    router(hf.router)


def test_fla_delta_rule(rows):
    rows(fla.delta_rule)


def test_fla_delta_rule_chunk(chunk):
    chunk(fla.delta_rule_chunk)


def test_fla_delta_rule_fused(rows_default):
    rows_default(fla.delta_rule_fused)


def test_compressed_tensors_nvfp4(nvfp4_shapes):
    nvfp4_shapes(ct.nvfp4_linear)


def test_compressed_tensors_fp8(fp8_torch):
    fp8_torch(ct.fp8_linear)


def test_transformers_experts_bf16(experts_bf16):
    experts_bf16(hf.experts)
