#include "ref/base/mem.h"
#include "ref/base/threads.h"
#include "ref/fast/dot/dot.h"
#include "ref/formats/format.h"
#include "ref/math/fn.h"
#include "ref/fast/dot/fn_array.h"
#include "ref/fast/dot/product.h"
#include "ref/fast/arrays.h"
#include "ref/fast/fast.h"
#include "ref/ops/knob.h"

#include <stdlib.h>

/* K-11: "act to round scores, scaled scores and probabilities" */
static float inner(const sb_knobs *knobs, float x)
{
    return SB_IS(knobs, scores, act) ? sb_act(knobs, x) : x;
}

/* K-11: "f16 rounds q and p to binary16 before their products with keys and values" */
static float narrow(const sb_knobs *knobs, float x)
{
    return SB_IS(knobs, scores, f16) ? sb_round_to(SB_FORMAT_f16, x) : x;
}

/* "e_u = exp( RN(s_u - max s) ); p_u = RN( e_u / sum(e) )", in place. Writes the weights of
 * the values; returns the divisor of the result. K-11: "flash uses R(e_u) in place of p_u and
 * divides at the end: o_t = R( RN( dot over u of R(e_u) with v_u / sum(e) ) )" */
static float softmax(const sb_knobs *knobs, float *s, size_t n)
{
    float largest = sb_largest_of(s, n);
    for (size_t u = 0; u < n; u++)
        s[u] = s[u] - largest;
    sb_exp_array(s, n, s);
    float total = sb_sum(s, n);
    if (SB_IS(knobs, scores, flash)) {
        sb_act_many(knobs, s, n, s);
        return total;
    }
    for (size_t u = 0; u < n; u++)
        s[u] = s[u] / total;
    for (size_t u = 0; u < n && !SB_IS(knobs, scores, f32); u++)
        s[u] = narrow(knobs, inner(knobs, s[u]));
    return 1.0f;
}

/* A wave: the rows that are computed together, and their intermediate values. */
typedef struct wave {
    const sb_knobs *knobs;
    const sb_attention_args *a;
    size_t row, rows;        /* the first row, and the number of rows */
    size_t longest, parts;   /* number of positions that the last row attends to, and of parts of
                                these positions */
    float scale;             /* RN(hd^-1/2) */
    float *q;                /* (rows, heads, hd) */
    float *p;                /* (rows, heads, longest) scores, then probabilities */
    float *total;            /* (rows, heads) */
    double *sum, *magnitude; /* (rows, kv_heads, parts, heads / kv_heads, hd) */
} wave;

/* The heads of one row that share the keys and values of head kv. */
typedef struct group {
    size_t row, kv, heads;
    const float *q;
    float *p;
    double *sum, *magnitude;
} group;

/* "query head j uses key/value head floor(j / (nQ / nKV))" */
static group group_of(const wave *w, size_t index)
{
    const sb_attention_args *a = w->a;
    size_t row = index / a->kv_heads, kv = index % a->kv_heads, heads = a->heads / a->kv_heads;
    size_t first = row * a->heads + kv * heads, sums = index * w->parts * heads * a->hd;
    return (group){.row = row,
                   .kv = kv,
                   .heads = heads,
                   .q = w->q + first * a->hd,
                   .p = w->p + first * w->longest,
                   .sum = w->sum + sums,
                   .magnitude = w->magnitude + sums};
}

static float scale_or_one(float scale)
{
    return scale == 0 ? 1.0f : scale;
}

/* The keys or values of one head that this row of the wave attends to: the position of this row and
 * all positions before it. K-24: "The dot products of R-12 are then multiplied by z before they are
 * rounded" */
static sb_rows seen(const wave *w, const float *cache, const group *g, float scale)
{
    const sb_attention_args *a = w->a;
    return (sb_rows){.at = cache + g->kv * a->hd,
                     .stride = a->kv_heads * a->hd,
                     .count = a->first + w->row + g->row + 1,
                     .n = a->hd,
                     .factor = scale_or_one(scale)};
}

/* the scores of one part of the positions. */
static void score(const wave *w, size_t index, size_t part)
{
    const group g = group_of(w, index);
    sb_rows keys = seen(w, w->a->keys, &g, w->a->key_scale);
    size_t from = part * SB_PRODUCT_PART;
    if (from >= keys.count)
        return;
    keys.at += from * keys.stride;
    keys.count = keys.count - from < SB_PRODUCT_PART ? keys.count - from : SB_PRODUCT_PART;
    sb_product_dots(g.q, g.heads, &keys, g.p + from, w->longest);
    for (size_t h = 0; h < g.heads; h++) {
        float *s = g.p + h * w->longest + from;
        for (size_t u = 0; u < keys.count; u++) {
            float dot = inner(w->knobs, s[u]);
            s[u] = inner(w->knobs, dot * w->scale);
        }
    }
}

static void weigh(const wave *w, size_t index, size_t part)
{
    const group g = group_of(w, index);
    sb_rows values = seen(w, w->a->values, &g, w->a->value_scale);
    if (part < sb_product_parts(values.count))
        sb_product_part(g.p, w->longest, g.heads, &values, part, g.sum, g.magnitude);
}

/* the output of one head of one row. */
static void join(const wave *w, size_t index, size_t h)
{
    const sb_attention_args *a = w->a;
    const group g = group_of(w, index);
    size_t head = g.row * a->heads + g.kv * g.heads + h;
    float *out = a->out + (w->row * a->heads + head) * a->hd;
    sb_rows values = seen(w, a->values, &g, a->value_scale);
    sb_product_join(g.p + h * w->longest, g.heads, h, &values, g.sum, g.magnitude, out);
    for (size_t i = 0; i < a->hd; i++)
        out[i] = sb_act(w->knobs, out[i] / w->total[head]);
}

/* --- the steps of a wave: each needs the complete step before --------------------------------- */

static void score_tile(void *ctx, size_t i, size_t worker)
{
    const wave *w = ctx;
    (void)worker;
    score(w, i / w->parts, i % w->parts);
}

static void softmax_row(void *ctx, size_t i, size_t worker)
{
    const wave *w = ctx;
    const size_t n = w->a->first + w->row + i / w->a->heads + 1;
    (void)worker;
    w->total[i] = softmax(w->knobs, w->p + i * w->longest, n);
}

static void weigh_tile(void *ctx, size_t i, size_t worker)
{
    const wave *w = ctx;
    (void)worker;
    weigh(w, i / w->parts, i % w->parts);
}

static void join_row(void *ctx, size_t i, size_t worker)
{
    const wave *w = ctx;
    const size_t group_size = w->a->heads / w->a->kv_heads;
    (void)worker;
    join(w, i / group_size, i % group_size);
}

static void attend(wave *w)
{
    const sb_attention_args *a = w->a;
    const double products = 2 * (double)(w->rows * a->heads * a->hd) * (double)w->longest;
    const size_t rows = w->rows * a->heads, tiles = w->rows * a->kv_heads * w->parts;
    const int many = sb_worth_threads(products);
    sb_parallel_for(tiles, many, score_tile, w);
    sb_parallel_for(rows, many, softmax_row, w);
    sb_parallel_for(tiles, many, weigh_tile, w);
    sb_parallel_for(rows, many, join_row, w);
}

/* The number of rows of a wave. A wave has work for all threads, but its parts need little
 * memory. */
static size_t wave_rows(size_t rows, size_t parts)
{
    enum { PARTS = 64 };
    size_t most = parts < PARTS ? PARTS / parts : 1;
    return rows < most ? rows : most;
}

sb_status sb_attention_fast(const sb_knobs *knobs, const sb_attention_args *a)
{
    wave w = {.knobs = knobs, .a = a, .longest = a->first + a->rows};
    w.parts = sb_product_parts(w.longest);
    w.scale = sb_root_power((double)a->hd, -1, 2);
    const size_t rows = wave_rows(a->rows, w.parts), heads = rows * a->heads;
    float *scratch = sb_alloc(heads, (w.longest + a->hd + 1) * sizeof *scratch);
    w.sum = sb_alloc(heads * w.parts, 2 * a->hd * sizeof *w.sum);
    sb_status status = scratch && w.sum ? SB_OK : SB_ERR_MEMORY;
    if (!status) {
        w.magnitude = w.sum + heads * w.parts * a->hd;
        w.p = scratch;
        w.q = w.p + heads * w.longest;
        w.total = w.q + heads * a->hd;
    }
    for (; w.row < a->rows && !status; w.row += rows) {
        w.rows = a->rows - w.row < rows ? a->rows - w.row : rows;
        for (size_t i = 0; i < w.rows * a->heads * a->hd; i++)
            w.q[i] = narrow(knobs, a->q[w.row * a->heads * a->hd + i]);
        attend(&w);
    }
    free(scratch);
    free(w.sum);
    return status;
}

typedef struct gating {
    const sb_knobs *knobs;
    const sb_attn_gate_args *a;
} gating;

enum { PIECE = 256 };

static void gate_piece(void *ctx, size_t piece, size_t worker)
{
    const gating *g = ctx;
    const sb_attn_gate_args *a = g->a;
    const size_t i = piece * PIECE, count = a->count - i < PIECE ? a->count - i : PIECE;
    float open[PIECE];
    (void)worker;
    sb_sigmoid_array(a->gate + i, count, open);
    if (SB_IS(g->knobs, attn_gate, act))
        sb_act_many(g->knobs, open, count, open);
    for (size_t l = 0; l < count; l++)
        open[l] = a->in[i + l] * open[l];
    sb_act_many(g->knobs, open, count, a->out + i);
}

/* "y = R( RN(o sigmoid(gate)) )"; K-12: "act to round sigmoid(gate)" */
sb_status sb_attn_gate_fast(const sb_knobs *knobs, const sb_attn_gate_args *a)
{
    gating g = {knobs, a};
    const double values = (double)a->count;
    sb_parallel_for((a->count + PIECE - 1) / PIECE, sb_worth_threads(values * SB_COST_exponential),
                    gate_piece, &g);
    return SB_OK;
}
