/* test_loaded.c - recognizes the law, the rounding and the mistake of a simulated engine.
 * tests/cli/check_loaded.sh has the lists of real engines. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/digest.h"
#include "ref/formats/format.h"
#include "ref/math/law.h"
#include "tests/check/folder.h"
#include "tools/check/loaded/loaded.h"

typedef struct engine {
    sb_law law;
    sb_format to;
    int raw;         /* holds every tensor as it is stored */
    const char *bad; /* part of the name of the one parameter that is made wrong */
    float (*mistake)(float);
    int layers; /* only quantized layers are made wrong */
} engine;

typedef struct text {
    char *at;
    size_t size;
    FILE *out;
    size_t entries;
} text;

static void list_begin(text *t)
{
    t->out = open_memstream(&t->at, &t->size);
    assert_non_null(t->out);
    fputs("{\"format\": \"samebit-loaded 1\", \"program\": \"a test\", \"parameters\": [", t->out);
}

static void add_values(text *t, const char *name, const char *end, const float *values,
                       uint64_t rows, uint64_t cols, sb_format to)
{
    double sum2 = 0, largest = 0;
    for (uint64_t i = 0; i < rows * cols; i++) {
        double x = (double)values[i];
        sum2 += x * x;
        largest = x > largest ? x : -x > largest ? -x : largest;
    }
    double square = sum2 / (double)(rows * cols), rms = largest;
    for (int i = 0; i < 60 && rms > 0; i++) /* Newton's method, without libm */
        rms = (rms + square / rms) / 2;
    fprintf(t->out,
            "%s{\"name\": \"%s%s\", \"shape\": [%llu, %llu], \"dtype\": \"%s\", \"digest\": "
            "\"%s\", \"rms\": %.17g, \"max\": %.17g}",
            t->entries++ ? ",\n" : "\n", name, end, (unsigned long long)rows,
            (unsigned long long)cols, sb_format_name(to),
            sb_digest_f32(values, (size_t)(rows * cols)).hex, rms, largest);
}

static void spoil(const engine *e, const char *name, float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (e->bad && strstr(name, e->bad))
            values[i] = e->mistake(values[i]);
        values[i] = sb_round_to(e->to, values[i]);
    }
}

static void add_member(text *t, const engine *e, const sb_member *m)
{
    size_t cols = m->matrix.cols, count = m->matrix.rows * cols;
    float *values = calloc(count, sizeof *values);
    double *wide = calloc(cols, sizeof *wide);
    assert_true(values && wide);
    for (uint32_t row = 0; row < m->matrix.rows; row++)
        sb_law_row(&m->matrix, row, e->law, wide, values + row * cols);
    engine of = *e;
    if (e->layers && !sb_matrix_quantized(&m->matrix))
        of.bad = NULL;
    spoil(&of, m->name, values, count);
    add_values(t, m->name, ".weight", values, m->matrix.rows, cols, e->to);
    free(values);
    free(wide);
}

static void add_single(text *t, const engine *e, const sb_tensor *tensor)
{
    if (tensor->dtype != SB_DTYPE_BF16 && tensor->dtype != SB_DTYPE_F32)
        return;
    sb_format format = tensor->dtype == SB_DTYPE_F32 ? SB_FORMAT_f32 : SB_FORMAT_bf16;
    size_t count = (size_t)tensor->bytes / sb_format_bytes(format);
    float *values = calloc(count, sizeof *values);
    assert_non_null(values);
    sb_decode(format, tensor->data, count, values);
    engine of = *e;
    if (e->layers)
        of.bad = NULL;
    spoil(&of, tensor->name, values, count);
    add_values(t, tensor->name, "", values, 1, count, e->to);
    free(values);
}

static void add_raw(text *t, const sb_tensor *tensor)
{
    sb_digest digest;
    sb_shape_text shape;
    if (sb_dtype_bits(tensor->dtype) > 8 && strncmp(sb_dtype_name(tensor->dtype), "I", 1) != 0)
        return; /* floats are added as values */
    assert_int_equal(sb_tensor_digest(tensor, &digest, NULL), SB_OK);
    fprintf(t->out, "%s{\"name\": \"%s\", \"shape\": %s, \"dtype\": \"%s\", \"digest\": \"%s\"}",
            t->entries++ ? ",\n" : "\n", tensor->name, sb_shape_show(tensor, &shape),
            sb_dtype_name(tensor->dtype), digest.hex);
}

static void fill(text *t, const engine *e, const sb_check *check)
{
    const sb_units *u = &check->self.units;
    size_t n = e->raw ? sb_checkpoint_count(check->self.checkpoint) : 0;
    for (size_t i = 0; i < n; i++)
        add_raw(t, sb_checkpoint_at(check->self.checkpoint, i));
    for (size_t i = 0; i < u->member_count; i++)
        if (!e->raw || u->members[i].matrix.quant.scales == NULL)
            add_member(t, e, &u->members[i]);
    for (size_t i = 0; i < u->count; i++)
        if (u->rows[i].tensor && !(e->raw && u->rows[i].tensor->dtype == SB_DTYPE_I64))
            add_single(t, e, u->rows[i].tensor);
}

/* The result for an engine, with its list. */
typedef struct finding {
    folder_result *checked;
    sb_loaded_list list;
    sb_loaded loaded;
} finding;

static finding compare(const char *vehicle, const engine *e)
{
    sb_check_options options = {.headers_only = 1};
    finding f = {.checked = folder_check_made(vehicle, NULL, &options)};
    sb_error err = {""};
    text t = {0};
    list_begin(&t);
    fill(&t, e, &f.checked->check);
    fputs("]}", t.out);
    assert_int_equal(fclose(t.out), 0);
    if (sb_loaded_parse(t.at, t.size, "list", &f.list, &err) ||
        sb_loaded_compare(&f.checked->check, &f.list, "list", NULL, &f.loaded, &err))
        fail_msg("%s: %s", vehicle, err.text);
    free(t.at);
    return f;
}

static void release(finding *f)
{
    sb_loaded_result_free(&f->loaded);
    sb_loaded_free(&f->list);
    folder_result_free(f->checked);
}

static void print(const finding *f)
{
    for (size_t i = 0; i < f->loaded.count; i++)
        if (f->loaded.rows[i].verdict != SB_LOADED_ok)
            fprintf(stderr, "%s %s: %s\n", sb_loaded_name(f->loaded.rows[i].verdict),
                    f->loaded.rows[i].name, f->loaded.rows[i].message);
}

static const sb_loaded_row *row_of(const finding *f, const char *part)
{
    for (size_t i = 0; i < f->loaded.count; i++)
        if (strstr(f->loaded.rows[i].name, part))
            return &f->loaded.rows[i];
    fail_msg("nothing of %s", part);
    return NULL;
}

/* Under every law that gives weights, in every format, all parameters are OK. */
TEST(test_laws)
{
    static const char *const vehicles[] = {"T4 nvfp4-ct layers=4",  "T4 nvfp4-modelopt layers=4",
                                           "T4 fp8-block layers=4", "T4 int4-gptq layers=4",
                                           "T4 mxfp4 layers=4",     "T3 nvfp4-ct layers=4"};
    static const sb_law laws[] = {SB_LAW_exact, SB_LAW_mo_mul, SB_LAW_ct_div, SB_LAW_ct_rcp,
                                  SB_LAW_bf16_scale};
    for (size_t v = 0; v < sizeof vehicles / sizeof *vehicles; v++)
        for (size_t law = 0; law < sizeof laws / sizeof *laws; law++) {
            engine e = {.law = laws[law], .to = (v + law) % 2 ? SB_FORMAT_bf16 : SB_FORMAT_f32};
            finding f = compare(vehicles[v], &e);
            if (sb_loaded_bad(&f.loaded)) {
                print(&f);
                fail_msg("%s under %s", vehicles[v], sb_law_name(laws[law]));
            }
            assert_int_equal(f.loaded.counts[SB_LOADED_ok], f.list.count);
            release(&f);
        }
}

/* In F32 two laws give different values, and the right law is named. (For a divisor mo_mul and
 * ct_rcp are the same.) */
TEST(test_law_named)
{
    engine e = {.law = SB_LAW_mo_mul, .to = SB_FORMAT_f32};
    finding f = compare("T4 nvfp4-ct layers=4", &e);
    size_t named = 0;
    for (size_t i = 0; i < f.loaded.count; i++)
        named += f.loaded.rows[i].law && strcmp(f.loaded.rows[i].law, "mo_mul") == 0;
    assert_true(named > 0);
    release(&f);
}

/* All tensors as they are stored: the quantized ones by their bytes. */
TEST(test_raw)
{
    engine e = {.law = SB_LAW_exact, .to = SB_FORMAT_bf16, .raw = 1};
    finding f = compare("T4 mxfp4 layers=4", &e);
    if (sb_loaded_bad(&f.loaded)) {
        print(&f);
        fail_msg("stored bytes are not found again");
    }
    release(&f);
}

static float twice(float x)
{
    return 2 * x;
}

static float minus(float x)
{
    return -x;
}

static float plus_one(float x)
{
    return x + 1;
}

static float zero(float x)
{
    (void)x;
    return 0;
}

static float through_bf16(float x)
{
    return sb_round_to(SB_FORMAT_bf16, x);
}

static float nearly(float x)
{
    return x < 0.01f ? x : x + 0.001f;
}

static float one_zero(float x)
{
    return x == 0 ? 0.0f : x;
}

/* ModelOpt's own dequantization has no -0: that is right in its layout, and in no other. */
TEST(test_one_zero)
{
    static const char *const vehicles[] = {"T4 nvfp4-modelopt layers=4", "T4 nvfp4-ct layers=4"};
    for (size_t v = 0; v < 2; v++)
        for (int to_bf16 = 0; to_bf16 < 2; to_bf16++) {
            engine e = {.law = SB_LAW_mo_mul,
                        .to = to_bf16 ? SB_FORMAT_bf16 : SB_FORMAT_f32,
                        .bad = "",
                        .layers = 1,
                        .mistake = one_zero};
            finding f = compare(vehicles[v], &e);
            size_t told = 0;
            for (size_t i = 0; i < f.loaded.count; i++)
                told += f.loaded.rows[i].one_zero &&
                        strstr(f.loaded.rows[i].message, "signs of zeros") != NULL;
            if (sb_loaded_bad(&f.loaded) != (int)v) {
                print(&f);
                fail_msg("%s without -0", vehicles[v]);
            }
            assert_int_equal(told > 0, !v);
            release(&f);
        }
}

/* Expects the verdict and the message of one mistake in one parameter; nothing else is blamed. */
static void mistake_is(const char *vehicle, sb_law law, sb_format to, float (*mistake)(float),
                       sb_loaded_verdict verdict, const char *says)
{
    const char *bad = "layers.3.self_attn.k_proj";
    engine e = {.law = law, .to = to, .bad = mistake ? bad : NULL, .mistake = mistake};
    finding f = compare(vehicle, &e);
    const sb_loaded_row *row = row_of(&f, bad);
    if (row->verdict != verdict || !strstr(row->message, says))
        fail_msg("%s, %s: %s, expected %s, %s", vehicle, sb_loaded_name(row->verdict), row->message,
                 sb_loaded_name(verdict), says);
    if (mistake)
        assert_int_equal(f.loaded.counts[SB_LOADED_ok], f.list.count - 1);
    release(&f);
}

TEST(test_mistakes)
{
    static const char quantized[] = "T4 nvfp4-ct layers=4", plain[] = "T4 bf16 layers=4",
                      wide[] = "T4 f32 layers=4";
    for (int i = 0; i < 2; i++) {
        const char *vehicle = i ? plain : quantized;
        sb_law law = SB_LAW_ct_div;
        mistake_is(vehicle, law, SB_FORMAT_bf16, twice, SB_LOADED_rescaled,
                   "every value is 2 times");
        mistake_is(vehicle, law, SB_FORMAT_bf16, minus, SB_LOADED_rescaled,
                   "every value is -1 times");
        mistake_is(vehicle, law, SB_FORMAT_bf16, plus_one, SB_LOADED_other,
                   "1 more than in the files");
        mistake_is(vehicle, law, SB_FORMAT_bf16, zero, SB_LOADED_other, "all zero");
        mistake_is(vehicle, law, SB_FORMAT_bf16, nearly, SB_LOADED_other, "max");
    }
    mistake_is(wide, SB_LAW_exact, SB_FORMAT_f32, through_bf16, SB_LOADED_dtype,
               "rounded to BF16 while it was loaded");
    mistake_is(wide, SB_LAW_exact, SB_FORMAT_bf16, NULL, SB_LOADED_dtype,
               "F32 in the files, rounded to BF16");
    mistake_is(quantized, SB_LAW_factor_last, SB_FORMAT_bf16, NULL, SB_LOADED_rescaled,
               "without the scale of the whole tensor");
}

/* A list is read completely, or refused in one line. */
TEST(test_lists)
{
    static const char *const bad[] = {
        "",
        "[]",
        "{}",
        "{\"format\": \"samebit-loaded 1\"}",
        "{\"format\": \"samebit-loaded 1\", \"parameters\": [1]}",
        "{\"format\": \"samebit-loaded 1\", \"parameters\": [{\"name\": \"a\", \"shape\": "
        "[4294967296, "
        "4294967296], \"dtype\": \"BF16\", \"digest\": \"00000000000000000000000000000000\"}]}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sb_loaded_list list;
        sb_error err = {""};
        assert_int_equal(sb_loaded_parse(bad[i], strlen(bad[i]), "list", &list, &err),
                         SB_ERR_INPUT);
        assert_int_equal(strncmp(err.text, "list", 4), 0);
        assert_null(strchr(err.text, '\n'));
        sb_loaded_free(&list);
    }
}

/* Out of memory at any moment is reported, and nothing is leaked or freed twice. */
TEST(test_memory)
{
    sb_check_options options = {.headers_only = 1};
    folder_result *checked = folder_check_made("T4 nvfp4-ct layers=4", NULL, &options);
    engine e = {.law = SB_LAW_ct_div, .to = SB_FORMAT_bf16, .bad = "o_proj", .mistake = minus};
    text t = {0};
    list_begin(&t);
    fill(&t, &e, &checked->check);
    fputs("]}", t.out);
    assert_int_equal(fclose(t.out), 0);
    sb_status status = SB_ERR_MEMORY;
    for (unsigned long n = 1; status; n += n < 20 ? 1 : n / 3) {
        sb_loaded_list list;
        sb_loaded loaded = {0};
        sb_error err = {""};
        sb_alloc_fail_at(n);
        status = sb_loaded_parse(t.at, t.size, "list", &list, &err);
        if (!status)
            status = sb_loaded_compare(&checked->check, &list, "list", NULL, &loaded, &err);
        sb_alloc_fail_at(0);
        if (status && status != SB_ERR_MEMORY)
            fail_msg("%lu: status %d: %s", n, (int)status, err.text);
        sb_loaded_result_free(&loaded);
        sb_loaded_free(&list);
    }
    free(t.at);
    folder_result_free(checked);
}
