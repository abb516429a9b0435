// Mistakes that an engine could have, planted in llama.cpp without a change of its source: the linker gives calls of
// the functions below to this file (ld's --wrap, build.sh). They build other graphs or compute other values, and the
// recorder's callback sees what comes of it.
//
// FAULT=NAME in the environment selects a mistake of faults.def. Without it every function passes its arguments on.

#include "ggml.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

const char * const faults[] = {
#define LLAMA_FAULT(name, op, description) #name,
#include "faults.def"
#undef LLAMA_FAULT
};

// The selected mistake, or an empty text. A name that is not in the list ends the program.
std::string selected() {
    const char * wanted = getenv("FAULT");
    if (!wanted || !*wanted) {
        return "";
    }
    for (const char * fault : faults) {
        if (!strcmp(fault, wanted)) {
            return wanted;
        }
    }
    fprintf(stderr, "llama_record: there is no fault %s; faults.def lists them\n", wanted);
    exit(1);
}

bool planted(const char * name) {
    static const std::string fault = selected();
    return fault == name;
}

// Names of nodes end with the layer: q_conv-3.
bool is(const ggml_tensor * t, const char * name) {
    const size_t length = strlen(name);
    return !strncmp(t->name, name, length) && (!t->name[length] || t->name[length] == '-');
}

// Names of weights: blk.3.ssm_dt.bias.
bool is_weight(const ggml_tensor * t, const char * name) {
    return strstr(t->name, name) != nullptr;
}

// A view of the tensor NAME.
bool views(const ggml_tensor * t, const char * name) {
    return t->view_src && !strncmp(t->view_src->name, name, strlen(name));
}

// Attention's gate: half of what the projection of queries gives, copied, and named in some graphs.
bool is_gate(const ggml_tensor * t) {
    return is(t, "gate_reshaped") || is(t, "mtp_gate") || (t->src[0] && views(t->src[0], "Qcur_full"));
}

// A new node with the values of A.
ggml_tensor * same(ggml_context * ctx, ggml_tensor * a) {
    return ggml_scale(ctx, ggml_cont(ctx, a), 1.0F);
}

// The loader also builds operations, of weights and empty tensors, to ask where they can run: these stay as they are.
bool is_computed(const ggml_tensor * t) {
    return t->op != GGML_OP_NONE;
}

} // namespace

// Declares the real function, and begins the definition of its replacement. build.sh finds the names by this macro.
#define WRAP(result, name, parameters)                                                                                  \
    extern "C" result __real_##name parameters;                                                                        \
    extern "C" result __wrap_##name parameters;                                                                        \
    result __wrap_##name parameters

WRAP(ggml_tensor *, ggml_rms_norm, (ggml_context * ctx, ggml_tensor * a, float eps)) {
    if (planted("norm_eps") && (is(a, "attn_residual") || is(a, "ffn_inp"))) {
        return __real_ggml_rms_norm(ctx, a, 1e-2F);
    }
    const bool heads = is(a, "Qcur") || is(a, "Kcur") || views(a, "Qcur") || views(a, "Kcur");
    if ((planted("no_l2norm") && is(a, "k_conv")) || (planted("mtp_hidden_norm") && is(a, "mtp_h_input")) ||
        (planted("no_qk_norm") && heads)) {
        return same(ctx, a);
    }
    return __real_ggml_rms_norm(ctx, a, eps);
}

WRAP(ggml_tensor *, ggml_silu, (ggml_context * ctx, ggml_tensor * a)) {
    if ((planted("conv_no_silu") && is(a, "conv_output_raw")) || (planted("z_as_is") && (is(a, "z") || views(a, "z-")))) {
        return same(ctx, a);
    }
    return __real_ggml_silu(ctx, a);
}

WRAP(ggml_tensor *, ggml_add, (ggml_context * ctx, ggml_tensor * a, ggml_tensor * b)) {
    return planted("no_dt_bias") && is_weight(b, "ssm_dt") && is_computed(a) ? same(ctx, a) : __real_ggml_add(ctx, a, b);
}

// With conv_state_stale the cache is copied onto itself. With state_slot all snapshots of a call are its last state, so that
// going back does not change it.
WRAP(ggml_tensor *, ggml_cpy, (ggml_context * ctx, ggml_tensor * a, ggml_tensor * b)) {
    if (planted("conv_state_stale") && views(a, "conv_input")) {
        return __real_ggml_cpy(ctx, b, b);
    }
    if (planted("state_slot") && views(b, "cache_s") && a->ne[2] > 1) {
        a = ggml_view_3d(ctx, a, a->ne[0], a->ne[1], a->ne[2], a->nb[1], 0, 0);
    }
    if (planted("state_f16") && views(b, "cache_s")) {
        a = ggml_cast(ctx, ggml_cast(ctx, ggml_cont(ctx, a), GGML_TYPE_F16), GGML_TYPE_F32);
    }
    return __real_ggml_cpy(ctx, a, b);
}

WRAP(ggml_tensor *, ggml_gated_delta_net,
     (ggml_context * ctx, ggml_tensor * q, ggml_tensor * k, ggml_tensor * v, ggml_tensor * g, ggml_tensor * beta,
      ggml_tensor * state, int64_t snapshots)) {
    if (planted("q_and_k")) {
        return __real_ggml_gated_delta_net(ctx, k, q, v, g, beta, state, snapshots);
    }
    if (planted("no_decay")) {
        g = ggml_scale(ctx, g, 0.0F);
    }
    if (planted("state_lost")) {
        state = ggml_scale(ctx, state, 0.0F);
    }
    return __real_ggml_gated_delta_net(ctx, q, k, v, g, beta, state, snapshots);
}

namespace {

void change_rope(const ggml_tensor * a, int & n_dims, float & base) {
    if (planted("rope_base")) {
        base /= 4;
    }
    if (planted("rope_whole")) {
        n_dims = (int) a->ne[0];
    }
    if (planted("rope_part")) {
        n_dims = (int) a->ne[0] / 4;
    }
}

} // namespace

WRAP(ggml_tensor *, ggml_rope_multi,
     (ggml_context * ctx, ggml_tensor * a, ggml_tensor * positions, ggml_tensor * factors, int n_dims, int * sections,
      int mode, int n_ctx, float base, float scale, float ext, float attn, float fast, float slow)) {
    change_rope(a, n_dims, base);
    return __real_ggml_rope_multi(ctx, a, positions, factors, n_dims, sections, mode, n_ctx, base, scale, ext, attn,
                                  fast, slow);
}

WRAP(ggml_tensor *, ggml_rope_ext,
     (ggml_context * ctx, ggml_tensor * a, ggml_tensor * positions, ggml_tensor * factors, int n_dims, int mode,
      int n_ctx, float base, float scale, float ext, float attn, float fast, float slow)) {
    change_rope(a, n_dims, base);
    return __real_ggml_rope_ext(ctx, a, positions, factors, n_dims, mode, n_ctx, base, scale, ext, attn, fast, slow);
}

WRAP(ggml_tensor *, ggml_soft_max_ext,
     (ggml_context * ctx, ggml_tensor * a, ggml_tensor * mask, float scale, float max_bias)) {
    return __real_ggml_soft_max_ext(ctx, a, mask, planted("scores_scale") ? scale * scale : scale, max_bias);
}

WRAP(ggml_tensor *, ggml_sigmoid, (ggml_context * ctx, ggml_tensor * a)) {
    if ((planted("no_gate") && is_gate(a)) || (planted("no_shared_gate") && is(a, "shared_expert_gate"))) {
        return ggml_scale_bias(ctx, a, 0.0F, 1.0F);
    }
    return __real_ggml_sigmoid(ctx, a);
}

WRAP(ggml_tensor *, ggml_swiglu_split, (ggml_context * ctx, ggml_tensor * a, ggml_tensor * b)) {
    return planted("gate_and_up") ? __real_ggml_swiglu_split(ctx, b, a) : __real_ggml_swiglu_split(ctx, a, b);
}

// The halves are exchanged afterwards: to_trace.py counts on the order of the nodes before.
WRAP(ggml_tensor *, ggml_concat, (ggml_context * ctx, ggml_tensor * a, ggml_tensor * b, int dim)) {
    ggml_tensor * whole = __real_ggml_concat(ctx, a, b, dim);
    if (planted("mtp_swapped") && is(a, "mtp_enorm")) {
        ggml_tensor * second = ggml_view_2d(ctx, whole, b->ne[0], b->ne[1], whole->nb[1], a->nb[1]);
        ggml_tensor * first = ggml_view_2d(ctx, whole, a->ne[0], a->ne[1], whole->nb[1], 0);
        return __real_ggml_concat(ctx, second, first, dim);
    }
    return whole;
}

WRAP(ggml_tensor *, ggml_soft_max, (ggml_context * ctx, ggml_tensor * a)) {
    return __real_ggml_soft_max(ctx, planted("router_sign") && is(a, "ffn_moe_logits") ? ggml_neg(ctx, a) : a);
}

WRAP(ggml_tensor *, ggml_argsort_top_k, (ggml_context * ctx, ggml_tensor * a, int k)) {
    if (planted("router_second")) {
        ggml_tensor * more = __real_ggml_argsort_top_k(ctx, a, k + 1);
        return ggml_view_2d(ctx, more, k, more->ne[1], more->nb[1], ggml_element_size(more));
    }
    return __real_ggml_argsort_top_k(ctx, a, k);
}

WRAP(ggml_tensor *, ggml_div, (ggml_context * ctx, ggml_tensor * a, ggml_tensor * b)) {
    return planted("no_renormalisation") && is(b, "ffn_moe_weights_sum_clamped") ? same(ctx, a)
                                                                                 : __real_ggml_div(ctx, a, b);
}

WRAP(ggml_tensor *, ggml_mul_mat_id, (ggml_context * ctx, ggml_tensor * as, ggml_tensor * b, ggml_tensor * ids)) {
    if (planted("expert_next") && is_weight(as, "ffn_down_exps") && is_computed(b)) {
        const int64_t rest = as->ne[2] - 1;
        ggml_tensor * first = ggml_view_3d(ctx, as, as->ne[0], as->ne[1], 1, as->nb[1], as->nb[2], 0);
        ggml_tensor * others = ggml_view_3d(ctx, as, as->ne[0], as->ne[1], rest, as->nb[1], as->nb[2], as->nb[2]);
        as = __real_ggml_concat(ctx, others, first, 2);
    }
    return __real_ggml_mul_mat_id(ctx, as, b, ids);
}

// Below the graphs: a kernel, and the inputs that say which cells a row sees and where its key is written.
WRAP(void, ggml_vec_dot_bf16,
     (int n, float * s, size_t bs, ggml_bf16_t * x, size_t bx, ggml_bf16_t * y, size_t by, int rows)) {
    __real_ggml_vec_dot_bf16(planted("dot_tail") ? n - 1 : n, s, bs, x, bx, y, by, rows);
}

WRAP(void, _ZNK22llama_kv_cache_context17set_input_kq_maskEP11ggml_tensorPK12llama_ubatchb,
     (const void * self, ggml_tensor * mask, const void * ubatch, bool causal)) {
    __real__ZNK22llama_kv_cache_context17set_input_kq_maskEP11ggml_tensorPK12llama_ubatchb(
        self, mask, ubatch, causal && !planted("later_rows"));
}

WRAP(void, _ZNK22llama_kv_cache_context16set_input_k_idxsEP11ggml_tensorPK12llama_ubatch,
     (const void * self, ggml_tensor * cells, const void * ubatch)) {
    __real__ZNK22llama_kv_cache_context16set_input_k_idxsEP11ggml_tensorPK12llama_ubatch(self, cells, ubatch);
    if (planted("key_cell")) {
        for (int64_t i = 0; i < cells->ne[0]; i++) {
            ((int64_t *) cells->data)[i]++;
        }
    }
}
