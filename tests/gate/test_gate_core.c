/* test_gate_core.c - cases and their inputs, arithmetics, files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "tests/gate/tiny_op.h"
#include "tools/gate/case.h"

static sb_gate_case *made(const char *shape, const char *regime, sb_dtype input, uint64_t seed)
{
    sb_gate_request r = {.shape = shape, .regime = regime, .input = input, .seed = seed};
    sb_gate_case *c = NULL;
    sb_error err = {""};
    if (sb_gate_case_of(tiny_op(), &r, &c, &err))
        fail_msg("%s", err.text);
    return c;
}

static void exact_lies_within_the_bound_of_every_arithmetic(void **state)
{
    (void)state;
    sb_gate_case *c = made("rows=5,k=33", "normal", SB_DTYPE_F32, 42);
    double *bound = calloc(c->output[0].count, sizeof *bound);
    assert_non_null(bound);
    for (size_t a = 0; a < sb_gate_arith_count(); a++) {
        sb_gate_arith ar;
        assert_int_equal(sb_gate_arith_at(a, &ar), SB_OK);
        assert_int_equal(sb_gate_bound(c, &ar, 0, bound, NULL), SB_OK);
        for (size_t i = 0; i < c->output[0].count; i++) {
            sb_dd real = c->output[0].real[i];
            double error = (double)c->output[0].exact[i] - real.hi - real.lo;
            if (ar.knobs.value[SB_KNOB_act] == SB_act_f32)
                assert_true((error < 0 ? -error : error) <= bound[i]);
        }
    }
    free(bound);
    sb_gate_case_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_lies_within_the_bound_of_every_arithmetic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
