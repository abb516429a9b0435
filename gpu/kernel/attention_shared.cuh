/* attention_shared.cuh - the rows of an attention block, its shared memory, and the order in which
 * the block loads pieces of the cache. */
#ifndef SB_GPU_KERNEL_ATTENTION_SHARED_CUH
#define SB_GPU_KERNEL_ATTENTION_SHARED_CUH

#include "gpu/atom/ldmatrix.h"
#include "gpu/atom/mma_half.h"
#include "gpu/cuda.h"
#include "gpu/kernel/kernel.h"
#include "gpu/kernel/value.cuh"

/* A tile has THREADS threads and ROWS pairs. A part has PART positions. Shared memory holds one
 * chunk of CHUNK positions at a time; KEYS of its keys belong to each warp. */
constexpr uint32_t SB_ATTENTION_THREADS = 128, SB_ATTENTION_ROWS = 16, SB_ATTENTION_PART = 256,
                   SB_ATTENTION_CHUNK = 32, SB_ATTENTION_KEYS = 8;
constexpr uint32_t SB_ATTENTION_CHUNKS = SB_ATTENTION_PART / SB_ATTENTION_CHUNK;
/* The number of tiles in a block for many rows. With heads of 256 elements, shared memory has no
 * room for more. */
constexpr int SB_ATTENTION_WIDE = 4;

/* The shapes of sb_attention_args, with heads of HD elements. KV is uint16_t for bfloat16, or
 * uint8_t for E4M3 codes. Some parts may lie behind all positions that the rows see; the blocks of
 * these parts return at once. */
template <class T, class KV> struct sb_attention_job {
    sb_global<const T> q;
    sb_global<const KV> keys, values;
    sb_global<T> out;
    sb_global<float> part; /* (rows, heads, parts, HD) sums of parts, for SPLIT */
    sb_global<float2> top; /* (rows, heads, parts) largest score and sum of e of parts, for SPLIT */
    sb_global<const uint32_t> first; /* the position of row 0 */
    uint32_t rows, heads, kv_heads, parts;
    float scale, key_scale, value_scale; /* RN(hd^-1/2), and K-24's z */
};

/* A pair of the call: its row and head, and the number of positions that it sees. This limit is 0
 * if the pair does not exist. R-12: "query head j uses key/value head floor(j / (nQ / nKV))" */
struct sb_attention_place {
    uint32_t row, head, limit;
};
template <class T, class KV>
SB_KERNEL_FN sb_attention_place sb_attention_place_of(const sb_attention_job<T, KV> &job,
                                                      uint32_t pair)
{
    const uint32_t group = job.heads / job.kv_heads, row = pair / group;
    const uint32_t kv_head = SB_PLANT(attention_head) ? 0 : blockIdx.y;
    const uint32_t first = *job.first;
    return {row, kv_head * group + pair % group, row < job.rows ? first + row + 1 : 0};
}

/* Returns the end of the positions that the `count` pairs from `pair` on see; with `split`, at most
 * the end of the block's part. 0 if none of the pairs exists. */
template <class T, class KV>
SB_KERNEL_FN uint32_t sb_attention_end(const sb_attention_job<T, KV> &job, uint32_t pair,
                                       uint32_t count, bool split)
{
    const uint32_t group = job.heads / job.kv_heads, last = (pair + count - 1) / group;
    const uint32_t first = *job.first, part = (blockIdx.z + 1) * SB_ATTENTION_PART;
    const uint32_t seen = first + (last < job.rows ? last + 1 : job.rows);
    if (pair / group >= job.rows)
        return 0;
    return split && part < seen ? part : seen;
}

/* The thread's tile in the block, its warp in the tile, and its lane. */
struct sb_attention_self {
    uint32_t tile, warp, lane;
};
SB_KERNEL_FN sb_attention_self sb_attention_me()
{
    return {threadIdx.x / SB_ATTENTION_THREADS, threadIdx.x / 32 % 4, threadIdx.x % 32};
}

/* --- shared memory * -------------------------------------------------------------------------- */
/* The arrays of one tile, and the stage, which all tiles of a block share. Rows consist of pieces
 * of 16 bytes. */
struct sb_attention_shared {
    sb_shared<uint16_t> q;                               /* (16, HD) */
    sb_shared<uint16_t> p;                               /* (16, PART) R(e) of a part */
    sb_shared<uint16_t> stage;                           /* (2, CHUNK, HD) keys or values */
    sb_shared<float> top, total, old_factor, new_factor; /* (16) */
    sb_shared<uint32_t> limit;                           /* (16) positions that a pair sees */
};
template <int HD> __host__ __device__ constexpr uint32_t sb_attention_stage()
{
    return SB_ATTENTION_CHUNK * HD;
}
/* The number of words that the warps of a tile exchange in a half of the stage: for each row, the
 * largest scores of four warps and eight sums of e. */
constexpr uint32_t SB_ATTENTION_WORDS = SB_ATTENTION_ROWS * (4 + 8);
template <int HD, int TILES> __host__ __device__ constexpr uint32_t sb_attention_bytes()
{
    static_assert(TILES * SB_ATTENTION_WORDS * sizeof(float) <=
                      sb_attention_stage<HD>() * sizeof(uint16_t),
                  "half of the stage has room for what warps say");
    return 2 * (TILES * SB_ATTENTION_ROWS * (HD + SB_ATTENTION_PART) +
                2 * sb_attention_stage<HD>()) +
           4 * TILES * SB_ATTENTION_ROWS * 5;
}

/* The index of the first element of piece p of a row with WIDTH elements. Pieces are swizzled:
 * piece p of eight successive rows lies in different banks. */
template <int WIDTH> SB_KERNEL_FN uint32_t sb_attention_piece(uint32_t row, uint32_t p)
{
    return row * WIDTH + (p / 8 * 8 + (p % 8 ^ row % 8)) * 8;
}

/* Takes the next `count` elements of the block's shared memory. */
template <class U>
SB_KERNEL_FN sb_shared<U> sb_attention_take(sb_shared<unsigned char> &from, uint32_t count)
{
    const sb_shared<U> taken = sb_part(sb_cast<U>(from), count);
    from += count * sizeof(U);
    return taken;
}
/* Takes `count` elements for each tile, and returns those of the thread's tile. */
template <class U, int TILES>
SB_KERNEL_FN sb_shared<U> sb_attention_own(sb_shared<unsigned char> &from, uint32_t count)
{
    const sb_shared<U> taken = sb_attention_take<U>(from, TILES * count);
    return sb_part(taken + sb_attention_me().tile * count, count);
}
template <int HD, int TILES>
SB_KERNEL_FN sb_attention_shared sb_attention_shared_of(sb_shared<unsigned char> bytes)
{
    constexpr uint32_t ROWS = SB_ATTENTION_ROWS;
    sb_attention_shared room;
    room.q = sb_attention_own<uint16_t, TILES>(bytes, ROWS * HD);
    room.p = sb_attention_own<uint16_t, TILES>(bytes, ROWS * SB_ATTENTION_PART);
    room.stage = sb_attention_take<uint16_t>(bytes, 2 * sb_attention_stage<HD>());
    room.top = sb_attention_own<float, TILES>(bytes, ROWS);
    room.total = sb_attention_own<float, TILES>(bytes, ROWS);
    room.old_factor = sb_attention_own<float, TILES>(bytes, ROWS);
    room.new_factor = sb_attention_own<float, TILES>(bytes, ROWS);
    room.limit = sb_attention_own<uint32_t, TILES>(bytes, ROWS);
    return room;
}

/* Copies the queries of the tile that begins with this pair to shared memory. Missing pairs become
 * zeros. */
template <class T, class KV, int HD>
SB_KERNEL_FN void sb_attention_queries(const sb_attention_job<T, KV> &job, uint32_t pair,
                                       const sb_attention_shared &room)
{
    for (uint32_t i = threadIdx.x % SB_ATTENTION_THREADS; i < SB_ATTENTION_ROWS * HD;
         i += SB_ATTENTION_THREADS) {
        const sb_attention_place at = sb_attention_place_of(job, pair + i / HD);
        const size_t from = (static_cast<size_t>(at.row) * job.heads + at.head) * HD + i % HD;
        uint16_t bits = 0;
        if (i % HD == 0)
            room.limit[i / HD] = at.limit;
        if (at.limit > 0)
            bits = sb_narrow<uint16_t>(sb_wide(static_cast<T>(job.q[from])));
        room.q[sb_attention_piece<HD>(i / HD, i % HD / 8) + i % 8] = bits;
    }
}

/* --- the cache, piece by piece * -------------------------------------------------------------- */
/* A step loads one chunk: first all `chunks` chunks of keys of a part, then all its chunks of
 * values. `chunks` is 0 after the last part. */
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

/* The position, within the part, of row r of a chunk. Chunks of values are in the order of
 * positions, since the sums run over positions. In a chunk of keys, eight rows belong to each warp.
 * Over all chunks of the part, the positions of a warp follow those of the warp before, so that the
 * sum of e of a row can pass from warp to warp in order. */
SB_KERNEL_FN uint32_t sb_attention_position(sb_attention_step at, uint32_t r)
{
    return at.values ? at.chunk * SB_ATTENTION_CHUNK + r
                     : (r / SB_ATTENTION_KEYS * at.chunks + at.chunk) * SB_ATTENTION_KEYS +
                           r % SB_ATTENTION_KEYS;
}

/* Requests eight elements of a row, or zeros if they do not exist. For bfloat16 this is an
 * asynchronous copy. For E4M3 the thread loads codes; after all its loads, sb_attention_widen
 * writes them to the stage as bfloat16. */
SB_KERNEL_FN void sb_attention_ask(sb_shared<uint16_t> to, sb_global<const uint16_t> from,
                                   bool there, uint2 &)
{
    if (there || !SB_PLANT(attention_padding))
        sb_cp_async<16>(to, from, there ? 16 : 0);
}
SB_KERNEL_FN void sb_attention_ask(sb_shared<uint16_t>, sb_global<const uint8_t> from, bool there,
                                   uint2 &codes)
{
    codes = make_uint2(0, 0);
    if (there)
        codes = *sb_cast<const uint2>(from);
}
SB_KERNEL_FN void sb_attention_widen(sb_shared<uint16_t> to, bool there, uint2 codes)
{
    if (there || !SB_PLANT(attention_padding))
        *sb_cast<uint4>(to) =
            make_uint4(sb_cvt_bf16x2_e4m3x2(codes.x & 0xffff), sb_cvt_bf16x2_e4m3x2(codes.x >> 16),
                       sb_cvt_bf16x2_e4m3x2(codes.y & 0xffff), sb_cvt_bf16x2_e4m3x2(codes.y >> 16));
}

/* All threads of the block fetch the chunk of a step into one half of the stage. */
template <class T, class KV, int HD, int TILES>
SB_KERNEL_FN void sb_attention_fetch(const sb_attention_job<T, KV> &job, sb_attention_step at,
                                     uint32_t end, const sb_attention_shared &room, uint32_t side)
{
    constexpr uint32_t THREADS = SB_ATTENTION_THREADS * TILES, ALL = SB_ATTENTION_CHUNK * HD / 8;
    constexpr uint32_t EACH = (ALL + THREADS - 1) / THREADS;
    const uint32_t begin = at.part * SB_ATTENTION_PART;
    const sb_global<const KV> from = (at.values ? job.values : job.keys) + blockIdx.y * HD;
    const sb_shared<uint16_t> to = room.stage + side * sb_attention_stage<HD>();
    uint2 codes[EACH];
    if (ALL < THREADS && threadIdx.x >= ALL)
        return;
    SB_UNROLL
    for (uint32_t n = 0; n < EACH; n++) {
        const uint32_t i = n * THREADS + threadIdx.x, row = i / (HD / 8), p = i % (HD / 8);
        const uint32_t position = begin + sb_attention_position(at, row);
        const bool there = position < end;
        const size_t line = there ? position : begin;
        sb_attention_ask(to + sb_attention_piece<HD>(row, p),
                         from + (line * job.kv_heads * HD + p * 8), there, codes[n]);
    }
    SB_UNROLL
    for (uint32_t n = 0; n < EACH && sizeof(KV) == 1; n++) {
        const uint32_t i = n * THREADS + threadIdx.x, row = i / (HD / 8), p = i % (HD / 8);
        sb_attention_widen(to + sb_attention_piece<HD>(row, p),
                           begin + sb_attention_position(at, row) < end, codes[n]);
    }
}

#endif
