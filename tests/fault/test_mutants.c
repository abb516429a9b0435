/* test_mutants.c - the comparison with transformers catches mistakes, and nothing else. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <string.h>

#include "ref/run/backend.h"
#include "tools/judge/fault/mistakes.h"
#include "tests/hf/forced.h"

/* A hybrid with every op of its family, and a Qwen3 with experts, a dense layer and plain norms. */
enum { MODELS = 2 };
static const char *const presets[MODELS] = {"T1", "T7"};
static hf_fixture fixtures[MODELS];

TEST_FIXTURE(open_fixtures)
{
    sb_error err = {{0}};
    for (size_t i = 0; i < MODELS; i++)
        if (hf_fixture_open(presets[i], "f32", &fixtures[i], &err)) {
            print_error("%s\n", err.text);
            return -1;
        }
    return 0;
}

TEST_FIXTURE(close_fixtures)
{
    for (size_t i = 0; i < MODELS; i++)
        hf_fixture_close(&fixtures[i]);
    return 0;
}

/* Runs the comparison. Returns the number of ops that failed; *last is the last of them. */
static unsigned failures(const hf_fixture *fixture, const sb_op_table *ops, forced *f,
                         forced_op *last)
{
    unsigned count = 0;
    hf_forced_run(f, fixture, ops);
    assert_int_equal(f->status, SB_OK);
    for (int op = 0; op < FORCED_OPS; op++)
        if (forced_applies(f, (forced_op)op) && !forced_passed(f, (forced_op)op)) {
            *last = (forced_op)op;
            count++;
        }
    return count;
}

TEST(test_reference_passes)
{
    static forced f;
    for (size_t i = 0; i < MODELS; i++) {
        forced_op last = FORCED_OPS;
        if (failures(&fixtures[i], &sb_backend_ref()->ops, &f, &last))
            fail_msg("%s: %s", forced_op_name(last), f.rows[last].first);
    }
}

/* The recorded model has the op; and a shared expert, if the mistake is in its gate. */
static int possible(const hf_fixture *fixture, const sb_planted *m)
{
    const forced f = {.fixture = fixture};
    for (int op = 0; op < FORCED_OPS; op++)
        if (strcmp(forced_op_name((forced_op)op), m->where) == 0)
            return forced_applies(&f, (forced_op)op) &&
                   (fixture->model->config.shared_intermediate ||
                    strcmp(m->name, "shared_gate_missing") != 0);
    return 0;
}

/* A mistake fails in its own op only. A harmless twin fails nowhere, although its bits differ. */
static void run_mutant(const hf_fixture *fixture, const sb_planted *m)
{
    static forced f;
    forced_op last = FORCED_OPS;
    sb_op_table ops = sb_backend_ref()->ops;
    m->plant(&ops);
    unsigned count = failures(fixture, &ops, &f, &last);
    if (m->benign && count)
        fail_msg("%s: %s does not pass: %s", m->name, forced_op_name(last), f.rows[last].first);
    if (!m->benign && count == 0)
        fail_msg("%s survives: %s", m->name, m->words);
    if (!m->benign && (count > 1 || strcmp(forced_op_name(last), m->where) != 0))
        fail_msg("%s is seen in %u ops, one of them %s: %s", m->name, count, forced_op_name(last),
                 f.rows[last].first);
    if (!m->benign)
        printf("caught   %s %-22s %-16s %s\n", fixture->name, m->name, m->where,
               f.rows[last].first);
    for (int op = 0; m->benign && op < FORCED_OPS; op++)
        if (strcmp(forced_op_name((forced_op)op), m->where) == 0)
            printf("harmless %-22s %-16s identical %zu of %zu, worst %.3f of the bound\n", m->name,
                   m->where, f.rows[op].identical, f.rows[op].compared, f.rows[op].apart);
}

TEST(test_mistakes_are_caught)
{
    size_t counts[MODELS] = {0};
    for (size_t i = 0; sb_mistakes[i].name; i++)
        for (size_t j = 0; j < MODELS && !sb_mistakes[i].benign; j++)
            if (possible(&fixtures[j], &sb_mistakes[i])) {
                run_mutant(&fixtures[j], &sb_mistakes[i]);
                counts[j]++;
            }
    printf("caught in %s: %zu, in %s: %zu\n", presets[0], counts[0], presets[1], counts[1]);
    assert_true(counts[0] >= 25 && counts[1] >= 11);
}

TEST(test_other_orders_pass)
{
    size_t counts[MODELS] = {0};
    for (size_t i = 0; sb_mistakes[i].name; i++)
        for (size_t j = 0; j < MODELS && sb_mistakes[i].benign; j++)
            if (possible(&fixtures[j], &sb_mistakes[i])) {
                run_mutant(&fixtures[j], &sb_mistakes[i]);
                counts[j]++;
            }
    assert_true(counts[0] >= 2 && counts[1] >= 2);
}

TEST(test_every_op_has_a_mutant)
{
    for (size_t op = 0; op < sb_op_count(); op++) {
        unsigned count = 0;
        for (size_t i = 0; sb_mistakes[i].name; i++)
            count += !sb_mistakes[i].benign && strcmp(sb_mistakes[i].where, sb_op_name(op)) == 0;
        if (count == 0)
            fail_msg("ops.def has %s, mistakes.def has no mistake in it", sb_op_name(op));
    }
}

TEST_GROUP(open_fixtures, close_fixtures)
