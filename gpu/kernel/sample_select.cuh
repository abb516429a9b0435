/* sample_select.cuh - for draws: finds the last token of a row that top_k or top_p keeps.
 *
 * A draw cuts a row into parts, one for each block, so that even one row occupies all
 * multiprocessors (Y-70). Tokens are not sorted. It suffices to find the last token that is kept in
 * the order of P-2, as a key of logit and id. A launch of sb_sample_select finds eight bits of this
 * key: blocks count the tokens by the next eight bits of their keys, and the block that finishes
 * last finds the bits. A launch reads what the launch before has found, and writes what it has
 * found elsewhere, because nothing orders the blocks of one launch. */
#ifndef SB_KERNEL_SAMPLE_SELECT_CUH
#define SB_KERNEL_SAMPLE_SELECT_CUH

#include "gpu/kernel/argmax.cuh"
#include "gpu/kernel/exact_sum.cuh"

enum : uint32_t { SB_SAMPLE_THREADS = SB_ARGMAX_THREADS };

/* --- the tokens of a block -------------------------------------------------------------------- */

/* P-2: "by falling logit, equal logits by ascending id" */
SB_KERNEL_FN uint64_t sb_sample_key(float logit, uint32_t id)
{
    return static_cast<uint64_t>(~sb_rising(logit)) << 32 | (SB_PLANT(sample_ties) ? id ^ 1 : id);
}

/* Loops over the tokens of a row that belong to this thread: those from `first` to `end` are the
 * block's. */
#define SB_SAMPLE_EACH(i, first, end)                                                              \
    for (uint32_t i = (first) + threadIdx.x; i < (end); i += SB_SAMPLE_THREADS)

/* The part of a row that belongs to this block. grid (parts, rows) */
struct sb_sample_part {
    uint32_t first, end;
    size_t row;
};
SB_KERNEL_FN sb_sample_part sb_sample_part_of(uint32_t n)
{
    const uint32_t each = (n + gridDim.x - 1) / gridDim.x, from = blockIdx.x * each;
    const uint32_t first = from < n ? from : n, end = n - first < each ? n : first + each;
    return {first, end, blockIdx.y};
}

/* What a draw knows of a row: words of 64 bits, 0 at first. Blocks add to them by atomic
 * operations. */
constexpr uint32_t SB_SAMPLE_best = 0;    /* the largest key of sb_argmax_key */
constexpr uint32_t SB_SAMPLE_refused = 1; /* not 0: a logit is not finite */
constexpr uint32_t SB_SAMPLE_done = 2;    /* blocks that have finished; 0 between launches */
constexpr uint32_t SB_SAMPLE_drawn = 3;   /* the largest key of the draw */
constexpr uint32_t SB_SAMPLE_total = 4;   /* the sum of e over the tokens that are kept */
constexpr uint32_t SB_SAMPLE_ROW = SB_SAMPLE_total + SB_SUM_DIGITS;
/* What is known of the last token that is kept. */
constexpr uint32_t SB_LIMIT_cut = 0;    /* the complement of the largest key that it can have */
constexpr uint32_t SB_LIMIT_found = 1;  /* not 0: no other token can be it */
constexpr uint32_t SB_LIMIT_key = 2;    /* the bits of its key that are known; the others are 0 */
constexpr uint32_t SB_LIMIT_few = 3;    /* the number of tokens with smaller keys */
constexpr uint32_t SB_LIMIT_enough = 4; /* the binary32 bits of the sum of e that suffices */
constexpr uint32_t SB_LIMIT_sum = 5;    /* the sum of e of the tokens with smaller keys */
constexpr uint32_t SB_LIMIT_ROW = SB_LIMIT_sum + SB_SUM_DIGITS;
/* Tokens by eight bits of their keys: their number and the sum of their e, 0 between launches. */
constexpr uint32_t SB_SAMPLE_BINS = SB_SAMPLE_THREADS; /* a thread has a bin */
constexpr uint32_t SB_SAMPLE_BIN = 1 + SB_SUM_DIGITS;

/* atomicAdd for 64 bits. */
SB_KERNEL_FN void sb_sample_add(sb_global<uint64_t> to, uint64_t value)
{
    atomicAdd(sb_cast<unsigned long long>(to), static_cast<unsigned long long>(value));
}
SB_KERNEL_FN void sb_sample_max(sb_global<uint64_t> to, uint64_t value)
{
    atomicMax(sb_cast<unsigned long long>(to), static_cast<unsigned long long>(value));
}

/* True in every thread of the block of a row that comes last. Its later accesses come after those
 * of the other blocks before they called this function. */
SB_KERNEL_FN bool sb_sample_is_last(sb_global<uint64_t> row, sb_shared<uint32_t> last)
{
    const sb_global<unsigned long long> done = sb_cast<unsigned long long>(row + SB_SAMPLE_done);
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        const uint64_t before = atomicAdd(done, 1ull);
        last[0] = before + 1 >= gridDim.x - SB_PLANT(sample_early);
        if (last[0])
            atomicExch(done, 0ull);
        __threadfence();
    }
    __syncthreads();
    return last[0] != 0;
}

/* --- a selection ------------------------------------------------------------------------------ */

/* Adds a number from 0 to 1 to a sum in halves of digits, 16 bits each in a word of 32. So each
 * word has room for the 65536 tokens that a block has at most. */
constexpr uint32_t SB_SAMPLE_HALVES = 2 * SB_SUM_DIGITS, SB_SAMPLE_PART = 65536;
SB_KERNEL_FN void sb_sample_add_halves(sb_shared<uint32_t> halves, float x)
{
    const uint32_t bits = sb_gpu_bits(x), field = bits >> 23;
    const uint32_t digits = field ? (bits & 0x7fffff) | 0x800000 : bits;
    const uint32_t place = field ? field - 1 : 0;
    const uint64_t wide = static_cast<uint64_t>(digits) << place % 16;
    SB_UNROLL
    for (uint32_t h = 0; h < 3 - SB_PLANT(sample_halves); h++) {
        const uint32_t half = static_cast<uint32_t>(wide >> 16 * h) & 0xffff;
        if (half)
            atomicAdd(halves + (place / 16 + h), half);
    }
}

/* Returns the sum of the values of this thread and of the threads before it. */
SB_KERNEL_FN uint64_t sb_sample_scan(uint64_t value, sb_shared<uint64_t> room)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (uint32_t by = 1; by < 32; by *= 2) {
        const uint64_t other = __shfl_up_sync(0xffffffffu, value, by);
        value += lane >= by ? other : 0;
    }
    __syncthreads(); /* an earlier call may still use `room` */
    if (lane == 31)
        room[warp] = value;
    if (!SB_PLANT(sample_barrier3))
        __syncthreads();
    for (uint32_t before = 0; before < warp; before++)
        value += room[before];
    return value;
}

/* A word of what is known; 0 at first. */
SB_KERNEL_FN uint64_t sb_sample_known(sb_global<const uint64_t> from, uint32_t word, bool first)
{
    uint64_t value = 0;
    if (!first)
        value = from[word];
    return value;
}

/* What is enough: `tokens` tokens (P-4), or with SUMS a sum of e of RN(top_p sum(e)) (P-5). */
struct sb_sample_enough {
    uint32_t tokens;
    float top_p;
};

/* Finds the bin of the last token that is kept, and writes what is known then to `to`. All threads
 * of one block call it; thread i has the counts of bin i. room: SB_ARGMAX_WARPS + SB_SUM_DIGITS
 * words. */
template <bool SUMS>
SB_KERNEL_FN void sb_sample_find(uint64_t tokens, const sb_digits &sum, const sb_sample_enough &is,
                                 sb_global<const uint64_t> from, sb_global<uint64_t> to,
                                 uint32_t shift, bool first, sb_shared<uint64_t> room)
{
    const sb_shared<uint64_t> all = room + uint32_t(SB_ARGMAX_WARPS);
    sb_digits with;
    const uint64_t few = sb_sample_known(from, SB_LIMIT_few, first);
    const uint64_t many = few + sb_sample_scan(tokens, room);
    uint32_t enough = is.tokens;
    bool reached = many >= enough;
    sb_digits_clear(&with);
    if (SUMS) {
        SB_UNROLL
        for (uint32_t d = 0; d < SB_SUM_DIGITS; d++) {
            with.digit[d] = sb_sample_scan(sum.digit[d], room);
            if (threadIdx.x == SB_SAMPLE_BINS - 1)
                all[d] = with.digit[d];
            with.digit[d] += sb_sample_known(from, SB_LIMIT_sum + d, first);
        }
        __syncthreads();
        if (first) {
            sb_digits total;
            SB_UNROLL
            for (uint32_t d = 0; d < SB_SUM_DIGITS; d++)
                total.digit[d] = all[d];
            enough = sb_gpu_bits(__fmul_rn(is.top_p, sb_digits_round(total)));
        } else {
            enough = static_cast<uint32_t>(from[SB_LIMIT_enough]);
        }
        reached = sb_digits_round(with) >= sb_gpu_float(enough);
    }
    const int bins_before = __syncthreads_count(!reached);
    if (threadIdx.x != static_cast<uint32_t>(bins_before))
        return;
    const bool found = tokens == 1;
    const uint64_t known = sb_sample_known(from, SB_LIMIT_key, first);
    const uint64_t key = known | static_cast<uint64_t>(threadIdx.x) << shift;
    const uint64_t end = key | ((uint64_t(1) << shift) - 1), before = ~from[SB_LIMIT_cut];
    const uint64_t last = end < before ? end : before; /* an earlier selection may have cut more */
    to[SB_LIMIT_cut] = ~(SUMS && SB_PLANT(sample_top_p) && found && many > 1 ? key - 1 : last);
    to[SB_LIMIT_found] = found;
    to[SB_LIMIT_key] = key;
    to[SB_LIMIT_few] = many - tokens;
    to[SB_LIMIT_enough] = enough;
    SB_UNROLL
    for (uint32_t d = 0; d < SB_SUM_DIGITS; d++)
        to[SB_LIMIT_sum + d] = with.digit[d] - sum.digit[d];
}

/* The last block finds the bin of each row; counts of bins become 0 again. */
template <bool SUMS>
SB_KERNEL_FN void sb_sample_end(sb_global<uint64_t> bins, const sb_sample_enough &is,
                                sb_global<const uint64_t> from, sb_global<uint64_t> to,
                                uint32_t shift, bool first, sb_shared<uint64_t> room)
{
    const sb_global<unsigned long long> mine =
        sb_cast<unsigned long long>(bins + threadIdx.x * SB_SAMPLE_BIN);
    const uint64_t tokens = atomicExch(mine, 0ull);
    sb_digits sum;
    sb_digits_clear(&sum);
    if (SUMS) {
        SB_UNROLL
        for (uint32_t d = 0; d < SB_SUM_DIGITS; d++)
            sum.digit[d] = atomicExch(mine + (1 + d), 0ull);
    }
    sb_sample_find<SUMS>(tokens, sum, is, from, to, shift, first, room);
}

/* Finds eight bits of the key of the last token that is kept, those from bit `shift` on; with
 * `first` nothing is known before. Tokens after the limit of an earlier selection are no longer
 * there. grid (parts, rows), parts of at most SB_SAMPLE_PART tokens */
template <bool SUMS>
static __global__ void __launch_bounds__(SB_SAMPLE_THREADS)
    sb_sample_select(sb_global<const float> logits, sb_global<const float> e,
                     sb_global<uint64_t> rows, sb_global<uint64_t> all_bins,
                     sb_global<const uint64_t> limit, sb_global<uint64_t> next, sb_sample_enough is,
                     uint32_t shift, uint32_t first, uint32_t n)
{
    sb_launch_ready();
    sb_launch_wait();
    SB_SHARED(uint32_t, count, SB_SAMPLE_BINS);
    SB_SHARED(uint32_t, halves, (SUMS ? SB_SAMPLE_BINS * SB_SAMPLE_HALVES : 1));
    SB_SHARED(uint64_t, room, SB_ARGMAX_WARPS + SB_SUM_DIGITS);
    SB_SHARED(uint32_t, last, 1);
    const sb_sample_part part = sb_sample_part_of(n);
    const sb_global<uint64_t> row = rows + part.row * SB_SAMPLE_ROW;
    const sb_global<uint64_t> bins = all_bins + part.row * SB_SAMPLE_BINS * SB_SAMPLE_BIN;
    const sb_global<const uint64_t> from = limit + part.row * SB_LIMIT_ROW;
    const sb_global<uint64_t> to = next + part.row * SB_LIMIT_ROW;
    const uint32_t mine = threadIdx.x;
    if (row[SB_SAMPLE_refused] || (!first && from[SB_LIMIT_found])) {
        if (blockIdx.x == 0 && mine < SB_LIMIT_ROW)
            to[mine] = from[mine];
        return;
    }
    const uint64_t known = sb_sample_known(from, SB_LIMIT_key, first != 0),
                   end = ~from[SB_LIMIT_cut];
    count[mine] = 0;
    for (uint32_t i = mine; SUMS && i < SB_SAMPLE_BINS * SB_SAMPLE_HALVES; i += SB_SAMPLE_THREADS)
        halves[i] = 0;
    if (!SB_PLANT(sample_barrier2))
        __syncthreads();
    SB_SAMPLE_EACH(i, part.first, part.end)
    {
        const float x = logits[part.row * n + i];
        const uint64_t key = sb_sample_key(x, i);
        const uint32_t bin = static_cast<uint32_t>(key >> shift) % SB_SAMPLE_BINS;
        if (key > end || (!first && (key ^ known) >> (shift + 8)))
            continue;
        atomicAdd(count + bin, 1u);
        if (SUMS)
            sb_sample_add_halves(halves + bin * SB_SAMPLE_HALVES, e[part.row * n + i]);
    }
    if (!SB_PLANT(sample_barrier))
        __syncthreads();
    if (count[mine]) {
        sb_sample_add(bins + mine * SB_SAMPLE_BIN, count[mine]);
        for (uint32_t d = 0; SUMS && d < SB_SUM_DIGITS; d++) {
            const uint32_t low = mine * SB_SAMPLE_HALVES + 2 * d;
            const uint64_t digit = halves[low] + (static_cast<uint64_t>(halves[low + 1]) << 16);
            if (digit)
                sb_sample_add(bins + (mine * SB_SAMPLE_BIN + 1 + d), digit);
        }
    }
    if (sb_sample_is_last(row, last))
        sb_sample_end<SUMS>(bins, is, from, to, shift, first, room);
}

#endif
