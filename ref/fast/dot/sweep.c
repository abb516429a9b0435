#include "ref/fast/dot/sweep.h"

#include "ref/fast/dot/dot.h"
#include "ref/fast/dot/kernels.h"
#include "ref/fast/dot/lanes.h"

/* Let M be the largest magnitude of a column. The sum of its products with a is one chain of
 * additions, with an error of at most sb_lanes_coefficient(n) sum |a_i| M. The sum of magnitudes
 * has its own chain of n <= SB_SWEEP_ROWS additions, whose error is far below the 2^-16 in the
 * coefficient. In sb_sweep_add, M is at most the sum of three numbers: the largest magnitude
 * before, the largest |k| times |d_j|, and 2^-149. The factor 1 + 2^-20 covers two roundings of
 * this sum to binary32. */
void sb_sweeper_set(sb_sweeper *a, const float *x, size_t n)
{
    double size = 0;
    a->x = x;
    a->n = n;
    a->most = 0;
    for (size_t i = 0; i < n && n <= SB_SWEEP_ROWS; i++) {
        a->wide[i] = x[i];
        size += sb_absolute(x[i]);
        a->most = (float)sb_absolute(x[i]) > a->most ? (float)sb_absolute(x[i]) : a->most;
    }
    a->reach = size * sb_lanes_coefficient(n) * (1 + 0x1p-20);
}

/* The number of columns in whole vectors; plain C does the rest. */
static size_t whole(const sb_lane_kernels *lanes, const sb_columns *s, const sb_sweeper *a)
{
    if (!lanes || a->n > SB_SWEEP_ROWS)
        return 0;
    return s->columns - s->columns % lanes->width;
}

/* Computes the results that a kernel left open, one bit each. */
static void settle_columns(const sb_columns *s, uint32_t open, const sb_sweeper *a, float *out)
{
    for (size_t j = 0; open != 0; j++, open >>= 1)
        if (open & 1u)
            out[j] = sb_dot_strided(a->x, 1, s->at + j, s->stride, s->rows);
}

static sb_lanes_sweep sweep_of(const sb_columns *s, size_t columns, const sb_sweeper *a)
{
    return (sb_lanes_sweep){.s = s->at,
                            .stride = s->stride,
                            .rows = s->rows,
                            .columns = columns,
                            .a = a->wide,
                            .reach = a->reach,
                            .ahead = s->ahead};
}

void sb_sweep_scale(sb_columns *s, float decay, const sb_sweeper *a, float *out)
{
    const sb_lane_kernels *lanes = sb_lanes();
    size_t done = whole(lanes, s, a);
    if (done) {
        sb_lanes_sweep t = sweep_of(s, done, a);
        t.decay = decay;
        settle_columns(s, lanes->sweep_scale(&t, s->most, out), a, out);
    }
    if (done == s->columns)
        return;
    for (size_t i = 0; i < s->rows; i++)
        for (size_t j = done; j < s->columns; j++)
            s->at[i * s->stride + j] = decay * s->at[i * s->stride + j];
    sb_dot_columns(a->x, 1, s->at + done, s->stride, s->rows, s->columns - done, out + done);
}

void sb_sweep_add(sb_columns *s, const sb_sweeper *k, const float *d, const sb_sweeper *a,
                  float *out)
{
    const sb_lane_kernels *lanes = sb_lanes();
    size_t done = whole(lanes, s, a);
    if (done) {
        sb_lanes_sweep t = sweep_of(s, done, a);
        t.k = k->x;
        t.k_most = k->most;
        t.d = d;
        settle_columns(s, lanes->sweep_add(&t, s->most, out), a, out);
    }
    if (done == s->columns)
        return;
    for (size_t i = 0; i < s->rows; i++)
        for (size_t j = done; j < s->columns; j++) {
            float outer = k->x[i] * d[j];
            s->at[i * s->stride + j] = s->at[i * s->stride + j] + outer;
        }
    sb_dot_columns(a->x, 1, s->at + done, s->stride, s->rows, s->columns - done, out + done);
}
