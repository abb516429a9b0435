/* delta_carry.cuh - the gated delta rule in chunks, second part: the state goes from chunk to
 * chunk, and rows read it.
 *
 * The columns of a head's state do not know of each other: a block has 32 of one head, from the
 * first chunk to the last, in the accumulators of its warps. A warp has 16 rows of a chunk, of the
 * state every fourth 16 rows. */
#ifndef SB_GPU_KERNEL_DELTA_CARRY_CUH
#define SB_GPU_KERNEL_DELTA_CARRY_CUH

#include "gpu/kernel/delta_chunk.cuh"

constexpr uint32_t SB_CARRY_COLUMNS = 32, SB_CARRY_WIDTH = 40, SB_CARRY_TILES = 4;

struct sb_carry_room {
    sb_shared<uint16_t> S, V, late; /* (DK | 64 | 64, WIDTH): R(S), R(V), R(V exp(G_last - G_i)) */
    sb_shared<float> sums;          /* (64): G */
};

/* The state's tiles of a warp. */
template <int DK> struct sb_carry_state {
    static constexpr uint32_t TILES = DK > 64 ? DK / 64 : 1;
    float x[TILES][SB_CARRY_TILES][4];

    SB_ATOM_FN static uint32_t row(uint32_t tile)
    {
        return 16 * (threadIdx.x / 32 + SB_CHUNK_WARPS * tile);
    }
};

/* sum += the products of a with 16 rows of a matrix in shared memory. */
template <int N>
SB_KERNEL_FN void sb_carry_times(float (&sum)[SB_CARRY_TILES][2][4], const uint32_t (&a)[N][4],
                                 sb_shared<const uint16_t> rows)
{
    const uint32_t lane = threadIdx.x % 32;
    SB_UNROLL
    for (uint32_t n = 0; n < SB_CARRY_TILES; n += 2) {
        uint32_t b[4];
        sb_ldmatrix<4, true>(
            b, sb_cast<const uint4>(rows + (lane % 16 * SB_CARRY_WIDTH + lane / 16 * 8 + 8 * n)));
        const uint32_t low[1][2] = {{b[0], b[1]}}, high[1][2] = {{b[2], b[3]}};
        sb_chunk_mma(sum[n], a, low);
        sb_chunk_mma(sum[n + 1], a, high);
    }
}

/* A fragment of a matrix of bfloat16 in memory, whose first row and column these are. */
SB_KERNEL_FN void sb_carry_fragment(uint32_t (&a)[1][4], sb_global<const uint16_t> from,
                                    uint32_t width, uint32_t row, uint32_t column)
{
    const uint32_t lane = threadIdx.x % 32;
    SB_UNROLL
    for (uint32_t r = 0; r < 4; r++) {
        const size_t at = static_cast<size_t>(row + lane / 4 + 8 * (r % 2)) * width;
        a[0][r] = *sb_cast<const uint32_t>(from + (at + column + 2 * (lane % 4) + 8 * (r / 2)));
    }
}

/* S' of R-22: the state, rounded. */
template <int DK>
SB_KERNEL_FN void sb_carry_show(const sb_carry_room &room, uint32_t keys,
                                const sb_carry_state<DK> &state)
{
    const uint32_t lane = threadIdx.x % 32;
    SB_UNROLL
    for (uint32_t m = 0; m < state.TILES; m++) {
        if (state.row(m) >= keys)
            continue;
        SB_UNROLL
        for (uint32_t n = 0; n < SB_CARRY_TILES; n++)
            SB_UNROLL
        for (uint32_t half = 0; half < 2; half++) {
            const uint32_t row = state.row(m) + lane / 4 + 8 * half;
            *sb_cast<uint32_t>(room.S + (row * SB_CARRY_WIDTH + 8 * n + 2 * (lane % 4))) =
                sb_cvt_bf16x2_f32(state.x[m][n][2 * half], state.x[m][n][2 * half + 1]);
        }
    }
}

/* R-22: "V_i = RN( U_i - dot(W_i, S') )"; R(V) for the rows, and for the state "R( RN( V_i[b]
 * exp(RN(G_last - G_i)) ) )". u is the block's first column of U. */
SB_KERNEL_FN void sb_carry_correct(const sb_carry_room &room, uint32_t keys,
                                   sb_global<const uint16_t> w, sb_global<const uint16_t> u,
                                   uint32_t columns)
{
    const uint32_t lane = threadIdx.x % 32, first = threadIdx.x / 32 * 16;
    float sum[SB_CARRY_TILES][2][4] = {};
    for (uint32_t k = 0; k < keys; k += 16) {
        uint32_t a[1][4];
        sb_carry_fragment(a, w, keys, first, k);
        sb_carry_times(sum, a, room.S + k * SB_CARRY_WIDTH);
    }
    const float last = room.sums[SB_CHUNK_ROWS - 1]; /* rows that are not there have g = 0 */
    SB_UNROLL
    for (uint32_t half = 0; half < 2; half++) {
        const uint32_t row = first + lane / 4 + 8 * half;
        const float shrunk = sb_gpu_exp(__fsub_rn(last, room.sums[row]));
        SB_UNROLL
        for (uint32_t n = 0; n < SB_CARRY_TILES; n++) {
            const uint32_t column = 8 * n + 2 * (lane % 4), at = row * SB_CARRY_WIDTH + column;
            const uint32_t two =
                *sb_cast<const uint32_t>(u + (static_cast<size_t>(row) * columns + column));
            const float low = __fsub_rn(sb_atom_float(two << 16), sb_chunk_sum(sum[n], 2 * half));
            const float high =
                __fsub_rn(sb_atom_float(two & 0xffff0000u), sb_chunk_sum(sum[n], 2 * half + 1));
            *sb_cast<uint32_t>(room.V + at) = sb_cvt_bf16x2_f32(low, high);
            *sb_cast<uint32_t>(room.late + at) =
                sb_cvt_bf16x2_f32(__fmul_rn(low, shrunk), __fmul_rn(high, shrunk));
        }
    }
}

/* R-22: "o_i = R( RN( RN( RN( dot(q_i, S') exp(G_i) ) s ) + RN( dot over j <= i of P_ij with
 * R(V_j), times s ) ) )" */
template <class T, int N>
SB_KERNEL_FN void sb_carry_read(const sb_chunk_job<T> &job, const sb_chunk_place &at,
                                const sb_carry_room &room)
{
    const uint32_t lane = threadIdx.x % 32, first = threadIdx.x / 32 * 16;
    const sb_chunk_rows q = sb_chunk_take(job, at, job.call.q);
    const sb_global<const uint16_t> p = job.p + at.place * SB_CHUNK_ROWS * SB_CHUNK_ROWS;
    float before[SB_CARRY_TILES][2][4] = {}, within[SB_CARRY_TILES][2][4] = {};
    for (uint32_t k = 0; k < job.keys; k += 16) {
        uint32_t a[N][4];
        SB_UNROLL
        for (uint32_t r = 0; r < 4; r++) {
            const uint32_t row = first + lane / 4 + 8 * (r % 2);
            const uint32_t column = k + 2 * (lane % 4) + 8 * (r / 2);
            sb_chunk_split(a, r, q.at(row, column), q.at(row, column + 1));
        }
        sb_carry_times(before, a, room.S + k * SB_CARRY_WIDTH);
    }
    for (uint32_t k = 0; k <= first; k += 16) {
        uint32_t a[1][4];
        sb_carry_fragment(a, p, SB_CHUNK_ROWS, first, k);
        sb_carry_times(within, a, room.V + k * SB_CARRY_WIDTH);
    }
    SB_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t row = first + lane / 4 + 8 * (i / 2);
        const float grown = sb_gpu_exp(room.sums[row]);
        const size_t to = ((at.first + row) * job.call.v_heads + at.head) * job.call.dv;
        SB_UNROLL
        for (uint32_t n = 0; n < SB_CARRY_TILES; n++) {
            const uint32_t column = blockIdx.x * SB_CARRY_COLUMNS + 8 * n + 2 * (lane % 4) + i % 2;
            const float x = __fmul_rn(__fmul_rn(sb_chunk_sum(before[n], i), grown), job.scale);
            const float y = __fmul_rn(sb_chunk_sum(within[n], i), job.scale);
            if (row < at.rows && column < job.call.dv)
                job.call.out[to + column] = sb_narrow<T>(__fadd_rn(x, y));
        }
    }
}

/* R-22: "S[a, b] = RN( RN(S[a, b] exp(G_last)) + dot over i of k_i[a] with R( RN( V_i[b]
 * exp(RN(G_last - G_i)) ) ) )" */
template <int DK, int N>
SB_KERNEL_FN void sb_carry_on(const sb_chunk_rows &k, const sb_carry_room &room, uint32_t keys,
                              float grown, sb_carry_state<DK> &state)
{
    const uint32_t lane = threadIdx.x % 32;
    SB_UNROLL
    for (uint32_t m = 0; m < state.TILES; m++) {
        if (state.row(m) >= keys)
            continue;
        float sum[SB_CARRY_TILES][2][4] = {};
        for (uint32_t first = 0; first < SB_CHUNK_ROWS; first += 16) {
            uint32_t a[N][4];
            SB_UNROLL
            for (uint32_t r = 0; r < 4; r++) {
                const uint32_t column = state.row(m) + lane / 4 + 8 * (r % 2);
                const uint32_t row = first + 2 * (lane % 4) + 8 * (r / 2);
                sb_chunk_split(a, r, k.at(row, column), k.at(row + 1, column));
            }
            sb_carry_times(sum, a, room.late + first * SB_CARRY_WIDTH);
        }
        SB_UNROLL
        for (uint32_t n = 0; n < SB_CARRY_TILES; n++)
            SB_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            const float kept = SB_PLANT(chunk_carry) ? 0.0f : __fmul_rn(state.x[m][n][i], grown);
            state.x[m][n][i] = __fadd_rn(kept, sb_chunk_sum(sum[n], i));
        }
    }
}

/* Element i of tiles m and n of the state stands at this row and column of its head. */
template <int DK>
SB_KERNEL_FN uint32_t sb_carry_row(const sb_carry_state<DK> &state, uint32_t m, uint32_t i)
{
    return state.row(m) + threadIdx.x % 32 / 4 + 8 * (i / 2);
}
SB_KERNEL_FN uint32_t sb_carry_column(uint32_t n, uint32_t i)
{
    return blockIdx.x * SB_CARRY_COLUMNS + 8 * n + 2 * (threadIdx.x % 4) + i % 2;
}
template <int DK>
SB_KERNEL_FN void sb_carry_load(sb_global<const float> from, uint32_t dk, uint32_t dv,
                                sb_carry_state<DK> &state)
{
    SB_UNROLL
    for (uint32_t m = 0; m < state.TILES; m++)
        SB_UNROLL
    for (uint32_t n = 0; n < SB_CARRY_TILES; n++)
        SB_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t row = sb_carry_row(state, m, i), column = sb_carry_column(n, i);
        state.x[m][n][i] = 0.0f;
        if (row < dk && column < dv)
            state.x[m][n][i] = from[static_cast<size_t>(row) * dv + column];
    }
}
template <int DK>
SB_KERNEL_FN void sb_carry_store(sb_global<float> to, uint32_t dk, uint32_t dv,
                                 const sb_carry_state<DK> &state)
{
    SB_UNROLL
    for (uint32_t m = 0; m < state.TILES; m++)
        SB_UNROLL
    for (uint32_t n = 0; n < SB_CARRY_TILES; n++)
        SB_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t row = sb_carry_row(state, m, i), column = sb_carry_column(n, i);
        if (row < dk && column < dv)
            to[static_cast<size_t>(row) * dv + column] = state.x[m][n][i];
    }
}

/* Blocks: groups of 32 columns, value heads. */
template <class T, int DK, int N>
static __global__ void __launch_bounds__(SB_CHUNK_THREADS, 3)
    sb_delta_carry_kernel(const sb_chunk_job<T> job)
{
    sb_launch_ready();
    sb_launch_wait();
    SB_SHARED(uint16_t, S, DK * SB_CARRY_WIDTH);
    SB_SHARED(uint16_t, V, SB_CHUNK_ROWS * SB_CARRY_WIDTH);
    SB_SHARED(uint16_t, late, SB_CHUNK_ROWS * SB_CARRY_WIDTH);
    SB_SHARED(float, sums, SB_CHUNK_ROWS);
    const sb_carry_room room = {S, V, late, sums};
    const sb_delta_job<T> &call = job.call;
    sb_carry_state<DK> state;
    sb_carry_load(call.from + sb_delta_state(call, sb_slot_read(call.slot), blockIdx.y), call.dk,
                  call.dv, state);
    for (uint32_t chunk = 0; chunk < job.chunks; chunk++) {
        const sb_chunk_place at = sb_chunk_at(job, chunk, blockIdx.y);
        const size_t row = at.place * SB_CHUNK_ROWS;
        sb_carry_show(room, job.keys, state);
        if (threadIdx.x < SB_CHUNK_ROWS)
            room.sums[threadIdx.x] = job.sums[row + threadIdx.x];
        if (!SB_PLANT(chunk_barrier3))
            __syncthreads();
        sb_carry_correct(room, job.keys, job.w + row * job.keys,
                         job.u + (row * job.columns + blockIdx.x * SB_CARRY_COLUMNS), job.columns);
        if (!SB_PLANT(chunk_barrier4))
            __syncthreads();
        sb_carry_read<T, N>(job, at, room);
        float grown = sb_gpu_exp(room.sums[SB_CHUNK_ROWS - 1]);
        if (SB_PLANT(chunk_decay) && chunk + 1 == job.chunks)
            grown = 1.0f;
        sb_carry_on<DK, N>(sb_chunk_take(job, at, call.k), room, job.keys, grown, state);
        if (!SB_PLANT(chunk_barrier5))
            __syncthreads();
    }
    sb_carry_store(call.to + sb_delta_state(call, sb_slot_written(call.slot), blockIdx.y), call.dk,
                   call.dv, state);
}

#endif
