#include "ref/formats/atoms.h"

#include <string.h>

#include "ref/base/bytes.h"
#include "ref/formats/format.h"
#include "ref/formats/small_float.h"

const sb_atom sb_atoms[] = {
#define SB_ATOM(id, what, terms, block, group, order, fraction, kept, sums, zero, addend, form,    \
                evidence)                                                                          \
    {#id,                                                                                          \
     what,                                                                                         \
     terms,                                                                                        \
     block,                                                                                        \
     group,                                                                                        \
     SB_ATOM_##order,                                                                              \
     fraction,                                                                                     \
     kept,                                                                                         \
     SB_ATOM_##sums,                                                                               \
     zero,                                                                                         \
     SB_ATOM_##addend,                                                                             \
     SB_ATOM_##form,                                                                               \
     SB_ATOM_##evidence,                                                                           \
     0},
#include "ref/formats/atoms.def"
#undef SB_ATOM
};

const sb_atom *sb_atom_find(const char *name)
{
    for (size_t i = 0; i < SB_ATOM_COUNT; i++)
        if (strcmp(sb_atoms[i].name, name) == 0)
            return &sb_atoms[i];
    return NULL;
}

/* The least exponent and the fraction bits of a format. */
static const struct {
    int least, fraction;
} shapes[SB_FORMAT_COUNT] = {
    [SB_FORMAT_f32] = {-126, 23}, [SB_FORMAT_bf16] = {-126, 7}, [SB_FORMAT_f16] = {-14, 10},
    [SB_FORMAT_e4m3] = {-6, 3},   [SB_FORMAT_e5m2] = {-14, 2},  [SB_FORMAT_e2m1] = {0, 1},
};

/* digits * 2^shift, rounded toward zero */
static int64_t shifted(int64_t digits, int shift)
{
    uint64_t size = digits < 0 ? (uint64_t)-digits : (uint64_t)digits;
    if (size == 0) /* the unit of a zero may be far above the other units */
        return 0;
    size = shift >= 0 ? size << shift : shift > -64 ? size >> -shift : 0;
    return digits < 0 ? -(int64_t)size : (int64_t)size;
}

/* H-2: "A number below the least exponent of its format keeps that exponent" */
static sb_atom_term split(float x, int least, int fraction)
{
    uint32_t bits = sb_bits_f32(x), field = bits >> 23 & 0xff, tail = bits & 0x7fffff;
    int64_t digits = field ? (int64_t)(tail | 0x800000) : (int64_t)tail;
    int exponent = field ? (int)field - 127 : -126;
    sb_atom_term term = {.exponent = exponent > least ? exponent : least};
    term.unit = term.exponent - fraction;
    /* if x is a value of the format, only zero bits are cut off */
    term.digits = shifted(bits >> 31 ? -digits : digits, exponent - 23 - term.unit);
    return term;
}

/* H-2: "Its exponent is the sum of the exponents of its two operands, whatever its leading digit"
 */
sb_atom_term sb_atom_product(sb_format format, float a, float b)
{
    if (!sb_is_finite_f32(a) || !sb_is_finite_f32(b)) {
        const float beyond = a * b;
        return (sb_atom_term){beyond != beyond ? 0 : beyond > 0 ? 1 : -1, 0, SB_ATOM_BEYOND};
    }
    sb_atom_term x = split(a, shapes[format].least, shapes[format].fraction);
    sb_atom_term y = split(b, shapes[format].least, shapes[format].fraction);
    sb_atom_term product = {x.digits * y.digits, x.unit + y.unit, x.exponent + y.exponent};
    if (product.digits == 0)
        product.exponent = SB_ATOM_OF_ZERO;
    return product;
}

/* H-3: "toward zero to the fraction bits of the row, counted from its own exponent, which is at
 * least -126. From 2^128 on it is infinite" */
static float pack(int64_t sum, int unit, int kept)
{
    uint64_t size = sum < 0 ? (uint64_t)-sum : (uint64_t)sum;
    uint32_t sign = sum < 0 ? 0x80000000u : 0;
    int exponent = unit - 1;
    for (uint64_t rest = size; rest; rest >>= 1)
        exponent++;
    if (size == 0)
        return 0.0f;
    if (exponent > 127)
        return sb_f32_from_bits(sign | 0x7f800000u);
    int last = (exponent < -126 ? -126 : exponent) - kept; /* the place of the last digit kept */
    uint32_t tail = (uint32_t)shifted((int64_t)size, unit - last) << (23 - kept);
    if (exponent < -126)
        return sb_f32_from_bits(sign | tail);
    tail &= 0x7fffff;
    return sb_f32_from_bits(sign | (uint32_t)(exponent + 127) << 23 | tail);
}

/* H-3: "instead rounds its sum to binary16, to nearest, ties to even" */
static float pack_half(int64_t sum, int unit)
{
    uint64_t size = sum < 0 ? (uint64_t)-sum : (uint64_t)sum;
    int exponent = unit - 1;
    for (uint64_t rest = size; rest; rest >>= 1)
        exponent++;
    int last = (exponent < -14 ? -14 : exponent) - 10; /* the place of the last digit kept */
    if (last > unit) {
        uint64_t whole = last - unit < 63 ? (uint64_t)1 << (last - unit) : (uint64_t)1 << 63;
        uint64_t below = size & (whole - 1), half = whole / 2;
        size /= whole;
        size += below > half || (below == half && size & 1);
        unit = last;
    }
    float x = pack((int64_t)size, unit, 23);
    x = x >= 65536.0f ? sb_f32_from_bits(0x7f800000u) : x;
    return sum < 0 ? -x : x;
}

/* H-6: "a NaN or an infinity among operands or C makes the result the NaN 0x7fffffff, except for
 * sums that IEEE 754 makes infinite" */
static float beyond(const sb_atom_term *terms, size_t n, float c)
{
    float sum = sb_is_finite_f32(c) ? 0.0f : c;
    for (size_t i = 0; i < n; i++)
        if (terms[i].exponent == SB_ATOM_BEYOND)
            sum += terms[i].digits
                       ? sb_f32_from_bits(terms[i].digits < 0 ? 0xff800000u : 0x7f800000u)
                       : sb_f32_from_bits(0x7fffffffu);
    return sum == sum ? sum : sb_f32_from_bits(0x7fffffffu);
}

/* H-1: "Each term, C among them, is cut toward zero at F bits below the largest exponent of all,
 * and the sum of what is left is exact" */
float sb_atom_block(const sb_atom *atom, const sb_atom_term *terms, size_t n, float c)
{
    sb_atom_term addend = split(c, atom->sums == SB_ATOM_F16 ? -14 : -126, 23);
    /* H-2: "A product of zero and a C of zero have the exponent Z", which is below the exponent of
     * any other C, so products of zero need no test. */
    int largest = addend.digits ? addend.exponent : atom->zero;
    for (size_t i = 0; i < n; i++)
        largest = terms[i].exponent > largest ? terms[i].exponent : largest;
    if (largest == SB_ATOM_BEYOND || !sb_is_finite_f32(c))
        return beyond(terms, n, c);
    int unit = largest - atom->fraction;
    int64_t sum = shifted(addend.digits, addend.unit - unit);
    for (size_t i = 0; i < n; i++)
        sum += shifted(terms[i].digits, terms[i].unit - unit);
    const float cut =
        atom->sums == SB_ATOM_F16 ? pack_half(sum, unit) : pack(sum, unit, atom->kept);
    /* H-13: "a negative sum that is cut to nothing is -0, or +0" */
    return cut == 0.0f && atom->open & SB_ATOM_PLUS_ZERO ? 0.0f : cut;
}

enum { MOST_TERMS = 64 };

/* H-4: "terms are taken two neighbours at a time, and each pair goes to the next block in turn" */
static const sb_atom_term *block_of(const sb_atom *atom, const sb_atom_term *terms, size_t i,
                                    sb_atom_term *room)
{
    size_t block = atom->block / atom->group, blocks = atom->terms / atom->block;
    if (atom->order == SB_ATOM_IN_ROW)
        return terms + i * block;
    for (size_t k = 0; k < block; k++)
        room[k] = terms[2 * (k / 2 * blocks + i) + k % 2];
    return room;
}

/* H-4: "the result is RN(D + C)", D and C are values of the format of the sums; H-6 */
static float added(const sb_atom *atom, float d, float c)
{
    float sum = d + c; /* binary16: rounding to binary32 first does not change the result */
    if (sum != sum)
        return sb_f32_from_bits(0x7fffffffu);
    return atom->sums == SB_ATOM_F16 ? sb_round_to(SB_FORMAT_f16, sum) : sum;
}

/* H-4: "Each takes the result of the block before as its C. Where C enters last, the first block
 * has a C of 0, and the result is RN(D + C)." */
float sb_atom_run(const sb_atom *atom, const sb_atom_term *terms, float c)
{
    sb_atom_term room[MOST_TERMS];
    float sum = atom->addend == SB_ATOM_LAST ? 0.0f : c;
    for (size_t i = 0; i < atom->terms / atom->block; i++)
        sum = sb_atom_block(atom, block_of(atom, terms, i, room), atom->block / atom->group, sum);
    return atom->addend == SB_ATOM_LAST ? added(atom, sum, c) : sum;
}

size_t sb_atom_blocks(const sb_atom *atom, size_t n)
{
    size_t blocks = atom->terms / atom->block, rest = n % atom->terms;
    size_t spread =
        atom->order == SB_ATOM_IN_PAIRS ? 2 : atom->block; /* neighbouring products in one block */
    size_t touched = (rest + spread - 1) / spread;
    return n / atom->terms * blocks + (touched < blocks ? touched : blocks);
}

float sb_atom_dot(const sb_atom *atom, sb_format format, const float *a, size_t step_a,
                  const float *b, size_t step_b, size_t n)
{
    sb_atom_term terms[MOST_TERMS];
    float sum = 0.0f;
    for (size_t first = 0; first < n; first += atom->terms) {
        for (size_t i = 0; i < atom->terms; i++) {
            size_t at = first + i;
            terms[i] = at < n ? sb_atom_product(format, a[at * step_a], b[at * step_b])
                              : sb_atom_product(format, 0.0f, 0.0f);
        }
        sum = sb_atom_run(atom, terms, sum);
    }
    return sum;
}

/* H-5: "The sum of the products of a group is exact, and so is its product with both scales; each
 * group is one term of H-1. The exponent of the term is the sum of the exponents of the scales,
 * also where the sum of the products is zero; where a scale is zero, the exponent is Z." */
sb_atom_term sb_atom_group(const sb_atom *atom, const int8_t *a, const int8_t *b, float scale_a,
                           float scale_b)
{
    int64_t sum = 0;
    int empty = 1;
    for (size_t i = 0; i < 16; i++) {
        sum += (int64_t)a[i] * b[i];
        empty = empty && (a[i] == 0 || b[i] == 0);
    }
    sb_atom_term x = split(scale_a, -6, 3), y = split(scale_b, -6, 3);
    sb_atom_term group = {sum * x.digits * y.digits, x.unit + y.unit - 2, x.exponent + y.exponent};
    /* H-13: "a group whose products are all zero has the exponent of its scales, or Z." */
    if (x.digits == 0 || y.digits == 0 || (empty && atom->open & SB_ATOM_EMPTY_AS_ZERO))
        group.exponent = SB_ATOM_OF_ZERO;
    return group;
}
