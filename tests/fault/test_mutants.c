/* test_mutants.c - the comparison with transformers catches mistakes, and nothing else. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <string.h>

#include "ref/run/backend.h"
#include "tools/judge/fault/mistakes.h"
#include "tests/hf/forced.h"

static hf_fixture fixture;

TEST_FIXTURE(open_fixture)
{
    sb_error err = {{0}};
    if (hf_fixture_open("T1", "f32", &fixture, &err)) {
        print_error("%s\n", err.text);
        return -1;
    }
    return 0;
}

TEST_FIXTURE(close_fixture)
{
    hf_fixture_close(&fixture);
    return 0;
}

/* Runs the comparison. Returns the number of ops that failed; *last is the last of them. */
static unsigned failures(const sb_op_table *ops, forced *f, forced_op *last)
{
    unsigned count = 0;
    hf_forced_run(f, &fixture, ops);
    assert_int_equal(f->status, SB_OK);
    for (int op = 0; op < FORCED_OPS; op++)
        if (!forced_passed(f, (forced_op)op)) {
            *last = (forced_op)op;
            count++;
        }
    return count;
}

TEST(test_reference_passes)
{
    static forced f;
    forced_op last = FORCED_OPS;
    unsigned count = failures(&sb_backend_ref()->ops, &f, &last);
    if (count)
        fail_msg("%s: %s", forced_op_name(last), f.rows[last].first);
}

/* A mistake fails in its own op only. A harmless twin fails nowhere, although its bits differ. */
static void run_mutant(const sb_planted *m)
{
    static forced f;
    forced_op last = FORCED_OPS;
    sb_op_table ops = sb_backend_ref()->ops;
    m->plant(&ops);
    unsigned count = failures(&ops, &f, &last);
    if (m->benign && count)
        fail_msg("%s: %s does not pass: %s", m->name, forced_op_name(last), f.rows[last].first);
    if (!m->benign && count == 0)
        fail_msg("%s survives: %s", m->name, m->words);
    if (!m->benign && (count > 1 || strcmp(forced_op_name(last), m->where) != 0))
        fail_msg("%s is seen in %u ops, one of them %s: %s", m->name, count, forced_op_name(last),
                 f.rows[last].first);
    if (!m->benign)
        printf("caught   %-22s %-16s %s\n", m->name, m->where, f.rows[last].first);
    for (int op = 0; m->benign && op < FORCED_OPS; op++)
        if (strcmp(forced_op_name((forced_op)op), m->where) == 0)
            printf("harmless %-22s %-16s identical %zu of %zu, worst %.3f of the bound\n", m->name,
                   m->where, f.rows[op].identical, f.rows[op].compared, f.rows[op].apart);
}

TEST(test_mistakes_are_caught)
{
    for (size_t i = 0; sb_mistakes[i].name; i++)
        if (!sb_mistakes[i].benign)
            run_mutant(&sb_mistakes[i]);
}

TEST(test_other_orders_pass)
{
    unsigned count = 0;
    for (size_t i = 0; sb_mistakes[i].name; i++)
        if (sb_mistakes[i].benign) {
            run_mutant(&sb_mistakes[i]);
            count++;
        }
    assert_true(count >= 2);
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

TEST_GROUP(open_fixture, close_fixture)
