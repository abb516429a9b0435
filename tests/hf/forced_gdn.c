/* forced_gdn.c - the ops around the delta rule in a linear attention layer. */
#include "tests/hf/forced.h"

#include <string.h>

#include "ref/fast/dot/dot.h"

/* R-4 for the whole call, fed in two parts that meet at `cut`: "columns before the call come from
 * the conv state". */
static void check_conv(forced *f, const forced_call *call, const float *u, const float *want,
                       size_t cut)
{
    const sb_matrix *weight = &forced_layer(f, f->fixture->gdn)->w[SB_ROLE_conv1d];
    size_t width = weight->rows, back = weight->cols - 1, n = call->length;
    forced_out all = forced_room(f, n * width), some = forced_room(f, call->count * width);
    forced_out state = forced_room(f, back * width);
    for (size_t first = 0, end = cut ? cut : n; first < n; first = end, end = n) {
        const sb_conv_args args = {.in = u + first * width,
                                   .weight = weight,
                                   .rows = end - first,
                                   .state = state.got,
                                   .out = all.got + first * width};
        forced_out part = {.ours = all.ours + first * width, .theirs = all.theirs + first * width};
        FORCED_BOUND(f, conv, args, part, &state);
        FORCED_RUN(f, conv, args);
    }
    for (size_t i = 0; i < call->count; i++) {
        size_t from = call->at[i] * width, to = i * width;
        memcpy(some.got + to, all.got + from, width * sizeof *all.got);
        memcpy(some.ours + to, all.ours + from, width * sizeof *all.ours);
        memcpy(some.theirs + to, all.theirs + from, width * sizeof *all.theirs);
    }
    forced_compare(f, FORCED_conv, "linear_attn.conv", &some, want, width);
    forced_compare(f, FORCED_conv, "conv state", &state, u + (n - back) * width, width);
}

/* */
static void check_gates(forced *f, const forced_call *call, const float *a, const float *b,
                        const float *g, const float *beta)
{
    const sb_matrix *w = forced_layer(f, f->fixture->gdn)->w;
    size_t heads = f->fixture->model->config.lin_v_heads, count = call->count * heads;
    forced_out first = forced_room(f, count), second = forced_room(f, count);
    const sb_gates_args args = {.a = a,
                                .b = b,
                                .a_log = &w[SB_ROLE_A_log],
                                .dt_bias = &w[SB_ROLE_dt_bias],
                                .rows = call->count,
                                .heads = heads,
                                .g = first.got,
                                .beta = second.got};
    FORCED_BOUND(f, gates, args, first, &second);
    FORCED_RUN(f, gates, args);
    forced_compare_wide(f, FORCED_gates, "linear_attn.g", &first, g, heads);
    forced_compare(f, FORCED_gates, "linear_attn.beta", &second, beta, heads);
}

/* R-6, for the first row of a sequence: its state is 0, so that o = beta v (q.k) without any delta
 * rule. */
static void check_l2norm(forced *f, const float *conv, const float *beta, const float *want)
{
    const sb_config *c = &f->fixture->model->config;
    size_t dk = c->lin_k_dim, dv = c->lin_v_dim, nK = c->lin_k_heads, nV = c->lin_v_heads;
    const float *v = conv + 2 * nK * dk;
    forced_out q = forced_room(f, nK * dk), k = forced_room(f, nK * dk),
               out = forced_room(f, nV * dv);
    const sb_l2norm_args args = {.qkv = conv,
                                 .rows = 1,
                                 .stride = sb_config_conv_channels(c),
                                 .heads = nK,
                                 .dk = dk,
                                 .eps = 1e-6f,
                                 .q = q.got,
                                 .k = k.got};
    FORCED_BOUND(f, l2norm, args, q, &k);
    FORCED_RUN(f, l2norm, args);
    for (size_t i = 0; i < nV * dv; i++) {
        const sb_arithmetic *ar = &sb_arithmetic_reference;
        size_t head = i / dv, at = head / (nV / nK) * dk;
        sb_ball weighted = sb_ball_mul(ar, sb_ball_of(v[i]), sb_ball_of(beta[head]));
        sb_ball match = sb_ball_dot(ar, q.ours + at, k.ours + at, dk);
        out.ours[i] = sb_ball_act(&f->knobs, sb_ball_mul(ar, weighted, match));
        float product = v[i] * beta[head];
        out.got[i] = sb_act(&f->knobs, product * sb_dot(q.got + at, k.got + at, dk));
    }
    const sb_delta_rule_args rule = {.v = v,
                                     .v_stride = args.stride,
                                     .g = hf_floats(&f->arena, nV),
                                     .beta = beta,
                                     .rows = 1,
                                     .k_heads = nK,
                                     .v_heads = nV,
                                     .dk = dk,
                                     .dv = dv,
                                     .state = hf_floats(&f->arena, nV * dk * dv)};
    forced_status(f, sb_bound_delta_rule_chunk_of(&sb_arithmetic_library, &f->their_knobs, &rule,
                                                  q.theirs, k.theirs, out.theirs, NULL));
    forced_compare(f, FORCED_l2norm, "linear_attn.core_out of row 0", &out, want, nV * dv);
}

/* */
static void check_gated_norm(forced *f, const forced_call *call, const float *core, const float *z,
                             const float *want)
{
    const sb_config *c = &f->fixture->model->config;
    size_t width = sb_config_value_width(c);
    forced_out out = forced_room(f, call->count * width);
    const sb_gated_rmsnorm_args args = {
        .in = core,
        .z = z,
        .eps = c->eps_f32,
        .rows = call->count,
        .weight = &forced_layer(f, f->fixture->gdn)->w[SB_ROLE_linear_norm],
        .heads = c->lin_v_heads,
        .n = c->lin_v_dim,
        .out = out.got};
    FORCED_BOUND(f, gated_rmsnorm, args, out, NULL);
    FORCED_RUN(f, gated_rmsnorm, args);
    forced_compare(f, FORCED_gated_rmsnorm, "linear_attn.norm", &out, want, width);
}

void forced_check_gdn(forced *f, const forced_call *call)
{
    static const char *const taps[] = {
        "input_layernorm",       "linear_attn.in_proj_qkv", "linear_attn.in_proj_z",
        "linear_attn.in_proj_b", "linear_attn.in_proj_a",   "linear_attn.conv",
        "linear_attn.g",         "linear_attn.beta",        "linear_attn.core_out",
        "linear_attn.norm",      "linear_attn.out_proj"};
    const sb_matrix *w = forced_layer(f, f->fixture->gdn)->w;
    size_t rows = call->count, n = call->length;
    float *v[11];
    for (size_t i = 0; i < 11; i++) {
        v[i] = forced_values(f, FORCED_delta_rule, n, f->fixture->gdn, taps[i]);
        if (!v[i])
            return;
    }
    const float *y = v[0], *u = v[1], *z = v[2], *b = v[3], *a = v[4], *conv = v[5];
    size_t channels = sb_config_conv_channels(&f->fixture->model->config);
    forced_linear(f, taps[1], &w[SB_ROLE_in_proj_qkv], y, rows, forced_rows(f, u, channels, call));
    forced_linear(f, taps[2], &w[SB_ROLE_in_proj_z], y, rows, z);
    forced_linear(f, taps[3], &w[SB_ROLE_in_proj_b], y, rows, b);
    forced_linear(f, taps[4], &w[SB_ROLE_in_proj_a], y, rows, a);
    check_conv(f, call, u, conv, 0);
    check_conv(f, call, u, conv, n / 2);
    check_conv(f, call, u, conv, n - 1);
    check_gates(f, call, a, b, v[6], v[7]);
    check_l2norm(f, conv, v[7], v[8]);
    check_gated_norm(f, call, v[8], z, v[9]);
    forced_linear(f, taps[10], &w[SB_ROLE_linear_out_proj], v[9], rows, v[10]);
}
