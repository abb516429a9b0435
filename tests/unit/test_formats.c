/* test_formats.c - every code of BF16 and FP16, and every boundary between two codes.
 *
 * The oracle is written from the definition of the formats with exact binary64 numbers: the
 * value of a code is a fraction times a power of two, and the nearest code is found by comparing
 * with the midpoint, never by shifting bits. */
#include "tests/lib/suite.h"
#include "tests/unit/scratch.h"

#include <math.h>

#include "ref/base/rng.h"
#include "ref/formats/format.h"
#include "ref/formats/matrix.h"
#include "ref/formats/plain_row.h"
#include "ref/formats/round.h"

/* A 16-bit format of one sign bit, some exponent bits, some fraction bits. */
typedef struct half {
    const char *name;
    int fraction_bits;
    int bias;
    uint16_t infinity;  /* code of +infinity: all exponent bits */
    uint16_t quiet_nan; /* every NaN becomes this, with its sign */
    float (*decode)(uint16_t code);
    uint16_t (*encode)(float x);
} half;

static const half halves[] = {
    {"bf16", 7, 127, 0x7f80, 0x7fc0, sb_bf16_to_f32, sb_f32_to_bf16},
    {"f16", 10, 15, 0x7c00, 0x7e00, sb_f16_to_f32, sb_f32_to_f16},
};

/* The real value of a finite code without its sign. ldexp is exact here. */
static double value_of(const half *h, unsigned code)
{
    unsigned fraction = code & ((1u << h->fraction_bits) - 1);
    int exponent = (int)(code >> h->fraction_bits);
    if (exponent > 0)
        fraction += 1u << h->fraction_bits;
    else
        exponent = 1;
    return ldexp((double)fraction, exponent - h->bias - h->fraction_bits);
}

/* The code nearest to x, from the definition of the format. */
static uint16_t nearest(const half *h, float x)
{
    uint16_t sign = sb_bits_f32(x) >> 31 ? 0x8000 : 0;
    if (x != x)
        return sign | h->quiet_nan;
    double magnitude = fabs((double)x);
    unsigned low = 0; /* value_of(low) <= magnitude, value_of(high) > magnitude */
    unsigned high = h->infinity;
    while (high - low > 1) {
        unsigned middle = (low + high) / 2;
        if (value_of(h, middle) <= magnitude)
            low = middle;
        else
            high = middle;
    }
    /* beyond the largest code, the next value is that of infinity's code read as a finite one */
    double midpoint = (value_of(h, low) + value_of(h, low + 1)) / 2;
    unsigned up = magnitude > midpoint || (magnitude == midpoint && (low & 1));
    return (uint16_t)(sign | (low + up));
}

/* Compares bits, also the sign and payload of a NaN. */
static void check_encode(const half *h, float x)
{
    uint16_t got = h->encode(x);
    uint16_t expected = nearest(h, x);
    if (got != expected)
        fail_msg("%s of %a (%08x): got %04x, expected %04x", h->name, (double)x,
                 (unsigned)sb_bits_f32(x), (unsigned)got, (unsigned)expected);
}

TEST(test_every_code_decodes_to_its_value)
{
    for (size_t k = 0; k < 2; k++) {
        const half *h = &halves[k];
        for (unsigned code = 0; code < 65536; code++) {
            float x = h->decode((uint16_t)code);
            unsigned magnitude = code & 0x7fff;
            assert_int_equal(sb_bits_f32(x) >> 31, code >> 15);
            if (magnitude > h->infinity) {
                assert_true(x != x);
                assert_int_equal(h->encode(x), (code & 0x8000) | h->quiet_nan);
                continue;
            }
            double expected = magnitude == h->infinity ? (double)INFINITY : value_of(h, magnitude);
            assert_true(fabs((double)x) == expected);
            assert_int_equal(h->encode(x), code); /* and back to itself, infinities too */
        }
    }
}

static float next_bits(float x, int up)
{
    return sb_f32_from_bits(up ? sb_bits_f32(x) + 1 : sb_bits_f32(x) - 1);
}

TEST(test_every_boundary_between_two_codes)
{
    for (size_t k = 0; k < 2; k++) {
        const half *h = &halves[k];
        for (unsigned code = 0; code < h->infinity; code++) {
            double exact = (value_of(h, code) + value_of(h, code + 1)) / 2;
            float midpoint = (float)exact;
            assert_true((double)midpoint == exact);
            unsigned even = code + (code & 1);
            for (unsigned sign = 0; sign < 2; sign++) {
                float m = sign ? -midpoint : midpoint;
                uint16_t s = sign ? 0x8000 : 0;
                assert_int_equal(h->encode(m), s | even);
                assert_int_equal(h->encode(next_bits(m, 1)), s | (code + 1));
                assert_int_equal(h->encode(next_bits(m, 0)), s | code);
                check_encode(h, m); /* the oracle agrees */
            }
        }
    }
}

TEST(test_special_and_random_values)
{
    static const uint32_t specials[] = {
        0x00000000, 0x80000000, 0x00000001, 0x807fffff, 0x00800000, 0x33000000, 0x33000001,
        0x32ffffff, 0x387fc000, 0x387fe000, 0x38800000, 0x477fe000, 0x477fefff, 0x477ff000,
        0x7f7fffff, 0xff7fffff, 0x7f7f7fff, 0x7f7f8000, 0x7f800000, 0xff800000, 0x7f800001,
        0xff800001, 0x7fbfffff, 0x7fc00000, 0xffc00000, 0x7fffffff, 0xffffffff, 0x7f80ffff};
    uint64_t key = sb_rng_key(11, "formats");
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < sizeof specials / sizeof specials[0]; i++)
            check_encode(&halves[k], sb_f32_from_bits(specials[i]));
        for (uint64_t i = 0; i < 1000000; i++) {
            uint64_t bits = sb_rng_u64(key, i);
            check_encode(&halves[k], sb_f32_from_bits((uint32_t)bits));
            /* around binary16's own range: exponents 2^-26 to 2^17 */
            uint32_t exponent = 101 + (uint32_t)(bits >> 32) % 44;
            check_encode(&halves[k],
                         sb_f32_from_bits(((uint32_t)bits & 0x807fffffu) | exponent << 23));
        }
    }
}

TEST(test_arrays_need_no_alignment)
{
    enum { N = 257 };
    static const sb_format all[] = {SB_FORMAT_f32, SB_FORMAT_bf16, SB_FORMAT_f16};
    static unsigned char bytes[1 + 4 * N];
    float values[N];
    float back[N];
    for (size_t i = 0; i < N; i++)
        values[i] = sb_rng_normal(sb_rng_key(5, "arrays"), i);
    for (size_t k = 0; k < 3; k++) {
        size_t n = sb_format_bytes(all[k]);
        memset(bytes, 0xaa, sizeof bytes);
        sb_encode(all[k], values, N - 1, bytes + 1);
        sb_decode(all[k], bytes + 1, N - 1, back);
        for (size_t i = 0; i < N - 1; i++)
            assert_int_equal(sb_bits_f32(back[i]), sb_bits_f32(sb_round_to(all[k], values[i])));
        assert_int_equal(bytes[0], 0xaa);
        assert_int_equal(bytes[1 + n * (N - 1)], 0xaa);
        /* little-endian by definition */
        uint32_t first = n == 4   ? sb_bits_f32(values[0])
                         : k == 1 ? sb_f32_to_bf16(values[0])
                                  : sb_f32_to_f16(values[0]);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(bytes[1 + i], first >> 8 * i & 255);
    }
    assert_int_equal(sb_bits_f32(sb_round_to(SB_FORMAT_f32, values[0])), sb_bits_f32(values[0]));
    assert_true(sb_round_to(SB_FORMAT_bf16, 1.00390625f) == 1.0f); /* 1 + 2^-8, a tie */
    assert_true(sb_round_to(SB_FORMAT_f16, 70000.0f) == INFINITY);
}

/* Rounding an array gives the same as rounding each element, in place and into another array: every
 * upper half of a binary32, with lower halves around the midpoint, and arrays of all lengths up to
 * 40. */
TEST(test_many_are_rounded_as_one)
{
    static const uint16_t lower[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
    enum { EACH = sizeof lower / sizeof *lower, MOST = 40 };
    float x[EACH], many[MOST + 1];
    for (uint32_t upper = 0; upper < 0x10000; upper++) {
        for (size_t i = 0; i < EACH; i++)
            x[i] = sb_f32_from_bits(upper << 16 | lower[i]);
        sb_round_many(SB_FORMAT_bf16, x, EACH, many);
        for (size_t i = 0; i < EACH; i++)
            assert_int_equal(sb_bits_f32(many[i]),
                             sb_bits_f32(sb_bf16_to_f32(sb_f32_to_bf16(x[i]))));
    }
    for (size_t n = 0; n <= MOST; n++) {
        for (size_t i = 0; i <= MOST; i++)
            many[i] = 1.001f + (float)i;
        sb_round_many(SB_FORMAT_bf16, many, n, many);
        for (size_t i = 0; i <= MOST; i++) {
            const float was = 1.001f + (float)i;
            assert_true(many[i] == (i < n ? sb_round_to(SB_FORMAT_bf16, was) : was));
        }
    }
}

TEST(test_names_and_sizes)
{
    assert_string_equal(sb_format_name(SB_FORMAT_f32), "F32");
    assert_string_equal(sb_format_name(SB_FORMAT_bf16), "BF16");
    assert_string_equal(sb_format_name(SB_FORMAT_f16), "F16");
    assert_int_equal(sb_format_bytes(SB_FORMAT_f32), 4);
    assert_int_equal(sb_format_bytes(SB_FORMAT_bf16), 2);
    assert_int_equal(sb_format_bytes(SB_FORMAT_f16), 2);
}

TEST(test_rows_of_a_matrix)
{
    static const uint32_t map[3] = {2, 0, 1};
    unsigned char bytes[1 + 2 * 6];
    float stored[6] = {0, 1, 2, 3, 4, 5};
    float row[2];
    sb_encode(SB_FORMAT_bf16, stored, 6, bytes + 1);
    sb_matrix m = {.data = bytes + 1, .format = SB_FORMAT_bf16, .rows = 3, .cols = 2};
    for (uint32_t i = 0; i < 3; i++) {
        m.row_map = NULL;
        sb_matrix_row(&m, i, row);
        assert_true(row[0] == stored[2 * i] && row[1] == stored[2 * i + 1]);
        m.row_map = map;
        sb_matrix_row(&m, i, row);
        assert_true(row[0] == stored[2 * map[i]] && row[1] == stored[2 * map[i] + 1]);
        assert_ptr_equal(sb_matrix_row_bytes(&m, i), bytes + 1 + 4 * map[i]);
    }
}
