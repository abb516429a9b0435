#include "ref/formats/format.h"
#include "ref/formats/small_float.h"
#include "ref/fast/dot/kernels.h"
#include "ref/fast/dot/tile.h"

/* The number of independent sums, so that an addition need not wait for the one before. */
enum { LANES = 4 };

static inline double value_at(const void *w, sb_format format, size_t i)
{
    if (format == SB_FORMAT_f32)
        return ((const float *)w)[i];
    uint16_t code = sb_load_u16((const unsigned char *)w + 2 * i);
    return format == SB_FORMAT_bf16 ? sb_bf16_to_f32(code) : sb_f16_to_f32(code);
}

static inline void add_term(sb_partial *lane, double w, double x)
{
    double product = w * x; /* exact if both factors have 24 bits */
    lane->sum += product;
    lane->magnitude += sb_absolute(product);
}

static inline sb_partial dot(const void *w, sb_format format, const float *x, size_t n)
{
    sb_partial lane[LANES] = {{0, 0}, {0, 0}, {0, 0}, {0, 0}};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        add_term(&lane[0], value_at(w, format, i), x[i]);
        add_term(&lane[1], value_at(w, format, i + 1), x[i + 1]);
        add_term(&lane[2], value_at(w, format, i + 2), x[i + 2]);
        add_term(&lane[3], value_at(w, format, i + 3), x[i + 3]);
    }
    for (; i < n; i++)
        add_term(&lane[0], value_at(w, format, i), x[i]);
    for (size_t l = 1; l < LANES; l++) {
        lane[0].sum += lane[l].sum;
        lane[0].magnitude += lane[l].magnitude;
    }
    return lane[0];
}

static sb_partial dot_f32(const float *a, const float *b, size_t n)
{
    return dot(a, SB_FORMAT_f32, b, n);
}

static sb_partial dot_bf16(const unsigned char *w, const float *x, size_t n)
{
    return dot(w, SB_FORMAT_bf16, x, n);
}

static sb_partial dot_f16(const unsigned char *w, const float *x, size_t n)
{
    return dot(w, SB_FORMAT_f16, x, n);
}

static sb_partial dot_f64(const double *a, const double *b, size_t n)
{
    sb_partial even = {0, 0}, odd = {0, 0};
    size_t i = 0;
    for (; i + 2 <= n; i += 2) {
        add_term(&even, a[i], b[i]);
        add_term(&odd, a[i + 1], b[i + 1]);
    }
    if (i < n)
        add_term(&even, a[i], b[i]);
    return (sb_partial){even.sum + odd.sum, even.magnitude + odd.magnitude};
}

static void dot_columns(const float *a, size_t stride_a, const float *b, size_t stride_b, size_t n,
                        size_t count, sb_partial *partials)
{
    for (size_t j = 0; j < count; j++)
        partials[j] = (sb_partial){0, 0};
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < count; j++)
            add_term(&partials[j], a[i * stride_a], b[i * stride_b + j]);
}

/* Reads `count` elements of a row of codes from i on; count is at most BLOCK, and i a multiple of
 * BLOCK. */
enum { BLOCK = 16 };

static inline void load_block(const sb_row_codes *w, sb_format format, size_t i, size_t count,
                              float *values)
{
    const unsigned char *at = w->codes + i * sb_format_bits(format) / 8;
    if (sb_format_bits(format) == 4)
        sb_nibble_decode(format, at, count, values);
    else
        sb_decode(format, at, count, values);
}

/* Sums the products of a block. A product may be rounded and is added to one of LANES sums. It
 * passes through at most 6 roundings. */
static inline double block_sum(const float *values, double zero, const double *x, size_t count)
{
    double lane[LANES] = {0};
    size_t k = 0;
    for (; k + LANES <= count; k += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] += ((double)values[k + l] - zero) * x[k + l];
    for (; k < count; k++)
        lane[0] += ((double)values[k] - zero) * x[k];
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

/* A product passes through the roundings of block_sum, one at its scale, and one at each block.
 * row.h allows more. */
static inline sb_partial row_of(sb_format format, const sb_row_codes *w, const sb_row_input *x)
{
    sb_partial total = {0, 0};
    for (size_t i = 0; i < w->n; i += BLOCK) {
        const size_t count = w->n - i < BLOCK ? w->n - i : BLOCK, g = i / w->group;
        const double scale = w->scales ? w->scales[g] : 1, zero = w->zeros ? w->zeros[g] : 0;
        float values[BLOCK];
        double largest = 0;
        load_block(w, format, i, count, values);
        for (size_t k = 0; k < count; k++) {
            double size = sb_absolute((double)values[k] - zero);
            largest = size > largest ? size : largest; /* NaN is kept in the sum */
        }
        total.sum += scale * block_sum(values, zero, x->x + i, count);
        total.magnitude += sb_absolute(scale) * largest * x->x16[i / BLOCK];
    }
    return total;
}

#define ENTRY(format) [SB_FORMAT_##format] = row_##format
#define ROW(format)                                                                                \
    static sb_partial row_##format(const sb_row_codes *w, const sb_row_input *x)                   \
    {                                                                                              \
        return row_of(SB_FORMAT_##format, w, x);                                                   \
    }
ROW(f32)
ROW(bf16)
ROW(f16)
ROW(e4m3)
ROW(e2m1)
ROW(int4)
ROW(int8)
ROW(uint4)
ROW(uint8)

static const sb_dot_kernels scalar = {
    .name = "scalar",
    .f32 = dot_f32,
    .bf16 = dot_bf16,
    .f16 = dot_f16,
    .f64 = dot_f64,
    .columns = dot_columns,
    .row = {ENTRY(f32), ENTRY(bf16), ENTRY(f16), ENTRY(e4m3), ENTRY(e2m1), ENTRY(int4), ENTRY(int8),
            ENTRY(uint4), ENTRY(uint8)},
    .tile = &sb_tile_scalar,
};
const sb_dot_kernels *const sb_dot_scalar = &scalar;
