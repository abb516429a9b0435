/* test_gate_worth.c - every op of the list, in every format and regime: the inputs can reveal
 * mistakes, and profile exact passes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tests/lib/check_all.h"
#include "tests/lib/suite.h"
#include "tools/judge/gate/case.h"

static double size_of(double x)
{
    return x < 0.0 ? -x : x;
}

/* If a bound is as large as the value, an output of 0 passes. `share` of the elements that are not
 * 0 have a smaller bound. */
static void check_output(const sb_gate_case *c, const sb_gate_arith *ar, double share, size_t o)
{
    const sb_gate_output *y = &c->output[o];
    size_t shown = 0, zeros = 0;
    double *bound = sb_alloc(y->count, sizeof *bound);
    assert_non_null(bound);
    assert_int_equal(sb_gate_bound(c, ar, o, bound, NULL), SB_OK);
    for (size_t i = 0; i < y->count; i++) {
        double error = size_of((double)y->exact[i] - y->real[i].hi - y->real[i].lo);
        if (!(error <= bound[i]))
            fail_msg("%s %s %s %s: out.%s[%zu]: exact is off by %g, bound %g", c->op->name,
                     c->format, sb_gate_regime_name(c->regime), ar->name, y->name, i, error,
                     bound[i]);
        zeros += y->real[i].hi == 0.0;
        shown += bound[i] < size_of(y->real[i].hi);
    }
    if (y->kind == SB_GATE_VALUES &&
        (shown == 0 || (double)shown < share * (double)(y->count - zeros)))
        fail_msg("%s %s %s %s: out.%s: of %zu elements, %zu of them 0, only %zu show anything",
                 c->op->name, c->format, sb_gate_regime_name(c->regime), ar->name, y->name,
                 y->count, zeros, shown);
    free(bound);
}

static void check_case(const sb_gate_op *op, const char *format, sb_gate_regime regime)
{
    /* a matrix unit loses a part of its largest term, which can exceed small elements */
    static const struct {
        const char *name;
        double share;
    } ariths[] = {{"fp32", 0.5}, {"bf16_mma", 0.25}};
    const sb_gate_request r = {.format = format,
                               .regime = sb_gate_regime_name(regime),
                               .input = SB_DTYPE_BF16,
                               .seed = 42};
    sb_gate_case *c = NULL;
    sb_error err = {""};
    if (sb_gate_case_of(op, &r, &c, &err))
        fail_msg("%s", err.text);
    for (size_t a = 0; a < 2; a++) {
        sb_gate_arith ar;
        assert_int_equal(sb_gate_arith_of(ariths[a].name, &ar, NULL), SB_OK);
        for (size_t o = 0; o < c->outputs; o++)
            check_output(c, &ar, ariths[a].share, o);
    }
    sb_gate_case_free(c);
}

/* `make check` takes every regime of an op in its first format, and every other format in one
 * regime.
 */
TEST(inputs_of_every_regime_can_show_something)
{
    static const char *const none[] = {NULL, NULL};
    for (size_t i = 0; i < sb_gate_op_count(); i++) {
        const sb_gate_op *op = sb_gate_op_at(i);
        const char *const *formats = op->formats ? op->formats : none;
        size_t regimes = 0;
        for (int regime = 0; regime < SB_GATE_REGIMES; regime++)
            regimes += sb_gate_takes(op, (sb_gate_regime)regime) != 0;
        for (size_t f = 0; f == 0 || formats[f]; f++) {
            size_t turn = 0;
            for (int regime = 0; regime < SB_GATE_REGIMES; regime++)
                if (sb_gate_takes(op, (sb_gate_regime)regime) &&
                    (turn++ == f % regimes || f == 0 || check_all()))
                    check_case(op, formats[f], (sb_gate_regime)regime);
        }
    }
}
