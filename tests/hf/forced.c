#include "tests/hf/forced.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const uint32_t rows_of_3[] = {0, 1, 2}, rows_of_65[] = {0, 62, 63, 64};
const forced_call forced_calls[2] = {{3, 3, rows_of_3}, {65, 4, rows_of_65}};

static const char *const names[] = {
#define SB_OP(name, clause) #name,
#include "ref/ops/ops.def"
#undef SB_OP
};

const char *forced_op_name(forced_op op)
{
    return names[op];
}

int forced_applies(const forced *f, forced_op op)
{
    const sb_config *c = &f->fixture->model->config;
    switch (op) {
    case FORCED_router:
    case FORCED_moe_combine:
        return c->experts > 0;
    case FORCED_split_gate:
    case FORCED_attn_gate:
        return c->attn_output_gate;
    case FORCED_conv:
    case FORCED_gates:
    case FORCED_l2norm:
    case FORCED_delta_rule:
    case FORCED_delta_rule_chunk:
    case FORCED_gated_rmsnorm:
        return forced_linear_attention(f);
    default:
        return 1;
    }
}

int forced_passed(const forced *f, forced_op op)
{
    const forced_row *row = &f->rows[op];
    return !f->status && row->checks > 0 && row->mistrusted == 0 && row->apart <= 1.0;
}

void forced_status(forced *f, sb_status status)
{
    if (!f->status)
        f->status = status;
}

static void note(forced_row *row, const char *format, va_list args)
{
    if (!row->first[0])
        vsnprintf(row->first, sizeof row->first, format, args);
}

void hf_forced_fail(forced *f, forced_op op, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    note(&f->rows[op], format, args);
    va_end(args);
    f->rows[op].apart = INFINITY;
}

static void mistrust(forced *f, forced_op op, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    note(&f->rows[op], format, args);
    va_end(args);
    f->rows[op].mistrusted++;
}

forced_out forced_room(forced *f, size_t count)
{
    return (forced_out){.got = hf_floats(&f->arena, count),
                        .ours = hf_alloc(&f->arena, count, sizeof(sb_ball)),
                        .theirs = hf_alloc(&f->arena, count, sizeof(sb_ball)),
                        .count = count};
}

const sb_tensor *forced_tensor(forced *f, forced_op op, size_t length, unsigned layer,
                               const char *tap)
{
    const sb_tensor *tensor = hf_find(f->fixture, "op.%zu.%u.%s", length, layer, tap);
    if (!tensor)
        hf_forced_fail(f, op, "%s has no op.%zu.%u.%s", f->fixture->name, length, layer, tap);
    return tensor;
}

float *forced_values(forced *f, forced_op op, size_t length, unsigned layer, const char *tap)
{
    const sb_tensor *tensor = forced_tensor(f, op, length, layer, tap);
    return tensor ? hf_values(&f->arena, tensor) : NULL;
}

float *forced_rows(forced *f, const float *values, size_t size, const forced_call *call)
{
    float *chosen = hf_floats(&f->arena, call->count * size);
    for (size_t i = 0; i < call->count; i++)
        memcpy(chosen + i * size, values + call->at[i] * size, size * sizeof *chosen);
    return chosen;
}

/* An error in units of its bound. With a bound of 0 it is infinite, unless the error is 0. NaN
 * counts as outside. */
static double ratio(double error, double bound)
{
    if (error == 0.0)
        return 0.0;
    return error > 0.0 && bound > 0.0 ? error / bound : INFINITY;
}

static double outside(float x, sb_ball ball)
{
    return ratio(fabs((double)x - ball.mid), ball.rad * SB_BOUND_SLACK);
}

static void compare_one(forced *f, forced_op op, const char *tap, const forced_out *out, size_t i,
                        float want, size_t size)
{
    forced_row *row = &f->rows[op];
    float got = out->got[i];
    double bound = SB_BOUND_SLACK * sb_ball_distance(out->ours[i], out->theirs[i]);
    double apart = ratio(fabs((double)got - (double)want), bound);
    row->open += bound > 0.0;
    row->ours = fmax(row->ours, outside(got, out->ours[i]));
    row->theirs = fmax(row->theirs, outside(want, out->theirs[i]));
    if (apart > 1.0)
        hf_forced_fail(f, op, "%s: row %zu, column %zu is %.9g, recorded %.9g, bound %.3g", tap,
                       i / size, i % size, (double)got, (double)want, bound);
    row->apart = fmax(row->apart, apart);
}

static size_t compare_all(forced *f, forced_op op, const char *tap, const forced_out *out,
                          const float *want, size_t size)
{
    size_t nonzero = 0, distinct = 0, identical = 0;
    for (size_t i = 0; i < out->count; i++) {
        compare_one(f, op, tap, out, i, want[i], size);
        identical += out->got[i] == want[i]; /* zeros of both signs are the same value */
        nonzero += want[i] != 0.0f;
        distinct += want[i] != want[0];
    }
    f->rows[op].checks++;
    if (out->count == 0 || nonzero == 0 || (out->count > 1 && distinct == 0))
        mistrust(f, op, "%s: mistrusted, %zu elements, %zu of them not zero", tap, out->count,
                 nonzero);
    return identical;
}

void forced_compare(forced *f, forced_op op, const char *tap, const forced_out *out,
                    const float *want, size_t size)
{
    f->rows[op].identical += compare_all(f, op, tap, out, want, size);
    f->rows[op].compared += out->count;
}

void forced_compare_wide(forced *f, forced_op op, const char *tap, const forced_out *out,
                         const float *want, size_t size)
{
    f->rows[op].wide_identical += compare_all(f, op, tap, out, want, size);
    f->rows[op].wide_compared += out->count;
}

void forced_linear(forced *f, const char *tap, const sb_matrix *weight, const float *in,
                   size_t rows, const float *want)
{
    forced_out out = forced_room(f, rows * weight->rows);
    if (!in || !want)
        return;
    const sb_linear_args args = {.weight = weight, .in = in, .rows = rows, .out = out.got};
    FORCED_BOUND(f, linear, args, out, NULL);
    FORCED_RUN(f, linear, args);
    forced_compare(f, FORCED_linear, tap, &out, want, weight->rows);
}

void forced_rmsnorm(forced *f, const char *tap, const sb_matrix *weight, const float *in,
                    size_t rows, const float *want)
{
    size_t n = weight->cols;
    forced_out out = forced_room(f, rows * n);
    if (!in || !want)
        return;
    const sb_rmsnorm_args args = {.in = in,
                                  .weight = weight,
                                  .rows = rows,
                                  .n = n,
                                  .out = out.got,
                                  .plain = f->fixture->model->config.plain_norms,
                                  .eps = f->fixture->model->config.eps_f32};
    FORCED_BOUND(f, rmsnorm, args, out, NULL);
    FORCED_RUN(f, rmsnorm, args);
    forced_compare(f, FORCED_rmsnorm, tap, &out, want, n);
}

void forced_add(forced *f, const char *tap, const float *a, const float *b, size_t count,
                const float *want)
{
    forced_out out = forced_room(f, count);
    if (!a || !b || !want)
        return;
    const sb_add_args args = {.a = a, .b = b, .count = count, .out = out.got};
    FORCED_BOUND(f, add, args, out, NULL);
    FORCED_RUN(f, add, args);
    forced_compare(f, FORCED_add, tap, &out, want, f->fixture->model->config.hidden_size);
}

/* Sets f->status if a profile does not exist. */
static void set_knobs(forced *f)
{
    sb_knobs_exact(&f->knobs);
    forced_status(f, sb_knobs_profile(&f->their_knobs, "hf", NULL));
    if (f->fixture->bf16)
        f->knobs = f->their_knobs;
    else
        forced_status(f, sb_knobs_set(&f->their_knobs, "act=f32", NULL));
}

void hf_forced_run(forced *f, const hf_fixture *fixture, const sb_op_table *ops)
{
    *f = (forced){.fixture = fixture, .ops = ops};
    set_knobs(f);
    for (size_t i = 0; i < 2; i++) {
        const forced_call *call = &forced_calls[i];
        if (forced_linear_attention(f)) {
            forced_check_gdn(f, call);
            forced_check_block(f, call, fixture->gdn);
        }
        forced_check_attention(f, call);
        forced_check_mlp(f, call);
        if (fixture->attention != fixture->gdn)
            forced_check_block(f, call, fixture->attention);
    }
    if (forced_linear_attention(f))
        forced_check_heads(f);
    forced_check_logits(f);
    hf_release(&f->arena);
}
