/* op_sampler.c - section P: from logits to probabilities to a token, with given random numbers. */
#include <stdio.h>
#include <stdlib.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/math/fn.h"
#include "tools/judge/gate/sampler_balls.h"
#include "tools/judge/gate/whole.h"

enum { ROWS, VOCAB };
enum { TOKEN, P };

static const sb_gate_param params[] = {
    {"rows", 8, 1, 4096, "sequences, each with its own settings"},
    {"vocab", 257, 1, 1048576, "tokens, V"},
};

static const char *const shapes[] = {
    "rows=1", "vocab=1", "vocab=2", "vocab=31", "vocab=32", "vocab=1025", "rows=16,vocab=5000",
    NULL};

/* Temperature, top_k, top_p, min_p of the rows, repeated: greedy, plain, the settings recommended
 * by the model cards, and each limit alone. */
static const struct {
    float temperature, top_p, min_p;
    int64_t top_k;
} presets[] = {
    {0.0f, 1.0f, 0.0f, 0},       {1.0f, 1.0f, 0.0f, 0},     {0.6f, 0.95f, 0.0f, 20},
    {0.7f, 0.8f, 0.0f, 20},      {1.0f, 1.0f, 0.05f, 0},    {1.5f, 1.0f, 0.0f, 3},
    {1.0f, 0.5f, 0.0078125f, 0}, {0.25f, 0.99f, 0.25f, 50},
};
enum { PRESETS = sizeof presets / sizeof *presets };

static sb_gate_list list(const sb_gate_case *c)
{
    const uint64_t rows = c->size[ROWS];
    return (sb_gate_list){.output = {[TOKEN] = {"", "row", .shape = {rows}, .choices = 1},
                                     [P] = {"p", "row,token", .shape = {rows, c->size[VOCAB]}}}};
}

/* --- inputs ----------------------------------------------------------------------------------- */

static sb_status add_settings(sb_gate_case *c, size_t rows)
{
    const uint64_t shape[] = {rows};
    float *single = sb_alloc(3 * rows, sizeof *single);
    int64_t *top_k = sb_alloc(rows, sizeof *top_k);
    sb_status status = single && top_k ? SB_OK : SB_ERR_MEMORY;
    for (size_t row = 0; row < rows && !status; row++) {
        single[row] = presets[row % PRESETS].temperature;
        single[rows + row] = presets[row % PRESETS].top_p;
        single[2 * rows + row] = presets[row % PRESETS].min_p;
        top_k[row] = presets[row % PRESETS].top_k;
    }
    if (!status)
        status = sb_gate_add_singles(c, "temperature", "row", 1, shape, single);
    if (!status)
        status = sb_gate_add_whole(c, "top_k", SB_DTYPE_I32, "row", 1, shape, top_k);
    if (!status)
        status = sb_gate_add_singles(c, "top_p", "row", 1, shape, single + rows);
    if (!status)
        status = sb_gate_add_singles(c, "min_p", "row", 1, shape, single + 2 * rows);
    free(single);
    free(top_k);
    return status;
}

/* V-56: "u of P-9 for the seed of the case, the row as sequence, position 0 and word 0" */
static void draw_uniform(const sb_gate_case *c, size_t rows, size_t n, float *u)
{
    for (size_t row = 0; row < rows; row++)
        for (size_t i = 0; i < n; i++) {
            const sb_sampling s = {.seed = c->seed, .sequence = row};
            u[row * n + i] = sb_sample_uniform(&s, (uint32_t)i, 0, SB_DRAW_token);
        }
}

static sb_status add(sb_gate_case *c, sb_error *err)
{
    (void)err;
    const size_t rows = c->size[ROWS], n = c->size[VOCAB];
    const uint64_t full[] = {rows, n};
    float *values = sb_alloc(rows * n, 2 * sizeof *values);
    if (!values)
        return SB_ERR_MEMORY;
    sb_gate_draw(c, "logits", SB_GATE_LOGIT, rows, n, values);
    draw_uniform(c, rows, n, values + rows * n);
    sb_status status = sb_gate_add_values(c, "logits", "row,token", 2, full, values);
    if (!status)
        status = sb_gate_add_singles(c, "uniform", "row,token", 2, full, values + rows * n);
    if (!status)
        status = add_settings(c, rows);
    free(values);
    return status;
}

/* One row of the inputs, and its tokens in the order of P-2. */
typedef struct row {
    sb_gate_row in;
    float *logits, *uniform;
    uint32_t *order;
    uint64_t *key;
} row;

static void row_free(row *r)
{
    free(r->logits);
    free(r->uniform);
    free(r->order);
    free(r->key);
}

static sb_sampling settings_of(const sb_gate_case *c, size_t at)
{
    return (sb_sampling){.temperature = sb_gate_single(sb_gate_input(c, "temperature"), at),
                         .top_k = (uint32_t)sb_gate_whole(sb_gate_input(c, "top_k"), at),
                         .top_p = sb_gate_single(sb_gate_input(c, "top_p"), at),
                         .min_p = sb_gate_single(sb_gate_input(c, "min_p"), at)};
}

/* A key that increases as the logit decreases. */
static uint32_t falling(float logit)
{
    uint32_t bits = logit == 0.0f ? 0 : sb_bits_f32(logit);
    return bits >> 31 ? bits : ~(bits | 0x80000000u);
}

static int compare(const void *a, const void *b)
{
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

/* P-2: "by falling logit, equal logits by ascending id; -0 equals +0" */
static void sort(row *r)
{
    for (uint32_t i = 0; i < r->in.n; i++)
        r->key[i] = (uint64_t)falling(r->in.logits[i]) << 32 | i;
    qsort(r->key, r->in.n, sizeof *r->key, compare);
    for (uint32_t i = 0; i < r->in.n; i++)
        r->order[i] = (uint32_t)r->key[i];
}

static sb_status rows_of(const sb_gate_case *c, row *r)
{
    const uint32_t n = (uint32_t)c->size[VOCAB];
    *r = (row){.in = {.n = n},
               .logits = sb_gate_values(c, "logits"),
               .uniform = sb_gate_values(c, "uniform"),
               .order = sb_alloc(n, sizeof *r->order),
               .key = sb_alloc(n, sizeof *r->key)};
    if (r->logits && r->uniform && r->order && r->key)
        return SB_OK;
    row_free(r);
    return SB_ERR_MEMORY;
}

static void go_to(const sb_gate_case *c, row *r, size_t at)
{
    r->in.settings = settings_of(c, at);
    r->in.logits = r->logits + at * r->in.n;
    r->in.uniform = r->uniform + at * r->in.n;
    r->in.order = r->order;
    sort(r);
}

/* P-1: "temperature is finite and not below 0, top_p is above 0 and at most 1, min_p is from 0 to
 * 1"; P-9: "above 0 and below 1" */
static sb_status check_values(const sb_gate_case *c, sb_error *err)
{
    const size_t rows = c->size[ROWS], count = rows * c->size[VOCAB];
    const sb_gate_array *uniform = sb_gate_input(c, "uniform");
    for (size_t at = 0; at < rows; at++) {
        const sb_sampling s = settings_of(c, at);
        const int64_t top_k = sb_gate_whole(sb_gate_input(c, "top_k"), at);
        char where[32];
        if (top_k < 0)
            return sb_fail(err, SB_ERR_INPUT, "row %zu: top_k %lld; expected 0 or more", at,
                           (long long)top_k);
        snprintf(where, sizeof where, "row %zu", at);
        if (sb_sampling_check(&s, err))
            return sb_fail_in(err, SB_ERR_INPUT, where);
    }
    for (size_t i = 0; i < count; i++)
        if (!(sb_gate_single(uniform, i) > 0.0f && sb_gate_single(uniform, i) < 1.0f))
            return sb_fail(err, SB_ERR_INPUT,
                           "element %zu of in.uniform is %g; expected above 0 and below 1", i,
                           (double)sb_gate_single(uniform, i));
    return sb_gate_need_finite(c, "logits", count, err);
}

static sb_status need(const sb_gate_case *c, sb_error *err)
{
    static const struct {
        const char *name;
        sb_dtype dtype;
    } of_rows[] = {{"temperature", SB_DTYPE_F32},
                   {"top_k", SB_DTYPE_I32},
                   {"top_p", SB_DTYPE_F32},
                   {"min_p", SB_DTYPE_F32}};
    const uint64_t rows[] = {c->size[ROWS]}, full[] = {c->size[ROWS], c->size[VOCAB]};
    sb_status status = sb_gate_need(c, "logits", 2, full, err);
    if (!status)
        status = sb_gate_need(c, "uniform", 2, full, err);
    if (!status)
        status = sb_gate_need_type(c, "uniform", SB_DTYPE_F32, err);
    for (size_t i = 0; i < sizeof of_rows / sizeof *of_rows && !status; i++) {
        status = sb_gate_need(c, of_rows[i].name, 1, rows, err);
        if (!status)
            status = sb_gate_need_type(c, of_rows[i].name, of_rows[i].dtype, err);
    }
    return status ? status : check_values(c, err);
}

/* --- values ----------------------------------------------------------------------------------- */

/* P-10: "the token with the largest RN( log(w_i) + g_i ) among those with w_i above 0, the lowest
 * id among equals", with given u. */
static uint32_t pick(const float *p, const float *uniform, uint32_t n)
{
    uint32_t token = n;
    float best = 0.0f;
    for (uint32_t i = 0; i < n; i++) {
        if (!(p[i] > 0.0f))
            continue;
        float g = -sb_log(-sb_log1p(-uniform[i])), mine = sb_log(p[i]) + g;
        if (token == n || mine > best) {
            token = i;
            best = mine;
        }
    }
    return token;
}

/* V-56: "out are the tokens that P-10 draws, out.p the probabilities of P-7" */
static sb_status exact(const sb_gate_case *c, float *const in[], const sb_knobs *knobs,
                       const sb_op_table *ops, float *const out[])
{
    (void)in;
    (void)knobs; /* section P has none */
    (void)ops;
    row r;
    sb_status status = rows_of(c, &r);
    if (status)
        return status;
    for (size_t at = 0; at < c->size[ROWS] && !status; at++) {
        const sb_sampling settings = settings_of(c, at);
        const size_t first = at * r.in.n;
        sb_sampler *sampler = NULL;
        status = sb_sampler_new(&settings, r.in.n, &sampler, NULL);
        if (!status)
            status = sb_sample_probabilities(sampler, r.logits + first, out[P] + first, NULL);
        sb_sampler_free(sampler);
        if (!status)
            out[TOKEN][at] = (float)pick(out[P] + first, r.uniform + first, r.in.n);
    }
    row_free(&r);
    return status;
}

/* P-5 and P-6 in real numbers: keeps e of the tokens that stay and zeroes the others, in the order
 * of P-2. */
static void filter(const sb_gate_row *in, sb_dd *e)
{
    const sb_sampling *s = &in->settings;
    size_t kept = s->top_k > 0 && s->top_k < in->n ? s->top_k : in->n, run = kept;
    sb_dd total = sb_dd_of(0.0), sum = total;
    for (size_t j = 0; j < kept; j++)
        total = sb_dd_add(total, e[in->order[j]]);
    sb_dd enough = sb_dd_mul(total, sb_dd_of((double)s->top_p));
    for (size_t j = 0; j < kept && s->top_p < 1.0f; j++) {
        sum = sb_dd_add(sum, e[in->order[j]]);
        if (run == kept && !sb_dd_less(sum, enough))
            run = j + 1;
    }
    for (size_t j = 0; j < in->n; j++)
        if (j >= run || sb_dd_less(e[in->order[j]], sb_dd_of((double)s->min_p)))
            e[in->order[j]] = sb_dd_of(0.0);
}

/* P-3 to P-7, one row. */
static void probabilities(const sb_gate_row *in, sb_dd *p)
{
    const float largest = in->logits[in->order[0]], temperature = in->settings.temperature;
    sb_dd total = sb_dd_of(0.0);
    for (size_t i = 0; i < in->n; i++) {
        sb_dd below = sb_dd_sub(sb_dd_of((double)in->logits[i]), sb_dd_of((double)largest));
        if (temperature > 0.0f)
            p[i] = sb_dd_exp(sb_dd_div(below, sb_dd_of((double)temperature)));
        else
            p[i] = sb_dd_of(i == in->order[0] ? 1.0 : 0.0);
    }
    if (temperature > 0.0f)
        filter(in, p);
    for (size_t i = 0; i < in->n; i++)
        total = sb_dd_add(total, p[i]);
    for (size_t i = 0; i < in->n; i++)
        p[i] = sb_dd_div(p[i], total);
}

static sb_status real(const sb_gate_case *c, float *const in[], sb_dd *const out[])
{
    (void)in;
    row r;
    sb_status status = rows_of(c, &r);
    if (status)
        return status;
    for (size_t at = 0; at < c->size[ROWS]; at++) {
        go_to(c, &r, at);
        probabilities(&r.in, out[P] + at * r.in.n);
        out[TOKEN][at] = sb_dd_of((double)c->output[TOKEN].exact[at]);
    }
    row_free(&r);
    return SB_OK;
}

/* --- bounds ----------------------------------------------------------------------------------- */

static sb_status bound(const sb_gate_case *c, float *const in[], const sb_gate_arith *ar,
                       sb_ball *const out[])
{
    (void)in;
    row r;
    sb_status status = rows_of(c, &r);
    sb_gate_fate *fate = status ? NULL : sb_alloc(r.in.n, sizeof *fate);
    if (!fate && !status)
        row_free(&r);
    if (!fate)
        return SB_ERR_MEMORY;
    for (size_t at = 0; at < c->size[ROWS] && !status; at++) {
        go_to(c, &r, at);
        sb_gate_sampler_balls(&ar->ar, &r.in, fate, out[P] + at * r.in.n);
        out[TOKEN][at] = sb_ball_of(c->output[TOKEN].exact[at]);
    }
    free(fate);
    row_free(&r);
    return status;
}

/* V-58: "A token is open if its score may be the largest" */
static int may_stand(const sb_gate_case *c, const sb_gate_arith *ar, size_t output, size_t i,
                     double got)
{
    const uint32_t n = (uint32_t)c->size[VOCAB];
    if (output != TOKEN || ar->exact || !(got >= 0.0 && got < (double)n) ||
        got != (double)(uint32_t)got)
        return 0;
    row r;
    if (rows_of(c, &r))
        return 0;
    sb_gate_fate *fate = sb_alloc(n, sizeof *fate);
    sb_ball *p = sb_alloc(n, sizeof *p);
    int yes = 0;
    if (fate && p) {
        go_to(c, &r, i);
        sb_gate_sampler_balls(&ar->ar, &r.in, fate, p);
        yes = sb_gate_may_draw(&ar->ar, &r.in, fate, p, (uint32_t)got);
    }
    free(fate);
    free(p);
    row_free(&r);
    return yes;
}

const sb_gate_op *sb_gate_op_sampler(void)
{
    static const sb_gate_op op = {.name = "sampler",
                                  .clause = "V-56",
                                  .what = "temperature, top_k, top_p, min_p, and a draw",
                                  .params = params,
                                  .param_count = sizeof params / sizeof *params,
                                  .shapes = shapes,
                                  .not_regimes = "subnormal cancellation padding",
                                  .list = list,
                                  .add = add,
                                  .need = need,
                                  .exact = exact,
                                  .real = real,
                                  .bound = bound,
                                  .open = may_stand,
                                  .row_arrays = "logits,uniform,temperature,top_k,top_p,min_p",
                                  .rows_independent = 1};
    return &op;
}
