/* forced_twin.c - bounds of an op with a mistake.
 *
 * T-99: "On copies of the arrays the mistake runs three times": with the ops of the reference below
 * it, and with ops that write the lower, and then the upper ends of their balls. */
#include "tools/judge/compare/forced_twin.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/root.h"
#include "ref/ops/args.h"
#include "ref/ops/knob.h"
#include "tools/judge/bound/wide_fn.h"

enum { RULES = 2 }; /* delta rules below one mistake: the right one and the wrong one */

/* The state that a delta rule below the mistake left. */
typedef struct rule {
    sb_ball *state; /* (size) */
    double *column;
} rule;

typedef struct twin_run {
    sb_forced *f;
    const sb_op_call *call; /* as the session makes it */
    int upper;
    rule rules[RULES];
    size_t rule_count;
} twin_run;

/* The run on this thread: the ops of a table have no context pointer. */
static _Thread_local twin_run *running;

/* T-99: "the lower or the upper ends of its balls", "rounded outwards to binary32" */
static float end_of(sb_ball ball, int upper)
{
    double x = upper ? ball.mid + ball.rad : ball.mid - ball.rad;
    float near = (float)x;
    if (upper ? (double)near >= x : (double)near <= x)
        return near;
    uint32_t bits = sb_bits_f32(near);
    if ((bits & 0x7fffffffU) == 0)
        return upper ? 0x1p-149f : -0x1p-149f;
    return sb_f32_from_bits(upper == (near > 0.0f) ? bits + 1 : bits - 1);
}

static void write_ends(const sb_ball *balls, size_t count, int upper, float *to)
{
    for (size_t i = 0; i < count; i++)
        to[i] = end_of(balls[i], upper);
}

static int is_delta_rule(sb_op op)
{
    return op == SB_OP_delta_rule || op == SB_OP_delta_rule_chunk;
}

/* Balls of the values after a delta rule on exact inputs, and of its state. */
static sb_status bound_rule(const twin_run *run, const sb_op_call *call, sb_ball *out, rule *left)
{
    const sb_delta_rule_args *a = call->args;
    const size_t keys = a->rows * a->k_heads * a->dk, columns = a->v_heads * a->dv;
    sb_ball *q = sb_alloc(2 * keys, sizeof *q);
    left->state = sb_alloc(columns * a->dk, sizeof *left->state);
    left->column = sb_alloc(columns, sizeof *left->column);
    sb_status status = q && left->state && left->column ? SB_OK : SB_ERR_MEMORY;
    if (!status) {
        sb_balls_of(a->q, keys, q);
        sb_balls_of(a->k, keys, q + keys);
        sb_delta_side side = {.ar = run->f->options.arithmetic,
                              .q = q,
                              .k = q + keys,
                              .out = out,
                              .state = left->state,
                              .column = left->column};
        status = forced_bound_rule(run->f, call, &side);
    }
    free(q);
    return status;
}

/* Balls of the outputs, before the op runs. */
static sb_status bound_below(twin_run *run, const sb_op_call *call, sb_ball *balls[2])
{
    const sb_ball *const exact[SB_OP_INPUTS] = {NULL};
    const sb_arithmetic *ar = run->f->options.arithmetic;
    if (!is_delta_rule(call->op))
        return forced_bound_op(ar, call, exact, balls[0], balls[1]);
    if (run->rule_count == RULES)
        return SB_ERR_UNSUPPORTED;
    return bound_rule(run, call, balls[0], &run->rules[run->rule_count++]);
}

/* Runs an op below the mistake, and puts the ends of its balls in the place of its results. */
static sb_status run_below(sb_op op, const sb_knobs *knobs, const void *args)
{
    twin_run *run = running;
    sb_op_call call = *run->call;
    const sb_op_values v = sb_op_values_of(op, args);
    sb_ball *balls[2] = {NULL, NULL};
    sb_status status = SB_OK;
    call.op = op;
    call.knobs = knobs;
    call.args = args;
    for (size_t i = 0; i < v.outputs && !status; i++) {
        balls[i] = sb_alloc(v.out[i].rows * v.out[i].cols, sizeof *balls[i]);
        status = balls[i] ? SB_OK : SB_ERR_MEMORY;
    }
    const size_t rules = run->rule_count;
    if (!status)
        status = bound_below(run, &call, balls);
    if (!status)
        status = sb_op_run(&call);
    for (size_t i = 0; i < v.outputs && !status; i++)
        write_ends(balls[i], v.out[i].rows * v.out[i].cols, run->upper, v.out[i].data);
    if (!status && run->rule_count > rules)
        write_ends(run->rules[rules].state, v.state.rows * v.state.cols, run->upper, v.state.data);
    free(balls[0]);
    free(balls[1]);
    return status;
}

#define SB_OP(name, clause)                                                                        \
    static sb_status below_##name(const sb_knobs *knobs, const sb_##name##_args *args)             \
    {                                                                                              \
        return run_below(SB_OP_##name, knobs, args);                                               \
    }
#include "ref/ops/ops.def"
#undef SB_OP

static const sb_op_table below = {
#define SB_OP(name, clause) .name = below_##name,
#include "ref/ops/ops.def"
#undef SB_OP
};

/* --- copies of what an op writes -------------------------------------------------------------- */

typedef struct copy {
    sb_any_args args;
    float *out[2], *state;
} copy;

static void copy_free(copy *c)
{
    free(c->out[0]);
    free(c->out[1]);
    free(c->state);
}

/* The member that points to `data`. */
static float **member_of(sb_op op, sb_any_args *args, const float *data, int state)
{
    const sb_arg_list list = sb_args_of(op);
    for (size_t i = 0; i < list.count; i++) {
        const sb_arg *arg = &list.args[i];
        const int fits = state ? arg->kind == SB_ARG_state
                               : arg->kind == SB_ARG_output || arg->kind == SB_ARG_second ||
                                     arg->kind == SB_ARG_inplace;
        float **at = fits ? sb_arg_at(args, arg) : NULL;
        if (at && *at == data)
            return at;
    }
    return NULL;
}

static sb_status copy_one(sb_op op, copy *c, const sb_op_value *v, int state, float **own)
{
    float **at = member_of(op, &c->args, v->data, state);
    *own = at ? sb_alloc(v->rows * v->cols, sizeof **own) : NULL;
    if (!*own)
        return at ? SB_ERR_MEMORY : SB_ERR_UNSUPPORTED;
    memcpy(*own, v->data, v->rows * v->cols * sizeof **own);
    *at = *own;
    return SB_OK;
}

/* Arguments with copies of all arrays that the op writes, without the states after each row. */
static sb_status copy_args(const sb_op_call *call, const void *args, copy *c)
{
    const sb_op_values v = sb_op_values_of(call->op, args);
    const sb_arg *trail = sb_arg_find(call->op, "trail");
    sb_status status = SB_OK;
    *c = (copy){.state = NULL};
    sb_args_copy(call->op, args, &c->args);
    for (size_t i = 0; i < v.outputs && !status; i++)
        status = copy_one(call->op, c, &v.out[i], 0, &c->out[i]);
    if (!status && v.state.data)
        status = copy_one(call->op, c, &v.state, 1, &c->state);
    if (trail)
        *(float **)sb_arg_at(&c->args, trail) = NULL;
    return status;
}

/* --- three runs ------------------------------------------------------------------------------- */

enum { LOWER, UPPER, OURS, RUNS };

typedef struct runs {
    copy of[RUNS];
    twin_run upper;
} runs;

static void run_clear(twin_run *run)
{
    for (size_t i = 0; i < RULES; i++) {
        free(run->rules[i].state);
        free(run->rules[i].column);
    }
    run->rule_count = 0;
}

static void runs_free(runs *r)
{
    for (size_t i = 0; i < RUNS; i++)
        copy_free(&r->of[i]);
    run_clear(&r->upper);
}

static sb_status run_ends(sb_forced *f, const sb_op_call *call, int which, twin_run *run)
{
    sb_op_call changed = *call;
    *run = (twin_run){.f = f, .call = call, .upper = which == UPPER};
    changed.table = &below;
    running = run;
    sb_mistakes_run_on(&below);
    sb_status status = sb_sited_again(f->options.twin, (size_t)which, &changed);
    sb_mistakes_run_on(NULL);
    running = NULL;
    return status;
}

static sb_status run_all(sb_forced *f, const sb_op_call *call, const void *args, runs *r)
{
    sb_status status = SB_OK;
    twin_run lower = {.rule_count = 0};
    for (int i = 0; i < RUNS && !status; i++) {
        sb_op_call changed = *call;
        status = copy_args(call, args, &r->of[i]);
        changed.args = &r->of[i].args;
        if (!status && i == OURS)
            status = sb_sited_again(f->options.twin, OURS, &changed);
        else if (!status)
            status = run_ends(f, &changed, i, i == UPPER ? &r->upper : &lower);
    }
    run_clear(&lower);
    return status;
}

/* T-99: "The largest distance of that range from the expected value" */
static double apart(const float *lower, const float *upper, const float *ours, size_t i)
{
    const double x = (double)ours[i];
    return sb_wide_max(sb_wide_abs((double)lower[i] - x), sb_wide_abs((double)upper[i] - x));
}

static sb_ball between(float a, float b)
{
    const double lower = (double)(a < b ? a : b), upper = (double)(a < b ? b : a);
    const double mid = (lower + upper) / 2;
    return (sb_ball){mid, sb_wide_max(upper - mid, mid - lower)};
}

/* --- what the engine's state may differ by ---------------------------------------------------- */

/* The delta rule below the mistake that left this column of the upper run as it is; else NULL. */
static const rule *rule_of(const runs *r, const sb_delta_rule_args *a, size_t head, size_t j)
{
    for (size_t n = 0; n < r->upper.rule_count; n++) {
        const rule *one = &r->upper.rules[n];
        int same = 1;
        for (size_t i = 0; i < a->dk && same; i++) {
            const size_t e = (head * a->dk + i) * a->dv + j;
            same = sb_bits_f32(end_of(one->state[e], 1)) == sb_bits_f32(r->of[UPPER].state[e]);
        }
        if (same)
            return one;
    }
    return NULL;
}

/* T-23 for a mistake: the bounds of each element and of the norm of each column. */
static void carry(forced_memory *m, const sb_op_call *call, const runs *r)
{
    const sb_delta_rule_args *a = call->args;
    double bounds = 0.0, values = 0.0;
    for (size_t h = 0; h < a->v_heads; h++)
        for (size_t j = 0; j < a->dv; j++) {
            const rule *from = rule_of(r, a, h, j);
            double squares = 0.0, centres = 0.0;
            for (size_t i = 0; i < a->dk; i++) {
                const size_t e = (h * a->dk + i) * a->dv + j;
                const double ours = (double)r->of[OURS].state[e];
                const double one = SB_BOUND_SLACK * apart(r->of[LOWER].state, r->of[UPPER].state,
                                                          r->of[OURS].state, e);
                const double off = from ? from->state[e].mid - ours : 0.0;
                m->element[e] = one;
                squares += one * one;
                centres += off * off;
                values += ours * ours;
            }
            const double norm = sb_sqrt64(squares);
            m->column[h * a->dv + j] =
                from && !SB_IS(call->knobs, delta_state, act)
                    ? SB_BOUND_SLACK * (from->column[h * a->dv + j] + sb_sqrt64(centres))
                    : norm;
            bounds += squares;
        }
    m->state_wide = !(bounds <= values);
    m->form = call->op;
}

/* Runs a verify again for the kept rows, and carries the state after them. */
static sb_status carry_kept(sb_forced *f, const sb_op_call *call)
{
    sb_delta_rule_args args = *(const sb_delta_rule_args *)call->args;
    sb_op_call changed = *call;
    runs r = {.upper = {.rule_count = 0}};
    args.rows = changed.rows = f->kept;
    changed.args = &args;
    sb_status status = run_all(f, &changed, &args, &r);
    if (!status)
        carry(forced_memory_of(f, call->layer), &changed, &r);
    runs_free(&r);
    return status;
}

/* --- the balls -------------------------------------------------------------------------------- */

int forced_twin_acts(const sb_forced *f, const sb_op_call *call)
{
    return f->options.twin && sb_sited_acts(f->options.twin, call);
}

sb_status forced_twin_balls(sb_forced *f, const sb_op_call *call, sb_ball *balls[4])
{
    const sb_op_values v = sb_op_values_of(call->op, call->args);
    runs r = {.upper = {.rule_count = 0}};
    sb_status status = run_all(f, call, call->args, &r);
    for (size_t i = 0; i < v.outputs && !status; i++) {
        const size_t count = v.out[i].rows * v.out[i].cols;
        for (size_t e = 0; e < count; e++) {
            balls[i][e] = sb_ball_of(r.of[OURS].out[i][e]);
            balls[i + 2][e] = between(r.of[LOWER].out[i][e], r.of[UPPER].out[i][e]);
        }
    }
    if (!status && is_delta_rule(call->op)) {
        const size_t rows = ((const sb_delta_rule_args *)call->args)->rows;
        if (f->kept >= rows)
            carry(forced_memory_of(f, call->layer), call, &r);
        else if (f->kept > 0)
            status = carry_kept(f, call);
    }
    runs_free(&r);
    return status;
}
