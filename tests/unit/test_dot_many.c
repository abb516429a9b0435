/* test_dot_many.c - a stored row with many inputs at once gives the bits of each by itself,
 * under every set of kernels, with hostile values among them. */
#include "tests/lib/cmocka.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "ref/math/kernels.h"

enum { MOST = 300, INPUTS = 19 };

static float x[INPUTS * MOST], want[INPUTS], got[2 * INPUTS + 1];
static double wide[2 * INPUTS * MOST];
static unsigned char codes[2 * MOST];

/* Drawn values, some of them subnormal, huge, opposite to the one before, or not finite. */
static void draw(uint64_t seed, size_t n, int hostile)
{
    const uint64_t key = sb_rng_key(seed, "many");
    for (size_t i = 0; i < n; i++)
        sb_store_u16(codes + 2 * i, (uint16_t)(sb_rng_u64(key, i) & (hostile ? 0xffff : 0xbfff)));
    for (size_t i = 0; i < INPUTS * n; i++) {
        const uint64_t word = sb_rng_u64(key, MOST + i);
        x[i] = sb_rng_normal(key, MOST + i);
        if (word % 7 == 0 && i)
            x[i] = -x[i - 1];
        else if (word % 11 == 0)
            x[i] *= word % 2 ? 0x1p-130f : 0x1p+100f;
        else if (hostile && word % 97 == 0)
            x[i] = sb_f32_from_bits((uint32_t)(word >> 32));
    }
}

static int same(float a, float b)
{
    return sb_bits_f32(a) == sb_bits_f32(b) || (a != a && b != b);
}

static void check(const sb_matrix *m, size_t count, const char *set)
{
    for (size_t i = 0; i < 2 * INPUTS + 1; i++)
        got[i] = 77.0f;
    if (sb_dot_widens(m))
        sb_dot_widen(x, m->cols, count, wide);
    sb_dot_row_many(m, 0, x, sb_dot_widens(m) ? wide : NULL, count, got, 2);
    for (size_t t = 0; t < count; t++)
        if (!same(got[2 * t], want[t]))
            fail_msg("%s, %s, %u columns, input %zu of %zu: %a, not %a", set,
                     sb_format_name(m->format), m->cols, t, count, (double)got[2 * t],
                     (double)want[t]);
    for (size_t i = 0; i < 2 * INPUTS + 1; i++)
        if (i % 2 || i >= 2 * count)
            assert_true(got[i] == 77.0f);
}

static void check_format(sb_format format, int hostile)
{
    size_t widened = 0;
    for (uint32_t n = 1; n <= MOST; n += n < 40 ? 1 : 29) {
        sb_matrix m = {.data = codes, .format = format, .rows = 1, .cols = n};
        draw(n, n, hostile);
        assert_int_equal(sb_dot_select("exact", NULL), SB_OK);
        for (size_t t = 0; t < INPUTS; t++)
            want[t] = sb_dot_row(&m, 0, x + t * n);
        for (size_t s = 0; sb_dot_set(s); s++) {
            assert_int_equal(sb_dot_select(sb_dot_set(s)->name, NULL), SB_OK);
            widened += (size_t)sb_dot_widens(&m);
            for (size_t count = 1; count <= INPUTS; count += count < 9 ? 1 : 5)
                check(&m, count, sb_dot_set(s)->name);
        }
    }
    assert_true(widened > 0 || !sb_dot_avx512_supported());
    assert_int_equal(sb_dot_select("auto", NULL), SB_OK);
}

static void test_bf16(void **state)
{
    (void)state;
    check_format(SB_FORMAT_bf16, 0);
    check_format(SB_FORMAT_bf16, 1);
}

static void test_f16(void **state)
{
    (void)state;
    check_format(SB_FORMAT_f16, 0);
    check_format(SB_FORMAT_f16, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_f16),
    };
    return cmocka_run_group_tests_name("a row with many inputs", tests, NULL, NULL);
}
