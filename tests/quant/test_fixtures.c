/* test_fixtures.c - checkpoints of the real quantizers: every weight as the library that wrote it
 * reads it, bit for bit, and every layer's output within its derived bound. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/hash.h"
#include "ref/fast/fast.h"
#include "ref/formats/format.h"
#include "ref/math/law.h"
#include "tests/quant/fixture.h"
#include "tools/judge/bound/bound.h"

/* Code 8 of E2M1 is -0, but ModelOpt's table of values has +0 there. */
static void drop_signs_of_zeros(const sb_matrix *m, float *row)
{
    int modelopt = m->quant.container == SB_CONTAINER_nvfp4_modelopt;
    for (uint32_t k = 0; modelopt && k < m->cols; k++)
        row[k] = row[k] == 0 ? 0.0f : row[k];
}

/* All values of a layer under a law, and rounded once more to a type. */
static float *dequantized(const sb_matrix *m, sb_law law, sb_format type)
{
    float *values = malloc((size_t)m->rows * m->cols * sizeof *values);
    double *wide = malloc(m->cols * sizeof *wide);
    assert_true(values && wide);
    for (uint32_t n = 0; n < m->rows; n++) {
        float *row = values + (size_t)n * m->cols;
        sb_law_row(m, n, law, wide, row);
        drop_signs_of_zeros(m, row);
        for (uint32_t k = 0; k < m->cols; k++)
            row[k] = sb_round_to(type, row[k]);
    }
    free(wide);
    return values;
}

/* D-1 of the values as the type has them. */
static sb_digest digest_of(const float *values, size_t count, sb_format type)
{
    size_t size = sb_format_bytes(type);
    unsigned char *bytes = malloc(count * size);
    sb_hash *hash = sb_hash_new();
    assert_true(bytes && hash);
    sb_encode(type, values, count, bytes);
    sb_hash_bytes(hash, bytes, count * size);
    sb_digest digest = sb_hash_end(hash);
    sb_hash_free(hash);
    free(bytes);
    return digest;
}

static sb_format type_named(const char *name)
{
    for (unsigned f = 0; f < SB_FORMAT_COUNT; f++)
        if (strcmp(sb_format_name((sb_format)f), name) == 0)
            return (sb_format)f;
    fail_msg("no type %s", name);
    return SB_FORMAT_COUNT;
}

/* The number of recorded digests of one module that hold under a law. */
static size_t digests_that_hold(const quant_fixture *f, const char *module, json_t *values,
                                sb_law law, sb_law narrow)
{
    sb_matrix m = quant_layer(f, module);
    size_t held = 0;
    for (size_t i = 0; i < json_array_size(values); i++) {
        json_t *value = json_array_get(values, i);
        json_t *shape = json_object_get(value, "shape");
        sb_format type = type_named(json_string_value(json_object_get(value, "dtype")));
        assert_int_equal(json_integer_value(json_array_get(shape, 0)), m.rows);
        assert_int_equal(json_integer_value(json_array_get(shape, 1)), m.cols);
        float *all = dequantized(&m, type == SB_FORMAT_f32 ? law : narrow, type);
        sb_digest digest = digest_of(all, (size_t)m.rows * m.cols, type);
        held += strcmp(digest.hex, json_string_value(json_object_get(value, "xxh3_128"))) == 0;
        free(all);
    }
    return held;
}

/* Every quantized module, in every type in which the library gives it. */
static void check_weights(const quant_fixture *f)
{
    const char *module;
    json_t *entry;
    size_t layers = 0, digests = 0, as_exact = 0, as_mo = 0;
    json_object_foreach(f->digests, module, entry)
    {
        json_t *values = json_object_get(entry, "values");
        size_t held = digests_that_hold(f, module, values, f->row->law, f->row->narrow);
        if (held != json_array_size(values) || held == 0)
            fail_msg("%s %s: %zu of %zu digests of the library hold", f->row->name, module, held,
                     json_array_size(values));
        as_exact += digests_that_hold(f, module, values, SB_LAW_exact, SB_LAW_exact);
        as_mo += digests_that_hold(f, module, values, SB_LAW_mo_mul, SB_LAW_mo_mul);
        digests += held;
        layers++;
    }
    printf("%-16s %3zu layers, %zu digests: all hold under %s, %zu under exact, %zu under mo_mul\n",
           f->row->name, layers, digests, sb_law_name(f->row->law), as_exact, as_mo);
    assert_true(layers >= 5);
    if (f->row->container == SB_CONTAINER_nvfp4_ct) /* another law would be seen */
        assert_true(as_exact < digests && as_mo < digests);
}

/* The same for the rows whose values are recorded: here a wrong digest can be traced to values. */
static void check_rows(const quant_fixture *f)
{
    const char *module;
    json_t *entry;
    size_t rows = 0;
    json_object_foreach(f->digests, module, entry)
    {
        sb_matrix m = quant_layer(f, module);
        double *wide = malloc(m.cols * sizeof *wide);
        float *got = malloc(m.cols * sizeof *got);
        assert_true(wide && got);
        for (int last = 0; last < 2; last++) {
            char name[512];
            size_t count = 0;
            snprintf(name, sizeof name, "row.%s.%s", module, last ? "last" : "first");
            float *want = quant_values(f, name, &count);
            if (!want || count != m.cols)
                fail_msg("%s: no row %s of %u values", f->row->name, name, (unsigned)m.cols);
            sb_law_row(&m, last ? m.rows - 1 : 0, f->row->law, wide, got);
            drop_signs_of_zeros(&m, got);
            for (size_t k = 0; k < count; k++)
                if (sb_bits_f32(got[k]) != sb_bits_f32(want[k]))
                    fail_msg("%s %s, column %zu: got %a, the library has %a", f->row->name, name, k,
                             (double)got[k], (double)want[k]);
            free(want);
            rows++;
        }
        free(wide);
        free(got);
    }
    assert_true(rows >= 10);
}

/* The results from the recorded inputs and outputs of layers. */
typedef struct forced_result {
    size_t layers, values, apart;
    double worst; /* |ours - theirs| in units of their common bound */
} forced_result;

/* One layer: our output for the inputs of the library's layer. */
static void check_layer(const quant_fixture *f, const char *module, const sb_matrix *m,
                        const float *in, size_t rows, const float *want, forced_result *r)
{
    size_t count = rows * m->rows;
    float *got = malloc(count * sizeof *got);
    sb_ball *ours = malloc(count * sizeof *ours), *theirs = malloc(count * sizeof *theirs);
    assert_true(got && ours && theirs);
    const sb_linear_args args = {.weight = m, .in = in, .rows = rows, .out = got};
    assert_int_equal(sb_linear_fast(&f->exact, &args), SB_OK);
    assert_int_equal(sb_bound_linear(&sb_arithmetic_reference, &f->exact, &args, ours, NULL),
                     SB_OK);
    assert_int_equal(sb_bound_linear(&sb_arithmetic_library, &f->theirs, &args, theirs, NULL),
                     SB_OK);
    for (size_t i = 0; i < count; i++) {
        double distance = sb_ball_distance(ours[i], theirs[i]) * SB_BOUND_SLACK;
        double error = (double)got[i] - (double)want[i];
        error = error < 0 ? -error : error;
        r->apart += error > 0;
        if (error > distance)
            fail_msg("%s %s, row %zu, column %zu: %a, the library has %a; they may differ by %a",
                     f->row->name, module, i / m->rows, i % m->rows, (double)got[i],
                     (double)want[i], distance);
        if (distance > 0 && error / distance > r->worst)
            r->worst = error / distance;
    }
    r->layers++;
    r->values += count;
    free(got);
    free(ours);
    free(theirs);
}

static void check_layers(const quant_fixture *f)
{
    const char *module;
    json_t *entry;
    forced_result r = {0};
    json_object_foreach(f->digests, module, entry)
    {
        char name[512];
        size_t in_count = 0, out_count = 0;
        snprintf(name, sizeof name, "linear.%s.in", module);
        float *in = quant_values(f, name, &in_count);
        snprintf(name, sizeof name, "linear.%s.out", module);
        float *out = quant_values(f, name, &out_count);
        if (in && out) {
            sb_matrix m = quant_layer(f, module);
            size_t rows = in_count / m.cols;
            assert_int_equal(rows * m.rows, out_count);
            check_layer(f, module, &m, in, rows, out, &r);
        }
        free(in);
        free(out);
    }
    printf("%-16s %3zu layers, %6zu outputs, %zu differ; worst error %.3f of the bound\n",
           f->row->name, r.layers, r.values, r.apart, r.worst);
    assert_true(r.layers >= 5);
    assert_true(r.apart == 0 || r.worst > 0x1p-13); /* T-16: errors come near to the bound */
}

typedef void (*fixture_check)(const quant_fixture *fixture);

static void each(fixture_check check)
{
    for (size_t i = 0; quant_row_at(i); i++) {
        quant_fixture f;
        quant_fixture_open(quant_row_at(i), &f);
        check(&f);
        quant_fixture_close(&f);
    }
}

TEST(test_weights_equal_the_library)
{
    each(check_weights);
}

TEST(test_rows_equal_the_library)
{
    each(check_rows);
}

TEST(test_layers_lie_in_their_bounds)
{
    each(check_layers);
}
