/* FP8: E4M3 codes with a scale per block of 128 x 128, per row, or per tensor. */
#include "ref/base/bytes.h"
#include "ref/formats/format.h"
#include "ref/formats/small_float.h"
#include "tools/make/bulk.h"
#include "tools/make/quantize.h"

enum { BLOCK = 128, PIECE = 512 };

static float bf16(float x)
{
    return sb_round_to(SB_FORMAT_bf16, x);
}

/* G-10: "S = bf16(a / 448), or 2^-7 where that is 0" */
static float ct_scale(float amax)
{
    float s = bf16(amax / 448.0f);
    return s == 0.0f ? 0x1p-7f : s;
}

/* E4M3(bf16(w / s)) of n weights. */
static void put_codes(const float *w, uint64_t n, float s, float zero, unsigned char *codes)
{
    float piece[PIECE];
    for (uint64_t i = 0; i < n; i += PIECE) {
        size_t count = n - i < PIECE ? (size_t)(n - i) : PIECE;
        sb_bulk_bf16_quotients(w + i, count, s, zero, piece);
        sb_bulk_e4m3(piece, count, codes + i);
    }
}

/* G-10: "c = E4M3(bf16(w / S))": two roundings, because the quotient has the type of both operands.
 * Adding a zero point of 0 removes -0. */
static void ct_codes(const float *w, uint64_t n, float s, unsigned char *codes)
{
    put_codes(w, n, s, 0.0f, codes);
}

/* The largest magnitude of a block, which may be cut at the edges of the matrix. */
static float block_largest(const sb_band *b, uint64_t col, uint64_t cols)
{
    float largest = 0.0f;
    for (uint64_t row = 0; row < b->rows; row++) {
        float a = sb_largest(b->weights + row * b->cols + col, (size_t)cols);
        largest = a > largest ? a : largest;
    }
    return largest;
}

static uint64_t width(const sb_band *b, uint64_t col)
{
    return b->cols - col < BLOCK ? b->cols - col : BLOCK;
}

/* G-11: "edge blocks are smaller, and nothing else about them differs" */
void sb_quantize_fp8_block(const sb_band *b)
{
    for (uint64_t col = 0; col < b->cols; col += BLOCK) {
        uint64_t n = width(b, col);
        float s = ct_scale(block_largest(b, col, n));
        sb_store_u16(b->scales + 2 * (col / BLOCK), sb_f32_to_bf16(s));
        for (uint64_t at = col; at < b->rows * b->cols; at += b->cols)
            ct_codes(b->weights + at, n, s, b->codes + at);
    }
}

/* G-12: "r = RN(448 RN(1/a)), or 1 where a is 0; S = RN(1/r)" */
static float reciprocal(float amax)
{
    return amax > 0.0f ? (1.0f / amax) * 448.0f : 1.0f;
}

static void fp8_block_as_transformers(const sb_band *b, int power_of_two)
{
    for (uint64_t col = 0; col < b->cols; col += BLOCK) {
        uint64_t n = width(b, col);
        float r = reciprocal(block_largest(b, col, n));
        float s = 1.0f / r;
        if (power_of_two) { /* G-12: "S is raised as in the second way of F-11, and r = 1/S" */
            s = sb_e8m0_to_f32(sb_f32_to_e8m0_up(s));
            r = 1.0f / s;
        }
        sb_store_u32(b->scales + 4 * (col / BLOCK), sb_bits_f32(s));
        for (uint64_t at = col; at < b->rows * b->cols; at += b->cols) {
            float piece[BLOCK]; /* G-12: "c = E4M3(RN(w r))" */
            for (uint64_t i = 0; i < n; i++)
                piece[i] = b->weights[at + i] * r;
            sb_bulk_e4m3(piece, (size_t)n, b->codes + at);
        }
    }
}

void sb_quantize_fp8_block_f32(const sb_band *b)
{
    fp8_block_as_transformers(b, 0);
}

void sb_quantize_fp8_block_ue8m0(const sb_band *b)
{
    fp8_block_as_transformers(b, 1);
}

void sb_quantize_fp8_channel(const sb_band *b)
{
    for (uint64_t row = 0; row < b->rows; row++) {
        const float *w = b->weights + row * b->cols;
        float s = ct_scale(sb_largest(w, (size_t)b->cols));
        sb_store_u16(b->scales + 2 * row, sb_f32_to_bf16(s));
        ct_codes(w, b->cols, s, b->codes + row * b->cols);
    }
}

/* G-13: "S = RN(A / 448)" */
float sb_factor_fp8_tensor(float amax, sb_scale_rule rule)
{
    (void)rule;
    return amax > 0.0f ? amax / 448.0f : 1.0f;
}

/* G-13: "c = E4M3(bf16(RN(w / S)))": the quotient has the type of the weights, S does not. */
void sb_quantize_fp8_tensor(const sb_band *b)
{
    put_codes(b->weights, b->rows * b->cols, b->factor, -0.0f, b->codes);
}
