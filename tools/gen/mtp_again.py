"""A second, different implementation of the attention and the MLP of mtp.py, to check mtp.py.

Whole sequences instead of rows, matrices instead of loops, RoPE as a complex product, tanh instead
of the sigmoid, every expert instead of the chosen ones; float64 without rounding.
"""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from mtp import Layer


def attention_by_matrices(layer: "Layer", y: np.ndarray) -> np.ndarray:
    """The attention of rows Y at positions 0, 1, ...: [n, H] to [n, H]."""
    config, rows = layer.config, len(y)

    def project(name: str, x: np.ndarray) -> np.ndarray:
        return x @ layer.weight(f"self_attn.{name}.weight").T

    both = project("q_proj", y).reshape(rows, config.heads, 2 * config.head_dim)
    query, gate = both[..., : config.head_dim], both[..., config.head_dim :]
    key, value = (
        project(name, y).reshape(rows, config.kv_heads, config.head_dim)
        for name in ("k_proj", "v_proj")
    )
    half = config.rotary // 2
    frequency = np.exp(-np.log(config.theta) * np.arange(half) / half)
    turn = np.exp(1j * np.outer(np.arange(rows), frequency))[:, None]

    def turned(heads: np.ndarray, name: str) -> np.ndarray:
        mean = np.mean(heads**2, axis=-1, keepdims=True)
        heads = heads * (mean + config.eps) ** -0.5
        heads = heads + heads * layer.weight(f"self_attn.{name}.weight")
        pairs = (heads[..., :half] + 1j * heads[..., half : 2 * half]) * turn
        return np.concatenate([pairs.real, pairs.imag, heads[..., 2 * half :]], axis=-1)

    query, key = turned(query, "q_norm"), turned(key, "k_norm")
    share = config.heads // config.kv_heads
    key, value = np.repeat(key, share, axis=1), np.repeat(value, share, axis=1)
    scores = np.einsum("thd,shd->hts", query, key) * config.head_dim**-0.5
    scores[:, np.triu(np.ones((rows, rows), bool), 1)] = -np.inf
    powers = np.exp(scores)
    mixed = np.einsum("hts,shd->thd", powers / powers.sum(axis=-1, keepdims=True), value)
    mixed = mixed * (0.5 + 0.5 * np.tanh(0.5 * gate))
    return project("o_proj", mixed.reshape(rows, -1))


def silu_by_tanh(x: np.ndarray) -> np.ndarray:
    """x * sigmoid(x)."""
    return 0.5 * x * (1.0 + np.tanh(0.5 * x))


def mlp_by_matrices(layer: "Layer", y: np.ndarray) -> np.ndarray:
    """The MLP of rows Y; a MoE computes every expert for every row, most of them times zero."""

    def gated(matrices: tuple[np.ndarray, ...]) -> np.ndarray:
        return (silu_by_tanh(y @ matrices[0].T) * (y @ matrices[1].T)) @ matrices[2].T

    def named(prefix: str) -> tuple[np.ndarray, ...]:
        return tuple(
            layer.weight(f"{prefix}{name}.weight") for name in ("gate_proj", "up_proj", "down_proj")
        )

    if not layer.config.top_k:
        return gated(named("mlp."))
    logits = y @ layer.weight("mlp.gate.weight").T
    smallest = np.sort(logits, axis=-1)[:, -layer.config.top_k, None]
    powers = np.exp(logits)
    chosen = np.where(logits >= smallest, powers, 0.0)
    total = chosen if layer.config.renormalise else powers
    shares = chosen / total.sum(axis=-1, keepdims=True)
    routed = sum(shares[:, e, None] * gated(layer.expert(e)) for e in range(logits.shape[1]))
    scale = y @ layer.weight("mlp.shared_expert_gate.weight").T
    return routed + gated(named("mlp.shared_expert.")) * (0.5 + 0.5 * np.tanh(0.5 * scale))
