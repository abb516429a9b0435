"""Values of the layers of a Qwen3.5 or Qwen3-Next model inside vLLM, under the names of docs/trace.md.

Uses hooks on modules, and on the few Python functions between them. The model must run eagerly, because a compiled
graph calls neither. Values inside the CPU kernels are not accessible: the inputs of the delta rule after the
convolution (gates, decay, queries and keys after their norm) and the outputs of single experts.
"""

import sys
from contextlib import ExitStack
from typing import Any

import numpy as np
from samebit_trace import Bf16, values


def first(out: Any) -> Any:
    """The output of a module that may return a pair."""
    return out[0] if isinstance(out, tuple) else out


def joined(parts: list[Any]) -> Any:
    """Concatenates the rows of arrays from several calls."""
    if isinstance(parts[0], Bf16):
        return Bf16(np.concatenate([part.bits for part in parts]))
    return np.concatenate(parts)


def replaced(stack: ExitStack, owner: Any, name: str, around: Any) -> None:
    """Replaces OWNER.NAME by around(the real one, arguments) until the stack ends."""
    real, own = getattr(owner, name), name in vars(owner)
    setattr(owner, name, lambda *args, **kwargs: around(real, *args, **kwargs))
    stack.callback(lambda: setattr(owner, name, real) if own else delattr(owner, name))


class Taps:
    """The hooks on the layers of one model, and the values since the last take()."""

    def __init__(self, layers: Any, prefix: str) -> None:
        """prefix: "" for the trunk, "mtp." for its head."""
        self.prefix, self.layers = prefix, layers
        self.found: dict[str, list[Any]] = {}
        self.now = ""  # the running layer
        self.stack = ExitStack()
        for number, layer in enumerate(layers):
            self._layer(layer, f"{prefix}layers.{number}.", f"{prefix}layers.{number - 1}.output" if number else "")

    def keep(self, name: str, tensor: Any, columns: int | None = None) -> None:
        """Stores a copy of the tensor, rows by columns."""
        rows = tensor.reshape(-1, columns) if columns else tensor.reshape(tensor.shape[0], -1)
        self.found.setdefault(name, []).append(values(rows))

    def module(self, module: Any, see: Any) -> None:
        """Calls see(arguments, output) after every call of the module."""

        def hook(_module: Any, args: Any, out: Any) -> None:  # a return value would replace the output
            see(args, out)

        self.stack.callback(module.register_forward_hook(hook).remove)

    def output(self, module: Any, name: str) -> None:
        """The output of the module is this tap."""
        self.module(module, lambda _args, out: self.keep(name, first(out)))

    def pair(self, module: Any, normed: str, summed: str) -> None:
        """A norm that first adds to the residual stream gives both taps."""

        def see(_args: Any, out: Any) -> None:
            self.keep(normed, first(out))
            if isinstance(out, tuple) and summed:
                self.keep(summed, out[1])

        self.module(module, see)

    def split(self, module: Any, parts: Any) -> None:
        """The output of the module gives several taps: parts(output) returns names and tensors."""
        self.module(module, lambda _args, out: [self.keep(name, part) for name, part in parts(first(out)).items()])

    def _layer(self, layer: Any, name: str, before: str) -> None:
        def begins(*_: Any) -> None:
            self.now = name

        self.stack.callback(layer.register_forward_pre_hook(begins).remove)
        self.pair(layer.input_layernorm, name + "input_layernorm", before)
        self.pair(layer.post_attention_layernorm, name + "post_attention_layernorm", name + "attn_residual")
        if layer.layer_type == "linear_attention":
            self._linear_attention(layer.linear_attn, name + "linear_attn.")
        else:
            self._full_attention(layer.self_attn, name + "self_attn.")
        self.output(layer.mlp, name + "mlp.out")
        if hasattr(layer.mlp, "experts"):
            self._experts(layer.mlp, name + "mlp.")
        else:
            self._mlp(layer.mlp, name + "mlp.")

    def _mlp(self, mlp: Any, name: str) -> None:
        def halves(out: Any) -> dict[str, Any]:
            gate, up = out.chunk(2, dim=-1)
            return {name + "gate_proj": gate, name + "up_proj": up}

        self.split(mlp.gate_up_proj, halves)
        self.output(mlp.act_fn, name + "swiglu")

    def _experts(self, mlp: Any, name: str) -> None:
        self.output(mlp.gate, name + "gate")
        if mlp.shared_expert is not None:
            self._mlp(mlp.shared_expert, name + "shared_expert.")
            self.output(mlp.shared_expert.down_proj, name + "shared_expert")
            self.output(mlp.shared_expert_gate, name + "shared_expert_gate")

    def routed(self, weights: Any, ids: Any) -> None:
        """Stores the choice of the running layer's router."""
        self.keep(self.now + "mlp.router_weights", weights)
        self.found.setdefault(self.now + "mlp.router_ids", []).append(values(ids).astype(np.int32))

    def _full_attention(self, attn: Any, name: str) -> None:
        q_size, kv_size = attn.q_size, attn.kv_size

        def projections(out: Any) -> dict[str, Any]:
            q, k, v = out.split([2 * q_size, kv_size, kv_size], dim=-1)
            query, gate = q.reshape(len(q), attn.num_heads, -1).chunk(2, dim=-1)
            found = {"q_proj": q, "k_proj": k, "v_proj": v, "query": query, "gate": gate}
            return {name + key: part for key, part in found.items()}

        self.split(attn.qkv_proj, projections)
        self.output(attn.q_norm, name + "q_norm")
        self.output(attn.k_norm, name + "k_norm")
        self.module(attn.attn, lambda args, out: self._attended(name, args, out))
        self.module(attn.o_proj, lambda args, out: (self.keep(name + "gated", args[0]), self.keep(name + "o_proj", first(out))))

    def _attended(self, name: str, args: Any, out: Any) -> None:
        self.keep(name + "q_rope", args[0])
        self.keep(name + "k_rope", args[1])
        self.keep(name + "core_out", out)

    def _linear_attention(self, attn: Any, name: str) -> None:
        keys, wide = attn.key_dim // attn.tp_size, attn.value_dim // attn.tp_size

        def qkvz(out: Any) -> dict[str, Any]:
            if attn.gqa_interleaved_layout:
                heads = out.reshape(len(out), attn.num_k_heads, -1)
                each = wide // attn.num_k_heads
                q, k, v, z = heads.split([attn.head_k_dim, attn.head_k_dim, each, each], dim=-1)
                parts = [part.reshape(len(out), -1) for part in (q, k, v)]
                return {name + "in_proj_qkv": sys.modules["torch"].cat(parts, dim=-1), name + "in_proj_z": z}
            qkv, z = out.split([2 * keys + wide, wide], dim=-1)
            return {name + "in_proj_qkv": qkv, name + "in_proj_z": z}

        def ba(out: Any) -> dict[str, Any]:
            grouped = out.reshape(len(out), attn.num_k_heads, -1) if attn.gqa_interleaved_layout else out
            b, a = grouped.chunk(2, dim=-1)
            return {name + "in_proj_b": b, name + "in_proj_a": a}

        def convolved(real: Any, mixed: Any) -> Any:
            if mixed is not None:
                self.keep(name + "conv", mixed)
            return real(mixed)

        self.split(attn.in_proj_qkvz, qkvz)
        self.split(attn.in_proj_ba, ba)
        replaced(self.stack, attn, "rearrange_mixed_qkv", convolved)
        self.module(attn.norm, lambda args, out: self._normed(name, args, out))
        self.output(attn.out_proj, name + "out_proj")

    def _normed(self, name: str, args: Any, out: Any) -> None:
        self.keep(name + "core_out", args[0])
        self.keep(name + "norm", out.reshape(args[0].shape))

    def take(self, rows: int, order: Any = None) -> dict[str, Any]:
        """The values of all rows of the call. order: the row order of the convolution if vLLM computes it
        separately."""
        found = {}
        for name, parts in self.found.items():
            array = joined(parts)
            if order is not None and name.endswith(("linear_attn.conv",)):
                array = array[np.argsort(order)]
            if array.shape[0] >= rows:  # gates are recorded for prompts only
                found[name] = array[:rows]
        self.found = {}
        return found

    def stop(self) -> None:
        """The modules as they were."""
        self.stack.close()
