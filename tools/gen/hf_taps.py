"""Record the inputs and outputs of every op of chosen decoder layers while a model runs.

Most values are outputs of modules, which forward hooks record. Some exist only between two
functions of the modeling file (the convolution, the delta rule, RoPE, the attention core). Those
functions, and the table of attention functions, are globals of that file. During a call they are
replaced by wrappers that record the values and pass them on.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

Values = dict[str, torch.Tensor]

_CONV_FUNCTIONS = ("causal_conv1d_fn", "causal_conv1d_update")
_DELTA_FUNCTIONS = ("torch_chunk_gated_delta_rule", "torch_recurrent_gated_delta_rule")


def split_next_projections(gdn: torch.nn.Module, qkvz: torch.Tensor, ba: torch.Tensor) -> Values:
    """The Qwen3.5 view of the two Qwen3-Next projections.

    Qwen3-Next stores rows by key head, [q | k | v of its r heads | z of its r heads] and
    [b of its r heads | a of its r heads]; Qwen3.5 stores all q, all k, all v, and z, b, a alone.
    """
    rows = qkvz.shape[0]
    ratio = gdn.num_v_heads // gdn.num_k_heads
    sizes = [gdn.head_k_dim, gdn.head_k_dim, ratio * gdn.head_v_dim, ratio * gdn.head_v_dim]
    q, k, v, z = qkvz.reshape(rows, gdn.num_k_heads, -1).split(sizes, dim=2)
    b, a = ba.reshape(rows, gdn.num_k_heads, -1).split([ratio, ratio], dim=2)
    flat = [part.reshape(rows, -1) for part in (q, k, v)]
    return {
        "linear_attn.in_proj_qkv": torch.cat(flat, dim=1),
        "linear_attn.in_proj_z": z.reshape(rows, -1),
        "linear_attn.in_proj_b": b.reshape(rows, -1),
        "linear_attn.in_proj_a": a.reshape(rows, -1),
    }


def tied_rows(logits: torch.Tensor, top_k: int) -> int:
    """The number of rows with equal logits among the first top_k + 1 in order of size.

    torch.topk does not define the order of equal values (and does not take the lowest index), so
    such a row cannot be compared expert by expert.
    """
    first = logits.sort(dim=-1, descending=True).values[:, : top_k + 1]
    return int((first[:, 1:] == first[:, :-1]).any(dim=-1).sum())


def text_model(model: torch.nn.Module) -> torch.nn.Module:
    """The decoder: layers and final norm, also of a vision model."""
    return getattr(model.model, "language_model", model.model)


def flat(value: torch.Tensor) -> torch.Tensor:
    """[batch, rows, ...] to [batch rows, ...]."""
    return value.reshape(-1, *value.shape[2:])


class Interfaces:
    """The attention functions of transformers; each is wrapped on look-up."""

    def __init__(self, real: Any, wrap: Callable) -> None:
        self._real, self._wrap = real, wrap

    def get_interface(self, name: str, default: Callable) -> Callable:
        return self._wrap(self._real.get_interface(name, default))


class Taps:
    """Values of one model call made inside watch(): by layer and tap name, axis 0 the token."""

    def __init__(self, model: torch.nn.Module, layers: set[int]):
        self.values: dict[int, Values] = {layer: {} for layer in layers}
        self.router_ids: dict[int, torch.Tensor] = {}  # per MoE layer, in torch.topk's order
        self.hidden: torch.Tensor | None = None  # after the final norm
        self.tied_rows = 0  # rows whose choice or order of experts only torch.topk decides
        self._model = text_model(model)
        self._modeling = sys.modules[type(model).__module__]
        self._layer: int | None = None  # the running layer, for the replaced functions

    def _put(self, layer: int | None, tap: str, value: torch.Tensor) -> None:
        if layer in self.values:
            # A copy: HF updates its states in place.
            self.values[layer][tap] = value.detach().clone()

    def _put_rows(self, layer: int, tap: str, value: torch.Tensor) -> None:
        """[batch, n, ...] or [rows, width] to [rows, ...]."""
        self._put(layer, tap, flat(value) if value.dim() > 2 else value)

    @contextmanager
    def watch(self) -> Iterator["Taps"]:
        """Record the calls inside the with block, then restore the model."""
        handles = []
        saved = {}
        try:
            handles.append(self._model.norm.register_forward_hook(self._final_norm))
            for index, layer in enumerate(self._model.layers):
                handles += self._hook_layer(index, layer)
            for name, wrap in self._wrappers().items():
                saved[name] = getattr(self._modeling, name)
                setattr(self._modeling, name, wrap(saved[name]))
            yield self
        finally:
            for handle in handles:
                handle.remove()
            for name, function in saved.items():
                setattr(self._modeling, name, function)

    def _wrappers(self) -> dict[str, Callable]:
        wrappers = {}
        if any(hasattr(layer, "linear_attn") for layer in self._model.layers):
            wrappers |= {name: self._wrap_conv for name in _CONV_FUNCTIONS}
            wrappers |= {name: self._wrap_delta for name in _DELTA_FUNCTIONS}
        wrappers["apply_rotary_pos_emb"] = self._wrap_rope
        wrappers["ALL_ATTENTION_FUNCTIONS"] = lambda real: Interfaces(real, self._wrap_attention)
        return wrappers

    # Hooks on modules

    def _final_norm(self, _module: torch.nn.Module, _args: tuple, out: torch.Tensor) -> None:
        self.hidden = flat(out).detach().clone()

    def _output(self, index: int, module: torch.nn.Module, tap: str) -> Any:
        return module.register_forward_hook(lambda _m, _a, out: self._put_rows(index, tap, out))

    def _input(self, index: int, module: torch.nn.Module, tap: str) -> Any:
        return module.register_forward_pre_hook(
            lambda _m, args: self._put_rows(index, tap, args[0])
        )

    def _hook_layer(self, index: int, layer: torch.nn.Module) -> list:
        def enter(_module, _args):
            self._layer = index

        handles = [
            layer.register_forward_pre_hook(enter),
            self._input(index, layer, "input"),
            self._output(index, layer.input_layernorm, "input_layernorm"),
            self._input(index, layer.post_attention_layernorm, "attn_residual"),
            self._output(index, layer.post_attention_layernorm, "post_attention_layernorm"),
            self._output(index, layer, "output"),
        ]
        if hasattr(layer, "linear_attn"):
            handles += self._hook_gdn(index, layer.linear_attn)
        else:
            handles += self._hook_attention(index, layer.self_attn)
        hook_mlp = self._hook_moe if hasattr(layer.mlp, "experts") else self._hook_dense
        return handles + hook_mlp(index, layer.mlp)

    def _hook_gdn(self, index: int, gdn: torch.nn.Module) -> list:
        names = (
            "in_proj_qkv",
            "in_proj_z",
            "in_proj_b",
            "in_proj_a",
            "in_proj_qkvz",
            "in_proj_ba",
            "out_proj",
        )
        present = [name for name in names if hasattr(gdn, name)]
        handles = [
            self._output(index, getattr(gdn, name), f"linear_attn.{name}") for name in present
        ]

        def gated_norm(_module, _args, out):
            self._put(index, "linear_attn.norm", out.reshape(-1, gdn.value_dim))

        return handles + [gdn.norm.register_forward_hook(gated_norm)]

    def _hook_attention(self, index: int, attention: torch.nn.Module) -> list:
        names = ("q_proj", "k_proj", "v_proj", "q_norm", "k_norm", "o_proj")
        handles = [
            self._output(index, getattr(attention, name), f"self_attn.{name}") for name in names
        ]
        if attention.q_proj.out_features == attention.o_proj.in_features:  # no gate (Qwen3)
            return handles
        return handles + [self._input(index, attention.o_proj, "self_attn.gated")]

    def _hook_moe(self, index: int, mlp: torch.nn.Module) -> list:
        def router(_module, _args, out):
            logits, weights, ids = out
            self.router_ids[index] = ids.to(torch.int16)
            self.tied_rows += tied_rows(logits, ids.shape[-1])
            self._put(index, "mlp.gate", logits)
            self._put(index, "mlp.router_weights", weights)
            self._put(index, "mlp.router_ids", self.router_ids[index])

        shared = [name for name in ("shared_expert", "shared_expert_gate") if hasattr(mlp, name)]
        return [
            mlp.gate.register_forward_hook(router),
            self._output(index, mlp.experts, "mlp.experts"),
            *(self._output(index, getattr(mlp, name), f"mlp.{name}") for name in shared),
            self._output(index, mlp, "mlp.out"),
        ]

    def _hook_dense(self, index: int, mlp: torch.nn.Module) -> list:
        return [
            self._output(index, mlp.gate_proj, "mlp.gate_proj"),
            self._output(index, mlp.up_proj, "mlp.up_proj"),
            self._input(index, mlp.down_proj, "mlp.act"),
            self._output(index, mlp.down_proj, "mlp.down_proj"),
        ]

    # Wrappers of functions

    def _wrap_conv(self, function: Callable) -> Callable:
        # The input has columns of the stored state before the new tokens; the module drops them
        # after this call. The delta rule knows the number of new rows, and cuts there.
        def conv(*args, **kwargs):
            out = function(*args, **kwargs)
            self._put(self._layer, "linear_attn.conv", out.transpose(1, 2))
            return out

        return conv

    def _wrap_delta(self, function: Callable) -> Callable:
        def delta(query, key, value, **kwargs):
            layer = self._layer
            state_in = kwargs["initial_state"]
            if layer in self.values and state_in is not None:
                self._put(layer, "delta.state_in", state_in[0])
            out, state_out = function(query, key, value, **kwargs)
            if layer in self.values:
                rows = query.shape[1]
                conv = self.values[layer]["linear_attn.conv"][:, -rows:]
                self.values[layer]["linear_attn.conv"] = flat(conv)
                for tap, tensor in (("q", query), ("k", key), ("v", value)):
                    self._put(layer, f"delta.{tap}", flat(tensor))
                self._put(layer, "linear_attn.g", flat(kwargs["g"]))
                self._put(layer, "linear_attn.beta", flat(kwargs["beta"]))
                self._put(layer, "linear_attn.core_out", flat(out))
                if state_out is not None:
                    self._put(layer, "delta.state_out", state_out[0])
            return out, state_out

        return delta

    def _wrap_rope(self, function: Callable) -> Callable:
        def rope(*args, **kwargs):
            q, k = function(*args, **kwargs)
            self._put(self._layer, "self_attn.q_rope", flat(q.transpose(1, 2)))
            self._put(self._layer, "self_attn.k_rope", flat(k.transpose(1, 2)))
            return q, k

        return rope

    def _wrap_attention(self, function: Callable) -> Callable:
        def attention(*args, **kwargs):
            out, weights = function(*args, **kwargs)
            self._put(self._layer, "self_attn.core_out", flat(out))
            return out, weights

        return attention
