/* test_emu_words.cc - the functions and variables of CUDA in the emulator, one by one: their
 * results, and what they accept and refuse. */
#include "tests/lib/suite.h"

#include <math.h>
#include <string.h>

#include "gpu/cuda.h"

static sb_emu *emulator;
static sb_error err;
static sb_queue queue;

/* A buffer of 32-bit words for the length of a test. */
struct buffer {
    unsigned word[1024];
    sb_emu_region region;
};

static buffer input, output;

static void fresh(uint64_t seed)
{
    sb_emu_region_close(&input.region);
    sb_emu_region_close(&output.region);
    for (unsigned i = 0; i < 1024; i++)
        input.word[i] = i * 2654435761u;
    memset(output.word, 0xee, sizeof output.word);
    sb_emu_seed(emulator, seed);
    assert_int_equal(sb_emu_region_open(&input.region, "input", input.word, sizeof input.word,
                                        SB_EMU_INPUT, &err),
                     SB_OK);
    assert_int_equal(sb_emu_region_open(&output.region, "output", output.word, sizeof output.word,
                                        SB_EMU_OUTPUT, &err),
                     SB_OK);
}

/* Runs a kernel of (input, output) under some schedules. It is right, or fails with a text. */
using kernel_type = void(sb_global<const unsigned>, sb_global<unsigned>);

static sb_status run(const char *name, kernel_type *kernel, dim3 grid, dim3 block, size_t shared)
{
    return sb_emu_call(emulator, name, kernel, grid, block, shared, &err, &input.region,
                       &output.region);
}
static void is_right(const char *name, kernel_type *kernel, dim3 grid, dim3 block,
                     unsigned (*expected)(unsigned i), unsigned count)
{
    for (uint64_t seed = 0; seed < 8; seed++) {
        fresh(seed);
        if (run(name, kernel, grid, block, 1024) != SB_OK)
            fail_msg("%s, seed %d: %s", name, static_cast<int>(seed), err.text);
        for (unsigned i = 0; expected && i < count; i++)
            if (output.word[i] != expected(i))
                fail_msg("%s: element %u is %08x, not %08x", name, i, output.word[i], expected(i));
    }
}
static void is_refused(const char *name, kernel_type *kernel, dim3 grid, dim3 block,
                       const char *text)
{
    for (uint64_t seed = 0; seed < 8; seed++) {
        fresh(seed);
        const sb_status status = run(name, kernel, grid, block, 1024);
        if (status != SB_ERR_DIFF || !strstr(err.text, text) || !strstr(err.text, name))
            fail_msg("%s, seed %d: status %d, %s", name, static_cast<int>(seed),
                     static_cast<int>(status), err.text);
    }
}
#define RIGHT(kernel, grid, block, expected, count)                                                \
    is_right(#kernel, kernel, grid, block, expected, count)
#define REFUSED(kernel, grid, block, text) is_refused(#kernel, kernel, grid, block, text)

#define KERNEL(name) static __global__ void name(sb_global<const unsigned> x, sb_global<unsigned> y)

static unsigned x_of(unsigned i)
{
    return i * 2654435761u;
}

/* --- the position of a thread ----------------------------------------------------------------- */
KERNEL(places)
{
    const unsigned t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const unsigned b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    y[b * blockDim.x * blockDim.y * blockDim.z + t] = x[t] + b;
}
static unsigned places_expected(unsigned i)
{
    return x_of(i % 105) + i / 105;
}
KERNEL(a_thousand)
{
    SB_SHARED(unsigned, all, 1024);
    all[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = all[1023 - threadIdx.x];
}
static unsigned a_thousand_expected(unsigned i)
{
    return x_of(1023 - i);
}

TEST(test_places)
{
    RIGHT(places, dim3(2, 2, 2), dim3(7, 5, 3), places_expected, 840);
    RIGHT(a_thousand, 1, 1024, a_thousand_expected, 1024);
}

/* --- warps ------------------------------------------------------------------------------------ */
KERNEL(shuffles)
{
    const unsigned all = 0xffffffffu, t = threadIdx.x;
    const unsigned v = x[t];
    y[t] = __shfl_sync(all, v, 5);
    y[32 + t] = __shfl_sync(all, v, 9, 8);
    y[64 + t] = __shfl_xor_sync(all, v, 3);
    y[96 + t] = __shfl_xor_sync(all, v, 8, 8);
    y[128 + t] = __shfl_down_sync(all, v, 3);
    y[160 + t] = __shfl_down_sync(all, v, 3, 16);
    y[192 + t] = __shfl_up_sync(all, v, 3);
    y[224 + t] = __shfl_up_sync(all, v, 1, 4);
}
static unsigned shuffles_expected(unsigned i)
{
    const unsigned t = i % 32;
    switch (i / 32) {
    case 0:
        return x_of(5);
    case 1:
        return x_of(t / 8 * 8 + 1);
    case 2:
        return x_of(t ^ 3);
    case 3: /* a later group cannot be read, but an earlier one can */
        return x_of(t & 8 ? t - 8 : t);
    case 4:
        return x_of(t + 3 < 32 ? t + 3 : t);
    case 5:
        return x_of(t % 16 + 3 < 16 ? t + 3 : t);
    case 6:
        return x_of(t >= 3 ? t - 3 : t);
    default:
        return x_of(t % 4 >= 1 ? t - 1 : t);
    }
}
KERNEL(reductions) /* a warp of 20 lanes */
{
    const unsigned t = threadIdx.x, mine = 0xfffffu;
    const int v = static_cast<int>(t) - 7;
    y[t] = __reduce_add_sync(mine, t);
    y[20 + t] = static_cast<unsigned>(__reduce_min_sync(mine, v));
    y[40 + t] = static_cast<unsigned>(__reduce_max_sync(mine, v));
    y[60 + t] = __reduce_max_sync(mine, static_cast<unsigned>(v));
    y[80 + t] = __reduce_xor_sync(mine, t);
    y[100 + t] = __ballot_sync(mine, t % 3 == 0);
    y[120 + t] = static_cast<unsigned>(__any_sync(mine, t == 19) + 2 * __all_sync(mine, t < 20) +
                                       4 * __any_sync(mine, t > 19) + 8 * __all_sync(mine, t != 0));
    y[140 + t] = static_cast<unsigned>(__syncthreads_count(t > 4)) + x[0];
}
static unsigned reductions_expected(unsigned i)
{
    static const unsigned values[] = {
        190, static_cast<unsigned>(-7), 12, 0xffffffffu, 0, 0x49249, 3, 15};
    return values[i / 20];
}
KERNEL(halves) /* two groups of lanes that progress independently, then all lanes */
{
    const unsigned t = threadIdx.x;
    unsigned v = x[t];
    if (t < 16) {
        for (int i = 0; i < 3; i++)
            v = __shfl_xor_sync(0xffffu, v, 1);
    } else {
        v = __shfl_xor_sync(0xffff0000u, v, 1);
    }
    y[t] = __shfl_xor_sync(0xffffffffu, v, 1);
}
KERNEL(pairs) /* a collective of the caller's own: each lane gets its value plus twice its
               * neighbour's */
{
    y[threadIdx.x] = sb_emu_warp<unsigned, unsigned>(
        "pairs", 0xffffffffu, x[threadIdx.x], [](uint32_t, const unsigned *in, unsigned *out) {
            for (int i = 0; i < 32; i++)
                out[i] = in[i] + 2 * in[i ^ 1];
        });
}
static unsigned pairs_expected(unsigned i)
{
    return x_of(i) + 2 * x_of(i ^ 1);
}
KERNEL(two_operations)
{
    const unsigned v = x[threadIdx.x];
    y[threadIdx.x] =
        threadIdx.x < 16 ? __ballot_sync(0xffffffffu, v != 0) : __shfl_sync(0xffffffffu, v, 0);
}
KERNEL(two_votes) /* the same types, another operation */
{
    const int v = x[threadIdx.x] != 0;
    y[threadIdx.x] = static_cast<unsigned>(threadIdx.x < 16 ? __any_sync(0xffffffffu, v)
                                                            : __all_sync(0xffffffffu, v));
}
KERNEL(two_names) /* the operations on the lanes are the same */
{
    const unsigned v = x[threadIdx.x];
    y[threadIdx.x] = threadIdx.x < 16 ? __shfl_sync(0xffffffffu, v, static_cast<int>(threadIdx.x))
                                      : __shfl_xor_sync(0xffffffffu, v, 0);
}
KERNEL(two_folds) /* the same name */
{
    const auto more = [](uint32_t, const unsigned *in, unsigned *out) {
        for (int i = 0; i < 32; i++)
            out[i] = in[i] + 1;
    };
    const auto less = [](uint32_t, const unsigned *in, unsigned *out) {
        for (int i = 0; i < 32; i++)
            out[i] = in[i] - 1;
    };
    const unsigned v = x[threadIdx.x];
    y[threadIdx.x] = threadIdx.x < 16
                         ? sb_emu_warp<unsigned, unsigned>("fold", 0xffffffffu, v, more)
                         : sb_emu_warp<unsigned, unsigned>("fold", 0xffffffffu, v, less);
}
KERNEL(two_lines) /* the same operation on two lines */
{
    const unsigned v = x[threadIdx.x];
    if (threadIdx.x < 16)
        y[threadIdx.x] = __shfl_xor_sync(0xffffffffu, v, 0);
    else
        y[threadIdx.x] = __shfl_xor_sync(0xffffffffu, v, 0);
}
KERNEL(absent_lanes) /* 20 of 32 */
{
    y[threadIdx.x] = __shfl_sync(0xffffffffu, static_cast<unsigned>(x[threadIdx.x]), 0);
}

TEST(test_warps)
{
    RIGHT(shuffles, 1, 32, shuffles_expected, 256);
    RIGHT(reductions, 1, 20, reductions_expected, 160);
    RIGHT(halves, 1, 32, x_of, 32);
    RIGHT(pairs, 1, 32, pairs_expected, 32);
    REFUSED(two_operations, 1, 32, "with which lane ");
    REFUSED(two_votes, 1, 32, "with which lane ");
    REFUSED(two_names, 1, 32, "with which lane ");
    REFUSED(two_folds, 1, 32, "with which lane ");
    RIGHT(two_lines, 1, 32, x_of, 32);
    REFUSED(absent_lanes, 1, 20, "in a warp of 20 lanes");
}

/* --- memory ----------------------------------------------------------------------------------- */
KERNEL(bytes_of_a_word) /* four threads write a word, byte by byte: no race */
{
    SB_SHARED(unsigned char, bytes, 256);
    bytes[threadIdx.x] = static_cast<unsigned char>(x[threadIdx.x]);
    __syncthreads();
    if (threadIdx.x < 64)
        y[threadIdx.x] = sb_cast<unsigned>(bytes)[threadIdx.x];
}
static unsigned bytes_of_a_word_expected(unsigned i)
{
    unsigned word = 0;
    for (unsigned k = 0; k < 4; k++)
        word |= (x_of(4 * i + k) & 255) << (8 * k);
    return word;
}
KERNEL(overlapping_bytes)
{
    SB_SHARED(unsigned short, halves, 64);
    sb_cast<unsigned char>(halves)[threadIdx.x] = static_cast<unsigned char>(x[threadIdx.x]);
    if (threadIdx.x == 5)
        halves[2] = 7; /* bytes 4 and 5: its own and a neighbour's */
    __syncthreads();
    y[threadIdx.x] = 0;
}
KERNEL(vectors)
{
    const uint4 v = sb_cast<const uint4>(x)[threadIdx.x];
    sb_cast<uint4>(y)[threadIdx.x] = make_uint4(v.w, v.z, v.y, v.x);
}
static unsigned vectors_expected(unsigned i)
{
    return x_of(i / 4 * 4 + 3 - i % 4);
}
KERNEL(misaligned_vector)
{
    const uint2 v = sb_cast<const uint2>(x + 1)[threadIdx.x];
    y[threadIdx.x] = v.x;
}
KERNEL(part)
{
    const sb_global<const unsigned> some = sb_part(x + 8, 4);
    y[threadIdx.x] = some[threadIdx.x];
}
KERNEL(below)
{
    const sb_global<const unsigned> some = sb_part(x + 8, 4);
    y[threadIdx.x] = some[static_cast<int>(threadIdx.x) - 1];
}
KERNEL(null_pointer)
{
    const sb_global<const unsigned> none = nullptr;
    y[threadIdx.x] = x == none ? 0 : __ldg(none);
}
KERNEL(unset_output)
{
    y[threadIdx.x] += x[threadIdx.x];
}
KERNEL(same_element) /* in two blocks */
{
    y[threadIdx.x] = x[threadIdx.x];
}
KERNEL(of_another_block)
{
    if (blockIdx.x == 0)
        y[threadIdx.x] = x[threadIdx.x];
    else if (blockIdx.x == 1)
        y[64 + threadIdx.x] = y[threadIdx.x] + 1;
}
KERNEL(stale_shared) /* values left by an earlier block count as unwritten */
{
    SB_SHARED(unsigned, left, 64);
    if (blockIdx.x == 0)
        left[threadIdx.x] = x[threadIdx.x];
    y[blockIdx.x * 64 + threadIdx.x] = left[threadIdx.x];
}
KERNEL(too_much_shared)
{
    SB_SHARED(unsigned char, big, SB_EMU_SHARED_BYTES);
    SB_SHARED(unsigned char, one, 1);
    big[threadIdx.x] = one[0] = static_cast<unsigned char>(x[0]);
    y[0] = big[0];
}
KERNEL(all_shared)
{
    SB_SHARED(unsigned, big, SB_EMU_SHARED_BYTES / 4);
    big[SB_EMU_SHARED_BYTES / 4 - 1 - threadIdx.x] = x[threadIdx.x];
    y[threadIdx.x] = big[SB_EMU_SHARED_BYTES / 4 - 1 - threadIdx.x];
}

TEST(test_memory)
{
    RIGHT(bytes_of_a_word, 1, 256, bytes_of_a_word_expected, 64);
    REFUSED(overlapping_bytes, 1, 64, "a race: a write of byte 4 of shared array halves");
    RIGHT(vectors, 1, 256, vectors_expected, 1024);
    REFUSED(misaligned_vector, 1, 8, "of buffer input is not aligned to 8");
    REFUSED(part, 1, 5, "[32, 48), element 4 of that size");
    REFUSED(below, 1, 4, "[32, 48), element -1 of that size");
    REFUSED(null_pointer, 1, 4, "a read through a null pointer");
    REFUSED(unset_output, 1, 4, "of buffer output (element");
    RIGHT(same_element, 1, 64, x_of, 64);
    REFUSED(same_element, 2, 64, "which another block has written");
    RIGHT(all_shared, 1, 64, x_of, 64);
    REFUSED(too_much_shared, 1, 32,
            "shared array one of 1 bytes: 101376 of 101376 bytes are already in use");
    fresh(0);
    assert_int_equal(run("of_another_block", of_another_block, 2, 64, 0), SB_ERR_DIFF);
    assert_non_null(strstr(err.text, "which another block has written"));
    fresh(0);
    assert_int_equal(run("stale_shared", stale_shared, 2, 64, 0), SB_ERR_DIFF);
    assert_non_null(strstr(err.text, "block (1,0,0)"));
    assert_non_null(strstr(err.text, "which no thread has written"));
}

/* --- atomic operations ------------------------------------------------------------------------ */
KERNEL(atomics)
{
    SB_SHARED(unsigned, sum, 8);
    const unsigned t = threadIdx.x;
    if (t < 8)
        sum[t] = 0;
    __syncthreads();
    atomicAdd(sum, x[t]);
    atomicMax(sum + 1, t);
    atomicOr(sum + 2, 1u << (t & 31));
    atomicXor(sum + 3, x[t]);
    if (atomicCAS(sum + 4, 0u, t + 1) == 0)
        atomicExch(sum + 5, t + 1);
    atomicMin(sb_cast<int>(sum) + 6, -static_cast<int>(t));
    __syncthreads();
    if (t < 4)
        y[t] = sum[t];
    y[4 + t] = static_cast<unsigned>(sum[4]) == static_cast<unsigned>(sum[5]) && sum[6] == -63u;
}
static unsigned atomics_expected(unsigned i)
{
    unsigned sum = 0, bits = 0;
    for (unsigned t = 0; t < 64; t++) {
        sum += x_of(t);
        bits ^= x_of(t);
    }
    const unsigned values[] = {sum, 63, 0xffffffffu, bits, 1};
    return values[i < 4 ? i : 4];
}
KERNEL(plain_and_atomic)
{
    SB_SHARED(unsigned, sum, 1);
    if (threadIdx.x == 0)
        sum[0] = x[0];
    __syncthreads();
    if (threadIdx.x == 9)
        sum[0] = 1;
    else
        atomicAdd(sum, 1u);
    __syncthreads();
    y[threadIdx.x] = sum[0];
}

KERNEL(spinning) /* waits for a value that only a later block writes */
{
    if (atomicAdd(y, 0u) == x[1])
        y[1] = 0;
    while (blockIdx.x == 0 && atomicAdd(y, 0u) == 0) {
    }
}

TEST(test_atomics)
{
    fresh(0);
    memset(output.word, 0, sizeof output.word);
    memset(output.region.state, SB_EMU_SET, sizeof output.word);
    assert_int_equal(run("spinning", spinning, 2, 1, 0), SB_ERR_DIFF);
    assert_non_null(
        strstr(err.text, "have changed nothing: the value that they wait for does not come"));
    RIGHT(atomics, 1, 64, atomics_expected, 68);
    REFUSED(plain_and_atomic, 1, 32, "a race: ");
}

/* --- barriers and copies ---------------------------------------------------------------------- */
KERNEL(zeros) /* a copy of 4 bytes of 16: the others become zero */
{
    SB_SHARED_DYNAMIC(unsigned, four);
    sb_cp_async<16>(four + 4 * threadIdx.x, x + 4 * threadIdx.x, 4);
    sb_cp_async_commit();
    sb_cp_async_wait<0>();
    for (unsigned i = 0; i < 4; i++)
        y[4 * threadIdx.x + i] = four[4 * threadIdx.x + i];
}
static unsigned zeros_expected(unsigned i)
{
    return i % 4 == 0 ? x_of(i) : 0;
}
KERNEL(nothing_read) /* a copy of 0 bytes: all 16 become zero */
{
    SB_SHARED_DYNAMIC(unsigned, four);
    const sb_global<const unsigned> none = nullptr;
    sb_cp_async<16>(four + 4 * threadIdx.x, threadIdx.x % 2 ? none : x + 1024, 0);
    sb_cp_async_wait_all();
    for (unsigned i = 0; i < 4; i++)
        y[4 * threadIdx.x + i] = four[4 * threadIdx.x + i];
}
static unsigned zero(unsigned)
{
    return 0;
}
KERNEL(nothing_misaligned)
{
    SB_SHARED(unsigned, four, 4);
    sb_cp_async<16>(four, x + 1025, 0);
    y[0] = 0;
}
KERNEL(read_beyond)
{
    SB_SHARED(unsigned, four, 4);
    sb_cp_async<16>(four, x + 1024, 4);
    y[0] = 0;
}
KERNEL(open_group) /* a wait for groups does not wait for copies outside of groups */
{
    SB_SHARED(unsigned, one, 32);
    sb_cp_async<4>(one + threadIdx.x, x + threadIdx.x);
    sb_cp_async_wait<0>();
    y[threadIdx.x] = one[threadIdx.x];
}
KERNEL(wrong_count)
{
    sb_barrier_sync(3, threadIdx.x < 32 ? 64 : 32);
    y[threadIdx.x] = x[threadIdx.x];
}
KERNEL(barrier_zero)
{
    sb_barrier_sync(0, 32);
    y[threadIdx.x] = x[threadIdx.x];
}
KERNEL(never_made)
{
    SB_SHARED(uint64_t, gate, 1);
    gate[0] = 0;
    sb_mbarrier_wait(gate, 0);
    y[threadIdx.x] = x[threadIdx.x];
}
KERNEL(arrivals) /* an mbarrier as a barrier: data written before an arrival is visible after the
                  * wait */
{
    SB_SHARED(uint64_t, gate, 1);
    SB_SHARED(unsigned, row, 64);
    if (threadIdx.x == 0)
        sb_mbarrier_init(gate, 64);
    sb_fence_async();
    __syncthreads();
    unsigned v = x[threadIdx.x];
    for (unsigned k = 0; k < 6; k += 2) {
        row[threadIdx.x] = v;
        sb_mbarrier_arrive(gate);
        sb_mbarrier_wait(gate, k & 1);
        v = row[(threadIdx.x + 1) % 64];
        sb_mbarrier_arrive(gate);
        sb_mbarrier_wait(gate, (k + 1) & 1);
    }
    y[threadIdx.x] = v;
}
static unsigned arrivals_expected(unsigned i)
{
    return x_of((i + 3) % 64);
}
KERNEL(left_bulk)
{
    SB_SHARED(uint64_t, gate, 1);
    SB_SHARED(unsigned, row, 64);
    sb_mbarrier_init(gate, 1);
    sb_mbarrier_arrive_expect(gate, 256);
    sb_bulk_copy(row, x, 256, gate);
    y[0] = 0;
}

TEST(test_barriers_and_copies)
{
    RIGHT(zeros, 1, 32, zeros_expected, 128);
    RIGHT(nothing_read, 1, 32, zero, 128);
    REFUSED(nothing_misaligned, 1, 1, "from byte 4100 of buffer input is not aligned to 16");
    REFUSED(read_beyond, 1, 1, "sb_cp_async of 4 bytes at byte 4096 of buffer input is out of");
    REFUSED(open_group, 1, 32, "an asynchronous copy to this byte is under way");
    REFUSED(wrong_count, 1, 64, "but other threads entered it as a barrier of");
    REFUSED(barrier_zero, 1, 32, "barrier 0, expected 1 to 15");
    REFUSED(never_made, 1, 1, "no mbarrier was made at byte 0 of shared array gate");
    RIGHT(arrivals, 1, 64, arrivals_expected, 64);
    REFUSED(left_bulk, 1, 1, "the block ends with bulk copies under way");
}

/* --- launches --------------------------------------------------------------------------------- */
TEST(test_launches)
{
    fresh(0);
    assert_int_equal(run("k", places, 1, 1025, 0), SB_ERR_USAGE);
    assert_int_equal(run("k", places, 1, dim3(1, 1, 65), 0), SB_ERR_USAGE);
    assert_int_equal(run("k", places, 0, 32, 0), SB_ERR_USAGE);
    assert_int_equal(run("k", places, 1, 32, SB_EMU_SHARED_BYTES + 1), SB_ERR_USAGE);
    assert_int_equal(run("k", places, dim3(1, 65536), 32, 0), SB_ERR_USAGE);
    queue = {emulator, &err};
    assert_int_equal(SB_LAUNCH(&queue, a_thousand, 1, 1024, 0, &input.region, &output.region),
                     SB_OK);
}

TEST(test_out_of_memory) /* at every allocation */
{
    unsigned long n = 1;
    for (sb_status status = SB_ERR_MEMORY; status != SB_OK; n++) {
        fresh(0);
        sb_alloc_fail_at(n);
        sb_emu *small = sb_emu_new(1);
        status = small ? sb_emu_call(small, "zeros", zeros, 1, 32, 1024, &err, &input.region,
                                     &output.region)
                       : SB_ERR_MEMORY;
        sb_alloc_fail_at(0);
        if (status != SB_OK && status != SB_ERR_MEMORY)
            fail_msg("allocation %lu: status %d, %s", n, static_cast<int>(status), err.text);
        fresh(0);
        if (small && sb_emu_call(small, "zeros", zeros, 1, 32, 1024, &err, &input.region,
                                 &output.region) != SB_OK) /* the emulator can still be used */
            fail_msg("after allocation %lu: %s", n, err.text);
        sb_emu_free(small);
    }
    assert_true(n > 64); /* the allocations of the emulator, of the launch, and for the copies of 32
                          * threads */
}

TEST(test_seeds) /* the same seed gives the same order and the same first fault */
{
    unsigned different = 0;
    for (uint64_t seed = 1; seed < 9; seed++) {
        sb_error first = {};
        for (int i = 0; i < 3; i++) {
            fresh(i == 2 ? seed + 100 : seed);
            assert_int_equal(run("overlapping", overlapping_bytes, 2, 64, 0), SB_ERR_DIFF);
            if (i == 1)
                assert_string_equal(err.text, first.text);
            else if (i == 2)
                different += strcmp(err.text, first.text) != 0;
            else
                first = err;
        }
    }
    assert_true(different > 0);
}

/* --- arithmetic ------------------------------------------------------------------------------- */
TEST(test_arithmetic)
{
    const uint64_t key = sb_rng_key(7, "fma");
    for (uint64_t i = 0; i < 300000; i++) {
        unsigned u[3];
        for (uint64_t k = 0; k < 3; k++)
            u[k] = static_cast<unsigned>(sb_rng_u64(key, 3 * i + k));
        if (i & 1) /* close to cancellation */
            u[2] = __float_as_uint(-(__uint_as_float(u[0]) * __uint_as_float(u[1]))) + (u[2] & 3);
        if (i % 4 >= 2) /* small results */
            u[0] = (u[0] & 0x83ffffffu) | 0x1c000000u, u[1] = (u[1] & 0x83ffffffu) | 0x1c000000u;
        const float a = __uint_as_float(u[0]), b = __uint_as_float(u[1]), c = __uint_as_float(u[2]);
        const float got = __fmaf_rn(a, b, c), want = fmaf(a, b, c);
        if (__float_as_uint(got) != __float_as_uint(want) && !(got != got && want != want))
            fail_msg("fma(%a, %a, %a) = %a, not %a", a, b, c, got, want);
    }
    assert_int_equal(__float2int_rn(2.5f), 2);
    assert_int_equal(__float2int_rn(-3.5f), -4);
    assert_int_equal(__float2int_rn(3e9f), INT32_MAX);
    assert_int_equal(__float2int_rz(-3e9f), INT32_MIN);
    assert_int_equal(__float2int_rz(NAN), 0);
    assert_int_equal(__byte_perm(0x33221100, 0x77665544, 0x0615), 0x00661155);
    assert_int_equal(__byte_perm(0x80001234, 0, 0x3b81), 0x80803412); /* no signs */
    assert_int_equal(__funnelshift_l(0x80000000u, 1, 1), 3);
    assert_int_equal(__funnelshift_r(2, 1, 1), 0x80000001u);
    assert_int_equal(__clz(0), 32);
    assert_int_equal(__clz(1), 31);
    assert_int_equal(__ffs(8), 4);
    assert_int_equal(__popc(0xf0f0), 8);
    assert_true(__fsqrt_rn(2.0f) == 0x1.6a09e6p+0f);
    assert_true(__frcp_rn(3.0f) == 0x1.555556p-2f);
}

TEST_FIXTURE(start)
{
    emulator = sb_emu_new(0);
    return emulator ? 0 : -1;
}

TEST_FIXTURE(end)
{
    sb_emu_region_close(&input.region);
    sb_emu_region_close(&output.region);
    sb_emu_free(emulator);
    return 0;
}
TEST_GROUP(start, end)
