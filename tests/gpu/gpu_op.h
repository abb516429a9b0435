/* gpu_op.h - for tests of one op of the GPU path: runs its host side and its kernels in the
 * emulator, and compares with the reference and its bounds. */
#ifndef SB_TESTS_GPU_GPU_OP_H
#define SB_TESTS_GPU_GPU_OP_H

#include "tests/lib/cmocka.h"

#include <initializer_list>
#include <stdlib.h>
#include <string.h>

#include "ref/fast/fast.h"
#include "ref/formats/format.h"
#include "tests/gpu/op_judge.h"
#include "tests/gpu/plant.h"
#include "tests/gpu/schedules.h"
#include "tests/lib/check_all.h"
#include "tests/lib/plain.h"
#include "tests/lib/poison.h"

/* Steps, verifies, and sizes around the tiles of 16 and 64 rows. */
static const size_t call_rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 64, 65};

inline const sb_op_table *ops()
{
    return &sb_backend_emu()->ops;
}

inline sb_knobs sm121()
{
    sb_knobs knobs;
    assert_int_equal(sb_knobs_profile(&knobs, "sm121", nullptr), SB_OK);
    return knobs;
}

inline const char *said()
{
    const char *why = sb_backend_emu()->why();
    return why ? why : "";
}

/* A writable array of bfloat16 values. */
inline float *bf16_values(const char *name, size_t count, float mean, float scale)
{
    const float *drawn = test_normal(name, count, mean, scale);
    float *x = test_copy(drawn, count);
    for (size_t i = 0; i < count; i++)
        x[i] = sb_round_to(SB_FORMAT_bf16, drawn[i]);
    return x;
}

inline bool same_bits(const float *a, const float *b, size_t count)
{
    return memcmp(a, b, count * sizeof *a) == 0;
}

/* Runs the op, which must succeed, under a schedule. */
template <class A>
static void runs(sb_op op, const A &args, uint64_t seed, const sb_knobs &knobs = sm121())
{
    sb_backend_emu_seed(seed);
    if (op_run(ops(), op, &knobs, &args) != SB_OK)
        fail_msg("%s", said());
}

/* Runs the op under a schedule and compares it with the reference. */
template <class A>
static op_judged judged(sb_op op, const A &args, bool exact, uint64_t seed, const sb_knobs &knobs)
{
    op_judged result = op_judged();
    assert_true(sb_gpu_computes(op, &knobs));
    sb_backend_emu_seed(seed);
    if (op_judge(ops(), op, &args, &knobs, exact, &result) != SB_OK)
        fail_msg("%s", said());
    return result;
}

template <class A>
static void is_exact(sb_op op, const A &args, uint64_t seed = 0, const sb_knobs &knobs = sm121())
{
    const op_judged result = judged(op, args, true, seed, knobs);
    if (result.differ)
        fail_msg("%zu of %zu differ, the first: %s", result.differ, result.elements, result.first);
}

template <class A>
static void is_within(sb_op op, const A &args, uint64_t seed = 0, const sb_knobs &knobs = sm121())
{
    const op_judged result = judged(op, args, false, seed, knobs);
    if (result.outside)
        fail_msg("%zu of %zu are outside, the first: %s", result.outside, result.elements,
                 result.first);
}

/* Whether values are wrong, or the emulator has reported a fault. */
template <class A>
static bool is_wrong(sb_op op, const A &args, bool exact, uint64_t seed, const sb_knobs &knobs)
{
    op_judged result = op_judged();
    sb_backend_emu_seed(seed);
    const sb_status status = op_judge(ops(), op, &args, &knobs, exact, &result);
    return status != SB_OK || (exact ? result.differ : result.outside) != 0;
}

/* Asserts that a planted fault is detected under every schedule, and that the op is right without
 * it. */
template <class A>
static void catches(const char *which, sb_op op, const A &args, bool exact = false,
                    uint64_t schedules = SCHEDULES, const sb_knobs &knobs = sm121())
{
    for (uint64_t seed = 0; seed < schedules; seed++) {
        if (is_wrong(op, args, exact, seed, knobs))
            fail_msg("%s: an alarm without it", which);
        plant(which);
        if (!is_wrong(op, args, exact, seed, knobs))
            fail_msg("%s: not caught", which);
        plant("");
    }
}

#endif
