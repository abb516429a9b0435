"""The operations of Hugging Face transformers (torch path) as kernels: each takes the inputs of its op by name,
with a batch of one sequence where transformers needs a batch."""

from inspect import unwrap
from types import SimpleNamespace

import torch
from transformers.models.qwen3_5_moe import modeling_qwen3_5_moe as qwen

EPS = 1e-6


def _heads(x, heads):
    return x.repeat_interleave(heads // x.shape[1], dim=1)


def _delta_rule(function, q, k, v, g, beta, initial_state, **more):
    heads = v.shape[1]
    # transformers calls flash-linear-attention if it is installed: judges the function of transformers itself
    out, state = unwrap(function)(
        _heads(q.float(), heads)[None],
        _heads(k.float(), heads)[None],
        v.float()[None],
        g.float()[None],
        beta.float()[None],
        initial_state=initial_state[None],
        output_final_state=True,
        **more,
    )
    return {"out": out[0], "state": state[0]}


def delta_rule(q, k, v, g, beta, initial_state):
    return _delta_rule(qwen.torch_recurrent_gated_delta_rule, q, k, v, g, beta, initial_state)


def delta_rule_chunk(q, k, v, g, beta, initial_state):
    return _delta_rule(qwen.torch_chunk_gated_delta_rule, q, k, v, g, beta, initial_state)


def _module(made, **weights):
    for name, value in weights.items():
        setattr(made, name, torch.nn.Parameter(value, requires_grad=False))
    return made


def gated_rmsnorm(x, z, weight):
    norm = _module(qwen.Qwen3_5MoeRMSNormGated(x.shape[-1], eps=EPS), weight=weight)
    return norm(x, z)


def rmsnorm(x, weight):
    return _module(qwen.Qwen3_5MoeRMSNorm(x.shape[-1], eps=EPS), weight=weight)(x)


def router(logits, kept):
    config = SimpleNamespace(num_experts_per_tok=kept, num_experts=logits.shape[-1], hidden_size=logits.shape[-1])
    made = _module(qwen.Qwen3_5MoeTopKRouter(config), weight=torch.eye(logits.shape[-1], dtype=logits.dtype))
    _, weights, ids = made(logits)
    return {"out": weights, "ids": ids}


def experts(x, w13_weight, w2_weight, topk_ids, topk_weights):
    config = SimpleNamespace(
        num_experts=len(w13_weight),
        hidden_size=x.shape[-1],
        moe_intermediate_size=w2_weight.shape[-1],
        hidden_act="silu",
        _experts_implementation="eager",
    )
    made = _module(
        qwen.Qwen3_5MoeExperts(config), gate_up_proj=w13_weight.to(x.dtype), down_proj=w2_weight.to(x.dtype)
    )
    return made(x, topk_ids.long(), topk_weights)
