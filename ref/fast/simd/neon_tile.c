#include "ref/fast/simd/tiles.h"

#if defined(__aarch64__) && defined(__AARCH64EL__) && defined(__ARM_NEON)

#include <string.h>

#include "ref/formats/small_float.h"
#include "ref/fast/simd/neon_codes.h"

enum { ROWS = SB_TILE_ROWS, INPUTS = 4 };

/* Multiplies four rows with a constant number of inputs. */
INLINE void block(const double *w, const double *x, const size_t inputs, size_t n, double *sums,
                  size_t stride)
{
    vec acc[INPUTS][ROWS];
    for (size_t t = 0; t < inputs; t++)
        for (size_t r = 0; r < ROWS; r++)
            acc[t][r] = all(0);
    for (size_t k = 0; k < n; k += WIDTH) {
        vec rows[ROWS];
        for (size_t r = 0; r < ROWS; r++)
            rows[r] = load_vec(w + r * n + k);
        for (size_t t = 0; t < inputs; t++) {
            const vec input = load_vec(x + t * n + k);
            for (size_t r = 0; r < ROWS; r++)
                acc[t][r] = fused(rows[r], input, acc[t][r]);
        }
    }
    for (size_t t = 0; t < inputs; t++, sums += stride)
        for (size_t r = 0; r < ROWS; r++)
            sums[r] += across(acc[t][r]);
}

static void multiply(const double *w, const double *x, size_t inputs, size_t n, double *sums,
                     size_t stride)
{
    switch (inputs) {
    case 1:
        block(w, x, 1, n, sums, stride);
        break;
    case 2:
        block(w, x, 2, n, sums, stride);
        break;
    case 3:
        block(w, x, 3, n, sums, stride);
        break;
    default:
        block(w, x, 4, n, sums, stride);
    }
}

/* Decodes up to sb_row_block codes and stores `count` of them as (code - zero) * scale. */
INLINE void put(row *r, sb_format format, const unsigned char *codes, size_t count, double scale,
                double *values)
{
    const size_t block = sb_row_block(format), bits = sb_row_bits(format);
    unsigned char copy[64] = {0};
    double all_of_them[32];
    vec v[16];
    if (count < block)
        codes = memcpy(copy, codes, (count * bits + 7) / 8);
    block_values(r, format, codes, v);
    for (size_t p = 0; p < block / 2; p++)
        vst1q_f64(all_of_them + 2 * p, vmulq_f64(vsubq_f64(v[p], r->zero), all(scale)));
    memcpy(values, all_of_them, count * sizeof *values);
}

/* The sum of squares of n values, n a multiple of SB_TILE_STEP. */
static double squares_of(const double *values, size_t n)
{
    vec sum[2] = {all(0), all(0)};
    for (size_t i = 0; i < n; i += 4)
        for (size_t l = 0; l < 2; l++) {
            const vec x = load_vec(values + i + 2 * l);
            sum[l] = fused(x, x, sum[l]);
        }
    return across(plus(sum[0], sum[1]));
}

INLINE double widen(sb_format format, const sb_row_codes *w, size_t first, size_t n, double *values)
{
    const size_t bits = sb_row_bits(format), block = sb_row_block(format);
    const double unit = format == SB_FORMAT_e4m3 ? SB_E4M3_UNIT : 1;
    row r = row_start(bits == 4 ? sb_nibble_bytes(format) : &sb_e4m3_fix);
    size_t i = 0;
    for (size_t here; i < n; i += here) {
        const size_t g = (first + i) / w->group, left = (g + 1) * w->group - (first + i);
        here = n - i < left ? n - i : left;
        here = here < block ? here : block;
        r.zero = all(w->zeros ? w->zeros[g] : 0);
        put(&r, format, w->codes + (first + i) / 8 * bits, here,
            (w->scales ? w->scales[g] : 1) * unit, values + i);
    }
    for (; i % SB_TILE_STEP; i++)
        values[i] = 0;
    /* a NaN code of E4M3 was decoded to a number */
    const int nan = format == SB_FORMAT_e4m3 && vmaxvq_u8(r.top) == 0x7f;
    return nan ? sb_e4m3_to_f32(0x7f) : squares_of(values, i);
}

#define WIDEN(set, format)                                                                         \
    static double widen_##format(const sb_row_codes *w, size_t first, size_t n, double *values)    \
    {                                                                                              \
        return widen(SB_FORMAT_##format, w, first, n, values);                                     \
    }
SB_ROWS(WIDEN, neon)
#define ENTRY(set, format) [SB_FORMAT_##format] = widen_##format,

const sb_tile_kernels sb_tile_neon = {.lanes = WIDTH,
                                      .inputs = INPUTS,
                                      .multiply = multiply,
                                      .round = sb_tile_round,
                                      .widen = {SB_ROWS(ENTRY, neon)}};

#endif
