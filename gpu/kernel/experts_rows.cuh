/* experts_rows.cuh - pairs of row and slot, sorted by expert (experts.cuh), as the inputs and
 * outputs of a layer of tile.cuh. */
#ifndef SB_KERNEL_EXPERTS_ROWS_CUH
#define SB_KERNEL_EXPERTS_ROWS_CUH

#include "gpu/kernel/tile.cuh"

enum : uint32_t { SB_ROUTE_EXPERTS = 1024 }; /* at most */

/* An upper bound of the number of sets: each expert with pairs has at most one set that is not
 * full. */
inline uint32_t sb_route_most(uint32_t pairs, uint32_t experts, uint32_t most)
{
    return pairs / most + (pairs < experts ? pairs : experts);
}

/* Pairs as the inputs of sb_tile_kernel. */
struct sb_routed_rows {
    enum : bool { EARLY = false };
    sb_global<const uint32_t> order; /* (pairs) */
    sb_global<const uint32_t> begin; /* (experts + 1) the first pair of each expert in `order` */
    sb_global<const uint2> sets;     /* expert, and the first place in `order` */
    sb_global<const uint32_t> count; /* (1) the number of sets */
    uint32_t each;                   /* consecutive pairs that share an input row: kept, or 1 */

    SB_ATOM_FN bool find(uint32_t block, uint32_t most, sb_tile_set *set) const
    {
        const uint32_t all = *count;
        if (block >= all)
            return false;
        const uint2 mine = sets[block];
        const uint32_t end = begin[mine.x + 1];
        set->matrix = SB_PLANT(experts_tile) ? mine.x ^ 1 : mine.x;
        set->first = mine.y;
        set->count = end - mine.y < most ? end - mine.y : most;
        return true;
    }
    SB_ATOM_FN uint32_t input(uint32_t place) const
    {
        const uint32_t pair = order[place];
        return pair / each;
    }
    SB_ATOM_FN uint32_t output(uint32_t place) const
    {
        return order[place];
    }
};

#endif
