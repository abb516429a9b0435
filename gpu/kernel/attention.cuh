/* attention.cuh - causal attention over the cache, by the bf16 unit: one order of sums for every
 * row.
 *
 * The cache falls into parts of 256 positions, counted from position 0. Of each part a row has its
 * largest score, the sum of its e and the sum of R(e) v, computed in one way; the parts are then
 * folded in their order. Whether one block goes through all parts (long prompts) or a block has one
 * part each and another kernel folds them (steps) changes no bit, nor does what else is in the
 * call: a position that a row does not see adds a zero, and adding zeros rounds nothing.
 *
 * A block has a tile of 16 pairs of a row and a head, of the heads that share keys. Its 128 threads
 * are four warps: of scores each has a quarter of the positions, of outputs a quarter of the
 * columns. */
#ifndef SB_GPU_KERNEL_ATTENTION_CUH
#define SB_GPU_KERNEL_ATTENTION_CUH

#include "gpu/kernel/attention_room.cuh"
#include "gpu/math/exp.h"

/* R-12: "s_u = RN( dot(q_t, k_u) RN(hd^-1/2) )", K-24: "the dot products of R-12 are multiplied
 * with z before they are rounded" - here behind, T-21. Of the tile's rows and the positions of a
 * chunk, 16 for each warp. */
template <int HD>
SB_KERNEL_FN void sb_attention_score(const sb_attention_room &room, sb_shared<const uint16_t> keys,
                                     uint32_t chunk, float key_scale, float scale)
{
    constexpr uint32_t WIDTH = HD + SB_ATTENTION_PAD;
    const uint32_t lane = threadIdx.x % 32, j = lane / 8, i = lane % 8;
    const uint32_t warp = threadIdx.x / 32 * 16;
    const sb_shared<const uint16_t> q = room.q + ((j % 2 * 8 + i) * WIDTH + j / 2 * 8);
    const sb_shared<const uint16_t> k = keys + ((warp + j / 2 * 8 + i) * WIDTH + j % 2 * 8);
    float d[2][4] = {};
    SB_UNROLL
    for (uint32_t step = 0; step < HD / 16 - (SB_PLANT(attention_tail) ? 1 : 0); step++) {
        uint32_t a[4], b[4];
        sb_ldmatrix<4>(a, sb_cast<const uint4>(q + 16 * step));
        sb_ldmatrix<4>(b, sb_cast<const uint4>(k + 16 * step));
        const uint32_t low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
        sb_mma_bf16(d[0], a, SB_PLANT(attention_lanes) ? high : low);
        sb_mma_bf16(d[1], a, high);
    }
    for (uint32_t n = 0; n < 2; n++)
        for (uint32_t half = 0; half < 2; half++) {
            const uint32_t row = lane / 4 + 8 * half;
            const uint32_t column = chunk * SB_ATTENTION_CHUNK + warp + 8 * n + 2 * (lane % 4);
            const float x = __fmul_rn(d[n][2 * half], key_scale);
            const float y = __fmul_rn(d[n][2 * half + 1], key_scale);
            *sb_cast<float2>(room.score + (row * SB_ATTENTION_SCORES + column)) =
                make_float2(__fmul_rn(x, scale), __fmul_rn(y, scale));
        }
}

/* The factors of what is known of a row, and of a further part, when both become relative to the
 * larger of their largest scores. */
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

/* R-12: "e_u = exp( RN(s_u - max s) )", K-11: "flash takes R(e_u) for p_u": of one part, of which
 * the tile has `columns` and this row sees `seen` positions. Eight threads have a row. */
SB_KERNEL_FN void sb_attention_softmax(const sb_attention_room &room, uint32_t seen,
                                       uint32_t columns, bool first)
{
    const uint32_t row = threadIdx.x / 8, start = threadIdx.x % 8;
    const uint32_t end = SB_PLANT(attention_mask) ? seen + 1 : seen;
    const sb_shared<const float> score = room.score + row * SB_ATTENTION_SCORES;
    const sb_shared<uint16_t> p = room.p + row * SB_ATTENTION_ODDS;
    float top = sb_gpu_float(0xff800000u), total = 0.0f;
    const uint32_t limit = SB_PLANT(attention_masked_top) ? columns : end;
    for (uint32_t c = start; c < columns && c < limit; c += 8) {
        const float s = score[c];
        top = s > top ? s : top;
    }
    for (int by = 4; by > 0; by /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, top, by);
        top = other > top ? other : top;
    }
    for (uint32_t c = start; c < columns; c += 8) {
        float e = 0.0f;
        if (c < end) {
            e = sb_gpu_exp(__fsub_rn(score[c], top));
            total = __fadd_rn(total, e);
        }
        p[c] = sb_narrow<uint16_t>(e);
    }
    for (int by = 4; by > 0; by /= 2)
        total = __fadd_rn(total, __shfl_xor_sync(0xffffffffu, total, by));
    if (start != 0 || seen == 0)
        return;
    if (!first) {
        const float known = room.top[row];
        const float2 factors = sb_attention_factors(known, top);
        room.old_factor[row] = factors.x;
        room.new_factor[row] = factors.y;
        total = sb_attention_fold(room.total[row], total, factors);
        top = top > known ? top : known;
    }
    room.top[row] = top;
    room.total[row] = total;
}

/* sum += R(e) v over the positions of a chunk, for the warp's quarter of the columns. */
template <int HD>
SB_KERNEL_FN void sb_attention_weigh(const sb_attention_room &room,
                                     sb_shared<const uint16_t> values, uint32_t chunk,
                                     float (&sum)[HD / 32][4])
{
    constexpr uint32_t WIDTH = HD + SB_ATTENTION_PAD;
    const uint32_t lane = threadIdx.x % 32, j = lane / 8, i = lane % 8;
    const uint32_t column = threadIdx.x / 32 * (HD / 4) + j / 2 * 8;
    const sb_shared<const uint16_t> p =
        room.p + ((j % 2 * 8 + i) * SB_ATTENTION_ODDS + chunk * SB_ATTENTION_CHUNK + j / 2 * 8);
    const sb_shared<const uint16_t> v = values + ((j % 2 * 8 + i) * WIDTH + column);
    SB_UNROLL
    for (uint32_t step = 0; step < SB_ATTENTION_CHUNK / 16; step++) {
        uint32_t a[4], b[4];
        sb_ldmatrix<4>(a, sb_cast<const uint4>(p + 16 * step));
        SB_UNROLL
        for (uint32_t n = 0; n < HD / 32; n += 2) {
            sb_ldmatrix<4, true>(b, sb_cast<const uint4>(v + (16 * step * WIDTH + 8 * n)));
            const uint32_t low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
            sb_mma_bf16(sum[n], a, low);
            sb_mma_bf16(sum[n + 1], a, high);
        }
    }
}

/* What one part of the positions gives becomes part of what is known, row by row. */
template <int HD>
SB_KERNEL_FN void sb_attention_add(const sb_attention_room &room, const uint32_t (&limit)[2],
                                   uint32_t part, const float (&sum)[HD / 32][4],
                                   float (&known)[HD / 32][4])
{
    const uint32_t lane = threadIdx.x % 32;
    SB_UNROLL
    for (uint32_t half = 0; half < 2; half++) {
        if (part >= limit[half])
            continue;
        const uint32_t row = lane / 4 + 8 * half;
        float2 factors = make_float2(0.0f, 1.0f);
        if (part > 0)
            factors = make_float2(room.old_factor[row], room.new_factor[row]);
        SB_UNROLL
        for (uint32_t n = 0; n < HD / 32; n++)
            SB_UNROLL
        for (uint32_t i = 2 * half; i < 2 * half + 2; i++)
            known[n][i] =
                part == 0 ? sum[n][i] : sb_attention_fold(known[n][i], sum[n][i], factors);
    }
}

/* K-11: "divides at the end: o_t = R( RN( dot over u of R(e_u) with v_u / sum(e) ) )" */
template <class T> SB_KERNEL_FN T sb_attention_out(float sum, float value_scale, float total)
{
    return sb_narrow<T>(__fdiv_rn(__fmul_rn(sum, value_scale), total));
}

/* To the output, or, of one part, to where the parts meet. */
template <class T, class KV, int HD, bool SPLIT>
SB_KERNEL_FN void sb_attention_write(const sb_attention_job<T, KV> &job,
                                     const sb_attention_room &room, const float (&sum)[HD / 32][4])
{
    const uint32_t lane = threadIdx.x % 32;
    SB_UNROLL
    for (uint32_t half = 0; half < 2; half++) {
        const uint32_t i = lane / 4 + 8 * half;
        const sb_attention_place at = sb_attention_place_of(job, i);
        if (at.limit <= (SPLIT ? blockIdx.z * SB_ATTENTION_PART : 0))
            continue;
        const uint32_t column = threadIdx.x / 32 * (HD / 4) + 2 * (lane % 4);
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

/* Blocks: tiles, key heads, and with SPLIT the parts. */
template <class T, class KV, int HD, bool SPLIT>
static __global__ void __launch_bounds__(SB_ATTENTION_THREADS, 1)
    sb_attention_kernel(const sb_attention_job<T, KV> job)
{
    sb_launch_ready();
    sb_launch_wait();
    SB_SHARED_DYNAMIC(unsigned char, bytes);
    const sb_attention_room room = sb_attention_room_of<HD>(bytes);
    const uint32_t end = sb_attention_end(job, SPLIT), begin = SPLIT ? blockIdx.z : 0;
    const uint32_t lane = threadIdx.x % 32, mine = threadIdx.x / 8;
    const uint32_t seen = sb_attention_place_of(job, mine).limit;
    const uint32_t limit[2] = {sb_attention_place_of(job, lane / 4).limit,
                               sb_attention_place_of(job, lane / 4 + 8).limit};
    float sum[HD / 32][4] = {}, known[HD / 32][4] = {};
    if (end <= begin * SB_ATTENTION_PART)
        return;
    sb_attention_queries<T, KV, HD>(job, room);
    sb_attention_step at = sb_attention_first(begin, end), next = at;
    sb_attention_fetch<T, KV, HD>(job, at, end, room, 0);
    sb_cp_async_commit();
    for (uint32_t side = 0; at.chunks > 0; at = next, side ^= 1) {
        next = sb_attention_next(at, end);
        if (next.chunks > 0)
            sb_attention_fetch<T, KV, HD>(job, next, end, room, side ^ 1);
        sb_cp_async_commit();
        if (!SB_PLANT(attention_wait))
            sb_cp_async_wait<1>();
        __syncthreads();
        const sb_shared<const uint16_t> chunk = room.stage + side * sb_attention_stage<HD>();
        const uint32_t part = at.part * SB_ATTENTION_PART;
        const bool last = at.chunk + 1 == at.chunks;
        if (!at.values)
            sb_attention_score<HD>(room, chunk, at.chunk, job.key_scale, job.scale);
        else
            sb_attention_weigh<HD>(room, chunk, at.chunk, sum);
        if (!at.values && last) {
            if (!SB_PLANT(attention_barrier))
                __syncthreads();
            sb_attention_softmax(room, seen > part ? seen - part : 0,
                                 at.chunks * SB_ATTENTION_CHUNK, SPLIT || part == 0);
        }
        if (!SB_PLANT(attention_barrier2))
            __syncthreads();
        if (at.values && last && !SPLIT) {
            sb_attention_add<HD>(room, limit, part, sum, known);
            SB_UNROLL
            for (uint32_t n = 0; n < HD / 32; n++)
                sum[n][0] = sum[n][1] = sum[n][2] = sum[n][3] = 0.0f;
        }
    }
    sb_attention_write<T, KV, HD, SPLIT>(job, room, SPLIT ? sum : known);
    sb_cp_async_wait_all();
}

#endif
