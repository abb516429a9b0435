/* atom.c - a chain of a matrix unit's instructions in binary64: the same bits as sb_atom_dot, but
 * faster. */
#include <string.h>

#include "ref/base/bytes.h"
#include "tools/judge/sim/arith.h"

enum { MOST_TERMS = 64, EXPONENT_OF_ZERO = -2048 };

/* One block: its exact products, and their exponents by H-2. */
typedef struct block {
    double product[MOST_TERMS];
    int exponent[MOST_TERMS];
} block;

static int exponent_of(float x)
{
    uint32_t bits = sb_bits_f32(x), field = bits >> 23 & 0xff;
    return field ? (int)field - 127 : bits << 1 ? -126 : EXPONENT_OF_ZERO;
}

/* 2^e, a normal number */
static double power(int e)
{
    return sb_f64_from_bits((uint64_t)(e + 1023) << 52);
}

/* H-1 and H-3 if the result is a normal binary32 number or exactly 0; otherwise returns 0. A
 * product is less than 4 times 2^(its exponent), so its digits fit in 31 bits. */
static int add_block(const sb_atom *atom, const block *of, size_t n, float *c)
{
    const int own = exponent_of(*c);
    int largest = own == EXPONENT_OF_ZERO ? atom->zero : own;
    for (size_t i = 0; i < n; i++)
        largest = of->exponent[i] > largest ? of->exponent[i] : largest;
    const double scale = power(atom->fraction - largest);
    int64_t sum = (int32_t)((double)*c * scale);
    for (size_t i = 0; i < n; i++)
        sum += (int32_t)(of->product[i] * scale);
    if (sum == 0) {
        *c = 0.0f;
        return 1;
    }
    uint64_t bits = sb_bits_f64((double)sum * power(largest - atom->fraction));
    int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
    bits &= ~(uint64_t)0 << (52 - atom->kept);
    *c = (float)sb_f64_from_bits(bits);
    return exponent >= -126 && exponent <= 127;
}

/* H-4: the product of an instruction that is number k of block i */
static size_t place_of(const sb_atom *atom, size_t i, size_t k)
{
    if (atom->order == SB_ATOM_IN_ROW)
        return i * atom->block + k;
    return 2 * (k / 2 * (atom->terms / atom->block) + i) + k % 2;
}

/* Loads a block; products after the last are 0. Returns 0 if an operand is not finite. */
static int load(const sb_atom *atom, const float *a, size_t step_a, const float *b, size_t step_b,
                size_t n, size_t i, block *of)
{
    uint32_t beyond = 0;
    for (size_t k = 0; k < atom->block; k++) {
        size_t at = place_of(atom, i, k);
        float x = at < n ? a[at * step_a] : 0.0f, y = at < n ? b[at * step_b] : 0.0f;
        beyond |= (uint32_t)!sb_is_finite_f32(x) | (uint32_t)!sb_is_finite_f32(y);
        of->product[k] = (double)x * (double)y;
        of->exponent[k] = exponent_of(x) + exponent_of(y);
    }
    return !beyond;
}

float sb_sim_atom_dot(const sb_atom *atom, const float *a, size_t step_a, const float *b,
                      size_t step_b, size_t n)
{
    const int last = atom->addend == SB_ATOM_LAST;
    int good = atom->sums == SB_ATOM_F32 && atom->group == 1 && atom->fraction < 29;
    float sum = 0.0f;
    for (size_t first = 0; first < n && good; first += atom->terms) {
        float d = last ? 0.0f : sum;
        for (size_t i = 0; i < atom->terms / atom->block && good; i++) {
            block of;
            good = load(atom, a + first * step_a, step_a, b + first * step_b, step_b, n - first, i,
                        &of) &&
                   add_block(atom, &of, atom->block, &d);
        }
        sum = last ? d + sum : d;
        good = good && sb_is_finite_f32(sum);
    }
    return good ? sum : sb_atom_dot(atom, SB_FORMAT_f32, a, step_a, b, step_b, n);
}
