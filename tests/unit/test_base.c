/* test_base.c - statuses, paths, memory, bytes, digests and random numbers. */
#include "tests/lib/suite.h"
#include "tests/unit/scratch.h"

#include "ref/base/hash.h"
#include "ref/base/mem.h"
#include "ref/base/rng.h"
#include "ref/base/text.h"

TEST(test_messages)
{
    sb_error err;
    assert_int_equal(sb_fail(&err, SB_ERR_INPUT, "%s: %d", "file", 7), SB_ERR_INPUT);
    assert_string_equal(err.text, "file: 7");
    assert_int_equal(sb_fail_in(&err, SB_ERR_IO, "tensor"), SB_ERR_IO);
    assert_string_equal(err.text, "tensor: file: 7");
    assert_int_equal(sb_fail(NULL, SB_ERR_IO, "x"), SB_ERR_IO);
    assert_int_equal(sb_fail_in(NULL, SB_ERR_IO, "x"), SB_ERR_IO);
    char text[3000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    sb_fail(&err, SB_ERR_IO, "%s", text);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    sb_fail_in(&err, SB_ERR_IO, "prefix");
    assert_memory_equal(err.text, "prefix: xxx", 11);
    assert_true(strlen(err.text) < sizeof err.text);
}

TEST(test_exit_statuses)
{
    static const int expected[] = {0, 1, 2, 3, 3, 3, 3, 3, 4};
    for (int i = SB_OK; i <= SB_ERR_SKIPPED; i++)
        assert_int_equal(sb_exit_status((sb_status)i), expected[i]);
}

TEST(test_last_part_of_a_path)
{
    static const struct {
        const char *path, *last, *title;
    } cases[] = {{"a/b/c.json", "c.json", "c.json"},
                 {"c.json", "c.json", "c.json"},
                 {"/c", "c", "c"},
                 {"a/b/", "", "a/b/"},
                 {"/", "", "/"},
                 {"", "", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_string_equal(sb_path_last(cases[i].path), cases[i].last);
        assert_string_equal(sb_path_title(cases[i].path), cases[i].title);
    }
    assert_ptr_equal(sb_path_last(cases[0].path), cases[0].path + 4);
}

TEST(test_allocation)
{
    unsigned char *block = sb_alloc(100, 3);
    assert_non_null(block);
    for (size_t i = 0; i < 300; i++)
        assert_int_equal(block[i], 0);
    memset(block, 7, 300);
    unsigned char *grown = sb_realloc(block, 1000, 3);
    assert_non_null(grown);
    assert_int_equal(grown[299], 7);
    assert_null(sb_realloc(grown, SIZE_MAX, 2));
    assert_int_equal(grown[299], 7); /* the old array still exists */
    free(grown);
    assert_null(sb_alloc(SIZE_MAX, 2));
    assert_null(sb_alloc(SIZE_MAX / 2 + 1, 2));
    assert_null(sb_alloc(2, SIZE_MAX / 2 + 1));
    for (size_t i = 0; i < 3; i++) {
        void *nothing = sb_alloc(i & 1, i & 2);
        assert_non_null(nothing);
        free(nothing);
    }
    char *copy = sb_strdup("copy");
    assert_string_equal(copy, "copy");
    free(copy);
}

TEST(test_lists_grow)
{
    size_t count = 0, room = 0, moved = 0;
    unsigned *list = NULL;
    for (; count < 1000; count++) {
        size_t before = room;
        unsigned *grown = sb_grow(list, count, &room, sizeof *grown);
        assert_non_null(grown);
        assert_true(room > count);
        if (count < before)
            assert_ptr_equal(grown, list);
        moved += room != before;
        list = grown;
        list[count] = (unsigned)count;
    }
    assert_true(moved < 10); /* it grows by doubling, not by one */
    for (size_t i = 0; i < count; i++)
        assert_int_equal(list[i], i);
    size_t full = room;
    sb_alloc_fail_at(1);
    assert_null(sb_grow(list, full, &room, sizeof *list));
    sb_alloc_fail_at(0);
    assert_int_equal(room, full);
    assert_int_equal(list[999], 999); /* the old list still exists */
    free(list);
    for (size_t most = SIZE_MAX / 2; most >= SIZE_MAX / 2 - 1; most--) {
        room = most + 1;
        assert_null(sb_grow(NULL, room, &room, 4));
        assert_int_equal(room, most + 1);
    }
}

TEST(test_allocations_fail_on_demand)
{
    sb_alloc_fail_at(3);
    void *one = sb_alloc(1, 1);
    void *two = sb_realloc(NULL, 1, 1);
    assert_true(one && two);
    assert_null(sb_alloc(1, 1));
    assert_null(sb_strdup("x")); /* and all later ones */
    assert_null(sb_realloc(two, 8, 1));
    sb_alloc_fail_at(0);
    void *three = sb_alloc(1, 1);
    assert_non_null(three);
    free(one);
    free(two);
    free(three);
}

TEST(test_bytes_are_little_endian)
{
    unsigned char bytes[9] = {0};
    sb_store_u64(bytes + 1, 0x0123456789abcdefu); /* not aligned */
    assert_memory_equal(bytes, "\x00\xef\xcd\xab\x89\x67\x45\x23\x01", 9);
    assert_true(sb_load_u64(bytes + 1) == 0x0123456789abcdefu);
    assert_true(sb_load_u32(bytes + 1) == 0x89abcdefu);
    assert_true(sb_load_u16(bytes + 1) == 0xcdef);
    sb_store_u32(bytes, 0xfedcba98u);
    sb_store_u16(bytes + 4, 0x8081);
    assert_memory_equal(bytes, "\x98\xba\xdc\xfe\x81\x80", 6);
    assert_true(sb_bits_f32(-1.5f) == 0xbfc00000u && sb_f32_from_bits(0x40490fdbu) == 3.14159274f);
    assert_true(sb_bits_f64(-2) == 0xc000000000000000u && sb_f64_from_bits(1) == 0x1p-1074);
    assert_true(sb_is_finite_f32(-0x1.fffffep127f) && sb_is_finite_f32(0));
    assert_false(sb_is_finite_f32(sb_f32_from_bits(0x7f800000u)));
    assert_false(sb_is_finite_f32(sb_f32_from_bits(0xff800001u)));
}

static sb_digest digest_of(const void *bytes, size_t n, size_t part)
{
    const unsigned char *from = bytes;
    sb_hash *hash = sb_hash_new();
    assert_non_null(hash);
    for (size_t at = 0; at < n; at += part)
        sb_hash_bytes(hash, from + at, n - at < part ? n - at : part);
    sb_digest digest = sb_hash_end(hash);
    sb_hash_free(hash);
    return digest;
}

/* D-1: "XXH3-128 of the little-endian bytes" - published values of the algorithm first. */
TEST(test_digests)
{
    assert_string_equal(digest_of("", 0, 1).hex, "99aa06d3014798d86001c324468d497f");
    assert_string_equal(digest_of("abc", 3, 3).hex, "06b05ab6733a618578af5f94892f3950");
    static float values[5000];
    static unsigned char bytes[4 * 5000];
    for (size_t i = 0; i < 5000; i++) {
        values[i] = sb_rng_normal(3, i);
        sb_store_u32(bytes + 4 * i, sb_bits_f32(values[i]));
    }
    static const size_t counts[] = {0, 1, 3, 1023, 1024, 1025, 5000};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        sb_digest whole = digest_of(bytes, 4 * counts[i], 4 * 5000);
        assert_string_equal(sb_digest_f32(values, counts[i]).hex, whole.hex);
        assert_string_equal(digest_of(bytes, 4 * counts[i], 7).hex, whole.hex);
    }
    values[4999] = -values[4999];
    assert_string_not_equal(sb_digest_f32(values, 5000).hex,
                            digest_of(bytes, sizeof bytes, 64).hex);
    sb_hash *hash = sb_hash_new();
    assert_non_null(hash);
    sb_hash_u64(hash, 0x0706050403020100u);
    assert_string_equal(sb_hash_end(hash).hex, digest_of("\0\1\2\3\4\5\6\7", 8, 8).hex);
    sb_hash_free(hash);
    sb_hash_free(NULL);
}

/* Changed values would change every synthetic checkpoint and every golden file. */
TEST(test_random_values_are_frozen)
{
    uint64_t key = sb_rng_key(42, "layers.3.mlp.gate.weight");
    sb_hash *hash = sb_hash_new();
    assert_non_null(hash);
    for (uint64_t i = 0; i < 100000; i++)
        sb_hash_u64(hash, sb_rng_u64(key, i));
    assert_string_equal(sb_hash_end(hash).hex, "6f8e99b87c25ee7c2e1813a51750ab67");
    static float values[100000];
    for (uint64_t i = 0; i < 100000; i++)
        values[i] = sb_rng_normal(key, i);
    assert_string_equal(sb_digest_f32(values, 100000).hex, "022c92038ffad44f3f85e3ef5c38e4e2");
    sb_hash_free(hash);
}

TEST(test_random_values_depend_on_everything)
{
    uint64_t key = sb_rng_key(1, "a");
    assert_true(key != sb_rng_key(2, "a"));
    assert_true(key != sb_rng_key(1, "b"));
    assert_true(key == sb_rng_key(1, "a"));
    uint64_t forward[1000];
    for (uint64_t i = 0; i < 1000; i++)
        forward[i] = sb_rng_u64(key, i);
    for (uint64_t i = 1000; i-- > 0;) /* any order, and a distant index before each */
        assert_true(sb_rng_u64(key, UINT64_MAX - i) != forward[i] &&
                    sb_rng_u64(key, i) == forward[i]);
    for (size_t i = 0; i < 1000; i++)
        for (size_t k = 0; k < i; k++)
            assert_true(forward[i] != forward[k]);
}

TEST(test_uniform_values)
{
    enum { N = 1 << 20, BINS = 64 };
    unsigned bins[BINS] = {0};
    unsigned thirds[3] = {0};
    uint64_t key = sb_rng_key(7, "uniform");
    for (uint64_t i = 0; i < N; i++) {
        float x = sb_rng_uniform(key, i);
        assert_true(x >= 0 && x < 1);
        float scaled = x * 0x1p24f;
        assert_true(scaled == (float)(uint32_t)scaled);
        bins[(unsigned)(x * BINS)]++;
        uint32_t third = sb_rng_below(key, i, 3);
        assert_true(third < 3);
        thirds[third]++;
        assert_int_equal(sb_rng_below(key, i, 1), 0);
        assert_true(sb_rng_below(key, i, UINT32_MAX) < UINT32_MAX);
    }
    double chi = 0; /* 63 degrees of freedom: mean 63, standard deviation 11.2 */
    for (size_t i = 0; i < BINS; i++) {
        double off = (double)bins[i] - (double)N / BINS;
        chi += off * off / ((double)N / BINS);
    }
    assert_true(chi > 20 && chi < 120);
    for (size_t i = 0; i < 3; i++)
        assert_true(thirds[i] > N / 3 - 3000 && thirds[i] < N / 3 + 3000);
}

TEST(test_normal_values)
{
    enum { N = 1 << 20 };
    double sum = 0;
    double squares = 0;
    double fourth = 0;
    double neighbours = 0;
    double last = 0;
    uint64_t key = sb_rng_key(7, "normal");
    for (uint64_t i = 0; i < N; i++) {
        double x = (double)sb_rng_normal(key, i);
        assert_true(x >= -6 && x <= 6);
        sum += x;
        squares += x * x;
        fourth += x * x * x * x;
        neighbours += x * last;
        last = x;
    }
    /* six standard errors; 1/1024 for the mean and for the product of neighbours */
    assert_true(sum / N > -0.006 && sum / N < 0.006);
    assert_true(squares / N > 0.99 && squares / N < 1.01);
    assert_true(fourth / N > 2.84 && fourth / N < 2.96); /* of twelve uniforms: 2.9 */
    assert_true(neighbours / N > -0.006 && neighbours / N < 0.006);
}
