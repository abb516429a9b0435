/* op_test.h - for tests of one op of the GPU path: its host side and its kernels, run by the
 * emulator, beside the reference and its bounds. */
#ifndef SB_TESTS_GPU_OP_TEST_H
#define SB_TESTS_GPU_OP_TEST_H

#include "tests/lib/cmocka.h"

#include <initializer_list>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gpu/kernel/value.cuh"
#include "gpu/op/gpu.h"
#include "tests/gpu/plant.h"

extern "C" {
#include "tests/lib/plain.h"
#include "tests/lib/poison.h"
#include "tools/compare/bound.h"
}

static sb_gpu *body;

/* Steps, verifies, and what lies about the tiles of 16 and 64 rows. */
static const size_t call_rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 64, 65};

enum { SCHEDULES = 5 };

/* What a check says that could not be made, or of bits that should be the same. */
static const double WRONG = 1e30;

static inline sb_knobs knobs_of(const char *profile)
{
    sb_knobs knobs;
    sb_error err = {};
    assert_int_equal(sb_knobs_profile(&knobs, profile, &err), SB_OK);
    return knobs;
}

/* The kernels' arithmetic: sums in any order, on the bf16 unit, and functions as the reference's.
 */
static inline const sb_arithmetic *own_arithmetic()
{
    static sb_arithmetic own;
    own = *sb_arithmetic_of("sm120_f16");
    own.function = 1.0;
    return &own;
}

/* An array that may change, of bfloat16 values. */
static inline float *bf16_values(const char *name, size_t count, float mean, float scale)
{
    float *x = test_copy(test_normal(name, count, mean, scale), count);
    for (size_t i = 0; i < count; i++)
        x[i] = sb_wide(sb_narrow<uint16_t>(x[i]));
    return x;
}

static inline bool same_bits(const float *a, const float *b, size_t count)
{
    return memcmp(a, b, count * sizeof *a) == 0;
}

/* The largest difference, in units of what two evaluations in these balls may differ by; bits must
 * be the same where that is 0. How many elements differ is added to *differ. */
static inline double apart(const float *got, const float *want, const sb_ball *mine,
                           const sb_ball *theirs, size_t count, size_t *differ)
{
    double worst = 0.0;
    for (size_t i = 0; i < count; i++) {
        const double error = fabs(static_cast<double>(got[i]) - static_cast<double>(want[i]));
        const double ratio = error / (SB_BOUND_SLACK * sb_ball_distance(mine[i], theirs[i]));
        if (error == 0.0)
            continue;
        *differ += 1;
        worst = ratio < WRONG ? fmax(worst, ratio) : WRONG;
    }
    return worst;
}

/* Runs an op that may fail, under a seed; says what a right kernel should not have said. */
#define RUNS(seed, call) (sb_emu_seed(sb_gpu_emulator(body), seed), ran(call))
static inline bool ran(sb_status status)
{
    if (status != SB_OK && !*planted)
        fail_msg("status %d: %s", static_cast<int>(status), sb_gpu_said(body)->text);
    return status == SB_OK;
}

/* check() is about 1 or less without a fault and must not be with it. */
static inline void caught(const char *fault, double (*check)())
{
    plant(fault);
    const double worst = check();
    plant("");
    if (worst <= 1.0)
        fail_msg("%s: not caught, %.3g of the bound", fault, worst);
    printf("  %-24s %s\n", fault,
           worst < WRONG              ? "out of the bound"
           : *sb_gpu_said(body)->text ? sb_gpu_said(body)->text
                                      : "other bits");
}

template <size_t N> int run_op_tests(const CMUnitTest (&tests)[N])
{
    sb_error err = {};
    if (sb_gpu_open(&body, &err) != SB_OK)
        return 1;
    const int failed = cmocka_run_group_tests(tests, nullptr, nullptr);
    sb_gpu_close(body);
    return failed;
}

#endif
