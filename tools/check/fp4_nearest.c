/* fp4_nearest.c - codes against the original's weights. */
#include <string.h>

#include "ref/formats/small_float.h"
#include "tools/check/fp4.h"

enum { CHUNK = 16 };

/* Between which quotients a magnitude is a nearest one. */
static const double below[8] = {0, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5};
static const double above[8] = {0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, 1e300};

/* V-23: "t = w / e is within the boundaries of the code, moved outward by |t| 2^-8" */
int sb_fp4_is_nearest(unsigned code, double w, double e)
{
    double t = code & 8u ? -w / e : w / e;
    unsigned magnitude = code & 7u;
    if (magnitude == 0)
        return (t < 0 ? -t : t) * (1 - SB_FP4_SLACK) <= above[0];
    return t * (1 + SB_FP4_SLACK) >= below[magnitude] && t * (1 - SB_FP4_SLACK) <= above[magnitude];
}

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
    return (double)largest * (1 - SB_FP4_SLACK) <= 6 * f->multiplier * 0x1p-10;
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

/* The sums of a chunk whose scale the fast test cannot work with: none above zero means zeros. */
static void no_inverse(const sb_fp4 *f, sb_fp4_line *x, uint32_t chunk)
{
    double scale = f->scale[x->scales[chunk / f->chunks]];
    for (unsigned i = 0; i < CHUNK; i++) {
        unsigned code =
            (unsigned)x->codes[(size_t)chunk * (CHUNK / 2) + i / 2] >> 4 * (i % 2) & 15u;
        double w = (double)x->weights[(size_t)chunk * CHUNK + i] / f->multiplier;
        double error = (double)sb_e2m1_to_f32((uint8_t)code) * scale - w;
        x->error2[i] += (float)(error * error);
        x->weight2[i] += (float)(w * w);
    }
}

static double sum_of(const float *values)
{
    double sum = 0;
    for (unsigned i = 0; i < CHUNK; i++)
        sum += (double)values[i];
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
        if (f->inverse[byte] == 0)
            no_inverse(f, x, i);
        if (f->nearest)
            exactly(f, x, i);
    }
    for (uint32_t b = 0; b < f->blocks; b++) {
        float a = x->largest[b * f->chunks], c = x->largest[b * f->chunks + f->chunks - 1];
        a = c > a ? c : a;
        largest = a > largest ? a : largest;
        float u = a * f->scale_unit;
        if (!(u >= f->low[x->scales[b]] && u <= f->high[x->scales[b]]))
            sb_fp4_compare_scale(f, x->scales[b], a, x->row, b);
    }
    f->seen->scales_compared += f->blocks;
    if (largest > f->seen->master_largest)
        f->seen->master_largest = largest;
    f->seen->compared += count;
    d->count += count;
    d->error2 += sum_of(x->error2) * unit;
    d->master2 += sum_of(x->weight2) * unit;
    return f->mx ? largest > 0 : !rounds_to_zero(f, largest);
}
