/* test_mtp.c - the MTP head compared with an independent implementation: value by value with
 * recorded inputs, in derived bounds; from recorded hidden vectors to drafts; and with planted
 * mistakes. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ref/run/session.h"
#include "tools/judge/fault/mistakes.h"
#include "tests/hf/head_plants.h"
#include "tests/hf/voice.h"

/* T-16: "A bound says nothing if every recorded error is below 2^-13 of it" */
#define WIDEST 0x1p-13

/* T-15: "A difference of more than 16 envelopes fails" */
#define ENVELOPES 16.0

enum { MODELS = 3, SEEDS = 3 };
static const char *const model_names[MODELS] = {"moe", "dense", "next"};
static voice models[MODELS];

TEST_FIXTURE(open_models)
{
    sb_error err = {""};
    for (size_t i = 0; i < MODELS; i++)
        if (voice_open(model_names[i], &models[i], &err)) {
            print_error("%s\n", err.text);
            return -1;
        }
    return 0;
}

TEST_FIXTURE(close_models)
{
    for (size_t i = 0; i < MODELS; i++)
        voice_close(&models[i]);
    return 0;
}

/* Runs the traced entries value by value; returns the number of values. */
static size_t force(voice *v, const sb_backend *backend, const sb_knobs *knobs,
                    const sb_arithmetic *ours, forced *f)
{
    hf_arena arena = {0};
    voice_run run = {
        .v = v, .backend = backend, .knobs = knobs, .ours = ours, .f = f, .proposed = v->draft_ids};
    *f = (forced){.fixture = &v->fixture};
    sb_knobs_exact(&f->knobs);
    sb_knobs_exact(&f->their_knobs);
    assert_int_equal(sb_knobs_set(&f->their_knobs, "moe_sum=slots", NULL), SB_OK); /* T-17 */
    run.logits = hf_floats(&arena, (size_t)VOICE_DRAFTS * v->fixture.model->config.vocab_size);
    for (size_t i = 0; i < VOICE_TRACED; i++)
        if (voice_run_entry(&run, voice_traced[i]))
            fail_msg("%s: %s", v->fixture.name, run.err.text);
    assert_int_equal(f->status, SB_OK);
    hf_release(&f->arena);
    hf_release(&arena);
    return run.steps;
}

static unsigned failures(const forced *f, forced_op *last)
{
    unsigned count = 0;
    for (int op = 0; op < FORCED_OPS; op++)
        if (f->rows[op].checks && !forced_passed(f, (forced_op)op)) {
            *last = (forced_op)op;
            count++;
        }
    return count;
}

static void check_row(const forced *f, forced_op op)
{
    const forced_row *r = &f->rows[op];
    const char *name = forced_op_name(op), *model = f->fixture->name;
    printf(
        "%-6s %-12s %6zu values, %6zu identical, worst %.5f of the bound, mtp.py in its own %.5f\n",
        model, name, r->compared, r->identical, r->apart, r->theirs);
    if (!forced_passed(f, op))
        fail_msg("%s %s: %s", model, name, r->first);
    if (!(r->ours <= 1.0) || !(r->theirs <= 1.0))
        fail_msg("%s %s: a side leaves its own ball: ours %g of it, mtp.py %g", model, name,
                 r->ours, r->theirs);
    if (r->open > 0 && r->theirs < WIDEST)
        fail_msg("%s %s: mistrusted, the worst error is %g of the bound", model, name, r->theirs);
}

/* One call per traced entry that has earlier entries, and one per draft. */
static size_t expected_steps(const voice *v)
{
    size_t calls = (size_t)VOICE_TRACED * VOICE_DRAFTS;
    for (size_t i = 0; i < VOICE_TRACED; i++)
        calls += voice_traced[i] > 0;
    return calls * voice_steps(v) + (size_t)VOICE_TRACED * VOICE_DRAFTS;
}

TEST(test_every_value)
{
    static forced f;
    for (size_t i = 0; i < MODELS; i++) {
        size_t steps = force(&models[i], NULL, NULL, &sb_arithmetic_reference, &f);
        assert_int_equal(steps, expected_steps(&models[i]));
        for (int op = 0; op < FORCED_OPS; op++)
            if (f.rows[op].checks)
                check_row(&f, (forced_op)op);
    }
}

/* Logits of all entries and depths from recorded hidden vectors: (entries, VOICE_DRAFTS, V). */
static const float *end_to_end(voice *v, const sb_backend *backend, const sb_knobs *knobs,
                               const float *proposed, uint64_t seed)
{
    size_t rows = v->entries * VOICE_DRAFTS;
    voice_run run = {
        .v = v, .backend = backend, .knobs = knobs, .proposed = proposed, .seed = seed};
    run.logits = hf_floats(&v->arena, rows * v->fixture.model->config.vocab_size);
    if (voice_run_all(&run))
        fail_msg("%s: %s", v->fixture.name, run.err.text);
    return run.logits;
}

/* The largest difference of logits at one depth. */
static double distance(const voice *v, const float *a, const float *b, size_t depth)
{
    size_t V = v->fixture.model->config.vocab_size;
    double most = 0.0;
    for (size_t t = 0; t < v->entries; t++)
        for (size_t i = 0; i < V; i++) {
            size_t at = (t * VOICE_DRAFTS + depth) * V + i;
            double d = fabs((double)a[at] - (double)b[at]);
            most = d <= most ? most : d; /* a NaN stays the maximum */
        }
    return most;
}

/* The distance between the two largest logits. */
static double margin_of(const float *logits, size_t V)
{
    uint32_t best = sb_greedy(logits, V);
    double second = -INFINITY;
    for (size_t i = 0; i < V; i++)
        if (i != best)
            second = fmax(second, (double)logits[i]);
    return (double)logits[best] - second;
}

/* The logits and drafts of one arrangement of the head. `prefix` is its name in the recording. */
static void check_arrangement(voice *v, const sb_knobs *knobs, const char *prefix)
{
    char name[64];
    size_t V = v->fixture.model->config.vocab_size, sure = 0, count = v->entries * VOICE_DRAFTS;
    snprintf(name, sizeof name, "%sdraft_ids", prefix);
    const float *ids = voice_values(v, name);
    snprintf(name, sizeof name, "%sdraft_logits", prefix);
    const float *want = voice_values(v, name), *got = end_to_end(v, NULL, knobs, ids, 0);
    double bound[VOICE_DRAFTS] = {0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const float *other = end_to_end(v, NULL, knobs, ids, seed);
        for (size_t j = 0; j < VOICE_DRAFTS; j++)
            bound[j] = fmax(bound[j], ENVELOPES * distance(v, got, other, j));
    }
    for (size_t j = 0; j < VOICE_DRAFTS; j++) {
        double apart = distance(v, got, want, j);
        printf("%-6s %-20s draft %zu: %.2e apart, %.2f envelopes of %.2e\n", v->fixture.name,
               prefix, j + 1, apart, apart / bound[j] * ENVELOPES, bound[j] / ENVELOPES);
        assert_true(bound[j] > 0 && apart <= bound[j]);
    }
    for (size_t i = 0; i < count; i++) {
        double margin = margin_of(want + i * V, V);
        if (!(margin > 2 * bound[i % VOICE_DRAFTS]))
            continue;
        sure++;
        assert_int_equal(sb_greedy(got + i * V, V), (uint32_t)ids[i]);
    }
    printf("%-6s %-20s %zu of %zu drafts are sure, and equal\n", v->fixture.name, prefix, sure,
           count);
    assert_true(sure * 10 >= count * 9);
}

TEST(test_end_to_end)
{
    for (size_t i = 0; i < MODELS; i++)
        check_arrangement(&models[i], NULL, "");
}

/* K-26 to K-28 */
TEST(test_arrangements)
{
    static const struct {
        const char *prefix, *knobs[2];
    } rows[] = {{"variant.shifted.", {"mtp_position=token", NULL}},
                {"variant.zero_first.", {"mtp_position=token", "mtp_first=zeros"}},
                {"variant.before_norm.", {"mtp_hidden=residual", NULL}}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        sb_knobs knobs;
        sb_knobs_exact(&knobs);
        for (size_t k = 0; k < 2 && rows[r].knobs[k]; k++)
            assert_int_equal(sb_knobs_set(&knobs, rows[r].knobs[k], NULL), SB_OK);
        for (size_t i = 0; i < MODELS; i++)
            check_arrangement(&models[i], &knobs, rows[r].prefix);
    }
}

/* A mistake fails in its own op, first at its own place. From end to end it fails, too, unless it
 * makes no difference in exact arithmetic. */
static void check_plant(voice *v, const head_plant *plant)
{
    static forced f;
    sb_backend backend = *sb_backend_ref();
    sb_knobs knobs;
    forced_op last = FORCED_OPS;
    double envelope = 0, apart = 0;
    sb_knobs_exact(&knobs);
    assert_int_equal(head_plant_set(plant, v->fixture.model, &backend.ops, &knobs), SB_OK);
    force(v, &backend, &knobs, &sb_arithmetic_library, &f);
    unsigned count = failures(&f, &last);
    if (count == 0)
        fail_msg("%s: %s survives: %s", v->fixture.name, plant->name, plant->what);
    const char *first = f.rows[last].first;
    printf("caught %-6s %-18s %s\n", v->fixture.name, plant->name, first);
    size_t length = strlen(plant->tap);
    if (count > 1 || last != plant->op || strncmp(first, plant->tap, length) != 0 ||
        first[length] != ':')
        fail_msg("%s: %s is seen in %u ops, one of them %s: %s", v->fixture.name, plant->name,
                 count, forced_op_name(last), first);

    const float *sound = end_to_end(v, NULL, NULL, v->draft_ids, 0);
    const float *other = end_to_end(v, NULL, NULL, v->draft_ids, 1);
    const float *wrong = end_to_end(v, &backend, &knobs, v->draft_ids, 0);
    for (size_t j = 0; j < VOICE_DRAFTS; j++) {
        envelope = fmax(envelope, distance(v, sound, other, j));
        apart = fmax(apart, distance(v, sound, wrong, j));
    }
    printf("       %-6s %-18s %.1e envelopes\n", v->fixture.name, plant->name, apart / envelope);
    assert_true(plant->harmless ? apart > 0 && apart <= ENVELOPES * envelope
                                : apart > 100 * ENVELOPES * envelope);
}

TEST(test_mistakes_are_caught)
{
    for (size_t i = 0; i < MODELS; i++)
        for (size_t p = 0; p < head_plant_count(); p++)
            if (models[i].fixture.model->config.experts || !head_plant_at(p)->mixture)
                check_plant(&models[i], head_plant_at(p));
}

/* Twins with another order of summation pass, in the ball of a library. */
TEST(test_harmless_twins_pass)
{
    static forced f;
    size_t twins = 0;
    for (size_t m = 0; sb_mistakes[m].name; m++) {
        sb_backend backend = *sb_backend_ref();
        if (!sb_mistakes[m].benign)
            continue;
        sb_mistakes[m].plant(&backend.ops);
        twins++;
        for (size_t i = 0; i < MODELS; i++) {
            forced_op last = FORCED_OPS;
            force(&models[i], &backend, NULL, &sb_arithmetic_library, &f);
            if (failures(&f, &last))
                fail_msg("%s: %s does not pass: %s", model_names[i], sb_mistakes[m].name,
                         f.rows[last].first);
            const forced_row *r = &f.rows[FORCED_linear];
            printf("harmless %-6s %-20s identical %zu of %zu, worst %.3f of the bound\n",
                   model_names[i], sb_mistakes[m].name, r->identical, r->compared, r->apart);
            /* a twin of linear must change bits, or it did not run */
            assert_true(sb_mistakes[m].op != SB_OP_linear || r->identical < r->compared);
        }
    }
    assert_true(twins >= 3);
}

TEST_GROUP(open_models, close_models)
