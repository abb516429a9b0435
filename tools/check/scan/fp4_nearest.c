/* fp4_nearest.c - compares codes with the original's weights. */
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/formats/small_float.h"
#include "tools/check/scan/fp4.h"

enum { CHUNK = 16 };

const double sb_fp4_middles[7] = {0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5};

/* V-23: "t = w / e is within the boundaries of the code, moved outward by |t| 2^-8" */
int sb_fp4_is_nearest(unsigned code, double w, double e)
{
    double t = code & 8u ? -w / e : w / e;
    unsigned magnitude = code & 7u;
    if (magnitude == 0)
        return (t < 0 ? -t : t) * (1 - SB_FP4_SLACK) <= sb_fp4_middles[0];
    return t * (1 + SB_FP4_SLACK) >= sb_fp4_middles[magnitude - 1] &&
           (magnitude == 7 || t * (1 - SB_FP4_SLACK) <= sb_fp4_middles[magnitude]);
}

/* --- rows ------------------------------------------------------------------------------------- */

static void add_wrong(sb_seen_fp4 *seen, uint32_t row, uint32_t column, unsigned code, float weight)
{
    if (seen->wrong < SB_FP4_LISTED)
        seen->first[seen->wrong] = (sb_fp4_wrong){row, column << 4 | code, weight};
    seen->wrong++;
}

/* 1 if a block may have scale zero, which makes all its values zeros: the scale of the original's
 * block is nearer to zero than to the smallest scale, 2^-9. */
static int rounds_to_zero(const sb_fp4 *f, float largest)
{
    return (double)largest * (1 - SB_FP4_SLACK) <= 6 * f->multiplier * 0x1p-10;
}

static float weight_of(const sb_fp4_line *x, size_t column)
{
    return x->bf16 ? sb_f32_from_bits((uint32_t)sb_load_u16(x->bf16 + 2 * column) << 16)
                   : x->weights[column];
}

static unsigned code_of(const sb_fp4_line *x, size_t column)
{
    return (unsigned)x->codes[column / 2] >> 4 * (column % 2) & 15u;
}

/* V-23: "Every code must be a nearest one" */
static void exactly(const sb_fp4 *f, const sb_fp4_line *x, uint32_t chunk)
{
    uint8_t byte = x->scales[chunk / f->chunks];
    double e = f->scale[byte] * f->multiplier;
    int zero = byte == 0 && !f->mx;
    if ((e == 0 && !zero) || (zero && rounds_to_zero(f, sb_f32_from_bits(x->largest[chunk]))))
        return; /* the scale is the fault, which another check reports */
    for (uint32_t i = chunk * CHUNK; i < (chunk + 1) * CHUNK; i++) {
        unsigned code = code_of(x, i);
        float weight = weight_of(x, i);
        double w = (double)weight;
        if (zero ? w != 0 : !sb_fp4_is_nearest(code, w, e) && w == w)
            add_wrong(f->seen, x->row, i, code, weight);
    }
}

/* Adds the sums of a chunk whose scale the fast test cannot handle. Under a scale that is not above
 * zero, all values are zero. */
static void no_inverse(const sb_fp4 *f, sb_fp4_line *x, uint32_t chunk)
{
    double scale = f->scale[x->scales[chunk / f->chunks]];
    for (unsigned i = 0; i < CHUNK; i++) {
        size_t column = (size_t)chunk * CHUNK + i;
        double w = (double)weight_of(x, column) / f->multiplier;
        double error = (double)sb_e2m1_to_f32((uint8_t)code_of(x, column)) * scale - w;
        x->error2[i / 2] += (float)(error * error);
        x->weight2[i / 2] += (float)(w * w);
    }
}

/* For blocks of two chunks: replaces the largest magnitudes of the chunks by those of the
 * blocks. */
static void join_chunks(const sb_fp4 *f, sb_fp4_line *x)
{
    for (uint32_t b = 0; b < f->blocks && f->chunks == 2; b++) {
        uint32_t a = x->largest[2 * (size_t)b], c = x->largest[2 * (size_t)b + 1];
        x->largest[b] = a > c ? a : c;
    }
}

/* Compares the scale of each block with its largest magnitude. Returns the largest magnitude of
 * all, ignoring NaN. */
static float compare_scales(const sb_fp4 *f, const sb_fp4_line *x)
{
    const uint32_t *largest = x->largest, blocks = f->blocks;
    const unsigned char *scales = x->scales;
    uint32_t bits = 0;
    for (uint32_t b = 0; b < blocks; b++) {
        uint32_t a = largest[b];
        bits = a > bits ? a : bits;
        /* if a is less, the difference wraps to a huge number */
        if (a - f->low_bits[scales[b]] > f->span[scales[b]])
            sb_fp4_compare_scale(f, scales[b], sb_f32_from_bits(a), x->row, b);
    }
    float all = sb_f32_from_bits(bits);
    if (all == all)
        return all;
    all = 0;
    for (uint32_t b = 0; b < blocks; b++) {
        float a = sb_f32_from_bits(largest[b]);
        all = a > all ? a : all;
    }
    return all;
}

static double sum_of(const float *values)
{
    double sum = 0;
    for (unsigned i = 0; i < CHUNK / 2; i++)
        sum += (double)values[i];
    return sum;
}

int sb_fp4_against(const sb_fp4 *f, sb_fp4_line *x)
{
    uint32_t chunks = f->blocks * f->chunks;
    uint64_t count = (uint64_t)chunks * CHUNK;
    sb_distance *d = &f->panel->seen->distance;
    double unit = f->multiplier * f->multiplier;
    memset(x->error2, 0, sizeof x->error2);
    memset(x->weight2, 0, sizeof x->weight2);
    int doubts = sb_fp4_doubts(f, x);
    for (uint32_t i = 0; i < chunks && doubts; i++) {
        uint8_t byte = x->scales[i / f->chunks];
        if (f->inverse[byte] == 0)
            no_inverse(f, x, i);
        if (f->nearest)
            exactly(f, x, i);
    }
    join_chunks(f, x);
    float largest = compare_scales(f, x);
    f->seen->scales_compared += f->blocks;
    if (largest > f->seen->master_largest)
        f->seen->master_largest = largest;
    f->seen->compared += count;
    d->count += count;
    d->error2 += sum_of(x->error2) * unit;
    d->master2 += sum_of(x->weight2) * unit;
    return f->mx ? largest > 0 : !rounds_to_zero(f, largest);
}
