"""Kernels in NumPy: binary32, in NumPy's order of additions. Each takes the inputs of its op by name."""

import numpy as np

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=np.float32)


def e4m3(codes):
    """The values of E4M3 codes: 1 sign, 4 bits of exponent with bias 7, 3 of significand; 0x7f is NaN."""
    code = np.arange(256)
    exponent, fraction = (code >> 3) & 15, code & 7
    value = np.where(exponent == 0, fraction * 2.0**-9, (8 + fraction) * 2.0 ** (exponent - 10.0))
    value[(code & 127) == 127] = np.nan
    table = np.where(code >= 128, -value, value).astype(np.float32)
    return table[np.asarray(codes).view(np.uint8)]


def nvfp4(weight_packed, weight_scale, weight_global_scale):
    """The weight of compressed-tensors' NVFP4: two codes to a byte, the low one first; the global scale divides."""
    low, high = E2M1[weight_packed & 15], E2M1[weight_packed >> 4]
    codes = np.stack([low, high], axis=-1).reshape(*weight_packed.shape[:-1], -1)
    scale = np.repeat(e4m3(weight_scale), 16, axis=-1)
    return codes * scale / np.asarray(weight_global_scale, np.float32).reshape(-1)[0]


def nvfp4_linear(x, weight_packed, weight_scale, weight_global_scale):
    return np.asarray(x, np.float32) @ nvfp4(weight_packed, weight_scale, weight_global_scale).T


def fp8_block(weight, weight_scale_inv):
    rows, cols = weight.shape
    scale = np.repeat(np.repeat(np.asarray(weight_scale_inv, np.float32), 128, 0), 128, 1)
    return e4m3(weight) * scale[:rows, :cols]


def fp8_linear(x, weight, weight_scale_inv):
    return np.asarray(x, np.float32) @ fp8_block(weight, weight_scale_inv).T


def sigmoid(x):
    with np.errstate(over="ignore"):
        return (1 / (1 + np.exp(-np.asarray(x, np.float32)))).astype(np.float32)


def silu(x):
    return np.asarray(x, np.float32) * sigmoid(x)


def delta_rule(q, k, v, g, beta, initial_state):
    """One row after the other; head h of the values uses head h // ratio of queries and keys."""
    q, k, v, g, beta = (np.asarray(one, np.float32) for one in (q, k, v, g, beta))
    ratio = v.shape[1] // k.shape[1]
    q, k = np.repeat(q * np.float32(q.shape[-1] ** -0.5), ratio, 1), np.repeat(k, ratio, 1)
    state, out = np.array(initial_state, np.float32), np.empty_like(v)
    states = np.empty((len(v), *state.shape), np.float32)
    for t in range(len(v)):
        state = state * np.exp(g[t])[:, None, None]
        wrong = v[t] - np.einsum("hk,hkv->hv", k[t], state)
        state = state + k[t][:, :, None] * (beta[t][:, None] * wrong)[:, None, :]
        out[t] = np.einsum("hk,hkv->hv", q[t], state)
        states[t] = state
    return {"out": out, "state": state, "states": states}


def delta_rule_chunk(q, k, v, g, beta, initial_state):
    found = delta_rule(q, k, v, g, beta, initial_state)
    return {"out": found["out"], "state": found["state"]}
