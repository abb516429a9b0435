/* experts.cuh - the rows of a call by expert: which pairs of row and slot each expert has, in
 * tiles for a layer of tile.cuh.
 *
 * A pair is numbered row * kept + slot. Y-61: "Pairs are sorted by expert, those of one expert in
 * the order of row and slot, by counting and without atomic operations." So all of it is the same
 * for every schedule. Three kernels, for `chunks` of SB_ROUTE_CHUNK pairs:
 *
 *   sb_route_count  <<<chunks>>>  how many pairs of a chunk each expert has
 *   sb_route_place  <<<1>>>       where they begin, and the sets of at most `most` pairs
 *   sb_route_order  <<<chunks>>>  the pairs in their places
 *
 * all of sb_route_threads. Then sb_tile_kernel<LAYER, NT, sb_routed_rows, ...> with a grid of
 * sb_route_most sets. */
#ifndef SB_KERNEL_EXPERTS_CUH
#define SB_KERNEL_EXPERTS_CUH

#include "gpu/kernel/experts_rows.cuh"

enum : uint32_t { SB_ROUTE_CHUNK = 256, SB_ROUTE_THREADS = 256 };

inline uint32_t sb_route_chunks(uint32_t pairs)
{
    return (pairs + SB_ROUTE_CHUNK - 1) / SB_ROUTE_CHUNK;
}

/* Whole warps, of which none has nothing to do if others can do it. */
inline uint32_t sb_route_threads(uint32_t experts)
{
    return experts < SB_ROUTE_THREADS ? (experts + 31) / 32 * 32 : uint32_t(SB_ROUTE_THREADS);
}

/* The experts of a chunk's pairs into shared memory; how many pairs it has. */
SB_ATOM_FN uint32_t sb_route_load(sb_global<const uint32_t> ids, sb_shared<uint32_t> mine,
                                  uint32_t pairs)
{
    const uint32_t first = blockIdx.x * SB_ROUTE_CHUNK, left = pairs - first;
    const uint32_t count = left < SB_ROUTE_CHUNK ? left : SB_ROUTE_CHUNK;
    for (uint32_t i = threadIdx.x; i < count; i += blockDim.x)
        mine[i] = ids[first + i];
    __syncthreads();
    return count;
}

/* counts (chunks, experts) */
static __global__ void __launch_bounds__(SB_ROUTE_THREADS)
    sb_route_count(sb_global<const uint32_t> ids, sb_global<uint32_t> counts, uint32_t pairs,
                   uint32_t experts)
{
    sb_launch_ready();
    sb_launch_wait();
    SB_SHARED(uint32_t, mine, SB_ROUTE_CHUNK);
    const uint32_t count = sb_route_load(ids, mine, pairs);
    for (uint32_t e = threadIdx.x; e < experts; e += blockDim.x) {
        uint32_t found = 0;
        for (uint32_t i = 0; i < count; i++)
            found += mine[i] == e;
        counts[blockIdx.x * experts + e] = found;
    }
}

/* One warp: in `pairs` and `sets` the sums of all that stand before, in the place of the counts of
 * each expert. Gives the sum of all sets, and writes that of all pairs behind the last. */
SB_ATOM_FN uint32_t sb_route_scan(sb_shared<uint32_t> pairs, sb_shared<uint32_t> sets,
                                  uint32_t experts)
{
    const uint32_t lane = threadIdx.x % 32, each = (experts + 31) / 32, from = lane * each;
    const uint32_t end = from + each < experts ? from + each : experts;
    uint32_t all_pairs = 0, all_sets = 0;
    for (uint32_t e = from; e < end; e++) {
        all_pairs += pairs[e];
        all_sets += sets[e];
    }
    uint32_t sum_pairs = all_pairs, sum_sets = all_sets;
    for (uint32_t by = 1; by < 32; by *= 2) {
        const uint32_t more_pairs = __shfl_up_sync(0xffffffffu, sum_pairs, by);
        const uint32_t more_sets = __shfl_up_sync(0xffffffffu, sum_sets, by);
        sum_pairs += lane >= by ? more_pairs : 0;
        sum_sets += lane >= by ? more_sets : 0;
    }
    const uint32_t total_sets = __shfl_sync(0xffffffffu, sum_sets, 31);
    if (lane == 31)
        pairs[experts] = sum_pairs;
    sum_pairs -= all_pairs;
    sum_sets -= all_sets;
    for (uint32_t e = from; e < end; e++) {
        const uint32_t here_pairs = pairs[e], here_sets = sets[e];
        pairs[e] = sum_pairs;
        sets[e] = sum_sets;
        sum_pairs += here_pairs;
        sum_sets += here_sets;
    }
    return total_sets;
}

/* counts become the places of the first pair of each chunk and expert. experts is at most
 * SB_ROUTE_EXPERTS. */
static __global__ void __launch_bounds__(SB_ROUTE_THREADS)
    sb_route_place(sb_global<uint32_t> counts, sb_global<uint32_t> begin, sb_global<uint2> sets,
                   sb_global<uint32_t> set_count, uint32_t chunks, uint32_t experts, uint32_t most)
{
    sb_launch_ready();
    sb_launch_wait();
    SB_SHARED(uint32_t, pairs, SB_ROUTE_EXPERTS + 1);
    SB_SHARED(uint32_t, first_set, SB_ROUTE_EXPERTS);
    for (uint32_t e = threadIdx.x; e < experts; e += blockDim.x) {
        uint32_t sum = 0;
        for (uint32_t c = 0; c < chunks; c++) {
            const uint32_t here = counts[c * experts + e];
            counts[c * experts + e] = sum;
            sum += here;
        }
        pairs[e] = sum;
        first_set[e] = (sum + most - 1) / most;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        const uint32_t all = sb_route_scan(pairs, first_set, experts);
        if (threadIdx.x == 0)
            *set_count = all;
    }
    __syncthreads();
    for (uint32_t e = threadIdx.x; e < experts; e += blockDim.x) {
        const uint32_t first = pairs[e], end = pairs[e + 1];
        uint32_t set = first_set[e];
        begin[e] = first;
        for (uint32_t at = first; at < end; at += most)
            sets[set++] = make_uint2(e, at);
        for (uint32_t c = 0; c < chunks; c++)
            counts[c * experts + e] += first;
    }
    if (threadIdx.x == 0)
        begin[experts] = pairs[experts];
}

/* order (pairs) */
static __global__ void __launch_bounds__(SB_ROUTE_THREADS)
    sb_route_order(sb_global<const uint32_t> ids, sb_global<const uint32_t> places,
                   sb_global<uint32_t> order, uint32_t pairs, uint32_t experts)
{
    sb_launch_ready();
    sb_launch_wait();
    SB_SHARED(uint32_t, mine, SB_ROUTE_CHUNK);
    const uint32_t count = sb_route_load(ids, mine, pairs), first = blockIdx.x * SB_ROUTE_CHUNK;
    for (uint32_t e = threadIdx.x; e < experts; e += blockDim.x) {
        uint32_t at = places[blockIdx.x * experts + e];
        for (uint32_t i = 0; i < count; i++)
            if (mine[i] == e)
                order[at++] = first + (SB_PLANT(experts_order) && (i ^ 1) < count ? i ^ 1 : i);
    }
}

#endif
