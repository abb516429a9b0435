"""Kernels with one mistake each, of kinds reported for real engines, and the cases that reveal them.

FAULTS lists them. `test_broken.py` gives each to the judge, which must fail it, and to the comparisons that
projects use: the defaults of torch.testing.assert_close, and a published tolerance (atol 0.3, rtol 0.3, 20 % of
the elements may be outside).
"""

from typing import Any, Callable, Dict, NamedTuple

import numpy as np
from numpy_kernels import E2M1, delta_rule, e4m3, fp8_block, nvfp4, sigmoid, silu


class Fault(NamedTuple):
    name: str  # name of the class of mistakes
    what: str
    op: str  # as for samebit_case
    kernel: Callable[..., Any]
    case: Dict[str, Any]  # of samebit.vectors: regime, shape
    repeats: int = 0  # above 0: the metamorphic gate must find it
    hidden: bool = False  # inputs of regime normal do not reveal it


FAULTS = []


def fault(
    name: str, what: str, op: str, repeats: int = 0, hidden: bool = False, **case: Any
) -> Callable[..., Any]:
    def add(kernel: Callable[..., Any]) -> Callable[..., Any]:
        FAULTS.append(Fault(name, what, op, kernel, case, repeats, hidden))
        return kernel

    return add


def f32(x: Any) -> np.ndarray:
    return np.asarray(x, np.float32)


# --- linear layers ----------------------------------------------------------------------------------------
def unswizzled(swizzled, rows, groups):
    """The padded scales of a (rows, groups) matrix from blocks of 128 x 4."""
    padded = np.asarray(swizzled).view(np.uint8).reshape(-1, -(-groups // 4), 32, 4, 4)
    plain = padded.transpose(0, 3, 2, 1, 4).reshape(padded.shape[0] * 128, -1)
    return plain[:rows, :groups], plain


@fault(
    "F17",
    "the padding of the scale blocks is multiplied with zeros",
    "nvfp4_linear",
    hidden=True,
    regime="padding",
    shape="n=160,k=48",
)
def padded_scales(x, weight_packed, weight_scale, weight_scale_swizzled, weight_global_scale):
    rows, groups = weight_scale.shape
    scales = unswizzled(weight_scale_swizzled, rows, groups)[1][:rows]  # the padding columns stay
    codes = np.stack([E2M1[weight_packed & 15], E2M1[weight_packed >> 4]], -1).reshape(rows, -1)
    wide = np.zeros((rows, scales.shape[1] * 16), np.float32)
    wide[:, : codes.shape[1]] = codes
    weight = wide * np.repeat(e4m3(scales), 16, 1) / f32(weight_global_scale).reshape(-1)[0]
    given = np.zeros((len(x), wide.shape[1]), np.float32)
    given[:, : x.shape[1]] = f32(x)
    return given @ weight.T


@fault("F23", "scales are held in half precision, where small ones are 0", "nvfp4_linear", regime="subnormal")
def half_scales(x, weight_packed, weight_scale, weight_global_scale):
    factor = np.float32(1) / f32(weight_global_scale).reshape(-1)[0]
    scale = (e4m3(weight_scale) * factor).astype(np.float16).astype(np.float32)
    codes = np.stack([E2M1[weight_packed & 15], E2M1[weight_packed >> 4]], -1).reshape(len(weight_packed), -1)
    return f32(x) @ (codes * np.repeat(scale, 16, 1)).T


@fault("F26", "blocks of 125 rows and columns in place of 128", "fp8_linear", shape="n=160,k=384")
def blocks_of_125(x, weight, weight_scale_inv):
    rows, cols = weight.shape
    i, j = np.arange(rows) // 125, np.arange(cols) // 125
    scale = f32(weight_scale_inv)
    scale = scale[np.minimum(i, scale.shape[0] - 1)][:, np.minimum(j, scale.shape[1] - 1)]
    return f32(x) @ (e4m3(weight) * scale).T


@fault("nibbles", "the high half of a byte is taken for the first code", "nvfp4_linear")
def nibbles_swapped(x, weight_packed, weight_scale, weight_global_scale):
    swapped = (weight_packed >> 4) | ((weight_packed & 15) << 4)
    return f32(x) @ nvfp4(swapped.astype(np.uint8), weight_scale, weight_global_scale).T


@fault(
    "one column",
    "the last column is not read where their number is odd",
    "bf16_linear",
    shape="rows=4,n=160,k=383",
)
def last_column(x, weight):
    k = x.shape[1] // 2 * 2
    return f32(x)[:, :k] @ f32(weight)[:, :k].T


@fault(
    "no output",
    "rows behind a multiple of 16 are never written, and the buffer was zero",
    "bf16_linear",
    shape="rows=17,n=160,k=384",
)
def unwritten_rows(x, weight):
    out = f32(x) @ f32(weight).T
    out[len(out) // 16 * 16 :] = 0
    return out


@fault("tiny", "a sum below 1e-6 is taken for 0", "bf16_linear", hidden=True, regime="tiny")
def flushed(x, weight):
    out = f32(x) @ f32(weight).T
    return np.where(np.abs(out) < 1e-6, np.float32(0), out)


class _Rare:
    """A mistake in one of 50 calls."""

    def __init__(self):
        self.calls = 0

    def __call__(self, x, weight):
        self.calls += 1
        out = f32(x) @ f32(weight).T
        if self.calls % 50 == 0:
            out[0, :16] = out[0, 16:32]
        return out


fault("F34", "one call in 50 has a wrong tile", "bf16_linear", repeats=100)(_Rare())


# --- experts ----------------------------------------------------------------------------------------------
def experts(x, w13, w2, topk_ids, topk_weights, swapped=False):
    out = np.zeros((len(x), w2.shape[1]), np.float32)
    for row, (ids, weights) in enumerate(zip(topk_ids, f32(topk_weights))):
        for expert, weight in zip(ids, weights):
            gate, up = np.split(f32(w13[expert]) @ f32(x[row]), 2)
            if swapped:
                gate, up = up, gate
            out[row] += weight * (f32(w2[expert]) @ (silu(gate) * up))
    return out


@fault("F19", "gate and up stand in the other order", "bf16_experts")
def halves_swapped(x, w13_weight, w2_weight, topk_ids, topk_weights):
    return experts(x, w13_weight, w2_weight, topk_ids, topk_weights, swapped=True)


# --- router -----------------------------------------------------------------------------------------------
def route(logits, k, start=-np.inf, renormalise=True):
    logits = f32(logits)
    most = np.maximum(logits.max(1, keepdims=True), np.float32(start))
    with np.errstate(invalid="ignore", divide="ignore"):
        e = np.exp(logits - most)
        p = e / e.sum(1, keepdims=True)
        ids = np.argsort(-logits, axis=1, kind="stable")[:, :k]
        weights = np.take_along_axis(p, ids, 1)
        if renormalise:
            weights = weights / weights.sum(1, keepdims=True)
    return {"out": weights.astype(np.float32), "ids": ids.astype(np.int32)}


@fault("F24", "the running maximum of the logits starts from 0", "router", hidden=True, regime="negative")
def maximum_from_zero(logits):
    """In a row without a logit above 0, no expert is ever better than the first."""
    logits = f32(logits)
    best = np.zeros((len(logits), 8), np.float32)
    ids = np.zeros((len(logits), 8), np.int32)
    for row, values in enumerate(logits):
        for expert, value in enumerate(values):
            slot = int(np.sum(best[row] >= value))
            if slot < 8:
                best[row, slot + 1 :], ids[row, slot + 1 :] = best[row, slot:-1].copy(), ids[row, slot:-1].copy()
                best[row, slot], ids[row, slot] = value, expert
    weights = np.exp(best - best.max(1, keepdims=True))
    return {"out": weights / weights.sum(1, keepdims=True), "ids": ids}


@fault("F25", "the kept probabilities are not divided by their sum", "router")
def not_renormalised(logits):
    return route(logits, 8, renormalise=False)


# --- delta rule ---------------------------------------------------------------------------------------------
@fault("F30", "value head h uses key head h mod nK", "delta_rule")
def tiled_heads(q, k, v, g, beta, initial_state):
    ratio = v.shape[1] // k.shape[1]
    return delta_rule(np.tile(f32(q), (1, ratio, 1)), np.tile(f32(k), (1, ratio, 1)), v, g, beta, initial_state)


@fault("F31", "the decay of a last chunk that is not full is forgotten", "delta_rule_chunk", shape="rows=70")
def last_decay(q, k, v, g, beta, initial_state):
    good = delta_rule(q, k, v, g, beta, initial_state)
    full = len(v) // 64 * 64
    g = np.array(f32(g))
    g[full:] = 0
    wrong = delta_rule(q, k, v, g, beta, initial_state)
    return {"out": good["out"], "state": wrong["state"]}


@fault("F32", "the state of the tokens before is left out", "delta_rule_chunk")
def carry_ignored(q, k, v, g, beta, initial_state):
    found = delta_rule(q, k, v, g, beta, np.zeros_like(f32(initial_state)))
    return {"out": found["out"], "state": found["state"]}


@fault(
    "linear decay",
    "products of decays are kept outside the logarithm, where they underflow",
    "delta_rule_chunk",
    shape="rows=70",
)
def linear_decay(q, k, v, g, beta, initial_state):
    found = delta_rule(q, k, v, np.maximum(f32(g), -5), beta, initial_state)
    return {"out": found["out"], "state": found["state"]}


# --- attention ------------------------------------------------------------------------------------------------
def rms(x, weight, eps=1e-6):
    x = f32(x)
    return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + np.float32(eps)) * (1 + f32(weight))


@fault("F33", "all channels turn, not only the rotary ones", "qk_norm_rope", shape="first=4099")
def all_channels_turn(x, weight, positions, rd=None, theta=1e7):
    x = rms(x, weight)
    half = x.shape[-1] // 2
    angle = f32(positions)[:, None] * np.float32(theta) ** (-np.arange(half, dtype=np.float32) / half)
    cos, sin = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(np.float32)


@fault("F18", "rows behind the mask enter the maximum", "gated_attention", hidden=True, regime="padding")
def masked_in_maximum(q, keys, values, gate, first):
    """The maximum does not change softmax, unless it comes from a row that must not be read."""
    q, keys, values = f32(q), f32(keys), f32(values)
    rows, heads, width = q.shape
    keys, values = (np.repeat(x, heads // x.shape[1], 1) for x in (keys, values))
    out = np.empty_like(q)
    with np.errstate(all="ignore"):
        for t in range(rows):
            scores = np.einsum("hd,phd->hp", q[t], keys) / np.float32(np.sqrt(width))
            most = np.nanmax(scores, 1, keepdims=True)  # comparisons skip NaN
            e = np.exp(scores[:, : first + t + 1] - most)
            out[t] = np.einsum("hp,phd->hd", e / e.sum(1, keepdims=True), values[: first + t + 1])
    return out * sigmoid(gate)


@fault("constant", "the mean of the values in place of attention", "gated_attention")
def constant(q, keys, values, gate, first=70):
    rows, heads = q.shape[:2]
    mean = f32(values)[: first + rows].mean(0)
    mean = np.repeat(mean, heads // mean.shape[0], 0)
    return (mean[None] * sigmoid(gate)).astype(np.float32)


# --- quantization of activations --------------------------------------------------------------------------
@fault("F20", "the global scale multiplies where it divides", "nvfp4_linear")
def global_scale_inverted(x, weight_packed, weight_scale, weight_global_scale):
    return f32(x) @ nvfp4(weight_packed, weight_scale, 1 / f32(weight_global_scale)).T


@fault("clamp", "E4M3 ends at 240", "fp8_linear")
def clamped(x, weight, weight_scale_inv):
    value = np.clip(fp8_block(weight, np.ones_like(f32(weight_scale_inv))), -240, 240)
    scale = fp8_block(np.full_like(np.asarray(weight), 0x38), weight_scale_inv)  # the code of 1
    return f32(x) @ (value * scale).T
