#!/usr/bin/env python3
"""Makes a trace (docs/trace.md) from the output of llama_record.

    to_trace.py RECORD CKPT TRACE [--level 1..4] [--checkpoint-digest D] [--note TEXT] [--taps PATTERN ...]

The values are those of llama.cpp's graph nodes, by their names in its source. Its converter reorders
value heads (except for Qwen3-Next); this is undone here. States are the values that the nodes read at
the start of a call, so after a rollback. Each micro-batch of a call becomes a step.

Needs numpy.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from samebit_trace import Trace  # noqa: E402

# Our tap by node name, plus the ggml operation if llama.cpp has two nodes of one name. "b+UNARY" is the
# first unnamed node of that operation after node b.
EVERY = {
    "attn_norm": "input_layernorm",
    "attn_residual": "attn_residual",
    "attn_post_norm": "post_attention_layernorm",
    "ffn_out": "mlp.out",
    "l_out": "output",
}
LINEAR = {
    "linear_attn_qkv_mixed": "linear_attn.in_proj_qkv",
    "z": "linear_attn.in_proj_z",
    "beta": "linear_attn.in_proj_b",
    "b": "linear_attn.in_proj_b",
    "alpha": "linear_attn.in_proj_a",
    "a": "linear_attn.in_proj_a",
    "conv_output_silu": "linear_attn.conv",
    "gate": "linear_attn.g",
    "beta_sigmoid": "linear_attn.beta",
    "b+UNARY": "linear_attn.beta",
    "q_conv_predelta": "linear_attn.q",
    "k_conv_predelta": "linear_attn.k",
    "attn_output": "linear_attn.core_out",
    "final_output": "linear_attn.norm",
    "linear_attn_out": "linear_attn.out_proj",
}
FULL = {
    "Qcur_full": "self_attn.q_proj",
    "Kcur/MUL_MAT": "self_attn.k_proj",
    "Vcur/MUL_MAT": "self_attn.v_proj",
    "Qcur_reshaped": "self_attn.query",
    "gate_reshaped": "self_attn.gate",
    "Qcur_normed": "self_attn.q_norm",
    "Qcur/ROPE": "self_attn.q_rope",
    "Kcur_normed": "self_attn.k_norm",
    "Kcur/ROPE": "self_attn.k_rope",
    "attn_pregate": "self_attn.core_out",
    "attn_gated": "self_attn.gated",
    "attn_output": "self_attn.o_proj",
}
EXPERTS = {
    "ffn_moe_logits": "mlp.gate",
    "ffn_moe_topk": "mlp.router_ids",
    "ffn_moe_weights_norm": "mlp.router_weights",
    "ffn_gate": "mlp.shared_expert.gate_proj",
    "ffn_up": "mlp.shared_expert.up_proj",
    "ffn_swiglu": "mlp.shared_expert.swiglu",
    "ffn_shexp": "mlp.shared_expert",
    "shared_expert_gate": "mlp.shared_expert_gate",
    "ffn_moe_gate": "mlp.experts.gate_proj",
    "ffn_moe_up": "mlp.experts.up_proj",
    "ffn_moe_swiglu": "mlp.experts.swiglu",
    "ffn_moe_down": "mlp.experts.down_proj",
}
# Qwen3: attention without a gate, no shared expert, and other names of the block
QWEN3 = {
    "ffn_inp": "attn_residual",
    "ffn_norm": "post_attention_layernorm",
    "ffn_moe_out": "mlp.out",
    "Qcur/MUL_MAT": "self_attn.q_proj",
    "kqv_out": "self_attn.core_out",
    "kqv_out+MUL_MAT": "self_attn.o_proj",
}
DENSE = {"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_swiglu": "mlp.swiglu"}
MTP = {
    "mtp_tok_embd": "embed",
    "mtp_enorm": "pre_fc_norm_embedding",
    "mtp_hnorm": "pre_fc_norm_hidden",
    "mtp_eh_proj": "fc",
    "h_nextn": "norm",
    "result_output": "logits",
}
MTP_LAYER = {
    "mtp_attn_norm": "input_layernorm",
    "mtp_Qcur_full": "self_attn.q_proj",
    "mtp_Vcur+MUL_MAT": "self_attn.k_proj",
    "mtp_Vcur": "self_attn.v_proj",
    "mtp_gate": "self_attn.gate",
    "mtp_Qcur_normed": "self_attn.q_norm",
    "mtp_Qcur_normed+ROPE": "self_attn.q_rope",
    "mtp_Kcur_normed": "self_attn.k_norm",
    "mtp_Kcur_normed+ROPE": "self_attn.k_rope",
    "mtp_attn_pregate": "self_attn.core_out",
    "mtp_gate+MUL": "self_attn.gated",
    "mtp_attn_out": "self_attn.o_proj",
    "mtp_attn_residual": "attn_residual",
    "mtp_attn_post_norm": "post_attention_layernorm",
    "mtp_ffn_shexp": "mlp.shared_expert",
    "mtp_ffn_shexp+MUL_MAT": "mlp.shared_expert_gate",
    "mtp_ffn_out": "mlp.out",
    "mtp_post_ffn": "output",
}
EMBED = ("model.input_embed", "model.embed_tokens", "embd")  # the first node of a graph
CALL = dict.fromkeys(EMBED, "embed") | {"result_norm": "norm", "result_output": "logits"}


class Heads:
    """The order of the heads of linear attention in llama.cpp and here."""

    def __init__(self, config: dict[str, Any]) -> None:
        if "linear_num_key_heads" not in config:
            config = dict.fromkeys(("linear_num_key_heads", "linear_num_value_heads"), 1) | dict.fromkeys(
                ("linear_key_head_dim", "linear_value_head_dim"), 0
            )
        self.nk, self.dk = config["linear_num_key_heads"], config["linear_key_head_dim"]
        self.nv, self.dv = config["linear_num_value_heads"], config["linear_value_head_dim"]
        self.per_key = self.nv // self.nk
        here = numpy.arange(self.nv)
        # except Qwen3-Next: the first value head of every key head, then the second of every one
        self.moved = "qwen3_next" not in config.get("model_type", "")
        self.order = here % self.per_key * self.nk + here // self.per_key if self.moved else here

    def values(self, x: numpy.ndarray) -> numpy.ndarray:
        """[rows, nV, any] in our order, flat."""
        rows = x.shape[0]
        return x.reshape(rows, self.nv, -1)[:, self.order].reshape(rows, -1)

    def channels(self, x: numpy.ndarray) -> numpy.ndarray:
        """[rows, C]: the v channels after those of q and k."""
        start = 2 * self.nk * self.dk
        return numpy.concatenate([x[:, :start], self.values(x[:, start:])], axis=1)

    def keys(self, x: numpy.ndarray) -> numpy.ndarray:
        """[rows, nK dk], also if the graph repeats it for every value head."""
        rows = x.shape[0]
        if self.moved:
            x = x.reshape(rows, -1, self.nk, self.dk)[:, 0]
        else:
            x = x.reshape(rows, self.nk, -1, self.dk)[:, :, 0]
        return x.reshape(rows, -1)

    def state(self, x: numpy.ndarray) -> numpy.ndarray:
        """[nV, dv, dk] there, [nV, dk, dv] here."""
        return x.reshape(self.nv, self.dv, self.dk)[self.order].transpose(0, 2, 1)

    def columns(self, x: numpy.ndarray) -> numpy.ndarray:
        """[C, kw - 1] there, [kw - 1, C] here."""
        return self.channels(x.reshape(2 * self.nk * self.dk + self.nv * self.dv, -1).transpose())

    def ours(self, tap: str, x: numpy.ndarray) -> numpy.ndarray:
        name = tap.removeprefix("linear_attn.")
        if name in ("in_proj_qkv", "conv"):
            return self.channels(x)
        if name in ("q", "k"):
            return self.keys(x)
        if name == tap or name == "out_proj":
            return x
        return self.values(x)


def events(path: Path) -> Iterator[dict[str, Any]]:
    """The events written by llama_record; a tensor includes its values."""
    with open(path, "rb") as file:
        while line := file.readline():
            event = json.loads(line)
            if "tensor" in event:
                kind = {"f32": numpy.float32, "i32": numpy.int32}[event["type"]]
                count = int(numpy.prod(event["shape"]))
                event["values"] = numpy.frombuffer(file.read(4 * count), kind).reshape(event["shape"])
            yield event
            if "end" in event:
                return
    sys.exit(f"{path}: the recording was cut off; expected an end event")


class Nodes:
    """The values of one graph, by layer and name."""

    def __init__(self) -> None:
        self.nodes: dict[tuple[int | None, str], numpy.ndarray] = {}
        self.last: tuple[int | None, str] = (None, "")
        self.cut = False  # nodes of more than one graph of the MTP head

    def add(self, event: dict[str, Any]) -> None:
        name, layer = event["tensor"], None
        if found := re.fullmatch(r"(.*)-(\d+)", name):
            name, layer = found[1], int(found[2])
            self.last = (layer, name)
        elif name.startswith("node_"):
            layer, name = self.last[0], f"{self.last[1]}+{event['op']}"
        for key in (name, f"{name}/{event['op']}"):
            self.nodes.setdefault((layer, key), event["values"])

    def feed_forward(self, layer: int | None) -> dict[str, str]:
        """The names of the experts, or of the dense MLP."""
        return EXPERTS if (layer, "ffn_moe_logits") in self.nodes else DENSE

    def head(self, rows: int) -> dict[str, numpy.ndarray]:
        """The taps of the MTP head."""
        found = {}
        for (layer, key), values in self.nodes.items():
            tap = MTP.get(key) or (MTP_LAYER | self.feed_forward(layer)).get(key)
            if tap and values.size and values.size % rows == 0:
                inner = "" if key in MTP else "layers.0."
                found[f"mtp.{inner}{tap}"] = values.reshape(rows, -1)
        return found


class Call(Nodes):
    """A call of the trunk, with the MTP head's values for it, and the drafts before it."""

    def __init__(self, event: dict[str, Any]) -> None:
        super().__init__()
        self.kind, self.tokens, self.positions = event["call"], event["tokens"], event["positions"]
        self.round: dict[str, Any] | None = None
        self.drafts: list[Nodes] = []
        self.filled: Nodes | None = None

    def next_graph(self, name: str) -> "Call | None":
        """The call of the next micro-batch, if this node begins one: the tokens that its first graph does not have."""
        first = self.nodes.get((None, name)) if name in EMBED else None
        if first is None:
            return None
        rows = first.shape[-2]
        rest = Call({"call": self.kind, "tokens": self.tokens[rows:], "positions": self.positions[rows:]})
        self.tokens, self.positions = self.tokens[:rows], self.positions[:rows]
        return rest

    def logits(self) -> numpy.ndarray:
        """[rows, V]."""
        values = self.nodes[None, "result_output"]
        return values.reshape(-1, values.shape[-1])

    def taps(self, heads: Heads) -> dict[str, numpy.ndarray]:
        rows = len(self.tokens)
        found = self.filled.head(rows) if self.filled else {}
        found.pop("mtp.logits", None)
        for (layer, key), values in self.nodes.items():
            tap = CALL.get(key) if layer is None else self.names(layer).get(key)
            if tap is None or values.size % rows:
                continue
            flat = heads.ours(tap, values.reshape(rows, -1))
            found[tap if layer is None else f"layers.{layer}.{tap}"] = flat
        return found

    def names(self, layer: int) -> dict[str, str]:
        mixer = LINEAR if (layer, "state_predelta") in self.nodes else FULL
        names = EVERY | mixer | self.feed_forward(layer)
        return names | QWEN3 if (layer, "ffn_norm") in self.nodes else names

    def state(self, heads: Heads) -> dict[str, numpy.ndarray]:
        found = {}
        for layer, key in self.nodes if self.positions[0] else ():
            values, name = self.nodes[layer, key], f"state.0.layers.{layer}.linear_attn"
            if key == "state_predelta":
                found[f"{name}.recurrent_state"] = heads.state(values)
            elif key == "conv_states_reshaped":
                found[f"{name}.conv_state"] = heads.columns(values)
        return found


def calls_of(path: Path) -> tuple[dict[str, Any], list[Call]]:
    """The head of the recording and its calls. A draft step begins with the embedding of its token."""
    head, calls, drafts, now = {}, [], [], None
    for event in events(path):
        if "engine" in event:
            head = event
        elif "sampling" in event:
            head["sampling"] = event["sampling"]
        elif "round" in event:
            calls[-1].round = event
        elif event.get("call") == "draft":
            drafts, now = [], None
        elif event.get("call") == "fill":
            now = calls[-1].filled = Nodes()
        elif "call" in event:
            now = Call(event)
            now.drafts, drafts = drafts, []
            calls.append(now)
        elif "tensor" in event:
            if event["tensor"].startswith("mtp_tok_embd") and (not calls or now is not calls[-1].filled):
                now = Nodes()
                drafts.append(now)
            elif event["tensor"].startswith("mtp_tok_embd"):
                now.cut |= any(name == "mtp_tok_embd" for _, name in now.nodes)
            elif isinstance(now, Call) and (rest := now.next_graph(event["tensor"])):
                calls.append(rest)
                now = rest
            if now:
                now.add(event)
    return head, calls


def kept(tensors: dict[str, numpy.ndarray], patterns: list[str]) -> dict[str, numpy.ndarray]:
    """The arrays whose name fits a pattern."""
    return {name: tensors[name] for name in tensors if any(fnmatchcase(name, pattern) for pattern in patterns)}


def draft_steps(trace: Trace, call: Call, level: int, patterns: list[str]) -> None:
    """Writes one step per draft before the verify call; omits steps whose draft was not used."""
    fed = call.tokens[: len(call.tokens) - 1]
    for i, (nodes, token) in enumerate(zip(call.drafts, fed, strict=False)):
        row = {"sequence": 0, "slot": 0, "position": call.positions[0] + i, "token": token, "kind": "draft"}
        if call.round:
            row["round"] = call.round["round"]
        taps = nodes.head(1)
        if level < 4:
            taps = {name: taps[name] for name in taps if name == "mtp.logits"}
        trace.step(rows=[row], tensors=kept(taps, patterns))


def write(
    trace: Trace, call: Call, heads: Heads, level: int, patterns: list[str], sampling: list[dict[str, Any]]
) -> None:
    draft_steps(trace, call, level, patterns)
    rows = [
        {"sequence": 0, "slot": 0, "position": position, "token": token, "kind": call.kind}
        for token, position in zip(call.tokens, call.positions, strict=True)
    ]
    lists: dict[str, Any] = {}
    if call.kind == "verify" and call.round:
        lists["rounds"] = [{"sequence": 0, **call.round}]
        for row in rows:
            row["round"] = call.round["round"]
    tensors = call.taps(heads)
    if level < 4:
        tensors = {"logits": tensors["logits"]}
    if level > 2:
        lists["states"] = [{"sequence": 0, "position": call.positions[0]}]
        tensors |= call.state(heads)
    if sampling:
        lists["sampling"] = sampling
    trace.step(rows=rows, tensors=kept(tensors, patterns), **lists)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", type=Path, metavar="RECORD")
    parser.add_argument("checkpoint", type=Path, metavar="CKPT")
    parser.add_argument("trace", type=Path, metavar="TRACE")
    parser.add_argument("--level", type=int, choices=(1, 2, 3, 4), default=4)
    parser.add_argument("--checkpoint-digest", metavar="D", help="digest of CKPT, as `samebit run --trace` writes it")
    parser.add_argument("--taps", nargs="+", default=["*"], metavar="PATTERN", help="patterns of the arrays to keep")
    parser.add_argument("--note", default="", help="a note on how the engine was run")
    args = parser.parse_args()
    config = json.loads((args.checkpoint / "config.json").read_text())
    heads = Heads(config.get("text_config", config))
    head, calls = calls_of(args.record)
    if not head or not calls:
        sys.exit(f"{args.record}: the recording has no calls")
    if args.level == 4 and any(call.filled and call.filled.cut for call in calls):
        sys.exit(f"{args.record}: the MTP head ran in several micro-batches: expected a larger -ub, or --level 2")
    about = {"note": args.note} if args.note else {}
    if args.checkpoint_digest:
        about["checkpoint"] = args.checkpoint_digest
    with Trace(
        args.trace, engine=head["engine"], vocab_size=head["vocab"], level=args.level, profile="llamacpp", **about
    ) as trace:
        declared = [head["sampling"]] if "sampling" in head else []
        for call in calls:
            write(trace, call, heads, args.level, args.taps, declared)
            declared = []  # in the first step alone


if __name__ == "__main__":
    main()
