"""Values of the ops of mlx-lm's models qwen3_5, qwen3_5_moe, qwen3_next, qwen3_moe and qwen3, by the tap names of
docs/trace.md.

The modules of a model are wrapped, and so are the functions of mlx-lm that stand between modules. A wrapper passes
arguments and output on as they are. The values are arrays of MLX, which are computed when the call is written.
"""

import sys
from typing import Any


class Watched:
    """Wraps a module or a function and shows its arguments and its output; everything else is the module's."""

    def __init__(self, what: Any, see: Any) -> None:
        object.__setattr__(self, "_watched", (what, see))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        what, see = self._watched
        out = what(*args, **kwargs)
        instead = see(args, out)
        return out if instead is None else instead

    def __getattr__(self, name: str) -> Any:
        return getattr(self._watched[0], name)


class Weighted:
    """The outputs of the kept experts, which the block multiplies by the router's weights: shows the weights."""

    def __init__(self, out: Any, see: Any) -> None:
        self.out, self.see = out, see

    def __mul__(self, weights: Any) -> Any:
        self.see(weights)
        return self.out * weights

    def __getattr__(self, name: str) -> Any:
        return getattr(self.out, name)


def joined(parts: Any) -> Any:
    """[1, rows, ...] each: side by side, [1, rows, columns]."""
    flat = [part.reshape(part.shape[0], part.shape[1], -1) for part in parts]
    return sys.modules["mlx.core"].concatenate(flat, axis=-1)


def by_row(array: Any) -> Any:
    """[1, heads, rows, width] to [1, rows, heads, width]."""
    return array.transpose(0, 2, 1, 3)


class Taps:
    """Wraps the modules and functions of a model until stop(); found has the values of the running call."""

    def __init__(self, text: Any) -> None:
        self.found: dict[str, Any] = {}
        self.saved: list[tuple[Any, str, Any]] = []
        self.now = ""  # the running layer: "layers.3."
        self.before = ""  # the tap of the running layer's input
        self.unsorted: Any = None  # the place of each of the experts' rows, where mlx-lm sorted them by expert
        for number, layer in enumerate(text.layers):
            self._layer(layer, number)
        self._output(text.model, "embed_tokens", "embed")
        self._watch(text.model, "norm", self._final(len(text.layers) - 1))

    def stop(self) -> None:
        """The model and mlx-lm as they were."""
        for owner, name, what in reversed(self.saved):
            setattr(owner, name, what)
        self.saved = []

    def _watch(self, owner: Any, path: str, see: Any) -> None:
        """Shows OWNER.PATH to see(arguments, output); what the owner lacks is skipped."""
        *parts, last = path.split(".")
        for part in parts:
            owner = getattr(owner, part, None)
        what = getattr(owner, last, None)
        if what is not None:
            self.saved.append((owner, last, what))
            setattr(owner, last, Watched(what, see))

    def _function(self, module: Any, name: str, see: Any) -> None:
        """Shows a function of a module of mlx-lm, in which all layers call it: once."""
        if not any(owner is module and done == name for owner, done, _ in self.saved):
            self._watch(module, name, see)

    def _keep(self, name: str, array: Any) -> None:
        self.found[self.now + name] = array

    def _output(self, owner: Any, path: str, tap: str) -> None:
        """The output of the module is this tap."""

        def see(_args: Any, out: Any) -> None:
            self.found[tap] = out

        self._watch(owner, path, see)

    def _input(self, owner: Any, path: str, tap: str, output: str) -> None:
        """The argument of the module is a tap, and so is its output."""

        def see(args: Any, out: Any) -> None:
            self.found[tap], self.found[output] = args[0], out

        self._watch(owner, path, see)

    def _final(self, last: int) -> Any:
        def see(args: Any, out: Any) -> None:
            self.found[f"layers.{last}.output"], self.found["norm"] = args[0], out

        return see

    def _layer(self, layer: Any, number: int) -> None:
        name = f"layers.{number}."

        def begins(args: Any, out: Any) -> None:
            self.now = name
            if number:
                self.found[f"layers.{number - 1}.output"] = args[0]
            self._keep("input_layernorm", out)

        self._watch(layer, "input_layernorm", begins)
        self._input(layer, "post_attention_layernorm", name + "attn_residual", name + "post_attention_layernorm")
        if hasattr(layer, "linear_attn"):
            self._linear_attention(layer.linear_attn, name + "linear_attn.")
        if hasattr(layer, "self_attn"):
            self._full_attention(layer.self_attn, name + "self_attn.")
        if hasattr(layer.mlp, "switch_mlp"):
            self._experts(layer.mlp, name + "mlp.")
        else:
            self._mlp(layer.mlp, name + "mlp.")
        self._output(layer, "mlp", name + "mlp.out")

    def _mlp(self, mlp: Any, name: str) -> None:
        for part in ("gate_proj", "up_proj"):
            self._output(mlp, part, name + part)

        def down(args: Any, _out: Any) -> None:
            self.found[name + "swiglu"] = args[0]

        self._watch(mlp, "down_proj", down)

    def _experts(self, mlp: Any, name: str) -> None:
        self._output(mlp, "gate", name + "gate")
        if hasattr(mlp, "shared_expert"):
            self._mlp(mlp.shared_expert, name + "shared_expert.")
        for part in ("shared_expert", "shared_expert_gate"):
            self._output(mlp, part, name + part)

        def sorts(_args: Any, out: Any) -> None:
            self.unsorted = out[2]

        def expert(tap: str, array: Any) -> None:
            """The values of the kept experts: [rows, kept, ...], or sorted by expert, [rows kept, ...]."""
            if self.unsorted is not None:
                array = array[self.unsorted]
            self.found[name + "experts." + tap] = (array,)

        def kept(args: Any, out: Any) -> Any:
            self.unsorted = None
            rows, ids = out.shape[1], args[1]
            for tap in ("gate_proj", "up_proj", "swiglu"):
                (array,) = self.found[name + "experts." + tap]
                self.found[name + "experts." + tap] = array.reshape(1, rows, -1)
            self.found[name + "experts.down_proj"] = out
            self.found[name + "router_ids"] = ids.astype(sys.modules["mlx.core"].int32)
            return Weighted(out, weights)

        def weights(factors: Any) -> None:
            self.found[name + "router_weights"] = factors

        self._function(sys.modules[type(mlp.switch_mlp).__module__], "_gather_sort", sorts)
        for part in ("gate_proj", "up_proj"):
            self._watch(mlp.switch_mlp, part, lambda _args, out, tap=part: expert(tap, out))
        self._watch(mlp.switch_mlp, "down_proj", lambda args, _out: expert("swiglu", args[0]))
        self._watch(mlp, "switch_mlp", kept)

    def _full_attention(self, attn: Any, name: str) -> None:
        gated = hasattr(attn, "num_attention_heads")  # Qwen3 has n_heads, and no gate

        def projected(_args: Any, out: Any) -> None:
            if not gated:
                self.found[name + "q_proj"] = out
                return
            heads = out.reshape(out.shape[0], out.shape[1], attn.num_attention_heads, 2, -1)
            self.found |= {name + "q_proj": out, name + "query": heads[..., 0, :], name + "gate": heads[..., 1, :]}

        def rotated(_args: Any, out: Any) -> None:  # queries first, then keys
            tap = "q_rope" if name + "q_rope" not in self.found else "k_rope"
            self.found[name + tap] = by_row(out)

        self._watch(attn, "q_proj", projected)
        for part in ("k_proj", "v_proj", "q_norm", "k_norm"):
            self._output(attn, part, name + part)
        self._watch(attn, "rope", rotated)
        if gated:
            self._input(attn, "o_proj", name + "gated", name + "o_proj")
        else:
            self._output(attn, "o_proj", name + "o_proj")
        attended = lambda _args, out: self._keep("self_attn.core_out", by_row(out))  # noqa: E731
        self._function(sys.modules[type(attn).__module__], "scaled_dot_product_attention", attended)

    def _linear_attention(self, attn: Any, name: str) -> None:
        for part in ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "out_proj"):
            self._output(attn, part, name + part)

        def ordered(_args: Any, out: Any) -> None:  # the two projections of Qwen3-Next
            q, k, v, z, b, a = out
            self.found |= {name + "in_proj_qkv": joined((q, k, v)), name + "in_proj_z": z}
            self.found |= {name + "in_proj_b": b, name + "in_proj_a": a}

        def normalised(args: Any, out: Any) -> None:
            self._keep("linear_attn.conv", args)
            self._keep("linear_attn.q", out[0])
            self._keep("linear_attn.k", out[1])

        def updated(args: Any, _out: Any) -> None:
            q, k = self.found[self.now + "linear_attn.conv"]
            self._keep("linear_attn.conv", joined((q, k, args[2])))

        self._watch(attn, "fix_query_key_value_ordering", ordered)
        self._input(attn, "norm", name + "core_out", name + "norm")
        model = sys.modules[type(attn).__module__]
        self._function(model, "normalize_qk", normalised)
        self._function(model, "gated_delta_update", updated)
        rule = sys.modules.get("mlx_lm.models.gated_delta")
        for form in ("gated_delta_ops", "gated_delta_kernel"):  # on a processor, on a GPU
            self._function(rule, form, lambda args, _out: self._keep("linear_attn.beta", args[4]))
