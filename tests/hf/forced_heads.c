/* forced_heads.c - the delta rule: all heads of a short prompt, and one head with its states. */
#include "ref/fast/fast.h"
#include "tests/hf/forced.h"

#include <stdio.h>
#include <string.h>

/* One recorded call of the rule. */
typedef struct rule {
    const char *call;             /* "op.65.0" */
    const float *qkv;             /* (rows, stride) after the convolution */
    const float *state;           /* (nV, dk, dv), the initial state */
    const float *out, *state_out; /* recorded; state_out may be NULL */
    sb_delta_rule_args args;
    int steps; /* whether transformers ran its recurrent form */
} rule;

/* q and k normalised by the reference, and their balls. */
static void normalise(forced *f, const rule *r, forced_out *q, forced_out *k)
{
    const sb_delta_rule_args *a = &r->args;
    size_t count = a->rows * a->k_heads * a->dk;
    *q = forced_room(f, count);
    *k = forced_room(f, count);
    const sb_l2norm_args args = {.qkv = r->qkv,
                                 .rows = a->rows,
                                 .stride = a->v_stride,
                                 .heads = a->k_heads,
                                 .dk = a->dk,
                                 .eps = 1e-6f,
                                 .recurrent = r->steps,
                                 .q = q->got,
                                 .k = k->got};
    FORCED_BOUND(f, l2norm, args, *q, k);
    forced_status(f, sb_l2norm_fast(&f->knobs, &args));
}

/* Runs one form of our rule on one recorded call. */
static void check_form(forced *f, const rule *r, int chunked)
{
    const sb_delta_rule_args *a = &r->args;
    size_t size = a->v_heads * a->dk * a->dv, width = a->v_heads * a->dv;
    forced_op op = chunked ? FORCED_delta_rule_chunk : FORCED_delta_rule;
    forced_out q, k, out = forced_room(f, a->rows * width), state = forced_room(f, size);
    char tap[80];
    normalise(f, r, &q, &k);
    memcpy(state.got, r->state, size * sizeof *r->state);
    sb_delta_rule_args args = *a;
    args.q = q.got;
    args.k = k.got;
    args.state = state.got;
    args.out = out.got;
    forced_status(f, (chunked ? sb_bound_delta_rule_chunk_of
                              : sb_bound_delta_rule_of)(&sb_arithmetic_reference, &f->knobs, &args,
                                                        q.ours, k.ours, out.ours, state.ours));
    forced_status(f, (r->steps ? sb_bound_delta_rule_of : sb_bound_delta_rule_chunk_of)(
                         &sb_arithmetic_library, &f->their_knobs, &args, q.theirs, k.theirs,
                         out.theirs, state.theirs));
    forced_status(f, (chunked ? f->ops->delta_rule_chunk : f->ops->delta_rule)(&f->knobs, &args));
    snprintf(tap, sizeof tap, "%s.core_out", r->call);
    forced_compare(f, op, tap, &out, r->out, width);
    snprintf(tap, sizeof tap, "%s.state_out", r->call);
    if (r->state_out)
        forced_compare_wide(f, op, tap, &state, r->state_out, a->dv);
}

/* Profile exact is recurrent at every length. Profile hf uses the form that transformers uses
 * (K-15). The chunk form is compared if transformers used chunks. */
static void check_rule(forced *f, const rule *r)
{
    if (!f->fixture->bf16 || r->steps)
        check_form(f, r, 0);
    if (!r->steps)
        check_form(f, r, 1);
}

/* All heads of the prompt of three tokens, for which every row is recorded. */
static void check_all_heads(forced *f)
{
    const sb_config *c = &f->fixture->model->config;
    unsigned layer = f->fixture->gdn;
    size_t dk = c->lin_k_dim, dv = c->lin_v_dim, nK = c->lin_k_heads, nV = c->lin_v_heads;
    const float *conv = forced_values(f, FORCED_delta_rule, 3, layer, "linear_attn.conv");
    const float *g = forced_values(f, FORCED_delta_rule, 3, layer, "linear_attn.g");
    const float *beta = forced_values(f, FORCED_delta_rule, 3, layer, "linear_attn.beta");
    const float *out = forced_values(f, FORCED_delta_rule, 3, layer, "linear_attn.core_out");
    if (!conv || !g || !beta || !out)
        return;
    rule r = {.call = "op.3 all heads",
              .qkv = conv,
              .out = out,
              .state = hf_floats(&f->arena, nV * dk * dv),
              .args = {.v = conv + 2 * nK * dk,
                       .v_stride = sb_config_conv_channels(c),
                       .g = g,
                       .beta = beta,
                       .rows = 3,
                       .k_heads = nK,
                       .v_heads = nV,
                       .dk = dk,
                       .dv = dv}};
    check_rule(f, &r);
}

/* The queries, keys and values of one head in the layout of the convolution's output. */
static const float *lay_out(forced *f, const float *const part[3], size_t rows, size_t dk,
                            size_t dv)
{
    size_t stride = 2 * dk + dv;
    float *qkv = hf_floats(&f->arena, rows * stride);
    for (size_t t = 0; t < rows; t++) {
        memcpy(qkv + t * stride, part[0] + t * dk, dk * sizeof *qkv);
        memcpy(qkv + t * stride + dk, part[1] + t * dk, dk * sizeof *qkv);
        memcpy(qkv + t * stride + 2 * dk, part[2] + t * dv, dv * sizeof *qkv);
    }
    return qkv;
}

/* One head with its states, in one recorded call. */
static void check_head(forced *f, const char *call, int steps)
{
    static const char *const taps[] = {"q",    "k",        "v",         "g",
                                       "beta", "core_out", "state_out", "state_in"};
    const sb_config *c = &f->fixture->model->config;
    size_t dk = c->lin_k_dim, dv = c->lin_v_dim, rows = 0;
    float *v[8] = {NULL};
    for (size_t i = 0; i < 8; i++) {
        const sb_tensor *tensor =
            hf_find(f->fixture, "%s.%u.linear_attn.head.%s", call, f->fixture->gdn, taps[i]);
        if (tensor)
            v[i] = hf_values(&f->arena, tensor);
        else if (i < 7)
            hf_forced_fail(f, FORCED_delta_rule, "%s has no %s of %s", f->fixture->name, taps[i],
                           call);
        if (!tensor && i < 7)
            return;
        if (i == 0)
            rows = hf_rows(tensor);
    }
    const float *const part[3] = {v[0], v[1], v[2]}, *qkv = lay_out(f, part, rows, dk, dv);
    rule r = {.call = call,
              .qkv = qkv,
              .out = v[5],
              .state_out = v[6],
              .steps = steps,
              .state = v[7] ? v[7] : hf_floats(&f->arena, dk * dv),
              .args = {.v = qkv + 2 * dk,
                       .v_stride = 2 * dk + dv,
                       .g = v[3],
                       .beta = v[4],
                       .rows = rows,
                       .k_heads = 1,
                       .v_heads = 1,
                       .dk = dk,
                       .dv = dv}};
    check_rule(f, &r);
}

void forced_check_heads(forced *f)
{
    check_all_heads(f);
    check_head(f, "op.3", 0);
    check_head(f, "op.65", 0);
    check_head(f, "warm4", 0);
    check_head(f, "step1", 1);
}
