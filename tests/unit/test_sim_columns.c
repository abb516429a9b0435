/* test_sim_columns.c - sums of several columns have the same bits as the sum of each column: every
 * order, every number of terms and of columns, and operands for which roundings, signs of zero and
 * infinities distinguish the orders. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "tools/judge/sim/arith.h"
#include "tools/judge/sim/sims.def"

enum { TERMS = 100, COLUMNS = 37 };

#define ARITH(x, name, help, order, lanes, fused, atom, form, fn, chunk, ...)                      \
    {order, lanes, fused, atom, form, fn, chunk},
static const sb_sim_arith all[] = {SB_SIMS(ARITH, )};

static float draw(uint64_t key, uint64_t i, int set)
{
    float x = sb_rng_normal(key, i);
    if (set == 1) /* operands of a matrix unit */
        x = sb_f32_from_bits(sb_bits_f32(x) & 0xffff0000u);
    if (set == 2)
        x = ldexpf(x, (int)sb_rng_below(key, 5000 + i, 60) - 30);
    if (set == 3) /* sums of zero, and zeros of both signs */
        x = (float)sb_rng_below(key, i, 5) - 2.0f, x = x == 0 && i % 2 ? -0.0f : x;
    if (set == 4) /* subnormal results */
        x = ldexpf(x, i % 2 ? -74 : -70);
    if (set == 5 && sb_rng_below(key, i, 40) == 0)
        x = i % 3 ? INFINITY : 3e38f;
    return x;
}

/* Equal bits, or both NaN: NaNs may differ in their bits. */
static int same(float a, float b)
{
    return (a != a && b != b) || sb_bits_f32(a) == sb_bits_f32(b);
}

static size_t differing(const sb_sim_arith *s, int set, uint64_t seed)
{
    static float x[TERMS], b[TERMS * COLUMNS], dots[COLUMNS], products[COLUMNS], sums[COLUMNS];
    uint64_t key = sb_rng_key(seed, "columns");
    size_t n = seed % TERMS, count = 1 + sb_rng_below(key, 9000, COLUMNS), bad = 0;
    for (size_t i = 0; i < n; i++)
        x[i] = draw(key, i, set);
    for (size_t i = 0; i < TERMS * COLUMNS; i++)
        b[i] = draw(key, 10000 + i, set);
    sb_sim_dots(s, x, 1, b, COLUMNS, n, count, dots);
    sb_sim_products(s, x, 1, b, COLUMNS, n, count, products);
    memcpy(sums, b + COLUMNS, sizeof sums);
    sb_sim_multiply_adds(s, b[0], b, sums, count);
    for (size_t j = 0; j < count; j++) {
        bad += !same(dots[j], sb_sim_dot(s, x, 1, b + j, COLUMNS, n));
        bad += !same(products[j], sb_sim_product(s, x, 1, b + j, COLUMNS, n));
        bad += !same(sums[j], sb_sim_multiply_add(s, b[0], b[j], b[COLUMNS + j]));
    }
    return bad;
}

TEST(test_columns)
{
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int set = 0; set < 6; set++)
            for (uint64_t seed = 0; seed < TERMS; seed++)
                assert_int_equal(differing(&all[i], set, seed), 0);
}

static size_t told_apart(const sb_sim_arith *s, const sb_sim_arith *other)
{
    float x[TERMS], b[TERMS];
    size_t count = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        uint64_t key = sb_rng_key(seed, "columns");
        for (size_t i = 0; i < TERMS; i++) {
            x[i] = draw(key, i, 0);
            b[i] = draw(key, 10000 + i, 0);
        }
        count += !same(sb_sim_dot(s, x, 1, b, 1, TERMS), sb_sim_dot(other, x, 1, b, 1, TERMS));
    }
    return count;
}

/* The data distinguish the orders; else the test above would show nothing. */
TEST(test_orders_differ)
{
    static const sb_sim_arith some[] = {{SUM_lanes, 1, 0, NO_ATOM, FORM_plain, FN_wide, 64},
                                        {SUM_lanes, 1, 1, NO_ATOM, FORM_plain, FN_wide, 64},
                                        {SUM_lanes, 8, 0, NO_ATOM, FORM_plain, FN_wide, 64},
                                        {SUM_backward, 1, 0, NO_ATOM, FORM_plain, FN_wide, 64},
                                        {SUM_pairwise, 1, 0, NO_ATOM, FORM_plain, FN_wide, 64}};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        for (size_t j = 0; j < i; j++)
            assert_true(told_apart(&some[i], &some[j]) >= 10);
}
