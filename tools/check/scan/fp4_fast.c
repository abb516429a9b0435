/* fp4_fast.c - finds whole rows in which every code is certainly a nearest one. */
#include <string.h>

#include "ref/base/bytes.h"
#include "tools/check/scan/fp4.h"

enum { CHUNK = 16, PAIRS = CHUNK / 2 };

/* The relative error that a few binary32 roundings can cause in a quotient. */
#define SURE 0x1p-20
#define HUGE_QUOTIENT 3e38f

/* Bounds for certainty at the midpoint of two codes: the lower code up to out_of(), the upper code
 * from in_of() on. */
static float out_of(double middle)
{
    return (float)(middle * (1 - SURE) / (1 - SB_FP4_SLACK));
}

static float in_of(double middle)
{
    return (float)(middle * (1 + SURE) / (1 + SB_FP4_SLACK));
}

/* V-23: "moved outward by |t| 2^-8"; the codes from 8 on are the negative ones. */
void sb_fp4_prepare_ranges(sb_fp4_ranges *r)
{
    for (unsigned m = 0; m < 8; m++) {
        r->value[m] = 0.5f * (float)sb_fp4_twice[m];
        r->low[m] = m ? in_of(sb_fp4_middles[m - 1]) : -out_of(sb_fp4_middles[0]);
        r->high[m] = m < 7 ? out_of(sb_fp4_middles[m]) : HUGE_QUOTIENT;
        r->value[8 + m] = -r->value[m];
        r->low[8 + m] = -r->high[m];
        r->high[8 + m] = -r->low[m];
    }
}

/* Columns are looked up in tiles and compared afterwards, because loads that differ in width from a
 * recent store to the same memory would stall. In each chunk the even columns come first. */
enum { TILE = 256 };

typedef struct tile {
    float value[TILE], low[TILE], high[TILE], weight[TILE];
} tile;

static void look_up(const sb_fp4_ranges *r, const unsigned char *codes, unsigned count, tile *t)
{
    for (unsigned i = 0; i < count / 2; i++) {
        unsigned even = i / PAIRS * CHUNK + i % PAIRS, odd = even + PAIRS;
        unsigned l = codes[i] & 15u, h = codes[i] >> 4;
        t->value[even] = r->value[l], t->value[odd] = r->value[h];
        t->low[even] = r->low[l], t->low[odd] = r->low[h];
        t->high[even] = r->high[l], t->high[odd] = r->high[h];
    }
}

/* Puts the even columns of a chunk before the odd ones; returns the largest magnitude, as bits. */
static uint32_t part(const sb_fp4_line *x, size_t first, float *weights)
{
    uint32_t bits[CHUNK], largest = 0;
    for (unsigned k = 0; k < CHUNK; k++)
        bits[k / 2 + k % 2 * PAIRS] = x->bf16
                                          ? (uint32_t)sb_load_u16(x->bf16 + 2 * (first + k)) << 16
                                          : sb_bits_f32(x->weights[first + k]);
    for (unsigned k = 0; k < CHUNK; k++) {
        uint32_t a = bits[k] & 0x7fffffffu;
        largest = a > largest ? a : largest;
    }
    memcpy(weights, bits, sizeof bits);
    return largest;
}

/* Sums of the fast test. */
typedef struct lanes {
    float error2[PAIRS], weight2[PAIRS];
    int bad[PAIRS];
} lanes;

/* V-23: "What a fast test in binary32 cannot prove" goes to the definition */
static void sure(const tile *x, unsigned at, float inverse, float square, lanes *l)
{
#if !defined(__clang__) /* clang would unroll the loop and then not vectorize it */
#pragma omp simd
#endif
    for (unsigned i = 0; i < PAIRS; i++) {
        unsigned a = at + i, b = a + PAIRS;
        float t = x->weight[a] * inverse, u = x->weight[b] * inverse;
        float d = x->value[a] - t, e = x->value[b] - u;
        l->bad[i] |= !(t >= x->low[a]) | !(t <= x->high[a]);
        l->bad[i] |= !(u >= x->low[b]) | !(u <= x->high[b]);
        l->error2[i] += (d * d + e * e) * square;
        l->weight2[i] += (t * t + u * u) * square;
    }
}

static int each_chunk(const sb_fp4 *f, sb_fp4_line *x)
{
    lanes l = {.bad = {0}};
    tile t;
    uint32_t chunks = f->blocks * f->chunks;
    int bad = 0;
    memcpy(l.error2, x->error2, sizeof l.error2);
    memcpy(l.weight2, x->weight2, sizeof l.weight2);
    for (uint32_t i = 0; i < chunks; i++) {
        uint8_t byte = x->scales[i / f->chunks];
        unsigned at = i * CHUNK % TILE;
        unsigned left = (chunks - i) * CHUNK;
        for (unsigned k = 0; at == 0 && k < left && k < TILE; k += CHUNK)
            x->largest[i + k / CHUNK] = part(x, (size_t)i * CHUNK + k, t.weight + k);
        if (at == 0)
            look_up(&f->ranges, x->codes + (size_t)i * PAIRS, left < TILE ? left : TILE, &t);
        sure(&t, at, f->inverse[byte], f->square[byte], &l);
        bad |= f->inverse[byte] == 0;
    }
    memcpy(x->error2, l.error2, sizeof l.error2);
    memcpy(x->weight2, l.weight2, sizeof l.weight2);
    for (unsigned i = 0; i < PAIRS; i++)
        bad |= l.bad[i];
    return bad;
}

int sb_fp4_doubts(const sb_fp4 *f, sb_fp4_line *x)
{
    return f->loops ? sb_fp4_doubts_avx2(f, x) : each_chunk(f, x);
}
