/* neon_row.c - rows of codes with one input in binary64. */
#include "ref/fast/simd/rows.h"

#if defined(__aarch64__) && defined(__AARCH64EL__) && defined(__ARM_NEON)

#include "ref/fast/simd/neon_codes.h"

#define KERNEL

INLINE vec all_sums(const row *r)
{
    return plus(plus(plus(r->sum[0], r->sum[1]), plus(r->sum[2], r->sum[3])),
                plus(plus(r->sum[4], r->sum[5]), plus(r->sum[6], r->sum[7])));
}

INLINE void store_top(const row *r, unsigned char *codes)
{
    vst1q_u8(codes, r->top);
}

INLINE vec sum_of_16(sixteen half, const double *x)
{
    vec sum[2] = {vmulq_f64(pair(half, 0), load_vec(x)), vmulq_f64(pair(half, 1), load_vec(x + 2))};
    for (int p = 2; p < 8; p++)
        sum[p % 2] = fused(pair(half, p), load_vec(x + 2 * p), sum[p % 2]);
    return plus(sum[0], sum[1]);
}

/* Adds the products of the next sb_row_block elements. */
INLINE void add_block(row *r, sb_format format, const unsigned char *codes, const double *x)
{
    vec values[16];
    block_values(r, format, codes, values);
    for (size_t p = 0; p < sb_row_block(format) / 2; p++) {
        if (r->zeroed)
            values[p] = vsubq_f64(values[p], r->zero); /* exact, because both are integers */
        r->sum[p % SUMS] = fused(values[p], load_vec(x + 2 * p), r->sum[p % SUMS]);
    }
}

#include "ref/fast/simd/row_body.h"

SB_ROWS(SB_ROW_KERNEL, neon)

#endif
