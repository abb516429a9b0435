/* test_fp8.c - FP8 under `samebit check`: the tables agree with the definition, the pass agrees
 * with both, and faults in files are found. V-28 to V-31. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "ref/formats/plain_row.h"
#include "ref/formats/small_float.h"
#include "ref/formats/wide.h"
#include "tests/check/folder.h"
#include "tests/check/plant.h"
#include "tests/check/scan_case.h"
#include "tools/check/scan/fp8.h"

/* --- nearest codes ---------------------------------------------------------------------------- */

/* The definition in another way: t lies at most the slack beyond the midpoint between the value
 * of the code and any other value. */
static int nearest_in_words(uint8_t code, long double t)
{
    long double v = sb_e4m3_to_f32(code), slack = fabsl(t) / 256;
    for (unsigned other = 0; other < 256; other++) {
        long double x = sb_e4m3_to_f32((uint8_t)other);
        if ((other & 0x7f) == 0x7f || x == v)
            continue;
        if (x < v ? t + slack < (x + v) / 2 : t - slack > (x + v) / 2)
            return 0;
    }
    return 1;
}

TEST(test_definition)
{
    uint64_t key = sb_rng_key(1, "fp8");
    size_t near = 0, all = 0;
    for (unsigned i = 0; i < 4000; i++) {
        double scale = (double)sb_round_to(SB_FORMAT_bf16, 0.001f + sb_rng_uniform(key, 3 * i));
        double t = (double)sb_e4m3_to_f32((uint8_t)sb_rng_below(key, 3 * i + 1, 0x7f));
        /* at a code, at a halfway point, at the end of the slack there, and between */
        double u = (double)sb_rng_uniform(key, 3 * i + 2);
        t *= i % 4 == 0 ? 1 : i % 4 == 1 ? 1 + 1 / 16.0 : i % 4 == 2 ? 1.066 : 0.9 + 0.2 * u;
        double w = (double)sb_round_to(SB_FORMAT_bf16, (float)((i & 64 ? -t : t) * scale));
        for (unsigned code = 0; code < 256; code++) {
            int is = sb_fp8_nearest((uint8_t)code, w, scale);
            if ((code & 0x7f) == 0x7f)
                continue;
            if (is != nearest_in_words((uint8_t)code, (long double)w / scale))
                fail_msg("code %#x, weight %a, scale %a: %d", code, w, scale, is);
            near += (size_t)is;
            all++;
        }
    }
    assert_true(near >= 4000 && near < all / 50);
}

TEST(test_table)
{
    uint64_t key = sb_rng_key(2, "fp8");
    sb_fp8_table table;
    sb_fp8_fill(&table);
    for (unsigned code = 0; code < 256; code++) {
        if ((code & 0x7f) != 0x7f)
            assert_true(table.value[code] == (double)sb_e4m3_to_f32((uint8_t)code));
        for (unsigned i = 0; i < 2000; i++) {
            double scale = (double)(0.001f + sb_rng_uniform(key, 2 * i));
            double t = table.value[code] * (0.85 + 0.3 * (double)sb_rng_uniform(key, 2 * i + 1));
            double w = i < 4 ? t * scale * 1e6 * (i & 1 ? -1 : 1)
                             : (double)sb_round_to(SB_FORMAT_bf16, (float)(t * scale));
            int fast = 256 * w + fabs(w) >= table.low[code] * scale &&
                       256 * w - fabs(w) <= table.high[code] * scale;
            if (fast != sb_fp8_nearest((uint8_t)code, w, scale))
                fail_msg("code %#x, weight %a, scale %a", code, w, scale);
        }
    }
}

/* Every code that a quantizer gives is nearest. With one bit flipped it is not, except for signs of
 * zeros and next to a halfway point. */
TEST(test_flips)
{
    uint64_t key = sb_rng_key(3, "fp8");
    unsigned kept = 0, zeros = 0, flips = 0;
    for (unsigned i = 0; i < 20000; i++) {
        float w = sb_round_to(SB_FORMAT_bf16, sb_rng_normal(key, i));
        float scale = sb_round_to(SB_FORMAT_bf16, 5.0f / 448 * (1 + sb_rng_uniform(key, i)));
        uint8_t code = sb_f32_to_e4m3(sb_round_to(SB_FORMAT_bf16, w / scale));
        assert_true(sb_fp8_nearest(code, (double)w, (double)scale));
        for (unsigned bit = 0; bit < 8; bit++) {
            uint8_t flipped = (uint8_t)(code ^ 1u << bit);
            if ((flipped & 0x7f) == 0x7f)
                continue; /* check 28 */
            flips++;
            zeros += (code & 0x7f) == 0 && bit == 7;
            if (!sb_fp8_nearest(flipped, (double)w, (double)scale))
                continue;
            double t = fabs((double)w / (double)scale), a = fabs((double)sb_e4m3_to_f32(code)),
                   b = fabs((double)sb_e4m3_to_f32(flipped));
            assert_true(((code & 0x7f) == 0 && bit == 7) || fabs(t - (a + b) / 2) <= t / 128);
            kept++;
        }
    }
    printf("%u of %u flipped bits stay nearest codes, %u of them signs of 0\n", kept, flips, zeros);
    assert_true(kept < flips / 40);
}

/* --- the pass --------------------------------------------------------------------------------- */

static uint64_t far_by_definition(const scan_case *c)
{
    const sb_matrix *m = &c->unit.found.matrix;
    float *master = calloc(m->cols, sizeof *master);
    uint64_t far = 0;
    assert_non_null(master);
    for (uint32_t n = 0; n < m->rows; n++) {
        sb_matrix_row(&c->master, n, master);
        for (uint32_t k = 0; k < m->cols; k++) {
            double scale = (double)sb_matrix_scale(m, n, k);
            uint8_t code = m->data[(m->first_row + (uint64_t)n) * m->cols + k];
            far += scale > 0 && scale < 1e39 && !sb_fp8_nearest(code, (double)master[k], scale);
        }
    }
    free(master);
    return far;
}

static void check_case(const quant_spec *spec, uint64_t seed)
{
    scan_case c = scan_case_draw(spec, seed);
    const char *what = quant_spec_text(spec);
    uint32_t block = c.unit.found.matrix.quant.block_rows;
    for (int with = 0; with < 2; with++) {
        sb_seen seen = scan_case_run(&c, sb_scan_fp8, 0, with);
        sb_seen defined = scan_case_defined(&c, with);
        if (spec->special) /* a NaN excludes all of its unit */
            defined.distance = seen.distance;
        expect_near_seen(what, &seen, &defined, 2e-6);
        assert_int_equal(seen.fp8.far.count, with ? far_by_definition(&c) : 0);
        sb_seen panels = scan_case_run(&c, sb_scan_fp8, block, with);
        expect_same_seen(what, &panels, &seen);
        if (memcmp(&panels.fp8, &seen.fp8, sizeof seen.fp8) != 0)
            fail_msg("%s: panels of %u rows see something else", what, block);
    }
    scan_case_free(&c);
}

TEST(test_pass)
{
    size_t count, done = 0;
    const quant_spec *specs = quant_variants(&count);
    for (size_t i = 0; i < count; i++) {
        if (!sb_container_is_fp8(specs[i].container))
            continue;
        check_case(&specs[i], i);
        done++;
    }
    printf("%zu variants\n", done);
    assert_true(done > 50);
}

/* --- files ------------------------------------------------------------------------------------ */

static const sb_seen_fp8 *seen_of(const folder_result *r, const char *plain)
{
    const sb_member *m = sb_member_plain(&r->check.self.units, plain);
    assert_non_null(m);
    return &m->seen->fp8;
}

#define BF16 "T3 bf16 recipe=plain"
#define TENSOR "layers.1.mlp.experts.1.up_proj"

/* 300 flips in one tensor: nearly all are far by the definition, NaN, or signs of zeros. */
TEST(test_many_flips)
{
    static const char *const vehicles[] = {"T3 fp8-block recipe=plain",
                                           "T3 fp8-channel recipe=plain",
                                           "T3 fp8-tensor recipe=plain", "T3 mxfp8 recipe=plain"};
    for (unsigned v = 0; v < 4; v++) {
        folder *f = folder_of(vehicles[v]);
        folder_tensor *t = folder_find(f, "model." TENSOR ".weight");
        uint64_t key = sb_rng_key(v, "flips");
        unsigned nans = 0, signs = 0;
        for (unsigned i = 0; i < 300; i++) {
            uint64_t at = t->size / 300 * i + sb_rng_below(key, 2 * i, 20);
            unsigned bit = sb_rng_below(key, 2 * i + 1, 8);
            signs += (t->bytes[at] & 0x7f) == 0 && bit == 7;
            folder_flip(t, at, 1u << bit);
            nans += (t->bytes[at] & 0x7f) == 0x7f;
        }
        folder_result *r = folder_check(f, BF16, NULL);
        const sb_seen_fp8 *s = seen_of(r, TENSOR);
        printf("%s: %u NaN, %u far, %u signs of zeros of 300\n", vehicles[v],
               (unsigned)s->nan.count, (unsigned)s->far.count, signs);
        assert_int_equal(s->nan.count, nans);
        assert_in_range(s->far.count + nans + signs, 285, 300);
        expect_finding(r, 31, SB_LEVEL_error, TENSOR);
        folder_result_free(r);
        folder_free(f);
    }
}

static float to_power(float x)
{
    int exponent;
    return x > 0 && frexpf(x, &exponent) != 0.5f ? ldexpf(1, exponent) : x;
}

/* V-30: all scales of a file, and those of one layer, rounded up to powers of two. */
TEST(test_rounded_scales)
{
    folder *f = folder_of("T6 fp8-block recipe=plain");
    folder_map(folder_find(f, "model.layers.0.linear_attn.in_proj_z.weight_scale_inv"), to_power);
    folder_result *r = folder_check(f, NULL, NULL);
    expect_finding(r, 30, SB_LEVEL_error, "layers.0.linear_attn.in_proj_z.weight_scale_inv");
    folder_result_free(r);
    for (size_t i = 0; i < f->count; i++)
        if (strstr(f->tensors[i]->name, "weight_scale_inv"))
            folder_map(f->tensors[i], to_power);
    r = folder_check(f, NULL, NULL);
    const sb_finding *finding = folder_finding(r, 30, SB_LEVEL_error, NULL);
    assert_true(finding && !*finding->tensor);
    folder_result_free(r);
    r = folder_check(f, "T6 bf16 recipe=plain", NULL);
    expect_finding(r, 31, SB_LEVEL_error, "layers.0.linear_attn.in_proj_z.weight");
    folder_result_free(r);
    folder_free(f);
}

/* V-30: all codes cut at 240 are one finding. */
TEST(test_all_cut)
{
    folder *f = folder_of("T3 fp8-channel recipe=plain");
    for (size_t i = 0; i < f->count; i++)
        for (uint64_t b = 0; f->tensors[i]->dtype == SB_DTYPE_F8_E4M3 && b < f->tensors[i]->size;
             b++)
            if ((f->tensors[i]->bytes[b] & 0x7f) > 0x77)
                f->tensors[i]->bytes[b] = (unsigned char)((f->tensors[i]->bytes[b] & 0x80) | 0x77);
    folder_result *r = folder_check(f, NULL, NULL);
    const sb_finding *finding = folder_finding(r, 30, SB_LEVEL_error, NULL);
    assert_true(finding && strstr(finding->message, "240"));
    folder_result_free(r);
    folder_free(f);
}

/* V-30: "A block may be shared by two pieces of a stack of experts" - 96 of 192 rows are
 * gate, and 96 are up. The full code of the first block lies in the gate rows. */
TEST(test_stack)
{
    enum { E = 8, ROWS = 192, COLS = 320 };
    const uint64_t codes[] = {E, ROWS, COLS}, grid[] = {E, 2, 3};
    folder *f = folder_of("T6 fp8-block recipe=plain");
    assert_true(folder_drop_all(f, "model.layers.1.mlp.experts.") > 0);
    folder_tensor *c =
        folder_add(f, "model.layers.1.mlp.experts.gate_up_proj", SB_DTYPE_F8_E4M3, 3, codes, NULL);
    folder_tensor *s = folder_add(f, "model.layers.1.mlp.experts.gate_up_proj_scale_inv",
                                  SB_DTYPE_BF16, 3, grid, NULL);
    folder_fill(s, 0.00033f);
    for (uint64_t i = 0; i < c->size; i++)
        c->bytes[i] = (unsigned char)(0x60 + i % 8);
    for (uint64_t e = 0; e < E; e++)
        for (uint64_t k = 0; k < COLS; k += 64)
            c->bytes[(e * ROWS + 10) * COLS + k] = c->bytes[(e * ROWS + 150) * COLS + k] = 0x7e;
    c->bytes[3 * ROWS * COLS + 100 * COLS + 9] = 0x7f;
    folder_result *r = folder_check(f, NULL, NULL);
    const sb_seen_fp8 *gate = seen_of(r, "layers.1.mlp.experts.3.gate_proj");
    const sb_seen_fp8 *up = seen_of(r, "layers.1.mlp.experts.3.up_proj");
    assert_true(gate->live == 3 && gate->top == 0x7e && gate->low.count == 0);
    assert_true(up->live == 6 && up->top == 0x7e && up->low.count == 0);
    assert_true(up->nan.count == 1 && up->nan.row[0] == 4 && up->nan.col[0] == 9);
    expect_none(r, 30);
    const sb_finding *finding = folder_finding(r, 28, SB_LEVEL_fatal, "experts.gate_up_proj");
    assert_true(finding && strstr(finding->message, "experts.3.up_proj"));
    folder_result_free(r);
    folder_free(f);
}

/* A message names the byte of the file. */
TEST(test_place)
{
    folder *f = folder_of("T3 fp8-channel recipe=plain");
    folder_tensor *t = folder_find(f, "model." TENSOR ".weight");
    char place[64];
    t->bytes[5 * t->shape[1] + 7] = 0xff;
    folder_result *r = folder_check(f, NULL, NULL);
    const sb_finding *finding = folder_finding(r, 28, SB_LEVEL_fatal, TENSOR);
    const sb_member *m = sb_member_plain(&r->check.self.units, TENSOR);
    assert_true(finding && m);
    const sb_tensor *stored = m->unit->found.part[SB_PART_weight];
    snprintf(place, sizeof place, "row 5, column 7 (0xff at byte %llu",
             (unsigned long long)(sb_checkpoint_offset(r->check.self.checkpoint, stored) +
                                  5 * t->shape[1] + 7));
    assert_non_null(strstr(finding->message, place));
    folder_result_free(r);
    folder_free(f);
}

/* Moves codes by one step, away from zero or toward it, as compensation does. */
static void move_codes(folder_tensor *t, uint64_t every)
{
    for (uint64_t i = 0; i < t->size; i += every)
        if ((t->bytes[i] & 0x7f) > 0x08 && (t->bytes[i] & 0x7f) < 0x70)
            t->bytes[i] ^= 1;
}

/* V-31: if codes of all matrices are one step beside the nearest, as GPTQ's are, the matrices are
 * judged as a whole. The same in one matrix is damage, and so is a wrong scale among such matrices.
 */
TEST(test_compensated)
{
    folder *f = folder_of("T3 fp8-channel recipe=plain");
    folder_tensor *t = folder_find(f, "model." TENSOR ".weight");
    move_codes(t, 5);
    folder_result *r = folder_check(f, BF16, NULL);
    expect_finding(r, 31, SB_LEVEL_error, TENSOR);
    folder_result_free(r);
    for (size_t i = 0; i < f->count; i++)
        if (f->tensors[i]->dtype == SB_DTYPE_F8_E4M3 && f->tensors[i] != t)
            move_codes(f->tensors[i], 5);
    r = folder_check(f, BF16, NULL);
    assert_null(folder_finding(r, 31, SB_LEVEL_error, NULL));
    assert_null(folder_finding(r, 31, SB_LEVEL_warn, NULL));
    assert_non_null(folder_finding(r, 31, SB_LEVEL_info, NULL));
    folder_result_free(r);
    folder_tensor *scale = folder_find(f, "model." TENSOR ".weight_scale");
    folder_set(scale, 3, 2 * folder_get(scale, 3));
    r = folder_check(f, BF16, NULL);
    expect_finding(r, 31, SB_LEVEL_error, TENSOR);
    folder_result_free(r);
    folder_free(f);
}
