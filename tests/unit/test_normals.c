/* test_normals.c - many normal numbers at a time equal those of D-4, with every implementation. */
#include "tests/lib/suite.h"

#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "tools/make/normal.h"

enum { MOST = 5000 };

static void check(uint64_t key, uint64_t first, size_t n)
{
    float got[MOST + 1];
    got[n] = 77.0f;
    sb_normals(key, first, n, got);
    for (size_t i = 0; i < n; i++)
        if (sb_bits_f32(got[i]) != sb_bits_f32(sb_rng_normal(key, first + i)))
            fail_msg("key %llx, index %llu + %zu: %a", (unsigned long long)key,
                     (unsigned long long)first, i, (double)got[i]);
    assert_true(got[n] == 77.0f);
}

TEST(test_lengths)
{
    for (size_t n = 0; n <= 40; n++)
        check(sb_rng_key(42, "lengths"), 3 * n, n);
}

TEST(test_streams)
{
    static const uint64_t firsts[] = {0, 1, 1000000007, UINT64_MAX / 4 - 11, UINT64_MAX - 2500};
    for (uint64_t seed = 0; seed < 20; seed++)
        for (size_t i = 0; i < sizeof firsts / sizeof *firsts; i++)
            check(sb_rng_key(seed, "streams"), firsts[i], MOST);
    check(0, 0, MOST);
    check(UINT64_MAX, 0, MOST);
}
