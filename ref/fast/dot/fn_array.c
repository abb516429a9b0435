#include "ref/fast/dot/fn_array.h"

#include "ref/math/fn.h"
#include "ref/fast/dot/lanes.h"

enum { PIECE = 256 };

typedef float one_fn(float x);
typedef size_t many_fn(const float *x, size_t n, float *out, uint32_t *open);

/* Applies the kernel to pieces of the array. `one` computes the values that the kernel leaves open
 * and those that do not fill a vector. */
static void many(const float *x, size_t n, float *out, many_fn *kernel, size_t width, one_fn *one)
{
    uint32_t open[PIECE];
    size_t whole = kernel ? n - n % width : 0;
    for (size_t i = 0, count; i < whole; i += count) {
        count = whole - i < PIECE ? whole - i : PIECE;
        size_t left = kernel(x + i, count, out + i, open);
        for (size_t o = 0; o < left; o++) /* the kernel has stored x there */
            out[i + open[o]] = one(out[i + open[o]]);
    }
    for (size_t i = whole; i < n; i++)
        out[i] = one(x[i]);
}

void sb_exp_array(const float *x, size_t n, float *out)
{
    const sb_lane_kernels *lanes = sb_lanes();
    many(x, n, out, lanes ? lanes->exp : NULL, lanes ? lanes->width : 1, sb_exp);
}

void sb_sigmoid_array(const float *x, size_t n, float *out)
{
    const sb_lane_kernels *lanes = sb_lanes();
    many(x, n, out, lanes ? lanes->sigmoid : NULL, lanes ? lanes->width : 1, sb_sigmoid);
}

void sb_silu_array(const float *x, size_t n, float *out)
{
    const sb_lane_kernels *lanes = sb_lanes();
    many(x, n, out, lanes ? lanes->silu : NULL, lanes ? lanes->width : 1, sb_silu);
}

float sb_largest_of(const float *x, size_t n)
{
    enum { LANES = 16 };
    float largest[LANES];
    size_t i = 1;
    for (size_t l = 0; l < LANES; l++)
        largest[l] = x[0];
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            largest[l] = x[i + l] > largest[l] ? x[i + l] : largest[l];
    for (; i < n; i++)
        largest[0] = x[i] > largest[0] ? x[i] : largest[0];
    for (size_t l = 1; l < LANES; l++)
        largest[0] = largest[l] > largest[0] ? largest[l] : largest[0];
    return largest[0];
}
