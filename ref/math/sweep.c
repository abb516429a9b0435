#include "ref/math/sweep.h"

#include "ref/math/dot.h"
#include "ref/math/kernels.h"
#include "ref/math/lanes.h"

/* Let M be the largest magnitude of a column. Its sum with a, of one chain of additions, is off by
 * at most sb_lanes_coefficient(n) sum |a_i| M. */
void sb_sweeper_set(sb_sweeper *a, const float *x, size_t n)
{
    double size = 0;
    a->x = x;
    a->n = n;
    for (size_t i = 0; i < n && n <= SB_SWEEP_ROWS; i++) {
        a->wide[i] = x[i];
        size += sb_absolute(x[i]);
    }
    a->reach = size * sb_lanes_coefficient(n);
}

/* The columns that are whole vectors; the rest is done in plain C. */
static size_t whole(const sb_lane_kernels *lanes, const sb_columns *s, const sb_sweeper *a)
{
    if (!lanes || a->n > SB_SWEEP_ROWS)
        return 0;
    return s->columns - s->columns % lanes->width;
}

/* What a kernel left open, one bit each. */
static void settle(const sb_columns *s, uint32_t open, const sb_sweeper *a, float *out)
{
    for (size_t j = 0; open != 0; j++, open >>= 1)
        if (open & 1u)
            out[j] = sb_dot_strided(a->x, 1, s->at + j, s->stride, s->rows);
}

void sb_sweep_scale(const sb_columns *s, float decay, const sb_sweeper *a, float *out)
{
    const sb_lane_kernels *lanes = sb_lanes();
    size_t done = whole(lanes, s, a);
    if (done)
        settle(s,
               lanes->sweep_scale(s->at, s->stride, s->rows, done, decay, a->wide, a->reach, out),
               a, out);
    if (done == s->columns)
        return;
    for (size_t i = 0; i < s->rows; i++)
        for (size_t j = done; j < s->columns; j++)
            s->at[i * s->stride + j] = decay * s->at[i * s->stride + j];
    sb_dot_columns(a->x, 1, s->at + done, s->stride, s->rows, s->columns - done, out + done);
}

void sb_sweep_add(const sb_columns *s, const float *k, const float *d, const sb_sweeper *a,
                  float *out)
{
    const sb_lane_kernels *lanes = sb_lanes();
    size_t done = whole(lanes, s, a);
    if (done)
        settle(s, lanes->sweep_add(s->at, s->stride, s->rows, done, k, d, a->wide, a->reach, out),
               a, out);
    if (done == s->columns)
        return;
    for (size_t i = 0; i < s->rows; i++)
        for (size_t j = done; j < s->columns; j++) {
            float outer = k[i] * d[j];
            s->at[i * s->stride + j] = s->at[i * s->stride + j] + outer;
        }
    sb_dot_columns(a->x, 1, s->at + done, s->stride, s->rows, s->columns - done, out + done);
}
