/* test_forced.c - every op compared with transformers, with the recorded inputs: profile exact in
 * binary32, profile hf in bfloat16. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/run/backend.h"
#include "tests/hf/forced.h"

/* T-16: "A bound says nothing if every recorded error is below 2^-13 of it" */
#define WIDEST 0x1p-13

/* The numbers of identical values when the recordings were made: those of the activation type, and
 * those that stay binary32. docs/profiles.md gives the reasons for differences. */
static const struct share {
    const char *recording;
    forced_op op;
    size_t identical, compared, wide_identical, wide_compared;
} shares[] = {
#define HF_SHARE(recording, op, identical, compared, wide_identical, wide_compared)                \
    {recording, FORCED_##op, identical, compared, wide_identical, wide_compared},
#define HF_WHOLE(recording, part, hidden, all_hidden, logits, all_logits)
#include "tests/hf/shares.def"
#undef HF_SHARE
#undef HF_WHOLE
};

static double percent(size_t part, size_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 100.0;
}

static void print_row(const forced *f, forced_op op)
{
    const forced_row *r = &f->rows[op];
    printf("%-8s %-17s %7zu %8.3f %7zu %8.3f %8.3f %9.5f %8.5f %8.5f %5zu  %s\n", f->fixture->name,
           forced_op_name(op), r->compared, percent(r->identical, r->compared), r->wide_compared,
           percent(r->wide_identical, r->wide_compared),
           percent(r->open, r->compared + r->wide_compared), r->apart, r->ours, r->theirs,
           r->adopted, forced_passed(f, op) ? "ok" : r->first);
}

static void check_row(const forced *f, forced_op op)
{
    const forced_row *r = &f->rows[op];
    const char *name = forced_op_name(op);
    if (!forced_passed(f, op))
        fail_msg("%s %s: %s", f->fixture->name, name,
                 r->checks ? r->first : "nothing was compared");
    if (!(r->ours <= 1.0))
        fail_msg("%s %s: the op leaves the bound of the reference arithmetic: %g of it",
                 f->fixture->name, name, r->ours);
    if (!(r->theirs <= 1.0))
        fail_msg("%s %s: the recording leaves the bound of the library arithmetic: %g of it",
                 f->fixture->name, name, r->theirs);
    if (!f->fixture->bf16 && r->open > 0 && r->apart < WIDEST)
        fail_msg("%s %s: mistrusted, the worst error is %g of the bound", f->fixture->name, name,
                 r->apart);
}

/* With SAMEBIT_SHARES=print, tests/hf/shares.sh writes shares.def from this output. With
 * SAMEBIT_SHARES=other, the recording was made on a processor with other instructions, whose sums
 * have other last bits: only the number of values is compared. */
static void check_shares(const forced *f, forced_op op)
{
    const forced_row *r = &f->rows[op];
    const char *name = forced_op_name(op), *print = getenv("SAMEBIT_SHARES");
    if (print && strcmp(print, "print") == 0) {
        printf("HF_SHARE(\"%s\", %s, %zu, %zu, %zu, %zu)\n", f->fixture->name, name, r->identical,
               r->compared, r->wide_identical, r->wide_compared);
        return;
    }
    const int other = print && strcmp(print, "other") == 0;
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        const struct share *s = &shares[i];
        if (s->op != op || strcmp(s->recording, f->fixture->name) != 0)
            continue;
        if (r->compared != s->compared || r->wide_compared != s->wide_compared)
            fail_msg("%s %s: %zu and %zu values compared, shares.def has %zu and %zu", s->recording,
                     name, r->compared, r->wide_compared, s->compared, s->wide_compared);
        if (!other && (r->identical < s->identical || r->wide_identical < s->wide_identical))
            fail_msg("%s %s: %zu and %zu values identical, shares.def has %zu and %zu",
                     s->recording, name, r->identical, r->wide_identical, s->identical,
                     s->wide_identical);
        return;
    }
    fail_msg("%s %s: not in shares.def (tests/hf/shares.sh writes it)", f->fixture->name, name);
}

static void run(const char *preset, const char *type)
{
    static forced f;
    hf_fixture fixture;
    sb_error err = {{0}};
    if (hf_fixture_open(preset, type, &fixture, &err))
        fail_msg("%s", err.text);
    hf_forced_run(&f, &fixture, &sb_backend_ref()->ops);
    printf("recorded op                 values same(%%)    wide  same(%%)  open(%%)     apart     "
           "ours   theirs  ties\n");
    for (int op = 0; op < FORCED_OPS; op++)
        if (forced_applies(&f, (forced_op)op))
            print_row(&f, (forced_op)op);
    assert_int_equal(f.status, SB_OK);
    for (int op = 0; op < FORCED_OPS; op++) {
        if (!forced_applies(&f, (forced_op)op))
            continue;
        check_row(&f, (forced_op)op);
        if (fixture.bf16)
            check_shares(&f, (forced_op)op);
    }
    hf_fixture_close(&fixture);
}

#define CASE(preset, type)                                                                         \
    TEST(test_##preset##_##type)                                                                   \
    {                                                                                              \
        run(#preset, #type);                                                                       \
    }
HF_FIXTURES(CASE)
