#include "ref/math/fn_round.h"

#include <stdatomic.h>

#include "ref/base/bytes.h"
#include "ref/math/start.h"

#include "ref/math/exceptions.inc"

#define ROWS(name) {exceptions_##name, sizeof exceptions_##name / sizeof exceptions_##name[0]},

static const struct {
    const sb_fn_exception *rows;
    size_t count;
} tables[SB_FN_COUNT] = {SB_FN_LIST(ROWS)};

#undef ROWS

const sb_fn_exception *sb_fn_exceptions(sb_fn fn, size_t *count)
{
    *count = tables[fn].count;
    return tables[fn].rows;
}

static atomic_int missed;

int sb_math_missed(void)
{
    return atomic_load_explicit(&missed, memory_order_relaxed);
}

float sb_fn_nan(void)
{
    return sb_f32_from_bits(0x7fc00000u);
}

static float look_up(sb_fn fn, uint32_t input)
{
    const sb_fn_exception *rows = tables[fn].rows;
    size_t low = 0, high = tables[fn].count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (rows[middle].input < input)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == tables[fn].count || rows[low].input != input) {
        atomic_store_explicit(&missed, 1, memory_order_relaxed);
        return sb_fn_nan();
    }
    return sb_f32_from_bits(rows[low].output);
}

/* "correctly rounded binary32 value of the function"
 *
 * y is within 2^-50 |f(x)| of f(x), and the interval below extends 2^-49 |y| to both sides, less
 * one rounding. Rounding is monotonic: if both ends round to the same value, so does f(x). If not,
 * a point where rounding changes is within 2^-49 |y| of y. For any y that another machine may
 * compute, this point is within 2^-49 + 2 * 2^-50 = 2^-48 of our y. The table has every input with
 * such a point. */
float sb_fn_round(sb_fn fn, uint32_t input, double y)
{
    double reach = y * 0x1p-49;
    float low = (float)(y - reach);
    float high = (float)(y + reach);
    return sb_bits_f32(low) == sb_bits_f32(high) ? low : look_up(fn, input);
}
