/* predictable.c - recipe `predictable`: every token has one successor, which the weights encode.
 *
 * G-3: "a seeded permutation bigram through embedding, residual stream and head". The H dimensions
 * are divided into parts by d mod parts. Element j of a code is in dimension parts * j + part:
 *
 *   OWN_READ   the code of token t itself, where mtp.fc reads it from the embedding half
 *   OWN_HIDDEN the code of t for all other t: the embedding half of mtp.fc does not read this part
 *   AHEAD      the code of the successor of t, if that is one of SB_CODE_HIDDEN
 *   TARGET     only with a tied head: the code of the predecessor of t
 *
 * Row v of the head holds the code of v's predecessor in the parts where the trunk has this code,
 * so the successor has the largest logit. The trunk passes AHEAD to its last hidden vector. From
 * there the hidden half of mtp.fc moves it to the parts that the head reads. So for a token of
 * SB_CODE_HIDDEN, "a part of it can be predicted by the MTP head only from the hidden half of its
 * input". The MTP head cannot predict a token of SB_CODE_TRUNK. A tied head is the embedding: it
 * reads TARGET, which the first layer's MLP replaces by the token's own code.
 *
 * The rest is noise. The trunk has little noise, so that the greedy token is nearly always the
 * successor. The MTP layer has as much noise as gives some wrong drafts. */
#include "ref/base/rng.h"
#include "ref/math/fn.h"
#include "tools/make/predictable.h"

enum { OWN_READ, OWN_HIDDEN, AHEAD, TARGET };

#define LOGIT 16.0f      /* about the largest logit */
#define CONSTANT 4.0f    /* tied: the last dimension of every embedding, in units of its codes */
#define ROW_NOISE 0.1f   /* in embedding and head, in the same units; unused rows have only noise */
#define TRUNK_NOISE 0.3f /* of all layers together, in units of sb_make_bearable */
#define MTP_NOISE 0.75f  /* the part of the largest tolerable noise in sb_make_bearable */
#define HEAD_NOISE 0.1f  /* in the MTP layer, relative to a variance of 1 */
#define HEAD_NOISE_OUTPUT 0.2f /* the same of o_proj */
#define BRIDGE_OWN 2.2f        /* tied: the own code that the bridge adds, in units of the codes */
#define BRIDGE_DOWN 0.18f      /* tied: scales it to that unit: about 1/silu(CONSTANT / rms) */

static uint32_t parts_of(const sb_config *c)
{
    return c->tie_embeddings ? 4 : 3;
}

uint32_t sb_make_code_length(const sb_config *c)
{
    return c->tie_embeddings ? c->hidden_size / 4 - 1 : c->hidden_size / 3;
}

static float root(float x)
{
    return x * sb_rsqrt(x);
}

/* The right logit is n. It competes with the largest of `used` sums of n random signs and noise. */
float sb_make_bearable(const sb_codes *codes)
{
    float largest = 0.92f * root(2.0f * sb_log((float)codes->used));
    return MTP_NOISE * root((float)codes->length) / (1.4f + largest);
}

/* The weight of one of the 2 L additions to the residual stream. */
static float trunk_share(const sb_maker *maker)
{
    return TRUNK_NOISE * sb_make_bearable(&maker->codes) *
           sb_rsqrt(2.0f * (float)maker->config->layers);
}

/* The magnitude of the elements of codes in an embedding or head row, such that n products of them
 * with the final hidden vector, whose elements are about 2.1 (tied: 1.7 units), sum to LOGIT. */
static float code_level(const sb_maker *maker, int head)
{
    float n = (float)maker->codes.length;
    if (maker->config->tie_embeddings)
        return LOGIT / (1.7f * n);
    return head ? LOGIT / (2.1f * n) : 1.0f;
}

/* The variance of silu(g) u is 0.36. The squares of k router weights sum to about 1.3/k; the square
 * of the shared expert's weight is about 0.28. */
float sb_make_mixture_gain(const sb_config *c)
{
    return sb_rsqrt(0.36f * (1.3f / (float)c->experts_per_token + 0.28f));
}

static void prepare_output(const sb_maker *maker, sb_make_matrix *m)
{
    float embedding = code_level(maker, 0);
    if (m->role == SB_ROLE_expert_down || m->role == SB_ROLE_shared_down_proj)
        m->spread *= sb_make_mixture_gain(maker->config);
    m->spread *= trunk_share(maker) * embedding;
}

int sb_make_is_of_head(const sb_make_matrix *m)
{
    return m->in_mtp || m->role == SB_ROLE_mtp_fc || m->role == SB_ROLE_mtp_norm_embedding ||
           m->role == SB_ROLE_mtp_norm_hidden || m->role == SB_ROLE_mtp_norm;
}

static float head_noise(const sb_make_matrix *m)
{
    switch (m->role) {
    case SB_ROLE_mtp_fc:
        return 1.0f;
    case SB_ROLE_o_proj:
        return HEAD_NOISE_OUTPUT;
    default:
        return m->kind == SB_MAKE_linear ? HEAD_NOISE : 0.3f;
    }
}

void sb_make_prepare_predictable(const sb_maker *maker, sb_make_matrix *m)
{
    if (sb_make_is_of_head(m)) {
        m->spread *= head_noise(m);
        return;
    }
    switch (m->role) {
    case SB_ROLE_embed_tokens:
    case SB_ROLE_lm_head:
        m->level = code_level(maker, m->role == SB_ROLE_lm_head);
        m->spread = ROW_NOISE * m->level;
        return;
    case SB_ROLE_final_norm:
        m->mean = maker->config->tie_embeddings ? 0.0f : 0.5f;
        return;
    case SB_ROLE_linear_out_proj:
    case SB_ROLE_o_proj:
    case SB_ROLE_expert_down:
    case SB_ROLE_shared_down_proj:
    case SB_ROLE_down_proj:
        prepare_output(maker, m);
        return;
    default:
        return;
    }
}

/* True if a part of a token's embedding row or head row holds a code; *of is the token of the
 * code. */
static int holds(const sb_codes *codes, sb_role role, uint32_t part, uint32_t token, uint32_t *of)
{
    int head = role == SB_ROLE_lm_head;
    *of = head || part == TARGET ? codes->previous[token] : token;
    switch (part) {
    case OWN_READ:
        return codes->kind[*of] == SB_CODE_EMBEDDING;
    case OWN_HIDDEN:
        return codes->kind[*of] != SB_CODE_EMBEDDING;
    case AHEAD:
        *of = codes->next[token];
        return !head && codes->kind[*of] == SB_CODE_HIDDEN;
    default:
        return 1;
    }
}

static void token_row(const sb_maker *maker, const sb_make_matrix *m, uint64_t row, uint64_t col,
                      size_t n, float *out)
{
    const sb_codes *codes = &maker->codes;
    uint32_t parts = parts_of(maker->config);
    sb_make_usual(m, row, col, n, out);
    if (row >= codes->used) /* padding: there, and not zero, but never the largest logit */
        return;
    for (size_t i = 0; i < n; i++) {
        uint32_t d = (uint32_t)(col + i);
        uint32_t of;
        if (d / parts < codes->length && holds(codes, m->role, d % parts, (uint32_t)row, &of))
            out[i] += m->level * sb_code(codes, of, d / parts) *
                      (parts == 4 && d % parts == TARGET ? codes->sign[d] : 1.0f);
        else if (parts == 4 && d == m->cols - 1)
            out[i] = m->level * CONSTANT;
        if (m->role == SB_ROLE_lm_head)
            out[i] *= codes->sign[d];
    }
}

/* The last norm of the trunk. With a tied head, it removes the parts of the embedding that the head
 * must not read; otherwise it has the same signs as the head. */
static void norm_row(const sb_maker *maker, const sb_make_matrix *m, uint64_t col, size_t n,
                     float *out)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t part = (uint32_t)(col + i) % 4;
        float keep = part == TARGET ? 1.0f : part == AHEAD ? 0.4f : 0.0f;
        if (col + i == m->cols - 1)
            keep = 0.0f;
        if (maker->config->tie_embeddings)
            out[i] = (keep - 1.0f) + (keep + 0.1f) * out[i];
        else if (maker->codes.sign[col + i] < 0)
            out[i] = -2.0f - out[i];
    }
}

/* Tied: unit j of the first layer's MLP turns TARGET into the token's own code. Its gate reads the
 * constant, so the unit is open for every token. The spread of its weights is small. */
static void bridge_row(const sb_maker *maker, const sb_make_matrix *m, uint64_t row, uint64_t col,
                       size_t n, float *out)
{
    uint64_t length = maker->codes.length;
    float level = code_level(maker, 0);
    for (size_t i = 0; i < n; i++) {
        uint64_t d = col + i;
        if (m->role == SB_ROLE_down_proj) {
            if (d < length)
                out[i] = row == 4 * d + TARGET ? BRIDGE_DOWN * level * maker->codes.sign[row]
                                               : 0.01f * out[i];
            continue;
        }
        if (row >= length)
            return;
        out[i] *= 0.1f;
        if (m->role == SB_ROLE_gate_proj && d == m->cols - 1)
            out[i] = 1.0f;
        if (m->role == SB_ROLE_up_proj && d - 4 * row < 4)
            out[i] += d % 4 == TARGET ? -maker->codes.sign[d] : d % 4 == AHEAD ? 0.0f : BRIDGE_OWN;
    }
}

void sb_make_row_predictable(const sb_maker *maker, const sb_make_matrix *m, uint64_t row,
                             uint64_t col, size_t n, float *out)
{
    int tied = maker->config->tie_embeddings;
    if (m->role == SB_ROLE_embed_tokens || m->role == SB_ROLE_lm_head) {
        token_row(maker, m, row, col, n, out);
        return;
    }
    sb_make_usual(m, row, col, n, out);
    if (sb_make_is_of_head(m))
        sb_make_head_row(maker, m, row, col, n, out);
    else if (m->role == SB_ROLE_final_norm)
        norm_row(maker, m, col, n, out);
    else if (tied && m->layer == 0)
        switch (m->role) {
        case SB_ROLE_gate_proj:
        case SB_ROLE_up_proj:
        case SB_ROLE_down_proj:
            bridge_row(maker, m, row, col, n, out);
            return;
        default:
            return;
        }
}
