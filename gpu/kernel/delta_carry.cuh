/* delta_carry.cuh - the gated delta rule in chunks, second part: carries the state from chunk to
 * chunk and computes the outputs.
 *
 * The columns of a head's state are independent. A block keeps 32 columns of one head in the
 * accumulators of its warps, from the first chunk to the last. A warp owns 16 rows of each chunk,
 * and every fourth group of 16 rows of the state. Operands that only one warp multiplies with the
 * state are loaded into registers, a chunk ahead, as fragments that the first kernel has written.
 * All warps need state and values, so these go through shared memory. */
#ifndef SB_GPU_KERNEL_DELTA_CARRY_CUH
#define SB_GPU_KERNEL_DELTA_CARRY_CUH

#include "gpu/kernel/delta_chunk.cuh"

constexpr uint32_t SB_CARRY_COLUMNS = 32, SB_CARRY_WIDTH = 40, SB_CARRY_TILES = 4;

struct sb_carry_shared {
    sb_shared<uint16_t> S, V, late; /* (DK | 64 | 64, WIDTH): R(S), R(V), R(V exp(G_last - G_i)) */
};

/* The tiles of the state that a warp owns. */
template <int DK> struct sb_carry_state {
    static constexpr uint32_t TILES = DK > 64 ? DK / 64 : 1;
    float x[TILES][SB_CARRY_TILES][4];

    SB_ATOM_FN static uint32_t row(uint32_t tile)
    {
        return 16 * (threadIdx.x / 32 + SB_CHUNK_WARPS * tile);
    }
};

/* --- operands in flight ----------------------------------------------------------------------- */
/* A warp's operands for one chunk, loaded ahead, and the factors of its rows and of the state. Keys
 * and queries that need three pieces are loaded and split only where they are used. */
template <int DK, int N> struct sb_carry_ahead {
    static constexpr uint32_t STEPS = DK / 16, PIECES = N == 1 ? STEPS : 1;
    uint4 w[STEPS], q[PIECES], k[PIECES], p[SB_CHUNK_TILES], u[2];
    float2 of[2];
    float grown;
};

/* A pointer to this lane's part of fragment `first` of a place; a place has `each` fragments. */
SB_KERNEL_FN sb_global<const uint4> sb_carry_at(sb_global<const uint4> from, size_t place,
                                                uint32_t each, uint32_t first)
{
    return from + ((place * each + first) * 32 + threadIdx.x % 32);
}
/* Loads this lane's part of the n-th fragment after `from`. Missing fragments become zeros, so that
 * the old values no longer occupy registers. */
SB_KERNEL_FN uint4 sb_carry_get(sb_global<const uint4> from, uint32_t n, bool there)
{
    uint4 words = make_uint4(0, 0, 0, 0);
    if (there)
        words = from[n * 32];
    return words;
}

/* Y-99: "for W and queries of a chunk while the state takes in the chunk before": requests W of the
 * chunk, if the chunk exists. */
template <class T, int DK, int N>
SB_KERNEL_FN void sb_carry_ask(const sb_chunk_job<T> &job, uint32_t chunk,
                               sb_carry_ahead<DK, N> &ahead)
{
    const uint32_t steps = job.keys / 16, first = threadIdx.x / 32 * steps;
    const sb_chunk_place at = sb_chunk_at(job, chunk, blockIdx.y);
    const sb_global<const uint4> w = sb_carry_at(job.w, at.place, SB_CHUNK_TILES * steps, first);
    SB_UNROLL
    for (uint32_t n = 0; n < ahead.STEPS; n++)
        ahead.w[n] = sb_carry_get(w, n, chunk < job.chunks && n < steps);
}
/* Requests fragment n of the chunk's queries, if queries are one piece. */
template <class T, int DK, int N>
SB_KERNEL_FN void sb_carry_ask_query(const sb_chunk_job<T> &job, uint32_t chunk, uint32_t n,
                                     sb_carry_ahead<DK, N> &ahead)
{
    const uint32_t steps = job.keys / 16, first = threadIdx.x / 32 * steps;
    const sb_chunk_place at = sb_chunk_at(job, chunk, blockIdx.y);
    if (N == 1)
        ahead.q[n] = sb_carry_get(sb_carry_at(job.q, at.of_keys, SB_CHUNK_TILES * steps, first), n,
                                  chunk < job.chunks && n < steps);
}
/* Requests fragment n of the chunk's keys, if keys are one piece: 16 rows of the chunk for one tile
 * of the state. */
template <class T, int DK, int N>
SB_KERNEL_FN void sb_carry_ask_key(const sb_chunk_job<T> &job, uint32_t chunk, uint32_t n,
                                   sb_carry_ahead<DK, N> &ahead)
{
    const uint32_t each = SB_CHUNK_TILES * (job.keys / 16), tile = n / SB_CHUNK_TILES;
    const uint32_t first = threadIdx.x / 32 * SB_CHUNK_TILES, more = n % SB_CHUNK_TILES;
    const sb_chunk_place at = sb_chunk_at(job, chunk, blockIdx.y);
    if (N == 1)
        ahead.k[n] = sb_carry_get(sb_carry_at(job.k, at.of_keys, each, first),
                                  tile * SB_CHUNK_WARPS * SB_CHUNK_TILES + more,
                                  sb_carry_state<DK>::row(tile) < job.keys);
}
/* _factors requests the chunk's factors, _value its U, _score its P. */
template <class T, int DK, int N>
SB_KERNEL_FN void sb_carry_ask_factors(const sb_chunk_job<T> &job, uint32_t chunk,
                                       sb_carry_ahead<DK, N> &ahead)
{
    const sb_global<const float2> of =
        job.factors + sb_chunk_at(job, chunk, blockIdx.y).place * SB_CHUNK_ROWS;
    const float2 last = of[SB_CHUNK_ROWS - 1];
    ahead.grown = last.x;
    for (uint32_t half = 0; half < 2; half++)
        ahead.of[half] = of[threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + 8 * half];
}
template <class T, int DK, int N>
SB_KERNEL_FN void sb_carry_ask_value(const sb_chunk_job<T> &job, uint32_t chunk, uint32_t n,
                                     sb_carry_ahead<DK, N> &ahead)
{
    const uint32_t each = job.columns / 16 * SB_CHUNK_TILES;
    const uint32_t first = 2 * blockIdx.x * SB_CHUNK_TILES + threadIdx.x / 32;
    const sb_chunk_place at = sb_chunk_at(job, chunk, blockIdx.y);
    ahead.u[n] = sb_carry_get(sb_carry_at(job.u, at.place, each, first), n * SB_CHUNK_TILES, true);
}
template <class T, int DK, int N>
SB_KERNEL_FN void sb_carry_ask_score(const sb_chunk_job<T> &job, uint32_t chunk, uint32_t n,
                                     sb_carry_ahead<DK, N> &ahead)
{
    const uint32_t warp = threadIdx.x / 32, first = warp * (warp + 1) / 2;
    const sb_chunk_place at = sb_chunk_at(job, chunk, blockIdx.y);
    ahead.p[n] = sb_carry_get(sb_carry_at(job.p, at.place, SB_CHUNK_OF_P, first), n, n <= warp);
}

/* --- products --------------------------------------------------------------------------------- */
SB_KERNEL_FN void sb_carry_words(uint32_t (&a)[1][4], const uint4 &of)
{
    a[0][0] = of.x, a[0][1] = of.y, a[0][2] = of.z, a[0][3] = of.w;
}

/* 16 rows of two neighbouring column tiles of a matrix in shared memory. */
struct sb_carry_columns {
    uint32_t low[1][2], high[1][2];
};
SB_KERNEL_FN sb_carry_columns sb_carry_take(sb_shared<const uint16_t> rows, uint32_t n)
{
    const uint32_t lane = threadIdx.x % 32;
    uint32_t b[4];
    sb_ldmatrix<4, true>(
        b, sb_cast<const uint4>(rows + (lane % 16 * SB_CARRY_WIDTH + lane / 16 * 8 + 8 * n)));
    return {{{b[0], b[1]}}, {{b[2], b[3]}}};
}
template <int N>
SB_KERNEL_FN void sb_carry_times(float (&sum)[SB_CARRY_TILES][2][4], const uint32_t (&a)[N][4],
                                 const sb_carry_columns &b, uint32_t n)
{
    sb_chunk_mma(sum[n], a, b.low);
    sb_chunk_mma(sum[n + 1], a, b.high);
}

/* Writes S' of R-22, the rounded state, to shared memory. */
template <int DK>
SB_KERNEL_FN void sb_carry_show(const sb_carry_shared &room, uint32_t keys,
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

/* "dot(W_i, S')" and "dot(q_i, S')" of R-22. Meanwhile requests U, P and the keys of the chunk,
 * which are used next. */
template <class T, int DK, int N>
SB_KERNEL_FN void sb_carry_look(const sb_chunk_job<T> &job, uint32_t chunk,
                                const sb_carry_shared &room, sb_carry_ahead<DK, N> &ahead,
                                float (&known)[SB_CARRY_TILES][2][4],
                                float (&before)[SB_CARRY_TILES][2][4])
{
    const sb_chunk_rows q = sb_chunk_take(job, sb_chunk_at(job, chunk, blockIdx.y), job.call.q);
    SB_UNROLL
    for (uint32_t step = 0; step < ahead.STEPS; step++) {
        if (16 * step < job.keys) {
            uint32_t w[1][4], query[N][4];
            sb_carry_words(w, ahead.w[step]);
            if constexpr (N == 1) {
                sb_carry_words(query, ahead.q[step]);
            } else {
                float2 two[4];
                q.bring(two, threadIdx.x / 32 * 16, 16 * step);
                SB_UNROLL
                for (uint32_t r = 0; r < 4; r++)
                    sb_chunk_split(query, r, two[r].x, two[r].y);
            }
            SB_UNROLL
            for (uint32_t n = 0; n < SB_CARRY_TILES; n += 2) {
                const sb_carry_columns b = sb_carry_take(room.S + 16 * step * SB_CARRY_WIDTH, n);
                sb_carry_times(known, w, b, n);
                sb_carry_times(before, query, b, n);
            }
        }
        if (step < 2)
            sb_carry_ask_value(job, chunk, step, ahead);
        if (step + SB_CHUNK_TILES >= ahead.STEPS)
            sb_carry_ask_score(job, chunk, step + SB_CHUNK_TILES - ahead.STEPS, ahead);
        sb_carry_ask_key(job, chunk, step, ahead);
    }
}

/* R-22: "V_i = RN( U_i - dot(W_i, S') )"; writes R(V) for the outputs, and "R( RN( V_i[b]
 * exp(RN(G_last - G_i)) ) )" for the state. */
template <int DK, int N>
SB_KERNEL_FN void sb_carry_correct(const sb_carry_shared &room, const sb_carry_ahead<DK, N> &ahead,
                                   const float (&known)[SB_CARRY_TILES][2][4])
{
    const uint32_t lane = threadIdx.x % 32, first = threadIdx.x / 32 * 16;
    SB_UNROLL
    for (uint32_t n = 0; n < SB_CARRY_TILES; n++) {
        uint32_t u[1][4];
        sb_carry_words(u, ahead.u[n / 2]);
        SB_UNROLL
        for (uint32_t half = 0; half < 2; half++) {
            const uint32_t row = first + lane / 4 + 8 * half, two = u[0][n % 2 * 2 + half];
            const uint32_t at = row * SB_CARRY_WIDTH + 8 * n + 2 * (lane % 4);
            const float shrunk = ahead.of[half].y;
            const float low = __fsub_rn(sb_atom_float(two << 16), sb_chunk_sum(known[n], 2 * half));
            const float high =
                __fsub_rn(sb_atom_float(two & 0xffff0000u), sb_chunk_sum(known[n], 2 * half + 1));
            *sb_cast<uint32_t>(room.V + at) = sb_cvt_bf16x2_f32(low, high);
            *sb_cast<uint32_t>(room.late + at) =
                sb_cvt_bf16x2_f32(__fmul_rn(low, shrunk), __fmul_rn(high, shrunk));
        }
    }
}

/* "dot over j <= i of P_ij with R(V_j)" of R-22. */
template <int DK, int N>
SB_KERNEL_FN void sb_carry_read(const sb_carry_shared &room, const sb_carry_ahead<DK, N> &ahead,
                                float (&within)[SB_CARRY_TILES][2][4])
{
    SB_UNROLL
    for (uint32_t k = 0; k < SB_CHUNK_TILES; k++) {
        if (k > threadIdx.x / 32)
            continue;
        uint32_t p[1][4];
        sb_carry_words(p, ahead.p[k]);
        SB_UNROLL
        for (uint32_t n = 0; n < SB_CARRY_TILES; n += 2)
            sb_carry_times(within, p, sb_carry_take(room.V + 16 * k * SB_CARRY_WIDTH, n), n);
    }
}

/* R-22: "o_i = R( RN( RN( RN( dot(q_i, S') exp(G_i) ) s ) + RN( dot over j <= i of P_ij with
 * R(V_j), times s ) ) )" */
template <class T, int DK, int N>
SB_KERNEL_FN void sb_carry_out(const sb_chunk_job<T> &job, uint32_t chunk,
                               const sb_carry_ahead<DK, N> &ahead,
                               const float (&before)[SB_CARRY_TILES][2][4],
                               const float (&within)[SB_CARRY_TILES][2][4])
{
    const uint32_t lane = threadIdx.x % 32;
    const sb_chunk_place at = sb_chunk_at(job, chunk, blockIdx.y);
    SB_UNROLL
    for (uint32_t half = 0; half < 2; half++) {
        const uint32_t row = threadIdx.x / 32 * 16 + lane / 4 + 8 * half;
        const float grown = ahead.of[half].x;
        const uint32_t column = blockIdx.x * SB_CARRY_COLUMNS + 2 * (lane % 4);
        const sb_global<T> to =
            job.call.out + (((at.first + row) * job.call.v_heads + at.head) * job.call.dv + column);
        SB_UNROLL
        for (uint32_t n = 0; n < SB_CARRY_TILES; n++) {
            T o[2];
            SB_UNROLL
            for (uint32_t i = 0; i < 2; i++) {
                const float x =
                    __fmul_rn(__fmul_rn(sb_chunk_sum(before[n], 2 * half + i), grown), job.scale);
                const float y = __fmul_rn(sb_chunk_sum(within[n], 2 * half + i), job.scale);
                o[i] = sb_narrow<T>(__fadd_rn(x, y));
            }
            if (row >= at.rows)
                continue;
            if (job.pairs) {
                if (column + 8 * n < job.call.dv)
                    *sb_cast<sb_chunk_pair<T>>(to + 8 * n) = {o[0], o[1]};
                continue;
            }
            for (uint32_t i = 0; i < 2; i++)
                if (column + 8 * n + i < job.call.dv)
                    to[8 * n + i] = o[i];
        }
    }
}

/* R-22: "S[a, b] = RN( RN(S[a, b] exp(G_last)) + dot over i of k_i[a] with R( RN( V_i[b]
 * exp(RN(G_last - G_i)) ) ) )". Meanwhile requests the queries of chunk `next`, if it exists. */
template <class T, int DK, int N>
SB_KERNEL_FN void sb_carry_on(const sb_chunk_job<T> &job, uint32_t chunk, uint32_t next,
                              const sb_carry_shared &room, float grown,
                              sb_carry_ahead<DK, N> &ahead, sb_carry_state<DK> &state)
{
    const uint32_t lane = threadIdx.x % 32;
    const sb_chunk_rows k = sb_chunk_take(job, sb_chunk_at(job, chunk, blockIdx.y), job.call.k);
    float sum[sb_carry_state<DK>::TILES][SB_CARRY_TILES][2][4] = {};
    SB_UNROLL
    for (uint32_t step = 0; step < SB_CHUNK_TILES; step++) {
        const sb_shared<const uint16_t> late = room.late + 16 * step * SB_CARRY_WIDTH;
        const sb_carry_columns b[2] = {sb_carry_take(late, 0), sb_carry_take(late, 2)};
        SB_UNROLL
        for (uint32_t m = 0; m < state.TILES; m++) {
            if (state.row(m) < job.keys) {
                uint32_t a[N][4];
                if constexpr (N == 1) {
                    sb_carry_words(a, ahead.k[m * SB_CHUNK_TILES + step]);
                } else {
                    SB_UNROLL
                    for (uint32_t r = 0; r < 4; r++) {
                        const uint32_t column = state.row(m) + lane / 4 + 8 * (r % 2);
                        const uint32_t row = 16 * step + 2 * (lane % 4) + 8 * (r / 2);
                        sb_chunk_split(a, r, k.at(row, column), k.at(row + 1, column));
                    }
                }
                sb_carry_times(sum[m], a, b[0], 0);
                sb_carry_times(sum[m], a, b[1], 2);
            }
            sb_carry_ask_query(job, next, step * state.TILES + m, ahead);
        }
    }
    SB_UNROLL
    for (uint32_t m = 0; m < state.TILES; m++)
        SB_UNROLL
    for (uint32_t n = 0; n < SB_CARRY_TILES; n++)
        SB_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        const float kept = SB_PLANT(chunk_carry) ? 0.0f : __fmul_rn(state.x[m][n][i], grown);
        state.x[m][n][i] = __fadd_rn(kept, sb_chunk_sum(sum[m][n], i));
    }
}

/* The row and column, within the head, of element i of the state's row tile m and column tile n. */
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

/* grid: (groups of 32 columns, value heads). */
template <class T, int DK, int N>
static __global__ void __launch_bounds__(SB_CHUNK_THREADS, 3)
    sb_delta_carry_kernel(const sb_chunk_job<T> job)
{
    sb_launch_ready();
    sb_launch_wait();
    SB_SHARED(uint16_t, S, DK * SB_CARRY_WIDTH);
    SB_SHARED(uint16_t, V, SB_CHUNK_ROWS * SB_CARRY_WIDTH);
    SB_SHARED(uint16_t, late, SB_CHUNK_ROWS * SB_CARRY_WIDTH);
    const sb_carry_shared room = {S, V, late};
    const sb_delta_job<T> &call = job.call;
    sb_carry_ahead<DK, N> ahead = {};
    sb_carry_state<DK> state;
    sb_carry_ask(job, 0, ahead);
    SB_UNROLL
    for (uint32_t n = 0; n < ahead.STEPS; n++)
        sb_carry_ask_query(job, 0, n, ahead);
    sb_carry_load(call.from + sb_delta_state(call, sb_slot_read(call.slot), blockIdx.y), call.dk,
                  call.dv, state);
    for (uint32_t chunk = 0; chunk < job.chunks; chunk++) {
        const uint32_t next = SB_PLANT(chunk_ahead) ? chunk : chunk + 1;
        float known[SB_CARRY_TILES][2][4] = {}, before[SB_CARRY_TILES][2][4] = {};
        float within[SB_CARRY_TILES][2][4] = {};
        sb_carry_show(room, job.keys, state);
        if (!SB_PLANT(chunk_barrier3))
            __syncthreads();
        sb_carry_ask_factors(job, chunk, ahead);
        sb_carry_look(job, chunk, room, ahead, known, before);
        sb_carry_correct(room, ahead, known);
        if (!SB_PLANT(chunk_barrier4))
            __syncthreads();
        sb_carry_read(room, ahead, within);
        if (N == 1)
            sb_carry_ask(job, next, ahead);
        sb_carry_out(job, chunk, ahead, before, within);
        float grown = ahead.grown;
        if (SB_PLANT(chunk_decay) && chunk + 1 == job.chunks)
            grown = 1.0f;
        sb_carry_on(job, chunk, next, room, grown, ahead, state);
        if (N > 1) /* no earlier, since the sums of pieces leave no free registers */
            sb_carry_ask(job, next, ahead);
    }
    sb_carry_store(call.to + sb_delta_state(call, sb_slot_written(call.slot), blockIdx.y), call.dk,
                   call.dv, state);
}

#endif
