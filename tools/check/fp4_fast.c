/* fp4_fast.c - the nearest codes of a whole row at once, where that is beyond doubt. */
#include <string.h>

#include "tools/check/fp4.h"

enum { CHUNK = 16 };

/* Two codes of a byte: their values, and the quotients between which they are nearest for certain,
 * whatever a few roundings of binary32 have done to the quotient. */
typedef struct pair {
    float value[2], low[2], high[2];
} pair;

#define SURE 0x1p-20
#define HUGE_QUOTIENT 3e38f
#define OUT(x) ((float)((x) * (1 - SURE) / (1 - SB_FP4_SLACK)))
#define IN(x) ((float)((x) * (1 + SURE) / (1 + SB_FP4_SLACK)))

#define VALUE_0 0.0f
#define VALUE_1 0.5f
#define VALUE_2 1.0f
#define VALUE_3 1.5f
#define VALUE_4 2.0f
#define VALUE_5 3.0f
#define VALUE_6 4.0f
#define VALUE_7 6.0f
#define VALUE_8 0.0f
#define VALUE_9 -0.5f
#define VALUE_a -1.0f
#define VALUE_b -1.5f
#define VALUE_c -2.0f
#define VALUE_d -3.0f
#define VALUE_e -4.0f
#define VALUE_f -6.0f
#define LOW_0 -OUT(0.25)
#define LOW_1 IN(0.25)
#define LOW_2 IN(0.75)
#define LOW_3 IN(1.25)
#define LOW_4 IN(1.75)
#define LOW_5 IN(2.5)
#define LOW_6 IN(3.5)
#define LOW_7 IN(5)
#define LOW_8 -OUT(0.25)
#define LOW_9 -OUT(0.75)
#define LOW_a -OUT(1.25)
#define LOW_b -OUT(1.75)
#define LOW_c -OUT(2.5)
#define LOW_d -OUT(3.5)
#define LOW_e -OUT(5)
#define LOW_f -HUGE_QUOTIENT
#define HIGH_0 OUT(0.25)
#define HIGH_1 OUT(0.75)
#define HIGH_2 OUT(1.25)
#define HIGH_3 OUT(1.75)
#define HIGH_4 OUT(2.5)
#define HIGH_5 OUT(3.5)
#define HIGH_6 OUT(5)
#define HIGH_7 HUGE_QUOTIENT
#define HIGH_8 OUT(0.25)
#define HIGH_9 -IN(0.25)
#define HIGH_a -IN(0.75)
#define HIGH_b -IN(1.25)
#define HIGH_c -IN(1.75)
#define HIGH_d -IN(2.5)
#define HIGH_e -IN(3.5)
#define HIGH_f -IN(5)
#define PAIR(h, l)                                                                                 \
    {                                                                                              \
        {VALUE_##l, VALUE_##h}, {LOW_##l, LOW_##h},                                                \
        {                                                                                          \
            HIGH_##l, HIGH_##h                                                                     \
        }                                                                                          \
    }
#define PAIRS(h)                                                                                   \
    PAIR(h, 0), PAIR(h, 1), PAIR(h, 2), PAIR(h, 3), PAIR(h, 4), PAIR(h, 5), PAIR(h, 6),            \
        PAIR(h, 7), PAIR(h, 8), PAIR(h, 9), PAIR(h, a), PAIR(h, b), PAIR(h, c), PAIR(h, d),        \
        PAIR(h, e), PAIR(h, f)

static const pair pairs[256] = {PAIRS(0), PAIRS(1), PAIRS(2), PAIRS(3), PAIRS(4), PAIRS(5),
                                PAIRS(6), PAIRS(7), PAIRS(8), PAIRS(9), PAIRS(a), PAIRS(b),
                                PAIRS(c), PAIRS(d), PAIRS(e), PAIRS(f)};

const float sb_fp4_ranges[3][8] = {
    {VALUE_0, VALUE_1, VALUE_2, VALUE_3, VALUE_4, VALUE_5, VALUE_6, VALUE_7},
    {LOW_0, LOW_1, LOW_2, LOW_3, LOW_4, LOW_5, LOW_6, LOW_7},
    {HIGH_0, HIGH_1, HIGH_2, HIGH_3, HIGH_4, HIGH_5, HIGH_6, HIGH_7},
};

/* Columns that are looked up before they are compared: stores and loads of different width do not
 * meet in the processor's store buffer. */
enum { TILE = 256 };

typedef struct tile {
    float value[TILE], low[TILE], high[TILE];
} tile;

static inline __attribute__((always_inline)) void look_up(const unsigned char *codes,
                                                          unsigned count, tile *t)
{
    for (unsigned i = 0; i < count / 2; i++) {
        const pair *p = &pairs[codes[i]];
        memcpy(t->value + 2 * (size_t)i, p->value, sizeof p->value);
        memcpy(t->low + 2 * (size_t)i, p->low, sizeof p->low);
        memcpy(t->high + 2 * (size_t)i, p->high, sizeof p->high);
    }
}

/* V-23: "what a fast test in binary32 cannot prove" goes to the definition */
static inline __attribute__((always_inline)) void
sure(const tile *x, unsigned at, const float *weights, float inverse, float scale, sb_fp4_lanes *l)
{
#if !defined(__clang__) /* which unrolls the loop, and then finds none to vectorize */
#pragma omp simd
#endif
    for (unsigned i = 0; i < CHUNK; i++) {
        float t = weights[i] * inverse;
        float error = (x->value[at + i] - t) * scale, size = t * scale;
        l->bad[i] |= !(t >= x->low[at + i]) | !(t <= x->high[at + i]);
        l->error2[i] += error * error;
        l->weight2[i] += size * size;
    }
}

static inline __attribute__((always_inline)) int each_chunk(const sb_fp4 *f, sb_fp4_line *x)
{
    sb_fp4_lanes l = {.bad = {0}};
    tile t;
    int bad = 0;
    memcpy(l.error2, x->error2, sizeof l.error2);
    memcpy(l.weight2, x->weight2, sizeof l.weight2);
    for (uint32_t i = 0; i < f->blocks * f->chunks; i++) {
        uint8_t byte = x->scales[i / f->chunks];
        unsigned at = i * CHUNK % TILE;
        unsigned left = (f->blocks * f->chunks - i) * CHUNK;
        if (at == 0)
            look_up(x->codes + (size_t)i * (CHUNK / 2), left < TILE ? left : TILE, &t);
        sure(&t, at, x->weights + (size_t)i * CHUNK, f->inverse[byte], f->value[byte], &l);
        bad |= f->inverse[byte] == 0;
    }
    memcpy(x->error2, l.error2, sizeof l.error2);
    memcpy(x->weight2, l.weight2, sizeof l.weight2);
    for (unsigned i = 0; i < CHUNK; i++)
        bad |= l.bad[i];
    return bad;
}

int sb_fp4_doubts_plain(const sb_fp4 *f, sb_fp4_line *x)
{
    return each_chunk(f, x);
}

int sb_fp4_doubts(const sb_fp4 *f, sb_fp4_line *x)
{
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx2"))
        return sb_fp4_doubts_avx2(f, x);
#endif
    return each_chunk(f, x);
}
