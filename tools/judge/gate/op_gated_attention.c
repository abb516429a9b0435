/* op_gated_attention.c - causal attention over a cache, and the gate of its output. */
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/ops/knob.h"
#include "tools/judge/bound/wide_fn.h"
#include "tools/judge/gate/attend.h"
#include "tools/judge/gate/whole.h"

enum { ROWS, FIRST, HEADS, KV_HEADS, HD, SPARE };

static const sb_gate_param params[] = {
    {"rows", 3, 1, 4096, "tokens"},
    {"first", 70, 0, 1048576, "earlier tokens, with keys and values in the cache"},
    {"heads", 4, 1, 256, "query heads"},
    {"kv_heads", 2, 1, 256, "key and value heads; divides heads"},
    {"hd", 64, 1, 1024, "channels of a head"},
    {"spare", 3, 0, 4096, "rows of the cache after the last token: stale, must not be read"},
};

static const char *const shapes[] = {"rows=1,first=0",
                                     "rows=1,first=1",
                                     "rows=3,first=14",
                                     "rows=3,first=30",
                                     "rows=3,first=62",
                                     "rows=3,first=126",
                                     "rows=9,first=120,heads=2,kv_heads=1",
                                     "rows=17,first=0,heads=2,kv_heads=1",
                                     "rows=65,first=0,heads=1,kv_heads=1,hd=16",
                                     "rows=1,first=255,heads=2,kv_heads=1,hd=256",
                                     "heads=6,kv_heads=3,hd=48,first=20",
                                     "heads=3,kv_heads=3,hd=1,first=5",
                                     "rows=1,first=1022,heads=2,kv_heads=1,hd=32",
                                     "spare=0",
                                     NULL};

static const sb_op uses[] = {SB_OP_split_gate, SB_OP_attention, SB_OP_attn_gate};

typedef struct shape {
    size_t rows, first, heads, kv_heads, hd, capacity; /* rows of the cache */
    size_t count, cache;                               /* values of q, of the keys */
} shape;

static shape shape_of(const sb_gate_case *c)
{
    shape s = {.rows = c->size[ROWS],
               .first = c->size[FIRST],
               .heads = c->size[HEADS],
               .kv_heads = c->size[KV_HEADS],
               .hd = c->size[HD]};
    s.capacity = s.first + s.rows + c->size[SPARE];
    s.count = s.rows * s.heads * s.hd;
    s.cache = s.capacity * s.kv_heads * s.hd;
    return s;
}

static sb_status check(const sb_gate_case *c, sb_error *err)
{
    uint64_t heads = c->size[HEADS], kv_heads = c->size[KV_HEADS];
    if (heads % kv_heads == 0)
        return SB_OK;
    return sb_fail(err, SB_ERR_USAGE, "heads=%llu is not a multiple of kv_heads=%llu",
                   (unsigned long long)heads, (unsigned long long)kv_heads);
}

enum { Q, KEYS, VALUES, GATE };

/* The gates are normal in every regime: closed gates would hide all errors. */
static sb_gate_list list(const sb_gate_case *c)
{
    const shape s = shape_of(c);
    const sb_gate_regime regime = c->regime;
    const uint64_t seen = (s.first + s.rows) * s.kv_heads * s.hd;
    const int plain = regime == SB_GATE_REGIME_index || regime == SB_GATE_REGIME_cancellation;
    const int open = plain || regime == SB_GATE_REGIME_huge || regime == SB_GATE_REGIME_one_hot;
    return (sb_gate_list){.input = {[Q] = {"q", "row,head,channel",
                                           .shape = {s.rows, s.heads, s.hd}, .normal = plain},
                                    [KEYS] = {"keys", "position,head,channel",
                                              .shape = {s.capacity, s.kv_heads, s.hd},
                                              .normal = plain, .finite = seen},
                                    [VALUES] = {"values", "position,head,channel",
                                                .shape = {s.capacity, s.kv_heads, s.hd},
                                                .normal = plain, .finite = seen},
                                    [GATE] = {"gate", "row,head,channel",
                                              .shape = {s.rows, s.heads, s.hd}, .normal = open}},
                          .output = {{"", "row,head,channel", .shape = {s.rows, s.heads, s.hd}}}};
}

/* --- inputs ----------------------------------------------------------------------------------- */

typedef struct drawn {
    shape s;
    float *q, *keys, *values;
} drawn;

static void scale(float *x, size_t count, float factor)
{
    for (size_t i = 0; i < count; i++)
        x[i] *= factor;
}

/* Scores of -300 and less: if the search for the maximum starts from 0, every exponential is 0. */
static void make_negative(drawn *d)
{
    float factor = 1.0f;
    while (factor * factor * (float)d->s.hd < 200000.0f)
        factor *= 2;
    scale(d->q, d->s.count, factor);
    scale(d->keys, d->s.cache, -1.0f);
}

/* All keys of a head are equal, so all scores are equal. */
static void make_alike(drawn *d)
{
    size_t width = d->s.kv_heads * d->s.hd;
    for (size_t u = 1; u < d->s.capacity; u++)
        memcpy(d->keys + u * width, d->keys, width * sizeof *d->keys);
}

/* Every query selects one key, so that the output identifies the row, the head and the channel of a
 * value. */
static void make_index(const sb_gate_case *c, drawn *d)
{
    const shape *s = &d->s;
    size_t group = s->heads / s->kv_heads;
    for (size_t row = 0; row < s->rows * s->heads; row++) {
        size_t t = row / s->heads, h = row % s->heads, u = (7 * t + 5 * h) % (s->first + t + 1);
        const float *key = d->keys + (u * s->kv_heads + h / group) * s->hd;
        for (size_t i = 0; i < s->hd; i++)
            d->q[row * s->hd + i] = 4.0f * key[i];
    }
    for (size_t i = 0; i < s->cache; i++) {
        size_t u = i / (s->kv_heads * s->hd), h = i / s->hd % s->kv_heads;
        d->values[i] = sb_gate_fit(c, (float)(100 * (u % 100) + 10 * (h % 10) + i % s->hd % 10));
    }
}

/* Neighbouring positions have the same key and values that nearly cancel. */
static void make_cancelling(const sb_gate_case *c, drawn *d)
{
    size_t width = d->s.kv_heads * d->s.hd;
    for (size_t u = 0; u < d->s.capacity; u++)
        for (size_t i = 0; i < width; i++) {
            float *value = d->values + u * width + i;
            if (u % 2 == 0) {
                *value *= 64.0f;
                continue;
            }
            d->keys[u * width + i] = d->keys[(u - 1) * width + i];
            *value = sb_gate_fit(c, *value - value[-(ptrdiff_t)width]);
        }
}

/* After the last token come rows that must not be read: a huge key and its negative, so that one of
 * the two has a positive score, and NaN, which comparisons skip. */
static void make_hostile(drawn *d)
{
    size_t width = d->s.kv_heads * d->s.hd, end = d->s.first + d->s.rows;
    for (size_t u = end; u < d->s.capacity; u++)
        for (size_t i = 0; i < width; i++) {
            float key = d->keys[end * width + i], *to = d->keys + u * width + i;
            d->values[u * width + i] = __builtin_nanf("");
            *to = u == end ? 4096.0f * key : u == end + 1 ? -key : __builtin_nanf("");
        }
}

static void adapt(const sb_gate_case *c, float *const x[])
{
    drawn d = {shape_of(c), x[Q], x[KEYS], x[VALUES]};
    if (c->regime == SB_GATE_REGIME_negative)
        make_negative(&d);
    if (c->regime == SB_GATE_REGIME_ties)
        make_alike(&d);
    if (c->regime == SB_GATE_REGIME_index)
        make_index(c, &d);
    if (c->regime == SB_GATE_REGIME_cancellation)
        make_cancelling(c, &d);
    if (c->regime == SB_GATE_REGIME_padding)
        make_hostile(&d);
}

/* --- values ----------------------------------------------------------------------------------- */

static sb_attention_args args_of(const sb_gate_case *c, float *const in[])
{
    const shape s = shape_of(c);
    return (sb_attention_args){.q = in[Q],
                               .keys = in[KEYS],
                               .values = in[VALUES],
                               .rows = s.rows,
                               .first = s.first,
                               .heads = s.heads,
                               .kv_heads = s.kv_heads,
                               .hd = s.hd};
}

/* "the q projection holds per head hd query rows, then hd gate rows" - q and gate go through
 * the op in this order, so that a mistake in splitting them shows. */
static sb_status split(const sb_knobs *knobs, const sb_op_table *ops, const shape *s,
                       float *const in[])
{
    float *packed = sb_alloc(s->count, 2 * sizeof *packed);
    if (!packed)
        return SB_ERR_MEMORY;
    for (size_t i = 0; i < s->count; i++) {
        size_t at = i / s->hd * 2 * s->hd + i % s->hd;
        packed[at] = in[Q][i];
        packed[at + s->hd] = in[GATE][i];
    }
    const sb_split_gate_args args = {.in = packed,
                                     .rows = s->rows,
                                     .heads = s->heads,
                                     .hd = s->hd,
                                     .query = in[Q],
                                     .gate = in[GATE]};
    sb_status status = ops->split_gate(knobs, &args);
    free(packed);
    return status;
}

/* V-52: "out = attention(q, keys, values) sigmoid(gate)" */
static sb_status exact(const sb_gate_case *c, float *const in[], const sb_knobs *knobs,
                       const sb_op_table *ops, float *const out[])
{
    const shape s = shape_of(c);
    sb_attention_args args = args_of(c, in);
    const sb_attn_gate_args gate = {
        .in = out[0], .gate = in[GATE], .count = s.count, .out = out[0]};
    sb_status status = split(knobs, ops, &s, in);
    args.out = out[0];
    if (!status)
        status = ops->attention(knobs, &args);
    return status ? status : ops->attn_gate(knobs, &gate);
}

/* R-12, one head of one row, n positions; p (n) is scratch. */
static void attend(const sb_attention_args *a, const float *q, size_t kv_head, size_t n, sb_dd *p,
                   sb_dd *out)
{
    sb_dd total = sb_dd_of(0.0), most = total;
    sb_dd root = sb_dd_sqrt(sb_dd_of((double)a->hd));
    for (size_t u = 0; u < n; u++) {
        const float *key = a->keys + (u * a->kv_heads + kv_head) * a->hd;
        sb_dd dot = sb_dd_of(0.0);
        for (size_t i = 0; i < a->hd; i++)
            dot = sb_dd_fma(dot, sb_dd_of((double)q[i]), sb_dd_of((double)key[i]));
        p[u] = sb_dd_div(dot, root);
        if (u == 0 || sb_dd_less(most, p[u]))
            most = p[u];
    }
    for (size_t u = 0; u < n; u++) {
        p[u] = sb_dd_exp(sb_dd_sub(p[u], most));
        total = sb_dd_add(total, p[u]);
    }
    for (size_t i = 0; i < a->hd; i++) {
        sb_dd sum = sb_dd_of(0.0);
        for (size_t u = 0; u < n; u++) {
            double value = (double)a->values[(u * a->kv_heads + kv_head) * a->hd + i];
            sum = sb_dd_fma(sum, p[u], sb_dd_of(value));
        }
        out[i] = sb_dd_div(sum, total);
    }
}

static sb_status real(const sb_gate_case *c, float *const in[], sb_dd *const out[])
{
    const shape s = shape_of(c);
    const sb_attention_args args = args_of(c, in);
    sb_dd *p = sb_alloc(s.first + s.rows, sizeof *p);
    if (!p)
        return SB_ERR_MEMORY;
    for (size_t row = 0; row < s.rows * s.heads; row++)
        attend(&args, in[Q] + row * s.hd, row % s.heads / (s.heads / s.kv_heads),
               s.first + row / s.heads + 1, p, out[0] + row * s.hd);
    for (size_t i = 0; i < s.count; i++)
        out[0][i] = sb_dd_mul(out[0][i], sb_dd_sigmoid(sb_dd_of((double)in[GATE][i])));
    free(p);
    return SB_OK;
}

/* --- bounds ----------------------------------------------------------------------------------- */

/* "y = R( RN(o sigmoid(gate)) )", for balls o. */
static void open_gate(const sb_arithmetic *ar, const sb_knobs *knobs, const float *gate,
                      size_t count, sb_ball *o)
{
    for (size_t i = 0; i < count; i++) {
        sb_ball open = sb_ball_sigmoid(ar, sb_ball_of(gate[i]));
        if (SB_IS(knobs, attn_gate, act))
            open = sb_ball_act(knobs, open);
        o[i] = sb_ball_act(knobs, sb_ball_mul(ar, o[i], open));
    }
}

/* V-53: "T-50 holds for values that a power of two has brought to magnitudes of 1 to 2" - unless
 * binary16, with its least exponent, is involved. Returns the power. */
static float bring_to_one(const sb_gate_case *c, const sb_gate_arith *ar, float *values)
{
    const shape s = shape_of(c);
    const size_t seen = (s.first + s.rows) * s.kv_heads * s.hd;
    float most = 0.0f, by = 1.0f;
    if (!ar->ar.atom || c->input == SB_DTYPE_F16 || SB_IS(&ar->knobs, act, f16))
        return by;
    for (size_t i = 0; i < seen; i++)
        most = (float)sb_larger((double)most, sb_wide_abs((double)values[i]));
    while (most > 0.0f && most * by < 1.0f)
        by *= 2.0f;
    while (most * by >= 2.0f)
        by /= 2.0f;
    scale(values, seen, by);
    return by;
}

/* The core, with or without rounding its output to the activation type. Forms that round the
 * probabilities always round the output, too. So without `rounded`, such a form adds the error of
 * that rounding to the radius. `by` is the factor of the values. */
static sb_status core(const sb_gate_arith *ar, const sb_attention_args *a, float by,
                      unsigned scores, int rounded, sb_ball *o)
{
    const size_t count = a->rows * a->heads * a->hd;
    const double underflow = 2.0 * (double)(a->first + a->rows) * ar->ar.underflow;
    static const sb_knob_value forms[] = {SB_scores_f32, SB_scores_act, SB_scores_flash};
    sb_knobs knobs = ar->knobs;
    knobs.value[SB_KNOB_scores] = forms[scores];
    if (!rounded && forms[scores] == SB_scores_f32)
        knobs = sb_gate_unrounded(&knobs);
    sb_status status = sb_gate_attend(&ar->ar, &knobs, a, o);
    for (size_t i = 0; i < count && by != 1.0f; i++) {
        o[i].mid /= (double)by;
        o[i].rad = o[i].rad / (double)by + underflow;
    }
    for (size_t i = 0; i < count && !rounded && forms[scores] != SB_scores_f32; i++)
        o[i].rad += sb_gate_rounding(&ar->knobs, sb_wide_abs(o[i].mid) + o[i].rad);
    return status;
}

/* V-51: "each of the roundings between the ops may be there or not" - here the core with a gate
 * that is rounded and with one that is not. */
static void cover(const sb_gate_arith *ar, const float *gate, size_t count, int first,
                  const sb_ball *o, sb_ball *gated, sb_ball *out)
{
    const sb_arithmetic *vector = sb_arithmetic_vector(&ar->ar);
    for (int plain = 0; plain < 2; plain++) {
        sb_knobs knobs = ar->knobs;
        knobs.value[SB_KNOB_attn_gate] = plain ? SB_attn_gate_f32 : SB_attn_gate_act;
        memcpy(gated, o, count * sizeof *gated);
        open_gate(vector, &knobs, gate, count, gated);
        sb_gate_cover(out, gated, count, first && !plain);
    }
}

static sb_status bound(const sb_gate_case *c, float *const in[], const sb_gate_arith *ar,
                       sb_ball *const out[])
{
    const size_t count = shape_of(c).count;
    sb_ball *o = sb_alloc(count, 2 * sizeof *o);
    if (!o)
        return SB_ERR_MEMORY;
    const sb_attention_args args = args_of(c, in);
    const float by = bring_to_one(c, ar, in[VALUES]);
    unsigned forms = sb_act_format(&ar->knobs) == SB_FORMAT_f32 ? 1 : 3;
    sb_status status = SB_OK;
    for (unsigned scores = 0; scores < forms; scores++)
        for (int rounded = 0; rounded < (forms == 1 ? 1 : 2) && !status; rounded++) {
            status = core(ar, &args, by, scores, rounded, o);
            if (!status)
                cover(ar, in[GATE], count, scores == 0 && !rounded, o, o + count, out[0]);
        }
    free(o);
    return status;
}

const sb_gate_op *sb_gate_op_gated_attention(void)
{
    static const sb_gate_op op = {.name = "gated_attention",
                                  .clause = "V-52",
                                  .what = "causal attention over a cache, multiplied by its gate",
                                  .params = params,
                                  .param_count = sizeof params / sizeof *params,
                                  .shapes = shapes,
                                  .not_regimes = "subnormal",
                                  .uses = uses,
                                  .use_count = sizeof uses / sizeof *uses,
                                  .check = check,
                                  .list = list,
                                  .adapt = adapt,
                                  .exact = exact,
                                  .real = real,
                                  .bound = bound,
                                  .row_arrays = "q,gate"};
    return &op;
}
