/* test_strips.c - layers of 4-bit codes in strips of rows, with one input: the bits of
 * exact.h with every kernel set, and the promise of ref/fast/dot/row.h about their sums. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/pool.h"
#include "ref/base/rng.h"
#include "ref/formats/format.h"
#include "ref/formats/wide.h"
#include "ref/fast/dot/kernels.h"
#include "ref/fast/dot/row.h"
#include "ref/fast/dot/strips.h"
#include "tests/lib/check_all.h"

enum { STORED = 1176, COLS = 2056, GROUPS = COLS / 8, GUARD = 3 };

/* How a layer is stored; group 0: a whole row. */
typedef struct kind {
    sb_packing packing;
    sb_zeros zeros;
    int32_t zero;
    sb_format scale;
    uint32_t group;
} kind;
static const kind kinds[] = {
    {SB_PACKING_gptq, SB_ZEROS_gptq_v1, 0, SB_FORMAT_f16, 128},
    {SB_PACKING_gptq, SB_ZEROS_gptq_v2, 0, SB_FORMAT_bf16, 32},
    {SB_PACKING_gptq, SB_ZEROS_none, 8, SB_FORMAT_f32, 0},
    {SB_PACKING_gptq, SB_ZEROS_none, 0, SB_FORMAT_f16, 64},
    {SB_PACKING_awq, SB_ZEROS_awq, 0, SB_FORMAT_f16, 128},
    {SB_PACKING_awq, SB_ZEROS_awq, 0, SB_FORMAT_f16, 32},
    {SB_PACKING_awq, SB_ZEROS_none, 15, SB_FORMAT_bf16, 0},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* LARGE: all codes and digits are of the largest size, and so are the sums. LOST: many small inputs
 * next to a large one, with the largest codes, so that lost digits show. */
typedef enum family {
    ORDINARY,
    SHORT,
    LARGE,
    LOST,
    EXTREME,
    CANCELS,
    ZEROS,
    POISON,
    FAMILIES
} family;

static uint64_t key, at;
static float units; /* the small inputs of LOST */
static unsigned char codes[STORED * COLS / 2], scales[STORED * GROUPS * 4],
    zeros[STORED * GROUPS / 2];
static double x[COLS], wide[COLS];
static float want[STORED], got[STORED + GUARD];

static uint32_t roll(uint32_t n)
{
    return sb_rng_below(key, at++, n);
}

static float draw_input(family f, size_t k)
{
    const float normal = sb_rng_normal(key, (uint64_t)1 << 40 | at++);
    switch (f) {
    case SHORT:
        return sb_round_to(SB_FORMAT_bf16, normal);
    case LARGE: /* digits 127, -128, -128 and -126, -128, -128 */
        return k / 32 % 2 ? 0x7e7f80p0f : -0x7e8080p0f;
    case LOST: /* the last digit is 2^-46; half is rounded away */
        return k % 32 == 0 ? 1 : units;
    case EXTREME:
        return roll(3) ? normal * 0x1p-140f : normal * 0x1p120f;
    case CANCELS:
        return k % 2 ? -(float)x[k - 1] * (roll(50) ? 1 : 1 + 0x1p-23f)
                     : normal * (float)(1 + roll(9));
    case ZEROS:
        return roll(9) ? (roll(2) ? 0.0f : -0.0f) : normal;
    case POISON:
        return roll(700) ? normal : sb_f32_from_bits(0x7f800000u | roll(2) << 22 | roll(2) << 31);
    default:
        return normal;
    }
}

static void draw_scale(sb_format format, family f, size_t i)
{
    float scale = 0.01f * (1 + (float)(roll(1000)) / 500) * (roll(4) ? 1.0f : -1.0f);
    if (f == EXTREME && roll(8) == 0)
        scale = format == SB_FORMAT_f16 ? 60000.0f : 0x1p100f;
    if (f == POISON && roll(300) == 0)
        scale = sb_f32_from_bits(0x7fc00000u);
    sb_encode(format, &scale, 1, scales + i * sb_format_bytes(format));
}

/* A copy of these bytes with nothing after it, so that a sanitizer detects a read beyond the
 * end. */
static const unsigned char *alone(const unsigned char *bytes, size_t count)
{
    unsigned char *copy = malloc(count);
    assert_non_null(copy);
    memcpy(copy, bytes, count);
    return copy;
}

static void forget(const sb_matrix *m)
{
    free((void *)(uintptr_t)m->data);
    free((void *)(uintptr_t)m->quant.scales);
    free((void *)(uintptr_t)m->quant.zero_points);
}

static sb_matrix draw_layer(const kind *k, family f, uint32_t rows, uint32_t cols)
{
    const uint32_t group = k->group ? k->group : cols, groups = (cols + group - 1) / group;
    const uint32_t stored = (rows + 7) / 8 * 8 + 8 * roll(3);
    sb_matrix m = {.format = SB_FORMAT_uint4, .rows = rows, .cols = cols};
    m.first_row = 8 * roll((stored - (rows + 7) / 8 * 8) / 8 + 1);
    for (size_t i = 0; i < (size_t)stored * cols / 2; i += 4) {
        const uint32_t any = (uint32_t)sb_rng_u64(key, at++);
        /* neighbours that cancel have equal codes */
        sb_store_u32(codes + i, f == LARGE || f == LOST ? 0xffffffffu
                                : f == CANCELS && k->packing == SB_PACKING_gptq
                                    ? (any & 0x0f0f0f0fu) * 17u
                                    : any);
    }
    for (size_t i = 0; i < (size_t)stored * groups; i++)
        draw_scale(k->scale, f, i);
    for (size_t i = 0; i < (size_t)stored * groups / 2; i += 4)
        sb_store_u32(zeros + i, f == LARGE || f == LOST
                                    ? k->zeros == SB_ZEROS_gptq_v1 ? 0xffffffffu : 0
                                    : (uint32_t)sb_rng_u64(key, at++));
    m.data = alone(codes, (size_t)stored * cols / 2);
    m.quant = (sb_quant){.scales = alone(scales, stored * groups * sb_format_bytes(k->scale)),
                         .scale_format = k->scale,
                         .block_rows = 1,
                         .block_cols = group,
                         .scale_row = 1,
                         .scale_col = stored,
                         .groups = groups,
                         .packing = k->packing,
                         .stored_rows = stored,
                         .zeros = k->zeros,
                         .zero_points = alone(zeros, (size_t)stored * groups / 2),
                         .zero = k->zero};
    static const float lost[] = {0x1.f8p-48f, 0x1p-46f, 0x1p-38f, 0x1p-30f};
    units = lost[roll(4)];
    for (size_t i = 0; i < cols; i++)
        x[i] = (double)draw_input(f, i);
    return m;
}

/* Checks the promise of row.h for the sums of a strip. Returns the number of its rows that the
 * first rounding test decides. */
static size_t check_sums(const sb_matrix *m, const sb_scalar *factor, const char *what)
{
    const sb_strip_kernels *kernels = sb_dot_kernels_now()->strip;
    const uint32_t rows = m->rows < SB_STRIP_ROWS ? m->rows : SB_STRIP_ROWS;
    const sb_strip strip = {m, 0, rows};
    const double steps = (double)sb_row_roundings(m->cols);
    sb_strip_block *blocks = malloc((COLS / SB_STRIP_BLOCK + 1) * sizeof *blocks);
    sb_strip_group *groups = malloc(GROUPS * sizeof *groups);
    const sb_strip_input input = {blocks, groups};
    double sums[SB_STRIP_ROWS], magnitudes[SB_STRIP_ROWS];
    size_t certain = 0;
    float rounded;
    assert_true(blocks && groups);
    kernels->arrange(m, x, &input);
    kernels->add(&strip, &input, sums, magnitudes);
    for (uint32_t r = 0; r < rows; r++) {
        long double sum = 0, magnitude = 0;
        sb_matrix_wide(m, r, wide);
        for (size_t k = 0; k < m->cols; k++) {
            const long double term = (long double)wide[k] * (long double)x[k];
            sum += term;
            magnitude += term < 0 ? -term : term;
        }
        const double off = (double)(sum - (long double)sums[r]);
        if (magnitude - magnitude != 0)
            assert_false(sums[r] - sums[r] == 0 && magnitudes[r] - magnitudes[r] == 0);
        else if (magnitudes[r] - magnitudes[r] != 0)
            continue; /* the kernel leaves this group to others */
        else if ((double)magnitude * (1 - steps * 0x1p-53) > magnitudes[r])
            fail_msg("%s, row %u: magnitude %a, not %a", what, r, magnitudes[r], (double)magnitude);
        else if (sb_absolute(off) > steps * 0x1.01p-53 * magnitudes[r])
            fail_msg("%s, row %u: sum %a, off by %a", what, r, sums[r], off);
        certain +=
            (size_t)sb_row_certain((sb_partial){sums[r], magnitudes[r]}, m->cols, factor, &rounded);
    }
    free(blocks);
    free(groups);
    return certain;
}

static void check_layer(const sb_matrix *m, const sb_scalar *factor, family f, size_t *certain,
                        size_t *all)
{
    char what[120];
    assert_int_equal(sb_dot_select("exact", NULL), SB_OK);
    assert_int_equal(sb_dot_matrix(m, x, 1, factor, want), SB_OK);
    for (size_t s = 0; sb_dot_set(s); s++) {
        assert_int_equal(sb_dot_select(sb_dot_set(s)->name, NULL), SB_OK);
        if (!sb_dot_set(s)->strip)
            continue;
        snprintf(what, sizeof what,
                 "%s: packing %d, group %u, family %d, %u of %u rows, %u columns",
                 sb_dot_set(s)->name, (int)m->quant.packing, m->quant.block_cols, (int)f, m->rows,
                 m->quant.stored_rows, m->cols);
        assert_true(sb_strips_read(m));
        for (size_t i = 0; i < STORED + GUARD; i++)
            got[i] = 77;
        assert_int_equal(sb_dot_matrix(m, x, 1, factor, got), SB_OK);
        for (size_t r = 0; r < m->rows; r++)
            if (sb_bits_f32(got[r]) != sb_bits_f32(want[r]))
                fail_msg("%s, row %zu: %a, not %a", what, r, (double)got[r], (double)want[r]);
        assert_true(got[m->rows] == 77);
        *certain += check_sums(m, factor, what);
        *all += m->rows < SB_STRIP_ROWS ? m->rows : SB_STRIP_ROWS;
    }
    assert_int_equal(sb_dot_select("auto", NULL), SB_OK);
}

TEST(test_families)
{
    static const uint32_t shapes[][2] = {{1, 8},    {8, 32},   {37, 40},    {64, 160},  {70, 256},
                                         {130, 72}, {200, 32}, {128, 2048}, {40, 2056}, {1160, 64}};
    for (size_t k = 0; k < KINDS; k++)
        for (family f = 0; f < FAMILIES; f++) {
            size_t certain = 0, all = 0;
            key = sb_rng_key(k * FAMILIES + f, "strips");
            at = 0;
            for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
                const sb_matrix m = draw_layer(&kinds[k], f, shapes[i][0], shapes[i][1]);
                const sb_scalar one = SB_SCALAR_ONE, some = {{0.37f, -3.0f}, {1.7f, 1.0f}};
                sb_threads_set(1 + (size_t)(i % 3));
                if (!check_few() || i % 2 == f % 2)
                    check_layer(&m, i % 2 ? &some : &one, f, &certain, &all);
                forget(&m);
            }
            if (f == ORDINARY && (double)certain < 0.97 * (double)all)
                fail_msg("kind %zu: %zu of %zu rows certain", k, certain, all);
        }
}

/* Layers that the strip kernels must refuse: their sums would be wrong, or they would read out of
 * bounds. */
TEST(test_refused)
{
    static const uint32_t map[16] = {0};
    key = sb_rng_key(0, "refused");
    at = 0;
    const sb_matrix m = draw_layer(&kinds[0], ORDINARY, 16, 256);
    for (size_t s = 0; sb_dot_set(s); s++) {
        assert_int_equal(sb_dot_select(sb_dot_set(s)->name, NULL), SB_OK);
        assert_int_equal(sb_strips_read(&m), sb_dot_set(s)->strip != NULL);
        for (int what = 0; what < 9; what++) {
            sb_matrix other = m;
            switch (what) {
            case 0:
                other.row_map = map;
                break;
            case 1:
                other.first_row = 4;
                break;
            case 2:
                other.quant.stored_rows += 4;
                break;
            case 3:
                other.quant.group_index = codes;
                break;
            case 4:
                other.quant.block_cols = 48;
                break;
            case 5:
                other.quant.zero = 16;
                break;
            case 6:
                other.quant.zero = -1;
                break;
            case 7:
                other.format = SB_FORMAT_uint8;
                break;
            default:
                other.quant.packing = SB_PACKING_pairs;
                break;
            }
            assert_false(sb_strips_read(&other));
        }
    }
    forget(&m);
    assert_int_equal(sb_dot_select("auto", NULL), SB_OK);
}
