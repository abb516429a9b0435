/* fp4_nearest.c - codes against the original's weights. */
#include "ref/base/bytes.h"
#include "ref/formats/small_float.h"
#include "tools/check/fp4.h"

/* How far a quotient may be beyond a rounding boundary, in parts of itself: a quotient in BF16 is
 * off by 2^-9, and reciprocals instead of divisions add little. */
#define SLACK 0x1p-8

/* Between which quotients a magnitude is a nearest one. */
static const double below[8] = {0, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5};
static const double above[8] = {0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, 1e300};

/* V-23: "t = w / e is within the boundaries of the code, moved outward by |t| 2^-8" */
int sb_fp4_is_nearest(unsigned code, double w, double e)
{
    double t = code & 8u ? -w / e : w / e;
    unsigned magnitude = code & 7u;
    if (magnitude == 0)
        return (t < 0 ? -t : t) * (1 - SLACK) <= above[0];
    return t * (1 + SLACK) >= below[magnitude] && t * (1 - SLACK) <= above[magnitude];
}

/* --- the same for blocks, fast ---------------------------------------------------------------- */

/* Two codes of a byte: their values, and the quotients between which they are nearest for certain,
 * whatever a few roundings of binary32 have done to the quotient. */
typedef struct pair {
    float value[2], low[2], high[2];
} pair;

#define SURE 0x1p-20
#define HUGE_QUOTIENT 3e38f
#define OUT(x) ((float)((x) * (1 - SURE) / (1 - SLACK)))
#define IN(x) ((float)((x) * (1 + SURE) / (1 + SLACK)))

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
#define PAIR(h, l) {{VALUE_##l, VALUE_##h}, {LOW_##l, LOW_##h}, {HIGH_##l, HIGH_##h}},
#define PAIRS(h)                                                                                   \
    PAIR(h, 0) PAIR(h, 1) PAIR(h, 2) PAIR(h, 3) PAIR(h, 4) PAIR(h, 5) PAIR(h, 6) PAIR(h, 7)        \
    PAIR(h, 8) PAIR(h, 9) PAIR(h, a) PAIR(h, b) PAIR(h, c) PAIR(h, d) PAIR(h, e) PAIR(h, f)

static const pair pairs[256] = {PAIRS(0) PAIRS(1) PAIRS(2) PAIRS(3) PAIRS(4) PAIRS(5) PAIRS(6)
                                    PAIRS(7) PAIRS(8) PAIRS(9) PAIRS(a) PAIRS(b) PAIRS(c) PAIRS(d)
                                        PAIRS(e) PAIRS(f)};

enum { CHUNK = 16 };

/* Columns that are looked up before they are compared: stores and loads of different width do not
 * meet in the processor's store buffer. */
enum { TILE = 256 };

typedef struct tile {
    float value[TILE], low[TILE], high[TILE];
} tile;

static inline __attribute__((always_inline)) void look_up(const unsigned char *codes, unsigned count,
                                                          tile *t)
{
    for (unsigned i = 0; i < count / 2; i++) {
        const pair *p = &pairs[codes[i]];
        memcpy(t->value + 2 * (size_t)i, p->value, sizeof p->value);
        memcpy(t->low + 2 * (size_t)i, p->low, sizeof p->low);
        memcpy(t->high + 2 * (size_t)i, p->high, sizeof p->high);
    }
}

/* V-23: "what a fast test in binary32 cannot prove" goes to the definition */
static inline __attribute__((always_inline)) int sure(const tile *x, unsigned at,
                                                      const float *weights, float inverse,
                                                      float scale, float *error2, float *weight2)
{
    int bad = 0;
#pragma omp simd reduction(| : bad)
    for (unsigned i = 0; i < CHUNK; i++) {
        float t = weights[i] * inverse;
        float error = (x->value[at + i] - t) * scale, size = t * scale;
        bad |= !(t >= x->low[at + i]) | !(t <= x->high[at + i]);
        error2[i] += error * error;
        weight2[i] += size * size;
    }
    return !bad;
}

static inline __attribute__((always_inline)) int each_chunk(const sb_fp4 *f, sb_fp4_line *x)
{
    float error2[CHUNK], weight2[CHUNK];
    tile t;
    unsigned doubts = 0;
    memcpy(error2, x->error2, sizeof error2);
    memcpy(weight2, x->weight2, sizeof weight2);
    for (uint32_t i = 0; i < f->blocks * f->chunks; i++) {
        uint8_t byte = x->scales[i / f->chunks];
        unsigned at = i * CHUNK % TILE;
        unsigned left = (f->blocks * f->chunks - i) * CHUNK;
        if (at == 0)
            look_up(x->codes + (size_t)i * (CHUNK / 2), left < TILE ? left : TILE, &t);
        int ok = sure(&t, at, x->weights + (size_t)i * CHUNK, f->inverse[byte], f->value[byte],
                      error2, weight2);
        x->doubt[i] = (unsigned char)(!ok | (f->inverse[byte] == 0));
        doubts += x->doubt[i];
    }
    memcpy(x->error2, error2, sizeof error2);
    memcpy(x->weight2, weight2, sizeof weight2);
    return doubts != 0;
}

#if defined(__x86_64__) && defined(__GNUC__)

__attribute__((target("avx2"))) static int each_chunk_avx2(const sb_fp4 *f, sb_fp4_line *x)
{
    return each_chunk(f, x);
}

/* The same operations on the same lanes: the same results. */
int sb_fp4_doubts(const sb_fp4 *f, sb_fp4_line *x)
{
    return __builtin_cpu_supports("avx2") ? each_chunk_avx2(f, x) : each_chunk(f, x);
}

#else

int sb_fp4_doubts(const sb_fp4 *f, sb_fp4_line *x)
{
    return each_chunk(f, x);
}

#endif

/* --- rows ------------------------------------------------------------------------------------- */

static void add_wrong(sb_seen_fp4 *seen, uint32_t row, uint32_t column, unsigned code, float weight)
{
    if (seen->wrong < SB_FP4_LISTED)
        seen->first[seen->wrong] = (sb_fp4_wrong){row, column << 4 | code, weight};
    seen->wrong++;
}

/* A block whose scale is zero means zeros. That is right where the scale of the original's block is
 * nearer to zero than to the smallest, 2^-9. */
static int rounds_to_zero(const sb_fp4 *f, float largest)
{
    return (double)largest * (1 - SLACK) <= 6 * f->multiplier * 0x1p-10;
}

/* V-23: "Every code must be a nearest one" */
static void exactly(const sb_fp4 *f, const sb_fp4_line *x, uint32_t chunk)
{
    uint8_t byte = x->scales[chunk / f->chunks];
    const unsigned char *codes = x->codes + (size_t)chunk * (CHUNK / 2);
    const float *weights = x->weights + (size_t)chunk * CHUNK;
    double e = f->scale[byte] * f->multiplier;
    int zero = byte == 0 && !f->mx;
    if ((e == 0 && !zero) || (zero && rounds_to_zero(f, x->largest[chunk])))
        return; /* a scale of another check */
    for (uint32_t i = 0; i < CHUNK; i++) {
        unsigned code = (unsigned)codes[i / 2] >> 4 * (i % 2) & 15u;
        double w = (double)weights[i];
        if (zero ? w != 0 : !sb_fp4_is_nearest(code, w, e) && w == w)
            add_wrong(f->seen, x->row, chunk * CHUNK + i, code, weights[i]);
    }
}

/* Of a chunk under a scale that is no number above zero, all of which counts as zeros. */
static void no_scale(const sb_fp4 *f, sb_fp4_line *x, uint32_t chunk)
{
    for (unsigned i = 0; i < CHUNK; i++) {
        float t = (float)((double)x->weights[(size_t)chunk * CHUNK + i] / f->multiplier);
        x->error2[i] += t * t;
        x->weight2[i] += t * t;
    }
}

static double sum_of(const float *lanes)
{
    double sum = 0;
    for (unsigned i = 0; i < CHUNK; i++)
        sum += (double)lanes[i];
    return sum;
}

int sb_fp4_against(const sb_fp4 *f, sb_fp4_line *x)
{
    uint32_t chunks = f->blocks * f->chunks;
    uint64_t count = (uint64_t)chunks * CHUNK;
    sb_distance *d = &f->panel->seen->distance;
    double unit = f->multiplier * f->multiplier;
    float largest = 0;
    memset(x->error2, 0, sizeof x->error2);
    memset(x->weight2, 0, sizeof x->weight2);
    int doubts = sb_fp4_doubts(f, x);
    for (uint32_t i = 0; i < chunks && doubts; i++) {
        uint8_t byte = x->scales[i / f->chunks];
        if (x->doubt[i] && f->value[byte] == 0)
            no_scale(f, x, i);
        if (x->doubt[i] && f->nearest)
            exactly(f, x, i);
    }
    for (uint32_t b = 0; b < f->blocks; b++) {
        float a = x->largest[b * f->chunks], c = x->largest[b * f->chunks + f->chunks - 1];
        a = c > a ? c : a;
        largest = a > largest ? a : largest;
        sb_fp4_compare_scale(f, x->scales[b], a, x->row, b);
    }
    if (largest > f->seen->master_largest)
        f->seen->master_largest = largest;
    f->seen->compared += count;
    d->count += count;
    d->error2 += sum_of(x->error2) * unit;
    d->master2 += sum_of(x->weight2) * unit;
    return f->mx ? largest > 0 : !rounds_to_zero(f, largest);
}
