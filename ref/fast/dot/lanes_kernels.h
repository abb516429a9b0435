/* lanes_kernels.h - the kernels of lanes.h. They use the lanes of the lanes_*.h that the source
 * includes first.
 *
 * Every product of two binary32 values is exact, so d_mul_add rounds only once even where it
 * consists of two instructions. */
#ifndef SB_DOT_LANES_KERNELS_H
#define SB_DOT_LANES_KERNELS_H

#include "ref/fast/dot/lanes.h"

/* A few rows are changed and stored, then loaded again as doubles, which is faster than splitting
 * registers. */
enum { ROWS_AT_ONCE = 8, LINE = 16 /* floats of one prefetch */ };

/* The values of row i of s at `at` after the change of the sweep. */
LANES_INLINE vf change(const sb_lanes_sweep *t, size_t i, const float *at, size_t j)
{
    if (t->d)
        return f_add(f_load(at), f_mul(f_set(t->k[i]), f_load(t->d + j)));
    return f_mul(f_set(t->decay), f_load(at));
}

/* Sweeps `groups` times 2 W columns from column j on. */
LANES_INLINE uint32_t sweep_groups(const sb_lanes_sweep *t, size_t j, size_t groups, float *most,
                                   float *out)
{
    vd low[2], high[2];
    vf largest[2];
    uint32_t open = 0;
    for (size_t g = 0; g < groups; g++) {
        low[g] = high[g] = d_set(0);
        largest[g] = f_set(0);
    }
    for (size_t i = 0, some; i < t->rows; i += some) {
        float *at = t->s + i * t->stride + j;
        some = t->rows - i < ROWS_AT_ONCE ? t->rows - i : ROWS_AT_ONCE;
        for (size_t u = 0; u < some; u++)
            for (size_t g = 0; g < groups; g++) {
                float *here = at + u * t->stride + g * 2 * W;
                const vf row = change(t, i + u, here, j + g * 2 * W);
                f_store(here, row);
                if (!t->d)
                    largest[g] = f_most(largest[g], row);
            }
        for (size_t u = 0; u < some; u++, at += t->stride) {
            const vd factor = d_set(t->a[i + u]);
            for (size_t g = 0; g < groups; g++) {
                low[g] = d_mul_add(d_widen(at + g * 2 * W), factor, low[g]);
                high[g] = d_mul_add(d_widen(at + g * 2 * W + W), factor, high[g]);
            }
            if (t->ahead && j == 0)
                __builtin_prefetch(t->ahead + (i + u) * LINE, 1, 2);
        }
    }
    for (size_t g = 0; g < groups; g++, j += 2 * W) {
        if (!t->d)
            f_store(most + j, largest[g]);
        const vf size = f_load(most + j);
        const vd reach = d_set(t->reach);
        vd bound[2] = {f_low(size), f_high(size)};
        for (size_t l = 0; t->d && l < 2; l++) {
            const vd added = d_mul(d_abs(d_widen(t->d + j + l * W)), d_set(t->k_most));
            bound[l] = d_add(d_add(bound[l], added), d_set(0x1p-149));
        }
        open |= d_round(low[g], d_mul(bound[0], reach), out + j) << j;
        open |= d_round(high[g], d_mul(bound[1], reach), out + j + W) << (j + W);
    }
    return open;
}

LANES_INLINE uint32_t sweep(const sb_lanes_sweep *t, float *most, float *out)
{
    uint32_t open = 0;
    size_t j = 0;
    for (; j + (size_t)4 * W <= t->columns; j += (size_t)4 * W)
        open |= sweep_groups(t, j, 2, most, out);
    if (j < t->columns)
        open |= sweep_groups(t, j, 1, most, out);
    return open;
}

LANES_TARGET static uint32_t sweep_scale(const sb_lanes_sweep *t, float *most, float *out)
{
    sb_lanes_sweep scale = *t;
    scale.d = NULL; /* so that the compiler knows this value */
    return sweep(&scale, most, out);
}

LANES_TARGET static uint32_t sweep_add(const sb_lanes_sweep *t, float *most, float *out)
{
    sb_lanes_sweep add = *t;
    if (!add.d)
        return 0;
    return sweep(&add, most, out);
}

/* Writes the rows of a tile as doubles, in groups of W columns of all rows. Rows past the last one
 * are 0. most[u] is the largest magnitude of row u. */
LANES_INLINE void widen_tile(const sb_lanes_tile *t, double *tile, double *most)
{
    for (size_t u = 0; u < SB_LANES_ROWS; u++) {
        const float *row = t->b + u * t->b_stride;
        const float *ahead = t->ahead ? t->ahead + u * t->b_stride : row;
        double *to = tile + u * W;
        vf largest = f_set(0);
        for (size_t i = 0; i < t->n; i += 2 * W, to += (size_t)2 * SB_LANES_ROWS * W) {
            const vf x = u < t->rows ? f_load(row + i) : f_set(0);
            largest = f_most(largest, x);
            d_store(to, f_low(x));
            d_store(to + (size_t)SB_LANES_ROWS * W, f_high(x));
            if (u < t->rows)
                __builtin_prefetch(ahead + i);
        }
        most[u] = (double)f_largest(largest);
    }
}

/* Multiplies `count` inputs with the rows of a tile; sums is (count, SB_LANES_ROWS). */
LANES_INLINE void dot_tile(const double *a, size_t count, const double *tile, size_t n,
                           double *sums)
{
    vd acc[DOTS_AT_ONCE][SB_LANES_ROWS];
    for (size_t h = 0; h < count; h++)
        for (size_t u = 0; u < SB_LANES_ROWS; u++)
            acc[h][u] = d_set(0);
    for (size_t i = 0; i < n; i += W, tile += (size_t)SB_LANES_ROWS * W) {
        vd x[DOTS_AT_ONCE];
        for (size_t h = 0; h < count; h++)
            x[h] = d_load(a + h * n + i);
        for (size_t u = 0; u < SB_LANES_ROWS; u++) {
            const vd row = d_load(tile + u * W);
            for (size_t h = 0; h < count; h++)
                acc[h][u] = d_mul_add(x[h], row, acc[h][u]);
        }
    }
    for (size_t h = 0; h < count; h++)
        d_totals(acc[h], sums + h * SB_LANES_ROWS);
}

LANES_TARGET static void dot_tiles(const sb_lanes_tile *t, float *out, size_t out_stride,
                                   uint8_t *open)
{
    double tile[SB_LANES_TERMS * SB_LANES_ROWS], most[SB_LANES_ROWS];
    double sums[SB_LANES_HEADS * SB_LANES_ROWS];
    size_t h = 0;
    widen_tile(t, tile, most);
    for (; h + DOTS_AT_ONCE <= t->heads; h += DOTS_AT_ONCE)
        dot_tile(t->a + h * t->n, DOTS_AT_ONCE, tile, t->n, sums + h * SB_LANES_ROWS);
    for (; h < t->heads; h++)
        dot_tile(t->a + h * t->n, 1, tile, t->n, sums + h * SB_LANES_ROWS);
    for (h = 0; h < t->heads; h++) {
        float rounded[SB_LANES_ROWS];
        unsigned mask = 0;
        for (size_t u = 0; u < SB_LANES_ROWS; u += W) {
            const vd sum = d_mul(d_load(sums + h * SB_LANES_ROWS + u), d_set(t->factor));
            const vd bound = d_mul(d_load(most + u), d_set(t->reach[h]));
            mask |= d_round(sum, bound, rounded + u) << u;
        }
        for (size_t u = 0; u < t->rows; u++)
            out[h * out_stride + u] = rounded[u];
        open[h] = (uint8_t)(mask & ((1u << t->rows) - 1));
    }
}

/* Adds the weighted rows for HEADS_AT_ONCE heads and 2 W columns. */
LANES_INLINE void weigh_group(const sb_lanes_weighing *t, const double *p, const float *v,
                              double *sum)
{
    vd low[HEADS_AT_ONCE], high[HEADS_AT_ONCE];
    for (size_t h = 0; h < HEADS_AT_ONCE; h++)
        low[h] = high[h] = d_set(0);
    for (size_t u = 0; u < t->rows; u++, v += t->v_stride, p += SB_LANES_HEADS) {
        const vd left = d_widen(v), right = d_widen(v + W);
        for (size_t h = 0; h < HEADS_AT_ONCE; h++) {
            const vd weight = d_set(p[h]);
            low[h] = d_mul_add(weight, left, low[h]);
            high[h] = d_mul_add(weight, right, high[h]);
        }
    }
    for (size_t h = 0; h < HEADS_AT_ONCE; h++, sum += t->columns) {
        d_store(sum, d_add(d_load(sum), low[h]));
        d_store(sum + W, d_add(d_load(sum + W), high[h]));
    }
}

LANES_TARGET static void weigh_tile(const sb_lanes_weighing *t, double *sum, float *most)
{
    for (size_t u = 0; u < t->rows; u++) {
        const float *row = t->v + u * t->v_stride;
        const float *ahead = t->ahead ? t->ahead + u * t->v_stride : row;
        for (size_t i = 0; i < t->columns; i += 2 * W) {
            f_store(most + i, f_most(f_load(most + i), f_load(row + i)));
            __builtin_prefetch(ahead + i);
        }
    }
    for (size_t i = 0; i < t->columns; i += 2 * W)
        for (size_t h = 0; h < SB_LANES_HEADS; h += HEADS_AT_ONCE)
            weigh_group(t, t->p + h, t->v + i, sum + h * t->columns + i);
}

LANES_TARGET static uint32_t dots(const sb_dots_term *terms, size_t n, size_t from, size_t count,
                                  double coefficient, float *out)
{
    uint32_t open = 0;
    for (size_t j = 0; j < count; j += W) {
        vd sum = d_set(0), magnitude = d_set(0);
        for (size_t t = 0; t < n; t++) {
            const vd a = d_widen(terms[t].a + from + j);
            const vd b =
                terms[t].b_stride ? d_widen(terms[t].b + from + j) : d_set((double)terms[t].b[0]);
            sum = d_mul_add(a, b, sum);
            magnitude = d_mul_add(d_abs(a), d_abs(b), magnitude);
        }
        open |= (uint32_t)d_round(sum, d_mul(magnitude, d_set(coefficient)), out + j) << j;
    }
    return open;
}

LANES_TARGET static void sum_lanes(const float *a, size_t n, double *sum, double *magnitude)
{
    vd s[2] = {d_set(0), d_set(0)}, m[2] = {d_set(0), d_set(0)};
    for (size_t i = 0; i < n; i += 2 * W)
        for (size_t l = 0; l < 2; l++) {
            const vd x = d_widen(a + i + l * W);
            s[l] = d_add(s[l], x);
            m[l] = d_add(m[l], d_abs(x));
        }
    *sum += d_total(d_add(s[0], s[1]));
    *magnitude += d_total(d_add(m[0], m[1]));
}

#define LANES_KERNELS                                                                              \
    .width = 2 * W, .sweep_scale = sweep_scale, .sweep_add = sweep_add, .tile = dot_tiles,         \
    .weigh = weigh_tile, .dots = dots, .sum = sum_lanes

#endif
