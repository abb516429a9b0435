/* delta_call.h - calls of the delta rule, for the tests of both of its forms. */
#ifndef SB_TESTS_GPU_DELTA_CALL_H
#define SB_TESTS_GPU_DELTA_CALL_H

#include <math.h>

#include "tests/gpu/gpu_op.h"

struct shape {
    size_t k_heads, v_heads, dk, dv;
};

enum { CALL_ROWS = 130 };

static inline double squares_of(const float *x, size_t count)
{
    double sum = 0.0;
    for (size_t i = 0; i < count; i++)
        sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    return sum;
}

static inline float *keys_of(const char *name, const shape &s, double size)
{
    const size_t vectors = CALL_ROWS * s.k_heads, count = vectors * s.dk;
    float *x = test_copy(test_normal(name, count, 0.0f, 1.0f), count);
    for (size_t row = 0; row < vectors; row++) {
        const double squares = squares_of(x + row * s.dk, s.dk);
        for (size_t i = 0; i < s.dk; i++)
            x[row * s.dk + i] =
                static_cast<float>(static_cast<double>(x[row * s.dk + i]) / sqrt(squares) * size);
    }
    return x;
}

/* A call of the first `rows` of 130 rows, with queries of this length. In memory, the values of a
 * row follow its queries and keys, as in the output of the convolution. */
static inline sb_delta_rule_args call_of(const shape &s, size_t rows, bool trail, double query)
{
    const size_t gates = CALL_ROWS * s.v_heads, state = s.v_heads * s.dk * s.dv;
    sb_delta_rule_args a = {};
    a.q = keys_of("q", s, query);
    a.k = keys_of("k", s, 1.0);
    a.v_stride = s.v_heads * s.dv + 7;
    a.v = bf16_values("v", CALL_ROWS * a.v_stride, 0.0f, 1.0f) + 3;
    float *g = test_copy(test_normal("g", gates, 0.0f, 1.0f), gates);
    float *beta = test_copy(test_normal("beta", gates, 0.0f, 2.0f), gates);
    for (size_t i = 0; i < gates; i++) {
        g[i] = -fabsf(g[i]) * (i % 3 ? 0.01f : 1.0f);
        beta[i] = 1.0f / (1.0f + expf(-beta[i]));
    }
    a.g = g;
    a.beta = beta;
    a.rows = rows;
    a.k_heads = s.k_heads;
    a.v_heads = s.v_heads;
    a.dk = s.dk;
    a.dv = s.dv;
    a.state = test_copy(test_normal("state", state, 0.0f, 0.1f), state);
    a.trail = trail ? test_output(rows * state) : nullptr;
    a.out = test_output(rows * s.v_heads * s.dv);
    return a;
}

/* The rows from `first` on. */
static inline sb_delta_rule_args rest_of(const sb_delta_rule_args &a, size_t first)
{
    sb_delta_rule_args part = a;
    part.q += first * a.k_heads * a.dk;
    part.k += first * a.k_heads * a.dk;
    part.v += first * a.v_stride;
    part.g += first * a.v_heads;
    part.beta += first * a.v_heads;
    if (a.trail)
        part.trail += first * a.v_heads * a.dk * a.dv;
    part.out += first * a.v_heads * a.dv;
    part.rows = a.rows - first;
    return part;
}

#endif
