/* delta_chunk.cuh - the gated delta rule in chunks of 64 rows on the bf16 atom, with the roundings
 * of R-22, first part: what a chunk is before the state is known, a block for each chunk and head.
 * delta_carry.cuh goes through the chunks.
 *
 * An operand in binary32 is the sum of three of bfloat16, exactly, and a product of two such is
 * nine of the atom: those of the largest pieces are one sum, all others, 2^-7 of it at most, a
 * second one. Where queries and keys are bfloat16 they are one piece; the others would be zeros,
 * which change no bit.
 *
 * A row's bits depend on the rows of its chunk up to itself and on those of the chunks before, on
 * nothing behind it. */
#ifndef SB_GPU_KERNEL_DELTA_CHUNK_CUH
#define SB_GPU_KERNEL_DELTA_CHUNK_CUH

#include "gpu/atom/ldmatrix.h"
#include "gpu/atom/mma_half.h"
#include "gpu/kernel/delta_rule.cuh"

/* Rows of a chunk, and the widths of matrices in shared memory. */
constexpr uint32_t SB_CHUNK_ROWS = 64, SB_CHUNK_THREADS = 128, SB_CHUNK_WARPS = 4;
constexpr uint32_t SB_CHUNK_OF_A = 66, SB_CHUNK_OF_X = 80, SB_CHUNK_OF_R = 72;

/* Of a call; what lies between the two kernels has places for whole chunks, head by head. */
template <class T> struct sb_chunk_job {
    sb_delta_job<T> call;        /* its trail is not read */
    float scale;                 /* RN(dk^-1/2) */
    sb_global<float> sums;       /* (v_heads, chunks, 64): G */
    sb_global<uint16_t> u, w, p; /* (v_heads, chunks, 64, columns | keys | 64): U, W, P */
    uint32_t chunks;
    uint32_t columns, keys; /* dv and dk, filled up to multiples of 32 and 16 */
};

/* Queries or keys of one head, the rows of one chunk; zeros fill up. */
struct sb_chunk_rows {
    sb_global<const float> first;
    uint32_t stride, rows, dk;

    SB_ATOM_FN float at(uint32_t row, uint32_t column) const
    {
        if ((row >= rows && !SB_PLANT(chunk_padding)) || column >= dk)
            return 0.0f;
        return first[static_cast<size_t>(row) * stride + column];
    }
};

/* One chunk of one head: its first row, its rows, its place among the chunks of all heads. */
struct sb_chunk_place {
    size_t first, place;
    uint32_t head, rows;
};
template <class T>
SB_KERNEL_FN sb_chunk_place sb_chunk_at(const sb_chunk_job<T> &job, uint32_t chunk, uint32_t head)
{
    const uint32_t left = job.call.rows - chunk * SB_CHUNK_ROWS;
    return {static_cast<size_t>(chunk) * SB_CHUNK_ROWS,
            static_cast<size_t>(head) * job.chunks + chunk, head,
            left < SB_CHUNK_ROWS ? left : SB_CHUNK_ROWS};
}
template <class T>
SB_KERNEL_FN sb_chunk_rows sb_chunk_take(const sb_chunk_job<T> &job, const sb_chunk_place &at,
                                         sb_global<const float> x)
{
    const uint32_t key_head = at.head / (job.call.v_heads / job.call.k_heads);
    const uint32_t stride = job.call.k_heads * job.call.dk;
    return {x + (at.first * stride + key_head * job.call.dk), stride, at.rows, job.call.dk};
}

/* --- products of numbers in pieces ------------------------------------------------------------ */
/* Register r of a fragment: two neighbours, in N pieces each, the largest first. */
template <int N, int R>
SB_KERNEL_FN void sb_chunk_split(uint32_t (&to)[N][R], uint32_t r, float low, float high)
{
    SB_UNROLL
    for (int n = 0; n < N; n++) {
        const uint32_t two = sb_cvt_bf16x2_f32(low, high);
        to[n][r] = SB_PLANT(chunk_piece) && n == 1 ? 0 : two;
        low = __fsub_rn(low, sb_atom_float(two << 16));
        high = __fsub_rn(high, sb_atom_float(two & 0xffff0000u));
    }
}

/* sum[0] is that of the products of the largest pieces, sum[1] that of the others. */
template <int NA, int NB>
SB_KERNEL_FN void sb_chunk_mma(float (&sum)[2][4], const uint32_t (&a)[NA][4],
                               const uint32_t (&b)[NB][2])
{
    SB_UNROLL
    for (int i = 0; i < NA; i++)
        SB_UNROLL
    for (int j = 0; j < NB; j++)
        sb_mma_bf16(sum[i + j > 0], a[i], b[j]);
}
SB_KERNEL_FN float sb_chunk_sum(const float (&sum)[2][4], uint32_t i)
{
    return __fadd_rn(sum[0][i], sum[1][i]);
}

/* --- the first kernel ------------------------------------------------------------------------- */
struct sb_chunk_room {
    sb_shared<float> sums, beta, grown; /* (64): G, beta, exp(G) */
    sb_shared<float> A, X;              /* (64, OF_A), (64, OF_X) */
    sb_shared<uint16_t> inverse;        /* (64, OF_R): R(X) */
};

/* R-10: "G_i = sum of g_0..g_i"; rows that are not there have g = 0 and beta = 0. */
template <class T>
SB_KERNEL_FN void sb_chunk_gates(const sb_chunk_job<T> &job, const sb_chunk_place &at,
                                 const sb_chunk_room &room)
{
    const uint32_t row = threadIdx.x;
    if (row >= SB_CHUNK_ROWS)
        return;
    float sum = 0.0f, beta = 0.0f;
    for (uint32_t i = 0; i <= row && i < at.rows; i++) {
        const float g = job.call.g[(at.first + i) * job.call.v_heads + at.head];
        sum = __fadd_rn(sum, g);
    }
    if (row < at.rows)
        beta = job.call.beta[(at.first + row) * job.call.v_heads + at.head];
    room.sums[row] = sum;
    room.beta[row] = beta;
    room.grown[row] = sb_gpu_exp(sum);
    job.sums[at.place * SB_CHUNK_ROWS + row] = sum;
}

/* R-10: "A_ij = RN( dot(kb_i, k_j) D_ij ) for i > j", R-22: "P_ij = R( RN( dot(q_i, k_j) D_ij ) )
 * for j <= i", of a tile whose first column is `column`; zeros elsewhere. */
SB_KERNEL_FN void sb_chunk_weigh(const sb_chunk_room &room, uint32_t column, const float (&a)[2][4],
                                 const float (&p)[2][4], sb_global<uint16_t> to)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    SB_UNROLL
    for (uint32_t half = 0; half < 2; half++) {
        const uint32_t row = 16 * warp + lane / 4 + 8 * half, j = column + 2 * (lane % 4);
        const float of_row = room.sums[row];
        float score[2] = {0.0f, 0.0f};
        SB_UNROLL
        for (uint32_t i = 0; i < 2; i++) {
            float below = 0.0f;
            if (j + i <= row) {
                const float decay = sb_gpu_exp(__fsub_rn(of_row, room.sums[j + i]));
                score[i] = __fmul_rn(sb_chunk_sum(p, 2 * half + i), decay);
                below = __fmul_rn(sb_chunk_sum(a, 2 * half + i), decay);
            }
            room.A[row * SB_CHUNK_OF_A + j + i] = j + i < row ? below : 0.0f;
            score[i] = j + i == row && SB_PLANT(chunk_diagonal) ? 0.0f : score[i];
        }
        *sb_cast<uint32_t>(to + (row * SB_CHUNK_ROWS + j)) = sb_cvt_bf16x2_f32(score[0], score[1]);
    }
}

/* A and P: a warp has 16 rows, and of columns two tiles after the other up to the diagonal. */
template <int N>
SB_KERNEL_FN void sb_chunk_products(uint32_t keys, const sb_chunk_rows &q, const sb_chunk_rows &k,
                                    const sb_chunk_room &room, sb_global<uint16_t> to)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (uint32_t n = 0; n <= warp; n++) {
        float a[2][2][4] = {}, p[2][2][4] = {};
        for (uint32_t first = 0; first < keys; first += 16) {
            const uint32_t column = first + 2 * (lane % 4);
            uint32_t left[3][4], query[N][4], key[N][2];
            SB_UNROLL
            for (uint32_t r = 0; r < 4; r++) {
                const uint32_t row = 16 * warp + lane / 4 + 8 * (r % 2), c = column + 8 * (r / 2);
                const float beta = room.beta[row];
                /* R-10: "kb_i = RN(beta_i k_i)" */
                sb_chunk_split(left, r, __fmul_rn(beta, k.at(row, c)),
                               __fmul_rn(beta, k.at(row, c + 1)));
                sb_chunk_split(query, r, q.at(row, c), q.at(row, c + 1));
            }
            SB_UNROLL
            for (uint32_t tile = 0; tile < 2; tile++) {
                const uint32_t row = 16 * n + 8 * tile + lane / 4;
                sb_chunk_split(key, 0, k.at(row, column), k.at(row, column + 1));
                sb_chunk_split(key, 1, k.at(row, column + 8), k.at(row, column + 9));
                sb_chunk_mma(a[tile], left, key);
                sb_chunk_mma(p[tile], query, key);
            }
        }
        sb_chunk_weigh(room, 16 * n, a[0], p[0], to);
        sb_chunk_weigh(room, 16 * n + 8, a[1], p[1], to);
    }
}

/* R-22: "row by row X_i = dot of (1, -A_i0, .., -A_i,i-1) with (e_i, X_0, .., X_i-1), the inverse,
 * and all of it is rounded with R". Two lanes have a column: one its even rows, one the odd ones,
 * and no other thread reads them. Above the tiles of the diagonal nobody reads. */
SB_KERNEL_FN void sb_chunk_invert(const sb_chunk_room &room)
{
    const uint32_t part = threadIdx.x % 2, column = threadIdx.x / 2;
    const uint32_t first = column / 16 * 16, less = SB_PLANT(chunk_substitute) ? 1 : 0;
    for (uint32_t i = first; i < SB_CHUNK_ROWS; i++) {
        float sum = 0.0f;
        for (uint32_t j = first + part; j + less < i; j += 2)
            sum = __fmaf_rn(room.A[i * SB_CHUNK_OF_A + j], room.X[j * SB_CHUNK_OF_X + column], sum);
        sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 1));
        const float x = __fsub_rn(i == column ? 1.0f : 0.0f, sum);
        if (i % 2 == part) {
            room.X[i * SB_CHUNK_OF_X + column] = x;
            room.inverse[i * SB_CHUNK_OF_R + column] = sb_narrow<uint16_t>(x);
        }
    }
}

/* R-22: "vb_i = R(beta_i v_i) and kg_i = R( RN(kb_i exp(G_i)) )", before R. */
template <class T> struct sb_chunk_values {
    sb_global<const T> first;
    uint32_t stride, rows, dv;
    SB_ATOM_FN float at(const sb_chunk_room &room, uint32_t row, uint32_t column) const
    {
        if (row >= rows || column >= dv)
            return 0.0f;
        const T v = first[static_cast<size_t>(row) * stride + column];
        return __fmul_rn(room.beta[row], sb_wide(v));
    }
};
struct sb_chunk_keys {
    sb_chunk_rows k;
    SB_ATOM_FN float at(const sb_chunk_room &room, uint32_t row, uint32_t column) const
    {
        return __fmul_rn(__fmul_rn(room.beta[row], k.at(row, column)), room.grown[row]);
    }
};

/* R-22: "U_i = R( dot over j <= i of X_ij with vb_j ) and W_i = R( dot over j <= i of X_ij with
 * kg_j )": a warp has every fourth tile of columns, and all rows of it. */
template <class SIDE>
SB_KERNEL_FN void sb_chunk_solve(const sb_chunk_room &room, const SIDE &side, uint32_t columns,
                                 sb_global<uint16_t> to)
{
    const uint32_t lane = threadIdx.x % 32;
    const sb_shared<const uint16_t> x = room.inverse + (lane % 16 * SB_CHUNK_OF_R + lane / 16 * 8);
    for (uint32_t n = threadIdx.x / 32; n < columns / 8; n += SB_CHUNK_WARPS) {
        float sum[4][4] = {};
        SB_UNROLL
        for (uint32_t step = 0; step < 4; step++) {
            const uint32_t row = 16 * step + 2 * (lane % 4), column = 8 * n + lane / 4;
            const uint32_t swap = SB_PLANT(chunk_lanes) ? 8 : 0;
            uint32_t b[2];
            SB_UNROLL
            for (uint32_t r = 0; r < 2; r++) {
                const uint32_t at = row + ((8 * r) ^ swap);
                b[r] = sb_cvt_bf16x2_f32(side.at(room, at, column), side.at(room, at + 1, column));
            }
            SB_UNROLL
            for (uint32_t m = step; m < 4; m++) {
                uint32_t a[4];
                sb_ldmatrix<4>(a, sb_cast<const uint4>(x + (16 * m * SB_CHUNK_OF_R + 16 * step)));
                sb_mma_bf16(sum[m], a, b);
            }
        }
        SB_UNROLL
        for (uint32_t m = 0; m < 8; m++) { /* half tiles */
            const uint32_t row = 8 * m + lane / 4, i = m % 2 * 2;
            *sb_cast<uint32_t>(to + (row * columns + 8 * n + 2 * (lane % 4))) =
                sb_cvt_bf16x2_f32(sum[m / 2][i], sum[m / 2][i + 1]);
        }
    }
}

/* Blocks: chunks, value heads. */
template <class T, int N>
static __global__ void __launch_bounds__(SB_CHUNK_THREADS, 3)
    sb_delta_chunk_kernel(const sb_chunk_job<T> job)
{
    sb_launch_ready();
    sb_launch_wait();
    SB_SHARED(float, sums, SB_CHUNK_ROWS);
    SB_SHARED(float, beta, SB_CHUNK_ROWS);
    SB_SHARED(float, grown, SB_CHUNK_ROWS);
    SB_SHARED(float, A, SB_CHUNK_ROWS *SB_CHUNK_OF_A);
    SB_SHARED(float, X, SB_CHUNK_ROWS *SB_CHUNK_OF_X);
    SB_SHARED(uint16_t, inverse, SB_CHUNK_ROWS * SB_CHUNK_OF_R);
    const sb_chunk_room room = {sums, beta, grown, A, X, inverse};
    const sb_delta_job<T> &call = job.call;
    const sb_chunk_place at = sb_chunk_at(job, blockIdx.x, blockIdx.y);
    const sb_chunk_rows k = sb_chunk_take(job, at, call.k);
    const size_t row = at.place * SB_CHUNK_ROWS;
    sb_chunk_gates(job, at, room);
    __syncthreads();
    sb_chunk_products<N>(job.keys, sb_chunk_take(job, at, call.q), k, room,
                         job.p + row * SB_CHUNK_ROWS);
    if (!SB_PLANT(chunk_barrier))
        __syncthreads();
    sb_chunk_invert(room);
    if (!SB_PLANT(chunk_barrier2))
        __syncthreads();
    const sb_chunk_values<T> values = {call.v + (at.first * call.v_stride + at.head * call.dv),
                                       call.v_stride, at.rows, call.dv};
    sb_chunk_solve(room, values, job.columns, job.u + row * job.columns);
    sb_chunk_solve(room, sb_chunk_keys{k}, job.keys, job.w + row * job.keys);
}

#endif
