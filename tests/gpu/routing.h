/* routing.h - pairs of rows and experts for tests, drawn and then sorted by the kernels. */
#ifndef SB_TESTS_GPU_ROUTING_H
#define SB_TESTS_GPU_ROUTING_H

#include <stdlib.h>

#include "gpu/kernel/experts.cuh"
#include "tests/gpu/emu_bench.h"

namespace
{

/* A routing: the results of the kernels for some ids. */
struct routing {
    uint32_t pairs, experts, most, chunks;
    uint32_t *ids, *counts, *order, *begin, *sets;
    uint32_t set_count;
};

inline uint32_t *words(size_t n)
{
    return static_cast<uint32_t *>(room_for(n, 4));
}

/* kind 0: any expert; 1: few experts; 2: a single one; 3: each row takes the next ones. */
inline routing draw_routing(uint32_t pairs, uint32_t experts, uint32_t most, unsigned kind,
                            uint64_t seed)
{
    routing r = {pairs,        experts, most,         sb_route_chunks(pairs),
                 words(pairs), NULL,    words(pairs), words(experts + 1),
                 NULL,         0};
    r.counts = words(static_cast<size_t>(r.chunks) * experts);
    r.sets = words(2 * sb_route_most(pairs, experts, most));
    for (uint32_t i = 0; i < pairs; i++) {
        const uint32_t any = sb_rng_below(sb_rng_key(seed, "ids"), i, experts);
        r.ids[i] = kind == 0   ? any
                   : kind == 1 ? any % 3 * (experts / 4)
                   : kind == 2 ? experts - 1
                               : i % experts;
    }
    return r;
}

inline void drop_routing(routing *r)
{
    free(r->ids);
    free(r->counts);
    free(r->order);
    free(r->begin);
    free(r->sets);
}

inline bool route(routing *r, uint64_t seed)
{
    emu_bench b(seed);
    const size_t counts = static_cast<size_t>(r->chunks) * r->experts;
    const auto ids = b.in("ids", r->ids, r->pairs);
    const auto places = b.out("counts", r->counts, counts);
    const auto order = b.out("order", r->order, r->pairs);
    const auto sets = b.out("sets", reinterpret_cast<uint2 *>(r->sets),
                            sb_route_most(r->pairs, r->experts, r->most));
    const auto begin = b.out("begin", r->begin, r->experts + 1);
    const uint32_t threads = sb_route_threads(r->experts);
    EMU_RUN(b, sb_route_count, r->chunks, threads, 0, ids, places, r->pairs, r->experts);
    EMU_RUN(b, sb_route_place, 1, threads, 0, places, begin, sets,
            b.out("set count", &r->set_count, 1), r->chunks, r->experts, r->most);
    return SB_LAUNCH(&b.queue, sb_route_order, r->chunks, threads, 0, ids, places, order, r->pairs,
                     r->experts) == SB_OK;
}

/* Whether the pairs are sorted by expert, keep their order within an expert, and form sets of at
 * most `most`. */
inline bool routed_as_said(const routing *r)
{
    uint32_t at = 0, set = 0;
    for (uint32_t e = 0; e < r->experts; e++) {
        if (r->begin[e] != at)
            return false;
        for (uint32_t i = 0, in_set = 0; i < r->pairs; i++) {
            if (r->ids[i] != e)
                continue;
            if (in_set++ % r->most == 0) {
                if (set >= r->set_count || r->sets[2 * set] != e || r->sets[2 * set + 1] != at)
                    return false;
                set++;
            }
            if (r->order[at++] != i)
                return false;
        }
    }
    return r->begin[r->experts] == r->pairs && set == r->set_count;
}

} // namespace

#endif
