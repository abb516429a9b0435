/* op_delta_rule.c - the gated delta rule: row by row with the state after each row, and at any
 * length. */
#include "tools/judge/gate/delta.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/ops/knob.h"
#include "tools/judge/bound/bound.h"
#include "tools/judge/gate/whole.h"

static const char *const row_shapes[] = {"rows=1",
                                         "rows=2",
                                         "rows=4",
                                         "rows=9",
                                         "k_heads=2,v_heads=2",
                                         "k_heads=1,v_heads=3",
                                         "k_heads=4,v_heads=12,dk=16,dv=16",
                                         "dk=128,dv=128,k_heads=1,v_heads=2",
                                         "dk=7,dv=13",
                                         "l2norm=1",
                                         "rows=9,l2norm=1",
                                         "state=0",
                                         NULL};
static const char *const chunk_shapes[] = {"rows=1",
                                           "rows=2",
                                           "rows=15",
                                           "rows=16",
                                           "rows=17",
                                           "rows=31",
                                           "rows=33",
                                           "rows=63",
                                           "rows=64",
                                           "rows=65",
                                           "rows=127",
                                           "rows=128",
                                           "rows=129",
                                           "rows=193",
                                           "rows=70,state=0",
                                           "rows=70,l2norm=1",
                                           "rows=40,k_heads=1,v_heads=3",
                                           "rows=66,dk=7,dv=13",
                                           NULL};
static const sb_op uses[] = {SB_OP_l2norm, SB_OP_delta_rule};

static int has_states(const sb_gate_case *c)
{
    return c->op == sb_gate_op_delta_rule();
}

static sb_gate_list list_rows(const sb_gate_case *c)
{
    const sb_gate_delta s = sb_gate_delta_of(c);
    sb_gate_list all = sb_gate_delta_list(c);
    all.output[2] =
        (sb_gate_member){"states", "row,head,key,value", .shape = {s.rows, s.v_heads, s.dk, s.dv}};
    return all;
}

/* V-142: "recurrent at every length" */
static sb_status exact(const sb_gate_case *c, float *const in[], const sb_knobs *knobs,
                       const sb_op_table *ops, float *const out[])
{
    sb_delta_rule_args args;
    sb_status status = sb_gate_delta_args(c, in, knobs, ops, &args);
    if (status)
        return status;
    args.out = out[0];
    args.trail = has_states(c) ? out[2] : NULL;
    status = ops->delta_rule(knobs, &args);
    memcpy(out[1], args.state, c->output[1].count * sizeof *out[1]);
    return status;
}

/* The inputs of R-9, unrounded after a norm or a factor. */
typedef struct exact_inputs {
    sb_dd *q, *k;
    const float *v, *g, *beta;
} exact_inputs;

/* Row t of one head, S (dk, dv): R-9 without a rounding. */
static void step(const sb_gate_delta *s, const exact_inputs *r, size_t t, size_t h, sb_dd *S,
                 sb_dd *o)
{
    size_t key = (t * s->k_heads + h / (s->v_heads / s->k_heads)) * s->dk, at = t * s->v_heads + h;
    const sb_dd *q = r->q + key, *k = r->k + key;
    sb_dd decay = sb_dd_exp(sb_dd_of((double)r->g[at]));
    for (size_t j = 0; j < s->dv; j++) {
        sb_dd m = sb_dd_of(0.0), read = m;
        for (size_t i = 0; i < s->dk; i++) {
            S[i * s->dv + j] = sb_dd_mul(decay, S[i * s->dv + j]);
            m = sb_dd_fma(m, S[i * s->dv + j], k[i]);
        }
        sb_dd d = sb_dd_sub(sb_dd_of((double)r->v[at * s->dv + j]), m);
        d = sb_dd_mul(d, sb_dd_of((double)r->beta[at]));
        for (size_t i = 0; i < s->dk; i++) {
            S[i * s->dv + j] = sb_dd_fma(S[i * s->dv + j], k[i], d);
            read = sb_dd_fma(read, S[i * s->dv + j], q[i]);
        }
        o[at * s->dv + j] = read;
    }
}

static sb_status real(const sb_gate_case *c, float *const in[], sb_dd *const out[])
{
    const sb_gate_delta s = sb_gate_delta_of(c);
    size_t size = s.dk * s.dv;
    const exact_inputs r = {sb_gate_delta_real(&s, in[SB_GATE_DELTA_q], 1),
                            sb_gate_delta_real(&s, in[SB_GATE_DELTA_k], 0), in[SB_GATE_DELTA_v],
                            in[SB_GATE_DELTA_g], in[SB_GATE_DELTA_beta]};
    const sb_status status = r.q && r.k ? SB_OK : SB_ERR_MEMORY;
    for (size_t h = 0; h < s.v_heads && !status; h++) {
        sb_dd *S = out[1] + h * size;
        for (size_t i = 0; i < size; i++)
            S[i] = sb_dd_of((double)in[SB_GATE_DELTA_state][h * size + i]);
        for (size_t t = 0; t < s.rows; t++) {
            step(&s, &r, t, h, S, out[0]);
            if (has_states(c))
                memcpy(out[2] + (t * s.v_heads + h) * size, S, size * sizeof *S);
        }
    }
    free(r.q);
    free(r.k);
    return status;
}

/* T-12, once for each number of rows, for the state after each row. */
static sb_status bound_rows(const sb_gate_arith *ar, const sb_gate_delta *s,
                            const sb_gate_delta_balls *in, sb_ball *const out[])
{
    size_t size = s->v_heads * s->dk * s->dv;
    sb_delta_rule_args args = in->args;
    sb_status status = SB_OK;
    for (size_t rows = 1; rows <= s->rows && !status; rows++) {
        args.rows = rows;
        status = sb_bound_delta_rule_of(&ar->ar, &ar->knobs, &args, in->q, in->k, out[0],
                                        out[2] + (rows - 1) * size);
    }
    if (!status)
        memcpy(out[1], out[2] + (s->rows - 1) * size, size * sizeof *out[1]);
    return status;
}

/* V-143: "either form in binary32 inside" - and with an activation type also R-22. */
static sb_status bound_any(const sb_gate_case *c, const sb_gate_arith *ar,
                           const sb_gate_delta_balls *in, sb_ball *const out[])
{
    size_t count = c->output[0].count, size = c->output[1].count;
    sb_knobs plain = sb_gate_unrounded(&ar->knobs), fla = ar->knobs;
    plain.value[SB_KNOB_delta_rule] = SB_delta_rule_recurrent;
    fla.value[SB_KNOB_delta_rule] = SB_delta_rule_chunk_fla;
    const sb_delta_side side = {
        .ar = &ar->ar, .q = in->q, .k = in->k, .out = out[0], .state = out[1]};
    sb_status status = sb_bound_delta_rule_any_form(&plain, &in->args, &side);
    for (size_t i = 0; i < count && !status; i++)
        out[0][i] = sb_ball_act(&ar->knobs, out[0][i]);
    if (status || sb_act_format(&ar->knobs) == SB_FORMAT_f32)
        return status;
    sb_ball *more = sb_alloc(count + size, sizeof *more);
    sb_delta_side chunks = side;
    chunks.out = more;
    chunks.state = more ? more + count : NULL;
    status = more ? sb_bound_delta_rule_chunk_side(&fla, &in->args, &chunks) : SB_ERR_MEMORY;
    if (!status) {
        sb_gate_cover(out[0], chunks.out, count, 0);
        sb_gate_cover(out[1], chunks.state, size, 0);
    }
    free(more);
    return status;
}

static sb_status bound(const sb_gate_case *c, float *const in[], const sb_gate_arith *ar,
                       sb_ball *const out[])
{
    const sb_gate_delta s = sb_gate_delta_of(c);
    sb_gate_delta_balls balls;
    sb_status status = sb_gate_delta_balls_of(c, in, ar, &balls);
    if (status)
        return status;
    status = has_states(c) ? bound_rows(ar, &s, &balls, out) : bound_any(c, ar, &balls, out);
    free(balls.q);
    return status;
}

#define COMMON                                                                                     \
    .clause = "R-9", .param_count = SB_GATE_DELTA_PARAMS, .not_regimes = "subnormal padding",      \
    .uses = uses, .use_count = sizeof uses / sizeof *uses, .check = sb_gate_delta_check,           \
    .adapt = sb_gate_delta_adapt, .need = sb_gate_delta_need, .exact = exact, .real = real,        \
    .bound = bound, .row_arrays = "q,k,v,g,beta", .state_input = "initial_state",                  \
    .state_output = "state"

const sb_gate_op *sb_gate_op_delta_rule(void)
{
    static const sb_gate_param params[] = {{"rows", 3, 1, 64, "tokens, with the state after each"},
                                           SB_GATE_DELTA_REST};
    static const sb_gate_op op = {.name = "delta_rule",
                                  .what = "the gated delta rule row by row, with all states",
                                  .params = params,
                                  .shapes = row_shapes,
                                  .list = list_rows,
                                  .cut = 1,
                                  COMMON};
    return &op;
}

const sb_gate_op *sb_gate_op_delta_rule_chunk(void)
{
    static const sb_gate_param params[] = {{"rows", 70, 1, 4096, "tokens of the call"},
                                           SB_GATE_DELTA_REST};
    static const sb_gate_op op = {.name = "delta_rule_chunk",
                                  .what = "the gated delta rule of a prompt, in chunks or not",
                                  .params = params,
                                  .shapes = chunk_shapes,
                                  .list = sb_gate_delta_list,
                                  COMMON};
    return &op;
}
