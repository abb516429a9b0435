/* test_act_table.c - how often the forms of K-18, K-19, K-21 and K-22 differ on seeded data. Every
 * line of the tables must be in docs/activations.md. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "ref/ops/act_group.h"
#include "ref/ops/knob.h"
#include "tests/lib/plain.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define DOCUMENT "docs/activations.md"

enum { ELEMENTS = 1 << 20, FORMS_MAX = 8 };

static const struct table {
    const char *knob, *label;
    void (*quantize)(sb_act_group *group);
    sb_format format;
    size_t n; /* elements of a group */
    sb_factor input;
} tables[] = {
    {"act_fp4", "act_fp4, G = 384", sb_act_nvfp4, SB_FORMAT_e2m1, 16, {SB_DIVISOR, 384}},
    {"act_fp4",
     "act_fp4, G = 2688 / 11.0625",
     sb_act_nvfp4,
     SB_FORMAT_e2m1,
     16,
     {SB_DIVISOR, 2688.0f / 11.0625f}},
    {"act_fp8_group", "act_fp8_group", sb_act_fp8_group, SB_FORMAT_e4m3, 128, {SB_NO_FACTOR, 0}},
    {"act_fp8_token", "act_fp8_token", sb_act_fp8_token, SB_FORMAT_e4m3, 2048, {SB_NO_FACTOR, 0}},
    {"act_fp8_static",
     "act_fp8_static",
     sb_act_fp8_static,
     SB_FORMAT_e4m3,
     2048,
     {SB_MULTIPLIER, 0.0246582031f}},
};

static const char *const types[] = {"f32", "bf16"};

static float *x;
static char *document;

/* The result of one form for all elements. */
typedef struct made {
    float *scales;
    uint8_t *codes;
} made;

static made quantize_all(const struct table *t, const char *form, const char *type)
{
    char settings[96];
    made m = {malloc(ELEMENTS / t->n * sizeof *m.scales), malloc(ELEMENTS)};
    snprintf(settings, sizeof settings, "act=%s %s=%s", type, t->knob, form);
    sb_knobs knobs = test_knobs(settings);
    for (size_t g = 0; g < ELEMENTS / t->n; g++) {
        sb_act_group group = {.knobs = &knobs,
                              .x = x + g * t->n,
                              .n = t->n,
                              .input = t->input,
                              .format = t->format,
                              .codes = m.codes + g * t->n};
        for (size_t i = 0; i < t->n; i++) {
            float a = group.x[i] < 0 ? -group.x[i] : group.x[i];
            group.amax = a > group.amax ? a : group.amax;
        }
        t->quantize(&group);
        m.scales[g] = group.scale;
    }
    return m;
}

/* Writes the number of differing scales and codes as "scales | codes"; codes of zero are equal. */
static void compare(const struct table *t, made a, made b, char *text, size_t size)
{
    unsigned long scales = 0, codes = 0, zero = t->format == SB_FORMAT_e2m1 ? 7 : 0x7f;
    for (size_t g = 0; g < ELEMENTS / t->n; g++)
        scales += a.scales[g] != b.scales[g];
    for (size_t i = 0; i < ELEMENTS; i++)
        codes += a.codes[i] != b.codes[i] && ((a.codes[i] | b.codes[i]) & zero) != 0;
    snprintf(text, size, "%lu | %lu", scales, codes);
}

static size_t forms_of(const char *knob, const char *forms[FORMS_MAX])
{
    size_t count = 0;
    for (unsigned v = 0; v < SB_VALUE_COUNT; v++)
        if (strcmp(sb_knob_name(sb_knob_of_value((sb_knob_value)v)), knob) == 0 &&
            strcmp(sb_knob_value_name((sb_knob_value)v), "off") != 0)
            forms[count++] = sb_knob_value_name((sb_knob_value)v);
    return count;
}

/* Elements like activations: bell-shaped, groups of 16 of different sizes, a few outliers. */
static void draw(const char *type)
{
    uint64_t key = sb_rng_key(42, "act-table");
    sb_knobs knobs = test_knobs(strcmp(type, "bf16") == 0 ? "act=bf16" : "");
    for (size_t i = 0; i < ELEMENTS; i++) {
        float size = 1.0f / (float)(1 + sb_rng_below(key, ~(uint64_t)(i / 16), 8));
        float outlier = sb_rng_below(key, ~(uint64_t)(i + ELEMENTS), 1000) ? 1.0f : 4.0f;
        x[i] = sb_act(&knobs, sb_rng_normal(key, i) * size * outlier);
    }
}

static unsigned check_line(const char *line)
{
    if (strstr(document, line))
        return 0;
    printf("%s", line);
    return 1;
}

static unsigned check_table(const struct table *t)
{
    const char *forms[FORMS_MAX];
    size_t count = forms_of(t->knob, forms);
    char cells[FORMS_MAX][FORMS_MAX][COUNT(types)][48], line[256];
    unsigned missing = 0;
    for (size_t type = 0; type < COUNT(types); type++) {
        made m[FORMS_MAX];
        draw(types[type]);
        for (size_t f = 0; f < count; f++)
            m[f] = quantize_all(t, forms[f], types[type]);
        for (size_t a = 0; a < count; a++)
            for (size_t b = a + 1; b < count; b++)
                compare(t, m[a], m[b], cells[a][b][type], sizeof cells[a][b][type]);
        for (size_t f = 0; f < count; f++) {
            free(m[f].scales);
            free(m[f].codes);
        }
    }
    for (size_t a = 0; a < count; a++)
        for (size_t b = a + 1; b < count; b++) {
            snprintf(line, sizeof line, "| %s | %s | %s | %s | %s |\n", t->label, forms[a],
                     forms[b], cells[a][b][0], cells[a][b][1]);
            missing += check_line(line);
        }
    return missing;
}

TEST(test_document)
{
    unsigned missing = 0;
    x = malloc(ELEMENTS * sizeof *x);
    for (size_t i = 0; i < COUNT(tables); i++)
        missing += check_table(&tables[i]);
    free(x);
    if (missing)
        fail_msg("the %u lines above are not in " DOCUMENT, missing);
}

TEST_FIXTURE(read_document)
{
    FILE *in = fopen(DOCUMENT, "rb");
    document = calloc(1, 1 << 20);
    if (!in || !document)
        return -1;
    size_t got = fread(document, 1, (1 << 20) - 1, in);
    fclose(in);
    return got ? 0 : -1;
}

TEST_FIXTURE(free_document)
{
    free(document);
    return 0;
}

TEST_GROUP(read_document, free_document)
