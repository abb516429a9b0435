/* test_rounded.c - weights rounded by a law and then to a type: with an input they give the bits of
 * exact.h for the values of law.h (Q-8, K-2, K-17), with every kernel set, for every container. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/rng.h"
#include "ref/formats/format.h"
#include "ref/formats/round.h"
#include "ref/fast/dot/dot.h"
#include "ref/fast/dot/rounded.h"
#include "tests/lib/check_all.h"
#include "tests/lib/quant_layer.h"

enum { INPUTS = 7, ROWS = 19 };

static const sb_format types[] = {SB_FORMAT_f32, SB_FORMAT_bf16, SB_FORMAT_f16};
enum { TYPES = sizeof types / sizeof *types };

/* A layer, its inputs, and memory for outputs. */
typedef struct layer {
    sb_matrix m;
    float *values, *in, *out, *expected;
    double *wide, *x;
} layer;

static void *room_of(size_t count, size_t size)
{
    void *room = malloc(count * size + 1);
    assert_non_null(room);
    return room;
}

static layer open_layer(const sb_matrix *m)
{
    const size_t values = (size_t)INPUTS * m->cols, outputs = (size_t)INPUTS * m->rows;
    layer l = {*m,
               room_of(m->cols, sizeof(float)),
               room_of(values, sizeof(float)),
               room_of(outputs, sizeof(float)),
               room_of(outputs, sizeof(float)),
               room_of(m->cols, sizeof(double)),
               room_of(values, sizeof(double))};
    for (size_t i = 0; i < values; i++) {
        l.in[i] = (float)((int)sb_rng_below(sb_rng_key(3, "in"), i, 2001) - 1000) * 0x1p-9f;
        l.x[i] = (double)l.in[i];
    }
    return l;
}

static void close_layer(layer *l)
{
    free(l->values);
    free(l->in);
    free(l->out);
    free(l->expected);
    free(l->wide);
    free(l->x);
}

/* The expected outputs: value by value, and an exact sum. */
static void expect(layer *l, const sb_rounding *how)
{
    for (uint32_t n = 0; n < l->m.rows; n++) {
        sb_law_row(&l->m, n, how->law, l->wide, l->values);
        sb_round_many(how->format, l->values, l->m.cols, l->values);
        for (size_t t = 0; t < INPUTS; t++)
            l->expected[t * l->m.rows + n] =
                sb_exact_dot(l->values, 1, l->in + t * l->m.cols, 1, l->m.cols);
    }
}

/* One input, and several. Returns 0 and sets `what` if a bit differs. */
static int alike(layer *l, const sb_rounding *how, char what[160])
{
    for (size_t count = 1; count <= INPUTS; count += INPUTS - 1) {
        const size_t outputs = count * l->m.rows;
        assert_int_equal(sb_dot_rounded(&l->m, how, l->x, count, l->out), SB_OK);
        for (size_t i = 0; i < outputs; i++)
            if (sb_bits_f32(l->out[i]) != sb_bits_f32(l->expected[i])) {
                snprintf(what, 160, "%s, law %s, format %d, %zu inputs: output %zu is %a, not %a",
                         sb_dot_selected(), sb_law_name(how->law), (int)how->format, count, i,
                         (double)l->out[i], (double)l->expected[i]);
                return 0;
            }
    }
    return 1;
}

static void check_matrix(const sb_matrix *m, const char *of)
{
    char what[160];
    sb_matrix first = *m;
    first.rows = m->rows < ROWS ? m->rows : ROWS;
    layer l = open_layer(&first);
    for (unsigned law = 0; law < SB_LAW_COUNT; law++)
        for (unsigned f = check_few() ? 1 : 0; f < (check_few() ? 2 : TYPES); f++) {
            const sb_rounding how = {(sb_law)law, types[f]};
            expect(&l, &how);
            for (size_t s = 0; sb_dot_set(s); s++) {
                assert_int_equal(sb_dot_select(sb_dot_set(s)->name, NULL), SB_OK);
                if (!alike(&l, &how, what))
                    fail_msg("%s: %s", of, what);
            }
        }
    assert_int_equal(sb_dot_select("auto", NULL), SB_OK);
    close_layer(&l);
}

TEST(test_every_variant)
{
    size_t count;
    const quant_spec *s = quant_variants(&count);
    for (size_t i = 0; i < count; i++) {
        quant_layer l = quant_layer_draw(&s[i], 8);
        sb_checkpoint *checkpoint;
        sb_found found;
        quant_find(&l, "test_rounded", &checkpoint, &found);
        check_matrix(&found.matrix, quant_spec_text(&s[i]));
        sb_checkpoint_close(checkpoint);
        quant_layer_free(&l);
    }
}

/* 256 rows, one for each 8-bit scale, with all 16 codes of four bits, or all 256 codes of eight
 * bits. With an input that is 1 in one place the output is the value there. */
static sb_matrix codes_of(sb_format format, sb_format scale, unsigned char *codes,
                          unsigned char *scales)
{
    const int narrow = sb_format_bits(format) == 4;
    const uint32_t each = narrow ? 16 : 256;
    for (unsigned s = 0; s < 256; s++)
        scales[s] = (unsigned char)s;
    for (unsigned i = 0; i < 256 * each * (narrow ? 4 : 8) / 8; i++)
        codes[i] = (unsigned char)(narrow ? (2 * i % 16) | (2 * i % 16 + 1) << 4 : i);
    return (sb_matrix){.data = codes,
                       .format = format,
                       .rows = 256,
                       .cols = each,
                       .quant = {.scales = scales,
                                 .scale_format = scale,
                                 .block_rows = 1,
                                 .block_cols = each,
                                 .scale_row = 1,
                                 .scale_col = 1,
                                 .groups = 1,
                                 .stored_rows = 256}};
}

static const sb_factor factors[] = {{SB_NO_FACTOR, 0},          {SB_DIVISOR, 7399.2f},
                                    {SB_MULTIPLIER, 1.35e-4f},  {SB_MULTIPLIER, 0x1p120f},
                                    {SB_MULTIPLIER, 0x1p-130f}, {SB_DIVISOR, 0x1.8p126f}};

/* Each value alone, also those that overflow, are NaN or are subnormal. */
static void check_values(const sb_matrix *m, const sb_rounding *how)
{
    float values[256], *out = room_of(256, sizeof *out);
    double wide[256], x[256];
    for (uint32_t k = 0; k<m->cols; k += m->cols> 16 ? 5 : 1) {
        for (uint32_t i = 0; i < m->cols; i++)
            x[i] = i == k;
        assert_int_equal(sb_dot_rounded(m, how, x, 1, out), SB_OK);
        for (uint32_t n = 0; n < m->rows; n++) {
            float in[256];
            for (uint32_t i = 0; i < m->cols; i++)
                in[i] = (float)x[i];
            sb_law_row(m, n, how->law, wide, values);
            sb_round_many(how->format, values, m->cols, values);
            const float expected = sb_exact_dot(values, 1, in, 1, m->cols);
            if (sb_bits_f32(out[n]) != sb_bits_f32(expected))
                fail_msg("%s, law %s, format %d, factor %a: code %u under scale %u is %a, not %a",
                         sb_dot_selected(), sb_law_name(how->law), (int)how->format,
                         (double)m->quant.factor.value, k, n, (double)out[n], (double)expected);
        }
    }
    free(out);
}

TEST(test_every_code)
{
    static unsigned char codes[256 * 256], scales[256];
    static const sb_format kinds[][2] = {{SB_FORMAT_e2m1, SB_FORMAT_e4m3},
                                         {SB_FORMAT_e2m1, SB_FORMAT_e8m0},
                                         {SB_FORMAT_e4m3, SB_FORMAT_e8m0}};
    for (unsigned k = 0; k < 3; k++)
        for (unsigned i = 0; i < sizeof factors / sizeof *factors; i++) {
            sb_matrix m = codes_of(kinds[k][0], kinds[k][1], codes, scales);
            m.quant.factor = factors[i];
            for (unsigned f = 0; f < 2; f++)
                check_values(&m, &(sb_rounding){SB_LAW_ct_div, types[f]});
            check_values(&m, &(sb_rounding){SB_LAW_bf16_scale, SB_FORMAT_bf16});
        }
}

/* Every failed allocation is reported. */
TEST(test_memory)
{
    static unsigned char codes[256 * 256], scales[256];
    const sb_matrix m = codes_of(SB_FORMAT_e2m1, SB_FORMAT_e4m3, codes, scales);
    const sb_rounding how = {SB_LAW_ct_div, SB_FORMAT_bf16};
    const double x[16] = {1};
    float out[256];
    unsigned long failed = 0;
    for (unsigned long n = 1;; n++) {
        sb_alloc_fail_at(n);
        const sb_status status = sb_dot_rounded(&m, &how, x, 1, out);
        sb_alloc_fail_at(0);
        if (!status)
            break;
        assert_int_equal(status, SB_ERR_MEMORY);
        failed++;
    }
    assert_true(failed >= 4);
}
