/* harmless.c - other ways to compute the same results, as in engines: split sums, pages of a cache
 * in any order, a softmax over the kept experts. Each has its own rounding errors; none is a
 * mistake. */
#include "tools/judge/fault/mistakes.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/fast/fast.h"
#include "ref/formats/plain_row.h"
#include "ref/math/fn.h"

/* --- sums of products ------------------------------------------------------------------------- */

/* Sums the columns in `parts` pieces; adds the last piece first. */
static float split_dot(const float *w, const float *x, size_t n, size_t parts)
{
    float total = 0.0f;
    for (size_t p = parts; p-- > 0;) {
        float sum = 0.0f;
        for (size_t i = n * p / parts; i < n * (p + 1) / parts; i++)
            sum += w[i] * x[i];
        total += sum;
    }
    return total;
}

sb_status sb_mistake_linear_split_k(const sb_knobs *knobs, const sb_linear_args *a)
{
    enum { PARTS = 4 };
    size_t k = a->weight->cols, n = a->weight->rows;
    float *row = sb_alloc(k, sizeof *row);
    for (uint32_t i = 0; row && i < n; i++) {
        sb_matrix_row(a->weight, i, row);
        for (size_t t = 0; t < a->rows; t++)
            a->out[t * n + i] = sb_act(knobs, split_dot(row, a->in + t * k, k, PARTS));
    }
    free(row);
    return row ? SB_OK : SB_ERR_MEMORY;
}

/* --- attention over pieces of a cache --------------------------------------------------------- */

/* A softmax over some keys, before the division. */
typedef struct piece {
    float top, sum, *out; /* out (hd) */
} piece;

static float score_of(const sb_attention_args *a, const float *q, const float *key, float scale)
{
    float dot = 0.0f;
    for (size_t i = 0; i < a->hd; i++)
        dot += q[i] * key[i];
    return (a->key_scale == 0.0f ? dot : dot * a->key_scale) * scale;
}

/* Adds a key. */
static void see(piece *p, float score, const float *value, size_t hd)
{
    float top = p->sum > 0.0f && p->top > score ? p->top : score;
    float old = p->sum > 0.0f ? sb_exp(p->top - top) : 0.0f, now = sb_exp(score - top);
    for (size_t i = 0; i < hd; i++)
        p->out[i] = p->out[i] * old + now * value[i];
    p->sum = p->sum * old + now;
    p->top = top;
}

/* Attention over keys [0, n) of a head in pages of `page` keys, the last page first. */
static void attend(const sb_attention_args *a, const float *q, size_t kv, size_t n, size_t page,
                   piece *p)
{
    float scale = sb_root_power((double)a->hd, -1, 2);
    size_t row = a->kv_heads * a->hd;
    p->sum = 0.0f;
    memset(p->out, 0, a->hd * sizeof *p->out);
    for (size_t end = n, first; end > 0; end = first) {
        first = (end - 1) / page * page;
        for (size_t u = first; u < end; u++)
            see(p, score_of(a, q, a->keys + u * row + kv, scale), a->values + u * row + kv, a->hd);
    }
}

static sb_status paged(const sb_knobs *knobs, const sb_attention_args *a, size_t page)
{
    piece p = {.out = sb_alloc(a->hd, sizeof *p.out)};
    for (size_t t = 0; p.out && t < a->rows; t++)
        for (size_t j = 0; j < a->heads; j++) {
            size_t at = (t * a->heads + j) * a->hd;
            attend(a, a->q + at, j / (a->heads / a->kv_heads) * a->hd, a->first + t + 1, page, &p);
            for (size_t i = 0; i < a->hd; i++) {
                float sum = a->value_scale == 0.0f ? p.out[i] : p.out[i] * a->value_scale;
                a->out[at + i] = sb_act(knobs, sum / p.sum);
            }
        }
    free(p.out);
    return p.out ? SB_OK : SB_ERR_MEMORY;
}

sb_status sb_mistake_attention_pages(const sb_knobs *knobs, const sb_attention_args *a)
{
    return paged(knobs, a, 4);
}

sb_status sb_mistake_attention_online(const sb_knobs *knobs, const sb_attention_args *a)
{
    return paged(knobs, a, SIZE_MAX / 2);
}

/* --- experts ---------------------------------------------------------------------------------- */

/* Finds the kept experts first, then takes the softmax over them. */
sb_status sb_mistake_router_kept_first(const sb_knobs *knobs, const sb_router_args *a)
{
    sb_status status = sb_router_fast(knobs, a);
    for (size_t t = 0; t < a->rows && !status && a->renormalise; t++) {
        const float *logits = a->logits + t * a->experts;
        const uint32_t *ids = a->ids + t * a->kept;
        float *weights = a->weights + t * a->kept, sum = 0.0f;
        for (size_t i = 0; i < a->kept; i++)
            sum += weights[i] = sb_exp(logits[ids[i]] - logits[ids[0]]);
        for (size_t i = 0; i < a->kept; i++)
            weights[i] /= sum;
    }
    return status;
}

/* Adds the shared expert first, then the others from the last slot to the first. */
sb_status sb_mistake_combine_shared_first(const sb_knobs *knobs, const sb_moe_combine_args *a)
{
    float open = sb_sigmoid(a->shared_logit);
    for (size_t j = 0; j < a->n; j++) {
        float sum = open * a->shared_out[j];
        for (size_t i = a->kept; i-- > 0;)
            sum += a->weights[i] * a->expert_out[i * a->n + j];
        a->out[j] = sb_act(knobs, sum);
    }
    return SB_OK;
}

sb_status sb_mistake_swiglu_product_first(const sb_knobs *knobs, const sb_swiglu_args *a)
{
    for (size_t i = 0; i < a->count; i++)
        a->out[i] = sb_act(knobs, a->gate[i] * a->up[i] * sb_sigmoid(a->gate[i]));
    return SB_OK;
}

/* --- linear attention ------------------------------------------------------------------------- */

static float dot(const float *x, const float *y, size_t stride, size_t n)
{
    float sum = 0.0f;
    for (size_t i = 0; i < n; i++)
        sum += x[i] * y[i * stride];
    return sum;
}

/* One column of a head. Its output is read from the state before this row, plus q.k times the
 * correction. */
static float column(const float *q, const float *k, float v, float decay, float beta, float *state,
                    size_t dv, size_t dk)
{
    float correction = (v - decay * dot(k, state, dv, dk)) * beta;
    float out = decay * dot(q, state, dv, dk) + dot(q, k, 1, dk) * correction;
    for (size_t i = 0; i < dk; i++)
        state[i * dv] = decay * state[i * dv] + k[i] * correction;
    return out;
}

sb_status sb_mistake_delta_from_before(const sb_knobs *knobs, const sb_delta_rule_args *a)
{
    size_t size = a->dk * a->dv;
    for (size_t t = 0; t < a->rows; t++) {
        for (size_t h = 0; h < a->v_heads; h++) {
            size_t at = t * a->v_heads + h;
            size_t key = (t * a->k_heads + h / (a->v_heads / a->k_heads)) * a->dk;
            for (size_t j = 0; j < a->dv; j++)
                a->out[at * a->dv + j] =
                    sb_act(knobs, column(a->q + key, a->k + key,
                                         a->v[t * a->v_stride + h * a->dv + j], sb_exp(a->g[at]),
                                         a->beta[at], a->state + h * size + j, a->dv, a->dk));
        }
        if (a->trail)
            memcpy(a->trail + t * a->v_heads * size, a->state,
                   a->v_heads * size * sizeof *a->state);
    }
    return SB_OK;
}
