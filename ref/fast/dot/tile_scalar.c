#include "ref/formats/format.h"
#include "ref/formats/small_float.h"
#include "ref/fast/dot/kernels.h"
#include "ref/fast/dot/tile.h"

enum { ROWS = SB_TILE_ROWS, LANES = 4, STEP = SB_TILE_STEP };

/* Multiplies four rows with one input. The compiler vectorizes the lanes. */
static void one_input(const double *w, const double *x, size_t n, double *sums)
{
    double acc[ROWS][LANES] = {{0}};
    for (size_t k = 0; k < n; k += LANES)
        for (size_t r = 0; r < ROWS; r++)
            for (size_t l = 0; l < LANES; l++)
                acc[r][l] += w[r * n + k + l] * x[k + l];
    for (size_t r = 0; r < ROWS; r++)
        sums[r] += (acc[r][0] + acc[r][2]) + (acc[r][1] + acc[r][3]);
}

static void multiply(const double *w, const double *x, size_t inputs, size_t n, double *sums,
                     size_t stride)
{
    for (size_t t = 0; t < inputs; t++)
        one_input(w, x + t * n, n, sums + t * stride);
}

/* Decodes at most STEP codes from column `at` on. */
static void decode_step(sb_format format, const unsigned char *codes, size_t at, size_t count,
                        float *values)
{
    const unsigned bits = sb_format_bits(format);
    uint8_t piece[STEP];
    if (sb_format_is_plain(format)) {
        sb_decode(format, codes + at * (bits / 8), count, values);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const unsigned code = codes[(at + i) * bits / 8];
        piece[i] = (uint8_t)(bits == 8 ? code : (code >> ((at + i) % 2 * 4) & 15u));
    }
    sb_small_decode(format, piece, count, values);
}

double sb_tile_decode(sb_format format, const sb_row_codes *w, size_t first, size_t n,
                      double *values)
{
    double squares = 0;
    float piece[STEP];
    for (size_t i = 0; i < n; i += STEP, values += STEP) {
        const size_t count = n - i < STEP ? n - i : STEP, group = (first + i) / w->group;
        const double zero = w->zeros ? w->zeros[group] : 0,
                     scale = w->scales ? w->scales[group] : 1;
        decode_step(format, w->codes, first + i, count, piece);
        for (size_t k = 0; k < STEP; k++) {
            values[k] = k < count ? ((double)piece[k] - zero) * scale : 0;
            squares += values[k] * values[k];
        }
    }
    return squares;
}

/* As sb_round_within. If a sum is not finite, its bound is not finite either. */
int sb_tile_round(const double *sums, const double *bounds, double size, sb_tile_factor factor,
                  size_t n, float *out, unsigned char *open)
{
    int any = 0;
    for (size_t r = 0; r < n; r++) {
        const double value = sums[r] * factor.mul / factor.div;
        const double bound = bounds[r] * size + sb_absolute(value) * 0x1p-52;
        const float low = (float)(value - bound), high = (float)(value + bound);
        out[r] = low;
        open[r] = sb_bits_f32(low) != sb_bits_f32(high) || !(bound < 0x1p1000);
        any |= open[r];
    }
    return any;
}

const sb_tile_kernels sb_tile_scalar = {
    .lanes = LANES, .inputs = 4, .multiply = multiply, .round = sb_tile_round};
