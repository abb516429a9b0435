/* fp4_blocks.h - shared by the loops of AVX2 and AVX-512 over FP4 blocks. */
#ifndef SB_CHECK_FP4_BLOCKS_H
#define SB_CHECK_FP4_BLOCKS_H

#include <immintrin.h>

#include "tools/check/scan/fp4.h"

#define SB_FP4_INLINE(target_) __attribute__((target(target_), always_inline)) static inline

enum { SB_FP4_EIGHT = 8 };

/* A bit for each block with an unusual scale. E4M3: below 2^-6 (V-15), negative or NaN. E8M0: NaN,
 * or 0, under which an all-zero block is not suspicious. */
static inline unsigned sb_fp4_odd_scales(uint64_t bytes, unsigned count, int mx)
{
    const uint64_t ones = 0x0101010101010101u >> (64 - 8 * count);
    unsigned bits = 0;
    if (!mx && !(((bytes - 8 * ones) | (bytes + ones)) & 0x80 * ones))
        return 0;
    for (unsigned i = 0; i < count; i++) {
        unsigned byte = bytes >> 8 * i & 0xff;
        bits |= (unsigned)(mx ? byte == 0 || byte == 0xff : byte < 8 || byte > 0x7e) << i;
    }
    return bits;
}

/* A bit for each of eight blocks without a 7, or with an unusual scale. `sevens`: a byte per block,
 * which is 0 if no code of the block has magnitude 7. */
static inline unsigned sb_fp4_special(uint64_t sevens, uint64_t scales)
{
    const uint64_t ones = 0x0101010101010101u;
    uint64_t none = (sevens - ones) & ~sevens, odd = (scales - 8 * ones) | (scales + ones);
    unsigned bits = 0;
    if (!((none | odd) & 0x80 * ones))
        return 0;
    for (unsigned i = 0; i < SB_FP4_EIGHT; i++)
        bits |= (unsigned)((sevens >> 8 * i & 0xff) == 0) << i;
    return bits | sb_fp4_odd_scales(scales, SB_FP4_EIGHT, 0);
}

/* Passes special blocks to sb_fp4_block. For ordinary blocks, with largest code 7 and a usual
 * scale, only the largest scale matters. */
static inline void sb_fp4_each_block(const sb_fp4 *f, const unsigned char *bytes,
                                     const unsigned char *scales, uint32_t blocks, unsigned special,
                                     uint32_t row, uint32_t first, sb_fp4_sums *r, __m128i *top)
{
    const size_t each = (size_t)f->chunks * 8;
    for (uint32_t i = 0; i < blocks; i++) {
        if (special >> i & 1)
            sb_fp4_block(f, bytes + i * each, scales[i], row, first + i, r);
        else
            *top = _mm_max_epu8(*top, _mm_cvtsi32_si128(scales[i]));
    }
}

/* The largest scale byte of ordinary blocks: of the lower eight bytes of `top`. */
static inline void sb_fp4_note_top(const sb_fp4 *f, __m128i top, sb_fp4_sums *r)
{
    __m128i four = _mm_max_epu8(top, _mm_srli_epi64(top, 32));
    __m128i two = _mm_max_epu8(four, _mm_srli_epi32(four, 16));
    unsigned byte = (unsigned)_mm_cvtsi128_si32(_mm_max_epu8(two, _mm_srli_epi32(two, 8))) & 0xff;
    double largest = sb_fp4_twice[7] * f->scale[byte];
    r->largest = byte && largest > r->largest ? largest : r->largest;
    if (!f->mx && byte > f->seen->largest_scale)
        f->seen->largest_scale = (uint8_t)byte;
}

/* The squares of eight scales, times 2^-16: the bits of a scale, moved, are an F16 of 2^-8 times
 * its value. 0 for negative scales and NaN. */
SB_FP4_INLINE("avx2,f16c") __m256 sb_fp4_scale_squares(const unsigned char *scales)
{
    __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)scales);
    __m128i usual = _mm_cmpgt_epi8(_mm_set1_epi8(0x7f), bytes);
    __m128i positive = _mm_and_si128(_mm_max_epi8(bytes, _mm_setzero_si128()), usual);
    __m256 halves = _mm256_cvtph_ps(_mm_slli_epi16(_mm_cvtepu8_epi16(positive), 7));
    return _mm256_mul_ps(halves, halves);
}

#endif
