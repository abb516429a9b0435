/* bound_linear.c - rows of matrices, and element-wise operations. */
#include "tools/judge/bound/bound.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "ref/formats/wide.h"
#include "ref/ops/knob.h"
#include "ref/ops/rounding.h"
#include "ref/ops/param.h"
#include "tools/judge/bound/bound_codes.h"
#include "tools/judge/bound/wide_fn.h"

/* R-1; T-6: "a copied value has radius 0" */
sb_status sb_bound_embed_in(const sb_arithmetic *ar, const sb_knobs *knobs, const sb_embed_args *a,
                            const sb_ball *const *in, sb_ball *out, sb_ball *second)
{
    (void)ar, (void)second, (void)in;
    size_t n = a->table->cols;
    float *row = sb_alloc(n, sizeof *row);
    if (!row)
        return SB_ERR_MEMORY;
    for (size_t t = 0; t < a->rows; t++) {
        sb_param_row(knobs, a->table, a->tokens[t], row);
        for (size_t i = 0; i < n; i++)
            out[t * n + i] = sb_ball_act(knobs, sb_ball_of(row[i]));
    }
    free(row);
    return SB_OK;
}

/* The weights of row n under the knobs: rounded, or the exact values of a quantized matrix, which
 * binary64 holds closely enough (T-5). */
static void weights_of(const sb_knobs *knobs, const sb_matrix *weight, uint32_t n, float *rounded,
                       double *row)
{
    if (sb_matrix_quantized(weight) && !sb_param_cast(knobs, weight)) {
        sb_scalar factor = sb_matrix_factor(weight);
        sb_matrix_wide(weight, n, row);
        for (uint32_t i = 0; i < weight->cols; i++)
            row[i] = row[i] * (double)factor.mul[0] / (double)factor.div[0];
        return;
    }
    sb_weight_row(knobs, weight, n, row, rounded);
    for (uint32_t i = 0; i < weight->cols; i++)
        row[i] = (double)rounded[i];
}

/* K-17: "factor_last applies the factor to the rounded dot product" */
static sb_ball factor_last(const sb_arithmetic *ar, const sb_knobs *knobs, const sb_matrix *weight,
                           const sb_scalar *input, sb_ball y)
{
    sb_scalar factor = sb_matrix_factor(weight);
    if (!sb_matrix_quantized(weight) || !SB_IS(knobs, dequant, factor_last))
        return y;
    y = sb_ball_mul(ar, y, sb_ball_of(factor.mul[0] * input->mul[0]));
    return sb_ball_div(ar, y, sb_ball_of(factor.div[0] * input->div[0]));
}

/* K-45: "weight rounds the input of every linear layer that is not quantized" */
static void narrow_input(const sb_knobs *knobs, const sb_matrix *weight, sb_linear_kind kind,
                         const sb_ball *in, size_t count, sb_ball *out)
{
    sb_format format = sb_linear_input_format(knobs, weight, kind);
    for (size_t i = 0; i < count; i++)
        out[i] = sb_ball_round_to(format, in[i]);
}

/* Rows of a matrix that are computed side by side, in vectors. */
enum { LANES = 8 };

/* With fewer products a second thread does not pay off. */
static const size_t ALONE = 200000;

/* A layer and the sides that compute it. */
typedef struct layer {
    const sb_knobs *knobs;
    const sb_matrix *weight;
    sb_linear_kind kind;
    sb_scalar input; /* the factor of the inputs that law factor_last applies later */
    size_t rows;
    const sb_bound_side *sides;
    size_t side_count;
    const double *mids;   /* (rows, K) inputs of all sides, if equal and without spread; or NULL */
    const double *widest; /* (rows) largest magnitude of each; NULL: no side needs it */
    sb_bound_codes codes; /* data of quantized inputs */
} layer;

/* Sums of LANES outputs, in the order of their terms. */
typedef struct sums {
    double sum[LANES], magnitude[LANES], peak[LANES], largest[LANES];
} sums;

static void sum_plain(const double *w, const double *x, size_t k, sums *s)
{
    double sum[LANES] = {0}, size[LANES] = {0};
    for (size_t i = 0; i < k; i++, w += LANES)
#pragma omp simd
        for (int j = 0; j < LANES; j++) {
            double product = w[j] * x[i];
            sum[j] += product;
            size[j] += sb_wide_abs(product);
        }
    memcpy(s->sum, sum, sizeof sum);
    memcpy(s->magnitude, size, sizeof size);
}

/* The same sums plus the values that T-50 needs. All versions share this loop. */
static inline __attribute__((always_inline)) void units_of(const double *w, const double *x,
                                                           size_t k, sums *s)
{
    double sum[LANES] = {0}, total[LANES] = {0}, largest[LANES] = {0}, peak[LANES] = {0};
    for (size_t i = 0; i < k; i++, w += LANES)
#pragma omp simd
        for (int j = 0; j < LANES; j++) {
            double product = w[j] * x[i], size = sb_wide_abs(product);
            sum[j] += product;
            total[j] += size;
            largest[j] = sb_larger(largest[j], size);
            peak[j] = sb_larger(peak[j], sb_wide_abs(sum[j]));
        }
    memcpy(s->sum, sum, sizeof sum);
    memcpy(s->magnitude, total, sizeof total);
    memcpy(s->largest, largest, sizeof largest);
    memcpy(s->peak, peak, sizeof peak);
}

static void units_anywhere(const double *w, const double *x, size_t k, sums *s)
{
    units_of(w, x, k, s);
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx2"))) static void units_avx2(const double *w, const double *x, size_t k,
                                                       sums *s)
{
    units_of(w, x, k, s);
}

/* Uses wider registers if the machine has them: the same operations give the same bits. */
static void sum_units(const double *w, const double *x, size_t k, sums *s)
{
    (__builtin_cpu_supports("avx2") ? units_avx2 : units_anywhere)(w, x, k, s);
}
#else
static void sum_units(const double *w, const double *x, size_t k, sums *s)
{
    units_anywhere(w, x, k, s);
}
#endif

static double widest_of(const double *x, size_t count)
{
    double widest = 0.0;
    for (size_t i = 0; i < count; i++)
        widest = sb_larger(widest, sb_wide_abs(x[i]));
    return widest;
}

/* LANES rows of weights, interleaved, and the largest magnitude of each; 0 if no side needs it. */
typedef struct lanes {
    double *w, widest[LANES];
} lanes;

/* The reductions of LANES rows of weights with inputs without spread. */
static void reduce_exact(const layer *l, const lanes *v, size_t t, sb_reduction r[LANES])
{
    size_t k = l->weight->cols;
    sums s = {.sum = {0}};
    (l->widest ? sum_units : sum_plain)(v->w, l->mids + t * k, k, &s);
    for (size_t j = 0; j < LANES; j++)
        r[j] = (sb_reduction){.sum = s.sum[j],
                              .magnitude = s.magnitude[j],
                              .peak = s.peak[j],
                              .largest = s.largest[j],
                              .a = v->widest[j],
                              .b = l->widest ? l->widest[t] : 0.0,
                              .n = k};
}

static void reduce_balls(const layer *l, const double *w, const sb_ball *x, sb_reduction r[LANES])
{
    for (size_t j = 0; j < LANES; j++) {
        r[j] = (sb_reduction){0};
        for (size_t i = 0; i < l->weight->cols; i++)
            sb_reduce(&r[j], (sb_ball){w[i * LANES + j], 0}, x[i]);
    }
}

/* T-7: "a linear output is one reduction". Computes `count` outputs from number `first` on. */
static void finish(const layer *l, const sb_bound_side *side, size_t t, size_t first, size_t count,
                   const sb_reduction *r)
{
    /* T-7: "the library may round weight, input and two factors first" */
    size_t extra = sb_matrix_quantized(l->weight) && side->ar->any_order ? 4 : 0;
    const sb_atom *unit = sb_bound_unit(side->ar, l->codes.scheme);
    for (size_t j = 0; j < count; j++) {
        sb_reduction sum = r[j];
        sum.n += extra;
        sb_ball y;
        if (unit)
            y = sb_ball_summed(side->ar, &sum,
                               sb_bound_codes_error(&l->codes, unit, first + j, t, &sum));
        else
            y = factor_last(side->ar, l->knobs, l->weight, &l->input,
                            sb_ball_reduced(side->ar, &sum));
        side->out[t * l->weight->rows + first + j] =
            sb_linear_stays_wide(l->knobs, l->kind) ? y : sb_ball_act(l->knobs, y);
    }
}

/* Outputs first .. first + LANES - 1 of all rows: each row of weights is decoded only once. */
static int bound_lanes(const layer *l, uint32_t first)
{
    size_t k = l->weight->cols, left = l->weight->rows - first, count = left < LANES ? left : LANES;
    float *rounded = sb_alloc(k, sizeof *rounded);
    double *row = sb_alloc(k * (LANES + 1), sizeof *row);
    lanes v = {.w = row ? row + k : NULL};
    int failed = !rounded || !row;
    for (uint32_t j = 0; j < count && !failed; j++) {
        weights_of(l->knobs, l->weight, first + j, rounded, row);
        for (size_t i = 0; i < k; i++)
            v.w[i * LANES + j] = row[i];
        v.widest[j] = l->widest ? widest_of(row, k) : 0.0;
    }
    for (size_t t = 0; t < l->rows && !failed; t++) {
        sb_reduction r[LANES];
        if (l->mids)
            reduce_exact(l, &v, t, r);
        for (size_t side = 0; side < l->side_count; side++) {
            if (!l->mids)
                reduce_balls(l, v.w, l->sides[side].in + t * k, r);
            finish(l, &l->sides[side], t, first, count, r);
        }
    }
    free(rounded);
    free(row);
    return failed;
}

typedef struct job {
    const layer *l;
    atomic_int failed;
} job;

static void some_lanes(void *ctx, size_t i, size_t worker)
{
    job *j = ctx;
    (void)worker;
    if (bound_lanes(j->l, (uint32_t)(i * LANES)))
        atomic_store(&j->failed, 1);
}

static sb_status bound_rows(const layer *l)
{
    size_t n = l->weight->rows;
    job j = {.l = l};
    sb_parallel_for((n + LANES - 1) / LANES, l->rows * n * l->weight->cols > ALONE, some_lanes, &j);
    return j.failed ? SB_ERR_MEMORY : SB_OK;
}

/* Inputs are balls, separate for each side. */
sb_status sb_bound_linear_of_sides(const sb_knobs *knobs, const sb_matrix *weight,
                                   sb_linear_kind kind, size_t rows, const sb_bound_side *sides,
                                   size_t count)
{
    size_t size = rows * weight->cols;
    sb_bound_side narrow[SB_BOUND_SIDES];
    sb_ball *in = sb_alloc(SB_BOUND_SIDES * size, sizeof *in);
    if (!in)
        return SB_ERR_MEMORY;
    for (size_t i = 0; i < count; i++) {
        narrow[i] = sides[i];
        narrow[i].in = in + i * size;
        narrow_input(knobs, weight, kind, sides[i].in, size, in + i * size);
    }
    const layer l = {.knobs = knobs,
                     .weight = weight,
                     .kind = kind,
                     .input = SB_SCALAR_ONE,
                     .rows = rows,
                     .sides = narrow,
                     .side_count = count};
    sb_status status = bound_rows(&l);
    free(in);
    return status;
}

sb_status sb_bound_linear_of(const sb_arithmetic *ar, const sb_knobs *knobs,
                             const sb_matrix *weight, sb_linear_kind kind, const sb_ball *in,
                             size_t rows, sb_ball *out)
{
    const sb_bound_side side = {.ar = ar, .in = in, .out = out};
    return sb_bound_linear_of_sides(knobs, weight, kind, rows, &side, 1);
}

/* The input as the layer multiplies it, quantized if the knobs say so, and its factor. */
static sb_status inputs_of(const sb_knobs *knobs, const sb_linear_args *a, double *in,
                           sb_scalar *input, sb_bound_codes *codes)
{
    size_t count = a->rows * a->weight->cols;
    sb_format format = sb_linear_input_format(knobs, a->weight, a->kind);
    sb_input quantized = {0};
    for (size_t i = 0; i < count; i++)
        in[i] = sb_ball_round_to(format, sb_ball_of(a->in[i])).mid;
    if (!sb_matrix_quantized(a->weight) || sb_input_scheme(knobs, a->weight) == SB_SCHEME_none)
        return SB_OK;
    sb_status status = sb_quantize_input(knobs, a->weight, a->in, a->rows, &quantized);
    double factor = (double)quantized.factor.mul[0] / (double)quantized.factor.div[0];
    *input = quantized.factor;
    for (size_t i = 0; i < count && !status; i++)
        in[i] = quantized.rounded ? (double)quantized.rounded[i] : quantized.values[i] * factor;
    if (!status)
        sb_bound_codes_of(knobs, a->weight, &quantized, codes);
    sb_input_free(&quantized);
    return status;
}

sb_status sb_bound_linear_sides(const sb_knobs *knobs, const sb_linear_args *a,
                                const sb_bound_side *sides, size_t count)
{
    const size_t k = a->weight->cols;
    double *mids = sb_alloc(a->rows * (k + 1), sizeof *mids);
    if (!mids)
        return SB_ERR_MEMORY;
    double *widest = mids + a->rows * k;
    layer l = {.knobs = knobs,
               .weight = a->weight,
               .kind = a->kind,
               .input = SB_SCALAR_ONE,
               .rows = a->rows,
               .sides = sides,
               .side_count = count,
               .mids = mids};
    for (size_t i = 0; i < count; i++)
        l.widest = sides[i].ar->atom ? widest : l.widest;
    sb_status status = inputs_of(knobs, a, mids, &l.input, &l.codes);
    for (size_t t = 0; t < a->rows && !status; t++)
        widest[t] = widest_of(mids + t * k, k);
    if (!status)
        status = bound_rows(&l);
    free(l.codes.scales);
    free(mids);
    return status;
}

sb_status sb_bound_linear_in(const sb_arithmetic *ar, const sb_knobs *knobs,
                             const sb_linear_args *a, const sb_ball *const *in, sb_ball *out,
                             sb_ball *second)
{
    (void)second;
    const sb_bound_side side = {.ar = ar, .in = in[0], .out = out};
    return in[0] ? sb_bound_linear_of_sides(knobs, a->weight, a->kind, a->rows, &side, 1)
                 : sb_bound_linear_sides(knobs, a, &side, 1);
}

/* R-13; T-6: "a copied value has radius 0" */
sb_status sb_bound_split_gate_in(const sb_arithmetic *ar, const sb_knobs *knobs,
                                 const sb_split_gate_args *a, const sb_ball *const *in,
                                 sb_ball *out, sb_ball *second)
{
    (void)ar, (void)knobs;
    for (size_t row = 0; row < a->rows * a->heads; row++) {
        sb_bound_row(in[0], a->in, row * 2 * a->hd, a->hd, out + row * a->hd);
        sb_bound_row(in[0], a->in, (row * 2 + 1) * a->hd, a->hd, second + row * a->hd);
    }
    return SB_OK;
}

/* "y = R( RN(o sigmoid(gate)) )" */
sb_status sb_bound_attn_gate_in(const sb_arithmetic *ar, const sb_knobs *knobs,
                                const sb_attn_gate_args *a, const sb_ball *const *in, sb_ball *out,
                                sb_ball *second)
{
    (void)second;
    for (size_t i = 0; i < a->count; i++) {
        sb_ball open = sb_ball_sigmoid(ar, sb_bound_at(in[1], a->gate, i));
        if (SB_IS(knobs, attn_gate, act))
            open = sb_ball_act(knobs, open);
        out[i] = sb_ball_act(knobs, sb_ball_mul(ar, sb_bound_at(in[0], a->in, i), open));
    }
    return SB_OK;
}

/* "a = R( RN(silu(gate) up) )" */
void sb_bound_swiglu_of(const sb_arithmetic *ar, const sb_knobs *knobs, sb_mlp_kind kind,
                        const sb_ball *gate, const sb_ball *up, size_t count, sb_ball *out)
{
    int rounds = sb_rounds_silu(knobs, kind);
    for (size_t i = 0; i < count; i++) {
        sb_ball activated = sb_ball_silu(ar, gate[i]);
        if (rounds)
            activated = sb_ball_act(knobs, activated);
        out[i] = sb_ball_act(knobs, sb_ball_mul(ar, activated, up[i]));
    }
}

sb_status sb_bound_swiglu_in(const sb_arithmetic *ar, const sb_knobs *knobs,
                             const sb_swiglu_args *a, const sb_ball *const *in, sb_ball *out,
                             sb_ball *second)
{
    (void)second;
    for (size_t i = 0; i < a->count; i++) {
        sb_ball gate = sb_bound_at(in[0], a->gate, i), up = sb_bound_at(in[1], a->up, i);
        sb_bound_swiglu_of(ar, knobs, a->kind, &gate, &up, 1, out + i);
    }
    return SB_OK;
}

/* "x = R( RN(x + y) )"; K-53: "f32 leaves the sums of R-18, and so the inputs of the norms,
 * in binary32" */
sb_status sb_bound_add_in(const sb_arithmetic *ar, const sb_knobs *knobs, const sb_add_args *a,
                          const sb_ball *const *in, sb_ball *out, sb_ball *second)
{
    for (size_t i = 0; i < a->count; i++) {
        sb_ball sum = sb_ball_add(ar, sb_bound_at(in[0], a->a, i), sb_bound_at(in[1], a->b, i));
        if (second)
            second[i] = sum;
        out[i] = SB_IS(knobs, residual, f32) ? sum : sb_ball_act(knobs, sum);
    }
    return SB_OK;
}

sb_status sb_bound_feed_forward(const sb_arithmetic *ar, const sb_knobs *knobs, sb_mlp_kind kind,
                                const sb_matrix *gate, const sb_matrix *up, const sb_matrix *down,
                                const float *in, size_t rows, sb_ball *out)
{
    sb_linear_kind last = kind == SB_MLP_expert ? SB_LINEAR_expert_down : SB_LINEAR_layer;
    sb_linear_kind first = kind == SB_MLP_expert ? SB_LINEAR_expert_in : SB_LINEAR_layer;
    const sb_linear_args to_gate = {.weight = gate, .kind = first, .in = in, .rows = rows},
                         to_up = {.weight = up, .kind = first, .in = in, .rows = rows};
    size_t inner = rows * gate->rows;
    sb_ball *g = sb_alloc(2 * inner, sizeof *g), *u = g ? g + inner : NULL;
    sb_status status = g ? SB_OK : SB_ERR_MEMORY;
    if (!status && sb_matrix_quantized(down) && sb_input_scheme(knobs, down) != SB_SCHEME_none)
        status = SB_ERR_UNSUPPORTED;
    if (!status)
        status = sb_bound_linear(ar, knobs, &to_gate, g, NULL);
    if (!status)
        status = sb_bound_linear(ar, knobs, &to_up, u, NULL);
    if (!status) {
        sb_bound_swiglu_of(ar, knobs, kind, g, u, inner, g);
        status = sb_bound_linear_of(ar, knobs, down, last, g, rows, out);
    }
    free(g);
    return status;
}
