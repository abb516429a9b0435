/* e4m3.cc - m16n8k32 of E4M3 (row sm120_fp8).
 *
 * As half.cc, in binary32: a product has 8 bits and lies between 2^-18 and 2^18, the scale between
 * 2^-102 and 2^37 where any product is not zero. A term is below 3.6 2^25: 16 of them fit an int32.
 */
#include <stddef.h>

#include "gpu/atom/accumulate.h"
#include "gpu/atom/host/fragment.h"
#include "gpu/atom/host/warp.h"

namespace
{

/* An exponent is kept as 38 more than it is, that of a zero as 0: a sum of two is at least 64 if
 * neither is zero, and else at most 46. */
enum { K = 32, ABOVE = 38, LEAST_SUM = 64, CODES = 256 };

struct code_table {
    float value[CODES];
    uint8_t exponent[CODES];
    code_table()
    {
        for (unsigned code = 0; code < CODES; code++) {
            int field = (int)(code >> 3 & 15), tail = (int)(code & 7),
                digits = field ? tail + 8 : tail;
            int power = field ? field - 7 : -6; /* H-2: "-6 of E4M3" */
            float size = (float)digits * sb_atom_float((uint32_t)(power - 3 + 127) << 23);
            value[code] = code & 0x80 ? -size : size;
            exponent[code] = (uint8_t)(digits ? power + ABOVE : 0);
        }
    }
};
const code_table table;

struct line { /* a row of A or a column of B */
    float value[K];
    uint8_t exponent[K];
    bool finite, zero;
};

line read_line(const uint32_t words[8])
{
    line out;
    out.finite = out.zero = true;
    for (unsigned k = 0; k < K; k++) {
        uint32_t code = words[k / 4] >> 8 * (k & 3) & 0xff;
        out.value[k] = table.value[code];
        out.exponent[k] = table.exponent[code];
        out.finite &= (code & 0x7f) != 0x7f;
        out.zero &= (code & 0x7f) == 0;
    }
    return out;
}

int32_t half_sum(const float *a, const float *b, float scale)
{
    int32_t sum = 0;
    for (unsigned k = 0; k < K / 2; k++)
        sum += (int32_t)(a[k] * b[k] * scale);
    return sum;
}

float element(const line &a, const line &b, float c)
{
    if (!a.finite || !b.finite)
        return sb_atom_float(sb_atom_nan_bits);
    if (!sb_atom_finite(c))
        return sb_atom_beyond(c);
    uint8_t top = 0;
    for (unsigned k = 0; k < K; k++) {
        uint8_t exponent = (uint8_t)(a.exponent[k] + b.exponent[k]);
        top = exponent > top ? exponent : top;
    }
    if (top < LEAST_SUM)
        return sb_atom_alone(c);
    sb_atom_parts addend = sb_atom_split(c);
    int most = top - 2 * ABOVE > addend.exponent ? top - 2 * ABOVE : addend.exponent;
    int unit = most - SB_ATOM_CUT_MMA;
    float scale = sb_atom_float((uint32_t)(127 - unit) << 23);
    int64_t sum = sb_atom_cut(addend.digits * 4, most - addend.exponent);
    sum += half_sum(a.value, b.value, scale);
    sum += half_sum(a.value + K / 2, b.value + K / 2, scale);
    return sb_atom_pack(sum, unit);
}

} // namespace

void sb_warp_mma_e4m3(const uint32_t a[32][4], const uint32_t b[32][2], float d[32][4])
{
    sb_fragment_words words;
    line rows[SB_ROWS];
    bool finite = true;
    sb_fragment_gather(a, b, &words);
    for (unsigned row = 0; row < SB_ROWS; row++) {
        rows[row] = read_line(words.a[row]);
        finite &= rows[row].finite;
    }
    for (unsigned column = 0; column < SB_COLUMNS; column++) {
        line b_line = read_line(words.b[column]);
        bool empty = finite && b_line.zero;
        for (unsigned row = 0; row < SB_ROWS; row++) {
            float *c = &sb_fragment_result(d, row, column);
            *c = empty ? sb_atom_alone(*c) : element(rows[row], b_line, *c);
        }
    }
}
