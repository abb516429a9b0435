/* op_qk_norm_rope.c - the norm of each query or key head, followed by rotary positions. */
#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/ops/knob.h"
#include "tools/judge/bound/bound.h"
#include "tools/judge/gate/whole.h"

static const float eps = 1e-6f;

enum { ROWS, HEADS, HD, RD, THETA, FIRST, MROPE };

static const sb_gate_param params[] = {
    {"rows", 5, 1, 4096, "tokens"},
    {"heads", 3, 1, 256, "heads"},
    {"hd", 64, 2, 1024, "channels of a head"},
    {"rd", 16, 2, 256, "channels that turn; even, at most hd"},
    {"theta", 10000000, 1, 4294967295, "base of the frequencies"},
    {"first", 4099, 0, 16773119, "position of the first token"},
    {"mrope", 0, 0, 1, "1: three streams of positions, in interleaved sections"},
};

static const char *const shapes[] = {"first=0,rows=1",
                                     "first=0",
                                     "rows=1,heads=1,hd=256,rd=64",
                                     "rows=9,heads=1,rd=64",
                                     "hd=256,rd=64,heads=2,first=262143",
                                     "hd=256,rd=64,heads=2,mrope=1",
                                     "hd=48,rd=12,heads=7",
                                     "hd=2,rd=2,heads=1",
                                     "first=16773119,rows=2,theta=10000",
                                     NULL};

/* Time, height, width. */
static const char *const streams[3] = {"positions", "positions_height", "positions_width"};

static const sb_op uses[] = {SB_OP_rmsnorm, SB_OP_rope};

typedef struct shape {
    size_t rows, heads, hd, rd, streams, count;
} shape;

static shape shape_of(const sb_gate_case *c)
{
    shape s = {.rows = c->size[ROWS],
               .heads = c->size[HEADS],
               .hd = c->size[HD],
               .rd = c->size[RD],
               .streams = c->size[MROPE] ? 3 : 1};
    s.count = s.rows * s.heads * s.hd;
    return s;
}

/* "frequency f takes height if f mod 3 is 1 and f < 3 section[1], width if f mod 3 is 2 and f
 * < 3 section[2], else time" - sections as even as those of the models: (11, 11, 10) for 32. */
static void section_of(size_t half, int64_t *section)
{
    section[1] = (int64_t)(half + 1) / 3;
    section[2] = (int64_t)half / 3;
    section[0] = (int64_t)half - section[1] - section[2];
}

static sb_status check(const sb_gate_case *c, sb_error *err)
{
    uint64_t rd = c->size[RD], hd = c->size[HD];
    if (rd % 2 || rd > hd)
        return sb_fail(err, SB_ERR_USAGE, "rd=%llu; expected an even number of at most hd=%llu",
                       (unsigned long long)rd, (unsigned long long)hd);
    return SB_OK;
}

enum { X, WEIGHT };

static sb_gate_list list(const sb_gate_case *c)
{
    const shape s = shape_of(c);
    return (sb_gate_list){
        .input = {[X] = {"x", "row,head,channel", .shape = {s.rows, s.heads, s.hd}},
                  [WEIGHT] = {"weight", "channel", .shape = {s.hd}, .role = SB_GATE_NORM_WEIGHT}},
        .output = {{"", "row,head,channel", .shape = {s.rows, s.heads, s.hd}}}};
}

/* Text positions are consecutive. Height and width stay near the start, as in an image. */
static sb_status add(sb_gate_case *c, sb_error *err)
{
    (void)err;
    const shape s = shape_of(c);
    int64_t *position = sb_alloc(s.rows, sizeof *position), section[3];
    sb_status status = position ? SB_OK : SB_ERR_MEMORY;
    const uint64_t rows[] = {s.rows}, three[] = {3};
    for (size_t i = 0; i < s.streams && !status; i++) {
        for (size_t t = 0; t < s.rows; t++) {
            size_t step = i == 0 ? t : i == 1 ? t / 3 : t % 3;
            position[t] = (int64_t)(c->size[FIRST] + step);
        }
        status = sb_gate_add_whole(c, streams[i], SB_DTYPE_I64, "row", 1, rows, position);
    }
    section_of(s.rd / 2, section);
    if (!status && s.streams == 3)
        status = sb_gate_add_whole(c, "mrope_section", SB_DTYPE_I32, "stream", 1, three, section);
    free(position);
    return status;
}

/* Positions are below 2^24, so that binary32 holds them exactly; sections stay within the table. */
static sb_status check_whole(const sb_gate_case *c, const char *name, uint64_t count,
                             sb_dtype dtype, int64_t most, sb_error *err)
{
    sb_status status = sb_gate_need(c, name, 1, &count, err);
    if (!status)
        status = sb_gate_need_type(c, name, dtype, err);
    for (size_t i = 0; i < count && !status; i++) {
        int64_t value = sb_gate_whole(sb_gate_input(c, name), i);
        if (value < 0 || value > most)
            status = sb_fail(err, SB_ERR_INPUT, "element %zu of in.%s is %lld; expected 0 to %lld",
                             i, name, (long long)value, (long long)most);
    }
    return status;
}

static sb_status need(const sb_gate_case *c, sb_error *err)
{
    const shape s = shape_of(c);
    sb_status status = SB_OK;
    for (size_t i = 0; i < s.streams && !status; i++)
        status = check_whole(c, streams[i], s.rows, SB_DTYPE_I64, (1 << 24) - 1, err);
    if (!status && s.streams == 3)
        status = check_whole(c, "mrope_section", 3, SB_DTYPE_I32, (int64_t)s.rd / 2, err);
    return status;
}

/* The arguments of both ops. */
typedef struct arguments {
    uint32_t *position; /* (streams, rows) */
    uint32_t section[3];
    sb_matrix weight;
    sb_rmsnorm_args norm;
    sb_rope_args rope;
} arguments;

static sb_status args_of(const sb_gate_case *c, float *const in[], arguments *a)
{
    const shape s = shape_of(c);
    const sb_gate_array *section = sb_gate_input(c, "mrope_section");
    *a = (arguments){.position = sb_alloc(s.streams * s.rows, sizeof *a->position),
                     .weight = sb_gate_matrix(c, "weight", 1, (uint32_t)s.hd)};
    if (!a->position)
        return SB_ERR_MEMORY;
    for (size_t i = 0; i < s.streams * s.rows; i++)
        a->position[i] = (uint32_t)sb_gate_whole(sb_gate_input(c, streams[i / s.rows]), i % s.rows);
    for (size_t i = 0; i < 3 && section; i++)
        a->section[i] = (uint32_t)sb_gate_whole(section, i);
    a->norm = (sb_rmsnorm_args){
        .in = in[X], .weight = &a->weight, .eps = eps, .rows = s.rows * s.heads, .n = s.hd};
    a->rope = (sb_rope_args){.rows = s.rows,
                             .heads = s.heads,
                             .hd = s.hd,
                             .rd = s.rd,
                             .theta = (double)c->size[THETA],
                             .section = s.streams == 3 ? a->section : NULL};
    for (size_t i = 0; i < 3; i++)
        a->rope.position[i] = a->position + (s.streams == 3 ? i * s.rows : 0);
    return SB_OK;
}

/* V-50: "y = rope( rmsnorm(x, weight) )" */
static sb_status exact(const sb_gate_case *c, float *const in[], const sb_knobs *knobs,
                       const sb_op_table *ops, float *const out[])
{
    arguments a;
    sb_status status = args_of(c, in, &a);
    if (status)
        return status;
    a.norm.out = a.rope.x = out[0];
    status = ops->rmsnorm(knobs, &a.norm);
    if (!status)
        status = ops->rope(knobs, &a.rope);
    free(a.position);
    return status;
}

/* R-3, one head: x rsqrt( mean of the squares + eps ) (1 + w). */
static void norm(const float *x, const float *weight, size_t n, sb_dd *out)
{
    sb_dd squares = sb_dd_of(0.0);
    for (size_t i = 0; i < n; i++)
        squares = sb_dd_fma(squares, sb_dd_of((double)x[i]), sb_dd_of((double)x[i]));
    sb_dd mean = sb_dd_div(squares, sb_dd_of((double)n));
    sb_dd root = sb_dd_sqrt(sb_dd_add(mean, sb_dd_of((double)eps)));
    for (size_t i = 0; i < n; i++) {
        sb_dd factor = sb_dd_add(sb_dd_of(1.0), sb_dd_of((double)weight[i]));
        out[i] = sb_dd_div(sb_dd_mul(sb_dd_of((double)x[i]), factor), root);
    }
}

/* "the pair (x_f, x_{f+rd/2})" turns by the angle position theta^(-2f/rd). */
static void turn(const sb_rope_args *a, size_t t, size_t f, sb_dd frequency, sb_dd *out)
{
    size_t half = a->rd / 2, stream = a->section && f % 3 && f < 3u * a->section[f % 3] ? f % 3 : 0;
    sb_dd angle = sb_dd_mul(frequency, sb_dd_of((double)a->position[stream][t]));
    sb_dd cosine = sb_dd_cos(angle), sine = sb_dd_sin(angle);
    for (size_t h = 0; h < a->heads; h++) {
        sb_dd *x = out + (t * a->heads + h) * a->hd + f, *y = x + half;
        sb_dd first = sb_dd_sub(sb_dd_mul(*x, cosine), sb_dd_mul(*y, sine));
        *y = sb_dd_add(sb_dd_mul(*y, cosine), sb_dd_mul(*x, sine));
        *x = first;
    }
}

static sb_status real(const sb_gate_case *c, float *const in[], sb_dd *const out[])
{
    arguments all;
    const sb_rope_args *a = &all.rope;
    const sb_status status = args_of(c, in, &all);
    if (status)
        return status;
    for (size_t row = 0; row < all.norm.rows; row++)
        norm(in[X] + row * a->hd, in[WEIGHT], a->hd, out[0] + row * a->hd);
    for (size_t f = 0; f < a->rd / 2; f++) {
        sb_dd exponent = sb_dd_div(sb_dd_of(-2.0 * (double)f), sb_dd_of((double)a->rd));
        sb_dd frequency = sb_dd_pow(sb_dd_of(a->theta), exponent);
        for (size_t t = 0; t < a->rows; t++)
            turn(a, t, f, frequency, out[0]);
    }
    free(all.position);
    return SB_OK;
}

/* V-51: "each of the roundings between the ops may be there or not" - `way`: bit 0 rounds the
 * output of the norm, bit 1 the table, bit 2 the products. */
static sb_status one_way(const sb_gate_arith *ar, const arguments *a, unsigned way, sb_ball *x)
{
    sb_knobs inside = sb_gate_unrounded(&ar->knobs), knobs = ar->knobs;
    if (way & 2)
        knobs.value[SB_KNOB_rope_table] = SB_rope_table_f32;
    if (way & 4)
        knobs.value[SB_KNOB_rope_pair] = SB_rope_pair_dot;
    sb_status status = sb_bound_rmsnorm(&ar->ar, way & 1 ? &inside : &knobs, &a->norm, x, NULL);
    if (!status)
        sb_bound_rope_of(&ar->ar, &knobs, &a->rope, x);
    return status;
}

static sb_status bound(const sb_gate_case *c, float *const in[], const sb_gate_arith *ar,
                       sb_ball *const out[])
{
    enum { WAYS = 8 };
    const shape s = shape_of(c);
    arguments a;
    sb_status status = args_of(c, in, &a);
    sb_ball *x = status ? NULL : sb_alloc(s.count, sizeof *x);
    if (!x)
        status = SB_ERR_MEMORY;
    unsigned ways = sb_act_format(&ar->knobs) == SB_FORMAT_f32 ? 1 : WAYS;
    for (unsigned way = 0; way < ways && !status; way++) {
        status = one_way(ar, &a, way, x);
        if (!status)
            sb_gate_cover(out[0], x, s.count, way == 0);
    }
    free(a.position);
    free(x);
    return status;
}

const sb_gate_op *sb_gate_op_qk_norm_rope(void)
{
    static const sb_gate_op op = {.name = "qk_norm_rope",
                                  .clause = "V-50",
                                  .what = "norm of queries or keys per head, and rotary positions",
                                  .params = params,
                                  .param_count = sizeof params / sizeof *params,
                                  .shapes = shapes,
                                  .not_regimes = "subnormal padding",
                                  .uses = uses,
                                  .use_count = sizeof uses / sizeof *uses,
                                  .check = check,
                                  .list = list,
                                  .add = add,
                                  .need = need,
                                  .exact = exact,
                                  .real = real,
                                  .bound = bound,
                                  .row_arrays = "x,positions,positions_height,positions_width",
                                  .rows_independent = 1};
    return &op;
}
