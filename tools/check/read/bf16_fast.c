/* bf16_fast.c - sums of many BF16 numbers at once. */
#include "tools/check/read/bf16.h"

#include <string.h>

#include "ref/base/bytes.h"

enum { STEP = SB_BF16_STEP, PAIRS = SB_BF16_STEP / 2 };

/* The two numbers of each word; the first is in the lower half. */
static void split(const uint32_t *words, float *x)
{
    uint32_t bits[STEP];
    for (unsigned j = 0; j < PAIRS; j++) {
        bits[j] = words[j] << 16;
        bits[PAIRS + j] = words[j] & 0xffff0000u;
    }
    memcpy(x, bits, sizeof bits);
}

typedef struct lanes {
    float sum[STEP], sum2[STEP], sum4[STEP];
} lanes;

static void add_step(const float *x, int shape, lanes *l)
{
    for (unsigned j = 0; j < STEP; j++) {
        float value = x[j], square = value * value;
        l->sum2[j] += square;
        if (!shape)
            continue;
        l->sum[j] += value;
        l->sum4[j] += square * square;
    }
}

void sb_bf16_look_plain(const unsigned char *bytes, unsigned steps, int shape, sb_bf16_sums *out)
{
    lanes l = {{0}, {0}, {0}};
    uint32_t words[PAIRS];
    float x[STEP];
    *out = (sb_bf16_sums){.zeros = 0};
    for (unsigned i = 0; i < steps; i++, bytes += 2 * (size_t)STEP) {
        for (unsigned j = 0; j < PAIRS; j++)
            words[j] = sb_load_u32(bytes + 4 * (size_t)j);
        split(words, x);
        add_step(x, shape, &l);
        for (unsigned j = 0; j < STEP; j++) {
            uint16_t magnitude = sb_load_u16(bytes + 2 * (size_t)j) & 0x7fff;
            out->zeros += magnitude == 0;
            out->top = magnitude > out->top ? magnitude : out->top;
        }
    }
    out->sum = sb_bf16_fold(l.sum);
    out->sum2 = sb_bf16_fold(l.sum2);
    out->sum4 = sb_bf16_fold(l.sum4);
}

sb_bf16_look_fn *sb_bf16_look(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx2"))
        return sb_bf16_look_avx2;
#endif
    return sb_bf16_look_plain;
}
