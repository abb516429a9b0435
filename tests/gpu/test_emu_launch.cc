/* test_emu_launch.cc - dependent launches in the emulator (Y-16): a kernel may touch only some
 * buffers before it waits for the launch before, and each of its threads has to wait. */
#include "tests/lib/suite.h"

#include <initializer_list>
#include <string.h>

#include "gpu/cuda.h"

enum { WORDS = 256, BLOCK = 64 };
static sb_emu *emulator;
static sb_error err;
static sb_queue queue;

/* The host provides weights before all launches, and x between two launches; y changes, and z has
 * no values yet. */
static unsigned weights[WORDS], inputs[WORDS], both_ways[WORDS], results[WORDS];
static sb_emu_region given, brought, both, out;

static void open(bool history)
{
    for (unsigned i = 0; i < WORDS; i++) {
        weights[i] = inputs[i] = both_ways[i] = i;
        results[i] = ~0u;
    }
    const auto add = history ? sb_emu_region_open : sb_emu_region_plain;
    const size_t bytes = sizeof weights;
    assert_int_equal(add(&given, "weights", weights, bytes, SB_EMU_INPUT, &err), SB_OK);
    assert_int_equal(add(&brought, "x", inputs, bytes, SB_EMU_INPUT, &err), SB_OK);
    brought.brought = true;
    assert_int_equal(add(&both, "y", both_ways, bytes, SB_EMU_INOUT, &err), SB_OK);
    assert_int_equal(add(&out, "z", results, bytes, SB_EMU_OUTPUT, &err), SB_OK);
    sb_emu_history(emulator, history);
}

static void close()
{
    sb_emu_region_close(&given);
    sb_emu_region_close(&brought);
    sb_emu_region_close(&both);
    sb_emu_region_close(&out);
}

#define ARGUMENTS                                                                                  \
    sb_global<const unsigned> w, sb_global<const unsigned> x, sb_global<unsigned> y,               \
        sb_global<unsigned> z
#define RUN(kernel)                                                                                \
    SB_LAUNCH(&queue, kernel, WORDS / BLOCK, BLOCK, 0, &given, &brought, &both, &out)

/* --- allowed accesses ------------------------------------------------------------------------- */
static __device__ void work(unsigned weight, sb_global<const unsigned> x, sb_global<unsigned> y,
                            sb_global<unsigned> z)
{
    const unsigned i = blockIdx.x * BLOCK + threadIdx.x;
    y[i] += 1u;
    z[i] = weight + x[i];
}
static __global__ void waits_first(ARGUMENTS)
{
    sb_launch_ready();
    sb_launch_wait();
    work(__ldg(w + (blockIdx.x * BLOCK + threadIdx.x)), x, y, z);
}
/* Reads weights by copies, a barrier and shared memory before it waits, and waits twice. */
static __global__ void waits_late(ARGUMENTS)
{
    SB_SHARED(unsigned, room, BLOCK);
    SB_SHARED(unsigned, turned, BLOCK);
    const unsigned i = threadIdx.x;
    sb_cp_async<4>(room + i, w + (blockIdx.x * BLOCK + i));
    sb_cp_async_commit();
    sb_cp_async_wait<0>();
    __syncthreads();
    turned[BLOCK - 1 - i] = room[i];
    sb_launch_wait();
    __syncthreads();
    sb_launch_ready();
    sb_launch_wait();
    work(turned[BLOCK - 1 - i], x, y, z);
}
/* Threads without work wait as well. */
static __global__ void waits_and_leaves(ARGUMENTS)
{
    sb_launch_wait();
    if (threadIdx.x >= BLOCK / 2)
        return;
    work(w[blockIdx.x * BLOCK + threadIdx.x], x, y, z);
}
static __global__ void never_waits(ARGUMENTS)
{
    work(w[blockIdx.x * BLOCK + threadIdx.x], x, y, z);
}

static void check(const char *what, sb_status status, unsigned of_block)
{
    if (status != SB_OK)
        fail_msg("%s: %s", what, err.text);
    for (unsigned i = 0; i < WORDS; i++) {
        assert_int_equal(both_ways[i], i % BLOCK < of_block ? i + 1 : i);
        assert_int_equal(results[i], i % BLOCK < of_block ? 2 * i : ~0u);
    }
}

TEST(right_kernels)
{
#define IS_RIGHT(kernel, of_block)                                                                 \
    do {                                                                                           \
        open(history);                                                                             \
        sb_emu_seed(emulator, seed);                                                               \
        check(#kernel, RUN(kernel), of_block);                                                     \
        close();                                                                                   \
    } while (0)
    for (uint64_t seed = 0; seed < 20; seed++)
        for (bool history : {true, false}) {
            queue.dependent = true;
            IS_RIGHT(waits_first, BLOCK);
            IS_RIGHT(waits_late, BLOCK);
            IS_RIGHT(waits_and_leaves, BLOCK / 2);
            /* the same without a dependent launch, where no wait is needed */
            queue.dependent = false;
            IS_RIGHT(waits_late, BLOCK);
            IS_RIGHT(never_waits, BLOCK);
        }
}

/* --- faults: each kernel has one -------------------------------------------------------------- */
enum fault {
    READS,
    READS_BROUGHT,
    WRITES,
    CHANGES,
    COPIES,
    BULK,
    RETURNS,
    ONE_RETURNS,
    ONE_READS,
    BEHIND_BARRIER,
    READ_ONLY
};
template <int FAULT> static __global__ void early(ARGUMENTS)
{
    SB_SHARED(unsigned, room, BLOCK);
    SB_SHARED(uint64_t, mbarrier, 1);
    const unsigned i = blockIdx.x * BLOCK + threadIdx.x;
    const bool one = blockIdx.x == 2 && threadIdx.x == 37;
    if (FAULT == READS)
        room[threadIdx.x] = y[i];
    if (FAULT == READS_BROUGHT)
        room[threadIdx.x] = x[i];
    if (FAULT == WRITES)
        z[i] = 0;
    if (FAULT == CHANGES)
        atomicAdd(y + i, 0u);
    if (FAULT == COPIES) {
        sb_cp_async<4>(room + threadIdx.x, y + i);
        sb_cp_async_wait_all();
    }
    if (FAULT == BULK && threadIdx.x == 0) {
        sb_mbarrier_init(mbarrier + 0, 1);
        sb_bulk_copy(room + 0, y + 0, 16, mbarrier + 0);
    }
    if (FAULT == RETURNS && blockIdx.x == 2)
        return;
    if (FAULT == ONE_RETURNS && one)
        return;
    if (FAULT == ONE_READS && one)
        room[threadIdx.x] = y[i];
    /* a wait by one thread does not count for another thread */
    if (FAULT == BEHIND_BARRIER) {
        if (threadIdx.x < 32)
            sb_launch_wait();
        __syncthreads();
        room[threadIdx.x] = y[i];
    }
    sb_launch_wait();
    if (FAULT == READ_ONLY)
        room[threadIdx.x] = __ldg(x + i);
    work(w[i], x, y, z);
}

static void says(sb_status status, const char *text)
{
    assert_int_equal(status, SB_ERR_DIFF);
    if (!strstr(err.text, text))
        fail_msg("%s\nis not: %s", err.text, text);
}

TEST(each_fault)
{
#define IS_FAULT(fault, text)                                                                      \
    do {                                                                                           \
        open(history);                                                                             \
        sb_emu_seed(emulator, seed);                                                               \
        queue.dependent = true;                                                                    \
        says(RUN(early<fault>), text);                                                             \
        close();                                                                                   \
        open(history);                                                                             \
        says(RUN(never_waits), "a read of buffer");                                                \
        queue.dependent = false;                                                                   \
        close();                                                                                   \
    } while (0)
    for (uint64_t seed = 0; seed < 20; seed++)
        for (bool history : {true, false}) {
            IS_FAULT(READS, "a read of buffer y before sb_launch_wait");
            IS_FAULT(READS_BROUGHT, "a read of buffer x before sb_launch_wait");
            IS_FAULT(WRITES, "a write of buffer z before sb_launch_wait");
            IS_FAULT(CHANGES, "an atomic operation of buffer y before sb_launch_wait");
            IS_FAULT(COPIES, "a read of buffer y before sb_launch_wait");
            IS_FAULT(BULK, "a read of buffer y before sb_launch_wait");
            IS_FAULT(RETURNS, "returns without sb_launch_wait");
            IS_FAULT(ONE_RETURNS, "block (2,0,0), thread (37,0,0): returns without sb_launch_wait");
            IS_FAULT(ONE_READS, "block (2,0,0), thread (37,0,0): a read of buffer y before");
            IS_FAULT(BEHIND_BARRIER, "a read of buffer y before sb_launch_wait");
            IS_FAULT(READ_ONLY, "__ldg of buffer x, in a dependent launch");
        }
}

TEST_FIXTURE(start)
{
    emulator = sb_emu_new(0);
    queue.emu = emulator;
    queue.err = &err;
    return emulator ? 0 : -1;
}

TEST_FIXTURE(end)
{
    sb_emu_free(emulator);
    return 0;
}
TEST_GROUP(start, end)
