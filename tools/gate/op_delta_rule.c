/* op_delta_rule.c - the gated delta rule: row by row with the state behind each, and at any length.
 */
#include "tools/gate/delta.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/compare/bound.h"
#include "tools/gate/whole.h"

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

static sb_status expect(sb_gate_case *c)
{
    const sb_gate_delta s = sb_gate_delta_of(c);
    const uint64_t out[] = {s.rows, s.v_heads, s.dv}, state[] = {s.v_heads, s.dk, s.dv},
                   states[] = {s.rows, s.v_heads, s.dk, s.dv};
    sb_status status = sb_gate_expect(c, "", SB_GATE_VALUES, "row,head,value", 3, out);
    if (!status)
        status = sb_gate_expect(c, "state", SB_GATE_VALUES, "head,key,value", 3, state);
    if (!status && has_states(c))
        status = sb_gate_expect(c, "states", SB_GATE_VALUES, "row,head,key,value", 4, states);
    return status;
}

static sb_status make(sb_gate_case *c, sb_error *err)
{
    sb_status status = sb_gate_delta_make(c, err);
    return status ? status : expect(c);
}

static sb_status declare(sb_gate_case *c, sb_error *err)
{
    sb_status status = sb_gate_delta_need(c, err);
    return status ? status : expect(c);
}

/* V-142: "recurrent at every length" */
static sb_status exact(const sb_gate_case *c, const sb_knobs *knobs, const sb_op_table *ops,
                       float *const out[])
{
    sb_gate_delta_inputs in;
    sb_status status = sb_gate_delta_open(c, knobs, ops, &in);
    if (status)
        return status;
    in.args.out = out[0];
    in.args.trail = has_states(c) ? out[2] : NULL;
    status = ops->delta_rule(knobs, &in.args);
    memcpy(out[1], in.args.state, c->output[1].count * sizeof *out[1]);
    sb_gate_delta_close(&in);
    return status;
}

/* Row t of one head, S (dk, dv): R-9 without a rounding. */
static void step(const sb_gate_delta *s, const sb_gate_delta_real *r, size_t t, size_t h, sb_dd *S,
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

static sb_status real(const sb_gate_case *c, sb_dd *const out[])
{
    const sb_gate_delta s = sb_gate_delta_of(c);
    size_t size = s.dk * s.dv;
    sb_gate_delta_real r;
    sb_status status = sb_gate_delta_real_open(c, &r);
    if (status)
        return status;
    for (size_t h = 0; h < s.v_heads; h++) {
        sb_dd *S = out[1] + h * size;
        for (size_t i = 0; i < size; i++)
            S[i] = sb_dd_of((double)r.state[h * size + i]);
        for (size_t t = 0; t < s.rows; t++) {
            step(&s, &r, t, h, S, out[0]);
            if (has_states(c))
                memcpy(out[2] + (t * s.v_heads + h) * size, S, size * sizeof *S);
        }
    }
    sb_gate_delta_real_close(&r);
    return SB_OK;
}

/* T-12, once for each number of rows: the state behind each of them. */
static sb_status bound_rows(const sb_gate_arith *ar, const sb_gate_delta *s,
                            const sb_gate_delta_inputs *in, sb_ball *const out[])
{
    size_t size = s->v_heads * s->dk * s->dv;
    sb_delta_rule_args args = in->args;
    sb_status status = SB_OK;
    for (size_t rows = 1; rows <= s->rows && !status; rows++) {
        args.rows = rows;
        status = sb_bound_delta_rule_of(ar->ar, &ar->knobs, &args, in->q_balls, in->k_balls, out[0],
                                        out[2] + (rows - 1) * size);
    }
    if (!status)
        memcpy(out[1], out[2] + (s->rows - 1) * size, size * sizeof *out[1]);
    return status;
}

/* V-143: "either form in binary32 inside" - and under an activation type also R-22. */
static sb_status bound_any(const sb_gate_case *c, const sb_gate_arith *ar,
                           const sb_gate_delta_inputs *in, sb_ball *const out[])
{
    size_t count = c->output[0].count, size = c->output[1].count;
    sb_knobs plain = sb_gate_unrounded(&ar->knobs), fla = ar->knobs;
    plain.value[SB_KNOB_delta_rule] = SB_delta_rule_recurrent;
    fla.value[SB_KNOB_delta_rule] = SB_delta_rule_chunk_fla;
    const sb_delta_side side = {
        .ar = ar->ar, .q = in->q_balls, .k = in->k_balls, .out = out[0], .state = out[1]};
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

static sb_status bound(const sb_gate_case *c, const sb_gate_arith *ar, sb_ball *const out[])
{
    const sb_gate_delta s = sb_gate_delta_of(c);
    sb_gate_delta_inputs in;
    sb_status status = sb_gate_delta_balls(c, ar, &in);
    if (status)
        return status;
    status = has_states(c) ? bound_rows(ar, &s, &in, out) : bound_any(c, ar, &in, out);
    sb_gate_delta_close(&in);
    return status;
}

#define COMMON                                                                                     \
    .clause = "R-9", .param_count = SB_GATE_DELTA_PARAMS, .not_regimes = "subnormal padding",      \
    .uses = uses, .use_count = sizeof uses / sizeof *uses, .make = make, .declare = declare,       \
    .exact = exact, .real = real, .bound = bound, .row_arrays = "q,k,v,g,beta",                    \
    .state_input = "initial_state", .state_output = "state"

const sb_gate_op *sb_gate_op_delta_rule(void)
{
    static const sb_gate_param params[] = {{"rows", 3, 1, 64, "tokens, with the state behind each"},
                                           SB_GATE_DELTA_REST};
    static const sb_gate_op op = {.name = "delta_rule",
                                  .what = "the gated delta rule row by row, with all states",
                                  .params = params,
                                  .shapes = row_shapes,
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
                                  COMMON};
    return &op;
}
