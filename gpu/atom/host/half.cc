/* half.cc - m16n8k16 of bfloat16 and binary16 (row sm120_f16; also those of Hopper and B200).
 *
 * Products and their alignment are computed exactly in binary64: a product has at most 22 bits and
 * lies between 2^-266 and 2^256, scaling by a power of two is exact, and the conversion to an
 * integer truncates toward zero. A term is below 2^27, so 16 terms stay below 2^31. */
#include <stddef.h>
#include <string.h>

#include "gpu/atom/accumulate.h"
#include "gpu/atom/host/columns.h"
#include "gpu/atom/host/fragment.h"
#include "gpu/atom/host/warp.h"

namespace
{

enum { K = 16, NO_EXPONENT = -4096 };

struct line { /* a row of A or a column of B */
    double value[K];
    int16_t exponent[K];
    bool finite, zero;
};

/* H-2: "A number below the least exponent of its format keeps that exponent" */
struct bf16_code {
    static bool finite(uint32_t code)
    {
        return (code & 0x7f80) != 0x7f80;
    }
    static int exponent(uint32_t code)
    {
        int field = (int)(code >> 7 & 0xff);
        return field ? field - 127 : -126;
    }
    static float value(uint32_t code)
    {
        return sb_atom_float(code << 16);
    }
};

struct f16_code {
    static bool finite(uint32_t code)
    {
        return (code & 0x7c00) != 0x7c00;
    }
    static int exponent(uint32_t code)
    {
        int field = (int)(code >> 10 & 0x1f);
        return field ? field - 15 : -14;
    }
    static float value(uint32_t code)
    {
        uint32_t sign = (code & 0x8000) << 16, field = code >> 10 & 0x1f, tail = code & 0x3ff;
        if (field == 0) {
            float small = (float)(int)tail * 0x1p-24f;
            return sign ? -small : small;
        }
        return sb_atom_float(sign | (field == 31 ? 255 : field + 112) << 23 | tail << 13);
    }
};

template <class Code> line read_line(const uint32_t words[8])
{
    line out;
    out.finite = out.zero = true;
    for (unsigned k = 0; k < K; k++) {
        uint32_t code = words[k / 2] >> 16 * (k & 1) & 0xffff;
        bool none = (code & 0x7fff) == 0;
        out.value[k] = (double)Code::value(code);
        out.exponent[k] = (int16_t)(none ? NO_EXPONENT : Code::exponent(code));
        out.finite &= Code::finite(code);
        out.zero &= none;
    }
    return out;
}

/* The result for operands with an infinity or a NaN: the sum of IEEE 754. Its order does not
 * matter. */
float special(const line &a, const line &b, float c)
{
    double sum = (double)c;
    for (unsigned k = 0; k < K; k++)
        sum += a.value[k] * b.value[k] * 0.0 == 0.0 ? 0.0 : a.value[k] * b.value[k];
    return sum == sum ? (float)sum : sb_atom_float(sb_atom_nan_bits);
}

double power_of_two(int exponent)
{
    uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

float element(const line &a, const line &b, float c)
{
    if (!a.finite || !b.finite)
        return special(a, b, c);
    if (!sb_atom_finite(c))
        return sb_atom_beyond(c);
    /* H-2: "A product of zero and a C of zero have the exponent Z" */
    int16_t most = (int16_t)(c == 0.0f ? (int)SB_ATOM_ZERO_EXPONENT : sb_atom_split(c).exponent);
    for (unsigned k = 0; k < K; k++) {
        int16_t exponent = (int16_t)(a.exponent[k] + b.exponent[k]);
        most = exponent > most ? exponent : most;
    }
    double scale = power_of_two(SB_ATOM_CUT_MMA - most);
    int32_t sum = 0;
    for (unsigned k = 0; k < K; k++)
        sum += (int32_t)(a.value[k] * b.value[k] * scale);
    return sb_atom_pack((int64_t)sum + (int32_t)((double)c * scale), most - SB_ATOM_CUT_MMA);
}

template <class Code>
void multiply(const uint32_t a[32][4], const uint32_t b[32][2], float d[32][4])
{
    sb_fragment_words words;
    line rows[SB_ROWS];
    bool finite = true;
    sb_fragment_gather(a, b, &words);
    for (unsigned row = 0; row < SB_ROWS; row++) {
        rows[row] = read_line<Code>(words.a[row]);
        finite &= rows[row].finite;
    }
    for (unsigned column = 0; column < SB_COLUMNS; column++) {
        line b_line = read_line<Code>(words.b[column]);
        bool empty = finite && b_line.zero; /* the result is C, with all of its 24 bits */
        for (unsigned row = 0; row < SB_ROWS; row++) {
            float *c = &sb_fragment_result(d, row, column);
            *c = empty ? sb_atom_alone(*c) : element(rows[row], b_line, *c);
        }
    }
}

/* --- in vectors, if all products are normal numbers of binary32 ------------------------------- */

/* Reads four bfloat16 elements from the upper halves of words. The result is nonzero in each lane
 * whose element is neither zero nor a normal number from 2^-62 to 2^62. */
inline sb_int4 read_four(sb_int4 bits, float *value, int16_t *exponent)
{
    const sb_int4 field = bits >> 23 & 0xff, zero = (bits & 0x7fffffff) == 0;
    const sb_int4 own = sb_choose(zero, sb_int4{} + sb_no_exponent, field - 127);
    memcpy(value, &bits, sizeof bits);
    for (unsigned i = 0; i < 4; i++)
        exponent[i] = (int16_t)own[i];
    return ~zero & ((field < 127 - 62) | (field > 127 + 62));
}

/* H-8: like sb_fragment_gather, but the elements of all rows at one k are adjacent. Returns true if
 * every element is zero or a normal number from 2^-62 to 2^62. */
bool read_rows(const uint32_t a[32][4], sb_mma_rows<K> *rows)
{
    sb_int4 far = {};
    for (unsigned t = 0; t < 4; t++)
        for (unsigned r = 0; r < 4; r++)
            for (unsigned g = 0; g < 8; g += 4) {
                const unsigned row = g + 8 * (r & 1), k = 2 * t + 8 * (r >> 1);
                const uint32_t(*lane)[4] = a + 4 * g + t;
                const sb_int4 two = {(int32_t)lane[0][r], (int32_t)lane[4][r], (int32_t)lane[8][r],
                                     (int32_t)lane[12][r]};
                far |= read_four(two << 16, rows->value[k] + row, rows->exponent[k] + row);
                far |= read_four(two & -0x10000, rows->value[k + 1] + row,
                                 rows->exponent[k + 1] + row);
            }
    return !sb_any(far);
}

/* True if a column has only zeros, like the padding columns after the last row of a call. */
bool is_empty(const uint32_t b[4][2])
{
    uint32_t any = 0;
    for (unsigned t = 0; t < 4; t++)
        any |= b[t][0] | b[t][1];
    return (any & 0x7fff7fff) == 0;
}

bool read_column(const uint32_t b[4][2], sb_mma_column<K> *column)
{
    sb_int4 far = {};
    for (unsigned r = 0; r < 2; r++)
        for (unsigned t = 0; t < 4; t += 2) {
            const uint32_t low = b[t][r], high = b[t + 1][r];
            const sb_int4 bits = {(int32_t)(low << 16), (int32_t)(low & 0xffff0000),
                                  (int32_t)(high << 16), (int32_t)(high & 0xffff0000)};
            far |= read_four(bits, column->value + 8 * r + 2 * t, column->exponent + 8 * r + 2 * t);
        }
    return !sb_any(far);
}

/* Computes four rows of a column by the definition. */
void elements(const uint32_t a[32][4], const uint32_t b[32][2], unsigned column, unsigned first,
              float *c)
{
    sb_fragment_words words;
    sb_fragment_gather(a, b, &words);
    const line of_b = read_line<bf16_code>(words.b[column]);
    for (unsigned row = 0; row < 4; row++)
        c[row] = element(read_line<bf16_code>(words.a[first + row]), of_b, c[row]);
}

} // namespace

void sb_warp_mma_bf16(const uint32_t a[32][4], const uint32_t b[32][2], float d[32][4])
{
    sb_mma_rows<K> rows;
    if (!read_rows(a, &rows)) {
        multiply<bf16_code>(a, b, d);
        return;
    }
    for (unsigned column = 0; column < SB_COLUMNS; column++) {
        sb_mma_column<K> of_b;
        int16_t most[SB_ROWS];
        float c[SB_ROWS];
        if (is_empty(b + 4 * column)) { /* the result is C, with all of its 24 bits */
            sb_fragment_alone(d, column);
            continue;
        }
        sb_fragment_column(d, column, c);
        const bool near = read_column(b + 4 * column, &of_b);
        sb_mma_most(rows, of_b, most);
        for (unsigned row = 0; row < SB_ROWS; row += 4)
            if (!near || !sb_mma_four(rows, of_b, row, most, c + row))
                elements(a, b, column, row, c + row);
        sb_fragment_put(c, column, d);
    }
}

void sb_warp_mma_f16(const uint32_t a[32][4], const uint32_t b[32][2], float d[32][4])
{
    multiply<f16_code>(a, b, d);
}
