/* test_pairs.c - every format x preset x length x kernels x call x profile, two at a time.
 *
 * A pairwise cover: each value of each factor meets each value of every other factor in at least
 * one case. A case makes the checkpoint, runs it, and runs it again in another way: with other
 * kernels, and with the tokens cut into other calls (where S-2 promises the same bits). The logits
 * and the state must be the same. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ref/fast/dot/dot.h"
#include "tests/lib/checkpoint.h"
#include "tests/lib/pairwise.h"
#include "tests/lib/record.h"

/* Without CHECK_ALL=1 only the first three presets, with four layers: making the checkpoints takes
 * most of the time. */
static const char *const presets[] = {"T1", "T4", "T6", "T2", "T3", "T5"};
static const char *const lengths[] = {"1", "2", "5"};
static const char *const kernels[] = {"exact", "scalar", "auto"};
static const char *const calls[] = {"one by one", "two calls"};
static const char *const profiles[] = {"exact", "w4a4", "w8a8", "dequant=ct_div",
                                       "dequant=factor_last"};
static const char *const cuts[] = {"one shard", "three shards"};

enum { FORMAT, PRESET, LENGTH, KERNELS, CALLS, PROFILE, SHARDS, FACTORS, CASES = 1000 };

static const char *formats[PAIRWISE_VALUES];
static pairwise_factor factors[FACTORS] = {
    [FORMAT] = {"format", formats, 0}, [PRESET] = {"preset", presets, 3},
    [LENGTH] = {"length", lengths, 3}, [KERNELS] = {"kernels", kernels, 3},
    [CALLS] = {"calls", calls, 2},     [PROFILE] = {"profile", profiles, 5},
    [SHARDS] = {"shards", cuts, 2},
};

static const char *value(const pairwise_case *c, size_t factor)
{
    return factors[factor].values[c->value[factor]];
}

/* The result of a run: the logits of its last token, and its state. */
typedef struct run_digest {
    sb_digest logits, state;
} run_digest;

static run_digest run(const sb_model *model, const sb_knobs *knobs, const uint32_t *ids, size_t n,
                      size_t per_call)
{
    size_t vocabulary = model->config.vocab_size;
    float *logits = malloc(vocabulary * sizeof *logits);
    sb_session *session = test_session(model, knobs, NULL);
    sb_error err = {""};
    size_t last = 0;
    assert_non_null(logits);
    for (size_t i = 0; i < n; i += last)
        test_feed(session, ids + i, last = n - i < per_call ? n - i : per_call);
    if (sb_session_logits(session, last - 1, logits, &err))
        fail_msg("%s", err.text);
    run_digest digest = {sb_digest_f32(logits, vocabulary), test_state_digest(session)};
    sb_session_free(session);
    free(logits);
    return digest;
}

static void set_knobs(const pairwise_case *c, sb_knobs *knobs)
{
    const char *profile = value(c, PROFILE);
    sb_error err = {""};
    sb_status status = SB_OK;
    sb_knobs_exact(knobs);
    status = strchr(profile, '=') ? sb_knobs_set(knobs, profile, &err)
                                  : sb_knobs_profile(knobs, profile, &err);
    if (status)
        fail_msg("%s", err.text);
}

static void run_case(const pairwise_case *c, const char *name)
{
    const char *folder = test_path("test_pairs", name);
    sb_make_options options = {.dir = folder,
                               .preset = value(c, PRESET),
                               .format = value(c, FORMAT),
                               .seed = 42,
                               .layers = factors[PRESET].count > 3 ? 0 : 4,
                               .replace = 1,
                               .shard_bytes = c->value[SHARDS] ? 0 : (uint64_t)1 << 40};
    uint32_t ids[32];
    size_t n = strtoul(value(c, LENGTH), NULL, 10);
    sb_error err = {""};
    sb_knobs knobs;
    sb_status status = sb_make(&options, &err);
    if (status == SB_ERR_USAGE) { /* 128 does not divide the rows of T6 */
        options.group_size = 32;
        status = sb_make(&options, &err);
    }
    if (status)
        fail_msg("%s", err.text);
    sb_model *model = test_model_open(folder);
    test_draw_ids("pairs", 300, ids, n);
    set_knobs(c, &knobs);
    assert_int_equal(sb_dot_select("auto", NULL), SB_OK);
    run_digest whole = run(model, &knobs, ids, n, n);
    if (sb_dot_select(value(c, KERNELS), NULL) != SB_OK)
        assert_int_equal(sb_dot_select("scalar", NULL), SB_OK); /* a machine without AVX2 */
    run_digest other = run(model, &knobs, ids, n, c->value[CALLS] ? (n + 1) / 2 : 1);
    sb_model_close(model);
    if (strcmp(whole.logits.hex, other.logits.hex) != 0 ||
        strcmp(whole.state.hex, other.state.hex) != 0)
        fail_msg("%s %s, %s tokens %s with %s kernels, %s: logits %s and %s, state %s and %s",
                 value(c, PRESET), value(c, FORMAT), value(c, LENGTH), value(c, CALLS),
                 value(c, KERNELS), value(c, PROFILE), whole.logits.hex, other.logits.hex,
                 whole.state.hex, other.state.hex);
}

/* Runs every second case in a process of its own, because making checkpoints takes most of the time
 * and uses one processor. After a failure the process has the exit status of a failed test
 * program. */
static pid_t run_half(const pairwise_case *cases, size_t count, size_t half)
{
    fflush(NULL);
    pid_t child = fork();
    if (child != 0)
        return child;
    for (size_t i = half; i < count; i += 2)
        run_case(&cases[i], half ? "odd" : "even");
    fflush(NULL);
    _exit(0);
}

/* True if some pair of the case's preset with another value is in no other case. */
static int needs_preset(const pairwise_case *cases, size_t count, size_t at)
{
    for (size_t f = 0; f < FACTORS; f++) {
        size_t others = 0;
        for (size_t i = 0; i < count && f != PRESET; i++)
            others += i != at && cases[i].value[PRESET] == cases[at].value[PRESET] &&
                      cases[i].value[f] == cases[at].value[f];
        if (f != PRESET && others == 0)
            return 1;
    }
    return 0;
}

/* Gives all other cases the preset T4, which is made fastest. */
static size_t prefer_small(pairwise_case *cases, size_t count)
{
    size_t changed = 0;
    for (size_t i = 0; i < count; i++)
        if (strcmp(value(&cases[i], PRESET), "T4") != 0 && !needs_preset(cases, count, i)) {
            cases[i].value[PRESET] = 1;
            assert_string_equal(value(&cases[i], PRESET), "T4");
            changed++;
        }
    return changed;
}

TEST(test_every_pair)
{
    static pairwise_case cases[CASES];
    size_t count = 0, pairs;
    const sb_make_choice *choices = sb_make_choices(SB_MAKE_FORMATS, &count);
    assert_true(count > 3 && count <= PAIRWISE_VALUES);
    const char *all = getenv("CHECK_ALL");
    if (all && strcmp(all, "1") == 0)
        factors[PRESET].count = sizeof presets / sizeof *presets;
    factors[FORMAT].count = count;
    for (size_t i = 0; i < count; i++)
        formats[i] = choices[i].name;
    count = pairwise_cover(factors, FACTORS, "pairs", NULL, cases, CASES, &pairs);
    size_t small = prefer_small(cases, count);
    printf("%zu pairs in %zu cases, %zu of them made T4\n", pairs, count, small);
    pid_t halves[2] = {run_half(cases, count, 0), run_half(cases, count, 1)};
    for (size_t half = 0; half < 2; half++) {
        int status = -1;
        assert_true(halves[half] > 0 && waitpid(halves[half], &status, 0) == halves[half]);
        if (status != 0)
            fail_msg("the %s cases ended with status %d, see above", half ? "odd" : "even", status);
    }
}
