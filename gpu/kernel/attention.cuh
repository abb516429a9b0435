/* attention.cuh - causal attention over the cache on the bf16 unit. The order of sums is the same
 * for every row.
 *
 * The cache is cut into parts of 256 positions, counted from position 0. For each row and part
 * there are three results, always computed in the same way: the largest score, the sum of e and the
 * sum of R(e) v. The parts are then folded in order. Either one block goes through all parts (long
 * prompts), or each part has its own block and another kernel folds the parts (steps). No bit
 * depends on this choice, nor on the other rows of the call: a position that a row does not see
 * adds a zero, which rounds nothing.
 *
 * A tile is 16 pairs of a row and a head, from heads that share keys; 128 threads compute it. Each
 * of the four warps computes the scores of a quarter of the positions, and a quarter of the output
 * columns. Y-95: "A block of attention has one tile, or, if there are many rows, four tiles that
 * read each key and value once for all." The results of a tile are the same in both cases. The
 * tiles of a block share one stage. */
#ifndef SB_GPU_KERNEL_ATTENTION_CUH
#define SB_GPU_KERNEL_ATTENTION_CUH

#include "gpu/kernel/attention_shared.cuh"
#include "gpu/math/exp.h"

/* R-12: "s_u = RN( dot(q_t, k_u) RN(hd^-1/2) )", K-24: "The dot products of R-12 are then
 * multiplied by z before they are rounded" - here after the rounding, T-21. Computes the scores of
 * the tile's rows and the warp's positions of a chunk. */
template <int HD>
SB_KERNEL_FN void sb_attention_score(float (&d)[4], const sb_attention_shared &room,
                                     sb_shared<const uint16_t> keys, float key_scale, float scale)
{
    const sb_attention_self me = sb_attention_me();
    const uint32_t key = me.warp * SB_ATTENTION_KEYS + me.lane % 8;
    d[0] = d[1] = d[2] = d[3] = 0.0f;
    SB_UNROLL
    for (uint32_t step = 0; step < HD / 16; step += 2) {
        uint32_t a[4], b[4];
        sb_ldmatrix<4>(
            b, sb_cast<const uint4>(keys + sb_attention_piece<HD>(key, 2 * step + me.lane / 8)));
        SB_UNROLL
        for (uint32_t half = 0; half < 2; half++) {
            if (SB_PLANT(attention_tail) && step + half == HD / 16 - 1)
                break;
            const uint32_t p = 2 * (step + half) + me.lane / 16;
            const uint32_t own[2] = {b[2 * half], b[2 * half + 1]}, other[2] = {own[1], own[0]};
            sb_ldmatrix<4>(a,
                           sb_cast<const uint4>(room.q + sb_attention_piece<HD>(me.lane % 16, p)));
            sb_mma_bf16(d, a, SB_PLANT(attention_lanes) ? other : own);
        }
    }
    for (uint32_t i = 0; i < 4; i++)
        d[i] = __fmul_rn(__fmul_rn(d[i], key_scale), scale);
}

/* Returns two factors, for the result so far of a row and for a further part. The factors make both
 * relative to the larger of the two largest scores. */
SB_KERNEL_FN float2 sb_attention_factors(float known, float part)
{
    const float top = part > known ? part : known;
    return make_float2(sb_gpu_exp(__fsub_rn(known, top)), sb_gpu_exp(__fsub_rn(part, top)));
}
SB_KERNEL_FN float sb_attention_fold(float known, float part, float2 factors)
{
    return __fadd_rn(__fmul_rn(known, factors.x),
                     SB_PLANT(attention_fold) ? part : __fmul_rn(part, factors.y));
}

/* A thread's scores of a part, later replaced by their e: for each chunk, rows lane / 4 and lane /
 * 4 + 8 at two neighbouring positions. Registers cannot be indexed, so _put and _got loop over all
 * registers. */
struct sb_attention_scores {
    float of[SB_ATTENTION_CHUNKS][4];
};
SB_KERNEL_FN void sb_attention_put(sb_attention_scores &s, uint32_t chunk, const float (&d)[4])
{
    SB_UNROLL
    for (uint32_t n = 0; n < SB_ATTENTION_CHUNKS; n++)
        SB_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        s.of[n][i] = n == chunk ? d[i] : s.of[n][i];
}
SB_KERNEL_FN float sb_attention_got(const sb_attention_scores &s, uint32_t chunk, uint32_t i)
{
    float d = 0.0f;
    SB_UNROLL
    for (uint32_t n = 0; n < SB_ATTENTION_CHUNKS; n++)
        d = n == chunk ? s.of[n][i] : d;
    return d;
}
/* The first of a thread's two positions in a chunk, counted within the part. */
SB_KERNEL_FN uint32_t sb_attention_column(uint32_t chunk, uint32_t chunks)
{
    return (sb_attention_me().warp * chunks + chunk) * SB_ATTENTION_KEYS + threadIdx.x % 4 * 2;
}

/* For each of the thread's two rows: finds the largest score at positions below `limit`. Each warp
 * writes its own results to `words`. */
SB_KERNEL_FN void sb_attention_largest(const sb_attention_scores &s, const uint32_t (&limit)[2],
                                       uint32_t chunks, sb_shared<float> words)
{
    const sb_attention_self me = sb_attention_me();
    float top[2];
    top[0] = top[1] = sb_gpu_float(0xff800000u);
    SB_UNROLL
    for (uint32_t n = 0; n < SB_ATTENTION_CHUNKS; n++)
        SB_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        if (n < chunks && sb_attention_column(n, chunks) + i % 2 < limit[i / 2])
            top[i / 2] = s.of[n][i] > top[i / 2] ? s.of[n][i] : top[i / 2];
    SB_UNROLL
    for (uint32_t half = 0; half < 2; half++) {
        for (int by = 2; by > 0; by /= 2) {
            const float other = __shfl_xor_sync(0xffffffffu, top[half], by);
            top[half] = other > top[half] ? other : top[half];
        }
        if (me.lane % 4 == 0)
            words[me.warp * SB_ATTENTION_ROWS + me.lane / 4 + 8 * half] = top[half];
    }
}

/* R-12: "e_u = exp( RN(s_u - max s) )", K-11: "flash uses R(e_u) in place of p_u". Replaces the
 * scores by e, and writes R(e) to room.p. */
SB_KERNEL_FN void sb_attention_odds(sb_attention_scores &s, const sb_attention_shared &room,
                                    const float (&top)[2], const uint32_t (&end)[2],
                                    uint32_t chunks)
{
    const uint32_t row = threadIdx.x % 32 / 4;
    SB_ROLLED
    for (uint32_t n = 0; n < chunks; n++) {
        const uint32_t column = sb_attention_column(n, chunks);
        float e[4] = {};
        SB_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            if (column + i % 2 < end[i / 2])
                e[i] = sb_gpu_exp(__fsub_rn(sb_attention_got(s, n, i), top[i / 2]));
        SB_UNROLL
        for (uint32_t half = 0; half < 2; half++) {
            const uint32_t low = sb_narrow<uint16_t>(e[2 * half]);
            const uint32_t high = sb_narrow<uint16_t>(e[2 * half + 1]);
            const uint32_t at =
                sb_attention_piece<SB_ATTENTION_PART>(row + 8 * half, column / 8) + column % 8;
            *sb_cast<uint32_t>(room.p + at) = high << 16 | low;
        }
        sb_attention_put(s, n, e);
    }
}

/* Computes the sums of e of the thread's two rows; only the last warp has the results. Y-97: "The e
 * of a part are added as eight sums, of the positions that are the same modulo 8, each from the
 * first to the last" - `words` passes the sums from warp to warp. */
SB_KERNEL_FN void sb_attention_total(const sb_attention_scores &s, sb_shared<float> words,
                                     float (&total)[2])
{
    const sb_attention_self me = sb_attention_me();
    float2 sum[2] = {make_float2(0.0f, 0.0f), make_float2(0.0f, 0.0f)};
    for (uint32_t warp = 0; warp < 4; warp++) {
        SB_UNROLL
        for (uint32_t half = 0; half < 2 && me.warp == warp; half++) {
            const sb_shared<float2> before =
                sb_cast<float2>(words + ((me.lane / 4 + 8 * half) * 8 + me.lane % 4 * 2));
            if (warp > 0)
                sum[half] = *before;
            SB_UNROLL
            for (uint32_t n = 0; n < SB_ATTENTION_CHUNKS; n++)
                sum[half] = make_float2(__fadd_rn(sum[half].x, s.of[n][2 * half]),
                                        __fadd_rn(sum[half].y, s.of[n][2 * half + 1]));
            if (warp < 3)
                *before = sum[half];
        }
        if (warp < 3 && !SB_PLANT(attention_barrier4))
            __syncthreads();
    }
    for (uint32_t half = 0; half < 2 && me.warp == 3; half++) {
        for (int by = 2; by > 0; by /= 2) {
            const float x = __shfl_xor_sync(0xffffffffu, sum[half].x, by);
            const float y = __shfl_xor_sync(0xffffffffu, sum[half].y, by);
            sum[half] = make_float2(__fadd_rn(sum[half].x, x), __fadd_rn(sum[half].y, y));
        }
        total[half] = __fadd_rn(sum[half].x, sum[half].y);
    }
}

/* The softmax of one part, which begins at position `part`, for the two rows of the thread:
 * computes the largest score over all warps, e, the sum of e, and the factors unless the part is
 * the first. */
SB_KERNEL_FN void sb_attention_softmax(sb_attention_scores &s, const sb_attention_shared &room,
                                       sb_shared<float> words, uint32_t part, uint32_t chunks,
                                       bool first)
{
    const sb_attention_self me = sb_attention_me();
    const uint32_t more = SB_PLANT(attention_mask) ? 1 : 0, columns = chunks * SB_ATTENTION_CHUNK;
    const uint32_t limit[2] = {room.limit[me.lane / 4], room.limit[me.lane / 4 + 8]};
    const uint32_t end[2] = {limit[0] > part ? limit[0] - part + more : 0,
                             limit[1] > part ? limit[1] - part + more : 0};
    const uint32_t all[2] = {columns, columns};
    float top[2], total[2] = {};
    sb_attention_largest(s, SB_PLANT(attention_masked_top) ? all : end, chunks, words);
    if (!SB_PLANT(attention_barrier))
        __syncthreads();
    for (uint32_t half = 0; half < 2; half++) {
        top[half] = words[me.lane / 4 + 8 * half];
        for (uint32_t warp = 1; warp < 4; warp++) {
            const float other = words[warp * SB_ATTENTION_ROWS + me.lane / 4 + 8 * half];
            top[half] = other > top[half] ? other : top[half];
        }
    }
    sb_attention_odds(s, room, top, end, chunks);
    sb_attention_total(s, words + 4 * SB_ATTENTION_ROWS, total);
    for (uint32_t half = 0; half < 2; half++) {
        const uint32_t row = me.lane / 4 + 8 * half;
        if (me.warp != 3 || me.lane % 4 != 0 || limit[half] <= part)
            continue;
        if (!first) {
            const float known = room.top[row];
            const float2 factors = sb_attention_factors(known, top[half]);
            room.old_factor[row] = factors.x;
            room.new_factor[row] = factors.y;
            total[half] = sb_attention_fold(room.total[row], total[half], factors);
            top[half] = top[half] > known ? top[half] : known;
        }
        room.top[row] = top[half];
        room.total[row] = total[half];
    }
}

/* sum += R(e) v, for the warp's quarter of the columns, over the positions of a chunk that the tile
 * sees. The tile sees the first `seen` positions of the part. */
template <int HD>
SB_KERNEL_FN void sb_attention_weigh(const sb_attention_shared &room,
                                     sb_shared<const uint16_t> values, uint32_t chunk,
                                     uint32_t seen, float (&sum)[HD / 32][4])
{
    const sb_attention_self me = sb_attention_me();
    SB_UNROLL
    for (uint32_t step = 0; step < SB_ATTENTION_CHUNK / 16; step++) {
        const uint32_t row = me.lane % 16, first = chunk * SB_ATTENTION_CHUNK + 16 * step;
        uint32_t a[4], b[4];
        if (first >= seen)
            break;
        sb_ldmatrix<4>(a, sb_cast<const uint4>(room.p + sb_attention_piece<SB_ATTENTION_PART>(
                                                            row, first / 8 + me.lane / 16)));
        SB_UNROLL
        for (uint32_t n = 0; n < HD / 32; n += 2) {
            const uint32_t p = me.warp * (HD / 32) + n + me.lane / 16;
            sb_ldmatrix<4, true>(
                b, sb_cast<const uint4>(values + sb_attention_piece<HD>(16 * step + row, p)));
            const uint32_t low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
            sb_mma_bf16(sum[n], a, low);
            sb_mma_bf16(sum[n + 1], a, high);
        }
    }
}

/* Folds the sums of one part into the result so far, row by row. */
template <int HD>
SB_KERNEL_FN void sb_attention_add(const sb_attention_shared &room, uint32_t part, bool first,
                                   const float (&sum)[HD / 32][4], float (&known)[HD / 32][4])
{
    SB_UNROLL
    for (uint32_t half = 0; half < 2; half++) {
        const uint32_t row = threadIdx.x % 32 / 4 + 8 * half, limit = room.limit[row];
        float2 factors = make_float2(0.0f, 1.0f);
        if (part < limit && !first)
            factors = make_float2(room.old_factor[row], room.new_factor[row]);
        SB_UNROLL
        for (uint32_t n = 0; n < HD / 32; n++)
            SB_UNROLL
        for (uint32_t i = 2 * half; i < 2 * half + 2; i++) {
            const float folded = sb_attention_fold(known[n][i], sum[n][i], factors);
            known[n][i] = first ? sum[n][i] : part < limit ? folded : known[n][i];
        }
    }
}

/* K-11: "divides at the end: o_t = R( RN( dot over u of R(e_u) with v_u / sum(e) ) )" */
template <class T> SB_KERNEL_FN T sb_attention_out(float sum, float value_scale, float total)
{
    return sb_narrow<T>(__fdiv_rn(__fmul_rn(sum, value_scale), total));
}

/* Writes the results to the output, or with SPLIT to the arrays of the parts. */
template <class T, class KV, int HD, bool SPLIT>
SB_KERNEL_FN void sb_attention_write(const sb_attention_job<T, KV> &job, uint32_t first,
                                     const sb_attention_shared &room,
                                     const float (&sum)[HD / 32][4])
{
    const sb_attention_self me = sb_attention_me();
    SB_UNROLL
    for (uint32_t half = 0; half < 2; half++) {
        const uint32_t i = me.lane / 4 + 8 * half;
        const sb_attention_place at = sb_attention_place_of(job, first + i);
        if (at.limit <= (SPLIT ? blockIdx.z * SB_ATTENTION_PART : 0))
            continue;
        const uint32_t column = me.warp * (HD / 4) + 2 * (me.lane % 4);
        const size_t pair = static_cast<size_t>(at.row) * job.heads + at.head;
        const float total = room.total[i];
        const size_t part = pair * job.parts + (SPLIT ? blockIdx.z : 0);
        if (SPLIT && column == 0)
            job.top[part] = make_float2(room.top[i], total);
        SB_UNROLL
        for (uint32_t n = 0; n < HD / 32; n++)
            for (uint32_t k = 0; k < 2; k++) {
                const float x = sum[n][2 * half + k];
                if (SPLIT)
                    job.part[part * HD + column + 8 * n + k] = x;
                else
                    job.out[pair * HD + column + 8 * n + k] =
                        sb_attention_out<T>(x, job.value_scale, total);
            }
    }
}

/* Requests the next chunk, then waits until all threads have received the chunk of this step, and
 * returns that chunk. */
template <class T, class KV, int HD, int TILES>
SB_KERNEL_FN sb_shared<const uint16_t>
sb_attention_arrived(const sb_attention_job<T, KV> &job, sb_attention_step at, uint32_t end,
                     const sb_attention_shared &room, uint32_t side)
{
    const sb_attention_step next = sb_attention_next(at, end);
    if (next.chunks > 0)
        sb_attention_fetch<T, KV, HD, TILES>(job, next, end, room, side ^ 1);
    sb_cp_async_commit();
    if (!SB_PLANT(attention_wait))
        sb_cp_async_wait<1>();
    __syncthreads();
    return room.stage + side * sb_attention_stage<HD>();
}

/* grid: (groups of TILES tiles, key heads, parts); without SPLIT, the last number is 1. */
template <class T, class KV, int HD, bool SPLIT, int TILES>
static __global__ void __launch_bounds__(SB_ATTENTION_THREADS *TILES, 1)
    sb_attention_kernel(const sb_attention_job<T, KV> job)
{
    sb_launch_ready();
    sb_launch_wait();
    SB_SHARED_DYNAMIC(unsigned char, bytes);
    constexpr uint32_t ROWS = SB_ATTENTION_ROWS;
    const sb_attention_shared room = sb_attention_shared_of<HD, TILES>(bytes);
    const sb_attention_self me = sb_attention_me();
    const uint32_t tile = blockIdx.x * TILES + me.tile;
    const uint32_t end = sb_attention_end(job, blockIdx.x * TILES * ROWS, TILES * ROWS, SPLIT);
    /* Y-96: "A tile computes nothing after the positions that its own pairs see" */
    const uint32_t own_end = sb_attention_end(
        job, (SB_PLANT(attention_tile) && TILES > 1 ? tile ^ 1 : tile) * ROWS, ROWS, SPLIT);
    float known[HD / 32][4] = {};
    sb_attention_step at = sb_attention_first(SPLIT ? blockIdx.z : 0, end);
    if (at.chunks == 0)
        return;
    sb_attention_queries<T, KV, HD>(job, tile * ROWS, room);
    sb_attention_fetch<T, KV, HD, TILES>(job, at, end, room, 0);
    sb_cp_async_commit();
    for (uint32_t side = 0; at.chunks > 0;) {
        const uint32_t part = at.part * SB_ATTENTION_PART, chunks = at.chunks;
        const uint32_t own = own_end > part ? own_end - part : 0;
        const bool first = SPLIT || part == 0;
        sb_attention_scores scores = {};
        for (; !at.values; at = sb_attention_next(at, end), side ^= 1) {
            const auto keys = sb_attention_arrived<T, KV, HD, TILES>(job, at, end, room, side);
            float d[4] = {};
            if (sb_attention_position(at, me.warp * SB_ATTENTION_KEYS) < own)
                sb_attention_score<HD>(d, room, keys, job.key_scale, job.scale);
            sb_attention_put(scores, at.chunk, d);
            if (!SB_PLANT(attention_barrier2))
                __syncthreads();
        }
        /* the half of the stage where the last keys were */
        const sb_shared<uint16_t> used = room.stage + (side ^ 1) * sb_attention_stage<HD>();
        sb_attention_softmax(scores, room, sb_cast<float>(used) + me.tile * SB_ATTENTION_WORDS,
                             part, chunks, first);
        if (!SB_PLANT(attention_barrier5))
            __syncthreads();
        float sum[HD / 32][4] = {};
        for (; at.values; at = sb_attention_next(at, end), side ^= 1) {
            const auto values = sb_attention_arrived<T, KV, HD, TILES>(job, at, end, room, side);
            sb_attention_weigh<HD>(room, values, at.chunk, own, sum);
            if (!SB_PLANT(attention_barrier2))
                __syncthreads();
        }
        sb_attention_add<HD>(room, part, first, sum, known);
    }
    sb_attention_write<T, KV, HD, SPLIT>(job, tile * ROWS, room, known);
    sb_cp_async_wait_all();
}

#endif
