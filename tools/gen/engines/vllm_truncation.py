"""Finds the rounding of grouped experts in vLLM's CPU library: vllm_truncation.py, in the environment of vLLM.

`cpu_fused_moe` computes one layer of experts with random weights. The same layer is computed in binary64 with
only two roundings to bfloat16, of the input of down_proj and of the sum over the experts: to nearest, or toward
zero. Prints how many bits of each agree with the engine.
"""

import torch
import vllm._custom_ops as ops
from vllm.platforms import current_platform

TOKENS, EXPERTS, KEPT, HIDDEN, INNER = 14, 32, 8, 256, 128


def nearest(x):
    """Rounds to bfloat16, ties to even."""
    return x.float().bfloat16().double()


def toward_zero(x):
    """Rounds to bfloat16 by dropping 16 bits."""
    return (x.float().view(torch.int32) & -65536).view(torch.float32).double()


def rounded(x, gate_up, down, weights, ids, rounds):
    """The sum over the experts in binary64, rounded at two places."""
    gate, up = torch.einsum("tkoi,ti->tko", gate_up[ids].double(), x.double()).chunk(2, -1)
    inner = rounds(torch.nn.functional.silu(gate) * up)
    return rounds((torch.einsum("tkoi,tki->tko", down[ids].double(), inner) * weights.double()[..., None]).sum(1))


def main():
    """Compares both with the engine."""
    current_platform.import_kernels()
    torch.manual_seed(1)
    gate_up = (torch.randn(EXPERTS, 2 * INNER, HIDDEN) / 16).bfloat16()
    down = (torch.randn(EXPERTS, HIDDEN, INNER) / 16).bfloat16()
    x = torch.randn(TOKENS, HIDDEN).bfloat16()
    values, ids = torch.randn(TOKENS, EXPERTS).topk(KEPT)
    weights, out = torch.softmax(values, -1), torch.empty_like(x)
    packed = [ops.cpu_prepack_moe_weight(w.contiguous(), "vec") for w in (gate_up, down)]
    ops.cpu_fused_moe(out, x, *packed, None, None, weights, ids.int(), "silu", "vec", False)
    for name, rounds in (("to nearest", nearest), ("toward zero", toward_zero)):
        same = int((rounded(x, gate_up, down, weights, ids, rounds) == out.double()).sum())
        print(f"{name}: {same} of {out.numel()}")


main()
