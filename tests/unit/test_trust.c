/* test_trust.c - bounds that are not trusted: T-16 and T-71, from counts alone. */
#include "tests/lib/suite.h"

#include <stdlib.h>

#include "tests/lib/plain.h"
#include "tools/judge/compare/forced_parts.h"

/* So many differing elements are evidence, wherever they are below 2^-13 of their bounds. */
enum { EVIDENCE = 20 };

static sb_forced *comparison(sb_verdicts *verdicts)
{
    static sb_knobs knobs;
    knobs = test_knobs("act=bf16");
    const sb_forced_options options = {
        .knobs = &knobs, .arithmetic = &sb_arithmetic_library, .verdicts = verdicts};
    sb_forced *f = NULL;
    sb_error err = {{0}};
    assert_int_equal(sb_forced_new(NULL, &options, &f, &err), SB_OK);
    return f;
}

static sb_verdict finished(sb_forced *f, sb_verdicts *verdicts)
{
    sb_error err = {{0}};
    assert_int_equal(sb_forced_finish(f, &err), SB_OK);
    sb_verdict verdict = verdicts->ops[SB_OP_attention].verdict;
    sb_forced_free(f);
    sb_verdicts_free(verdicts);
    return verdict;
}

/* The verdict for an op of 1000 elements: `open` have a bound with spread and `zeros` are 0;
 * `differing` differ, the worst by `worst` of its bound. */
static sb_verdict verdict_with(size_t open, size_t zeros, size_t differing, double worst)
{
    sb_verdicts verdicts = {.tokens = NULL};
    sb_forced *f = comparison(&verdicts);
    verdicts.ops[SB_OP_attention].compared = 1000;
    verdicts.ops[SB_OP_attention].identical = 1000 - differing;
    verdicts.ops[SB_OP_attention].open = open;
    verdicts.ops[SB_OP_attention].worst = worst;
    f->counts[SB_OP_attention] = (forced_count){.calls = 1,
                                                .nonzero = 1000 - zeros,
                                                .worst = worst,
                                                .differing = differing,
                                                .distinct = 999,
                                                .pinned = 1000 - open - zeros};
    return finished(f, &verdicts);
}

static sb_verdict verdict_of(size_t open, double worst)
{
    return verdict_with(open, 0, EVIDENCE, worst);
}

/* T-16: "A bound says nothing if every recorded error is below 2^-13 of it"; T-71: "more than half
 * of the op's elements were not 0 and had a bound of 0" */
TEST(test_wide_bounds)
{
    assert_int_equal(verdict_of(1000, 2e-5), SB_VERDICT_MISTRUSTED);
    assert_int_equal(verdict_of(500, 2e-5), SB_VERDICT_MISTRUSTED);
    assert_int_equal(verdict_of(499, 2e-5), SB_VERDICT_WITHIN);
    assert_int_equal(verdict_of(EVIDENCE, 2e-5), SB_VERDICT_WITHIN);
    assert_int_equal(verdict_of(1000, 2e-4), SB_VERDICT_WITHIN);
    assert_int_equal(verdict_with(400, 99, EVIDENCE, 2e-5), SB_VERDICT_WITHIN);
    assert_int_equal(verdict_with(400, 100, EVIDENCE, 2e-5), SB_VERDICT_MISTRUSTED);
    assert_int_equal(verdict_of(499, 1.5), SB_VERDICT_FAIL);
}

/* T-16: "(2^12 w)^n is less than 2^-20" - for one element this is not so, unless its error is
 * almost 0. A single element out of bounds is a FAIL. */
TEST(test_evidence)
{
    static const struct {
        size_t differing;
        double worst;
        sb_verdict verdict;
    } cases[] = {
        {0, 0.0, SB_VERDICT_IDENTICAL},
        {1, 2e-5, SB_VERDICT_WITHIN},
        {1, 0x1p-32, SB_VERDICT_WITHIN},
        {1, 0x1.fp-33, SB_VERDICT_MISTRUSTED},
        {2, 0x1p-22, SB_VERDICT_WITHIN},
        {2, 0x1.fp-23, SB_VERDICT_MISTRUSTED},
        {4, 0x1p-17, SB_VERDICT_WITHIN},
        {4, 0x1.fp-18, SB_VERDICT_MISTRUSTED},
        {10, 0x1p-14, SB_VERDICT_WITHIN},
        {10, 0x1.fp-15, SB_VERDICT_MISTRUSTED},
        {EVIDENCE - 1, 0x1.fffp-14, SB_VERDICT_WITHIN},
        {EVIDENCE, 0x1.fffp-14, SB_VERDICT_MISTRUSTED},
        {1000, 0x1.fffp-14, SB_VERDICT_MISTRUSTED},
        {1000, 0x1p-13, SB_VERDICT_WITHIN},
        {1, 1.5, SB_VERDICT_FAIL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (verdict_with(1000, 0, cases[i].differing, cases[i].worst) != cases[i].verdict)
            fail_msg("%zu elements that differ, by %g of the bound: not %s", cases[i].differing,
                     cases[i].worst, sb_verdict_name(cases[i].verdict));
}

/* 1000 elements with this bound; the first `differing` ones differ, within the bound. */
static sb_verdict verdict_within(double bound, size_t differing)
{
    sb_verdicts verdicts = {.tokens = NULL};
    sb_forced *f = comparison(&verdicts);
    for (size_t i = 0; i < 1000; i++) {
        const float expected = (float)(i + 1), off = i < differing ? 0x1p-12f : 0.0f;
        forced_count_element(f, SB_OP_attention, expected + off, expected, bound, 1);
    }
    f->counts[SB_OP_attention].calls = 1;
    return finished(f, &verdicts);
}

/* Bounds that T-16 still allows, wider ones, and bounds that let everything pass, for which one
 * element is enough evidence. */
TEST(test_bounds)
{
    static const struct {
        double bound;
        size_t evidence; /* 0: the bound is trusted */
    } cases[] = {{0x1p-12, 0},  {0x1p1, 0},    {0x1.0001p1, EVIDENCE},
                 {0x1.1p2, 10}, {0x1.1p5, 4},  {0x1.1p10, 2},
                 {0x1.1p20, 1}, {0x1p1023, 1}, {0x1p1023 * 2.0, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t n = 1; n <= EVIDENCE + 1; n++)
            assert_int_equal(verdict_within(cases[i].bound, n),
                             cases[i].evidence && n >= cases[i].evidence ? SB_VERDICT_MISTRUSTED
                                                                         : SB_VERDICT_WITHIN);
}
