#!/usr/bin/env python3
"""The MTP head from its equations only: an independent source, because no library computes it.

Written from the published equations of the head (embedding half first, hidden state after the final
norm, own keys and values, drafts fed with the head's own normed output), not from an existing
program. Uses only NumPy and Python floats.

The arithmetic: inside an operation everything is float64, and every dot product and every sum over
experts is the exact sum rounded once (math.fsum; a product of two float32 values is exact in
float64). Between operations every value is rounded to float32. So the inputs of each operation are
exactly the recorded values. The only relevant error of its result is the final rounding to float32,
so a comparison can derive a bound for each operation. The bytes of a recording do not depend on the
machine, either. Each operation has a name in the recording. There is one for every value that a
model in bf16 would round, except inside RoPE and inside the attention core (scores, softmax, sum
over values), which are one operation each.

Names: MOMENT.TAP with TAP as the tensors are called (mtp.fc, mtp.layers.0.self_attn.q_proj, ...).
"""

import json
import math
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mtp_again import attention_by_matrices, mlp_by_matrices

DRAFTS = 4  # recursion depth recorded from every entry
TRACED = (0, 5, 11)  # entries whose recursion is recorded operation by operation

Values = dict[str, np.ndarray]
Cache = list[tuple[np.ndarray, np.ndarray]]  # per entry: keys and values, [kv heads, head_dim]
Tap = Callable[[str, np.ndarray], np.ndarray]  # rounds, records, returns


class HeadError(Exception):
    """An error that the user can act on; the command line prints it and exits with 1."""


# Files


def read_tensors(path: Path) -> Values:
    """Every tensor of a safetensors file as float64 (exact), or as integers."""
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name == "__metadata__":
            continue
        first, end = entry["data_offsets"]
        blob = data[8 + length + first : 8 + length + end]
        if entry["dtype"] == "BF16":
            wide = np.frombuffer(blob, "<u2").astype("<u4") << 16
            values = wide.view("<f4").astype(np.float64)
        elif entry["dtype"] == "F32":
            values = np.frombuffer(blob, "<f4").astype(np.float64)
        elif entry["dtype"] in ("I16", "I32"):
            values = np.frombuffer(blob, "<i" + str(int(entry["dtype"][1:]) // 8))
        else:
            raise HeadError(f"{path}: {name} has type {entry['dtype']}")
        tensors[name] = values.reshape(entry["shape"])
    return tensors


@dataclass(frozen=True)
class Config:
    """The head's parameters from config.json."""

    heads: int
    kv_heads: int
    head_dim: int
    rotary: int  # leading dimensions of a head that rotate
    theta: float
    eps: float
    top_k: int  # 0: a dense MLP
    renormalise: bool

    @staticmethod
    def read(folder: Path) -> "Config":
        """From a flat (text) config.json."""
        fields = json.loads((folder / "config.json").read_text())
        rope = fields["rope_parameters"]
        return Config(
            heads=fields["num_attention_heads"],
            kv_heads=fields["num_key_value_heads"],
            head_dim=fields["head_dim"],
            rotary=int(fields["head_dim"] * rope["partial_rotary_factor"]),
            theta=rope["rope_theta"],
            eps=fields["rms_norm_eps"],
            top_k=fields.get("num_experts_per_tok", 0),
            renormalise=fields.get("norm_topk_prob", True),
        )


def read_checkpoint(folder: Path) -> Values:
    """All tensors of a folder."""
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        tensors |= read_tensors(path)
    return tensors


# Operations


def to_float32(x: np.ndarray) -> np.ndarray:
    """The nearest float32 values, kept as float64."""
    return np.asarray(x, np.float64).astype(np.float32).astype(np.float64)


def linear(weight: np.ndarray, x: np.ndarray) -> np.ndarray:
    """W x with exact sums."""
    return np.array([math.fsum(row) for row in (weight * x).tolist()])


def norm(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    """Zero-centred RMS norm: x / sqrt(mean(x^2) + eps) * (1 + w)."""
    mean = math.fsum((x * x).tolist()) / len(x)
    return x / math.sqrt(mean + eps) * (1.0 + weight)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x))."""
    return np.array([1.0 / (1.0 + math.exp(-v)) for v in x.tolist()])


def softmax(x: np.ndarray) -> np.ndarray:
    """Over all of a vector."""
    powers = [math.exp(v) for v in (x - x.max()).tolist()]
    return np.array(powers) / math.fsum(powers)


class Layer:
    """One full-attention decoder layer with MoE or a dense MLP, one entry at a time."""

    def __init__(self, config: Config, weights: Values, prefix: str):
        self.config = config
        self.weights = weights
        self.prefix = prefix

    def weight(self, name: str) -> np.ndarray:
        """A tensor of this layer."""
        return self.weights[self.prefix + name]

    def step(self, x: np.ndarray, position: int, cache: Cache, tap: Tap) -> np.ndarray:
        """The layer on one row; appends the row's keys and values to CACHE."""
        eps = self.config.eps
        y = tap("input_layernorm", norm(x, self.weight("input_layernorm.weight"), eps))
        x = tap("attn_residual", x + self.attention(y, position, cache, tap))
        y = norm(x, self.weight("post_attention_layernorm.weight"), eps)
        y = tap("post_attention_layernorm", y)
        mlp = self.experts if self.config.top_k else self.dense
        return tap("output", x + mlp(y, tap))

    def attention(self, y: np.ndarray, position: int, cache: Cache, tap: Tap) -> np.ndarray:
        """Gated attention over the entries in CACHE and this one."""
        config = self.config

        def project(name: str) -> np.ndarray:
            return tap(f"self_attn.{name}", linear(self.weight(f"self_attn.{name}.weight"), y))

        def normed(name: str, heads: np.ndarray) -> np.ndarray:
            weight = self.weight(f"self_attn.{name}.weight")
            return tap(f"self_attn.{name}", np.stack([norm(h, weight, config.eps) for h in heads]))

        # Per head: the query, then its gate.
        both = project("q_proj").reshape(config.heads, 2, config.head_dim)
        query, gate = normed("q_norm", both[:, 0]), both[:, 1].reshape(-1)
        key = normed("k_norm", project("k_proj").reshape(config.kv_heads, config.head_dim))
        value = project("v_proj").reshape(config.kv_heads, config.head_dim)
        query = tap("self_attn.q_rope", self.rope(query, position, tap))
        key = tap("self_attn.k_rope", self.rope(key, position, tap))
        cache.append((key, value))
        mixed = np.stack([self.mix(j, query[j], cache) for j in range(config.heads)])
        mixed = tap("self_attn.core_out", mixed)
        gated = tap("self_attn.gated", mixed.reshape(-1) * sigmoid(gate))
        return tap("self_attn.o_proj", linear(self.weight("self_attn.o_proj.weight"), gated))

    def rope(self, heads: np.ndarray, position: int, tap: Tap) -> np.ndarray:
        """Rotates dimension f of the first ROTARY with dimension f + ROTARY / 2."""
        half = self.config.rotary // 2
        powers = [self.config.theta ** (-2.0 * f / self.config.rotary) for f in range(half)]
        angles = tap("rope.angle", tap("rope.inv_freq", np.array(powers)) * position).tolist()
        cos = tap("rope.cos", np.array([math.cos(angle) for angle in angles]))
        sin = tap("rope.sin", np.array([math.sin(angle) for angle in angles]))
        turned = heads.copy()
        for f in range(half):
            a, b = heads[:, f], heads[:, f + half]
            turned[:, f] = a * cos[f] - b * sin[f]
            turned[:, f + half] = b * cos[f] + a * sin[f]
        return turned

    def mix(self, head: int, query: np.ndarray, cache: Cache) -> np.ndarray:
        """One query head: softmax of its scores, applied to the values of its group."""
        group = head // (self.config.heads // self.config.kv_heads)
        scores = [math.fsum((query * key[group]).tolist()) for key, _ in cache]
        shares = softmax(np.array(scores) / math.sqrt(self.config.head_dim))
        values = np.stack([value[group] for _, value in cache])
        return np.array([math.fsum((shares * column).tolist()) for column in values.T])

    def dense(self, y: np.ndarray, tap: Tap) -> np.ndarray:
        """W_down (silu(W_gate y) * W_up y)."""
        gate = tap("mlp.gate_proj", linear(self.weight("mlp.gate_proj.weight"), y))
        up = tap("mlp.up_proj", linear(self.weight("mlp.up_proj.weight"), y))
        act = tap("mlp.act", gate * sigmoid(gate) * up)
        return tap("mlp.down_proj", linear(self.weight("mlp.down_proj.weight"), act))

    def expert(self, index: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Gate, up and down matrices of one expert, from a stack or from single tensors."""
        if self.prefix + "mlp.experts.gate_up_proj" in self.weights:
            gate, up = np.split(self.weight("mlp.experts.gate_up_proj")[index], 2)
            return gate, up, self.weight("mlp.experts.down_proj")[index]
        names = ("gate_proj", "up_proj", "down_proj")
        return tuple(self.weight(f"mlp.experts.{index}.{name}.weight") for name in names)

    def route(self, y: np.ndarray, tap: Tap) -> tuple[list[int], np.ndarray]:
        """The top k experts in order of probability (equal ones: the lower index) and weights."""
        logits = tap("mlp.gate", linear(self.weight("mlp.gate.weight"), y))
        shares = softmax(logits)
        chosen = sorted(range(len(shares)), key=lambda e: (-logits[e], e))[: self.config.top_k]
        weights = shares[chosen]
        if self.config.renormalise:
            weights = weights / math.fsum(weights.tolist())
        tap("mlp.router_ids", np.array(chosen))
        return chosen, tap("mlp.router_weights", weights)

    def experts(self, y: np.ndarray, tap: Tap) -> np.ndarray:
        """The routed experts plus the shared one."""
        chosen, weights = self.route(y, tap)
        matrices = [self.expert(e) for e in chosen]
        gate = tap("mlp.experts.gate_proj", np.stack([linear(m[0], y) for m in matrices]))
        up = tap("mlp.experts.up_proj", np.stack([linear(m[1], y) for m in matrices]))
        act = np.stack([g * sigmoid(g) for g in gate]) * up
        act = tap("mlp.experts.act", act)
        down = np.stack([linear(m[2], a) for m, a in zip(matrices, act)])
        down = tap("mlp.experts.down_proj", down)
        routed = np.array([math.fsum((weights * column).tolist()) for column in down.T])
        return tap("mlp.out", tap("mlp.experts", routed) + self.shared_expert(y, tap))

    def shared_expert(self, y: np.ndarray, tap: Tap) -> np.ndarray:
        """The expert of every token, times the sigmoid of its own gate."""
        shared = "mlp.shared_expert."
        gate = tap(shared + "gate_proj", linear(self.weight(shared + "gate_proj.weight"), y))
        up = tap(shared + "up_proj", linear(self.weight(shared + "up_proj.weight"), y))
        act = tap(shared + "act", gate * sigmoid(gate) * up)
        out = tap("mlp.shared_expert", linear(self.weight(shared + "down_proj.weight"), act))
        scale = linear(self.weight("mlp.shared_expert_gate.weight"), y)
        scale = tap("mlp.shared_expert_gate", scale)
        return tap("mlp.shared_gated", sigmoid(scale) * out)


class Head:
    """The head: its values for pairs (hidden state, next token)."""

    def __init__(self, config: Config, weights: Values):
        self.config = config
        self.weights = weights
        self.layer = Layer(config, weights, "mtp.layers.0.")
        self.embedding = weights["model.embed_tokens.weight"]
        self.unembedding = weights.get("lm_head.weight", self.embedding)

    def entry(self, hidden: np.ndarray, token: int, position: int, cache: Cache) -> Values:
        """All values of one entry; its keys and values are appended to CACHE."""
        taps: Values = {}

        def tap(name: str, value: np.ndarray) -> np.ndarray:
            taps[name] = value if value.dtype.kind == "i" else to_float32(value)
            return taps[name]

        def normed(name: str, x: np.ndarray) -> np.ndarray:
            return tap(name, norm(x, self.weights[name + ".weight"], self.config.eps))

        def layer_tap(name: str, value: np.ndarray) -> np.ndarray:
            return tap(self.layer.prefix + name, value)

        e = normed("mtp.pre_fc_norm_embedding", self.embedding[token])
        n = normed("mtp.pre_fc_norm_hidden", hidden)
        u = tap("mtp.fc", linear(self.weights["mtp.fc.weight"], np.concatenate([e, n])))
        u = self.layer.step(u, position, cache, layer_tap)
        h = normed("mtp.norm", u)
        tap("mtp.logits", linear(self.unembedding, h))
        return taps


def stacked(rows: list[Values]) -> Values:
    """Entries as one tensor per tap, axis 0 the entry."""
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def chains(
    head: Head, hidden: np.ndarray, following: list[int], shift: int, cache: Cache
) -> list[list[Values]]:
    """For every entry t: itself, then the DRAFTS - 1 entries made from the head's own output.

    Entry t is the pair (hidden[t], following[t]) at position t + SHIFT, after the entries in CACHE.
    The entries after it take the hidden state after mtp.norm and the draft chosen from it.
    """
    lead, found = len(cache), []
    for t, token in enumerate(following):
        found.append([head.entry(hidden[t], token, t + shift, cache)])
    for t, chain in enumerate(found):
        own = cache[: lead + t + 1]
        for step in range(1, DRAFTS):
            token = int(np.argmax(chain[-1]["mtp.logits"]))
            chain.append(head.entry(chain[-1]["mtp.norm"], token, t + shift + step, own))
    return found


def proposals(found: list[list[Values]]) -> Values:
    """The logits and their largest, for every entry and depth."""
    logits = np.stack([[entry["mtp.logits"] for entry in chain] for chain in found])
    return {"draft_ids": np.argmax(logits, axis=-1), "draft_logits": logits}


def head_values(head: Head, inputs: Values) -> Values:
    """Everything that is recorded, from tokens, next, hidden and hidden.before_norm.

    prime.TAP         [n, ...]         all entries of the sequence
    draft_ids         [n, DRAFTS]      drafts proposed after entry t
    draft_logits      [n, DRAFTS, V]
    draft.T.TAP       [DRAFTS-1, ...]  entries made from the head's own output after entry T, at
                                       positions T+1, T+2, ... on top of entries 0..T
    draft.T.token     [DRAFTS-1]       their tokens: the drafts themselves
    variant.*.draft_* as above, where other programs differ: "shifted" has entry t at position t+1,
                      "zero_first" moreover an entry (zeros, token 0) at position 0 before all,
                      "before_norm" takes the hidden state before the final norm
    """
    hidden, following = inputs["hidden"], inputs["next"].tolist()
    found = chains(head, hidden, following, 0, [])
    values = {f"prime.{k}": v for k, v in stacked([chain[0] for chain in found]).items()}
    values |= proposals(found)
    for t in TRACED:
        values |= {f"draft.{t}.{k}": v for k, v in stacked(found[t][1:]).items()}
        values[f"draft.{t}.token"] = values["draft_ids"][t, :-1]

    first: Cache = []
    head.entry(np.zeros_like(hidden[0]), int(inputs["tokens"][0]), 0, first)
    variants = {
        "shifted": chains(head, hidden, following, 1, []),
        "zero_first": chains(head, hidden, following, 1, first),
        "before_norm": chains(head, inputs["hidden.before_norm"], following, 0, []),
    }
    for name, found in variants.items():
        values |= {f"variant.{name}.{k}": v for k, v in proposals(found).items()}
    return values


def self_check(layer: Layer, attention_rows: np.ndarray, mlp_rows: np.ndarray) -> float:
    """The largest relative difference between the two evaluations, both without roundings."""

    def unrounded(_name: str, value: np.ndarray) -> np.ndarray:
        return value

    cache: Cache = []
    one = [layer.attention(y, t, cache, unrounded) for t, y in enumerate(attention_rows)]
    mlp = layer.experts if layer.config.top_k else layer.dense
    pairs = (
        (np.stack(one), attention_by_matrices(layer, attention_rows)),
        (np.stack([mlp(y, unrounded) for y in mlp_rows]), mlp_by_matrices(layer, mlp_rows)),
    )
    worst = max(float(np.abs(a - b).max() / np.abs(a).max()) for a, b in pairs)
    if not worst < 1e-12:
        raise HeadError(f"two evaluations of {layer.prefix} differ by {worst:.1e}")
    return worst


def evaluate(folder: Path, inputs: Values) -> tuple[Values, float]:
    """The recorded values of the head of FOLDER, and the largest difference of the two
    evaluations."""
    head = Head(Config.read(folder), read_checkpoint(folder))
    values = head_values(head, inputs)
    taps = f"prime.{head.layer.prefix}"
    attention, mlp = "input_layernorm", "post_attention_layernorm"
    return values, self_check(head.layer, values[taps + attention], values[taps + mlp])


def main() -> int:
    """The command line."""
    if len(sys.argv) != 3:
        print("usage: mtp.py CKPT EXPECT   computes EXPECT anew from its inputs", file=sys.stderr)
        return 2
    folder, expect = map(Path, sys.argv[1:])
    try:
        recorded = read_tensors(expect)
        values, worst = evaluate(folder, recorded)
        other = [k for k in values if not np.array_equal(values[k], recorded.get(k))]
        if other:
            raise HeadError(f"{expect}: {len(other)} of {len(values)} differ, first {other[0]}")
    except (HeadError, OSError, KeyError) as error:
        print(f"mtp.py: {error}", file=sys.stderr)
        return 1
    print(f"{expect}: {len(values)} tensors to the bit; written differently: {worst:.1e}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
