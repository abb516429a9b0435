/* delta_chunk.cuh - the first part of the gated delta rule in chunks of 64 rows on the bf16 atom,
 * with the roundings of R-22. It computes everything in a chunk that does not depend on the state.
 * Each chunk and head has its own block. The second part, delta_carry.cuh, goes through the chunks
 * in order.
 *
 * A binary32 operand is exactly the sum of three bfloat16 pieces, and a product of two such
 * operands is nine products of the atom. Products of the largest pieces form one sum. All other
 * products, each at most 2^-7 as large, form a second sum. If queries and keys are bfloat16, they
 * are a single piece; the other pieces would be zeros, which change no bit.
 *
 * The bits of a row depend on this row and earlier rows, but on no later row. */
#ifndef SB_GPU_KERNEL_DELTA_CHUNK_CUH
#define SB_GPU_KERNEL_DELTA_CHUNK_CUH

#include "gpu/atom/ldmatrix.h"
#include "gpu/atom/mma_half.h"
#include "gpu/kernel/delta_rule.cuh"

/* Rows, threads and warps of a chunk, and the row widths of A, X and R(X) in shared memory. */
constexpr uint32_t SB_CHUNK_ROWS = 64, SB_CHUNK_THREADS = 128, SB_CHUNK_WARPS = 4;
constexpr uint32_t SB_CHUNK_OF_A = 66, SB_CHUNK_OF_X = 80, SB_CHUNK_OF_R = 72;
/* Tiles of 16 rows in a chunk; tiles of P on and below the diagonal. */
constexpr uint32_t SB_CHUNK_TILES = 4, SB_CHUNK_OF_P = 10;

/* A call. Arrays that the first kernel passes to the second are padded to whole chunks for each
 * head. Y-98: "in fragments of 16 x 16 bfloat16, 16 bytes of each lane" */
template <class T> struct sb_chunk_job {
    sb_delta_job<T> call;      /* its trail is not read */
    float scale;               /* RN(dk^-1/2) */
    sb_global<float2> factors; /* (v_heads, chunks, 64): exp(G_i), exp(RN(G_last - G_i)) */
    sb_global<uint4> u, w, p;  /* (v_heads, chunks, ...): U, W, P; in the order of Y-98 */
    sb_global<uint4> q, k;     /* (k_heads, chunks, ...): queries and transposed keys of one
                                * piece */
    uint32_t chunks;
    uint32_t columns, keys; /* dv and dk, rounded up to multiples of 32 and 16 */
    bool pairs; /* dk and dv are even, and pairs of elements of q, k and out are aligned */
};
template <class T> struct alignas(2 * sizeof(T)) sb_chunk_pair {
    T x, y;
};

/* Queries or keys of one head for the rows of one chunk, padded with zeros. */
struct sb_chunk_rows {
    sb_global<const float> first;
    uint32_t stride, rows, dk;
    bool pairs;

    SB_ATOM_FN bool there(uint32_t row) const
    {
        return row < rows || SB_PLANT(chunk_padding);
    }
    SB_ATOM_FN sb_global<const float> place(uint32_t row, uint32_t column) const
    {
        return first + (static_cast<size_t>(row) * stride + column);
    }
    SB_ATOM_FN float at(uint32_t row, uint32_t column) const
    {
        if (!there(row) || column >= dk)
            return 0.0f;
        return *place(row, column);
    }
    /* Loads the elements of the lane's four words of a fragment, two each. The fragment starts at
     * this row and column. */
    SB_ATOM_FN void bring(float2 (&to)[4], uint32_t row, uint32_t column) const
    {
        const uint32_t lane = threadIdx.x % 32, c = column + 2 * (lane % 4);
        SB_UNROLL
        for (uint32_t r = 0; r < 4; r++)
            to[r] = make_float2(0.0f, 0.0f);
        SB_UNROLL
        for (uint32_t r = 0; r < 4 && pairs; r++)
            if (there(row + lane / 4 + 8 * (r % 2)) && c + 8 * (r / 2) < dk)
                to[r] =
                    *sb_cast<const float2>(place(row + lane / 4 + 8 * (r % 2), c + 8 * (r / 2)));
        SB_UNROLL
        for (uint32_t r = 0; r < 4 && !pairs; r++) {
            to[r].x = at(row + lane / 4 + 8 * (r % 2), c + 8 * (r / 2));
            to[r].y = at(row + lane / 4 + 8 * (r % 2), c + 8 * (r / 2) + 1);
        }
    }
};

/* One chunk of one value head: its first row and number of rows. `place` is its index among the
 * chunks of all value heads, `of_keys` the index of its keys among the chunks of all key heads.
 * `leads`: the head is the first value head with these keys. */
struct sb_chunk_place {
    size_t first, place, of_keys;
    uint32_t head, key_head, rows;
    bool leads;
};
template <class T>
SB_KERNEL_FN sb_chunk_place sb_chunk_at(const sb_chunk_job<T> &job, uint32_t chunk, uint32_t head)
{
    const uint32_t left = job.call.rows - chunk * SB_CHUNK_ROWS;
    const uint32_t each = job.call.v_heads / job.call.k_heads;
    return {static_cast<size_t>(chunk) * SB_CHUNK_ROWS,
            static_cast<size_t>(head) * job.chunks + chunk,
            static_cast<size_t>(head / each) * job.chunks + chunk,
            head,
            head / each,
            left < SB_CHUNK_ROWS ? left : SB_CHUNK_ROWS,
            head % each == 0};
}
template <class T>
SB_KERNEL_FN sb_chunk_rows sb_chunk_take(const sb_chunk_job<T> &job, const sb_chunk_place &at,
                                         sb_global<const float> x)
{
    const uint32_t stride = job.call.k_heads * job.call.dk;
    return {x + (at.first * stride + at.key_head * job.call.dk), stride, at.rows, job.call.dk,
            job.pairs};
}

/* Writes this lane's words of a fragment. Word r of lane l holds two neighbours of row l / 4 + 8 (r
 * % 2), the first in column 2 (l % 4) + 8 (r / 2), as in the first operand of the atom. */
SB_KERNEL_FN void sb_chunk_put(sb_global<uint4> to, size_t fragment, const uint32_t (&words)[4])
{
    to[fragment * 32 + threadIdx.x % 32] = make_uint4(words[0], words[1], words[2], words[3]);
}

/* --- products of numbers in pieces ------------------------------------------------------------ */
/* Splits the two neighbours of register r of a fragment into N pieces each, the largest first. */
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

/* Adds the product of the largest pieces to sum[0], and all other products to sum[1]. */
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
struct sb_chunk_shared {
    sb_shared<float> sums, beta, grown; /* (64): G, beta, exp(G) */
    sb_shared<float> A, X;              /* (64, OF_A), (64, OF_X) */
    sb_shared<uint16_t> inverse;        /* (64, OF_R): R(X) */
    sb_shared<uint4> stage;             /* (2, N, 4, 32) fragments of keys, in the memory of X */
};

/* R-10: "G_i = sum of g_0..g_i"; missing rows have g = 0 and beta = 0. Also writes the factors of
 * the state and of the rows, which depend only on G. */
template <class T>
SB_KERNEL_FN void sb_chunk_gates(const sb_chunk_job<T> &job, const sb_chunk_place &at,
                                 const sb_chunk_shared &room)
{
    const uint32_t row = threadIdx.x;
    const bool mine = row < SB_CHUNK_ROWS, there = row < at.rows;
    const size_t gate = (at.first + row) * job.call.v_heads + at.head;
    const sb_shared<float> g = room.A;
    if (mine) {
        g[row] = there ? job.call.g[gate] : 0.0f;
        room.beta[row] = there ? job.call.beta[gate] : 0.0f;
    }
    __syncthreads();
    if (mine) {
        float sum = 0.0f;
        for (uint32_t i = 0; i <= row; i++)
            sum = __fadd_rn(sum, g[i]);
        room.sums[row] = sum;
    }
    __syncthreads();
    if (mine) {
        const float sum = room.sums[row], last = room.sums[SB_CHUNK_ROWS - 1];
        const float grown = sb_gpu_exp(sum), shrunk = sb_gpu_exp(__fsub_rn(last, sum));
        room.grown[row] = grown;
        job.factors[at.place * SB_CHUNK_ROWS + row] = make_float2(grown, shrunk);
    }
}

/* R-10: "A_ij = RN( dot(kb_i, k_j) D_ij ) for i > j", R-22: "P_ij = R( RN( dot(q_i, k_j) D_ij ) )
 * for j <= i", for tile n of the warp's rows; zeros elsewhere. */
SB_KERNEL_FN void sb_chunk_weigh(const sb_chunk_shared &room, uint32_t n, const float (&a)[2][4],
                                 const float (&p)[2][4], sb_global<uint4> to)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t words[4];
    SB_UNROLL
    for (uint32_t r = 0; r < 4; r++) {
        const uint32_t tile = r / 2, half = r % 2;
        const uint32_t row = 16 * warp + lane / 4 + 8 * half;
        const uint32_t j = 16 * n + 8 * tile + 2 * (lane % 4);
        const float of_row = room.sums[row];
        float score[2] = {0.0f, 0.0f};
        SB_UNROLL
        for (uint32_t i = 0; i < 2; i++) {
            float below = 0.0f;
            if (j + i <= row) {
                const float decay = sb_gpu_exp(__fsub_rn(of_row, room.sums[j + i]));
                score[i] = __fmul_rn(p[tile][2 * half + i], decay);
                below = __fmul_rn(a[tile][2 * half + i], decay);
            }
            room.A[row * SB_CHUNK_OF_A + j + i] = j + i < row ? below : 0.0f;
            score[i] = j + i == row && SB_PLANT(chunk_diagonal) ? 0.0f : score[i];
        }
        words[r] = sb_cvt_bf16x2_f32(score[0], score[1]);
    }
    sb_chunk_put(to, warp * (warp + 1) / 2 + n, words);
}

/* sb_chunk_weigh for all tiles of a warp's rows. The loop always uses tile 0 of the arrays and then
 * moves the other tiles down by one, so that it need not be unrolled. */
SB_KERNEL_FN void sb_chunk_scores(const sb_chunk_shared &room,
                                  const float (&a)[SB_CHUNK_TILES][2][2][4],
                                  const float (&p)[SB_CHUNK_TILES][2][2][4], sb_global<uint4> to)
{
    float of_a[SB_CHUNK_TILES][2][4], of_p[SB_CHUNK_TILES][2][4];
    SB_UNROLL
    for (uint32_t n = 0; n < SB_CHUNK_TILES; n++)
        SB_UNROLL
    for (uint32_t i = 0; i < 8; i++) {
        of_a[n][i / 4][i % 4] = sb_chunk_sum(a[n][i / 4], i % 4);
        of_p[n][i / 4][i % 4] = sb_chunk_sum(p[n][i / 4], i % 4);
    }
    for (uint32_t n = 0; n <= threadIdx.x / 32; n++) {
        sb_chunk_weigh(room, n, of_a[0], of_p[0], to);
        SB_UNROLL
        for (uint32_t i = 0; i < 8 * (SB_CHUNK_TILES - 1); i++) {
            of_a[i / 8][i / 4 % 2][i % 4] = of_a[i / 8 + 1][i / 4 % 2][i % 4];
            of_p[i / 8][i / 4 % 2][i % 4] = of_p[i / 8 + 1][i / 4 % 2][i % 4];
        }
    }
}

/* Computes A and P. A warp computes 16 rows, for the column tiles up to the diagonal. It loads the
 * queries and keys of its rows, and shares the fragments of keys with all warps. A fragment of 16
 * keys for the first operand has the same words as two fragments for the second operand. */
template <int N>
SB_KERNEL_FN void sb_chunk_products(uint32_t keys, const sb_chunk_rows &q, const sb_chunk_rows &k,
                                    const sb_chunk_shared &room, sb_global<uint4> to,
                                    sb_global<uint4> queries, bool leads)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, steps = keys / 16;
    float a[SB_CHUNK_TILES][2][2][4] = {}, p[SB_CHUNK_TILES][2][2][4] = {};
    float2 of_key[4], of_query[4];
    k.bring(of_key, 16 * warp, 0);
    q.bring(of_query, 16 * warp, 0);
    for (uint32_t step = 0; step < steps; step++) {
        const sb_shared<uint4> stage = room.stage + (step % 2 * N * SB_CHUNK_TILES * 32 + lane);
        uint32_t left[3][4], query[N][4], own[N][4];
        SB_UNROLL
        for (uint32_t r = 0; r < 4; r++) {
            const float beta = room.beta[16 * warp + lane / 4 + 8 * (r % 2)];
            sb_chunk_split(own, r, of_key[r].x, of_key[r].y);
            /* R-10: "kb_i = RN(beta_i k_i)" */
            sb_chunk_split(left, r, __fmul_rn(beta, of_key[r].x), __fmul_rn(beta, of_key[r].y));
            sb_chunk_split(query, r, of_query[r].x, of_query[r].y);
        }
        SB_UNROLL
        for (uint32_t i = 0; i < N; i++)
            stage[(i * SB_CHUNK_TILES + warp) * 32] =
                make_uint4(own[i][0], own[i][1], own[i][2], own[i][3]);
        if (N == 1 && leads)
            sb_chunk_put(queries, warp * steps + step, query[0]);
        if (!SB_PLANT(chunk_barrier5))
            __syncthreads();
        if (step + 1 < steps) { /* in flight during the products below */
            k.bring(of_key, 16 * warp, 16 * step + 16);
            q.bring(of_query, 16 * warp, 16 * step + 16);
        }
        SB_UNROLL
        for (uint32_t n = 0; n < SB_CHUNK_TILES; n++) {
            if (n > warp)
                continue;
            uint32_t key[2][N][2];
            SB_UNROLL
            for (uint32_t i = 0; i < N; i++) {
                const uint4 words = stage[(i * SB_CHUNK_TILES + n) * 32];
                key[0][i][0] = words.x, key[0][i][1] = words.z;
                key[1][i][0] = words.y, key[1][i][1] = words.w;
            }
            SB_UNROLL
            for (uint32_t tile = 0; tile < 2; tile++) {
                sb_chunk_mma(a[n][tile], left, key[tile]);
                sb_chunk_mma(p[n][tile], query, key[tile]);
            }
        }
    }
    sb_chunk_scores(room, a, p, to);
}

/* R-22: "row by row X_i = dot of (1, -A_i0, .., -A_i,i-1) with (e_i, X_0, .., X_i-1), the inverse,
 * and all of it is rounded with R". Two lanes share a column, one for even rows and one for odd
 * rows; no other thread reads this column. The tiles above the diagonal are never read. */
SB_KERNEL_FN void sb_chunk_invert(const sb_chunk_shared &room)
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

/* The right operand of a product with the inverse. `at` returns an element in memory; `made`
 * returns the operand before R. R-22: "vb_i = R(beta_i v_i)" */
template <class T> struct sb_chunk_values {
    sb_global<const T> first;
    uint32_t stride, rows, dv;
    SB_ATOM_FN float at(uint32_t row, uint32_t column) const
    {
        if (row >= rows || column >= dv)
            return 0.0f;
        return sb_wide(static_cast<T>(first[static_cast<size_t>(row) * stride + column]));
    }
    SB_ATOM_FN float made(const sb_chunk_shared &room, uint32_t row, float v) const
    {
        return __fmul_rn(room.beta[row], v);
    }
    SB_ATOM_FN void keep(uint32_t, const float (&)[2][2][2]) const
    {
    }
};
/* R-22: "kg_i = R( RN(kb_i exp(G_i)) )"; `keep` stores transposed keys if they are one piece. */
struct sb_chunk_keys {
    sb_chunk_rows k;
    sb_global<uint4> turned;
    bool keeps;
    SB_ATOM_FN float at(uint32_t row, uint32_t column) const
    {
        return k.at(row, column);
    }
    SB_ATOM_FN float made(const sb_chunk_shared &room, uint32_t row, float x) const
    {
        return __fmul_rn(__fmul_rn(room.beta[row], x), room.grown[row]);
    }
    SB_ATOM_FN void keep(uint32_t fragment, const float (&x)[2][2][2]) const
    {
        uint32_t words[4];
        SB_UNROLL
        for (uint32_t r = 0; r < 4; r++) {
            const float(&two)[2] = x[r % 2][SB_PLANT(chunk_kept) ? 0 : r / 2];
            words[r] = sb_cvt_bf16x2_f32(two[0], two[1]);
        }
        if (keeps)
            sb_chunk_put(turned, fragment, words);
    }
};

/* R-22: "U_i = R( dot over j <= i of X_ij with vb_j ) and W_i = R( dot over j <= i of X_ij with
 * kg_j )". A warp computes all rows of every fourth group of 16 columns. Fragments of neighbouring
 * row tiles are `rows` apart; fragments of neighbouring column groups are `groups` apart. */
template <class SIDE>
SB_KERNEL_FN void sb_chunk_solve(const sb_chunk_shared &room, const SIDE &side, uint32_t columns,
                                 sb_global<uint4> to, uint32_t rows, uint32_t groups)
{
    const uint32_t lane = threadIdx.x % 32;
    const sb_shared<const uint16_t> x = room.inverse + (lane % 16 * SB_CHUNK_OF_R + lane / 16 * 8);
    for (uint32_t n = threadIdx.x / 32; n < columns / 16; n += SB_CHUNK_WARPS) {
        float sum[2][SB_CHUNK_TILES][4] = {};
        SB_UNROLL
        for (uint32_t step = 0; step < SB_CHUNK_TILES; step++) {
            const uint32_t swap = SB_PLANT(chunk_lanes) ? 8 : 0;
            float two[2][2][2]; /* (tile of columns, register) */
            uint32_t b[2][2];
            SB_UNROLL
            for (uint32_t i = 0; i < 4; i++) {
                const uint32_t tile = i / 2, r = i % 2;
                const uint32_t row = 16 * step + 2 * (lane % 4) + ((8 * r) ^ swap);
                const uint32_t column = 16 * n + 8 * tile + lane / 4;
                two[tile][r][0] = side.at(row, column);
                two[tile][r][1] = side.at(row + 1, column);
                b[tile][r] = sb_cvt_bf16x2_f32(side.made(room, row, two[tile][r][0]),
                                               side.made(room, row + 1, two[tile][r][1]));
            }
            side.keep(n * SB_CHUNK_TILES + step, two);
            SB_UNROLL
            for (uint32_t m = step; m < SB_CHUNK_TILES; m++) {
                uint32_t a[4];
                sb_ldmatrix<4>(a, sb_cast<const uint4>(x + (16 * m * SB_CHUNK_OF_R + 16 * step)));
                sb_mma_bf16(sum[0][m], a, b[0]);
                sb_mma_bf16(sum[1][m], a, b[1]);
            }
        }
        SB_UNROLL
        for (uint32_t m = 0; m < SB_CHUNK_TILES; m++) {
            uint32_t words[4];
            SB_UNROLL
            for (uint32_t r = 0; r < 4; r++) {
                const uint32_t i = r % 2 * 2;
                words[r] = sb_cvt_bf16x2_f32(sum[r / 2][m][i], sum[r / 2][m][i + 1]);
            }
            sb_chunk_put(to, m * rows + n * groups, words);
        }
    }
}

/* grid: (chunks, value heads). */
template <class T, int N>
static __global__ void __launch_bounds__(SB_CHUNK_THREADS, N == 1 ? 3 : 2)
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
    static_assert(2 * N * SB_CHUNK_TILES * 32 * sizeof(uint4) <= 4 * SB_CHUNK_ROWS * SB_CHUNK_OF_X,
                  "fragments of keys lie where X will be");
    const sb_chunk_shared room = {
        sums, beta, grown, A, X, inverse, sb_cast<uint4>(sb_shared<float>(X))};
    const sb_delta_job<T> &call = job.call;
    const sb_chunk_place at = sb_chunk_at(job, blockIdx.x, blockIdx.y);
    const sb_chunk_rows k = sb_chunk_take(job, at, call.k);
    const uint32_t steps = job.keys / 16, groups = job.columns / 16;
    const size_t of_keys = at.of_keys * steps * SB_CHUNK_TILES * 32;
    sb_chunk_gates(job, at, room);
    sb_chunk_products<N>(job.keys, sb_chunk_take(job, at, call.q), k, room,
                         job.p + at.place * SB_CHUNK_OF_P * 32, job.q + of_keys, at.leads);
    if (!SB_PLANT(chunk_barrier))
        __syncthreads();
    sb_chunk_invert(room);
    if (!SB_PLANT(chunk_barrier2))
        __syncthreads();
    const sb_chunk_values<T> values = {call.v + (at.first * call.v_stride + at.head * call.dv),
                                       call.v_stride, at.rows, call.dv};
    sb_chunk_solve(room, values, job.columns, job.u + at.place * groups * SB_CHUNK_TILES * 32, 1,
                   SB_CHUNK_TILES);
    sb_chunk_solve(room, sb_chunk_keys{k, job.k + of_keys, N == 1 && at.leads}, job.keys,
                   job.w + at.place * steps * SB_CHUNK_TILES * 32, steps, 1);
}

#endif
