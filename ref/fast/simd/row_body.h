/* row_body.h - a row kernel for any instruction set. The file that includes it must define:
 *
 * - KERNEL, INLINE: qualifiers of functions
 * - vec, WIDTH: a register of doubles, and the number of doubles in it
 * - all, load_vec, plus, fused, absolute, across: from one double; from memory; a + b; a b + c;
 *   |a|; the sum of its elements
 * - row, row_start: the decoding state, with members zeroed, zero (a vec that is subtracted
 *   from codes), top, and sum (SUMS sums used in turn)
 * - add_block, all_sums: adds the next sb_row_block elements to these sums; the sum of these sums
 * - sixteen, nibbles, sum_of_16: 32 four-bit codes as two registers or pairs of registers,
 *   and the sum of products of 16
 * - store_top: stores the largest codes without sign, by lane
 *
 * Roundings; row.h allows n / 16 + 24. In a group of `here` columns, an element passes through here
 * / 16 + 2 additions, because `sum` consists of sixteen sums that take the elements in turn. 3 more
 * join these sums to one vec. One adds the sum times scale, for its own group and for each later
 * group. 4 follow at the end. A group has at least 16 columns, so the total is at most n / 16 + 11.
 * A magnitude passes through the 15 roundings of x16, here / 32 in a group, one for its own group
 * and for each later group, and 5 at the end. The total is less than n / 16 + 22. */
#ifndef SB_SIMD_ROW_BODY_H
#define SB_SIMD_ROW_BODY_H

#include <string.h>

#include "ref/fast/simd/rows.h"
#include "ref/formats/format.h"

/* Returns the sum of a group. An incomplete block is padded with zeros. */
INLINE vec group_sum(row *r, sb_format format, const unsigned char *codes, const double *x,
                     size_t n)
{
    const size_t block = sb_row_block(format), bits = sb_row_bits(format);
    for (int i = 0; i < SUMS; i++)
        r->sum[i] = all(0);
    for (; n >= block; n -= block, codes += block * bits / 8, x += block)
        add_block(r, format, codes, x);
    if (n > 0) {
        unsigned char last[64] = {0};
        double last_x[32] = {0};
        memcpy(last, codes, (n * bits + 7) / 8);
        memcpy(last_x, x, n * sizeof *x);
        add_block(r, format, last, last_x);
    }
    return all_sums(r);
}

/* The sum of magnitudes so far: `most` has the part from whole vectors, `rest` the remaining
 * part. */
typedef struct sizes {
    vec most;
    double rest;
} sizes;

/* Adds the magnitudes of `count` times 16 neighbours, whose codes times scale are at most
 * `largest`. */
INLINE void add_sizes(sizes *s, const double *x16, size_t count, double largest)
{
    vec sum = all(0);
    for (; count >= WIDTH; count -= WIDTH, x16 += WIDTH)
        sum = plus(sum, load_vec(x16));
    s->most = fused(sum, all(largest), s->most);
    for (; count > 0; count--)
        s->rest += *x16++ * largest;
}

/* Sums all complete pairs of 16 four-bit codes, in groups of 16 or 32 columns (`group`, a
 * constant). *size is the sum of their magnitudes without the factor of the largest code. */
INLINE vec pairs_of_16(const row *r, const sb_row_codes *w, const sb_row_input *x, size_t group,
                       sizes *size)
{
    const size_t end = w->n / 32 * 32;
    vec even = all(0), odd = all(0);
    size_t g = 0;
    for (size_t i = 0; i < end; i += 32) {
        const double *scales = w->scales + i / group;
        sixteen half[2];
        nibbles(r, w->codes + i / 2, half);
        even = fused(sum_of_16(half[0], x->x + i), all(scales[0]), even);
        odd = fused(sum_of_16(half[1], x->x + i + 16), all(scales[16 / group]), odd);
        if (group == 32)
            size->rest += sb_absolute(scales[0]) * (x->x16[i / 16] + x->x16[i / 16 + 1]);
    }
    for (; group == 16 && g + WIDTH <= end / 16; g += WIDTH)
        size->most = fused(absolute(load_vec(w->scales + g)), load_vec(x->x16 + g), size->most);
    for (; group == 16 && g < end / 16; g++)
        size->rest += sb_absolute(w->scales[g]) * x->x16[g];
    return plus(even, odd);
}

/* Returns the value of the largest code. It is NaN or infinite if any code is. */
INLINE double largest_of(const row *r, sb_format format)
{
    unsigned char codes[WIDTH * sizeof(double)];
    const size_t bytes = sb_row_bits(format) / 8;
    uint32_t largest = 0;
    if (format != SB_FORMAT_e4m3 && !sb_format_is_plain(format))
        return 1;
    store_top(r, codes);
    for (size_t i = 0; i < sizeof codes; i += bytes) {
        uint32_t code = bytes == 1   ? codes[i]
                        : bytes == 2 ? sb_load_u16(codes + i)
                                     : sb_load_u32(codes + i);
        largest = code > largest ? code : largest;
    }
    return sb_code_to_f32(format, largest);
}

INLINE sb_partial row_of(sb_format format, int zeroed, const sb_row_codes *w, const sb_row_input *x)
{
    const size_t bits = sb_row_bits(format);
    row r = row_start(bits == 4 ? sb_nibble_bytes(format) : &sb_e4m3_fix);
    sizes size = {all(0), 0};
    vec sum = all(0);
    size_t i = 0;
    r.zeroed = zeroed;
    if (bits == 4 && !zeroed && w->scales && (w->group == 16 || w->group == 32)) {
        sum = w->group == 16 ? pairs_of_16(&r, w, x, 16, &size) : pairs_of_16(&r, w, x, 32, &size);
        size = (sizes){fused(size.most, all(sb_row_largest(format, 0)), all(0)),
                       size.rest * sb_row_largest(format, 0)};
        i = w->n / 32 * 32;
    }
    for (size_t g = i / w->group, here; i < w->n; i += here, g++) {
        const double scale = w->scales ? w->scales[g] : 1, zero = zeroed ? w->zeros[g] : 0;
        here = w->n - i < w->group ? w->n - i : w->group;
        r.zero = all(zero);
        sum =
            fused(group_sum(&r, format, w->codes + i * bits / 8, x->x + i, here), all(scale), sum);
        add_sizes(&size, x->x16 + i / 16, (here + 15) / 16,
                  sb_absolute(scale) * sb_row_largest(format, zero));
    }
    return (sb_partial){across(sum) * (format == SB_FORMAT_e4m3 ? SB_E4M3_UNIT : 1),
                        (across(size.most) + size.rest) * largest_of(&r, format)};
}

#define SB_ROW_KERNEL(set, format)                                                                 \
    KERNEL sb_partial sb_##set##_row_##format(const sb_row_codes *w, const sb_row_input *x)        \
    {                                                                                              \
        return w->zeros ? row_of(SB_FORMAT_##format, 1, w, x)                                      \
                        : row_of(SB_FORMAT_##format, 0, w, x);                                     \
    }

#endif
