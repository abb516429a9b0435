#include "ref/math/kernels.h"
/* Independent sums, so that an addition need not wait for the one before it. */
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
    double product = w * x; /* exact, if of 24 x 24 bits */
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

static const sb_dot_kernels scalar = {"scalar", dot_f32,     dot_bf16, dot_f16,
                                      dot_f64,  dot_columns, NULL,     NULL};
const sb_dot_kernels *const sb_dot_scalar = &scalar;
