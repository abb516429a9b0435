"""Kernels in Triton under its interpreter: without a GPU, and with NumPy for every operation."""

import os

os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported

import torch  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402


@triton.jit
def _e2m1(code):
    """The value of a 4-bit code: magnitudes 0, 0.5, 1, 1.5, 2, 3, 4, 6 and a sign."""
    magnitude, sign = code & 7, code >> 3
    exponent, fraction = magnitude >> 1, magnitude & 1
    value = tl.where(exponent == 0, 0.5 * fraction, (1.0 + 0.5 * fraction) * tl.exp2((exponent - 1).to(tl.float32)))
    return tl.where(sign == 1, -value, value)


@triton.jit
def _e4m3(code):
    exponent, fraction = (code >> 3) & 15, (code & 7).to(tl.float32)
    small = fraction * 0.001953125
    large = (8.0 + fraction) * tl.exp2(exponent.to(tl.float32) - 10.0)
    return tl.where(exponent == 0, small, large)


@triton.jit
def _nvfp4_linear(x, packed, scales, factor, out, rows, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """A tile of (M, N) outputs. Each byte of the weight has the codes of two columns, the low one first."""
    m, o = tl.program_id(0) * M + tl.arange(0, M), tl.program_id(1) * N + tl.arange(0, N)
    sum_ = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        column = start + tl.arange(0, K)
        inside = (o[:, None] < n) & (column[None, :] < k)
        byte = tl.load(packed + o[:, None] * (k // 2) + column[None, :] // 2, mask=inside, other=0).to(tl.int32)
        code = tl.where(column[None, :] % 2 == 0, byte & 15, byte >> 4)
        scale = tl.load(scales + o[:, None] * (k // 16) + column[None, :] // 16, mask=inside, other=0).to(tl.int32)
        weight = _e2m1(code) * _e4m3(scale)
        given = (m[:, None] < rows) & (column[None, :] < k)
        value = tl.load(x + m[:, None] * k + column[None, :], mask=given, other=0.0).to(tl.float32)
        sum_ = tl.dot(value, tl.trans(weight), acc=sum_, input_precision="ieee")
    sum_ = sum_ / tl.load(factor)
    tl.store(out + m[:, None] * n + o[None, :], sum_, mask=(m[:, None] < rows) & (o[None, :] < n))


def nvfp4_linear(x, weight_packed, weight_scale, weight_global_scale):
    rows, k, n = x.shape[0], x.shape[1], weight_packed.shape[0]
    out = torch.empty(rows, n)
    grid = (triton.cdiv(rows, 16), triton.cdiv(n, 16))
    scales = weight_scale.view(torch.uint8)
    _nvfp4_linear[grid](
        x.float(), weight_packed, scales, weight_global_scale.reshape(-1), out, rows, n, k, M=16, N=16, K=32
    )
    return out


@triton.jit
def _linear(x, weight, out, rows, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, o = tl.program_id(0) * M + tl.arange(0, M), tl.program_id(1) * N + tl.arange(0, N)
    sum_ = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        column = start + tl.arange(0, K)
        w = tl.load(weight + o[:, None] * k + column[None, :], mask=(o[:, None] < n) & (column[None, :] < k), other=0.0)
        v = tl.load(x + m[:, None] * k + column[None, :], mask=(m[:, None] < rows) & (column[None, :] < k), other=0.0)
        sum_ += tl.dot(v, tl.trans(w))
    tl.store(out + m[:, None] * n + o[None, :], sum_, mask=(m[:, None] < rows) & (o[None, :] < n))


def linear(x, weight):
    """Written like a kernel for a GPU: bfloat16 goes to the matrix unit unchanged."""
    out = torch.empty(x.shape[0], weight.shape[0])
    grid = (triton.cdiv(x.shape[0], 16), triton.cdiv(weight.shape[0], 16))
    _linear[grid](x, weight, out, x.shape[0], weight.shape[0], x.shape[1], M=16, N=16, K=32)
    return out


def linear_f32(x, weight):
    return linear(x.float(), weight.float())
