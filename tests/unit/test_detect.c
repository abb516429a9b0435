/* test_detect.c - every container in every form: what sb_detect finds, and the exact rows. Q-1,
 * */
#include "tests/lib/suite.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/formats/format.h"
#include "ref/formats/wide.h"
#include "tests/lib/quant_layer.h"

static sb_checkpoint *save_and_open(const test_folder *folder)
{
    return quant_open(folder, "test_detect");
}

/* Equal bits in value and sign, or both NaN. */
static int same(double a, double b)
{
    return (a != a && b != b) || sb_bits_f64(a) == sb_bits_f64(b);
}

static void check_factor(const quant_spec *s, const sb_factor *found, const sb_factor *drawn)
{
    if (found->kind != drawn->kind || sb_bits_f32(found->value) != sb_bits_f32(drawn->value))
        fail_msg("%s: factor %d of %a, expected %d of %a", quant_spec_text(s), (int)found->kind,
                 (double)found->value, (int)drawn->kind, (double)drawn->value);
}

static void check_rows(const quant_layer *l, const sb_matrix *m, uint32_t e)
{
    const quant_spec *s = &l->spec;
    double *wide = malloc(s->cols * sizeof *wide);
    assert_non_null(wide);
    for (uint32_t n = 0; n < s->rows; n++) {
        size_t first = ((size_t)e * s->rows + n) * s->cols;
        memset(wide, 0x55, s->cols * sizeof *wide);
        sb_matrix_wide(m, n, wide);
        for (uint32_t k = 0; k < s->cols; k++) {
            double expected = (double)l->code[first + k] * l->scale[first + k];
            if (!same(wide[k], expected))
                fail_msg("%s: expert %u, row %u, column %u: %a, expected %a", quant_spec_text(s), e,
                         n, k, wide[k], expected);
        }
    }
    free(wide);
}

static void check_found(const quant_layer *l, sb_found *found)
{
    const quant_spec *s = &l->spec;
    sb_quant *q = &found->matrix.quant;
    if (found->container != l->container)
        fail_msg("%s: found as %s", quant_spec_text(s), sb_container_name(found->container));
    assert_int_equal(q->container, l->container);
    assert_int_equal(found->matrix.rows, s->rows);
    assert_int_equal(found->matrix.cols, s->cols);
    assert_int_equal(found->experts, s->experts);
    assert_int_equal(q->block_rows, s->block[0]);
    assert_int_equal(q->block_cols, s->block[1]);
    int open = s->container == SB_CONTAINER_int_gptq && s->asymmetric;
    assert_int_equal(found->zeros_open, open);
    if (open && s->v2) { /* only a declaration tells v2 */
        assert_int_equal(q->zeros, SB_ZEROS_gptq_v1);
        q->zeros = SB_ZEROS_gptq_v2;
    }
    assert_int_equal(q->zeros, l->zeros);
    assert_int_equal(q->group_index != NULL, s->index == INDEX_ANY && q->groups > 1);
}

static void check_variant(const quant_spec *s, uint64_t seed)
{
    quant_layer l = quant_layer_draw(s, seed);
    sb_checkpoint *checkpoint = save_and_open(&l.folder);
    sb_error err = {""};
    for (int expected = 0; expected < 2; expected++) {
        sb_found found;
        if (sb_detect(checkpoint, QUANT_NAME, s->experts, expected ? s->rows : 0,
                      expected ? s->cols : 0, &found, &err))
            fail_msg("%s: %s", quant_spec_text(s), err.text);
        check_found(&l, &found);
        check_factor(s, &found.matrix.quant.factor, &l.factor[0]);
        check_factor(s, &found.matrix.quant.input, &l.input[0]);
        check_rows(&l, &found.matrix, 0);
        for (uint32_t e = 0; e < s->experts; e++) {
            sb_matrix m;
            if (sb_found_expert(checkpoint, &found, e, &m, &err))
                fail_msg("%s: %s", quant_spec_text(s), err.text);
            check_factor(s, &m.quant.factor, &l.factor[e]);
            check_factor(s, &m.quant.input, &l.input[e]);
            check_rows(&l, &m, e);
        }
        size_t parts = 0;
        for (unsigned part = 0; part < SB_PART_COUNT; part++)
            parts += found.part[part] != NULL;
        assert_int_equal(parts, l.folder.count);
    }
    sb_checkpoint_close(checkpoint);
    quant_layer_free(&l);
}

TEST(test_every_variant)
{
    size_t count, seen[SB_CONTAINER_COUNT] = {0};
    const quant_spec *s = quant_variants(&count);
    for (size_t i = 0; i < count; i++) {
        check_variant(&s[i], 7);
        seen[s[i].container]++;
    }
    for (unsigned c = 0; c < SB_CONTAINER_COUNT; c++)
        if (c != SB_CONTAINER_plain && seen[c] == 0)
            fail_msg("no variant is %s", sb_container_name((sb_container)c));
}

/* A plain layer and a plain stack, under each of their names. */
TEST(test_plain)
{
    static const sb_dtype dtypes[] = {SB_DTYPE_BF16, SB_DTYPE_F16, SB_DTYPE_F32};
    static const uint64_t shape[3] = {3, 4, 6};
    for (unsigned i = 0; i < 9; i++) {
        quant_spec s = {.experts = i / 3 ? 3 : 0, .names = i / 3 == 2 ? NAMES_LOW : NAMES_DOT};
        test_folder f = {.config = calloc(3, 1)};
        test_tensor *t = test_folder_add(&f, quant_part_name(&s, "weight"), dtypes[i % 3],
                                         s.experts ? 3 : 2, shape + !s.experts);
        for (uint32_t k = 0; k < t->size; k++)
            t->bytes[k] = (unsigned char)(k % 100);
        sb_checkpoint *checkpoint = save_and_open(&f);
        sb_found found;
        sb_error err = {""};
        for (int expected = 0; expected < 2; expected++) {
            if (sb_detect(checkpoint, QUANT_NAME, s.experts, expected ? 4 : 0, expected ? 6 : 0,
                          &found, &err))
                fail_msg("%s", err.text);
            assert_int_equal(found.container, SB_CONTAINER_plain);
            assert_false(sb_matrix_quantized(&found.matrix));
            for (uint32_t e = 0; e < (s.experts ? 3 : 1); e++) {
                sb_matrix m = found.matrix;
                double wide[6];
                float values[4 * 6];
                if (s.experts)
                    assert_int_equal(sb_found_expert(checkpoint, &found, e, &m, &err), SB_OK);
                sb_decode(m.format, t->bytes + e * t->size / 3, 24, values);
                for (uint32_t n = 0; n < 4; n++) {
                    sb_matrix_wide(&m, n, wide);
                    for (uint32_t k = 0; k < 6; k++)
                        assert_true(same(wide[k], values[n * 6 + k]));
                }
            }
        }
        sb_checkpoint_close(checkpoint);
        test_folder_free(&f);
    }
}

static const float vector[8] = {-8, -1, 0, 1, 7, 3, -4, -7};

/* One layer of 8 x 8 made of a published word: the values above, in the integer layout of GPTQ or
 * of AWQ. */
static void check_words(int gptq, uint32_t word, uint32_t zeros)
{
    test_folder f = {.config = calloc(3, 1)};
    test_tensor *t = test_folder_add(&f, QUANT_NAME ".qweight", SB_DTYPE_I32, 2,
                                     gptq ? (uint64_t[2]){1, 8} : (uint64_t[2]){8, 1});
    for (unsigned i = 0; i < 8; i++)
        sb_store_u32(t->bytes + 4 * i, word);
    t = test_folder_add(&f, QUANT_NAME ".qzeros", SB_DTYPE_I32, 2, (uint64_t[2]){1, 1});
    sb_store_u32(t->bytes, zeros);
    t = test_folder_add(&f, QUANT_NAME ".scales", SB_DTYPE_F16, 2, (uint64_t[2]){1, 8});
    for (unsigned i = 0; i < 8; i++)
        sb_store_u16(t->bytes + 2 * i, 0x3c00);
    sb_checkpoint *checkpoint = save_and_open(&f);
    sb_found found;
    sb_error err = {""};
    if (sb_detect(checkpoint, QUANT_NAME, 0, 8, 8, &found, &err))
        fail_msg("%s", err.text);
    assert_int_equal(found.container, gptq ? SB_CONTAINER_int_gptq : SB_CONTAINER_int_awq);
    assert_false(found.zeros_open);
    for (uint32_t n = 0; n < 8; n++) {
        double wide[8];
        sb_matrix_wide(&found.matrix, n, wide);
        for (uint32_t k = 0; k < 8; k++)
            assert_true(wide[k] == (double)vector[gptq ? k : n]);
    }
    sb_checkpoint_close(checkpoint);
    test_folder_free(&f);
}

TEST(test_words)
{
    check_words(1, 0x14BF9870, 0x77777777);
    check_words(1, 0x14BF9870, 0x88888888);
    check_words(0, 0x1B974F80, 0x88888888);
}

/* The borrow of v1: the zero points 0, 3, 0, 15, 0, 0, 1, 0 are stored as their word minus
 * 0x11111111. */
TEST(test_borrow)
{
    static const uint32_t zero[8] = {0, 3, 0, 15, 0, 0, 1, 0};
    quant_spec s = {.container = SB_CONTAINER_int_gptq,
                    .rows = 8,
                    .cols = 8,
                    .bits = 4,
                    .block = {1, 8},
                    .scale = SB_DTYPE_F32,
                    .asymmetric = 1};
    quant_layer l = quant_layer_draw(&s, 1);
    memset(test_folder_find(&l.folder, quant_part_name(&s, "qweight"))->bytes, 0, 32);
    for (unsigned i = 0; i < 8; i++)
        sb_store_u32(test_folder_find(&l.folder, quant_part_name(&s, "scales"))->bytes + 4 * i,
                     0x3f800000);
    sb_store_u32(test_folder_find(&l.folder, quant_part_name(&s, "qzeros"))->bytes,
                 0x0100f030u - 0x11111111u);
    sb_checkpoint *checkpoint = save_and_open(&l.folder);
    sb_found found;
    assert_int_equal(sb_detect(checkpoint, QUANT_NAME, 0, 8, 8, &found, NULL), SB_OK);
    for (uint32_t n = 0; n < 8; n++) {
        double wide[8];
        sb_matrix_wide(&found.matrix, n, wide);
        assert_true(wide[5] == -(double)zero[n]);
    }
    sb_checkpoint_close(checkpoint);
    quant_layer_free(&l);
}

/* Views through first_row and a row map read the same stored rows, and parts of rows the same
 * columns. */
TEST(test_views)
{
    static const uint32_t map[5] = {4, 0, 7, 7, 2};
    size_t count;
    const quant_spec *s = quant_variants(&count);
    for (size_t i = 0; i < count; i++) {
        if (s[i].experts || s[i].rows < 10)
            continue;
        quant_layer l = quant_layer_draw(&s[i], 9);
        sb_checkpoint *checkpoint = save_and_open(&l.folder);
        sb_found found;
        sb_error err = {""};
        if (sb_detect(checkpoint, QUANT_NAME, 0, 0, 0, &found, &err))
            fail_msg("%s", err.text);
        if (found.zeros_open && s[i].v2)
            found.matrix.quant.zeros = SB_ZEROS_gptq_v2;
        sb_matrix view = found.matrix;
        double *wide = malloc(s[i].cols * sizeof *wide);
        float *piece = malloc(s[i].cols * sizeof *piece);
        view.first_row = 2;
        for (unsigned mapped = 0; mapped < 2; mapped++) {
            view.row_map = mapped ? map : NULL;
            view.rows = 5;
            for (uint32_t n = 0; n < 5; n++) {
                size_t first = (2 + (size_t)(mapped ? map[n] : n)) * s[i].cols;
                sb_matrix_wide(&view, n, wide);
                sb_matrix_codes(&view, n, 3, s[i].cols - 4, piece);
                for (uint32_t k = 0; k < s[i].cols; k++) {
                    double expected = (double)l.code[first + k] * l.scale[first + k];
                    assert_true(same(wide[k], expected));
                    assert_true(same(sb_matrix_scale(&view, n, k), l.scale[first + k]));
                    if (k >= 3 && k < s[i].cols - 1)
                        assert_true(same(piece[k - 3], l.code[first + k]));
                    uint32_t run = sb_matrix_run(&view, k);
                    assert_true(run >= 1 && run <= s[i].cols - k);
                }
            }
        }
        free(wide);
        free(piece);
        sb_checkpoint_close(checkpoint);
        quant_layer_free(&l);
    }
}

TEST(test_nothing_there)
{
    test_folder f = {.config = calloc(3, 1)};
    test_folder_add(&f, QUANT_NAME "x.weight", SB_DTYPE_U8, 0, NULL);
    sb_checkpoint *checkpoint = save_and_open(&f);
    sb_found found;
    assert_int_equal(sb_detect(checkpoint, QUANT_NAME, 0, 4, 6, &found, NULL), SB_OK);
    assert_int_equal(found.container, SB_CONTAINER_COUNT);
    sb_checkpoint_close(checkpoint);
    test_folder_free(&f);
}

TEST(test_layer_of)
{
    static const struct {
        const char *tensor, *layer;
    } cases[] = {{"a.q_proj.weight", "a.q_proj"},
                 {"a.weight_scale", "a"},
                 {"a.weight_scale_inv", "a"},
                 {"a.weight_scale_2", "a"},
                 {"a.weight.weight_packed", "a.weight"},
                 {"a.g_idx", "a"},
                 {"a.pre_quant_scale", "a"},
                 {"weight", NULL},
                 {".weight", NULL},
                 {"a_weight", NULL},
                 {"a.weights", NULL},
                 {"a.bias", NULL},
                 {"", NULL},
                 {"abcdefghijklmno.weight", "abcdefghijklmno"},
                 {"abcdefghijklmnop.weight", NULL}};
    char layer[16];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(sb_layer_of(cases[i].tensor, layer, sizeof layer), cases[i].layer != NULL);
        if (cases[i].layer)
            assert_string_equal(layer, cases[i].layer);
    }
}
