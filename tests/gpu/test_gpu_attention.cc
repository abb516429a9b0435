/* test_gpu_attention.cc - attention over bfloat16 and FP8 caches: within the bound of the
 * reference. A row has the same bits whatever else is in the call, with one block for all parts of
 * the cache or one block for each part. */
#include "tests/gpu/attention_call.h"
#include "tests/lib/suite.h"

/* Groups of 3, 1 and 8, with heads as in large models. */
static const shape shapes[] = {{3, 1, 64}, {2, 2, 128}, {16, 2, 256}};

static void check(const shape &s, const cache &kv, size_t first, size_t rows, uint64_t seed)
{
    is_within(SB_OP_attention, call_of(s, kv, first, rows), seed, knobs_of_cache(kv));
}

TEST_WITH(test_prompts, NULL, test_release)
{
    split_now = false;
    for (const size_t rows : call_rows)
        for (uint64_t seed = 0; seed < SCHEDULES; seed++)
            check(small, plain, 0, rows, seed);
    check(small, narrow, 0, 65, 1);
}

TEST_WITH(test_steps, NULL, test_release)
{
    for (int split = 0; split < 2; split++) {
        split_now = split != 0;
        for (uint64_t seed = 0; seed < SCHEDULES; seed++)
            check(small, plain, 250, 9, seed);
        for (const size_t first : {size_t(255), size_t(256), size_t(511), size_t(600)})
            check(small, plain, first, 1, first);
        for (const shape &s : shapes)
            check(s, plain, 257, 3, s.heads);
        check(small, narrow, 300, 4, 7);
    }
}

/* Rows 246 to 263, around the end of a part, in calls of `width`. */
static bool same_in_calls_of(size_t width, const cache &kv, const sb_attention_args &whole)
{
    const sb_knobs knobs = knobs_of_cache(kv);
    const size_t size = small.heads * small.hd;
    for (size_t row = 0; row < whole.rows; row += width) {
        sb_attention_args part = whole;
        part.rows = row + width <= whole.rows ? width : whole.rows - row;
        part.first += row;
        part.q += row * size;
        part.out = test_output(part.rows * size);
        split_now = (width + row) % 2 != 0;
        runs(SB_OP_attention, part, width, knobs);
        if (!same_bits(part.out, whole.out + row * size, part.rows * size))
            return false;
    }
    return true;
}

TEST_WITH(test_rows, NULL, test_release)
{
    for (const cache &kv : {plain, narrow}) {
        const sb_attention_args a = call_of(small, kv, 246, 18);
        split_now = false;
        runs(SB_OP_attention, a, 0, knobs_of_cache(kv));
        for (size_t width = 1; width <= 9; width++)
            assert_true(same_in_calls_of(width, kv, a));
    }
}

/* With CHECK_ALL=1: more than 64 parts, in one block or one for each, within the bound and with the
 * same bits; and prompts that cross the ends of parts. */
static void test_many_parts(void **)
{
    enum { MANY = 65 * 256 };
    split_now = false;
    const sb_attention_args a = call_of(small, plain, MANY - 1, 2);
    is_within(SB_OP_attention, a, 3, sm121());
    const size_t count = a.rows * small.heads * small.hd;
    float *whole = test_copy(a.out, count);
    split_now = true;
    is_within(SB_OP_attention, a, 4, sm121());
    assert_true(same_bits(a.out, whole, count));
    for (const size_t first : {size_t(0), size_t(127), size_t(192), size_t(200)})
        for (const size_t rows : {size_t(63), size_t(65), size_t(129), size_t(200)})
            is_within(SB_OP_attention, call_of(small, rows % 2 ? plain : narrow, first, rows), rows,
                      knobs_of_cache(rows % 2 ? plain : narrow));
}

TEST_WITH(test_faults, NULL, test_release)
{
    split_now = false;
    for (const char *fault :
         {"attention_tail", "attention_lanes", "attention_mask", "attention_padding",
          "attention_head", "attention_barrier", "attention_barrier4"})
        catches(fault, SB_OP_attention, call_of(small, plain, 0, 9), false, 1);
    for (const char *fault :
         {"attention_fold", "attention_wait", "attention_barrier2", "attention_barrier5"})
        catches(fault, SB_OP_attention, call_of(small, plain, 300, 9), false, 1);
    split_now = true;
    for (const char *fault : {"attention_fold", "attention_barrier3"})
        catches(fault, SB_OP_attention, call_of(small, plain, 300, 2), false, 1);
}

TEST_ROWS(at_length)
{
    if (check_all())
        suite_add(place, {"test_many_parts", test_many_parts, nullptr, test_release, nullptr});
}

/* A separate program, because it includes a source of the program that attention_call.h changes. */
int main(int argc, char **argv)
{
    return suite_main(argc, argv);
}
