/* test_emu.cc - the emulator: right kernels pass under many schedules, and each fault is caught and
 * named. */
#include "tests/lib/suite.h"

#include <initializer_list>
#include <stdio.h>
#include <string.h>

#include "tests/gpu/emu_kernels.cuh"

enum { SCHEDULES = 20 };

/* A launch and its buffers: x has the ints 0, 1, 2, ..., and out has no values. */
struct bench {
    int x[4096], out[4096];
    float fx[4096], fout[4096];
    unsigned counter;
    sb_emu_region in, result, fin, fresult, count;
    sb_error err;
    sb_queue queue;
};

/* Shared by all tests: a failed launch leaves nothing behind. */
static sb_emu *emulator;
static bool history = true; /* Y-14 */

static void open(bench *b, uint64_t seed, size_t n)
{
    *b = bench();
    for (int i = 0; i < 4096; i++) {
        b->x[i] = i;
        b->fx[i] = static_cast<float>(i);
        b->out[i] = -1;
    }
    sb_error *err = &b->err;
    const auto add = history ? sb_emu_region_open : sb_emu_region_plain;
    assert_int_equal(add(&b->in, "x", b->x, n * 4, SB_EMU_INPUT, err), SB_OK);
    assert_int_equal(add(&b->result, "out", b->out, n * 4, SB_EMU_OUTPUT, err), SB_OK);
    assert_int_equal(add(&b->fin, "fx", b->fx, n * 4, SB_EMU_INPUT, err), SB_OK);
    assert_int_equal(add(&b->fresult, "fout", b->fout, n * 4, SB_EMU_OUTPUT, err), SB_OK);
    assert_int_equal(add(&b->count, "counter", &b->counter, 4, SB_EMU_INOUT, err), SB_OK);
    b->queue = {emulator, err};
    sb_emu_seed(emulator, seed);
    sb_emu_history(emulator, history);
}

static void close(bench *b)
{
    sb_emu_region_close(&b->in);
    sb_emu_region_close(&b->result);
    sb_emu_region_close(&b->fin);
    sb_emu_region_close(&b->fresult);
    sb_emu_region_close(&b->count);
}

/* Launches the given variant of a kernel, right or with a fault. */
#define SUM(kernel) SB_LAUNCH(&b->queue, kernel, 8, 96, 0, &b->in, &b->result, 700)
#define TRANSPOSE(kernel)                                                                          \
    SB_LAUNCH(&b->queue, kernel, dim3(2, 2), dim3(32, 8), 0, &b->fin, &b->fresult, 50, 40)
#define TILES(kernel) SB_LAUNCH(&b->queue, kernel, 1, 64, 512, &b->in, &b->result, 7)
#define PRODUCE(kernel) SB_LAUNCH(&b->queue, kernel, 1, 96, 0, &b->in, &b->result, 9)
#define COPIES(kernel) SB_LAUNCH(&b->queue, kernel, 1, 64, 0, &b->in, &b->result)
#define PERSISTENT(kernel, out) SB_LAUNCH(&b->queue, kernel, 3, 64, 0, &b->in, out, &b->count, 10u)
#define WARPS(kernel, threads) SB_LAUNCH(&b->queue, kernel, 1, threads, 0, &b->result, 9)

static void is_ok(const bench *b, sb_status status)
{
    if (status != SB_OK)
        fail_msg("%s", b->err.text);
}

/* --- right kernels ---------------------------------------------------------------------------- */
static void check_sum(bench *b)
{
    is_ok(b, SUM(sum_blocks<NONE>));
    for (int k = 0; k < 8; k++) {
        int sum = 0;
        for (int i = k * 96; i < k * 96 + 96 && i < 700; i++)
            sum += i;
        assert_int_equal(b->out[k], sum);
    }
}
static void check_transpose(bench *b)
{
    is_ok(b, TRANSPOSE(transpose<NONE>));
    for (int r = 0; r < 50; r++)
        for (int c = 0; c < 40; c++)
            assert_true(b->fout[c * 50 + r] == b->fx[r * 40 + c]);
}
static void check_pairs(const bench *b, sb_status status)
{
    is_ok(b, status);
    for (int i = 0; i < 7 * 64; i++)
        assert_int_equal(b->out[i], i + (i ^ 1));
}
static void check_copies(bench *b)
{
    is_ok(b, PRODUCE(produce<NONE>));
    for (int i = 0; i < 9 * 32; i++)
        assert_int_equal(b->out[i], 2 * i);
    is_ok(b, COPIES(two_copies<NONE>));
    for (int i = 0; i < 64; i++)
        assert_int_equal(b->out[i], i ^ 32);
}
static void check_persistent(bench *b)
{
    is_ok(b, PERSISTENT(persistent<NONE>, &b->result));
    for (int i = 0; i < 640; i++)
        assert_int_equal(b->out[i], 3 * i);
    assert_int_equal(b->counter, 13); /* each of three blocks saw the end once */
}
static void check_warps(bench *b)
{
    is_ok(b, WARPS(hand_over<NONE>, 64));
    for (int i = 0; i < 9 * 32; i++)
        assert_int_equal(b->out[i], i / 32 + i % 32);
    is_ok(b, WARPS(turn<NONE>, 32));
    for (int i = 0; i < 32; i++)
        assert_int_equal(b->out[i], (i + 9) % 32 + 9);
}

TEST(test_right_kernels)
{
    uint64_t before = 0, first = 0, different = 0;
    for (uint64_t seed = 0; seed < SCHEDULES; seed++) {
        static bench storage;
        bench *b = &storage;
        open(b, seed, 700);
        check_sum(b);
        assert_int_equal(sb_emu_unset(&b->result, 0), 8 * 4);
        close(b);
        open(b, seed, 2000);
        check_transpose(b);
        assert_int_equal(sb_emu_unset(&b->fresult, 0), 2000 * 4);
        check_pairs(b, TILES(pipeline<NONE>));
        check_pairs(b, TILES(bulk<NONE>));
        check_copies(b);
        check_persistent(b);
        check_warps(b);
        if (seed == 0)
            first = sb_emu_switches(emulator) - before;
        different += sb_emu_switches(emulator) - before != first;
        before = sb_emu_switches(emulator);
        close(b);
    }
    assert_true(different > SCHEDULES / 2); /* the seed does change the order */
}

/* --- faults ----------------------------------------------------------------------------------- */
/* The launch fails in every schedule. The message contains the kernel's name and one of the
 * texts. */
template <class L>
static void caught(size_t elements, L launch, const char *kernel,
                   std::initializer_list<const char *> texts)
{
    for (uint64_t seed = 0; seed < SCHEDULES; seed++) {
        static bench b;
        open(&b, seed, elements);
        const sb_status status = launch(&b);
        const char *said = b.err.text;
        bool named = false;
        for (const char *text : texts)
            named |= strstr(said, text) != nullptr;
        if (status != SB_ERR_DIFF || !strstr(said, kernel) || !strstr(said, ", block (") ||
            !strstr(said, ", thread (") || !named)
            fail_msg("%s, seed %d: status %d, %s", kernel, static_cast<int>(seed),
                     static_cast<int>(status), said);
        if (seed == 1)
            printf("%s\n", said);
        close(&b);
    }
}

/* The schedule determines which of these errors occurs first. */
#define UNORDERED                                                                                  \
    "a race: ", "which no thread has written", "an asynchronous copy to this byte is under way"
#define DRAWN(kernel) PERSISTENT(kernel, &b->result)
#define INTO_X(kernel) PERSISTENT(kernel, &b->in)
#define ONE_WARP(kernel) WARPS(kernel, 32)
#define TWO_WARPS(kernel) WARPS(kernel, 64)
#define CAUGHT(n, how, kernel, ...)                                                                \
    caught(n, [](bench *b) { return how(kernel); }, #kernel, {__VA_ARGS__})

TEST(test_faults_of_barriers)
{
    CAUGHT(700, SUM, sum_blocks<NO_BARRIER>, UNORDERED);
    CAUGHT(700, SUM, sum_blocks<DIVERGENT>,
           "a divergent barrier: 32 of 96 threads have arrived; thread (32,0,0) has returned");
    CAUGHT(700, SUM, sum_blocks<TWO_LINES>, "a divergent barrier: thread (");
    CAUGHT(2000, TRANSPOSE, transpose<NO_BARRIER>, UNORDERED);
    CAUGHT(2000, DRAWN, persistent<NO_BARRIER>, UNORDERED);
    CAUGHT(2000, DRAWN, persistent<NO_BARRIER2>, UNORDERED);
    CAUGHT(2000, ONE_WARP, turn<NO_BARRIER>, UNORDERED);
    CAUGHT(2000, ONE_WARP, turn<NO_BARRIER2>, "a race: ");
    CAUGHT(2000, TWO_WARPS, hand_over<NO_BARRIER>, UNORDERED);
    CAUGHT(2000, TWO_WARPS, hand_over<NO_BARRIER2>, UNORDERED);
}

TEST(test_faults_of_memory)
{
    CAUGHT(700, SUM, sum_blocks<OUTSIDE>,
           "a read of 4 bytes at byte 2800 of buffer x is out of range: [0, 2800), element 700");
    CAUGHT(700, SUM, sum_blocks<UNSET>,
           "of shared array part (element 1 of 4 bytes), which no thr");
    CAUGHT(2000, TRANSPOSE, transpose<OUTSIDE>, "of shared array tile is out of range",
           "of shared array tile (element");
    CAUGHT(2000, TRANSPOSE, transpose<UNSET>, "of shared array tile (element");
    CAUGHT(2000, INTO_X, persistent<NONE>, "a write in buffer x, which the host gave as an input");
}

TEST(test_faults_of_copies)
{
    CAUGHT(2000, TILES, pipeline<NO_WAIT>, UNORDERED);
    CAUGHT(2000, TILES, pipeline<WAIT_EARLY>, UNORDERED);
    CAUGHT(2000, TILES, pipeline<NO_BARRIER>, UNORDERED);
    CAUGHT(2000, TILES, pipeline<NO_BARRIER2>, UNORDERED);
    CAUGHT(2000, TILES, pipeline<MISALIGNED>, "buffer x is not aligned to 16");
    CAUGHT(400, TILES, pipeline<NONE>, "of buffer x is out of range");
    CAUGHT(2000, TILES, pipeline<LEFT>, "returns with 1 asynchronous copies that no thread has");
    CAUGHT(2000, TILES, bulk<NO_WAIT>, UNORDERED);
    CAUGHT(2000, TILES, bulk<WAIT_EARLY>, UNORDERED);
    CAUGHT(2000, TILES, bulk<NO_BARRIER2>, UNORDERED, "does not end: ", "all 1 arrivals");
    CAUGHT(2000, TILES, bulk<TOO_FEW>, "have 16 bytes more than it expects");
    CAUGHT(2000, TILES, bulk<TOO_MANY>, "0 arrivals and 16 bytes are missing");
    CAUGHT(2000, TILES, bulk<LATE_INIT>, UNORDERED);
    CAUGHT(2000, PRODUCE, produce<NO_BARRIER2>, UNORDERED);
    CAUGHT(2000, COPIES, two_copies<NO_WAIT>, UNORDERED);
}

TEST(test_faults_of_warps)
{
    CAUGHT(700, SUM, sum_blocks<MISSING>, "misses lane 5: thread (37,0,0) waits in __syncthreads");
    CAUGHT(700, SUM, sum_blocks<WRONG_MASK>,
           "mask 0xfffffffe does not include lane 0, which calls it");
    CAUGHT(700, SUM, sum_blocks<FROM_ABSENT>,
           "a shuffle reads lane 16, which is not in its mask 0x0000ffff");
}

/* Y-14: "The faults of Y-4, Y-5 and Y-7 to Y-13 are still faults." */
TEST(test_without_history)
{
    history = false;
    test_right_kernels(suite_state);
    CAUGHT(700, SUM, sum_blocks<DIVERGENT>,
           "a divergent barrier: 32 of 96 threads have arrived; thread (32,0,0) has returned");
    CAUGHT(700, SUM, sum_blocks<NO_BARRIER>, "which no thread has written");
    CAUGHT(2000, TRANSPOSE, transpose<NO_BARRIER>, "which no thread has written");
    CAUGHT(2000, TILES, pipeline<NO_WAIT>, "an asynchronous copy to this byte is under way");
    test_faults_of_memory(suite_state);
    CAUGHT(700, SUM, sum_blocks<MISSING>, "misses lane 5: thread (37,0,0) waits in __syncthreads");
    CAUGHT(700, SUM, sum_blocks<WRONG_MASK>, "does not include lane 0", "a shuffle reads lane 0");
    CAUGHT(700, SUM, sum_blocks<FROM_ABSENT>,
           "a shuffle reads lane 16, which is not in its mask 0x0000ffff");
    CAUGHT(2000, TILES, pipeline<MISALIGNED>, "buffer x is not aligned to 16");
    CAUGHT(2000, TILES, pipeline<LEFT>, "returns with 1 asynchronous copies that no thread has");
    static bench b; /* this is a race, as test_faults_of_barriers shows */
    open(&b, 1, 2000);
    is_ok(&b, SB_LAUNCH(&b.queue, turn<NO_BARRIER2>, 1, 32, 0, &b.result, 9));
    close(&b);
    history = true;
}

TEST_FIXTURE(start)
{
    emulator = sb_emu_new(0);
    return emulator ? 0 : -1;
}

TEST_FIXTURE(end)
{
    sb_emu_free(emulator);
    return 0;
}
TEST_GROUP(start, end)
