"""Mistakes planted in mlx-lm itself: each is a function of the model, with a line that describes it.

Real engines could have each of them. They are planted in modules of mlx-lm and in the loaded model, below the hooks of
the recorder, and stay until the process ends. fails() has the op that must be the first to fail.
"""

import json
import sys

import mlx.core as mx
from mlx_lm.models import cache, gated_delta, switch_layers
from recording import is_mixture

FAULTS = {}
NEEDS = {}


def fails(op, needs=""):
    """Registers a mistake. op: the op that must fail first. needs: what the model must be, a key of can()."""

    def register(fault):
        FAULTS[fault.__name__], NEEDS[fault.__name__] = fault, needs
        return fault

    return register


def can(checkpoint):
    """The mistakes that this model can have."""
    with open(f"{checkpoint}/config.json", encoding="utf-8") as file:
        config = json.load(file)
    text = config.get("text_config", config)
    hybrid = "linear_num_value_heads" in text
    has = {
        "": True,
        "hybrid": hybrid,
        "groups": hybrid and text["linear_num_value_heads"] > text["linear_num_key_heads"],
        "mixture": is_mixture(checkpoint),
        "shared": hybrid and is_mixture(checkpoint),
        "next": config["model_type"] == "qwen3_next",
        "qwen3": not hybrid,
    }
    return [name for name, needs in NEEDS.items() if has[needs]]


class Changed:
    """mlx.core as one module of mlx-lm sees it, with other functions."""

    def __init__(self, **functions):
        self.functions = functions

    def __getattr__(self, name):
        return self.functions.get(name) or getattr(mx, name)


def layers(model):
    """The layers of the trunk."""
    return getattr(model, "language_model", model).layers


def attentions(model):
    """The full attention of the trunk."""
    return [layer.self_attn for layer in layers(model) if hasattr(layer, "self_attn")]


def deltas(model):
    """The linear attention of the trunk."""
    return [layer.linear_attn for layer in layers(model) if hasattr(layer, "linear_attn")]


def home(module):
    """The module of mlx-lm that has the code of a module of the model."""
    return sys.modules[type(module).__module__]


def around(owner, name, make):
    """Replaces OWNER.NAME by make(its old value)."""
    setattr(owner, name, make(getattr(owner, name)))


def around_rule(model, name, make):
    """The same for a function that the linear attention calls."""
    around(sys.modules[type(deltas(model)[0]).__module__], name, make)


@fails("embed")
def embedding_row(model):
    """each token gets the embedding of the id below its own"""
    around(type(model.model.embed_tokens), "__call__", lambda real: lambda self, ids: real(self, mx.maximum(ids, 1) - 1))


@fails("rmsnorm", needs="hybrid")
def norm_without_plus_one(model):
    """norms multiply by w, and not by 1 + w"""
    norms = [model.model.norm]
    for layer in layers(model):
        norms += [layer.input_layernorm, layer.post_attention_layernorm]
    for attn in attentions(model):
        norms += [attn.q_norm, attn.k_norm]
    for norm in norms:
        norm.weight = norm.weight - 1


@fails("rmsnorm", needs="qwen3")
def norm_plus_one(model):
    """norms multiply by 1 + w, and not by w"""
    model.model.norm.weight = model.model.norm.weight + 1
    for layer in layers(model):
        for norm in (layer.input_layernorm, layer.post_attention_layernorm, layer.self_attn.q_norm, layer.self_attn.k_norm):
            norm.weight = norm.weight + 1


@fails("rmsnorm", needs="qwen3")
def no_qk_norm(model):
    """queries and keys are not normalised"""
    for attn in attentions(model):
        attn.q_norm = attn.k_norm = lambda x: x


@fails("rmsnorm")
def eps_of_norm(model):
    """epsilon of the final norm is 1e-2"""
    model.model.norm.eps = 1e-2


@fails("linear", needs="next")
def v_and_z_swapped(model):
    """the projection gives v where z belongs, and the other way round"""

    def make(real):
        def other(self, qkvz, ba):
            q, k, v, z, b, a = real(self, qkvz, ba)
            return q, k, z, v, b, a

        return other

    around(type(deltas(model)[0]), "fix_query_key_value_ordering", make)


@fails("conv", needs="hybrid")
def conv_order(model):
    """the convolution reads its taps from the newest to the oldest"""
    for attn in deltas(model):
        attn.conv1d.weight = attn.conv1d.weight[:, ::-1, :]


@fails("conv", needs="hybrid")
def stale_conv_state(_model):
    """the columns of the convolution stay those of the first call"""

    def make(real):
        def other(self, index, value):
            if index != 0 or self.cache[0] is None:
                real(self, index, value)

        return other

    around(cache.ArraysCache, "__setitem__", make)


@fails("conv", needs="hybrid")
def conv_window(_model):
    """the window of the convolution ends one column too early"""

    def make(real):
        def other(self, index, value):
            real(self, index, mx.roll(value, 1, axis=1) if index == 0 else value)

        return other

    around(cache.ArraysCache, "__setitem__", make)


@fails("gates", needs="hybrid")
def beta_sign(_model):
    """beta is the sigmoid of minus b"""
    gated_delta.mx = Changed(sigmoid=lambda b: mx.sigmoid(-b))


@fails("l2norm", needs="hybrid")
def eps_of_l2norm(model):
    """epsilon of the norm of queries and keys is 1e-2"""
    around_rule(model, "normalize_qk", lambda real: lambda q, k, *, inv_scale, eps: real(q, k, inv_scale=inv_scale, eps=1e-2))


@fails("l2norm", needs="hybrid")
def eps_of_the_mean(model):
    """epsilon of the norm of queries and keys is added to the mean of the squares, and not to their sum"""

    def make(real):
        return lambda q, k, *, inv_scale, eps: real(q, k, inv_scale=inv_scale, eps=eps / inv_scale**2)

    around_rule(model, "normalize_qk", make)


@fails("l2norm", needs="hybrid")
def query_scale(model):
    """queries of the delta rule are not scaled"""

    def make(real):
        def other(q, k, *, inv_scale, eps):
            q, k = real(q, k, inv_scale=inv_scale, eps=eps)
            return q / inv_scale, k

        return other

    around_rule(model, "normalize_qk", make)


@fails("delta_rule", needs="hybrid")
def decay_sign(_model):
    """the decay is exp(+g): the state grows"""
    around(gated_delta, "compute_g", lambda real: lambda *a: 1 / real(*a))


@fails("delta_rule", needs="hybrid")
def no_dt_bias(_model):
    """the decay leaves out dt_bias"""
    around(gated_delta, "compute_g", lambda real: lambda a_log, a, dt_bias: real(a_log, a, dt_bias * 0))


@fails("delta_rule", needs="groups")
def key_heads(_model):
    """value head h reads key head h modulo their number"""
    gated_delta.mx = Changed(repeat=lambda x, times, axis: mx.concatenate([x] * times, axis=axis))


@fails("delta_rule", needs="hybrid")
def state_not_carried(model):
    """each call begins with an empty state of the delta rule"""

    def make(real):
        def other(q, k, v, a, b, a_log, dt_bias, state, mask, **more):
            return real(q, k, v, a, b, a_log, dt_bias, None, mask, **more)

        return other

    around_rule(model, "gated_delta_update", make)


@fails("delta_rule", needs="hybrid")
def bf16_state(model):
    """the state of the delta rule is kept in bfloat16"""

    def make(real):
        def other(*args, **more):
            out, state = real(*args, **more)
            return out, state.astype(mx.bfloat16).astype(mx.float32)

        return other

    around_rule(model, "gated_delta_update", make)


@fails("gated_rmsnorm", needs="hybrid")
def z_left_out(model):
    """the gated norm of the delta rule leaves out z"""
    around(type(deltas(model)[0].norm), "__call__", lambda real: lambda self, x, z: real(self, x, None))


@fails("rope")
def rope_base(model):
    """the base of the rotary frequencies is 10000"""
    for attn in attentions(model):
        attn.rope.base = 10000.0


@fails("rope", needs="qwen3")
def rope_part(model):
    """a quarter of each head is rotated, and not all of it"""
    for attn in attentions(model):
        attn.rope.dims //= 4


@fails("rope")
def rope_position(model):
    """rotary positions are one too large"""
    rope = type(attentions(model)[0].rope)
    around(rope, "__call__", lambda real: lambda self, x, offset=0: real(self, x, offset=offset + 1))


@fails("attention")
def attention_scale(model):
    """attention scores are scaled by 1 / head_dim"""
    for attn in attentions(model):
        attn.scale = attn.scale**2


@fails("attention")
def no_mask(model):
    """a prompt sees its later tokens: attention has no mask"""

    def make(real):
        return lambda queries, keys, values, *, mask, **more: real(queries, keys, values, mask=None, **more)

    around(home(attentions(model)[0]), "scaled_dot_product_attention", make)


@fails("attention")
def key_slot(_model):
    """each new key is written over by the key before it"""

    def make(real):
        def other(self, keys, values):
            first = self.offset
            real(self, keys, values)
            if first:
                self.keys[..., first : self.offset, :] = self.keys[..., first - 1 : self.offset - 1, :]
            return self.keys_and_values()

        return other

    around(cache.KVCache, "update_and_fetch", make)


@fails("attn_gate", needs="hybrid")
def gate_left_out(model):
    """the gate of attention is left out"""
    home(attentions(model)[0]).mx = Changed(sigmoid=lambda x: mx.sigmoid(x) if x.shape[-1] == 1 else mx.ones_like(x))


@fails("router", needs="mixture")
def top_k_off_by_one(model):
    """the router keeps the experts of rank 2 to k + 1"""
    home(layers(model)[0].mlp).mx = Changed(argpartition=lambda x, kth, axis: mx.argsort(x, axis=axis)[..., :-1])


@fails("router", needs="mixture")
def no_renormalisation(model):
    """weights of experts are not renormalised"""
    for layer in layers(model):
        layer.mlp.norm_topk_prob = False


@fails("linear", needs="mixture")
def experts_swapped(_model):
    """each expert's token goes to the expert beside it"""

    def make(real):
        return lambda self, x, indices, **more: real(self, x, indices ^ 1, **more)

    around(switch_layers.SwitchLinear, "__call__", make)


@fails("linear")
def w1_and_w3_swapped(model):
    """gate_proj and up_proj of the MLP, or of the experts, are exchanged"""
    for layer in layers(model):
        experts = getattr(layer.mlp, "switch_mlp", layer.mlp)
        experts.gate_proj, experts.up_proj = experts.up_proj, experts.gate_proj


@fails("swiglu")
def gate_and_up(model):
    """silu of up times gate, and not of gate times up"""
    around(home(layers(model)[0].mlp), "swiglu", lambda real: lambda gate, up: real(up, gate))


@fails("moe_combine", needs="shared")
def shared_gate_left_out(model):
    """the gate of the shared expert is left out"""
    home(layers(model)[0].mlp).mx = Changed(sigmoid=lambda x: mx.sigmoid(x) if x.shape[-1] > 1 else mx.ones_like(x))


@fails("add")
def residual_of_the_norm(model):
    """the second residual sum starts from the normed vector"""

    def other(self, x, mask=None, cache=None):  # pylint: disable=redefined-outer-name
        mixed = self.linear_attn if hasattr(self, "linear_attn") else self.self_attn
        h = x + mixed(self.input_layernorm(x), mask, cache)
        normed = self.post_attention_layernorm(h)
        return normed + self.mlp(normed)

    type(layers(model)[0]).__call__ = other


@fails("linear")
def logits_row(model):
    """logits are made of the hidden vector of the row before"""
    text = getattr(model, "language_model", model)
    around(type(text), "__call__", lambda real: lambda self, *a, **k: mx.roll(real(self, *a, **k), 1, axis=1))
