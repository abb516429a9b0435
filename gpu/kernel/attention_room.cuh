/* attention_room.cuh - what a block of attention works on: its rows, its shared memory, and the
 * order in which pieces of the cache come there. */
#ifndef SB_GPU_KERNEL_ATTENTION_ROOM_CUH
#define SB_GPU_KERNEL_ATTENTION_ROOM_CUH

#include "gpu/atom/ldmatrix.h"
#include "gpu/atom/mma_half.h"
#include "gpu/cuda.h"
#include "gpu/kernel/kernel.h"
#include "gpu/kernel/value.cuh"

/* Positions of a part, of which a chunk is in shared memory, rows padded so that eight of them lie
 * in different banks. */
constexpr uint32_t SB_ATTENTION_THREADS = 128, SB_ATTENTION_ROWS = 16, SB_ATTENTION_PART = 256,
                   SB_ATTENTION_CHUNK = 64, SB_ATTENTION_PAD = 8;
constexpr uint32_t SB_ATTENTION_SCORES = SB_ATTENTION_PART + 4;
constexpr uint32_t SB_ATTENTION_ODDS = SB_ATTENTION_PART + SB_ATTENTION_PAD;

/* The shapes of sb_attention_args, heads of HD elements. KV is uint16_t for bfloat16, or uint8_t
 * for E4M3 codes. There may be more parts than the rows see: blocks of those have nothing to do. */
template <class T, class KV> struct sb_attention_job {
    sb_global<const T> q;
    sb_global<const KV> keys, values;
    sb_global<T> out;
    sb_global<float> part; /* (rows, heads, parts, HD) sums of parts, for SPLIT */
    sb_global<float2> top; /* (rows, heads, parts) their largest score, and the sum of e */
    sb_global<const uint32_t> first; /* the position of row 0 */
    uint32_t rows, heads, kv_heads, parts;
    float scale, key_scale, value_scale; /* RN(hd^-1/2), and K-24's z */
};

/* Pair i of the tile: its row and head, and how many positions it sees; 0 if there is no such pair.
 * R-12: "query head j uses key/value head floor(j / (nQ / nKV))" */
struct sb_attention_place {
    uint32_t row, head, limit;
};
template <class T, class KV>
SB_KERNEL_FN sb_attention_place sb_attention_place_of(const sb_attention_job<T, KV> &job,
                                                      uint32_t i)
{
    const uint32_t group = job.heads / job.kv_heads, at = blockIdx.x * SB_ATTENTION_ROWS + i;
    const uint32_t row = at / group, kv_head = SB_PLANT(attention_head) ? 0 : blockIdx.y;
    const uint32_t first = *job.first;
    return {row, kv_head * group + at % group, row < job.rows ? first + row + 1 : 0};
}

/* Behind the last position that a pair of the tile sees, or behind the block's part. */
template <class T, class KV>
SB_KERNEL_FN uint32_t sb_attention_end(const sb_attention_job<T, KV> &job, bool split)
{
    const uint32_t group = job.heads / job.kv_heads;
    const uint32_t last = (blockIdx.x * SB_ATTENTION_ROWS + SB_ATTENTION_ROWS - 1) / group;
    const uint32_t first = *job.first, seen = first + (last < job.rows ? last + 1 : job.rows);
    const uint32_t part = (blockIdx.z + 1) * SB_ATTENTION_PART;
    return split && part < seen ? part : seen;
}

/* --- shared memory
 * ----------------------------------------------------------------------------------- */
struct sb_attention_room {
    sb_shared<uint16_t> q;                               /* (16, HD + PAD) */
    sb_shared<uint16_t> stage;                           /* (2, CHUNK, HD + PAD) keys or values */
    sb_shared<uint16_t> p;                               /* (16, PART + PAD) R(e) of a part */
    sb_shared<float> score;                              /* (16, PART + 4) */
    sb_shared<float> top, total, old_factor, new_factor; /* (16) */
};
template <int HD> __host__ __device__ constexpr uint32_t sb_attention_stage()
{
    return SB_ATTENTION_CHUNK * (HD + SB_ATTENTION_PAD);
}
template <int HD> __host__ __device__ constexpr uint32_t sb_attention_bytes()
{
    return 2 * (SB_ATTENTION_ROWS * (HD + SB_ATTENTION_PAD) + 2 * sb_attention_stage<HD>() +
                SB_ATTENTION_ROWS * SB_ATTENTION_ODDS) +
           4 * SB_ATTENTION_ROWS * (SB_ATTENTION_SCORES + 4);
}

/* The next `count` elements of the block's memory. */
template <class U>
SB_KERNEL_FN sb_shared<U> sb_attention_take(sb_shared<unsigned char> &from, uint32_t count)
{
    const sb_shared<U> taken = sb_part(sb_cast<U>(from), count);
    from += count * sizeof(U);
    return taken;
}
template <int HD>
SB_KERNEL_FN sb_attention_room sb_attention_room_of(sb_shared<unsigned char> bytes)
{
    sb_attention_room room;
    room.q = sb_attention_take<uint16_t>(bytes, SB_ATTENTION_ROWS * (HD + SB_ATTENTION_PAD));
    room.stage = sb_attention_take<uint16_t>(bytes, 2 * sb_attention_stage<HD>());
    room.p = sb_attention_take<uint16_t>(bytes, SB_ATTENTION_ROWS * SB_ATTENTION_ODDS);
    room.score = sb_attention_take<float>(bytes, SB_ATTENTION_ROWS * SB_ATTENTION_SCORES);
    room.top = sb_attention_take<float>(bytes, SB_ATTENTION_ROWS);
    room.total = sb_attention_take<float>(bytes, SB_ATTENTION_ROWS);
    room.old_factor = sb_attention_take<float>(bytes, SB_ATTENTION_ROWS);
    room.new_factor = sb_attention_take<float>(bytes, SB_ATTENTION_ROWS);
    return room;
}

/* The tile's queries, zeros where there is no pair. */
template <class T, class KV, int HD>
SB_KERNEL_FN void sb_attention_queries(const sb_attention_job<T, KV> &job,
                                       const sb_attention_room &room)
{
    for (uint32_t i = threadIdx.x; i < SB_ATTENTION_ROWS * HD; i += SB_ATTENTION_THREADS) {
        const sb_attention_place at = sb_attention_place_of(job, i / HD);
        const size_t from = (static_cast<size_t>(at.row) * job.heads + at.head) * HD + i % HD;
        uint16_t bits = 0;
        if (at.limit > 0)
            bits = sb_narrow<uint16_t>(sb_wide(static_cast<T>(job.q[from])));
        room.q[i / HD * (HD + SB_ATTENTION_PAD) + i % HD] = bits;
    }
}

/* --- the cache, piece by piece
 * ------------------------------------------------------------------------- */
/* First the chunks of keys of a part, then those of its values; `chunks` of each, 0 behind the end.
 */
struct sb_attention_step {
    uint32_t part, chunk, chunks;
    bool values;
};
SB_KERNEL_FN sb_attention_step sb_attention_first(uint32_t part, uint32_t end)
{
    const uint32_t begin = part * SB_ATTENTION_PART;
    uint32_t left = begin < end ? end - begin : 0;
    left = left < SB_ATTENTION_PART ? left : SB_ATTENTION_PART;
    return {part, 0, (left + SB_ATTENTION_CHUNK - 1) / SB_ATTENTION_CHUNK, false};
}
SB_KERNEL_FN sb_attention_step sb_attention_next(sb_attention_step at, uint32_t end)
{
    if (at.chunk + 1 < at.chunks)
        return {at.part, at.chunk + 1, at.chunks, at.values};
    if (!at.values)
        return {at.part, 0, at.chunks, true};
    return sb_attention_first(at.part + 1, end);
}

/* Eight elements of a row, as bfloat16; zeros if they are not there. */
SB_KERNEL_FN void sb_attention_copy(sb_shared<uint16_t> to, sb_global<const uint16_t> from,
                                    bool there)
{
    if (there || !SB_PLANT(attention_padding))
        sb_cp_async<16>(to, from, there ? 16 : 0);
}
SB_KERNEL_FN void sb_attention_copy(sb_shared<uint16_t> to, sb_global<const uint8_t> from,
                                    bool there)
{
    const uint2 codes = *sb_cast<const uint2>(from);
    uint4 eight = make_uint4(0, 0, 0, 0);
    if (there)
        eight =
            make_uint4(sb_cvt_bf16x2_e4m3x2(codes.x & 0xffff), sb_cvt_bf16x2_e4m3x2(codes.x >> 16),
                       sb_cvt_bf16x2_e4m3x2(codes.y & 0xffff), sb_cvt_bf16x2_e4m3x2(codes.y >> 16));
    if (there || !SB_PLANT(attention_padding))
        *sb_cast<uint4>(to) = eight;
}

/* The chunk of that step into one half of the stage. */
template <class T, class KV, int HD>
SB_KERNEL_FN void sb_attention_fetch(const sb_attention_job<T, KV> &job, sb_attention_step at,
                                     uint32_t end, const sb_attention_room &room, uint32_t side)
{
    const uint32_t first = at.part * SB_ATTENTION_PART + at.chunk * SB_ATTENTION_CHUNK;
    const sb_global<const KV> from = (at.values ? job.values : job.keys) + blockIdx.y * HD;
    const sb_shared<uint16_t> to = room.stage + side * sb_attention_stage<HD>();
    for (uint32_t i = threadIdx.x; i < SB_ATTENTION_CHUNK * (HD / 8); i += SB_ATTENTION_THREADS) {
        const uint32_t row = i / (HD / 8), column = i % (HD / 8) * 8;
        const bool there = first + row < end;
        const size_t position = there ? first + row : first;
        sb_attention_copy(to + (row * (HD + SB_ATTENTION_PAD) + column),
                          from + (position * job.kv_heads * HD + column), there);
    }
}

#endif
