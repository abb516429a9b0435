/* test_trust.c - which bounds nobody believes: T-16 and T-71, from counts alone. */
#include "tests/lib/cmocka.h"

#include <stdlib.h>

#include "tests/lib/plain.h"
#include "tools/compare/forced_parts.h"

/* An op of 1000 elements: so many with spread, one of which differs by a share of its bound, and so
 * many that are 0. */
static sb_verdict verdict_with(size_t open, size_t zeros, double worst)
{
    sb_knobs knobs = test_knobs("act=bf16");
    sb_verdicts verdicts = {.tokens = NULL};
    const sb_forced_options options = {
        .knobs = &knobs, .arithmetic = &sb_arithmetic_library, .verdicts = &verdicts};
    sb_forced *f = NULL;
    sb_error err = {{0}};
    assert_int_equal(sb_forced_new(NULL, &options, &f, &err), SB_OK);
    verdicts.ops[SB_OP_attention].compared = 1000;
    verdicts.ops[SB_OP_attention].identical = 999;
    verdicts.ops[SB_OP_attention].open = open;
    verdicts.ops[SB_OP_attention].worst = worst;
    f->counts[SB_OP_attention] = (forced_count){.calls = 1,
                                                .nonzero = 1000 - zeros,
                                                .differing = 1,
                                                .distinct = 999,
                                                .pinned = 1000 - open - zeros};
    assert_int_equal(sb_forced_finish(f, &err), SB_OK);
    sb_verdict verdict = verdicts.ops[SB_OP_attention].verdict;
    sb_forced_free(f);
    sb_verdicts_free(&verdicts);
    return verdict;
}

static sb_verdict verdict_of(size_t open, double worst)
{
    return verdict_with(open, 0, worst);
}

/* T-16: "a bound that no recorded error comes within 2^-13 of says nothing"; T-71: "more than half
 * of an op's elements were not 0 and had a bound of 0" */
static void test_wide_bounds(void **state)
{
    (void)state;
    assert_int_equal(verdict_of(1000, 2e-5), SB_VERDICT_MISTRUSTED);
    assert_int_equal(verdict_of(500, 2e-5), SB_VERDICT_MISTRUSTED);
    assert_int_equal(verdict_of(499, 2e-5), SB_VERDICT_WITHIN);
    assert_int_equal(verdict_of(1, 2e-5), SB_VERDICT_WITHIN);
    assert_int_equal(verdict_of(1000, 2e-4), SB_VERDICT_WITHIN);
    assert_int_equal(verdict_with(400, 99, 2e-5), SB_VERDICT_WITHIN);
    assert_int_equal(verdict_with(400, 100, 2e-5), SB_VERDICT_MISTRUSTED);
    assert_int_equal(verdict_of(499, 1.5), SB_VERDICT_FAIL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wide_bounds),
    };
    return cmocka_run_group_tests_name("trust", tests, NULL, NULL);
}
