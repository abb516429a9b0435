#include "ref/fast/dot/product.h"

#include <string.h>

#include "ref/fast/dot/dot.h"
#include "ref/fast/dot/kernels.h"
#include "ref/fast/dot/lanes.h"

enum { BLOCK = 256 /* rows of a block */, AHEAD = 2 /* tiles */ };

/* factor dot(a, b), for results that kernels leave open. All such results of this file are computed
 * here. */
static float one_dot(const float *a, const float *b, size_t stride, size_t n, float factor)
{
    if (factor == 1.0f)
        return sb_dot_strided(a, 1, b, stride, n);
    sb_scalar scalar = SB_SCALAR_ONE;
    scalar.mul[0] = factor;
    sb_exact acc;
    sb_exact_clear(&acc);
    for (size_t i = 0; i < n; i++)
        sb_exact_add_product(&acc, a[i], b[i * stride]);
    return sb_exact_round_scaled(&acc, &scalar);
}

/* The kernels, or NULL if they do not support rows of n values. */
static const sb_lane_kernels *lanes_for(size_t n)
{
    const sb_lane_kernels *lanes = sb_lanes();
    return lanes && n > 0 && n <= SB_LANES_TERMS && n % lanes->width == 0 ? lanes : NULL;
}

/* Multiplies at most SB_LANES_HEADS inputs with all rows. With W lanes, a product passes through n
 * / W additions within its lane and fewer than W additions that join the lanes. Let M be the
 * largest magnitude of a row. Then the error of a sum is at most sb_lanes_coefficient(n / W + W)
 * sum |a_i| M. The sum of the |a_i| is one chain of n <= SB_LANES_TERMS additions, possibly more
 * than the coefficient counts. Its rounding error is far below the reserve of 2^-16 in the
 * coefficient. */
static void dots_by_tiles(const sb_lane_kernels *lanes, const float *a, size_t heads,
                          const sb_rows *b, float *out, size_t out_stride)
{
    double wide[SB_LANES_HEADS * SB_LANES_TERMS], reach[SB_LANES_HEADS];
    sb_lanes_tile t = {.a = wide, .b_stride = b->stride, .heads = heads, .n = b->n, .reach = reach};
    const size_t lane_count = lanes->width / 2, deep = b->n / lane_count + lane_count;
    t.factor = b->factor;
    for (size_t h = 0; h < heads; h++) {
        double size = 0;
        for (size_t i = 0; i < b->n; i++) {
            wide[h * b->n + i] = a[h * b->n + i];
            size += sb_absolute(a[h * b->n + i]);
        }
        reach[h] = size * sb_lanes_coefficient(deep) * sb_absolute(b->factor);
    }
    for (size_t u = 0; u < b->count; u += SB_LANES_ROWS) {
        uint8_t open[SB_LANES_HEADS];
        const size_t next = u + (size_t)AHEAD * SB_LANES_ROWS;
        t.b = b->at + u * b->stride;
        t.rows = b->count - u < SB_LANES_ROWS ? b->count - u : SB_LANES_ROWS;
        t.ahead = next + SB_LANES_ROWS <= b->count ? b->at + next * b->stride : NULL;
        lanes->tile(&t, out + u, out_stride, open);
        for (size_t h = 0; h < heads; h++)
            for (unsigned l = 0, left = open[h]; left >> l != 0; l++)
                if (left >> l & 1u)
                    out[h * out_stride + u + l] =
                        one_dot(a + h * b->n, t.b + l * b->stride, 1, b->n, b->factor);
    }
}

void sb_product_dots(const float *a, size_t heads, const sb_rows *b, float *out, size_t out_stride)
{
    const sb_lane_kernels *lanes = lanes_for(b->n);
    for (size_t h = 0, some; h < heads; h += some) {
        some = heads - h < SB_LANES_HEADS ? heads - h : SB_LANES_HEADS;
        if (lanes)
            dots_by_tiles(lanes, a + h * b->n, some, b, out + h * out_stride, out_stride);
        else
            for (size_t each = h; each < h + some; each++)
                for (size_t u = 0; u < b->count; u++)
                    out[each * out_stride + u] =
                        one_dot(a + each * b->n, b->at + u * b->stride, 1, b->n, b->factor);
    }
}

/* The sums of one block of rows, for at most SB_LANES_HEADS heads: sum is (SB_LANES_HEADS, n),
 * `most` (n) has the largest magnitudes, and weight[h] is the sum of |p|. */
typedef struct block {
    double sum[SB_LANES_HEADS * SB_LANES_TERMS], weight[SB_LANES_HEADS];
    float most[SB_LANES_TERMS];
} block;

static void weigh_block(const sb_lane_kernels *lanes, const float *p, size_t p_stride, size_t heads,
                        const sb_rows *v, size_t from, size_t to, block *b)
{
    double weights[SB_LANES_POSITIONS * SB_LANES_HEADS] = {0};
    sb_lanes_weighing t = {.p = weights, .v_stride = v->stride, .columns = v->n};
    memset(b->sum, 0, SB_LANES_HEADS * v->n * sizeof *b->sum);
    memset(b->weight, 0, sizeof b->weight);
    memset(b->most, 0, v->n * sizeof *b->most);
    for (size_t u = from; u < to; u += SB_LANES_POSITIONS) {
        const size_t next = u + SB_LANES_POSITIONS;
        t.v = v->at + u * v->stride;
        t.rows = to - u < SB_LANES_POSITIONS ? to - u : SB_LANES_POSITIONS;
        t.ahead = next + SB_LANES_POSITIONS <= v->count ? v->at + next * v->stride : NULL;
        for (size_t h = 0; h < heads; h++)
            for (size_t l = 0; l < t.rows; l++) {
                const double weight = p[h * p_stride + u + l];
                weights[l * SB_LANES_HEADS + h] = weight;
                b->weight[h] += sb_absolute(weight);
            }
        lanes->weigh(&t, b->sum, b->most);
    }
}

/* Adds up the tiles of each block, and the blocks of a part. */
static void weigh_part(const sb_lane_kernels *lanes, const float *p, size_t p_stride, size_t heads,
                       const sb_rows *v, size_t part, double *sum, double *magnitude)
{
    block b;
    size_t from = part * SB_PRODUCT_PART, end = from + SB_PRODUCT_PART;
    end = end < v->count ? end : v->count;
    memset(sum, 0, heads * v->n * sizeof *sum);
    memset(magnitude, 0, heads * v->n * sizeof *magnitude);
    for (; from < end; from += BLOCK) {
        weigh_block(lanes, p, p_stride, heads, v, from, from + BLOCK < end ? from + BLOCK : end,
                    &b);
        for (size_t h = 0; h < heads; h++)
            for (size_t i = 0; i < v->n; i++) {
                sum[h * v->n + i] += b.sum[h * v->n + i];
                magnitude[h * v->n + i] += b.weight[h] * (double)b.most[i];
            }
    }
}

void sb_product_part(const float *p, size_t p_stride, size_t heads, const sb_rows *v, size_t part,
                     double *sum, double *magnitude)
{
    const sb_lane_kernels *lanes = lanes_for(v->n);
    sum += part * heads * v->n;
    magnitude += part * heads * v->n;
    for (size_t h = 0; lanes && h < heads; h += SB_LANES_HEADS)
        weigh_part(lanes, p + h * p_stride, p_stride,
                   heads - h < SB_LANES_HEADS ? heads - h : SB_LANES_HEADS, v, part, sum + h * v->n,
                   magnitude + h * v->n);
}

/* A product passes through at most the additions within its tile, its block and its part, and those
 * that join the parts. The weights in the magnitude pass through more, up to BLOCK additions in one
 * chain. These roundings reduce the weights at most by the factor 1 - BLOCK u, u = 2^-53; the 2^-16
 * in error_bound() of dot.c covers this, too. */
void sb_product_join(const float *p, size_t heads, size_t h, const sb_rows *v, const double *sum,
                     const double *magnitude, float *out)
{
    enum { DEEP = SB_LANES_POSITIONS + BLOCK / SB_LANES_POSITIONS + SB_PRODUCT_PART / BLOCK };
    const size_t parts = sb_product_parts(v->count);
    const int fast = lanes_for(v->n) != NULL;
    for (size_t i = 0; i < v->n; i++) {
        sb_partial total = {0, 0};
        for (size_t part = 0; fast && part < parts; part++) {
            total.sum += sum[(part * heads + h) * v->n + i];
            total.magnitude += magnitude[(part * heads + h) * v->n + i];
        }
        total.sum = total.sum * (double)v->factor;
        total.magnitude = total.magnitude * sb_absolute(v->factor);
        if (!fast || !sb_round_certain(total, DEEP + parts, &out[i]))
            out[i] = one_dot(p, v->at + i, v->stride, v->count, v->factor);
    }
}
