/* gpu_op.h - what the tests of ops on the emulator share. */
#ifndef SB_TESTS_GPU_GPU_OP_H
#define SB_TESTS_GPU_GPU_OP_H

#include "tests/lib/cmocka.h"

#include <initializer_list>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/plant.h"

extern "C" {
#include "tests/gpu/op_judge.h"
}

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

inline bool check_all()
{
    const char *all = getenv("CHECK_ALL");
    return all && *all;
}

/* The op under several schedules: what `judge` adds up, it returns. */
template <class A> static op_judged judged(sb_op op, const A &args, bool exact, uint64_t seed)
{
    op_judged result = op_judged();
    const sb_knobs knobs = sm121();
    assert_true(sb_gpu_computes(op, &knobs));
    sb_backend_emu_seed(seed);
    if (op_judge(ops(), op, &args, &knobs, exact, &result) != SB_OK)
        fail_msg("%s", said());
    return result;
}

template <class A> static void is_exact(sb_op op, const A &args, uint64_t seed = 0)
{
    const op_judged result = judged(op, args, true, seed);
    if (result.differ)
        fail_msg("%zu of %zu differ, the first: %s", result.differ, result.elements, result.first);
}

template <class A> static void is_within(sb_op op, const A &args, uint64_t seed = 0)
{
    const op_judged result = judged(op, args, false, seed);
    if (result.outside)
        fail_msg("%zu of %zu are outside, the first: %s", result.outside, result.elements,
                 result.first);
}

/* A planted fault: values are wrong, or the emulator has seen it and says so. */
template <class A> static bool is_caught(sb_op op, const A &args, bool exact, uint64_t seed = 0)
{
    op_judged result = op_judged();
    const sb_knobs knobs = sm121();
    sb_backend_emu_seed(seed);
    const sb_status status = op_judge(ops(), op, &args, &knobs, exact, &result);
    return status != SB_OK || (exact ? result.differ : result.outside) != 0;
}

#endif
