/* chunk_model.h - R-22 in the summation order of the kernels, for tests: whole matrices, one head
 * and one chunk after the other. A product is a chain of the atom's host body over 16 terms at a
 * time. If an operand is split into pieces, a second chain sums all products but the largest. */
#ifndef SB_TESTS_GPU_CHUNK_MODEL_H
#define SB_TESTS_GPU_CHUNK_MODEL_H

#include "gpu/atom/host/warp.h"
#include "gpu/cuda.h"
#include "gpu/math/exp.h"
#include "gpu/math/rsqrt.h"
#include "ref/formats/format.h"
#include "tests/gpu/delta_call.h"

struct chunk_matrix {
    float x[128][128];
};

static inline float model_round(float x)
{
    return sb_round_to(SB_FORMAT_bf16, x);
}

/* Piece n of x, the largest first, as the bits of a bfloat16. */
static inline uint32_t model_piece(float x, int n)
{
    for (; n > 0; n--)
        x = __fsub_rn(x, model_round(x));
    return sb_gpu_bits(model_round(x)) >> 16;
}

/* The form of a product: its size and the pieces of its operands. If the left operand is zero above
 * the tiles of its diagonal, these tiles are skipped. */
struct model_size {
    size_t rows, columns, terms;
    int left, right;
    bool lower;
};

static inline void model_tile(const chunk_matrix &a, const chunk_matrix &b, const model_size &s,
                              size_t row, size_t column, chunk_matrix *to)
{
    float d[2][32][4] = {};
    for (size_t k = 0; k < s.terms && (!s.lower || k <= row); k += 16)
        for (int i = 0; i < s.left; i++)
            for (int j = 0; j < s.right; j++) {
                uint32_t left[32][4], right[32][2];
                for (size_t lane = 0; lane < 32; lane++) {
                    const size_t g = lane / 4, t = k + 2 * (lane % 4);
                    for (size_t r = 0; r < 4; r++) {
                        const float *at = &a.x[row + g + 8 * (r % 2)][t + 8 * (r / 2)];
                        left[lane][r] = model_piece(at[0], i) | model_piece(at[1], i) << 16;
                    }
                    for (size_t r = 0; r < 2; r++)
                        right[lane][r] = model_piece(b.x[t + 8 * r][column + g], j) |
                                         model_piece(b.x[t + 8 * r + 1][column + g], j) << 16;
                }
                sb_warp_mma_bf16(left, right, d[i + j > 0]);
            }
    for (size_t lane = 0; lane < 32; lane++)
        for (size_t i = 0; i < 4; i++)
            to->x[row + lane / 4 + 8 * (i / 2)][column + 2 * (lane % 4) + i % 2] =
                __fadd_rn(d[0][lane][i], d[1][lane][i]);
}

static inline void model_product(const chunk_matrix &a, const chunk_matrix &b, const model_size &s,
                                 chunk_matrix *to)
{
    for (size_t row = 0; row < s.rows; row += 16)
        for (size_t column = 0; column < s.columns; column += 8)
            model_tile(a, b, s, row, column, to);
}

/* The state of one head, and the data of one chunk. Elements behind the last one are zeros. */
struct chunk_model {
    chunk_matrix S, q, k, turned, v, A, P, X, U, W, V, late, before, within, more;
    float G[64], beta[64], scale;
    size_t K, N; /* dk and dv, padded */
    int pieces;

    void bring(const sb_delta_rule_args &a, size_t head, size_t first)
    {
        const size_t key_head = head / (a.v_heads / a.k_heads);
        float sum = 0.0f;
        q = k = turned = v = chunk_matrix();
        for (size_t i = 0; i < 64; i++) {
            const size_t row = first + i, keys = (row * a.k_heads + key_head) * a.dk;
            const bool there = row < a.rows;
            sum = __fadd_rn(sum, there ? a.g[row * a.v_heads + head] : 0.0f);
            G[i] = sum;
            beta[i] = there ? a.beta[row * a.v_heads + head] : 0.0f;
            for (size_t c = 0; there && c < a.dk; c++) {
                q.x[i][c] = a.q[keys + c];
                k.x[i][c] = turned.x[c][i] = a.k[keys + c];
            }
            for (size_t c = 0; there && c < a.dv; c++)
                v.x[i][c] = a.v[row * a.v_stride + head * a.dv + c];
        }
    }

    /* A and P, and the inverse, whose sums over even and odd rows are added at the end. */
    void weigh()
    {
        chunk_matrix kb = k;
        for (size_t i = 0; i < 64; i++)
            for (size_t c = 0; c < K; c++)
                kb.x[i][c] = __fmul_rn(beta[i], k.x[i][c]);
        model_product(kb, turned, {64, 64, K, 3, pieces, false}, &A);
        model_product(q, turned, {64, 64, K, pieces, pieces, false}, &P);
        for (size_t i = 0; i < 64; i++)
            for (size_t j = 0; j < 64; j++) {
                const float decay = j <= i ? sb_gpu_exp(__fsub_rn(G[i], G[j])) : 0.0f;
                A.x[i][j] = j < i ? __fmul_rn(A.x[i][j], decay) : 0.0f;
                P.x[i][j] = j <= i ? model_round(__fmul_rn(P.x[i][j], decay)) : 0.0f;
            }
        X = chunk_matrix();
        for (size_t c = 0; c < 64; c++)
            for (size_t first = c / 16 * 16, i = first; i < 64; i++) {
                float sum[2] = {0.0f, 0.0f};
                for (size_t j = first; j < i; j++)
                    sum[j % 2] = __fmaf_rn(A.x[i][j], X.x[j][c], sum[j % 2]);
                X.x[i][c] = __fsub_rn(i == c ? 1.0f : 0.0f, __fadd_rn(sum[0], sum[1]));
            }
        for (auto &row : X.x)
            for (float &x : row)
                x = model_round(x);
    }

    /* U, W and V from the state as it is read, and the part of V that the state takes. */
    void solve(chunk_matrix *read)
    {
        chunk_matrix vb = v, kg = k;
        for (size_t i = 0; i < 64; i++)
            for (size_t c = 0; c < 128; c++) {
                const float kb = __fmul_rn(beta[i], k.x[i][c]);
                vb.x[i][c] = model_round(__fmul_rn(beta[i], v.x[i][c]));
                kg.x[i][c] = model_round(__fmul_rn(kb, sb_gpu_exp(G[i])));
            }
        model_product(X, vb, {64, N, 64, 1, 1, true}, &U);
        model_product(X, kg, {64, K, 64, 1, 1, true}, &W);
        for (size_t i = 0; i < K; i++)
            for (size_t c = 0; c < N; c++)
                read->x[i][c] = model_round(S.x[i][c]);
        for (size_t i = 0; i < 64; i++)
            for (size_t c = 0; c < K; c++)
                W.x[i][c] = model_round(W.x[i][c]);
        model_product(W, *read, {64, N, K, 1, 1, false}, &V);
        for (size_t i = 0; i < 64; i++)
            for (size_t c = 0; c < N; c++) {
                const float shrunk = sb_gpu_exp(__fsub_rn(G[63], G[i]));
                const float x = __fsub_rn(model_round(U.x[i][c]), V.x[i][c]);
                V.x[i][c] = model_round(x);
                late.x[i][c] = model_round(__fmul_rn(x, shrunk));
            }
    }

    void run(const sb_delta_rule_args &a, size_t head, size_t first, float *out)
    {
        static chunk_matrix read;
        bring(a, head, first);
        weigh();
        solve(&read);
        model_product(q, read, {64, N, K, pieces, 1, false}, &before);
        model_product(P, V, {64, N, 64, 1, 1, true}, &within);
        for (size_t i = 0; i < 64 && first + i < a.rows; i++)
            for (size_t c = 0; c < a.dv; c++) {
                const float x = __fmul_rn(__fmul_rn(before.x[i][c], sb_gpu_exp(G[i])), scale);
                const float y = __fmul_rn(within.x[i][c], scale);
                out[((first + i) * a.v_heads + head) * a.dv + c] = model_round(__fadd_rn(x, y));
            }
        model_product(turned, late, {K, N, 64, pieces, 1, false}, &more);
        for (size_t i = 0; i < K; i++)
            for (size_t c = 0; c < N; c++)
                S.x[i][c] = __fadd_rn(__fmul_rn(S.x[i][c], sb_gpu_exp(G[63])), more.x[i][c]);
    }
};

/* The results of the op for a call. The call's own outputs and state are not changed. */
static inline void chunk_model_run(const sb_delta_rule_args &a, int pieces, float *out,
                                   float *state)
{
    static chunk_model m;
    for (size_t head = 0; head < a.v_heads; head++) {
        m = chunk_model();
        m.K = (a.dk + 15) / 16 * 16;
        m.N = (a.dv + 7) / 8 * 8;
        m.pieces = pieces;
        m.scale = sb_gpu_rsqrt(static_cast<float>(a.dk));
        for (size_t i = 0; i < a.dk; i++)
            memcpy(m.S.x[i], a.state + (head * a.dk + i) * a.dv, a.dv * sizeof(float));
        for (size_t first = 0; first < a.rows; first += 64)
            m.run(a, head, first, out);
        for (size_t i = 0; i < a.dk; i++)
            memcpy(state + (head * a.dk + i) * a.dv, m.S.x[i], a.dv * sizeof(float));
    }
}

#endif
