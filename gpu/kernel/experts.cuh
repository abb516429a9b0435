/* experts.cuh - sorts the pairs of row and slot of a call by expert, and cuts them into sets for a
 * layer of tile.cuh.
 *
 * A pair is numbered row * kept + slot. Y-61: "Pairs are sorted by expert, and the pairs of one
 * expert by row and slot, by counting and without atomic operations." So the result is the same for
 * every schedule. There are three kernels, each with sb_route_threads threads; `chunks` is the
 * number of chunks of SB_ROUTE_CHUNK pairs:
 *
 *   sb_route_count  <<<chunks>>>  counts the pairs of each expert in a chunk
 *   sb_route_place  <<<1>>>       finds where they begin, and the sets of at most `most` pairs
 *   sb_route_order  <<<chunks>>>  writes the pairs to their places
 *
 * Then follows sb_tile_kernel<LAYER, NT, sb_routed_rows, ...> with a grid of sb_route_most sets. */
#ifndef SB_KERNEL_EXPERTS_CUH
#define SB_KERNEL_EXPERTS_CUH

#include "gpu/kernel/experts_sort.cuh"

inline uint32_t sb_route_chunks(uint32_t pairs)
{
    return (pairs + SB_ROUTE_CHUNK - 1) / SB_ROUTE_CHUNK;
}

/* Copies the experts of a chunk's pairs into shared memory; returns the number of pairs. */
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
    for (uint32_t e = threadIdx.x; e < experts; e += blockDim.x)
        counts[blockIdx.x * experts + e] = sb_route_found(mine, count, e);
}

/* counts become the places of the first pair of each chunk and expert. At most SB_ROUTE_EXPERTS
 * experts. */
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
    sb_route_begin(pairs, first_set, experts, set_count);
    for (uint32_t e = threadIdx.x; e < experts; e += blockDim.x) {
        sb_route_sets(pairs, first_set, e, most, begin, sets);
        for (uint32_t c = 0; c < chunks; c++)
            counts[c * experts + e] += pairs[e];
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
    for (uint32_t e = threadIdx.x; e < experts; e += blockDim.x)
        sb_route_put(mine, count, e, places[blockIdx.x * experts + e], first, order);
}

#endif
