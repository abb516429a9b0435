"""Mistakes planted in vLLM itself while it runs: each is a function of the runner, with a line that describes it.

Real engines could have each of them. They are planted in modules of vLLM and in the loaded model, below the hooks of
the recorder, and stay until the process ends.
"""

import torch
import vllm._custom_ops as ops
from vllm.model_executor.layers import layernorm
from vllm.model_executor.layers.fused_moe.router import cpu_router
from vllm.model_executor.layers.mamba.ops.cpu import gdn_attention


def layers(runner):
    """The layers of the trunk."""
    return getattr(runner.model, "language_model", runner.model).model.layers


def attentions(runner):
    """The full attention of the trunk."""
    return [layer.self_attn for layer in layers(runner) if layer.layer_type == "full_attention"]


def head(runner):
    """The MTP head."""
    return runner.drafter.model.model


def around(owner, name, make):
    """Replaces OWNER.NAME by make(its old value)."""
    setattr(owner, name, make(getattr(owner, name)))


def inputs(module, change):
    """Gives the module change(its inputs) as inputs."""
    module.register_forward_pre_hook(lambda _module, args: change(*args))


def given(name, **changes):
    """Changes the named arguments of a CPU op."""

    def make(real):
        def other(*args, **kwargs):
            return real(*args, **(kwargs | {key: change(kwargs[key]) for key, change in changes.items() if key in kwargs}))

        return other

    around(ops, name, make)


def norm_without_plus_one(runner):
    """norms multiply by w, and not by 1 + w"""

    def forward(self, x, residual=None):
        weight = self.weight.float()
        if residual is None:
            return layernorm.ir.ops.rms_norm(x, weight, self.variance_epsilon)
        return layernorm.ir.ops.fused_add_rms_norm(x, residual, weight, self.variance_epsilon)

    for module in runner.model.modules():
        if isinstance(module, layernorm.GemmaRMSNorm):
            module._forward_method = forward.__get__(module)


def eps_of_norm(runner):
    """epsilon of the final norm is 1e-2"""
    getattr(runner.model, "language_model", runner.model).model.norm.variance_epsilon = 1e-2


def rope_position(runner):
    """rotary positions are one too large"""
    for attn in attentions(runner):
        inputs(attn.rotary_emb, lambda positions, q, k: (positions + 1, q, k))


def gate_sign(runner):
    """attention is multiplied by the sigmoid of minus its gate"""
    for attn in attentions(runner):

        def make(real):
            def other(qkv, positions):
                q, k, v, gate = real(qkv, positions)
                return q, k, v, -gate

            return other

        around(attn, "_project_qkv_gate", make)


def attention_scale(runner):
    """attention scores are scaled by 1 / head_dim"""
    for attn in attentions(runner):
        attn.attn.impl.scale = attn.attn.impl.scale**2


def key_slot(_runner):
    """keys and values are written one position behind theirs"""
    around(ops, "cpu_attn_reshape_and_cache", lambda real: lambda k, v, kc, vc, slots, *a, **kw: real(k, v, kc, vc, slots + 1, *a, **kw))


def gate_and_up(runner):
    """silu of up times gate, and not of gate times up"""
    for layer in layers(runner):
        inputs(layer.mlp.act_fn, lambda x: (x.roll(x.shape[-1] // 2, -1),))


def z_sign(runner):
    """the gated norm of the delta rule gets minus z"""
    for layer in layers(runner):
        if layer.layer_type == "linear_attention":
            inputs(layer.linear_attn.norm, lambda x, z: (x, -z))


def stale_conv_state(_runner):
    """a round leaves the columns of the convolution as it found them"""

    def make(real):
        def other(layer, meta, mixed, b, a, conv, ssm, width, length):
            kept = conv.clone()
            out = real(layer, meta, mixed, b, a, conv, ssm, width, length)
            conv.copy_(kept)
            return out

        return other

    around(gdn_attention, "_spec_forward", make)


def conv_rejected(_runner):
    """the convolution of a round goes on behind rejected drafts: from the newest columns"""

    def make(real):
        def other(layer, meta, mixed, b, a, conv, ssm, width, length):
            slots = meta.spec_state_indices_tensor[: meta.num_spec_decodes, 0].long()
            for row, slot in enumerate(slots):
                kept = int(meta.num_accepted_tokens[row]) - 1
                conv[slot, :, kept : kept + width - 1] = conv[slot, :, length - width + 1 :].clone()
            return real(layer, meta, mixed, b, a, conv, ssm, width, length)

        return other

    around(gdn_attention, "_spec_forward", make)


SPEC = "fused_sigmoid_gating_delta_rule_update_spec_cpu"


def state_slot(_runner):
    """a round continues from the slot before the right one: its state lacks one accepted token"""
    given(SPEC, num_accepted_tokens=lambda n: (n - 1).clamp(min=1))


def state_slot_behind(_runner):
    """the state that a round goes on from is that behind all drafts, rejected ones too"""
    given(SPEC, num_accepted_tokens=lambda n: n * 0 + 3)


def bf16_state(_runner):
    """the state of the delta rule is kept in bfloat16"""

    def make(real):
        def other(layer, meta, *args):
            real(layer, meta, *args)
            state = layer.kv_cache[1]  # pages of this pool also hold keys and values of other layers
            slots = meta.non_spec_state_indices_tensor if meta.spec_sequence_masks is None else meta.spec_state_indices_tensor
            slots = slots.flatten().long().unique()
            state[slots] = state[slots].bfloat16().float()

        return other

    around(gdn_attention, "_cpu_gdn_attention_spec_aware", make)


def no_l2norm(_runner):
    """queries and keys of rounds are not normalised"""
    given(SPEC, use_qk_l2norm_in_kernel=lambda _: False)


def beta_sign(_runner):
    """beta of rounds is the sigmoid of minus b"""
    given(SPEC, b=lambda b: -b)


def no_dt_bias(_runner):
    """the decay of rounds leaves out dt_bias"""
    given(SPEC, dt_bias=lambda bias: bias * 0)


def mtp_swapped(runner):
    """the MTP head gets its hidden vector where the embedding belongs, and the other way round"""
    inputs(head(runner).fc, lambda x: (x.roll(x.shape[-1] // 2, -1),))


def mtp_norms_swapped(runner):
    """the MTP head norms its embedding by the weights of the hidden vector's norm, and the other way round"""
    model = head(runner)
    model.pre_fc_norm_embedding.weight, model.pre_fc_norm_hidden.weight = (
        model.pre_fc_norm_hidden.weight,
        model.pre_fc_norm_embedding.weight,
    )


def mtp_position(runner):
    """rotary positions of the MTP head are one too large"""
    # its rotary embedding is the trunk's own object
    around(head(runner).layers[0].self_attn, "_project_qkv_gate", lambda real: lambda qkv, at: real(qkv, at + 1))


def mtp_final_norm(runner):
    """drafts are made from the hidden vector times two"""
    around(runner.drafter.model, "compute_logits", lambda real: lambda hidden, *a: real(hidden * 2, *a))


def mtp_stale_hidden(runner):
    """the MTP head is fed the hidden vectors of the row before"""
    inputs(head(runner).pre_fc_norm_hidden, lambda x: (x.roll(1, 0),))


def accepted_count(runner):
    """a round emits one draft more than was accepted"""

    def make(real):
        def other(metadata, *args, **kwargs):
            out = real(metadata, *args, **kwargs)
            ids, start = out.sampled_token_ids, 0
            for row, drafted in enumerate(metadata.num_draft_tokens):
                kept = int((ids[row] >= 0).sum())
                if 0 < kept <= drafted:
                    ids[row, kept] = ids[row, kept - 1]
                    ids[row, kept - 1] = metadata.draft_token_ids[start + kept - 1]
                start += drafted
            return out

        return other

    around(runner.rejection_sampler, "forward", make)


def embedding_row(runner):
    """each token gets the embedding of the id below its own"""
    inputs(getattr(runner.model, "language_model", runner.model).model.embed_tokens, lambda ids: ((ids - 1).clamp(min=0),))


def logits_row(runner):
    """logits are made of the hidden vector of the row before"""
    around(runner.model, "compute_logits", lambda real: lambda hidden, *a: real(hidden.roll(1, 0), *a))


def one_expert_less(_runner):
    """the router keeps one expert less: top_k off by one"""

    def make(real):
        def other(logits, top_k, renormalize):
            weights, ids = real(logits, top_k - 1, renormalize)
            rest = ids.new_tensor([[next(e for e in range(logits.shape[-1]) if e not in row)] for row in ids.tolist()])
            return torch.cat([weights, weights[:, :1] * 0], -1), torch.cat([ids, rest], -1)

        return other

    around(cpu_router, "_softmax_topk", make)


def no_renormalisation(_runner):
    """weights of experts are not renormalised"""
    around(cpu_router, "_softmax_topk", lambda real: lambda logits, top_k, _: real(logits, top_k, False))


def router_sign(_runner):
    """the router keeps the experts of the smallest logits"""
    around(cpu_router, "_softmax_topk", lambda real: lambda logits, top_k, renormalize: real(-logits, top_k, renormalize))


def shared_expert_gate(runner):
    """the gate of the shared expert is fed minus its input"""
    for layer in layers(runner):
        inputs(layer.mlp.shared_expert_gate, lambda x: (-x,))


OF_MIXTURES = (one_expert_less, no_renormalisation, router_sign, shared_expert_gate)
FAULTS = {
    fault.__name__: fault
    for fault in (
        *(norm_without_plus_one, eps_of_norm, rope_position, gate_sign, attention_scale, key_slot, gate_and_up, z_sign),
        *(stale_conv_state, conv_rejected, state_slot, state_slot_behind, bf16_state, no_l2norm, beta_sign, no_dt_bias),
        *(mtp_swapped, mtp_norms_swapped, mtp_position, mtp_final_norm, mtp_stale_hidden, accepted_count),
        *(embedding_row, logits_row, *OF_MIXTURES),
    )
}
