/* test_emu_count.cc - the counts of the emulator (Y-15): bytes by direction, operations,
 * launches. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <string.h>

#include "gpu/cuda.h"
#include "gpu/emu/count.h"

enum { WORDS = 256 };
static sb_emu *emulator;
static sb_error err;
static sb_queue queue;
static sb_emu_counts counts;

/* x is only read; y is written before it is read; z has values and changes. */
static unsigned x[WORDS], y[WORDS], z[WORDS];
static sb_emu_region in, out, both;

static void open(void)
{
    for (unsigned i = 0; i < WORDS; i++)
        x[i] = z[i] = i;
    const size_t bytes = sizeof x;
    assert_int_equal(sb_emu_region_counted(&in, "x", x, bytes, SB_EMU_INPUT, &err), SB_OK);
    assert_int_equal(sb_emu_region_counted(&out, "y", y, bytes, SB_EMU_OUTPUT, &err), SB_OK);
    assert_int_equal(sb_emu_region_counted(&both, "z", z, bytes, SB_EMU_INOUT, &err), SB_OK);
    counts = {};
    sb_emu_count(emulator, &counts);
}

static void close(void)
{
    sb_emu_count(emulator, nullptr);
    sb_emu_region_close(&in);
    sb_emu_region_close(&out);
    sb_emu_region_close(&both);
}

static void is(const char *kernel, const char *what, uint64_t times, uint64_t read,
               uint64_t written)
{
    const sb_emu_tally tally = sb_emu_counted(&counts, kernel, what);
    if (tally.times != times || tally.read != read || tally.written != written)
        fail_msg("%s, %s: %llu times, %llu bytes read, %llu written", kernel ? kernel : "all",
                 what ? what : "launches", static_cast<unsigned long long>(tally.times),
                 static_cast<unsigned long long>(tally.read),
                 static_cast<unsigned long long>(tally.written));
}

#define ARGUMENTS sb_global<const unsigned> a, sb_global<unsigned> b, sb_global<unsigned> c
#define RUN(kernel, grid) SB_LAUNCH(&queue, kernel, grid, 64, 0, &in, &out, &both)

/* Each thread reads a word of a, writes a word of b, and reads and writes a word of c. */
static __global__ void words(ARGUMENTS)
{
    const unsigned i = blockIdx.x * 64 + threadIdx.x;
    b[i] = a[i] + 1u;
    c[i] += 2u;
}

/* Four words in one access; through shared memory, which is not counted; and two shuffles. */
static __global__ void fours(ARGUMENTS)
{
    SB_SHARED(unsigned, kept, 64);
    const uint4 v = sb_cast<const uint4>(a)[threadIdx.x % 8];
    kept[threadIdx.x] = v.x;
    __syncthreads();
    unsigned sum = kept[threadIdx.x ^ 1u];
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    b[threadIdx.x] = sum;
    if (threadIdx.x == 0)
        atomicAdd(c, 1u);
}

/* Each thread writes 16 bytes of shared memory by a copy that reads only 8 bytes. A copy counts
 * when it is issued. */
static __global__ void copies(ARGUMENTS)
{
    SB_SHARED(uint4, kept, 64);
    sb_cp_async<16>(kept + threadIdx.x, sb_cast<const uint4>(a) + threadIdx.x, 8u);
    sb_cp_async_commit();
    sb_cp_async_wait<0>();
    const uint4 v = kept[threadIdx.x];
    b[threadIdx.x] = v.x + v.w;
    if (threadIdx.x > 64)
        c[0] = 0u;
}

static __global__ void wrong(ARGUMENTS)
{
    b[threadIdx.x] = a[threadIdx.x];
    c[0] = 0u;
}

/* Every block reads the same 64 words, half of them twice; then its own words, and it writes
 * twice. */
static __global__ void again(ARGUMENTS)
{
    const unsigned i = blockIdx.x * 64 + threadIdx.x;
    unsigned sum = a[threadIdx.x];
    sum += a[threadIdx.x / 2];
    b[i] = sum;
    __syncthreads();
    b[i] = c[i] + 1u;
}

static void are(const char *kernel, const char *what, const sb_emu_unlike &launch,
                const sb_emu_unlike &block, uint64_t narrow)
{
    const sb_emu_tally t = sb_emu_counted(&counts, kernel, what);
    assert_int_equal(t.launch.read, launch.read);
    assert_int_equal(t.launch.written, launch.written);
    assert_int_equal(t.block.read, block.read);
    assert_int_equal(t.block.written, block.written);
    assert_int_equal(t.narrow, narrow);
}

/* Y-15: "how many of these bytes are different, in each launch and in each block, and how many are
 * read in pieces of less than 16" - both start anew with each launch. */
TEST(test_unlike)
{
    open();
    if (RUN(again, 3) != SB_OK || RUN(fours, 1) != SB_OK || RUN(copies, 1) != SB_OK)
        fail_msg("%s", err.text);
    are("again", "x", {256, 0}, {768, 0}, 1536);
    are("again", "y", {0, 768}, {0, 768}, 0);
    are("again", "z", {768, 0}, {768, 0}, 768);
    are("fours", "x", {128, 0}, {128, 0}, 0);
    are("copies", "x", {512, 0}, {512, 0}, 512);
    if (RUN(again, 3) != SB_OK)
        fail_msg("%s", err.text);
    are("again", "x", {512, 0}, {1536, 0}, 3072);
    is("again", "x", 768, 3072, 0);
    close();
}

TEST(test_counts)
{
    open();
    for (unsigned grid = 1; grid <= 4; grid += 3)
        if (RUN(words, grid) != SB_OK)
            fail_msg("%s", err.text);
    is("words", nullptr, 2, 0, 0);
    is("words", "x", 320, 1280, 0);
    is("words", "y", 320, 0, 1280);
    is("words", "z", 640, 1280, 1280);
    if (RUN(fours, 1) != SB_OK || RUN(copies, 1) != SB_OK)
        fail_msg("%s", err.text);
    is("fours", "x", 64, 1024, 0);
    is("fours", "__shfl_xor_sync", 4, 0, 0);
    is("fours", "kept", 0, 0, 0);
    is("fours", "z", 1, 4, 4);
    is("copies", "x", 64, 512, 0);
    is("copies", "y", 64, 0, 256);
    is("copies", "z", 0, 0, 0);
    is(nullptr, nullptr, 4, 0, 0);
    is(nullptr, "x", 448, 2816, 0);
    assert_int_equal(y[5], 20); /* the word from copies, and a zero */
    close();
}

/* Y-15: "Counting changes nothing about faults" - an input stays one, and has all its
 * values. */
TEST(test_inputs)
{
    open();
    assert_int_equal(sb_emu_unset(&in, 0), sizeof x);
    assert_int_equal(sb_emu_unset(&out, 0), 0);
    const sb_status status =
        SB_LAUNCH(&queue, wrong, 1, 64, 0, &both, &out, &in); /* its third argument may not
                                                               * change */
    assert_int_equal(status, SB_ERR_DIFF);
    assert_non_null(strstr(err.text, "in buffer x, which the host gave as an input"));
    close();
}

/* Nothing is counted unless it was asked for. */
TEST(test_silence)
{
    open();
    sb_emu_count(emulator, nullptr);
    assert_int_equal(RUN(words, 1), SB_OK);
    is(nullptr, nullptr, 0, 0, 0);
    is(nullptr, "x", 0, 0, 0);
    close();
}

TEST(test_full)
{
    static char names[SB_EMU_TALLIES][8];
    open();
    for (unsigned i = 0; i < SB_EMU_TALLIES; i++) {
        snprintf(names[i], sizeof names[i], "k%u", i);
        counts.tally[i] = {names[i], nullptr, 0, 0, 0, 0, {}, {}};
    }
    assert_int_equal(RUN(words, 1), SB_ERR_USAGE);
    assert_non_null(strstr(err.text, "things to count"));
    counts.tally[0].kernel = "words"; /* counts has an entry for its launch, and none for its
                                       * buffers */
    assert_int_equal(RUN(words, 1), SB_ERR_DIFF);
    assert_non_null(strstr(err.text, "things to count"));
    close();
}

TEST_FIXTURE(start)
{
    emulator = sb_emu_new(0);
    queue = {emulator, &err};
    return emulator ? 0 : -1;
}

TEST_FIXTURE(end)
{
    sb_emu_free(emulator);
    return 0;
}
TEST_GROUP(start, end)
