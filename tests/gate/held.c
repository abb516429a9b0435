#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/gate/held.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/formats/format.h"
#include "ref/run/backend.h"
#include "tools/judge/fault/mistakes.h"

sb_gate_case *held_case(const char *op, const char *shape, const char *regime, sb_dtype input)
{
    const sb_gate_request r = {
        .op = op, .shape = shape, .regime = regime, .input = input, .seed = 42};
    sb_gate_case *c = NULL;
    sb_error err = {""};
    if (sb_gate_case_make(&r, &c, &err))
        fail_msg("%s %s %s: %s", op, shape ? shape : "", regime, err.text);
    return c;
}

double *held_bounds(const sb_gate_case *c, const char *arith, size_t output)
{
    sb_gate_arith ar;
    sb_error err = {""};
    double *bound = calloc(c->output[output].count, sizeof *bound);
    assert_non_null(bound);
    if (sb_gate_arith_of(arith, &ar, &err) || sb_gate_bound(c, &ar, output, bound, &err))
        fail_msg("%s: %s", arith, err.text);
    return bound;
}

static double ratio(double got, sb_dd real, double bound)
{
    double error = fabs(got - real.hi - real.lo);
    if (error == 0.0)
        return 0.0;
    return error <= INFINITY && bound > 0.0 ? error / bound : INFINITY;
}

double held_worst_in(const sb_gate_output *y, const double *bound, const float *got)
{
    double worst = 0.0;
    for (size_t i = 0; i < y->count; i++)
        worst = fmax(worst, ratio((double)got[i], y->real[i], bound[i]));
    return worst;
}

double held_worst(const sb_gate_case *c, const char *arith, size_t output, const float *got)
{
    double *bound = held_bounds(c, arith, output);
    double worst = held_worst_in(&c->output[output], bound, got);
    free(bound);
    return worst;
}

size_t held_outside_bf16(const sb_gate_case *c, const char *arith, size_t output, const float *got)
{
    const sb_gate_output *y = &c->output[output];
    double *bound = held_bounds(c, arith, output);
    size_t outside = 0;
    for (size_t i = 0; i < y->count; i++) {
        float rounded = sb_round_to(SB_FORMAT_bf16, got[i]);
        float low = sb_round_to(SB_FORMAT_bf16, (float)(y->real[i].hi - bound[i]));
        float high = sb_round_to(SB_FORMAT_bf16, (float)(y->real[i].hi + bound[i]));
        outside += !(rounded >= low && rounded <= high);
    }
    free(bound);
    return outside;
}

/* Gives the output as I64 beside the exact other outputs, as samebit judge reads them from a
 * file. */
held_choices held_choose(const sb_gate_case *c, const char *arith, size_t output, const float *got)
{
    const sb_gate_output *y = &c->output[output];
    unsigned char *whole = calloc(y->count, 8);
    sb_gate_got given[SB_GATE_OUTPUTS] = {{0}};
    sb_gate_result result;
    sb_gate_arith ar;
    sb_error err = {""};
    assert_non_null(whole);
    for (size_t i = 0; i < y->count; i++)
        sb_store_u64(whole + 8 * i, (uint64_t)got[i]);
    for (size_t o = 0; o < c->outputs; o++) {
        const sb_gate_output *other = &c->output[o];
        if (o != output && other->kind != SB_GATE_VALUES)
            continue;
        given[o] = (sb_gate_got){.dtype = o == output ? SB_DTYPE_I64 : SB_DTYPE_F32,
                                 .rank = other->rank,
                                 .data = o == output ? whole : (unsigned char *)other->exact};
        memcpy(given[o].shape, other->shape, sizeof other->shape);
    }
    if (sb_gate_arith_of(arith, &ar, &err) || sb_gate_judge(c, &ar, given, &result, &err))
        fail_msg("%s", err.text);
    free(whole);
    return (held_choices){.wrong = result.of[output].outside, .open = result.of[output].near_ties};
}

double held_mistake_in(const sb_gate_case *c, const char *arith, size_t output, const char *mistake)
{
    sb_op_table table = sb_backend_ref()->ops;
    float *got[SB_GATE_OUTPUTS] = {NULL};
    sb_knobs knobs;
    sb_knobs_exact(&knobs);
    assert_non_null(sb_planted_find(sb_mistakes, mistake));
    sb_planted_find(sb_mistakes, mistake)->plant(&table);
    for (size_t o = 0; o < c->outputs; o++)
        got[o] = calloc(c->output[o].count, sizeof **got);
    assert_int_equal(sb_gate_exact(c, &knobs, &table, got), SB_OK);
    double worst = held_worst(c, arith, output, got[output]);
    for (size_t o = 0; o < c->outputs; o++)
        free(got[o]);
    return worst;
}

double held_mistake(const sb_gate_case *c, const char *arith, const char *mistake)
{
    return held_mistake_in(c, arith, 0, mistake);
}

static void check_output(const sb_gate_case *c, const char *where, size_t output, double share)
{
    const sb_gate_output *y = &c->output[output];
    double *bound = held_bounds(c, "fp32", output);
    size_t counted = 0, useful = 0;
    for (size_t i = 0; i < y->count; i++) {
        double error = fabs((double)y->exact[i] - y->real[i].hi - y->real[i].lo);
        if (!(error <= bound[i]) || !(bound[i] < INFINITY))
            fail_msg("%s: element %zu of %s, %g from %g, bound %g", where, i, y->name, error,
                     y->real[i].hi, bound[i]);
        counted += y->real[i].hi != 0.0;
        useful += bound[i] < fabs(y->real[i].hi);
    }
    free(bound);
    if (counted == 0 || (double)useful < share * (double)counted)
        fail_msg("%s: of %zu elements that are not 0 the bound of %zu is below the value", where,
                 counted, useful);
}

/* The case must detect a mistake. Otherwise the judge calls kernels that pass MISTRUSTED. */
static void check_power(const sb_gate_case *c, const char *where, const char *arith)
{
    sb_gate_arith ar;
    sb_gate_power power;
    sb_error err = {""};
    if (sb_gate_arith_of(arith, &ar, &err) || sb_gate_power_of(c, &ar, &power, &err))
        fail_msg("%s: %s", where, err.text);
    if (power.of_ops && !power.of_ops_caught)
        fail_msg("%s: %s shows no mistake of the ops: %s", where, arith, power.missed);
}

void held_at(const char *op, const char *shape, const char *regime, sb_dtype input, double share)
{
    char where[256];
    snprintf(where, sizeof where, "%s %s %s %s", op, shape ? shape : "default", regime,
             sb_dtype_name(input));
    sb_gate_case *c = held_case(op, shape, regime, input);
    for (size_t o = 0; o < c->outputs; o++)
        if (c->output[o].kind == SB_GATE_VALUES)
            check_output(c, where, o, share);
    if (!shape) {
        check_power(c, where, "fp32");
        check_power(c, where, "bf16_mma+bf16");
    }
    sb_gate_case_free(c);
}

void held_everywhere(const char *name, double share)
{
    const sb_gate_op *op = sb_gate_op_find(name);
    assert_non_null(op);
    for (int g = 0; g < SB_GATE_REGIMES; g++) {
        const char *regime = sb_gate_regime_name((sb_gate_regime)g);
        if (!sb_gate_takes(op, (sb_gate_regime)g))
            continue;
        held_at(name, NULL, regime, SB_DTYPE_F32, share);
        held_at(name, NULL, regime, SB_DTYPE_F16, share);
        held_at(name, NULL, regime, SB_DTYPE_BF16, share);
        for (size_t s = 0; op->shapes[s]; s++)
            held_at(name, op->shapes[s], regime, SB_DTYPE_BF16, 0.0);
    }
}
