/* mistakes.c - recipe `mistakes`: weights for which a mistake in the model changes its results.
 *
 * G-2: "every projection at a scale of its own". The spread of norm weights, A_log and dt_bias come
 * from rules.def. This file adds:
 *
 *   a factor of its own, between 0.7 and 1.4, for every projection and the embedding;
 *   a query head near zero in the first linear layer, a key head near zero in the second, and a
 *   query head exactly zero in the last, whose convolution then gives exactly zero;
 *   in the last trunk layer but one, equal router rows in pairs among the first half of the experts
 *   (exact ties); in every other layer, the MTP layer too, the last two rows are close;
 *   in q_proj gate rows (if there are any) of twice the scale of the query rows;
 *   in mtp.fc an embedding half of three times the scale of the hidden half;
 *   a final norm around 1.5, so that the vectors before and after it differ. */
#include "ref/base/rng.h"
#include "ref/math/fn.h"
#include "tools/make/fill.h"

#define NEAR_ZERO 2e-4f /* times the usual scale: the squares of a head sum to about 1e-6 */
#define CLOSE 0x1p-7f   /* times the usual scale: the difference of close router rows */

void sb_make_prepare_mistakes(const sb_maker *maker, sb_make_matrix *m)
{
    /* an index far beyond those of elements */
    float own = 0.7f + 0.7f * sb_rng_uniform(m->key, UINT64_C(1) << 62);
    if (m->kind == SB_MAKE_linear || m->kind == SB_MAKE_lookup)
        m->spread *= own;
    if (m->role == SB_ROLE_final_norm)
        m->mean = 1.5f;
    if (m->role == SB_ROLE_embed_tokens && maker->config->tie_embeddings)
        m->spread *= 1.6f * sb_rsqrt((float)m->cols); /* the rows are also the head */
}

/* The number of linear layers before a layer and after it. */
static void linear_place(const sb_config *c, uint32_t layer, uint32_t *before, uint32_t *behind)
{
    *before = 0;
    *behind = 0;
    for (uint32_t i = 0; i < c->layers; i++) {
        *before += i < layer && !c->layer_is_full[i];
        *behind += i > layer && !c->layer_is_full[i];
    }
}

static float head_scale(const sb_config *c, const sb_make_matrix *m, uint64_t row)
{
    uint32_t before, behind;
    linear_place(c, m->layer, &before, &behind);
    uint64_t head = row / c->lin_k_dim; /* query heads, then key heads */
    uint64_t last_key = 2 * c->lin_k_heads - 1;
    if (before == 0 && head == 0)
        return NEAR_ZERO;
    if (before == 1 && head == last_key)
        return NEAR_ZERO;
    if (behind == 0 && head == c->lin_k_heads - 1)
        return 0.0f;
    return 1.0f;
}

static void router_row(const sb_maker *maker, const sb_make_matrix *m, uint64_t row, uint64_t col,
                       size_t n, float *out)
{
    uint32_t layers = maker->config->layers;
    int ties = m->layer == (layers > 1 ? layers - 2 : 0);
    uint64_t paired = m->rows / 4 * 2;
    if (ties && row < paired)
        row -= row % 2;
    int close = !ties && m->rows > 1 && row == m->rows - 1;
    sb_make_usual(m, close ? row - 1 : row, col, n, out);
    for (size_t i = 0; close && i < n; i++)
        out[i] += CLOSE * m->spread * sb_rng_normal(m->key, row * m->cols + col + i);
}

static void scale(float *out, size_t n, float by)
{
    for (size_t i = 0; i < n; i++)
        out[i] *= by;
}

void sb_make_row_mistakes(const sb_maker *maker, const sb_make_matrix *m, uint64_t row,
                          uint64_t col, size_t n, float *out)
{
    const sb_config *c = maker->config;
    if (m->role == SB_ROLE_router) {
        router_row(maker, m, row, col, n, out);
        return;
    }
    sb_make_usual(m, row, col, n, out);
    if (m->role == SB_ROLE_in_proj_qkv)
        scale(out, n, head_scale(c, m, row));
    if (m->role == SB_ROLE_q_proj && row % sb_config_query_rows(c) >= c->head_dim)
        scale(out, n, 2.0f);
    for (size_t i = 0; m->role == SB_ROLE_mtp_fc && i < n; i++)
        out[i] *= col + i < c->hidden_size ? 1.5f : 0.5f;
}
