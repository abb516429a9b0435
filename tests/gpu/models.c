/* models.c - every format x preset x length of a prompt, whole models by the kernels on the
 * emulator, held against the reference.
 *
 *   models --list            the parts
 *   models short|long|faults what `make check` has
 *   models FORMAT/PRESET     all lengths of one checkpoint: the whole product in parts
 *
 * A checkpoint has one layer of linear attention and the MTP head, which has full attention: all
 * ops, and none twice. An emulated core computes about 10^5 products of a warp a second, and the
 * bounds take as long again; so `make check` has prompts of 1 to 5 tokens of every format and
 * preset, two at a time, and the long ones of the dense T4, or of a preset in one format. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu.h"
#include "ref/base/rng.h"
#include "ref/math/dot.h"
#include "tests/gpu/model_case.h"
#include "tests/lib/pairwise.h"
#include "tools/cli/cli.h"
#include "tools/make/make.h"

static const char *const presets[] = {"T1", "T2", "T3", "T4", "T5", "T6"};
/* What the model family uses, each with all that it stores. */
static const char *const usual[] = {"bf16",       "fp8-block",       "fp8-channel",
                                    "fp8-tensor", "nvfp4a16-ct",     "int4-gptq",
                                    "nvidia-mix", "int4-fp8-hybrid", "int4-ct"};
static const char *const drafts[] = {"0", "1", "2"};
static const char *const lengths[] = {"1",  "2",  "3",   "4",   "5",   "63",
                                      "64", "65", "127", "128", "129", "200"};
enum {
    FORMAT,
    PRESET,
    LENGTH,
    DRAFTS,
    FACTORS,
    PRESETS = sizeof presets / sizeof *presets,
    USUAL = sizeof usual / sizeof *usual,
    LENGTHS = sizeof lengths / sizeof *lengths,
    COUNTS = sizeof drafts / sizeof *drafts,
    SHORT = 5,
    CASES = 200
};

/* What the program's main has, for those that look on. */
void sb_progress(void *unused, const char *what, uint64_t done, uint64_t total)
{
    (void)unused, (void)what, (void)done, (void)total;
}

void sb_set_threads(unsigned threads)
{
    (void)threads;
}

static size_t passed, failed;
static char part[64];

/* A folder for each part: they run at the same time. The case is named before it runs: if it dies,
 * that is the last word; and the order of its threads is a function of the name alone. */
static void run(const char *format, const char *preset, const char *length, const char *draft,
                size_t generate)
{
    char name[128];
    snprintf(name, sizeof name, "%s %s, %s tokens, %s drafts", preset, format, length, draft);
    const model_case c = {.preset = preset,
                          .format = format,
                          .profile = "sm121",
                          .layers = 1,
                          .length = strtoul(length, NULL, 10),
                          .generate = generate,
                          .drafts = strtoul(draft, NULL, 10),
                          .seed = sb_rng_below(sb_rng_key(42, name), 0, 1000000)};
    double worst;
    printf("%s: ", name);
    fflush(stdout);
    const char *wrong = model_case_judge(&c, part, &worst);
    printf("%s, %.3f of the bound%s%s\n", wrong ? "FAILED" : "ok", worst, wrong ? ": " : "",
           wrong ? wrong : "");
    fflush(stdout);
    passed += !wrong;
    failed += wrong != NULL;
}

static int by_checkpoint(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(pairwise_case)); /* format, preset: equal ones come in a row */
}

/* Prompts of up to 5 tokens and behind them a step, or a round of drafts: each two of format,
 * preset, length and number of drafts. */
static void run_short(void)
{
    static pairwise_case cases[CASES];
    const pairwise_factor factors[FACTORS] = {
        [FORMAT] = {"format", usual, USUAL},
        [PRESET] = {"preset", presets, PRESETS},
        [LENGTH] = {"length", lengths, SHORT},
        [DRAFTS] = {"drafts", drafts, COUNTS},
    };
    size_t pairs, count = pairwise_cover(factors, FACTORS, "models", NULL, cases, CASES, &pairs);
    qsort(cases, count, sizeof *cases, by_checkpoint);
    for (size_t i = 0; i < count; i++)
        run(usual[cases[i].value[FORMAT]], presets[cases[i].value[PRESET]],
            lengths[cases[i].value[LENGTH]], drafts[cases[i].value[DRAFTS]], 2);
    printf("%zu pairs in %zu cases\n", pairs, count);
}

/* Every length in some format, every format in some length; of the presets those that are quick. */
static void run_long(void)
{
    static pairwise_case cases[CASES];
    const pairwise_factor factors[] = {
        [FORMAT] = {"format", usual, USUAL},
        [PRESET] = {"length", lengths + SHORT, LENGTHS - SHORT},
    };
    size_t count = pairwise_each(factors, 2, NULL, cases, CASES);
    for (size_t i = 0; i < count; i++)
        run(usual[cases[i].value[0]], "T4", lengths[SHORT + cases[i].value[1]], "0", 0);
    run("nvidia-mix", "T3", "65", "0", 0);
    run("fp8-block", "T1", "64", "0", 0);
    run("int4-ct", "T2", "63", "0", 0);
    run("fp8-channel", "T6", "65", "0", 0);
}

static void run_product(const char *format, const char *preset)
{
    for (size_t i = 0; i < LENGTHS; i++)
        run(format, preset, lengths[i], drafts[i < SHORT ? i % COUNTS : 0], i < SHORT ? 2 : 0);
}

/* A fault of the kernels in a model that is right without it. */
static void run_fault(const char *name)
{
    const model_case c = {.preset = "T3",
                          .format = "nvidia-mix",
                          .profile = "sm121",
                          .layers = 1,
                          .length = 5,
                          .generate = 2};
    double worst;
    if (!sb_gpu_plant(name)) {
        printf("FAILED there is no fault %s\n", name);
        failed++;
        return;
    }
    printf("fault %s: ", name);
    fflush(stdout);
    const char *wrong = model_case_judge(&c, part, &worst);
    sb_gpu_plant(NULL);
    printf("%s: %s\n", wrong ? "ok" : "FAILED", wrong ? wrong : "not caught");
    passed += wrong != NULL;
    failed += !wrong;
}

static void run_faults(void)
{
    static const char *const faults[] = {"linear_tail",    "linear_tile",    "linear_barrier",
                                         "attention_tail", "attention_mask", "swiglu_rounded"};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        run_fault(faults[i]);
}

/* The formats that have kernels: values of f16 and f32 are none of bfloat16. */
static int has_kernels(const char *format)
{
    return strcmp(format, "f16") != 0 && strcmp(format, "f32") != 0;
}

static void list(int all)
{
    size_t formats;
    const sb_make_choice *format = sb_make_choices(SB_MAKE_FORMATS, &formats);
    puts("short\nlong\nfaults");
    for (size_t i = 0; i < formats && all; i++)
        for (size_t j = 0; j < PRESETS && has_kernels(format[i].name); j++)
            printf("%s/%s\n", format[i].name, presets[j]);
}

int main(int argc, char **argv)
{
    if (argc != 2 || strlen(argv[1]) >= sizeof part)
        return 2;
    strcpy(part, argv[1]);
    char *preset = strchr(part, '/');
    if (strcmp(part, "--list") == 0 || strcmp(part, "--list-all") == 0) {
        list(strcmp(part, "--list-all") == 0);
        return 0;
    }
    if (!sb_backend_emu()) {
        puts("SKIPPED whole models: this program was built without a C++ compiler\n"
             "0 passed, 0 failed, 1 skipped");
        return 0;
    }
    sb_dot_select("auto", NULL);
    if (strcmp(part, "short") == 0)
        run_short();
    else if (strcmp(part, "long") == 0)
        run_long();
    else if (strcmp(part, "faults") == 0)
        run_faults();
    else if (preset) {
        *preset = '-'; /* a name for a folder */
        char format[sizeof part] = "";
        memcpy(format, part, (size_t)(preset - part));
        run_product(format, preset + 1);
    }
    printf("%zu passed, %zu failed\n", passed, failed);
    return failed != 0;
}
