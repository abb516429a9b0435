#include "ref/math/start.h"

#include "ref/base/bytes.h"

/* Operands come from volatile objects, so that the machine computes and not the compiler. The
 * expressions themselves are ordinary, so that the compiler transforms them as it would any
 * others. */

static int rounds_to_nearest(void)
{
    volatile float one = 1.0f, next = 0x1.000002p0f, half_step = 0x1p-24f, less = 0x1p-26f;
    float even = one + half_step, odd = next + half_step, kept = one - less;
    float negative = -one - less;
    volatile double wide = 1.0, wide_half_step = 0x1p-53, wide_less = 0x1p-55, tie = 0x1.000003p0;
    double wide_even = wide + wide_half_step, wide_kept = wide - wide_less;
    double wide_negative = -wide - wide_less;
    return even == 1.0f && odd == 0x1.000004p0f && kept == 1.0f && negative == -1.0f &&
           wide_even == 1.0 && wide_kept == 1.0 && wide_negative == -1.0 &&
           (float)tie == 0x1.000004p0f;
}

static int keeps_subnormals(void)
{
    volatile float least = sb_f32_from_bits(1), normal = 0x1p-126f, half = 0.5f, two = 2.0f;
    volatile double wide = 0x1p-140;
    float result = normal * half, operand = least * two, narrowed = (float)wide;
    volatile float same = least;
    return sb_bits_f32(result) == 0x00400000u && sb_bits_f32(operand) == 2u &&
           sb_bits_f32(narrowed) == 0x200u && (double)same == 0x1p-149;
}

/* The rounded product equals the subtrahend, so that the difference is 0. A fused multiply-add
 * would give the rounding error of the product instead. */
static int keeps_products_apart(void)
{
    volatile float v = 0x1.001p0f, w = 0x1.002p0f;
    volatile double wide_v = 0x1.00000004p0, wide_w = 0x1.00000008p0;
    float a = v, b = w, difference = a * a - b;
    double wide_a = wide_v, wide_b = wide_w, wide_difference = wide_a * wide_a - wide_b;
    return difference == 0.0f && wide_difference == 0.0;
}

/* The small term is lost in the first sum, unless the sum is kept in a wider register or the
 * compiler replaces (a + b) - a by b. */
static int keeps_to_its_precision(void)
{
    volatile float one = 1.0f, small = 0x1p-30f;
    volatile double wide_one = 1.0, wide_small = 0x1p-60;
    float a = one, b = small, rest = (a + b) - a;
    double wide_a = wide_one, wide_b = wide_small, wide_rest = (wide_a + wide_b) - wide_a;
    return rest == 0.0f && wide_rest == 0.0;
}

static int believes_in_nan(void)
{
    volatile float v = sb_f32_from_bits(0x7fc00000u), big = 0x1p127f;
    float nan = v, infinite = big * 2.0f;
    return nan != nan && !(nan < 1.0f) && !(nan >= 1.0f) && sb_bits_f32(infinite) == 0x7f800000u;
}

/* "refuses to start when rounding is not to nearest, subnormals are flushed, products are
 * contracted or precision is in excess" */
sb_status sb_math_check(sb_error *err)
{
    static const struct {
        int (*good)(void);
        const char *complaint;
    } checks[] = {
        {rounds_to_nearest, "floating point does not round to nearest even (fesetround?)"},
        {keeps_subnormals,
         "subnormal numbers are flushed to zero (FTZ/DAZ, -Ofast or -ffast-math?)"},
        {keeps_to_its_precision,
         "sums keep excess precision or are reordered (x87, -ffast-math, or "
         "a missing -fexcess-precision=fast on s390x?)"},
        {keeps_products_apart, "a*b+c is contracted (compile with -ffp-contract=off)"},
        {believes_in_nan, "NaN or infinity is optimized away (-ffinite-math-only?)"},
    };
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++)
        if (!checks[i].good())
            return sb_fail(err, SB_ERR_NUMERIC, "this process cannot compute: %s",
                           checks[i].complaint);
    if (sb_math_missed())
        return sb_fail(err, SB_ERR_NUMERIC,
                       "this process cannot compute: a function had no value for its input");
    return SB_OK;
}
