/* test_batch.c - many inputs at once give the bits of exact.h for each input, with every
 * kernel set: all packings, lengths that are no multiple of a vector, any number of inputs, hostile
 * values. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "ref/formats/format.h"
#include "ref/formats/wide.h"
#include "ref/fast/dot/batch.h"
#include "ref/fast/dot/kernels.h"
#include "ref/fast/dot/small_gemm.h"
#include "ref/fast/dot/row.h"
#include "tests/lib/check_all.h"

enum { STORED = 48, ROWS = 37, COLS = 2060, INPUTS = 200, GUARD = 5 };

/* How a layer is stored; group 0: a whole row; map: the rows are in another order. */
typedef struct kind {
    sb_format format, scale;
    uint32_t group;
    sb_packing packing;
    sb_zeros zeros;
    int32_t zero;
    int map, index;
} kind;

#define ROWS_OF(format, scale, group)                                                              \
    {                                                                                              \
        format, scale, group, SB_PACKING_rows, SB_ZEROS_none, 0, 0, 0                              \
    }
static const kind kinds[] = {
    {SB_FORMAT_bf16, SB_FORMAT_f32, 0, SB_PACKING_rows, SB_ZEROS_none, 0, 1, 0},
    ROWS_OF(SB_FORMAT_f16, SB_FORMAT_f32, 0),
    ROWS_OF(SB_FORMAT_f32, SB_FORMAT_f32, 0),
    ROWS_OF(SB_FORMAT_e2m1, SB_FORMAT_e4m3, 16),
    ROWS_OF(SB_FORMAT_e2m1, SB_FORMAT_e8m0, 32),
    ROWS_OF(SB_FORMAT_e4m3, SB_FORMAT_e8m0, 32),
    ROWS_OF(SB_FORMAT_e4m3, SB_FORMAT_f32, 128),
    ROWS_OF(SB_FORMAT_e4m3, SB_FORMAT_f32, 0),
    ROWS_OF(SB_FORMAT_e5m2, SB_FORMAT_bf16, 48),
    ROWS_OF(SB_FORMAT_int8, SB_FORMAT_bf16, 0),
    ROWS_OF(SB_FORMAT_int8, SB_FORMAT_bf16, 20), /* not a multiple of sixteen */
    {SB_FORMAT_uint4, SB_FORMAT_f16, 128, SB_PACKING_rows, SB_ZEROS_rows, 0, 1, 0},
    {SB_FORMAT_uint4, SB_FORMAT_f16, 32, SB_PACKING_rows, SB_ZEROS_none, 8, 0, 1},
    {SB_FORMAT_uint4, SB_FORMAT_f16, 64, SB_PACKING_gptq, SB_ZEROS_gptq_v1, 0, 0, 0},
    {SB_FORMAT_uint4, SB_FORMAT_f16, 128, SB_PACKING_gptq, SB_ZEROS_gptq_v2, 0, 1, 1},
    {SB_FORMAT_uint8, SB_FORMAT_f16, 32, SB_PACKING_gptq, SB_ZEROS_gptq_v2, 0, 0, 0},
    {SB_FORMAT_uint4, SB_FORMAT_f16, 128, SB_PACKING_awq, SB_ZEROS_awq, 0, 0, 0},
    {SB_FORMAT_uint4, SB_FORMAT_f16, 32, SB_PACKING_awq, SB_ZEROS_awq, 0, 1, 0},
    {SB_FORMAT_int4, SB_FORMAT_bf16, 128, SB_PACKING_pairs, SB_ZEROS_none, 0, 0, 0},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* The kinds of inputs; POISON: any bits, also in codes and scales. */
typedef enum family { ORDINARY, SHORT, EXTREME, CANCELS, ZEROS, POISON, FAMILIES } family;

static uint64_t key, at;
static uint32_t spread; /* the range of exponents of inputs that cancel */
static unsigned char codes[STORED * COLS * 4], scales[STORED * COLS * 4], zeros[STORED * COLS * 4],
    index_bytes[COLS * 4];
static uint32_t map[ROWS];
static double x[INPUTS * COLS], wide[ROWS * COLS];
static float want[INPUTS * ROWS], out[INPUTS * ROWS + GUARD];

static uint32_t roll(uint32_t n)
{
    return sb_rng_below(key, at++, n);
}

/* The bits of a scale or a plain weight without NaN and infinity (except POISON); positive where
 * the format needs it. */
static uint32_t draw_bits(sb_format format, family f)
{
    const uint32_t any = (uint32_t)sb_rng_u64(key, at++);
    const float middling = 0.02f * (1 + (float)(any % 1000) / 500); /* a normal number in E4M3 */
    if (f == POISON && roll(200) == 0)
        return any;
    if (f == EXTREME && roll(8) == 0)
        return format == SB_FORMAT_f32    ? any & 0xbf7fffffu
               : format == SB_FORMAT_bf16 ? any & 0x7f7fu
               : format == SB_FORMAT_f16  ? any & 0x7bffu
               : format == SB_FORMAT_e8m0 ? 1 + any % 253
                                          : any % 0x7f;
    return sb_f32_to_code(format, format == SB_FORMAT_e8m0 ? 0.25f : middling);
}

static void put(unsigned char *bytes, sb_format format, size_t i, uint32_t code)
{
    const unsigned bits = sb_format_bits(format);
    if (bits == 32)
        sb_store_u32(bytes + 4 * i, code);
    else if (bits == 16)
        sb_store_u16(bytes + 2 * i, (uint16_t)code);
    else
        bytes[i] = (unsigned char)code;
}

static void draw_codes(const kind *k, size_t count, family f)
{
    if (sb_format_is_plain(k->format))
        for (size_t i = 0; i < count; i++) {
            uint32_t code = draw_bits(k->format, f == EXTREME ? EXTREME : f);
            uint32_t sign = roll(2) << (sb_format_bits(k->format) - 1);
            put(codes, k->format, i, code | sign);
        }
    else
        for (size_t i = 0; i < count; i++) {
            uint32_t code = (uint32_t)sb_rng_u64(key, at++) & 0xff;
            if (f != POISON && k->format == SB_FORMAT_e4m3 && (code & 127) == 127)
                code ^= 1;
            if (f != POISON && k->format == SB_FORMAT_e5m2 && (code & 0x7c) == 0x7c)
                code ^= 4;
            codes[i] = (unsigned char)code;
        }
}

/* For CANCELS: columns 2i and 2i + 1 have the same code. */
static void pair_codes(const kind *k, size_t cols)
{
    const unsigned bits = sb_format_bits(k->format);
    const size_t step = k->packing == SB_PACKING_awq     ? STORED / 2
                        : k->packing == SB_PACKING_pairs ? 1
                                                         : bits / 8;
    for (size_t i = 0; i < STORED * cols * bits / 8; i++)
        if (step == 0)
            codes[i] = (unsigned char)((codes[i] & 15u) * 17u);
        else if (i / step % 2)
            codes[i] = codes[i - step];
}

static float draw_input(family f, size_t i)
{
    const float normal = sb_rng_normal(key, at++);
    const uint32_t any = (uint32_t)sb_rng_u64(key, at++);
    switch (f) {
    case SHORT:
        return sb_round_to(SB_FORMAT_bf16, normal);
    case EXTREME:
        return any % 3 ? normal : sb_f32_from_bits(any & 0xbf7fffffu);
    case CANCELS:
        if (i % 2)
            return -(float)x[i - 1] * (any % 50 ? 1 : 1 + 0x1p-23f);
        return normal * sb_f32_from_bits((127 + any % spread) << 23);
    case ZEROS:
        return any % 2 ? 0.0f : -0.0f;
    case POISON:
        return any % 3000 ? normal : sb_f32_from_bits(any);
    default:
        return normal;
    }
}

static sb_matrix draw_layer(const kind *k, family f, uint32_t cols)
{
    sb_matrix m = {.data = codes, .format = k->format, .rows = ROWS, .cols = cols};
    sb_quant *q = &m.quant;
    const uint32_t group = k->group ? k->group : cols;
    draw_codes(k, (size_t)STORED * cols, f);
    if (f == CANCELS)
        pair_codes(k, cols);
    spread = 1 + roll(24);
    m.first_row = k->map ? 3 : 8;
    for (uint32_t i = 0; i < ROWS; i++)
        map[i] = (i * 7 + 5) % 45;
    m.row_map = k->map ? map : NULL;
    for (size_t i = 0; i < (size_t)INPUTS * cols; i++)
        x[i] = (double)draw_input(f, i);
    if (sb_format_is_plain(k->format))
        return m;
    q->groups = (cols + group - 1) / group;
    for (size_t i = 0; i < (size_t)STORED * q->groups; i++) {
        const uint32_t any = (uint32_t)sb_rng_u64(key, at++);
        put(scales, k->scale, i, f == POISON && roll(40) == 0 ? any : draw_bits(k->scale, f));
        sb_store_u32(zeros + 4 * i, (uint32_t)sb_rng_u64(key, at++));
    }
    for (uint32_t i = 0; i < cols; i++)
        sb_store_u32(index_bytes + 4 * i, roll(q->groups));
    *q = (sb_quant){.scales = scales,
                    .scale_format = k->scale,
                    .block_rows = 1,
                    .block_cols = group,
                    .scale_row = k->packing == SB_PACKING_rows ? q->groups : 1,
                    .scale_col = k->packing == SB_PACKING_rows ? 1 : STORED,
                    .groups = q->groups,
                    .packing = k->packing,
                    .stored_rows = STORED,
                    .zeros = k->zeros,
                    .zero_points = zeros,
                    .zero = k->zero,
                    .group_index = k->index ? index_bytes : NULL};
    return m;
}

static sb_scalar draw_factor(const sb_matrix *m)
{
    sb_scalar one = SB_SCALAR_ONE, some = {{0.37f, -3.0f}, {1.7f, 1.0f}};
    return sb_matrix_quantized(m) && roll(3) ? some : one;
}

/* Computes `want` by the definition. Returns how often binary64 alone would have missed it. */
static size_t define(const sb_matrix *m, const sb_scalar *factor, size_t count)
{
    size_t missed = 0;
    for (uint32_t n = 0; n < ROWS; n++)
        sb_matrix_wide(m, n, wide + (size_t)n * m->cols);
    for (size_t t = 0; t < count; t++)
        for (size_t n = 0; n < ROWS; n++) {
            sb_exact sum;
            double plain = 0;
            sb_exact_clear(&sum);
            for (size_t k = 0; k < m->cols; k++) {
                sb_exact_add_wide_product(&sum, wide[n * m->cols + k], x[t * m->cols + k]);
                plain += wide[n * m->cols + k] * x[t * m->cols + k];
            }
            const float y = sb_exact_round_scaled(&sum, factor);
            plain = plain * factor->mul[0] * factor->mul[1] / factor->div[0] / factor->div[1];
            missed += y == y && sb_bits_f32(y) != sb_bits_f32((float)plain);
            want[t * ROWS + n] = y;
        }
    return missed;
}

typedef sb_status dot_inputs(const sb_matrix *w, const double *x, size_t count,
                             const sb_scalar *factor, float *out);

static void check_by(dot_inputs *dot, const sb_matrix *m, const sb_scalar *factor, size_t count,
                     const char *what)
{
    for (size_t i = 0; i < INPUTS * ROWS + GUARD; i++)
        out[i] = 77.0f;
    assert_int_equal(dot(m, x, count, factor, out), SB_OK);
    for (size_t i = 0; i < count * ROWS; i++)
        if (sb_bits_f32(out[i]) != sb_bits_f32(want[i]))
            fail_msg("%s, %s, packing %d, %u columns: row %zu of input %zu of %zu: %a, not %a",
                     what, sb_format_name(m->format), (int)m->quant.packing, m->cols, i % ROWS,
                     i / ROWS, count, (double)out[i], (double)want[i]);
    for (size_t i = count * ROWS; i < INPUTS * ROWS + GUARD; i++)
        assert_true(out[i] == 77.0f);
}

static size_t by_fours; /* calls of sb_small_gemm */

static void check(const sb_matrix *m, const sb_scalar *factor, size_t count, const char *what)
{
    check_by(sb_dot_batch, m, factor, count, what);
    if (sb_small_gemm_reads(m)) {
        check_by(sb_small_gemm, m, factor, count, what);
        by_fours++;
    }
}

static void check_sets(const sb_matrix *m, const sb_scalar *factor, size_t most)
{
    for (size_t s = 0; sb_dot_set(s); s++) {
        assert_int_equal(sb_dot_select(sb_dot_set(s)->name, NULL), SB_OK);
        for (size_t count = 1; sb_dot_set(s)->tile && count <= most;
             count += check_few()                ? 1 + 2 * count
                      : count < 20               ? 1
                      : count == 40 && most > 40 ? most - 40
                                                 : 5)
            check(m, factor, count, sb_dot_set(s)->name);
    }
}

/* GPTQ words hold 8 columns; inputs that cancel and nibbles need pairs. */
static uint32_t draw_cols(const kind *k, family f)
{
    static const uint32_t cols[FAMILIES] = {1042, 129, 16, 258, 31, 45};
    const uint32_t unit = k->packing == SB_PACKING_gptq                    ? 8
                          : f == CANCELS || sb_format_bits(k->format) == 4 ? 2
                                                                           : 1;
    return (roll(3) ? cols[f] : 1 + roll(300)) / unit * unit + unit;
}

TEST(test_all)
{
    size_t missed = 0;
    for (size_t i = 0; i < KINDS; i++)
        for (family f = 0; f < FAMILIES; f++) {
            key = sb_rng_key(i * FAMILIES + f, "batch");
            at = 0;
            sb_matrix m = draw_layer(&kinds[i], f, draw_cols(&kinds[i], f));
            sb_scalar factor = draw_factor(&m);
            missed += define(&m, &factor, 40);
            check_sets(&m, &factor, 40);
        }
    assert_true(missed > 0);
    assert_true(by_fours > 0 || !sb_dot_avx512vnni_supported());
    assert_int_equal(sb_dot_select("auto", NULL), SB_OK);
}

/* Several blocks of columns, more inputs than fit one call of a tile, any number of threads. */
TEST(test_large)
{
    static const size_t some[] = {0, 2, 3, 16};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        key = sb_rng_key(i, "large");
        at = 0;
        sb_matrix m =
            draw_layer(&kinds[some[i]], i == 0 ? SHORT : CANCELS, i == 0 ? COLS - 2 : COLS);
        sb_scalar factor = draw_factor(&m);
        if (some[i] == 2) /* the last block of columns is 0 and does not hide the blocks before */
            for (size_t n = 0; n < STORED; n++)
                memset(codes + 4 * (n * COLS + 2048), 0, 4 * (COLS - 2048));
        define(&m, &factor, INPUTS);
        for (int threads = 1; threads < 6; threads += 2) {
            sb_threads_set((size_t)threads);
            check(&m, &factor, INPUTS, "large");
        }
    }
}

/* A kernel for four rows adds in the same order as the kernel for one row, and has the same bounds:
 * what test_row.c shows for one row holds for four. Any valid scale, any digits. */
static void compare_by_four(const sb_dot_kernels *set, const sb_matrix *m)
{
    double sums[SB_SMALL_GEMM_INPUTS][SB_SMALL_GEMM_ROWS],
        magnitudes[SB_SMALL_GEMM_INPUTS][SB_SMALL_GEMM_ROWS];
    sb_row_input inputs[SB_SMALL_GEMM_INPUTS];
    sb_row_codes w[SB_SMALL_GEMM_ROWS];
    double *room = sb_alloc(SB_SMALL_GEMM_INPUTS, sb_row_input_workspace(m) * sizeof *room);
    assert_non_null(room);
    for (size_t t = 0; t < SB_SMALL_GEMM_INPUTS; t++)
        inputs[t] = sb_row_prepare(m, x + t * m->cols, room + t * sb_row_input_workspace(m));
    for (uint32_t r = 0; r < SB_SMALL_GEMM_ROWS; r++)
        w[r] = (sb_row_codes){.codes = sb_matrix_dense(m, r),
                              .scale_codes = scales + (m->first_row + r) * m->quant.groups,
                              .group = 16,
                              .n = m->cols};
    set->many[m->format](w, inputs, SB_SMALL_GEMM_INPUTS, sums[0], magnitudes[0],
                         SB_SMALL_GEMM_ROWS);
    for (size_t t = 0; t < SB_SMALL_GEMM_INPUTS; t++)
        for (size_t r = 0; r < SB_SMALL_GEMM_ROWS; r++) {
            const sb_partial one = set->row[m->format](&w[r], &inputs[t]);
            assert_int_equal(sb_bits_f64(sums[t][r]), sb_bits_f64(one.sum));
            assert_int_equal(sb_bits_f64(magnitudes[t][r]), sb_bits_f64(one.magnitude));
        }
    free(room);
}

TEST(test_by_four)
{
    for (size_t s = 0; sb_dot_set(s); s++)
        for (family f = 0; sb_dot_set(s)->many[SB_FORMAT_e2m1] && f < POISON; f++) {
            assert_int_equal(sb_dot_select(sb_dot_set(s)->name, NULL), SB_OK);
            key = sb_rng_key(f, "by four");
            at = 0;
            const sb_matrix m = draw_layer(&kinds[3], f, draw_cols(&kinds[3], f));
            for (size_t i = 0; i < (size_t)STORED * m.quant.groups; i++)
                scales[i] = roll(9) ? (unsigned char)(0x08 + roll(0x77)) : 0;
            compare_by_four(sb_dot_set(s), &m);
        }
    assert_int_equal(sb_dot_select("auto", NULL), SB_OK);
}

/* Rows of binary32 that repeat these two weights, or have zeros after them. */
static sb_matrix rows_of(uint32_t cols, const float weights[2], int zeros_behind)
{
    for (size_t i = 0; i < (size_t)ROWS * cols; i++)
        sb_store_u32(codes + 4 * i, zeros_behind && i % cols > 1 ? 0 : sb_bits_f32(weights[i % 2]));
    return (sb_matrix){.data = codes, .format = SB_FORMAT_f32, .rows = ROWS, .cols = cols};
}

/* For inputs of one row, each way to find the bits decides some, in any order: plain sums, sums
 * exact in binary64, compensated sums, exact sums. */
TEST(test_efforts)
{
    enum { HERE = 64, WAYS = 5, MANY = 40 };
    const sb_scalar one = SB_SCALAR_ONE;
    key = sb_rng_key(0, "efforts");
    at = 0;
    const float weights[2] = {0.7f, 0.7f};
    const sb_matrix m = rows_of(HERE, weights, 0);
    for (size_t t = 0; t < MANY; t++) {
        const uint32_t way = roll(WAYS);
        double *to = x + t * HERE;
        for (size_t k = 0; k < HERE; k += 2) {
            const float power = sb_f32_from_bits((127 - 80 + roll(160)) << 23);
            to[k] = (double)(sb_rng_normal(key, at++) * (way >= 3 ? power : 1));
            to[k + 1] = way ? -to[k] : 1;
        }
        if (way == 2)
            to[1] = (double)((float)to[1] * (1 + 0x1p-23f));
        if (way == 4)
            to[6] = 0x1p-126, to[7] = 0;
    }
    define(&m, &one, MANY);
    check_sets(&m, &one, MANY);
}

/* Sums between 2^49 and 2^50, from inputs of 26 bits: exact in binary64. After a product and a
 * quotient they are so close to the middle of two neighbours that binary64 cannot decide. */
TEST(test_factors)
{
    enum { HERE = 16, MANY = 40 };
    const sb_scalar some[] = {
        {{0.37f, -3.0f}, {1.7f, 1.0f}}, {{1, 1}, {0.3f, 1}}, {{7.1f, 1}, {1, 1}}};
    const float weights[2] = {0x1p25f, 1};
    size_t missed = 0;
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        const double mul = (double)some[i].mul[0] * (double)some[i].mul[1];
        const double div = (double)some[i].div[0] * (double)some[i].div[1];
        key = sb_rng_key(i, "factors");
        at = 0;
        const sb_matrix m = rows_of(HERE, weights, 1);
        memset(x, 0, sizeof x);
        for (size_t t = 0; t < MANY; t++) {
            double sum = (double)(2 * (0x800000 + roll(0x800000)) + 1) * div / sb_absolute(mul);
            while (sum < 0x1p49)
                sum *= 2;
            const uint64_t whole = (uint64_t)(sum + 0.5);
            x[t * HERE] = (double)((whole >> 25) - 1);
            x[t * HERE + 1] = (double)((whole & 0x1ffffff) + 0x2000000);
        }
        missed += define(&m, &some[i], MANY);
        check_sets(&m, &some[i], MANY);
    }
    assert_true(missed > 0);
}

/* The number of failures before all of its allocations succeed. */
static unsigned long failures_of(dot_inputs *dot, const sb_matrix *m)
{
    const sb_scalar one = SB_SCALAR_ONE;
    unsigned long failures = 0;
    sb_status status = SB_ERR_MEMORY;
    for (; status == SB_ERR_MEMORY; failures++) {
        sb_alloc_fail_at(failures + 1);
        status = dot(m, x, 3, &one, out);
        sb_alloc_fail_at(0);
    }
    assert_int_equal(status, SB_OK);
    return failures;
}

/* Without memory the result is an error; later calls succeed. */
TEST(test_memory)
{
    sb_matrix m = draw_layer(&kinds[16], ORDINARY, 64);
    assert_true(failures_of(sb_dot_batch, &m) > 4);
    m = draw_layer(&kinds[3], ORDINARY, 64);
    if (sb_small_gemm_reads(&m))
        assert_true(failures_of(sb_small_gemm, &m) > 1);
}

/* With no inputs nothing is read or written. */
TEST(test_no_inputs)
{
    const sb_matrix w = {.data = codes, .format = SB_FORMAT_bf16, .rows = ROWS, .cols = 64};
    const sb_scalar one = SB_SCALAR_ONE;
    float untouched = 77;
    assert_int_equal(sb_dot_batch(&w, x, 0, &one, &untouched), SB_OK);
    assert_true(untouched == 77);
}
