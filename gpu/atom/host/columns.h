/* columns.h - an MMA in vector arithmetic: four rows at once, for one column. Nothing here rounds,
 * so the bits are the same as in the definition element by element (half.cc, e4m3.cc). That
 * definition also computes the cases that this file refuses. */
#ifndef SB_ATOM_HOST_COLUMNS_H
#define SB_ATOM_HOST_COLUMNS_H

#include <string.h>

#include "gpu/atom/accumulate.h"
#include "gpu/atom/host/fragment.h"

/* gcc and clang support arithmetic on these vectors. */
typedef float sb_float4 __attribute__((vector_size(16)));
typedef int32_t sb_int4 __attribute__((vector_size(16)));
typedef int16_t sb_short8 __attribute__((vector_size(16)));
typedef double sb_double2 __attribute__((vector_size(16)));
typedef int64_t sb_long2 __attribute__((vector_size(16)));

/* Writes the results of a column in which all products are zero: C alone. H-3: "A zero sum is +0."
 * Most elements of C are +0 already. */
inline void sb_fragment_alone(float d[32][4], unsigned column)
{
    float(*lane)[4] = d + column / 2;
    for (unsigned g = 0; g < 8; g++)
        for (unsigned i = column & 1; i < 4; i += 2) {
            float *c = &lane[4 * g][i];
            uint32_t bits;
            memcpy(&bits, c, sizeof bits);
            if (bits != 0)
                *c = sb_atom_alone(*c);
        }
}

/* sb_no_exponent is the exponent of a zero: added to any other exponent, it stays below all valid
 * sums. sb_least_exponent is the least exponent for which the rounded sum is surely a normal
 * number. */
constexpr int sb_no_exponent = -4096, sb_least_exponent = -60;

/* Values are exact in binary32. So are their products, which have at most 22 bits and lie between
 * 2^-126 and 2^127. The exponents are those of H-2, for the alignment. */
template <int K> struct sb_mma_rows {
    alignas(16) float value[K][SB_ROWS];
    alignas(16) int16_t exponent[K][SB_ROWS];
};
template <int K> struct sb_mma_column {
    float value[K];
    int16_t exponent[K];
};

inline sb_int4 sb_choose(sb_int4 which, sb_int4 yes, sb_int4 no)
{
    return (which & yes) | (~which & no);
}
inline bool sb_any(sb_int4 which)
{
    const sb_long2 two = (sb_long2)which;
    return (two[0] | two[1]) != 0;
}

/* most[row] becomes the largest exponent of a product of the row. */
template <int K>
void sb_mma_most(const sb_mma_rows<K> &a, const sb_mma_column<K> &b, int16_t (&most)[SB_ROWS])
{
    sb_short8 best[2] = {};
    best[0] += (int16_t)(2 * sb_no_exponent);
    best[1] = best[0];
    for (unsigned k = 0; k < K; k++) {
        const sb_short8 of_b = sb_short8{} + b.exponent[k];
        for (unsigned h = 0; h < 2; h++) {
            sb_short8 of_a;
            memcpy(&of_a, a.exponent[k] + 8 * h, sizeof of_a);
            const sb_short8 exponent = of_a + of_b;
            best[h] = exponent > best[h] ? exponent : best[h];
        }
    }
    memcpy(most, best, sizeof best);
}

/* For four rows: the sum of 16 products of row and column, each cut to an integer. A term is below
 * 2^27, so 16 terms fit an int32. The scaling rounds only products that become smaller than 1, and
 * these are cut to 0. */
template <int K>
sb_int4 sb_mma_terms(const sb_mma_rows<K> &a, const sb_mma_column<K> &b, unsigned from,
                     unsigned row, sb_float4 scale)
{
    sb_int4 sum = {};
    for (unsigned k = from; k < from + 16; k++) {
        sb_float4 of_a;
        memcpy(&of_a, a.value[k] + row, sizeof of_a);
        sum += __builtin_convertvector(of_a * b.value[k] * scale, sb_int4);
    }
    return sum;
}

/* H-3: "toward zero to the fraction bits of the row": a sum of a few 32-bit integers is exact in
 * binary64, whose last 29 bits are then cleared. */
inline float sb_mma_pack(double sum, int exponent)
{
    uint64_t bits, unit = (uint64_t)(exponent - SB_ATOM_CUT_MMA + 1023) << 52;
    double cut, power;
    memcpy(&bits, &sum, sizeof bits);
    bits &= ~(uint64_t)0x1fffffff;
    memcpy(&cut, &bits, sizeof cut);
    memcpy(&power, &unit, sizeof power);
    return (float)(cut * power);
}

/* c += a b for four rows. Returns false and does nothing if a c is not finite, or if a result might
 * be subnormal. H-3: "A zero sum is +0." */
template <int K>
bool sb_mma_four(const sb_mma_rows<K> &a, const sb_mma_column<K> &b, unsigned row,
                 const int16_t (&products)[SB_ROWS], float *c)
{
    sb_float4 old;
    memcpy(&old, c, sizeof old);
    const sb_int4 most = {products[row], products[row + 1], products[row + 2], products[row + 3]};
    const sb_int4 field = (sb_int4)old >> 23 & 0xff, own = field - 127 - (field == 0);
    const sb_int4 nothing = (most < sb_no_exponent / 2) & (old == 0.0f);
    const sb_int4 top = sb_choose(nothing, sb_int4{}, sb_choose(most > own, most, own));
    if (sb_any((field == 255) | (top < sb_least_exponent)))
        return false;
    const sb_float4 scale = (sb_float4)((127 + SB_ATOM_CUT_MMA - top) << 23);
    const sb_int4 addend = __builtin_convertvector(old * scale, sb_int4);
    sb_int4 sum[K / 16];
    for (unsigned from = 0; from < K; from += 16)
        sum[from / 16] = sb_mma_terms(a, b, from, row, scale);
    for (unsigned r = 0; r < 4; r++) {
        double all = addend[r];
        for (unsigned from = 0; from < K; from += 16)
            all += sum[from / 16][r];
        c[r] = sb_mma_pack(all, top[r]);
    }
    return true;
}

#endif
