/* test_int.c - integers under `samebit check`: the passes by rows and by tiles agree with each
 * other and with the decoder, codes agree with the definition, and faults in files are found. V-33
 * to V-39. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "ref/formats/format.h"
#include "ref/formats/wide.h"
#include "tests/check/folder.h"
#include "tests/check/plant.h"
#include "tests/check/scan_case.h"
#include "tools/check/scan/ints.h"

/* --- codes ------------------------------------------------------------------------------------ */

/* V-38 with quotients. *edge: too near a bound for a quotient to decide. */
static unsigned stands_in_words(int code, int zero, sb_int_range range, double w, double scale,
                                int *edge)
{
    double t = w / scale, off = t + zero - code, middle = (range.least + range.most + 1) / 2;
    double slack = fabs(t) / 256 + (zero == middle ? 0 : (fabs(code - middle) + 0.5) / 256);
    double half = fabs(scale) <= 1.01e-5 ? 1 + 1.0 / 64 : 0.5;
    int least = code == range.least, most = code == range.most;
    int far = fabs(off) > half + slack && !(least && off < 0) && !(most && off > 0);
    int beyond = fabs(off) > 1 + 1.0 / 64 && !least && !most;
    *edge = fabs(fabs(off) - half - slack) < 1e-9 || fabs(fabs(off) - 1 - 1.0 / 64) < 1e-9;
    return (far ? SB_INT_FAR : 0u) | (beyond ? SB_INT_BEYOND : 0u);
}

TEST(test_codes)
{
    static const sb_format formats[] = {SB_FORMAT_uint4, SB_FORMAT_int4, SB_FORMAT_uint8,
                                        SB_FORMAT_int8};
    uint64_t key = sb_rng_key(1, "int");
    unsigned far = 0, beyond = 0, all = 0;
    for (unsigned i = 0; i < 40000; i++) {
        sb_int_range range = sb_int_range_of(formats[i % 4]);
        uint32_t codes = (uint32_t)(range.most - range.least + 1);
        int code = range.least + (int)sb_rng_below(key, 5 * i, codes);
        int zero = (range.least + range.most + 1) / 2 + (i & 16 ? (int)(i % 7) - 3 : 0);
        double scale = i % 97 == 0 ? 1e-5 : 0.001 + (double)sb_rng_uniform(key, 5 * i + 1);
        scale = (double)sb_round_to(SB_FORMAT_f16, (float)(i & 8 ? -scale : scale));
        double t = code - zero + 4 * ((double)sb_rng_uniform(key, 5 * i + 2) - 0.5);
        double w = (double)sb_round_to(SB_FORMAT_bf16, (float)(t * scale));
        unsigned stands = sb_int_stands(code, zero, range, w, scale);
        int edge;
        if (stands != stands_in_words(code, zero, range, w, scale, &edge) && !edge)
            fail_msg("code %d, zero %d of %d to %d, weight %a, scale %a: %u", code, zero,
                     range.least, range.most, w, scale, stands);
        far += (stands & SB_INT_FAR) != 0;
        beyond += (stands & SB_INT_BEYOND) != 0;
        all++;
    }
    printf("%u codes: %u far, %u beyond a step\n", all, far, beyond);
    assert_true(far > all / 3 && far < all && beyond > all / 5);
}

/* --- the pass --------------------------------------------------------------------------------- */

static void same_places(const char *what, const sb_places *a, const sb_places *b)
{
    if (a->count != b->count)
        fail_msg("%s: %d and %d places", what, (int)a->count, (int)b->count);
}

/* Compares only the numbers of places, because the two passes find places in different orders. */
static void expect_same_ints(const char *what, const sb_seen_int *a, const sb_seen_int *b)
{
    assert_memory_equal(a->steps, b->steps, sizeof a->steps);
    if (a->groups != b->groups || a->live != b->live || a->lowest != b->lowest ||
        a->negative != b->negative || a->low_scales != b->low_scales)
        fail_msg("%s: groups %u %u, live %u %u, lowest %u %u", what, a->groups, b->groups, a->live,
                 b->live, a->lowest, b->lowest);
    same_places(what, &a->bad_scale, &b->bad_scale);
    same_places(what, &a->zero_scale, &b->zero_scale);
    same_places(what, &a->below_zero, &b->below_zero);
    same_places(what, &a->high_scale, &b->high_scale);
    same_places(what, &a->dead, &b->dead);
    same_places(what, &a->inner, &b->inner);
    same_places(what, &a->far, &b->far);
    same_places(what, &a->beyond, &b->beyond);
    same_places(what, &a->rows_off, &b->rows_off);
}

static int tiled; /* the number of variants that had both passes */

static void rows_only(const sb_panel *panel)
{
    panel->seen->ints.compared = panel->master != NULL;
    sb_scan_int_rows(panel);
}

static void tiles_only(const sb_panel *panel)
{
    panel->seen->ints.compared = panel->master != NULL;
    sb_scan_int_tiles(panel);
}

static void check_case(const quant_spec *spec, uint64_t seed)
{
    scan_case c = scan_case_draw(spec, seed);
    const char *what = quant_spec_text(spec);
    sb_panel whole = {.matrix = c.unit.found.matrix};
    for (int with = 0; with < 2; with++) {
        sb_seen rows = scan_case_run(&c, rows_only, 0, with);
        sb_seen defined = scan_case_defined(&c, with);
        if (spec->special) /* values that are no numbers */
            defined.distance = rows.distance;
        expect_same_seen(what, &rows, &defined);
        if (sb_scan_int_can_tile(&whole)) {
            sb_seen tiles = scan_case_run(&c, tiles_only, 0, with);
            if (spec->special)
                tiles.distance = rows.distance;
            expect_same_seen(what, &tiles, &rows);
            expect_same_ints(what, &tiles.ints, &rows.ints);
            tiled++;
        }
        if (c.unit.found.matrix.quant.packing == SB_PACKING_rows) {
            sb_seen panels = scan_case_run(&c, sb_scan_int, 3, with);
            expect_same_seen(what, &panels, &rows);
            expect_same_ints(what, &panels.ints, &rows.ints);
        }
    }
    scan_case_free(&c);
}

TEST(test_pass)
{
    size_t count, done = 0;
    const quant_spec *specs = quant_variants(&count);
    for (size_t i = 0; i < count; i++)
        if (sb_container_family(specs[i].container) == SB_FAMILY_INT) {
            check_case(&specs[i], i);
            done++;
        }
    quant_spec large = {.container = SB_CONTAINER_int_gptq,
                        .rows = 200,
                        .cols = 1024,
                        .bits = 4,
                        .block = {1, 256},
                        .scale = SB_DTYPE_F16,
                        .asymmetric = 1};
    check_case(&large, 1);
    large.container = SB_CONTAINER_int_awq;
    check_case(&large, 2);
    printf("%zu variants, %d times as tiles\n", done, tiled);
    assert_true(done > 40 && tiled > 40);
}

/* A group without columns has nothing to judge. What was seen depends on the bytes only, and not on
 * what memory held before. */
TEST(test_empty_group)
{
    quant_spec spec = {.container = SB_CONTAINER_int_gptq,
                       .rows = 8,
                       .cols = 64,
                       .bits = 4,
                       .block = {1, 16},
                       .scale = SB_DTYPE_F16,
                       .asymmetric = 1};
    scan_case c = scan_case_draw(&spec, 3);
    unsigned char index[4 * 64] = {0};
    for (unsigned k = 0; k < 64; k++)
        index[4 * k] = (unsigned char)(k % 3);
    sb_matrix *m = &c.unit.found.matrix;
    assert_int_equal(m->quant.groups, 4);
    m->quant.group_index = index;
    sb_seen seen[2];
    for (int i = 0; i < 2; i++) {
        memset(c.scratch, i ? 0x7f : 0, 2 * sizeof *c.scratch * m->cols);
        seen[i] = scan_case_run(&c, rows_only, 0, 0);
    }
    expect_same_ints("an empty group", &seen[0].ints, &seen[1].ints);
    assert_int_equal(seen[0].ints.groups, 3 * 8);
    scan_case_free(&c);
}

/* --- files ------------------------------------------------------------------------------------ */

#define BF16 "T3 bf16 recipe=plain"
#define TENSOR "model.layers.1.mlp.experts.1.up_proj"

static float larger(float x)
{
    return x * 1.06f;
}

/* Codes of all layers are no longer nearest, but all within a step: nothing is found. Then one code
 * is four steps off, which GPTQ may do and AutoRound does not. */
TEST(test_tuned)
{
    static const char *const vehicles[] = {"T3 int4-autoround recipe=plain",
                                           "T3 int4-gptq recipe=plain"};
    for (unsigned v = 0; v < 2; v++) {
        folder *f = folder_of(vehicles[v]);
        for (size_t n = 0; n < f->count; n++)
            if (strstr(f->tensors[n]->name, ".scales"))
                folder_map(f->tensors[n], larger);
        folder_result *r = folder_check(f, BF16, NULL);
        const sb_member *m = sb_member_plain(&r->check.self.units, &TENSOR[6]);
        assert_true(m && m->seen->ints.far.count > 100 && m->seen->ints.beyond.count == 0);
        expect_none_above(r, SB_LEVEL_warn);
        folder_result_free(r);
        folder_tensor *t = folder_find(f, TENSOR ".qweight");
        unsigned code = folder_nibble(t, 777);
        folder_set_nibble(t, 777, code < 8 ? code + 4 : code - 4);
        r = folder_check(f, BF16, NULL);
        if (v == 0)
            expect_finding(r, 38, SB_LEVEL_error, TENSOR ".qweight");
        else
            expect_none(r, 38);
        folder_result_free(r);
        folder_free(f);
    }
}

/* 300 flips in one tensor of each layout. The definition accepts only those next to a halfway point
 * or beyond an end. */
TEST(test_many_flips)
{
    static const struct {
        const char *vehicle, *tensor;
        unsigned least;
    } rows[] = {{"T3 int4-gptq recipe=plain", TENSOR ".qweight", 290},
                {"T3 int4-ct recipe=plain", TENSOR ".weight_packed", 290},
                {"T3 int4-awq recipe=plain", TENSOR ".qweight", 290},
                {"T3 int8-gptq recipe=plain", TENSOR ".qweight", 240}};
    for (unsigned v = 0; v < 4; v++) {
        folder *f = folder_of(rows[v].vehicle);
        folder_tensor *t = folder_find(f, rows[v].tensor);
        uint64_t key = sb_rng_key(v, "flips");
        for (unsigned i = 0; i < 300; i++)
            folder_flip(t, t->size / 300 * i + sb_rng_below(key, 2 * i, 20),
                        1u << sb_rng_below(key, 2 * i + 1, 8));
        folder_result *r = folder_check(f, BF16, NULL);
        const sb_member *m = sb_member_plain(&r->check.self.units, &TENSOR[6]);
        assert_non_null(m);
        printf("%s: %u of 300 flips\n", rows[v].vehicle, (unsigned)m->seen->ints.far.count);
        assert_in_range(m->seen->ints.far.count, rows[v].least, 300);
        expect_finding(r, 38, SB_LEVEL_error, rows[v].tensor);
        folder_result_free(r);
        folder_free(f);
    }
}

/* Plants a fault, and expects a finding at `where`. */
static void expect_planted(const char *vehicle, const char *against, const char *text,
                           unsigned check, sb_level level, const char *where)
{
    folder *f = folder_of(vehicle);
    plant(f, text);
    folder_result *r = folder_check(f, against, NULL);
    expect_finding(r, check, level, where);
    folder_result_free(r);
    folder_free(f);
}

TEST(test_planted)
{
    /* the other convention, where no word shows the convention */
    expect_planted("golden/quant/gptq-asym", NULL, "nibbles-plus layers.1.mlp.up_proj.qzeros 1", 36,
                   SB_LEVEL_warn, "layers.1.mlp.up_proj");
    expect_planted("golden/quant/gptq-asym", "golden/quant/in/dense",
                   "nibbles-plus layers.1.mlp.up_proj.qzeros 1", 38, SB_LEVEL_error,
                   "layers.1.mlp.up_proj");
    /* all layers are one finding */
    expect_planted("T3 int4-gptq recipe=plain", NULL, "nibbles-plus .qzeros 1", 33, SB_LEVEL_fatal,
                   "");
    expect_planted("T3 int4-gptq recipe=plain", NULL, "flip " TENSOR ".qzeros 9 4", 33,
                   SB_LEVEL_fatal, TENSOR ".qzeros");
    expect_planted("golden/quant/ct-w4a16-asym", NULL,
                   "drop layers.1.mlp.up_proj.weight_zero_point", 33, SB_LEVEL_fatal,
                   "layers.1.mlp.up_proj");
    expect_planted("T3 int4-ct recipe=plain", NULL, "set " TENSOR ".weight_scale 7 inf", 34,
                   SB_LEVEL_fatal, TENSOR ".weight_scale");
    expect_planted("T3 int4-ct recipe=plain", NULL, "set " TENSOR ".weight_scale 7 -0.001", 34,
                   SB_LEVEL_error, TENSOR ".weight_scale");
    expect_planted("T3 int4-ct recipe=plain", NULL, "set " TENSOR ".weight_scale 7 1e20", 34,
                   SB_LEVEL_error, TENSOR ".weight_scale");
}

TEST(test_awq_as_v1)
{
    folder *f = folder_of("golden/quant/awq");
    folder_tensor *t = folder_find(f, "layers.1.mlp.up_proj.qzeros");
    memset(t->bytes, 0x77, (size_t)t->size);
    folder_result *r = folder_check(f, NULL, NULL);
    expect_finding(r, 33, SB_LEVEL_fatal, "layers.1.mlp.up_proj.qzeros");
    folder_result_free(r);
    folder_free(f);
}

/* V-38: "Integers whose mean is more than half a step off": AWQ's zero points less one in every
 * matrix. */
TEST(test_awq_less_one)
{
    folder *f = folder_of("T3 int4-awq recipe=plain");
    for (size_t i = 0; i < f->count; i++)
        if (strstr(f->tensors[i]->name, ".qzeros"))
            for (uint64_t k = 0; k < 2 * f->tensors[i]->size; k++) {
                unsigned zero = folder_nibble(f->tensors[i], k);
                folder_set_nibble(f->tensors[i], k, zero ? zero - 1 : 0);
            }
    folder_result *r = folder_check(f, BF16, NULL);
    expect_finding(r, 38, SB_LEVEL_error, TENSOR ".qweight");
    folder_result_free(r);
    folder_free(f);
}

/* Zero points of compressed-tensors are packed along the row dimension. A matrix of many rows is
 * read in parts, and each row keeps its own zero point. */
TEST(test_many_rows)
{
    enum { ROWS = 12008, COLS = 128 };
    const uint64_t codes[] = {ROWS, COLS / 8}, one[] = {ROWS, 1}, zeros[] = {ROWS / 8, 1},
                   all[] = {ROWS, COLS};
    folder *f = folder_of("golden/quant/ct-w4a16-asym"), *in = folder_of("golden/quant/in/dense");
    folder_tensor *c = folder_find(f, "layers.1.mlp.up_proj.weight_packed");
    folder_tensor *z = folder_find(f, "layers.1.mlp.up_proj.weight_zero_point");
    folder_tensor *s = folder_find(f, "layers.1.mlp.up_proj.weight_scale");
    folder_tensor *shape = folder_find(f, "layers.1.mlp.up_proj.weight_shape");
    folder_tensor *w = folder_find(in, "layers.1.mlp.up_proj.weight");
    folder_resize(c, 2, codes);
    folder_resize(z, 2, zeros);
    folder_resize(s, 2, one);
    folder_resize(w, 2, all);
    sb_store_u64(shape->bytes, ROWS);
    for (uint64_t n = 0; n < ROWS; n++) {
        unsigned zero = (unsigned)(5 + n % 8 + (n >> 12));
        folder_set(s, n, 0.0078125f);
        folder_set_nibble(z, n, zero & 15u);
        for (uint64_t k = 0; k < COLS; k++) {
            unsigned code = (unsigned)((n + k) % 16);
            folder_set_nibble(c, n * COLS + k, code);
            folder_set(w, n * COLS + k, ((float)code - (float)(zero & 15u)) * 0.0078125f);
        }
    }
    folder_result *r = folder_check(f, folder_write(in), NULL);
    const sb_member *m = sb_member_plain(&r->check.self.units, "layers.1.mlp.up_proj");
    assert_true(m && m->seen->has_distance && m->seen->distance.count == ROWS * COLS);
    assert_true(m->seen->distance.error2 == 0 && m->seen->ints.far.count == 0);
    folder_result_free(r);
    folder_free(f);
    folder_free(in);
}

/* Signed scales, as AutoRound writes them, in a file that claims to be GPTQModel's: accepted as
 * long as all layers have them. */
TEST(test_signed)
{
    folder_result *r = folder_check_made("T3 int4-gptq recipe=plain rule=signed-max", BF16, NULL);
    expect_none(r, 34);
    expect_none_above(r, SB_LEVEL_warn);
    folder_result_free(r);
}

/* Makes int4-ct's codes those of int-quantized: a signed byte each. */
static void to_bytes(folder *f)
{
    folder_drop_all(f, ".weight_shape");
    for (size_t i = 0; i < f->count; i++) {
        folder_tensor *t = f->tensors[i];
        size_t n = strlen(t->name);
        if (n < 14 || strcmp(t->name + n - 14, ".weight_packed") != 0)
            continue;
        uint64_t shape[2] = {t->shape[0], t->shape[1] * 8}, count = shape[0] * shape[1];
        int8_t *codes = malloc(count);
        assert_non_null(codes);
        for (uint64_t k = 0; k < count; k++)
            codes[k] = (int8_t)((int)folder_nibble(t, k) - 8);
        folder_retype(t, SB_DTYPE_I8);
        folder_resize(t, 2, shape);
        memcpy(t->bytes, codes, count);
        free(codes);
        t->name[n - 7] = '\0';
    }
    folder_replace(f, "config.json", "pack-quantized", "int-quantized");
}

/* V-36: "a byte for each code" - weights of W4AFP8, in groups: clean, and then with a code that
 * four bits do not have. */
TEST(test_bytes)
{
    folder *f = folder_of("T3 int4-ct recipe=plain");
    to_bytes(f);
    folder_result *r = folder_check(f, BF16, NULL);
    const sb_member *m = sb_member_plain(&r->check.self.units, &TENSOR[6]);
    assert_true(m && m->matrix.format == SB_FORMAT_int8 && m->matrix.quant.code_bits == 4);
    assert_true(m->seen->has_distance && m->seen->ints.far.count == 0);
    expect_none_above(r, SB_LEVEL_info);
    folder_result_free(r);
    folder_tensor *t = folder_find(f, TENSOR ".weight");
    t->bytes[1000] = 13;
    r = folder_check(f, NULL, NULL);
    expect_finding(r, 36, SB_LEVEL_error, TENSOR ".weight");
    folder_result_free(r);
    folder_free(f);
}

/* V-4: "codes of other widths" - six bits in words are refused by the name of the format, and no
 * other check reports them. */
TEST(test_six_bits)
{
    folder *f = folder_of("T3 int4-ct recipe=plain");
    for (size_t i = 0; i < f->count; i++) {
        folder_tensor *t = f->tensors[i];
        uint64_t shape[2] = {t->shape[0], t->shape[1] / 2 * 3};
        if (strstr(t->name, ".weight_packed"))
            folder_resize(t, 2, shape);
    }
    folder_result *r = folder_check(f, NULL, NULL); /* four bits are declared */
    expect_finding(r, 39, SB_LEVEL_fatal, TENSOR);
    folder_result_free(r);
    folder_replace(f, "config.json", "\"num_bits\": 4", "\"num_bits\": 6");
    r = folder_check(f, NULL, NULL);
    const sb_finding *finding = folder_finding(r, 4, SB_LEVEL_warn, NULL);
    assert_non_null(finding);
    assert_non_null(strstr(finding->message, "W6A16"));
    expect_only(r, 4, "");
    folder_result_free(r);
    folder_free(f);
}
