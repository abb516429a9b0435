/* Integers of four and eight bits: their scales, zero points and words. */
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/formats/format.h"
#include "tools/make/quantize.h"

/* The scale of a group, and the zero point: rounded quotient + zero point is a code 0 .. 2^bits -
 * 1. */
typedef struct step {
    float scale;
    uint32_t zero;
} step;

/* The nearest integer, ties to even; magnitudes below 2^22. */
static float nearest(float x)
{
    const float magic = 0x1.8p23f;
    return (x + magic) - magic;
}

static uint32_t clamped(float code, uint32_t top)
{
    return code < 0.0f ? 0 : code > (float)top ? top : (uint32_t)code;
}

/* The quotient, limited to the range that nearest() rounds. */
static float quotient(float w, step s, uint32_t top)
{
    float limit = 2.0f * (float)top + 2.0f;
    float q = w / s.scale;
    return q < -limit ? -limit : q > limit ? limit : q;
}

/* G-16: "c = RNE(RN(w / S)) + 2^(bits-1), held between 0 and 2^bits - 1"
 * G-18: "c = RNE(RN(w / S)) + z, held between 0 and 15" */
static uint32_t code_of(float w, step s, uint32_t top)
{
    return clamped(nearest(quotient(w, s, top)) + (float)s.zero, top);
}

static float f16(float x)
{
    return sb_round_to(SB_FORMAT_f16, x);
}

/* G-15: "S = bf16(a / 7.5), or 2^-7 where that is 0; q = RNE(bf16(w / S))" */
void sb_quantize_int4_ct(const sb_band *b)
{
    for (uint64_t i = 0; i < b->rows * b->cols / b->group; i++) {
        const float *w = b->weights + i * b->group;
        float s = sb_round_to(SB_FORMAT_bf16, sb_largest(w, b->group) / 7.5f);
        if (s == 0.0f)
            s = 0x1p-7f;
        sb_store_u16(b->scales + 2 * i, sb_f32_to_bf16(s));
        for (uint32_t k = 0; k < b->group; k += 2) {
            uint32_t low = clamped(nearest(sb_round_to(SB_FORMAT_bf16, w[k] / s)) + 8.0f, 15);
            uint32_t high = clamped(nearest(sb_round_to(SB_FORMAT_bf16, w[k + 1] / s)) + 8.0f, 15);
            b->codes[(i * b->group + k) / 2] = (unsigned char)(low | high << 4);
        }
    }
}

/* G-23: "S = bf16(a / 127.5), or 2^-7 where that is 0; c = RNE(bf16(w / S))" */
void sb_quantize_int8_ct(const sb_band *b)
{
    for (uint64_t row = 0; row < b->rows; row++) {
        const float *w = b->weights + row * b->cols;
        float s = sb_round_to(SB_FORMAT_bf16, sb_largest(w, (size_t)b->cols) / 127.5f);
        if (s == 0.0f)
            s = 0x1p-7f;
        sb_store_u16(b->scales + 2 * row, sb_f32_to_bf16(s));
        for (uint64_t k = 0; k < b->cols; k++) {
            uint32_t code = clamped(nearest(sb_round_to(SB_FORMAT_bf16, w[k] / s)) + 128.0f, 255);
            b->codes[row * b->cols + k] = (unsigned char)(code ^ 0x80); /* two's complement */
        }
    }
}

/* G-16: "S = f16(RN(2a / (2^bits - 1))), computed with a = 1 where a is 0" */
static step symmetric(const float *w, uint32_t n, uint32_t top)
{
    float a = sb_largest(w, n);
    return (step){f16(2.0f * (a > 0.0f ? a : 1.0f) / (float)top), top / 2 + 1};
}

static void range(const float *w, uint32_t n, float *least, float *most)
{
    *least = *most = 0.0f;
    for (uint32_t i = 0; i < n; i++) {
        *least = w[i] < *least ? w[i] : *least;
        *most = w[i] > *most ? w[i] : *most;
    }
}

/* G-17: "S = f16(M / 8) where M is the largest magnitude, positive if a negative weight has it and
 * else negative, and at least f16(1e-5) in magnitude" */
static step signed_max(const float *w, uint32_t n, uint32_t top)
{
    const float smallest = f16(1e-5f);
    float least, most;
    range(w, n, &least, &most);
    float largest = most < -least ? -least : -most;
    float s = f16(largest / (float)(top / 2 + 1));
    if (s < 0.0f)
        s = s > -smallest ? -smallest : s;
    else
        s = s < smallest ? smallest : s;
    return (step){s, top / 2 + 1};
}

/* G-18: "S = f16(bf16(bf16(max - min) / 15)), at least f16(1e-5), and z = RNE(-min / S), at most
 * 15" - torch computes it in the type of the weights. */
static step min_max(const float *w, uint32_t n, uint32_t top)
{
    const float smallest = f16(1e-5f);
    float least, most;
    range(w, n, &least, &most);
    float span = sb_round_to(SB_FORMAT_bf16, most - least);
    float s = f16(sb_round_to(SB_FORMAT_bf16, span / (float)top));
    s = s < smallest ? smallest : s;
    return (step){s, clamped(nearest(-least / s), top)};
}

static step step_of(const sb_band *b, const float *w, uint32_t top)
{
    switch (b->rule) {
    case SB_SCALE_RULE_signed_max:
        return signed_max(w, b->group, top);
    case SB_SCALE_RULE_min_max:
        return min_max(w, b->group, top);
    default:
        return symmetric(w, b->group, top);
    }
}

static void or_word(unsigned char *words, uint64_t word, uint32_t bits)
{
    sb_store_u32(words + 4 * word, sb_load_u32(words + 4 * word) | bits);
}

/* G-19: "word r of column n holds codes r c to r c + c - 1 of row n of the weight, from the lowest
 * bits on, where c codes fill a word. A word of qzeros holds the zero points of c rows" - and GPTQ
 * v1 stores each zero point minus 1. */
static void gptq(const sb_band *b, unsigned bits)
{
    uint32_t top = (1u << bits) - 1, per = 32 / bits;
    uint64_t groups = b->cols / b->group;
    memset(b->codes, 0, (size_t)(b->rows * b->cols * bits / 8));
    memset(b->zeros, 0, (size_t)(b->rows * groups * bits / 8));
    for (uint64_t n = 0; n < b->rows; n++)
        for (uint64_t g = 0; g < groups; g++) {
            const float *w = b->weights + n * b->cols + g * b->group;
            step s = step_of(b, w, top);
            sb_store_u16(b->scales + 2 * (g * b->rows + n), sb_f32_to_f16(s.scale));
            or_word(b->zeros, g * (b->rows / per) + n / per,
                    ((s.zero - 1) & top) << (n % per * bits));
            for (uint64_t k = g * b->group; k < (g + 1) * b->group; k++, w++)
                or_word(b->codes, k / per * b->rows + n, code_of(*w, s, top) << (k % per * bits));
        }
}

void sb_quantize_int4_gptq(const sb_band *b)
{
    gptq(b, 4);
}

void sb_quantize_int8_gptq(const sb_band *b)
{
    gptq(b, 8);
}

/* G-20: "row 8c + i stands at nibble 0, 4, 1, 5, 2, 6, 3, 7 of word c for i = 0 .. 7, in qweight
 * and in qzeros" */
void sb_quantize_int4_awq(const sb_band *b)
{
    static const unsigned nibble[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    uint64_t groups = b->cols / b->group;
    memset(b->codes, 0, (size_t)(b->rows * b->cols / 2));
    memset(b->zeros, 0, (size_t)(b->rows * groups / 2));
    for (uint64_t n = 0; n < b->rows; n++)
        for (uint64_t g = 0; g < groups; g++) {
            const float *w = b->weights + n * b->cols + g * b->group;
            step s = step_of(b, w, 15);
            unsigned shift = 4 * nibble[n % 8];
            sb_store_u16(b->scales + 2 * (g * b->rows + n), sb_f32_to_f16(s.scale));
            or_word(b->zeros, g * (b->rows / 8) + n / 8, s.zero << shift);
            for (uint64_t k = g * b->group; k < (g + 1) * b->group; k++, w++)
                or_word(b->codes, k * (b->rows / 8) + n / 8, code_of(*w, s, 15) << shift);
        }
}
