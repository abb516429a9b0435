/* experts_sort.cuh - the steps of the sort by expert (experts.cuh). The kernels of experts.cuh do
 * one step each; fused_route.cuh does all steps. */
#ifndef SB_KERNEL_EXPERTS_SORT_CUH
#define SB_KERNEL_EXPERTS_SORT_CUH

#include "gpu/kernel/experts_rows.cuh"

enum : uint32_t { SB_ROUTE_CHUNK = 256, SB_ROUTE_THREADS = 256 };

/* The number of threads: one for each expert, rounded up to whole warps, at most SB_ROUTE_THREADS.
 */
inline uint32_t sb_route_threads(uint32_t experts)
{
    return experts < SB_ROUTE_THREADS ? (experts + 31) / 32 * 32 : uint32_t(SB_ROUTE_THREADS);
}

/* The number of pairs of expert e among `count` pairs. */
SB_ATOM_FN uint32_t sb_route_found(sb_shared<const uint32_t> mine, uint32_t count, uint32_t e)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++)
        found += mine[i] == e;
    return found;
}

/* One warp replaces the counts in `pairs` and `sets` by their exclusive prefix sums. Returns the
 * sum of all sets, and writes the sum of all pairs to pairs[experts]. */
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

/* Like sb_route_scan, but called by all threads of a block. Writes the sum of all sets to
 * *set_count. */
SB_ATOM_FN void sb_route_begin(sb_shared<uint32_t> pairs, sb_shared<uint32_t> first_set,
                               uint32_t experts, sb_global<uint32_t> set_count)
{
    __syncthreads();
    if (threadIdx.x < 32) {
        const uint32_t all = sb_route_scan(pairs, first_set, experts);
        if (threadIdx.x == 0)
            *set_count = all;
    }
    __syncthreads();
}

/* Writes where the pairs of an expert begin, and its sets. */
SB_ATOM_FN void sb_route_sets(sb_shared<const uint32_t> pairs, sb_shared<const uint32_t> first_set,
                              uint32_t e, uint32_t most, sb_global<uint32_t> begin,
                              sb_global<uint2> sets)
{
    const uint32_t first = pairs[e], end = pairs[e + 1];
    uint32_t set = first_set[e];
    begin[e] = first;
    for (uint32_t at = first; at < end; at += most)
        sets[set++] = make_uint2(e, at);
}

/* Finds the pairs of expert e among the `count` pairs from pair `first` on, and writes them to
 * `order` from place `at` on. */
SB_ATOM_FN void sb_route_put(sb_shared<const uint32_t> mine, uint32_t count, uint32_t e,
                             uint32_t at, uint32_t first, sb_global<uint32_t> order)
{
    for (uint32_t i = 0; i < count; i++)
        if (mine[i] == e)
            order[at++] = first + (SB_PLANT(experts_order) && (i ^ 1) < count ? i ^ 1 : i);
}

#endif
