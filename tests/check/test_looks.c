/* test_looks.c - the fast scans of BF16 and FP8 ("looks") give the same bits with AVX2 and without.
 * Their sums are close to those of a loop in binary64. Every FP8 code that they do not doubt is
 * nearest. V-12, V-31. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "ref/formats/format.h"
#include "ref/formats/small_float.h"
#include "tools/check/read/bf16.h"
#include "tools/check/scan/fp8.h"
#include "tools/check/scan/scan.h"

/* --- FP8 -------------------------------------------------------------------------------------- */

/* Kinds 0 to 2 have codes of a quantizer, kind 3 random codes, kind 4 a weight that is NaN or
 * infinite. */
static void draw_piece(uint64_t key, unsigned kind, float scale, unsigned char *codes,
                       float *weights)
{
    for (unsigned i = 0; i < SB_FP8_PIECE; i++) {
        float w = 110 * sb_rng_normal(key, i);
        w = kind == 1 && i % 7 == 0 ? 0 : kind == 2 ? w * 1e-6f : w;
        weights[i] = sb_round_to(SB_FORMAT_bf16, w * scale);
        codes[i] = sb_f32_to_e4m3(sb_round_to(SB_FORMAT_bf16, weights[i] / scale));
        if (kind == 3)
            codes[i] = (unsigned char)sb_rng_below(key, i + (1u << 20), 256);
        if (kind == 4 && i == 77)
            weights[i] = sb_f32_from_bits(0x7f800000u | sb_rng_below(key, 1, 1u << 22));
    }
}

/* A row to look at, in runs of any length. */
typedef struct row {
    sb_fp8_line line;
    float scales[SB_FP8_PIECE / 16 + 1], inverses[SB_FP8_PIECE / 16 + 1];
    unsigned char tops[2][SB_FP8_PIECE / 16 + 1][SB_FP8_GROUP], doubts[2][SB_FP8_PIECE / 16 + 1];
} row;

static void begin_row(row *r, const unsigned char *codes, sb_fp8_weights weights, uint32_t cols,
                      uint32_t run, float scale)
{
    memset(r, 0, sizeof *r);
    for (uint32_t i = 0; i * run < cols; i++) {
        r->scales[i] = scale * (float)(1 + i % 3);
        r->inverses[i] = (float)(1 / (256 * (double)r->scales[i]));
    }
    memset(r->tops, 17, sizeof r->tops);
    r->line = (sb_fp8_line){.codes = codes,
                            .weights = weights,
                            .cols = cols,
                            .run = run,
                            .scales = r->scales,
                            .inverses = r->inverses};
}

static sb_fp8_sums look_by(row *r, sb_fp8_look_fn *look, unsigned which, int shape)
{
    sb_fp8_sums s;
    r->line.shape = shape;
    r->line.tops = r->tops[which][0];
    r->line.doubts = r->doubts[which];
    look(&r->line, &s);
    return s;
}

static void expect_equal(double a, double b)
{
    assert_true(a == b || (isnan(a) && isnan(b))); /* all NaN count as equal */
}

static void expect_same_bits(const row *r, const sb_fp8_sums *a, const sb_fp8_sums *b)
{
    assert_int_equal(a->nan, b->nan);
    assert_int_equal(a->odd, b->odd);
    assert_int_equal(a->zeros, b->zeros);
    assert_int_equal(a->doubts, b->doubts);
    expect_equal(a->sum, b->sum);
    expect_equal(a->sum2, b->sum2);
    expect_equal(a->sum4, b->sum4);
    expect_equal(a->error2, b->error2);
    expect_equal(a->master2, b->master2);
    assert_memory_equal(r->tops[0], r->tops[1], sizeof r->tops[0]);
    assert_memory_equal(r->doubts[0], r->doubts[1], sizeof r->doubts[0]);
}

TEST(test_fp8_paths)
{
    static unsigned char codes[SB_FP8_PIECE], bf16[2 * SB_FP8_PIECE];
    static float weights[SB_FP8_PIECE];
    static const uint32_t runs[] = {32, 64, 128, 50, SB_FP8_PIECE};
    unsigned doubtful[5] = {0};
    static row r;
    for (unsigned n = 0; n < 500; n++) {
        uint64_t key = sb_rng_key(n, "looks");
        uint32_t cols = 1 + sb_rng_below(key, 1u << 21, SB_FP8_PIECE), run = runs[n / 5 % 5];
        float scale = sb_round_to(SB_FORMAT_bf16, 1e-3f + sb_rng_uniform(key, 1u << 22));
        draw_piece(key, n % 5, scale, codes, weights);
        for (unsigned i = 0; i < SB_FP8_PIECE; i++)
            sb_store_u16(bf16 + 2 * (size_t)i, (uint16_t)(sb_bits_f32(weights[i]) >> 16));
        for (unsigned with = 0; with < 3; with++) {
            sb_fp8_weights w = {.bf16 = with == 1 ? bf16 : NULL,
                                .values = with == 2 ? weights : NULL};
            for (int shape = 0; shape < 2; shape++) {
                begin_row(&r, codes, w, cols, n % 5 < 3 ? cols : run, scale);
                sb_fp8_sums a = look_by(&r, sb_fp8_look_plain, 0, shape);
                sb_fp8_sums b = look_by(&r, sb_fp8_look(), 1, shape);
                expect_same_bits(&r, &a, &b);
                assert_true(shape || (a.sum == 0 && a.sum4 == 0));
                doubtful[n % 5] += with == 2 ? a.doubts : 0;
            }
        }
    }
    printf("AVX2 and F16C: %d; doubtful groups of 1.6 * 10^3 of each kind: %u %u %u %u %u\n",
           sb_fp8_look() != sb_fp8_look_plain, doubtful[0], doubtful[1], doubtful[2], doubtful[3],
           doubtful[4]);
    assert_true(doubtful[0] < 40 && doubtful[1] < 40 && doubtful[3] > 1000);
}

/* The values of all codes, one by one. A NaN code is reported, and is never the largest code. */
TEST(test_fp8_values)
{
    static row r;
    for (unsigned code = 0; code < 256; code++) {
        unsigned char codes[SB_FP8_GROUP];
        double value = (double)sb_e4m3_to_f32((uint8_t)code) / 256, n = SB_FP8_GROUP;
        memset(codes, (int)code, sizeof codes);
        begin_row(&r, codes, (sb_fp8_weights){0}, SB_FP8_GROUP, SB_FP8_GROUP, 1);
        sb_fp8_sums l = look_by(&r, sb_fp8_look(), 0, 1);
        assert_int_equal(l.zeros, code & 0x7f ? 0 : SB_FP8_GROUP);
        assert_int_equal(l.nan, (code & 0x7f) == 0x7f);
        unsigned top = !l.nan && (code & 0x7f) + 1 > 17 ? (code & 0x7f) + 1 : 17;
        for (unsigned i = 0; i < SB_FP8_GROUP; i++)
            assert_int_equal(r.tops[0][0][i], top);
        if (l.nan)
            continue;
        assert_true(l.sum == n * value);
        assert_true(l.sum2 == n * value * value);
        assert_true(l.sum4 == n * value * value * value * value);
    }
}

/* Quotients all around every code. No doubt means that the definition agrees. Next to the value of
 * a normal code there is no doubt. */
TEST(test_fp8_doubts)
{
    uint64_t key = sb_rng_key(7, "looks"), at = 0;
    unsigned sure = 0, refused = 0;
    static row r;
    for (unsigned code = 0; code < 256; code++)
        for (unsigned i = 0; i < 4000 && (code & 0x7f) != 0x7f; i++) {
            float scale = i % 3 ? 1e-3f + sb_rng_uniform(key, at++) : 0.37f;
            double v = (double)sb_e4m3_to_f32((uint8_t)code);
            double edge = i % 8 == 0 ? 1 : i % 8 < 4 ? 1.0 + 17 / 256.0 : 1.0 - 9 / 256.0;
            double t =
                v * (edge + (i & 8 ? 1e-6 : 0.04) * ((double)sb_rng_uniform(key, at++) - 0.5));
            float weights[SB_FP8_GROUP] = {0};
            unsigned char codes[SB_FP8_GROUP] = {0};
            codes[i % SB_FP8_GROUP] = (unsigned char)code;
            weights[i % SB_FP8_GROUP] = (float)((i % 101 ? t : -t) * (double)scale);
            begin_row(&r, codes, (sb_fp8_weights){.values = weights}, SB_FP8_GROUP, SB_FP8_GROUP,
                      scale);
            sb_fp8_sums l = look_by(&r, sb_fp8_look(), 0, 0);
            int is =
                sb_fp8_nearest((uint8_t)code, (double)weights[i % SB_FP8_GROUP], (double)scale);
            if (!l.doubts && !is)
                fail_msg("code %#x, quotient %a, scale %a", code, t, (double)scale);
            sure += l.doubts == 0;
            refused += !is;
            if (i % 8 == 0 && i % 101 && (code & 0x7f) >= 8)
                assert_int_equal(l.doubts, 0);
        }
    printf("%u sure, %u no nearest ones\n", sure, refused);
    assert_true(sure > 200000 && refused > 50000);
}

/* --- BF16 ------------------------------------------------------------------------------------- */

TEST(test_bf16_paths)
{
    static unsigned char bytes[2 * SB_BF16_PIECE];
    for (unsigned n = 0; n < 500; n++) {
        uint64_t key = sb_rng_key(n, "bf16");
        unsigned steps = 1 + sb_rng_below(key, 1u << 21, SB_BF16_PIECE / SB_BF16_STEP);
        sb_bf16_sums a, b;
        double sum2 = 0;
        for (unsigned i = 0; i < SB_BF16_PIECE; i++) {
            float w = i % 50 ? sb_rng_normal(key, i) : i % 100 ? 0.0f : -0.0f;
            sb_store_u16(bytes + 2 * (size_t)i, sb_f32_to_bf16(w));
            sum2 += i < steps * SB_BF16_STEP ? pow((double)sb_round_to(SB_FORMAT_bf16, w), 2) : 0;
        }
        for (int shape = 0; shape < 2; shape++) {
            sb_bf16_look_plain(bytes, steps, shape, &a);
            sb_bf16_look()(bytes, steps, shape, &b);
            assert_true(a.sum == b.sum && a.sum2 == b.sum2 && a.sum4 == b.sum4);
            assert_true(shape ? a.sum4 > 0 : a.sum == 0 && a.sum4 == 0);
            assert_int_equal(a.zeros, b.zeros);
            assert_int_equal(a.zeros, (steps * SB_BF16_STEP + 49) / 50);
            assert_int_equal(a.top, b.top);
            assert_true(sb_bf16_fits(&a) && fabs(a.sum2 - sum2) <= 1e-6 * sum2);
        }
    }
}

static float drawn(unsigned kind, uint64_t key, unsigned i)
{
    float x = sb_rng_normal(key, i);
    switch (kind) {
    case 1:
        return 0;
    case 2:
        return x * 1e-30f; /* squares vanish in binary32 */
    case 3:
        return x * 1e30f; /* squares overflow in binary32 */
    case 4:
        return i == 1100 ? x * 1e20f : x; /* one huge value in one piece */
    case 5:
        return i == 3 ? INFINITY : x;
    case 6:
        return i == 1030 ? NAN : x;
    default:
        return x;
    }
}

/* Compares the pass over a row of any length and kind with binary64. */
static void check_row(unsigned kind, uint32_t cols)
{
    static unsigned char bytes[2 * 3000];
    static double wide[2 * 3000];
    uint64_t key = sb_rng_key(kind, "row");
    sb_unit unit = {.region = SB_REGION_mtp}; /* V-41 needs all sums here */
    sb_check_options options = {.skip = {[40] = 1}};
    sb_check check = {.options = &options};
    sb_seen seen = {.rows = 1, .cols = cols}, defined = seen;
    sb_panel panel = {.check = &check, .unit = &unit, .rows = 1, .last = 1, .seen = &seen};
    panel.matrix = (sb_matrix){.data = bytes, .format = SB_FORMAT_bf16, .rows = 1, .cols = cols};
    panel.scratch = wide;
    for (uint32_t i = 0; i < cols; i++)
        sb_store_u16(bytes + 2 * (size_t)i, sb_f32_to_bf16(drawn(kind, key, i)));
    sb_scan_plain(&panel);
    for (uint32_t i = 0; i < cols; i++)
        wide[i] = (double)sb_bf16_to_f32(sb_load_u16(bytes + 2 * (size_t)i));
    sb_seen_row(&defined, wide, cols);
    const sb_moments *a = &seen.moments, *b = &defined.moments;
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->zeros, b->zeros);
    assert_int_equal(seen.zero_rows, defined.zero_rows);
    assert_true(a->largest == b->largest);
    assert_true(fabs(a->sum - b->sum) <= 1e-6 * sqrt(b->sum2 * (double)b->count));
    assert_true(fabs(a->sum2 - b->sum2) <= 1e-6 * b->sum2);
    assert_true(fabs(a->sum4 - b->sum4) <= 1e-6 * b->sum4);
    unit.region = SB_REGION_trunk;
    sb_seen few = {.rows = 1, .cols = cols};
    panel.seen = &few;
    sb_scan_plain(&panel);
    few.moments.sum = a->sum;
    few.moments.sum4 = a->sum4;
    assert_memory_equal(&few.moments, a, sizeof *a);
    assert_int_equal(seen.plain.infinities, kind == 5 && cols > 3);
    assert_int_equal(seen.plain.nans, kind == 6 && cols > 1030);
}

TEST(test_bf16_rows)
{
    static const uint32_t lengths[] = {1, 2, 15, 16, 17, 31, 100, 1023, 1024, 1025, 2048, 2999};
    for (unsigned kind = 0; kind < 7; kind++)
        for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++)
            check_row(kind, lengths[i]);
}
