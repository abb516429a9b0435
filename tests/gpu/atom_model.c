#include "tests/gpu/atom_model.h"

#include "ref/base/bytes.h"
#include "ref/formats/format.h"
#include "ref/formats/small_float.h"

enum { MOST = 64 };

void atom_place_a(unsigned width, unsigned lane, unsigned i, unsigned *row, unsigned *k)
{
    unsigned group = lane >> 2, thread = lane % 4;
    int upper = i < width || (i >= 2 * width && i < 3 * width);
    *row = upper ? group : group + 8;
    *k = thread * width + i % width + (i < 2 * width ? 0 : 4 * width);
}

void atom_place_b(unsigned width, unsigned lane, unsigned i, unsigned *k, unsigned *column)
{
    *column = lane >> 2;
    *k = lane % 4 * width + i % width + (i < width ? 0 : 4 * width);
}

void atom_place_d(unsigned lane, unsigned i, unsigned *row, unsigned *column)
{
    *row = i < 2 ? lane >> 2 : (lane >> 2) + 8;
    *column = lane % 4 * 2 + (i & 1);
}

/* The codes of both operands by row, column and k. */
typedef struct atom_codes {
    uint16_t a[16][MOST], b[8][MOST];
} atom_codes;

static void read_codes(unsigned bits, const atom_warp *warp, atom_codes *out)
{
    unsigned width = 32 / bits, row, column, k;
    for (unsigned lane = 0; lane < 32; lane++) {
        for (unsigned i = 0; i < 4 * width; i++) {
            atom_place_a(width, lane, i, &row, &k);
            out->a[row][k] =
                (uint16_t)(warp->a[lane][i / width] >> bits * (i % width) & ((1u << bits) - 1));
        }
        for (unsigned i = 0; i < 2 * width; i++) {
            atom_place_b(width, lane, i, &k, &column);
            out->b[column][k] =
                (uint16_t)(warp->b[lane][i / width] >> bits * (i % width) & ((1u << bits) - 1));
        }
    }
}

static float flat(const sb_atom *atom, sb_format format, const uint16_t *a, const uint16_t *b,
                  float c)
{
    sb_atom_term terms[MOST];
    for (unsigned k = 0; k < atom->terms; k++)
        terms[k] =
            sb_atom_product(format, sb_code_to_f32(format, a[k]), sb_code_to_f32(format, b[k]));
    return sb_atom_run(atom, terms, c);
}

static float grouped(const sb_atom *atom, const uint16_t *a, const uint16_t *b, uint32_t scales_a,
                     uint32_t scales_b, float c)
{
    sb_atom_term terms[4];
    for (unsigned q = 0; q < 4; q++) {
        int8_t x[16], y[16];
        float scale_a = sb_ue4m3_to_f32((uint8_t)(scales_a >> 8 * q));
        float scale_b = sb_ue4m3_to_f32((uint8_t)(scales_b >> 8 * q));
        if (scale_a != scale_a || scale_b != scale_b)
            return sb_f32_from_bits(0x7fffffffu);
        for (unsigned i = 0; i < 16; i++) {
            x[i] = (int8_t)(2 * sb_e2m1_to_f32((uint8_t)a[16 * q + i]));
            y[i] = (int8_t)(2 * sb_e2m1_to_f32((uint8_t)b[16 * q + i]));
        }
        terms[q] = sb_atom_group(atom, x, y, scale_a, scale_b);
    }
    return sb_atom_run(atom, terms, c);
}

/* The lane that holds the scale word of row m, or of column n. */
static unsigned scale_lane_a(unsigned m, unsigned thread)
{
    return m < 8 ? m * 4 + thread * 2 : (m - 8) * 4 + thread * 2 + 1;
}

void atom_model(const sb_atom *atom, sb_format format, const atom_warp *warp, unsigned only,
                float d[32][4])
{
    atom_codes codes;
    read_codes(sb_format_bits(format), warp, &codes);
    for (unsigned lane = 0; lane < 32; lane++)
        for (unsigned i = 0; i < 4; i++) {
            unsigned m, n;
            atom_place_d(lane, i, &m, &n);
            float c = warp->c[lane][i];
            if (only < 8 && n != only)
                continue;
            d[lane][i] = atom->group > 1 ? grouped(atom, codes.a[m], codes.b[n],
                                                   warp->sa[scale_lane_a(m, warp->from_a)],
                                                   warp->sb[n * 4 + warp->from_b], c)
                                         : flat(atom, format, codes.a[m], codes.b[n], c);
        }
}

void atom_model_s8(const atom_warp *warp, const int32_t c[32][4], int32_t d[32][4])
{
    atom_codes codes;
    read_codes(8, warp, &codes);
    for (unsigned lane = 0; lane < 32; lane++)
        for (unsigned i = 0; i < 4; i++) {
            unsigned m, n;
            atom_place_d(lane, i, &m, &n);
            int64_t sum = c[lane][i];
            for (unsigned k = 0; k < 32; k++) {
                int x = codes.a[m][k], y = codes.b[n][k];
                sum += (x < 128 ? x : x - 256) * (y < 128 ? y : y - 256);
            }
            uint32_t wrapped = (uint32_t)(uint64_t)sum;
            d[lane][i] = wrapped < 0x80000000u ? (int32_t)wrapped
                                               : (int32_t)(wrapped - 0x80000000u) - INT32_MAX - 1;
        }
}
