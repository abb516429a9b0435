#include "tests/prop/rows.h"

#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "ref/formats/format.h"
#include "ref/formats/wide.h"

typedef struct draw {
    uint64_t key, at;
} draw;

static uint64_t bits64(draw *d)
{
    return sb_rng_u64(d->key, d->at++);
}

static uint32_t below(draw *d, uint32_t n)
{
    return sb_rng_below(d->key, d->at++, n);
}

/* One of the values of an array. */
#define ONE_OF(d, array) ((array)[below(d, sizeof(array) / sizeof *(array))])

static int is_narrow_float(sb_format format)
{
    return format == SB_FORMAT_e2m1 || format == SB_FORMAT_e4m3;
}

/* --- layout ----------------------------------------------------------------------------------- */

static uint32_t draw_cols(draw *d, rows_family family)
{
    uint32_t kind = below(d, 100);
    if (family == ROWS_drift)
        return 130 + below(d, ROWS_COLS - 130);
    return kind < 75 ? 2 + below(d, 70) : kind < 95 ? 70 + below(d, 240) : 300 + below(d, 900);
}

/* Zero points along the rows; a word holds eight or four of them. */
static void draw_zeros(rows_case *c, draw *d)
{
    sb_quant *q = &c->matrix.quant;
    if (below(d, 3) == 0) {
        q->zero = (int32_t)below(d, 16);
    } else {
        for (size_t i = 0; i < sizeof c->zeros; i += 8)
            sb_store_u64(c->zeros + i, bits64(d));
        q->zeros = SB_ZEROS_rows;
        q->zero_points = c->zeros;
    }
}

/* Orders of codes other than row by row; the number of columns is rounded to fit. */
static void draw_packing(rows_case *c, draw *d)
{
    sb_matrix *m = &c->matrix;
    uint32_t kind = below(d, 60);
    if (m->format == SB_FORMAT_uint4 && kind < 20)
        m->quant.packing = kind < 10 ? SB_PACKING_gptq : SB_PACKING_awq;
    else if (m->format == SB_FORMAT_uint8 && kind == 0)
        m->quant.packing = SB_PACKING_gptq;
    else if (sb_format_bits(m->format) == 4 && kind == 59)
        m->quant.packing = SB_PACKING_pairs;
    if (m->quant.packing != SB_PACKING_rows)
        m->cols = (m->cols + 7) / 8 * 8;
}

/* Codes of GPTQ and AWQ with the scales and zero points of their files, row by row. */
static void draw_beside(rows_case *c, draw *d)
{
    static const uint32_t groups[] = {32, 64, 128, 4096};
    const uint32_t zeros = below(d, 4);
    sb_matrix *m = &c->matrix;
    sb_quant *q = &m->quant;
    m->first_row = 0;
    q->block_rows = 1;
    q->block_cols = ONE_OF(d, groups);
    q->groups = (m->cols + q->block_cols - 1) / q->block_cols;
    q->scale_row = 1;
    q->scale_col = ROWS_STORED;
    q->zero = zeros ? 0 : (int32_t)below(d, 16);
    for (size_t i = 0; i < sizeof c->zeros; i += 8)
        sb_store_u64(c->zeros + i, bits64(d));
    q->zero_points = c->zeros;
    if (zeros)
        q->zeros = q->packing == SB_PACKING_awq ? SB_ZEROS_awq
                   : zeros == 1                 ? SB_ZEROS_gptq_v1
                                                : SB_ZEROS_gptq_v2;
}

static void draw_layout(rows_case *c, draw *d)
{
    static const sb_format formats[] = {SB_FORMAT_e2m1, SB_FORMAT_e4m3,  SB_FORMAT_bf16,
                                        SB_FORMAT_f16,  SB_FORMAT_f32,   SB_FORMAT_int4,
                                        SB_FORMAT_int8, SB_FORMAT_uint4, SB_FORMAT_uint8};
    static const sb_format scales[] = {SB_FORMAT_e4m3, SB_FORMAT_f32, SB_FORMAT_bf16, SB_FORMAT_f16,
                                       SB_FORMAT_e8m0};
    static const uint32_t groups[] = {16, 16, 32, 48, 64, 128, 128, 4096};
    sb_matrix *m = &c->matrix;
    sb_quant *q = &m->quant;
    int even = c->family == ROWS_tie || c->family == ROWS_drift || c->family == ROWS_cancel;
    *m = (sb_matrix){.data = c->codes + 1,
                     .format = ONE_OF(d, formats),
                     .rows = 1 + below(d, ROWS_MOST),
                     .cols = draw_cols(d, c->family)};
    m->first_row = below(d, ROWS_STORED - m->rows + 1);
    if (sb_format_bits(m->format) == 4)
        m->cols = (m->cols + 1) / 2 * 2;
    if (sb_format_is_plain(m->format))
        return;
    q->stored_rows = ROWS_STORED;
    if (!even)
        draw_packing(c, d);
    q->scales = c->scales + 1;
    const int nvfp4 = m->format == SB_FORMAT_e2m1 && below(d, 2); /* as files have it */
    q->scale_format = nvfp4 ? SB_FORMAT_e4m3 : ONE_OF(d, scales);
    q->block_cols = nvfp4 ? 16 : ONE_OF(d, groups);
    q->block_rows = nvfp4 ? 1 : 1u << below(d, 4);
    q->groups = (m->cols + q->block_cols - 1) / q->block_cols;
    q->scale_row = q->groups;
    q->scale_col = 1;
    /* a zero point would make nine bits of eight bits with a sign, which no format has */
    if (!even && !is_narrow_float(m->format) && m->format != SB_FORMAT_int8 && below(d, 3))
        draw_zeros(c, d);
    const int words = q->packing == SB_PACKING_gptq || q->packing == SB_PACKING_awq;
    if (m->format == SB_FORMAT_uint4 && words && below(d, 4))
        draw_beside(c, d);
}

/* --- codes ------------------------------------------------------------------------------------ */

static void set_code(rows_case *c, uint32_t row, size_t k, uint32_t code)
{
    const sb_matrix *m = &c->matrix;
    const size_t at = (size_t)(m->first_row + row) * m->cols + k, bits = sb_format_bits(m->format);
    unsigned char *byte = c->codes + 1 + at * bits / 8;
    if (bits == 4)
        *byte = (unsigned char)(at % 2 ? (*byte & 15u) | code << 4 : (*byte & 0xf0u) | code);
    else if (bits == 8)
        *byte = (unsigned char)code;
    else if (bits == 16)
        sb_store_u16(byte, (uint16_t)code);
    else
        sb_store_u32(byte, code);
}

/* Any finite code, or the code of a value like a weight. */
static uint32_t draw_code(draw *d, sb_format format, int like_weight)
{
    uint32_t code = (uint32_t)bits64(d);
    if (like_weight && sb_format_is_plain(format))
        return sb_f32_to_code(format, 0.02f * sb_rng_normal(d->key, d->at++));
    if (format == SB_FORMAT_e4m3)
        return (code & 0x7fu) == 0x7fu ? 0 : code & 0xffu;
    if (format == SB_FORMAT_bf16)
        return (code & 0x7f80u) == 0x7f80u ? code & 0x807fu : code & 0xffffu;
    if (format == SB_FORMAT_f16)
        return (code & 0x7c00u) == 0x7c00u ? code & 0x83ffu : code & 0xffffu;
    if (format == SB_FORMAT_f32)
        return (code & 0x7f800000u) == 0x7f800000u ? code & 0x807fffffu : code;
    return code & (sb_format_bits(format) == 4 ? 15u : 255u);
}

static void draw_codes(rows_case *c, draw *d)
{
    const sb_matrix *m = &c->matrix;
    if (m->quant.packing != SB_PACKING_rows || m->format > SB_FORMAT_e4m3) {
        for (size_t i = 0; i < ROWS_STORED * (size_t)m->cols; i += 8)
            sb_store_u64(c->codes + 1 + i, bits64(d)); /* every code is finite */
        return;
    }
    for (uint32_t row = 0; row < m->rows; row++)
        for (size_t k = 0; k < m->cols; k++)
            set_code(c, row, k, draw_code(d, m->format, c->family != ROWS_any));
}

static float draw_scale(draw *d, const rows_case *c)
{
    const sb_format format = c->matrix.quant.scale_format;
    float value;
    switch (c->family) {
    case ROWS_tie:
    case ROWS_drift:
        return 1;
    case ROWS_subnormal:
        return sb_code_to_f32(format, 1 + below(d, 3));
    case ROWS_any:
        value = sb_code_to_f32(format, draw_code(d, format, 0) & 0xffffffffu);
        break;
    default:
        value = 0.02f * (1 + sb_rng_uniform(d->key, d->at++)); /* in E4M3 a normal number */
    }
    if (!(value - value == 0)) /* E8M0 has a NaN */
        value = 1;
    if (is_narrow_float(c->matrix.format) || format == SB_FORMAT_e8m0)
        return sb_f32_from_bits(sb_bits_f32(value) & 0x7fffffffu);
    return below(d, 2) ? value : -value;
}

static void draw_scales(rows_case *c, draw *d)
{
    const sb_quant *q = &c->matrix.quant;
    const size_t bytes = sb_format_bytes(q->scale_format);
    for (size_t i = 0; q->scales && i < ROWS_STORED * (size_t)q->groups; i++) {
        const float scale = draw_scale(d, c);
        sb_encode(q->scale_format, &scale, 1, c->scales + 1 + i * bytes);
    }
}

static float draw_factor(draw *d, const rows_case *c)
{
    const uint32_t kind = below(d, 8);
    const float sign = below(d, 2) ? -1.0f : 1.0f;
    if (c->family == ROWS_tie || c->family == ROWS_drift)
        return sign * (kind < 5 ? 1 : sb_f32_from_bits((100 + below(d, 50)) << 23));
    if (kind < 4)
        return 1;
    if (c->family == ROWS_any)
        return sb_f32_from_bits(draw_code(d, SB_FORMAT_f32, 0) | 1u);
    return sign * (0.001f + sb_rng_uniform(d->key, d->at++));
}

/* --- inputs ----------------------------------------------------------------------------------- */

/* A code times a binary32 scale: 28 bits. */
static double draw_quantized(draw *d, size_t k)
{
    const float scale = 0.1f + sb_rng_uniform(d->key ^ 1, d->at / 1000 * 1000 + k / 16);
    const uint32_t code = below(d, 256);
    return (double)scale * (double)(k % 32 < 16 ? sb_code_to_f32(SB_FORMAT_e2m1, code & 15u)
                                                : (float)(code & 31u) / 8);
}

static double draw_input(draw *d, const rows_case *c, size_t k)
{
    const float normal = sb_rng_normal(d->key, d->at++);
    const uint32_t bits = (uint32_t)bits64(d);
    switch (c->family) {
    case ROWS_bf16:
        return sb_round_to(SB_FORMAT_bf16, normal);
    case ROWS_quantized:
        return draw_quantized(d, k);
    case ROWS_any:
        return sb_f32_from_bits(draw_code(d, SB_FORMAT_f32, 0));
    case ROWS_subnormal:
        return sb_f32_from_bits(bits & (bits & 1u ? 0x803fffffu : 0x81ffffffu));
    case ROWS_mixed:
        return normal * sb_f32_from_bits((67 + bits % 120) << 23);
    case ROWS_one:
        return bits & 1u ? -0.0 : 0.0;
    case ROWS_tie:
        return c->index % 2 ? (double)normal : (double)(bits % 2048) - 1024;
    default:
        return bits % 50 ? normal : 64 * normal;
    }
}

/* Neighbours with equal codes and opposite inputs; sometimes one input is slightly changed. */
static void cancel(rows_case *c, draw *d, double *x)
{
    const sb_matrix *m = &c->matrix;
    for (size_t k = 0; k + 2 <= m->cols; k += 2) {
        for (uint32_t row = 0; row < m->rows; row++) {
            const uint32_t code = draw_code(d, m->format, 1);
            set_code(c, row, k, code);
            set_code(c, row, k + 1, code);
        }
        x[k + 1] = -x[k];
    }
    if (m->cols % 2)
        x[m->cols - 1] = 0;
    if (below(d, 3)) {
        size_t k = below(d, m->cols);
        x[k] = sb_f32_from_bits(sb_bits_f32((float)x[k]) + 1 + below(d, 3));
    }
}

/* hi + lo = the exact sum of the first n products, or nearly. */
static double dot_in_two(const double *a, const double *b, size_t n, double *low)
{
    double sum = 0;
    *low = 0;
    for (size_t i = 0; i < n; i++) {
        const double p = a[i] * b[i], s = sum + p, seen = s - sum;
        *low += (sum - (s - seen)) + (p - seen);
        sum = s;
    }
    return sum;
}

/* Sets the last input of row 0, whose code is 1, so that the sum reaches the middle between two
 * neighbouring binary32 values. The middle may be missed by some bits, or one bit is added or
 * taken. */
static void aim_at_tie(rows_case *c, draw *d, double *x)
{
    static double values[ROWS_COLS];
    const size_t last = c->matrix.cols - 1;
    double low, high, missing;
    set_code(c, 0, last, sb_f32_to_code(c->matrix.format, 1));
    sb_matrix_wide(&c->matrix, 0, values);
    high = dot_in_two(values, x, last, &low);
    const float below_it = (float)(high + low);
    const float above_it = sb_f32_from_bits(sb_bits_f32(below_it) + 1);
    missing = (((double)below_it + (double)above_it) / 2 - high) - low;
    if (c->narrow) {
        missing = (double)(float)missing;
        if (below(d, 2) && missing != 0)
            missing = sb_f32_from_bits(sb_bits_f32((float)missing) - 1 + below(d, 3));
    } else {
        missing = sb_f64_from_bits(sb_bits_f64(missing) & ~0x1fffffull); /* 32 bits */
    }
    x[last] = missing - missing == 0 ? missing : 0;
}

/* For row 0: first large inputs, so that every lane has some, then inputs slightly too small to
 * change the sum of a lane. The codes of the small inputs are the same or the smallest. All inputs
 * of a case have the same codes. */
static void drift(rows_case *c, draw *d, double *x)
{
    const sb_matrix *m = &c->matrix;
    static const float largest[] = {6, 448, 7, 127, 15, 255};
    const sb_format format = m->format;
    draw common = {d->key ^ 2, c->index << 20};
    const uint32_t smallest = sb_format_is_plain(format) ? sb_f32_to_code(format, 0x1p-10f) : 1;
    const int same = below(&common, 2) == 0;
    float most = 1;
    for (size_t i = 0; !sb_format_is_plain(format) && i < 6; i++)
        if (sb_round_to(format, largest[i]) == largest[i] && below(&common, 2))
            most = largest[i];
    const uint32_t code = sb_f32_to_code(format, most), then = same ? code : smallest;
    const double big = below(d, 2) ? 1.0 : -1.5, ratio = most / sb_code_to_f32(format, then);
    const double less = 1.0 - (double)sb_f32_from_bits((127 - 2 - below(d, 18)) << 23);
    const double small =
        big * less * 0x1p-53 * (double)sb_f32_from_bits((127 - 3 + below(d, 10)) << 23);
    const size_t leading = (size_t)16 << below(&common, 3);
    for (size_t k = 0; k < m->cols; k++) {
        set_code(c, 0, k, k < leading ? code : then);
        x[k] = k < leading ? big : sb_round_to(SB_FORMAT_f32, (float)(small * ratio));
    }
}

static void draw_inputs(rows_case *c, draw *d)
{
    const size_t n = c->matrix.cols;
    c->narrow = c->family != ROWS_quantized && below(d, 2);
    for (size_t t = 0; t < c->count; t++) {
        double *x = c->x + t * n;
        for (size_t k = 0; k < n; k++)
            x[k] = draw_input(d, c, k);
        if (c->family == ROWS_cancel)
            cancel(c, d, x);
        if (c->family == ROWS_one && below(d, 4))
            x[below(d, (uint32_t)n)] = sb_rng_normal(d->key, d->at++);
        if (c->family == ROWS_drift)
            drift(c, d, x);
        if (c->family == ROWS_tie || c->family == ROWS_drift)
            aim_at_tie(c, d, x);
    }
    if (c->family != ROWS_quantized && c->family != ROWS_tie && c->family != ROWS_drift)
        c->narrow = 1;
}

/* A NaN or an infinity somewhere, or a scale below zero. */
static void poison(rows_case *c, draw *d)
{
    const sb_matrix *m = &c->matrix;
    const uint32_t where = below(d, 3), n = m->cols;
    const uint32_t row = below(d, m->rows), k = below(d, n);
    static const uint32_t codes[] = {0x7f, 0xff}, wide[] = {0x7f800000u, 0xffc00000u, 0x7f800001u};
    if (where == 0 && m->format == SB_FORMAT_e4m3)
        set_code(c, row, k, ONE_OF(d, codes));
    else if (where == 0 && sb_format_is_plain(m->format))
        set_code(c, row, k,
                 m->format == SB_FORMAT_f32    ? ONE_OF(d, wide)
                 : m->format == SB_FORMAT_bf16 ? ONE_OF(d, wide) >> 16
                                               : 0x7c00u | below(d, 0x400));
    else if (where <= 1 && m->quant.scales) {
        const sb_quant *q = &m->quant;
        const size_t bytes = sb_format_bytes(q->scale_format);
        const size_t at = (m->first_row + row) / q->block_rows * q->groups + k / q->block_cols;
        memset(c->scales + 1 + at * bytes, below(d, 2) ? 0xff : 0x80, bytes);
    } else
        c->x[below(d, (uint32_t)c->count) * n + k] = sb_f32_from_bits(ONE_OF(d, wide));
}

void rows_make(rows_case *c, uint64_t key, uint64_t index)
{
    draw d = {key, index << 20};
    const uint32_t kind = below(&d, 100);
    static const sb_scalar one = SB_SCALAR_ONE;
    c->index = index;
    c->family = kind < 40   ? ROWS_plain
                : kind < 42 ? ROWS_poison
                : kind < 87 ? (rows_family)(ROWS_bf16 + (kind - 42) / 5)
                            : ROWS_drift;
    draw_layout(c, &d);
    c->count = below(&d, 2) ? 1 : 1 + below(&d, ROWS_INPUTS);
    draw_codes(c, &d);
    draw_scales(c, &d);
    c->factor = one;
    for (size_t i = 0; below(&d, 3) && i < 2; i++) {
        c->factor.mul[i] = draw_factor(&d, c);
        c->factor.div[i] = draw_factor(&d, c);
    }
    draw_inputs(c, &d);
    if (c->family == ROWS_poison)
        poison(c, &d);
}
