"""From flash-linear-attention: the naive references in plain torch, and the Triton kernel of decode steps
under Triton's interpreter (conftest.py, or TRITON_INTERPRET=1)."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the warning that there is no GPU
    from fla.ops.gated_delta_rule import naive
    from fla.ops.gated_delta_rule.fused_recurrent import fused_recurrent_gated_delta_rule


def _run(function, q, k, v, g, beta, initial_state):
    heads = v.shape[1] // k.shape[1]
    out, state = function(
        q=q.float().repeat_interleave(heads, 1)[None],
        k=k.float().repeat_interleave(heads, 1)[None],
        v=v.float()[None],
        g=g.float()[None],
        beta=beta.float()[None],
        initial_state=initial_state[None],
        output_final_state=True,
    )
    return {"out": out[0], "state": state[0]}


def delta_rule(q, k, v, g, beta, initial_state):
    return _run(naive.naive_recurrent_gated_delta_rule, q, k, v, g, beta, initial_state)


def delta_rule_chunk(q, k, v, g, beta, initial_state):
    return _run(naive.naive_chunk_gated_delta_rule, q, k, v, g, beta, initial_state)


def delta_rule_fused(q, k, v, g, beta, initial_state):
    out, state = fused_recurrent_gated_delta_rule(
        q=q[None],
        k=k[None],
        v=v[None],
        g=g[None],
        beta=beta[None],
        initial_state=initial_state[None],
        output_final_state=True,
    )
    return {"out": out[0], "state": state[0]}
