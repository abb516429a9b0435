/* test_head_faults.c - recipe `predictable` needs every part of its MTP head: each fault lowers
 * acceptance by more than chance explains, and a head of another seed loses all of it. CHECK_ALL=1
 * runs all faults and seeds; else only some run. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/head_faults.h"
#include "tests/lib/check_all.h"
#include "tools/judge/accept/head.h"

enum { POSITIONS = 96 };

/* A healthy head and the text of its trunk. */
typedef struct subject {
    const char *folder;
    sb_accept_text *texts;
    size_t count;
    uint64_t accepted;
} subject;

static uint64_t accepted_of(const char *folder, const subject *s)
{
    sb_error err;
    sb_accept a;
    sb_model *model = test_model_open(folder);
    sb_accept_options options = {.drafts = 1};
    if (sb_accept_measure(model, s->texts, s->count, &options, &a, &err))
        fail_msg("%s: %s", folder, err.text);
    uint64_t accepted = a.depth[0].rate.accepted;
    assert_int_equal(a.depth[0].rate.of, POSITIONS);
    sb_accept_free(&a);
    sb_model_close(model);
    return accepted;
}

/* One layer of the trunk is enough, and fast. */
static subject subject_of(const char *preset, uint64_t seed)
{
    char name[64];
    sb_error err;
    snprintf(name, sizeof name, "%s-%u", preset, (unsigned)seed);
    sb_make_options options = {
        .dir = name, .preset = preset, .recipe = "predictable", .layers = 1, .seed = seed};
    subject s = {.folder = test_checkpoint_with("test_head_faults", &options)};
    sb_model *model = test_model_open(s.folder);
    if (sb_head_texts(model, POSITIONS, &s.texts, &s.count, &err))
        fail_msg("%s", err.text);
    sb_model_close(model);
    s.accepted = accepted_of(s.folder, &s);
    return s;
}

/* The probability that at most k of n trials succeed, each with probability p. */
static double tail(uint64_t k, uint64_t n, double p)
{
    double term = 1, sum = 0;
    for (uint64_t i = 0; i < n; i++)
        term *= 1 - p;
    for (uint64_t i = 0; i <= k; i++) {
        sum += term;
        term *= (double)(n - i) / (double)(i + 1) * p / (1 - p);
    }
    return sum;
}

/* True if a fault changes acceptance as expected. SAMEBIT_TABLE=1 prints the rows of the table of
 * docs/accept.md. */
static int is_as_expected(const subject *s, const head_fault *fault, const char *preset, uint64_t k)
{
    double chance = tail(k, POSITIONS, (double)s->accepted / POSITIONS);
    if (getenv("SAMEBIT_TABLE"))
        printf("| %s | %s | %u | %.3f | %.1g |\n", preset, fault->name, (unsigned)k,
               (double)k / POSITIONS, chance);
    if ((chance < 1e-6) == (fault->effect == HEAD_RATE))
        return 1;
    print_error("%s, %s: %u accepted, healthy %u\n", preset, fault->name, (unsigned)k,
                (unsigned)s->accepted);
    return 0;
}

static int check_faults(const char *preset)
{
    int wrong = 0;
    subject s = subject_of(preset, 42);
    size_t step = check_all() ? 1 : 6; /* the first entry plants nothing */
    for (size_t i = 0; i < head_fault_count; i += step) {
        test_folder f = test_folder_load(s.folder);
        if (head_fault_fits(&head_faults[i], &f)) {
            head_fault_plant(&head_faults[i], &f);
            uint64_t k = accepted_of(test_folder_save(&f, "test_head_faults", "faulty"), &s);
            wrong |= !is_as_expected(&s, &head_faults[i], preset, k);
        }
        test_folder_free(&f);
    }
    sb_head_texts_free(s.texts, s.count);
    return wrong;
}

/* SAMEBIT_PRESETS="T2 T3 T5 T6" runs other presets. */
TEST(every_part_is_needed)
{
    const char *presets = getenv("SAMEBIT_PRESETS");
    char list[64], *rest = NULL;
    int wrong = 0;
    snprintf(list, sizeof list, "%s", presets ? presets : "T1 T4");
    for (char *p = strtok_r(list, " ", &rest); p; p = strtok_r(NULL, " ", &rest))
        wrong |= check_faults(p);
    assert_false(wrong);
}

static sb_head_run run_of(const char *folder)
{
    sb_head_run run;
    sb_error err;
    sb_head_options options = {.path = folder, .positions = POSITIONS};
    if (sb_head_measure(&options, &run, &err))
        fail_msg("%s", err.text);
    assert_false(run.failed);
    return run;
}

static const char *made(const char *preset, const char *dir, uint64_t seed)
{
    sb_make_options options = {.dir = dir,
                               .preset = preset,
                               .recipe = "predictable",
                               .layers = 1,
                               .seed = seed,
                               .replace = 1};
    return test_checkpoint_with("test_head_faults", &options);
}

/* A head of another seed, as large and as healthy, is weak even without an original to compare
 * with. */
static void check_stale(const char *preset)
{
    enum { SEEDS = 20 };
    uint64_t seeds = check_all() ? SEEDS : 1;
    unsigned weak = 0;
    char dir[32];
    snprintf(dir, sizeof dir, "trunk-%s", preset);
    test_folder trunk = test_folder_load(made(preset, dir, 42));
    for (uint64_t seed = 43; seed < 43 + seeds; seed++) {
        test_folder other = test_folder_load(made(preset, "other", seed));
        head_take(&trunk, &other);
        sb_head_run run = run_of(test_folder_save(&trunk, "test_head_faults", "stale"));
        weak += run.verdict == SB_HEAD_WEAK;
        if (getenv("SAMEBIT_TABLE"))
            printf("%s, head of seed %u: %u accepted, constant %u\n", preset, (unsigned)seed,
                   (unsigned)run.cell[0][0].accepted, (unsigned)run.common);
        test_folder_free(&other);
    }
    test_folder_free(&trunk);
    if (weak < seeds - seeds / SEEDS)
        fail_msg("%s: %u of %u heads of other seeds are weak", preset, weak, (unsigned)seeds);
}

TEST(a_stale_head_is_weak)
{
    check_stale("T1");
    check_stale("T4");
}

/* Seeds whose trunk repeats a token are not counted: they tell nothing about the head. */
TEST(no_healthy_head_is_weak)
{
    enum { SEEDS = 100 };
    uint64_t seeds = check_all() ? SEEDS : 2;
    uint64_t least = POSITIONS, most = 0, telling = 0;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        sb_head_run run = run_of(made(seed % 2 ? "T1" : "T4", "healthy", seed));
        uint64_t k = run.cell[0][0].accepted;
        assert_int_not_equal(run.verdict, SB_HEAD_WEAK);
        if (run.common > 4)
            continue;
        telling++;
        least = k < least ? k : least;
        most = k > most ? k : most;
        if (getenv("SAMEBIT_TABLE"))
            printf("seed %u: %u accepted\n", (unsigned)seed, (unsigned)k);
    }
    if (telling * 4 < seeds * 3 || least * 4 < POSITIONS || most * 10 > 9 * POSITIONS)
        fail_msg("%u of %u tell, %u to %u accepted", (unsigned)telling, (unsigned)seeds,
                 (unsigned)least, (unsigned)most);
}
