/* predictable_1.c - recipe `predictable-1`: the first form of `predictable`. llama.cpp's drafts
 * were recorded with it (golden/dumps/llamacpp-T1-mtp).
 *
 * The prediction depends only on mtp.fc and the residual stream. Attention and experts of the MTP
 * head add as much noise as gives some wrong drafts. */
#include "ref/math/fn.h"
#include "tools/make/predictable.h"

enum { OWN_READ, OWN_HIDDEN, AHEAD, TARGET };

#define ATTENTION 0.5f /* noise of attention, in units of sb_make_bearable */

/* The unit of noise is an element of the codes after mtp.fc: about 1.7, or 1.3 if there is a
 * TARGET. */
static void prepare_head(const sb_maker *maker, sb_make_matrix *m)
{
    switch (m->role) {
    case SB_ROLE_o_proj:
        m->spread *= ATTENTION * sb_make_bearable(&maker->codes);
        return;
    case SB_ROLE_expert_down:
    case SB_ROLE_shared_down_proj:
        m->spread *= sb_make_mixture_gain(maker->config);
        break;
    case SB_ROLE_down_proj:
        break;
    default:
        return;
    }
    m->spread *= (maker->config->tie_embeddings ? 1.3f : 1.7f) * sb_make_bearable(&maker->codes);
}

void sb_make_prepare_predictable_1(const sb_maker *maker, sb_make_matrix *m)
{
    if (sb_make_is_of_head(m))
        prepare_head(maker, m);
    else
        sb_make_prepare_predictable(maker, m);
}

/* Tied: removes the parts of the embedding that the head must not read. */
static void norm_row(const sb_make_matrix *m, uint64_t col, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) {
        int kept = (col + i) % 4 == TARGET && col + i != m->cols - 1;
        float keep = kept ? 1.0f : 0.0f;
        out[i] = (keep - 1.0f) + (keep + 0.1f) * out[i];
    }
}

/* mtp.fc: entries that move a code to the parts that the head reads. The entry of the hidden half
 * is larger, because AHEAD is only one of several parts of a hidden vector. */
static void fc_row(const sb_maker *maker, uint64_t row, uint64_t col, size_t n, float *out)
{
    uint32_t parts = maker->config->tie_embeddings ? 4 : 3;
    uint32_t part = (uint32_t)row % parts;
    uint64_t code = row - part; /* the first part of this element of the codes */
    uint64_t hidden = maker->config->hidden_size;
    if (row / parts >= maker->codes.length)
        return;
    for (size_t i = 0; i < n; i++) {
        uint64_t d = col + i;
        if (d == code + OWN_READ && part == (parts == 4 ? TARGET : OWN_READ))
            out[i] += 1.0f;
        if (d == hidden + code + AHEAD && part == (parts == 4 ? TARGET : OWN_HIDDEN))
            out[i] += parts == 4 ? 3.0f : 1.5f;
    }
}

void sb_make_row_predictable_1(const sb_maker *maker, const sb_make_matrix *m, uint64_t row,
                               uint64_t col, size_t n, float *out)
{
    if (!sb_make_is_of_head(m)) {
        sb_make_row_predictable(maker, m, row, col, n, out);
        return;
    }
    sb_make_usual(m, row, col, n, out);
    if (m->role == SB_ROLE_mtp_fc)
        fc_row(maker, row, col, n, out);
    else if (m->role == SB_ROLE_mtp_norm && maker->config->tie_embeddings)
        norm_row(m, col, n, out);
}
