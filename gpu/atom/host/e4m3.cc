/* e4m3.cc - m16n8k32 of E4M3 (row sm120_fp8).
 *
 * Like half.cc, but in binary32. A product has 8 bits and lies between 2^-18 and 2^18. If some
 * product is not zero, the scale lies between 2^-102 and 2^37. A term is below 3.6 2^25, so 16
 * terms fit an int32. */
#include <stddef.h>

#include "gpu/atom/accumulate.h"
#include "gpu/atom/host/columns.h"
#include "gpu/atom/host/fragment.h"
#include "gpu/atom/host/warp.h"

namespace
{

enum { K = 32, CODES = 256 };

struct code_table {
    float value[CODES];
    int16_t exponent[CODES];
    code_table()
    {
        for (unsigned code = 0; code < CODES; code++) {
            int field = (int)(code >> 3 & 15), tail = (int)(code & 7),
                digits = field ? tail + 8 : tail;
            int power = field ? field - 7 : -6; /* H-2: "-6 of E4M3" */
            float size = (float)digits * sb_atom_float((uint32_t)(power - 3 + 127) << 23);
            value[code] = code & 0x80 ? -size : size;
            exponent[code] = (int16_t)(digits ? power : sb_no_exponent);
        }
    }
};
const code_table table;

struct line { /* a row of A or a column of B */
    float value[K];
    int16_t exponent[K];
    bool finite;
};

line read_line(const uint32_t words[8])
{
    line out;
    out.finite = true;
    for (unsigned k = 0; k < K; k++) {
        uint32_t code = words[k / 4] >> 8 * (k & 3) & 0xff;
        out.value[k] = table.value[code];
        out.exponent[k] = table.exponent[code];
        out.finite &= (code & 0x7f) != 0x7f;
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
    int top = 2 * sb_no_exponent;
    for (unsigned k = 0; k < K; k++) {
        const int exponent = a.exponent[k] + b.exponent[k];
        top = exponent > top ? exponent : top;
    }
    if (top < sb_no_exponent / 2)
        return sb_atom_alone(c);
    sb_atom_parts addend = sb_atom_split(c);
    int most = top > addend.exponent ? top : addend.exponent;
    int unit = most - SB_ATOM_CUT_MMA;
    float scale = sb_atom_float((uint32_t)(127 - unit) << 23);
    int64_t sum = sb_atom_cut(addend.digits * 4, most - addend.exponent);
    sum += half_sum(a.value, b.value, scale);
    sum += half_sum(a.value + K / 2, b.value + K / 2, scale);
    return sb_atom_pack(sum, unit);
}

/* Reads the rows in the form of columns.h. Returns false if an element is NaN. */
bool read_rows(const uint32_t words[SB_ROWS][8], sb_mma_rows<K> *rows)
{
    bool finite = true;
    for (unsigned row = 0; row < SB_ROWS; row++)
        for (unsigned k = 0; k < K; k++) {
            const uint32_t code = words[row][k / 4] >> 8 * (k & 3) & 0xff;
            rows->value[k][row] = table.value[code];
            rows->exponent[k][row] = table.exponent[code];
            finite &= (code & 0x7f) != 0x7f;
        }
    return finite;
}

bool read_column(const uint32_t words[8], sb_mma_column<K> *column)
{
    bool finite = true;
    for (unsigned k = 0; k < K; k++) {
        const uint32_t code = words[k / 4] >> 8 * (k & 3) & 0xff;
        column->value[k] = table.value[code];
        column->exponent[k] = table.exponent[code];
        finite &= (code & 0x7f) != 0x7f;
    }
    return finite;
}

/* Computes four rows of a column by the definition. */
void elements(const sb_fragment_words &words, unsigned column, unsigned first, float *c)
{
    const line of_b = read_line(words.b[column]);
    for (unsigned row = 0; row < 4; row++)
        c[row] = element(read_line(words.a[first + row]), of_b, c[row]);
}

} // namespace

void sb_warp_mma_e4m3(const uint32_t a[32][4], const uint32_t b[32][2], float d[32][4])
{
    sb_fragment_words words;
    sb_mma_rows<K> rows;
    sb_fragment_gather(a, b, &words);
    const bool finite = read_rows(words.a, &rows);
    for (unsigned column = 0; column < SB_COLUMNS; column++) {
        sb_mma_column<K> of_b;
        int16_t most[SB_ROWS];
        float c[SB_ROWS];
        bool empty = finite;
        for (unsigned i = 0; i < K / 4; i++)
            empty &= (words.b[column][i] & 0x7f7f7f7f) == 0;
        if (empty) { /* the result is C, with all of its 24 bits */
            sb_fragment_alone(d, column);
            continue;
        }
        sb_fragment_column(d, column, c);
        const bool both = read_column(words.b[column], &of_b) && finite;
        sb_mma_most(rows, of_b, most);
        for (unsigned row = 0; row < SB_ROWS; row += 4)
            if (!both || !sb_mma_four(rows, of_b, row, most, c + row))
                elements(words, column, row, c + row);
        sb_fragment_put(c, column, d);
    }
}
