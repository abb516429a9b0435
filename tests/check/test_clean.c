/* test_clean.c - intact folders give no ERROR and no FATAL, alone and against their originals:
 * folders that real quantizers and transformers wrote, and folders of `samebit make`.
 *
 * CHECK_ALL=1: every pair of formats (with scale rules), presets, recipes, layouts, storages,
 * shards and KV scales; else each of them once. Prints for each check the number of findings above
 * INFO. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/check/folder.h"
#include "tests/lib/checkpoint.h"
#include "tests/lib/pairwise.h"
#include "tools/check/convert/convert.h"

/* --- what is found ---------------------------------------------------------------------------- */

static unsigned warnings[SB_CHECK_LAST + 1], folders;

static void expect_clean(const folder_result *r)
{
    folders++;
    for (size_t i = 0; i < r->check.findings.count; i++)
        warnings[r->check.findings.rows[i].check] +=
            r->check.findings.rows[i].level == SB_LEVEL_warn;
    expect_none_above(r, SB_LEVEL_warn);
}

static void clean(const char *path, const char *against)
{
    folder_result *r = folder_check_made(path, against, NULL);
    expect_clean(r);
    folder_result_free(r);
}

static void print_warnings(const char *what)
{
    printf("%s: %u folders, WARN of check", what, folders);
    for (unsigned i = 1; i <= SB_CHECK_LAST; i++)
        if (warnings[i])
            printf(" %u (%u)", i, warnings[i]);
    printf("\n");
    fflush(stdout);
    memset(warnings, 0, sizeof warnings);
    folders = 0;
}

/* --- recorded folders ------------------------------------------------------------------------- */

static const char *const quantized[] = {
#define SB_FIXTURE(name, container, law, narrow, settings) name,
#include "tests/quant/fixtures.def"
#undef SB_FIXTURE
};

/* --- converted folders ------------------------------------------------------------------------ */

static void convert(const char *source, const char *target, const char *to)
{
    sb_convert_options o = {.source = source, .target = target, .to = to, .replace = 1};
    sb_conversion c;
    sb_error err;
    if (sb_convert(&o, &c, &err))
        fail_msg("%s: %s", source, err.text);
    sb_conversion_free(&c);
}

/* --- made folders ----------------------------------------------------------------------------- */

enum { FORMAT, PRESET, RECIPE, LAYOUT, STORAGE, SHARDS, KV, FACTORS, CASES = 1000 };

/* A format with one of its scale rules. */
typedef struct ruled {
    const char *format, *rules, *rule;
} ruled;

static const ruled rows[] = {
#define SB_MAKE_FORMAT(id, name, dtype, dialect, rules, a, b, c, d, e, f, help)                    \
    {name, #rules, NULL},
#include "tools/make/formats.def"
#undef SB_MAKE_FORMAT
};
static const struct {
    const char *id, *name;
} rules[] = {
#define SB_SCALE_RULE(id, name, help) {"RULE(" #id ")", name},
#include "tools/make/scale_rules.def"
#undef SB_SCALE_RULE
};

static ruled formats[PAIRWISE_VALUES];
static const char *format_names[PAIRWISE_VALUES];
static const char *const all_presets[] = {"T1",     "T2", "T3", "T4", "T5",
                                          "T5-raw", "T6", "T7", "T8", "T9"};
static const char *const small_presets[] = {"T3", "T4", "T5", "T6", "T7", "T8", "T9"};
static const char *const recipes[] = {"plain", "mistakes", "predictable"};
static const char *const layouts[] = {"text", "vl"};
static const char *const storages[] = {"qwen3.6", "qwen3.5"};
static const char *const cuts[] = {"one", "three"};
static const char *const kv[] = {"no", "yes"};
static pairwise_factor factors[FACTORS] = {
    [FORMAT] = {"format", format_names, 0},
    [PRESET] = {"preset", all_presets, sizeof all_presets / sizeof *all_presets},
    [RECIPE] = {"recipe", recipes, 3},
    [LAYOUT] = {"layout", layouts, 2},
    [STORAGE] = {"storage", storages, 2},
    [SHARDS] = {"shards", cuts, 2},
    [KV] = {"kv scales", kv, 2},
};

static size_t list_formats(void)
{
    size_t count = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t k = 0; k <= sizeof rules / sizeof *rules; k++) {
            int last = k == sizeof rules / sizeof *rules; /* no rule at all */
            if (last ? strstr(rows[i].rules, "RULE") != NULL
                     : strstr(rows[i].rules, rules[k].id) == NULL)
                continue;
            assert_true(count < PAIRWISE_VALUES);
            formats[count] = (ruled){rows[i].format, rows[i].rules, last ? NULL : rules[k].name};
            format_names[count++] = rows[i].format;
        }
    return count;
}

static const char *value(const pairwise_case *c, size_t factor)
{
    return factors[factor].values[c->value[factor]];
}

/* Qwen3-Next and Qwen3 were published in one layout only. */
static int can_be(const pairwise_case *c)
{
    const char *preset = value(c, PRESET);
    int flat =
        strncmp(preset, "T5", 2) == 0 || strcmp(preset, "T7") == 0 || strcmp(preset, "T8") == 0;
    return !flat || (c->value[LAYOUT] == 0 && c->value[STORAGE] == 0);
}

static void make(const pairwise_case *c, int original, const char *dir)
{
    const ruled *r = &formats[c->value[FORMAT]];
    sb_make_options o = {.dir = dir,
                         .preset = value(c, PRESET),
                         .recipe = value(c, RECIPE),
                         .format = original ? "bf16" : r->format,
                         .layout = value(c, LAYOUT),
                         .storage = value(c, STORAGE),
                         .scale_rule = original ? NULL : r->rule,
                         .seed = 42,
                         .replace = 1,
                         .shard_bytes = c->value[SHARDS] ? 0 : (uint64_t)1 << 40,
                         .kv_scales = !original && c->value[KV] &&
                                      (strstr(r->format, "nvidia") || strstr(r->format, "-all"))};
    sb_error err;
    sb_status status = sb_make(&o, &err);
    if (status == SB_ERR_USAGE) { /* 128 does not divide the rows of T6 */
        o.group_size = 32;
        status = sb_make(&o, &err);
    }
    if (status)
        fail_msg("%s %s: %s", o.preset, o.format, err.text);
}

static void run_case(const pairwise_case *c, const char *self, const char *original)
{
    make(c, 0, self);
    make(c, 1, original);
    for (int against = 0; against < 2; against++) {
        folder_result *r = folder_check_made(self, against ? original : NULL, NULL);
        int bad = folder_finding(r, 0, SB_LEVEL_error, NULL) ||
                  folder_finding(r, 0, SB_LEVEL_fatal, NULL);
        if (bad)
            printf("%s %s %s, recipe %s, layout %s, storage %s, %s\n", value(c, PRESET),
                   value(c, FORMAT), formats[c->value[FORMAT]].rule, value(c, RECIPE),
                   value(c, LAYOUT), value(c, STORAGE), against ? "with its original" : "alone");
        if (strcmp(value(c, FORMAT), "int4-int8-head") == 0) /* V-9: its head is not declared */
            expect_only(r, 9, "lm_head");
        else
            expect_clean(r);
        folder_result_free(r);
    }
}

/* Runs every second case in its own process, because making folders takes most of the time. */
static pid_t run_half(const pairwise_case *cases, size_t count, size_t half)
{
    const char *self = test_path("test_clean", half ? "odd" : "even");
    const char *original = test_path("test_clean", half ? "odd-bf16" : "even-bf16");
    fflush(NULL);
    pid_t child = fork();
    if (child != 0)
        return child;
    for (size_t i = half; i < count; i += 2)
        run_case(&cases[i], self, original);
    print_warnings(half ? "made, odd" : "made, even");
    fflush(NULL);
    _exit(0);
}

/* Must be the first test: it forks, and threads do not survive a fork. */
TEST(test_made)
{
    static pairwise_case cases[CASES];
    const char *all = getenv("CHECK_ALL");
    factors[FORMAT].count = list_formats();
    size_t count;
    if (all && *all == '1') {
        count = pairwise_cover(factors, FACTORS, "clean", can_be, cases, CASES, NULL);
    } else {
        factors[PRESET].values = small_presets;
        factors[PRESET].count = sizeof small_presets / sizeof *small_presets;
        count = pairwise_each(factors, FACTORS, can_be, cases, CASES);
    }
    printf("%zu formats with their scale rules, %zu cases\n", factors[FORMAT].count, count);
    pid_t halves[2] = {run_half(cases, count, 0), run_half(cases, count, 1)};
    for (size_t half = 0; half < 2; half++) {
        int status = -1;
        assert_true(halves[half] > 0 && waitpid(halves[half], &status, 0) == halves[half]);
        if (status != 0)
            fail_msg("the %s cases ended with status %d, see above", half ? "odd" : "even", status);
    }
}

TEST(test_quantizers)
{
    for (size_t i = 0; i < sizeof quantized / sizeof *quantized; i++) {
        char path[256];
        snprintf(path, sizeof path, "golden/quant/%s", quantized[i]);
        folder *f = folder_at(path);
        int experts = folder_maybe(f, "model.layers.0.mlp.gate.weight") != NULL;
        folder_free(f);
        clean(path, NULL);
        clean(path, experts ? "golden/quant/in/moe-mtp" : "golden/quant/in/dense");
    }
    print_warnings("golden/quant");
}

TEST(test_originals)
{
    static const char *const paths[] = {"golden/quant/in/moe-mtp", "golden/quant/in/dense",
                                        "golden/hf/small/dense", "golden/hf/small/moe",
                                        "golden/hf/small/next"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        clean(paths[i], NULL);
        clean(paths[i], paths[i]);
    }
    print_warnings("originals");
}

/* Converts to the other dialect, whose global scales are reciprocals in binary32, and back. */
TEST(test_converted)
{
    static const struct {
        const char *source, *original, *there, *back;
    } cases[] = {
        {"golden/quant/ct-nvfp4", "golden/quant/in/moe-mtp", "nvfp4-modelopt", "nvfp4-ct"},
        {"golden/quant/modelopt-nvfp4", "golden/quant/in/moe-mtp", "nvfp4-ct", "nvfp4-modelopt"},
        {"T3 nvfp4-ct", "T3 bf16", "nvfp4-modelopt", "nvfp4-ct"},
        {"T3 nvfp4-modelopt", "T3 bf16", "nvfp4-ct", "nvfp4-modelopt"},
        {"T3 nvidia-mix", "T3 bf16", "nvfp4-ct", "nvfp4-modelopt"},
    };
    const char *there = test_path("test_clean", "there"), *back = test_path("test_clean", "back");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        convert(folder_path(cases[i].source), there, cases[i].there);
        clean(there, NULL);
        clean(there, cases[i].original);
        convert(there, back, cases[i].back);
        clean(back, cases[i].original);
    }
    print_warnings("converted");
}
