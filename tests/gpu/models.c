/* models.c - compares whole models, run by the kernels in the emulator, with the reference: every
 * format x preset x length of a prompt.
 *
 *   models --list                 the parts of `make check`; it runs a half to a quarter of their
 *                                 cases, and all with CHECK_ALL=1
 *   models --list-all             the parts of `make check-all`
 *   models short-I|long-I|wide|faults|cover
 *                                 one part; wide is T2 and T6 with more than 100 tokens; cover runs
 *                                 nothing and checks that the other parts have every pair of values
 *   models FORMAT/PRESET          all lengths of one checkpoint: a part of the whole product
 *   models FORMAT/PRESET/LENGTH/DRAFTS/QUANTIZED
 *                                 a single case
 *
 * A checkpoint has one layer of linear attention, and the MTP head, which has full attention: every
 * op occurs, and none twice. The factors of a case are the format, the preset, the length, the
 * number of drafts, and whether inputs are quantized, if the format has a profile for that. Each
 * pair of values of two factors occurs in a case, except drafts with long prompts, after which
 * nothing is generated. Long prompts run with T4, which is dense and the quickest, except where a
 * preset still has to meet a length. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu.h"
#include "ref/base/rng.h"
#include "ref/fast/dot/dot.h"
#include "tests/gpu/model_case.h"
#include "tests/lib/check_all.h"
#include "tests/lib/pairwise.h"
#include "tools/cli/cli.h"
#include "tools/make/make.h"

static const char *const presets[] = {"T1", "T2", "T3", "T4", "T5", "T6"};
static const char *const drafts[] = {"0", "1", "2", "3"};
static const char *const lengths[] = {"1",  "2",  "3",   "4",   "5",   "63",
                                      "64", "65", "127", "128", "129", "200"};
static const char *const ways[] = {"weights", "inputs"}; /* what is quantized */
enum {
    FORMAT,
    PRESET,
    LENGTH,
    DRAFTS,
    WAY,
    FACTORS,
    PRESETS = sizeof presets / sizeof *presets,
    LENGTHS = sizeof lengths / sizeof *lengths,
    COUNTS = sizeof drafts / sizeof *drafts,
    SHORT = 5,
    CASES = 400,
    FORMATS = 24,
    T4 = 3,
    PARTS = 3
};
static const char *formats[FORMATS];
static size_t format_count;

/* The formats that have kernels: the values of f16 and f32 need not be bfloat16 values. */
static void find_formats(void)
{
    size_t count;
    const sb_make_choice *choice = sb_make_choices(SB_MAKE_FORMATS, &count);
    for (size_t i = 0; i < count && format_count < FORMATS; i++)
        if (strcmp(choice[i].name, "f16") != 0 && strcmp(choice[i].name, "f32") != 0)
            formats[format_count++] = choice[i].name;
}

/* The profile that also quantizes the inputs of this format's layers; NULL: none. */
static const char *quantizing(const char *format)
{
    static const struct {
        const char *format, *profile;
    } table[] = {{"fp8-block", "sm121-w8a8"},   {"fp8-block-ue8m0", "sm121-w8a8"},
                 {"fp8-channel", "sm121-w8a8"}, {"fp8-tensor", "sm121-w8a8"},
                 {"nvfp4-ct", "sm121-w4a4"},    {"nvfp4-modelopt", "sm121-w4a4"},
                 {"nvidia-mix", "sm121-w4a4"},  {"int4-fp8-hybrid", "sm121-w8a8"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(format, table[i].format) == 0)
            return table[i].profile;
    return NULL;
}

/* A replacement of the function in the program's main. */
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

/* Runs a case. Each part has its own folder, because parts run at the same time. The case is
 * printed before it runs: if the program dies, its name is the last output. The order of the
 * threads depends only on the name. Only the short cases look for races (with T4) and run both
 * sides on their own. */
static void run(const pairwise_case *c)
{
    char name[128];
    const size_t *v = c->value;
    const char *quantizes = v[WAY] ? quantizing(formats[v[FORMAT]]) : NULL;
    const char *profile = quantizes ? quantizes : "sm121";
    const int brief = v[LENGTH] < SHORT;
    snprintf(name, sizeof name, "%s/%s/%s/%s/%s under %s", formats[v[FORMAT]], presets[v[PRESET]],
             lengths[v[LENGTH]], drafts[v[DRAFTS]], ways[v[WAY]], profile);
    const model_case wanted = {.preset = presets[v[PRESET]],
                               .format = formats[v[FORMAT]],
                               .profile = profile,
                               .layers = 1,
                               .length = strtoul(lengths[v[LENGTH]], NULL, 10),
                               .generate = brief ? 2 : 0,
                               .drafts = strtoul(drafts[v[DRAFTS]], NULL, 10),
                               .seed = sb_rng_below(sb_rng_key(42, name), 0, 1000000),
                               .history = brief && v[PRESET] == T4,
                               .forced = !brief};
    double worst;
    printf("%s: ", name);
    fflush(stdout);
    const char *wrong = model_case_judge(&wanted, part, &worst);
    printf("%s, %.3f of the bound%s%s\n", wrong ? "FAILED" : "ok", worst, wrong ? ": " : "",
           wrong ? wrong : "");
    fflush(stdout);
    passed += !wrong;
    failed += wrong != NULL;
}

static int by_checkpoint(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(pairwise_case)); /* format, preset: equal ones are adjacent */
}

/* Inputs are quantized only where the format has a profile for it. */
static int has_way(const pairwise_case *c)
{
    return !c->value[WAY] || quantizing(formats[c->value[FORMAT]]);
}

/* Prompts of up to 5 tokens, followed by two steps or a round of drafts. Returns the number of
 * cases. */
static size_t short_cases(pairwise_case cases[CASES])
{
    const pairwise_factor factors[FACTORS] = {
        [FORMAT] = {"format", formats, format_count},
        [PRESET] = {"preset", presets, PRESETS},
        [LENGTH] = {"length", lengths, SHORT},
        [DRAFTS] = {"drafts", drafts, COUNTS},
        [WAY] = {"way", ways, 2},
    };
    size_t count = pairwise_cover(factors, FACTORS, "models", has_way, cases, CASES, NULL);
    qsort(cases, count, sizeof *cases, by_checkpoint);
    return count;
}

static void run_short(size_t which)
{
    static pairwise_case cases[CASES];
    const size_t count = short_cases(cases);
    for (size_t i = which * count / PARTS; i < (which + 1) * count / PARTS; i++)
        if (check_some(i, 2))
            run(&cases[i]);
}

/* The preset for a format at a length above SHORT. Each preset meets each length in one format. */
static size_t preset_at(size_t format, size_t length)
{
    static const size_t others[] = {0, 1, 2, 4, 5};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if ((5 * length + 3 * i) % format_count == format)
            return others[i];
    return T4;
}

/* T2 and T6 with more than 100 tokens take as long as all other cases together. */
static int is_wide(size_t preset, size_t length)
{
    return (preset == 1 || preset == 5) && strtoul(lengths[length], NULL, 10) > 100;
}

/* Every format with every long prompt. The kind of inputs alternates with format and length. */
static pairwise_case long_case(size_t format, size_t length)
{
    pairwise_case c = {{[FORMAT] = format,
                        [PRESET] = preset_at(format, length),
                        [LENGTH] = length,
                        [WAY] = (format + length) % 2}};
    c.value[WAY] = c.value[WAY] && has_way(&c);
    return c;
}

static void run_long(size_t which)
{
    for (size_t f = which * format_count / PARTS; f < (which + 1) * format_count / PARTS; f++)
        for (int other = 0; other < 2; other++) /* one checkpoint after the other */
            for (size_t l = SHORT; l < LENGTHS; l++) {
                const pairwise_case c = long_case(f, l);
                if (!is_wide(c.value[PRESET], l) && (c.value[PRESET] != T4) == other &&
                    check_some(f + l, 3))
                    run(&c);
            }
}

static void run_wide(void)
{
    for (size_t f = 0; f < format_count; f++)
        for (size_t l = SHORT; l < LENGTHS; l++) {
            const pairwise_case c = long_case(f, l);
            if (is_wide(c.value[PRESET], l) && check_some(f, 4))
                run(&c);
        }
}

/* The pairs of values that occur in the cases of short-I, long-I and wide. */
typedef struct met {
    unsigned char pair[FACTORS][FORMATS][FACTORS][FORMATS];
} met;

static void meet(met *m, const pairwise_case *c)
{
    const int brief = c->value[LENGTH] < SHORT; /* long cases have no drafts */
    for (int f = 0; f < FACTORS; f++)
        for (int g = 0; g < FACTORS; g++)
            if (brief || (f != DRAFTS && g != DRAFTS))
                m->pair[f][c->value[f]][g][c->value[g]] = 1;
}

static int can_meet(int f, size_t i, int g, size_t j)
{
    const pairwise_case of_format = {{[FORMAT] = i, [WAY] = j}};
    if (f == FORMAT && g == WAY)
        return has_way(&of_format);
    return f != LENGTH || g != DRAFTS || i < SHORT;
}

/* Counts the pairs. A pair without a case is a failure. */
static void run_cover(void)
{
    static const size_t count[FACTORS - 1] = {PRESETS, LENGTHS, COUNTS, 2};
    static pairwise_case cases[CASES];
    static met m;
    size_t shorts = short_cases(cases), pairs = 0;
    for (size_t i = 0; i < shorts; i++)
        meet(&m, &cases[i]);
    for (size_t f = 0; f < format_count; f++)
        for (size_t l = SHORT; l < LENGTHS; l++) {
            const pairwise_case c = long_case(f, l);
            meet(&m, &c);
        }
    for (int f = 0; f < FACTORS; f++)
        for (int g = f + 1; g < FACTORS; g++)
            for (size_t i = 0; i < (f == FORMAT ? format_count : count[f - 1]); i++)
                for (size_t j = 0; j < count[g - 1]; j++) {
                    if (!can_meet(f, i, g, j))
                        continue;
                    pairs++;
                    if (m.pair[f][i][g][j])
                        continue;
                    printf("FAILED no case has value %zu of factor %d and %zu of %d\n", i, f, j, g);
                    failed++;
                }
    passed += failed == 0;
    printf("%zu pairs in %zu cases\n", pairs, shorts + format_count * (LENGTHS - SHORT));
}

static void run_product(size_t format, size_t preset)
{
    for (size_t way = 0; way < (quantizing(formats[format]) ? 2 : 1); way++)
        for (size_t i = 0; i < LENGTHS; i++) {
            const pairwise_case c = {{[FORMAT] = format,
                                      [PRESET] = preset,
                                      [LENGTH] = i,
                                      [DRAFTS] = i < SHORT ? i % COUNTS : 0,
                                      [WAY] = way}};
            run(&c);
        }
}

/* Plants a fault of the kernels in a model that is right without it. */
static void run_fault(const char *name)
{
    const model_case c = {.preset = "T3",
                          .format = "nvidia-mix",
                          .profile = "sm121",
                          .layers = 1,
                          .length = 5,
                          .generate = 2,
                          .history = 1};
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

static void list(int all)
{
    for (int i = 1; i <= PARTS; i++)
        printf("short-%d\nlong-%d\n", i, i);
    puts("wide\nfaults\ncover");
    for (size_t i = 0; i < format_count && all; i++)
        for (size_t j = 0; j < PRESETS; j++)
            printf("%s/%s\n", formats[i], presets[j]);
}

/* *at: the index of the name among `count` names. Returns 0 if it is not there. */
static int find(const char *name, const char *const *names, size_t count, size_t *at)
{
    for (*at = 0; *at < count; ++*at)
        if (name && strcmp(name, names[*at]) == 0)
            return 1;
    return 0;
}

/* FORMAT/PRESET, or FORMAT/PRESET/LENGTH/DRAFTS/QUANTIZED. Returns 0 if the name is neither. */
static int run_named(const char *name)
{
    char text[sizeof part];
    pairwise_case c;
    strcpy(text, name);
    if (!find(strtok(text, "/"), formats, format_count, &c.value[FORMAT]) ||
        !find(strtok(NULL, "/"), presets, PRESETS, &c.value[PRESET]))
        return 0;
    const char *length = strtok(NULL, "/");
    if (!length) {
        run_product(c.value[FORMAT], c.value[PRESET]);
        return 1;
    }
    if (!find(length, lengths, LENGTHS, &c.value[LENGTH]) ||
        !find(strtok(NULL, "/"), drafts, COUNTS, &c.value[DRAFTS]) ||
        !find(strtok(NULL, "/"), ways, 2, &c.value[WAY]))
        return 0;
    run(&c);
    return 1;
}

static int run_part(const char *name)
{
    const size_t which = (size_t)(name[strlen(name) - 1] - '1');
    if (strncmp(name, "short-", 6) == 0 && which < PARTS)
        run_short(which);
    else if (strncmp(name, "long-", 5) == 0 && which < PARTS)
        run_long(which);
    else if (strcmp(name, "wide") == 0)
        run_wide();
    else if (strcmp(name, "faults") == 0)
        run_faults();
    else if (strcmp(name, "cover") == 0)
        run_cover();
    else
        return run_named(name);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc != 2 || !*argv[1] || strlen(argv[1]) >= sizeof part)
        return 2;
    find_formats();
    if (strcmp(argv[1], "--list") == 0 || strcmp(argv[1], "--list-all") == 0) {
        list(strcmp(argv[1], "--list-all") == 0);
        return 0;
    }
    if (!sb_backend_emu()) {
        puts("SKIPPED whole models: this program was built without a C++ compiler\n"
             "0 passed, 0 failed, 1 skipped");
        return 0;
    }
    sb_dot_select("auto", NULL);
    strcpy(part, argv[1]);
    for (char *slash = strchr(part, '/'); slash; slash = strchr(slash, '/'))
        *slash = '-'; /* the folder's name has no slash */
    if (!run_part(argv[1]))
        return 2;
    printf("%zu passed, %zu failed\n", passed, failed);
    return failed != 0;
}
