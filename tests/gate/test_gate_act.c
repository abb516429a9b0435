/* test_gate_act.c - vectors of activations: swiglu, and the quantization of inputs. */
#include "tests/lib/cmocka.h"

#include <math.h>
#include <mpfr.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gate/check_op.h"

/* --- swiglu --------------------------------------------------------------------------------- */

static float *run_swiglu(const sb_gate_case *c, int how)
{
    float *gate = sb_gate_values(c, "gate"), *up = sb_gate_values(c, "up");
    for (size_t i = 0; i < c->output[0].count; i++)
        gate[i] = how ? up[i] * gate[i] * (1.0f / (1.0f + expf(-gate[i])))
                      : gate[i] / (1.0f + expf(-gate[i])) * up[i];
    free(up);
    return gate;
}

static void check_real_swiglu(const sb_gate_case *c)
{
    float *gate = sb_gate_values(c, "gate"), *up = sb_gate_values(c, "up");
    mpfr_t y, e;
    mpfr_inits2(300, y, e, (mpfr_ptr)0);
    for (size_t i = 0; i < c->output[0].count; i++) {
        mpfr_set_d(e, -(double)gate[i], MPFR_RNDN);
        mpfr_exp(e, e, MPFR_RNDN);
        mpfr_add_ui(e, e, 1, MPFR_RNDN);
        mpfr_set_d(y, (double)gate[i] * (double)up[i], MPFR_RNDN);
        mpfr_div(y, y, e, MPFR_RNDN);
        double real = mpfr_get_d(y, MPFR_RNDN);
        mpfr_sub_d(y, y, c->output[0].real[i].hi, MPFR_RNDN);
        mpfr_sub_d(y, y, c->output[0].real[i].lo, MPFR_RNDN);
        assert_true(fabs(mpfr_get_d(y, MPFR_RNDN)) <= 0x1p-88 * fabs(real) + 0x1p-1000);
    }
    mpfr_clears(y, e, (mpfr_ptr)0);
    free(gate);
    free(up);
}

static void test_swiglu(void **state)
{
    const char *const *shapes = sb_gate_op_swiglu()->shapes;
    (void)state;
    for (int regime = 0; regime < SB_GATE_REGIMES; regime++)
        for (size_t s = 0; s == 0 || shapes[s - 1]; s++) {
            sb_gate_case *c = check_case("swiglu", NULL, s ? shapes[s - 1] : NULL,
                                         (sb_gate_regime)regime, SB_DTYPE_BF16);
            if (s == 0)
                check_contract(c);
            check_real_swiglu(c);
            for (int how = 0; how < 2; how++) {
                float *got = run_swiglu(c, how);
                assert_int_equal(check_outside(c, "fp32", got, NULL), 0);
                for (size_t i = 0; i < c->output[0].count; i++)
                    got[i] = sb_round_to(SB_FORMAT_bf16, got[i]);
                assert_int_equal(check_outside_rounded(c, "fp32", SB_FORMAT_bf16, got), 0);
                free(got);
            }
            if (s == 0 && regime == SB_GATE_REGIME_normal)
                check_mistakes(c);
            sb_gate_case_free(c);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_swiglu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
