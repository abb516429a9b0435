/* predictable_head.c - the MTP layer of recipe `predictable`: every part of it is needed.
 *
 * G-3: the head knows a token by its code. Elements j = 0 .. C-1 of the code pass through all parts
 * one after the other:
 *
 * fc: writes the code into AHEAD with the wrong sign. Neither the rows of the model's head nor
 * mtp.norm read AHEAD. The code comes from the embedding half for SB_CODE_EMBEDDING, from the
 * hidden half for SB_CODE_HIDDEN.
 *
 * attention: attends only to its own entry, because queries and keys hold the code. It reverses the
 * sign in AHEAD, and subtracts the code from the parts that the head reads.
 *
 * MLP: adds the code to these parts. A dense MLP adds enough. In a mixture, routed experts add
 * enough for tokens with a negative element 0. For the others the shared expert does, but only if
 * its gate, which reads element 0, is wide open. The router chooses experts by the same element,
 * and the gates of the experts open for the codes for which they are chosen.
 *
 * noise: in every matrix. Where there is room, some rows are only noise, because quantizers keep
 * little of the noise next to one large entry.
 *
 * norms: the weights of some dimensions reverse the sign; the matrices that read or write these
 * dimensions reverse it again.
 *
 * If any part fails, the code that the head reads is missing, or has wrong or random signs: the
 * token is then among the last candidates. The signs of sb_codes bind the head to its trunk: it
 * predicts nothing for the trunk of another seed. */
#include "tools/make/predictable.h"

#include "ref/base/rng.h"
#include "ref/math/fn.h"

enum { OWN_READ, OWN_HIDDEN, AHEAD, TARGET };

#define FLIP (-0.2f)     /* 1 + weight of a norm that reverses the sign; elsewhere about 1 */
#define FLIP_OUT (-0.3f) /* the same for mtp.norm */
#define QUERY 1.7f       /* the magnitude of 1 + weight of q_norm and k_norm */
#define TURNED 4.0f      /* the code in AHEAD after attention */
#define DENSE 3.3f       /* added by the MLP of a dense model to the parts that the head reads */
#define DENSE_TAKEN 2.0f /* subtracted there by attention */
#define TAKEN 3.5f       /* the same for a mixture of experts */
#define SHARED 7.6f      /* added by the shared expert if its gate is open */
#define ROUTED 0.1f      /* added by the other experts of even number */
#define ALONE 8.8f       /* added by experts of odd number, for the other tokens */
#define OPEN 6.0f        /* the gate of the shared expert: its logit at a usual element */
#define STEEP 2.0f       /* the largest part of a gate, in units of its spread */
#define SHARP 2.5f       /* the spread of the logits of the router */
#define APART 2.5f       /* added to them by element 0, in units of that spread */

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static float root(float x)
{
    return x * sb_rsqrt(x);
}

/* The data that all rows need. */
typedef struct plan {
    const sb_config *config;
    const sb_codes *codes;
    uint64_t seed;
    uint32_t parts;
    uint32_t carried; /* C: the elements of a code that pass through all parts */
    float first;      /* the magnitude of AHEAD after input_layernorm */
    float second;     /* the same after post_attention_layernorm */
} plan;

/* C: the most that fits in keys and values, shared expert, experts and codes. */
static uint32_t carried_of(const sb_config *c, uint32_t length)
{
    uint32_t n = least(length, sb_config_kv_width(c));
    if (!c->experts)
        return least(n, c->intermediate / 2);
    return least(least(n, c->shared_intermediate / 2), c->moe_intermediate);
}

/* The code that attention subtracts. */
static float taken(const sb_config *c)
{
    return c->experts ? TAKEN : DENSE_TAKEN;
}

static plan plan_of(const sb_maker *maker)
{
    const sb_config *c = maker->config;
    plan p = {.config = c,
              .codes = &maker->codes,
              .seed = maker->seed,
              .parts = c->tie_embeddings ? 4 : 3,
              .carried = carried_of(c, maker->codes.length)};
    float share = (float)p.carried / (float)c->hidden_size;
    float seen = c->tie_embeddings ? 1.0f : 2.0f;
    float flipped = 0.67f + 0.33f / (FLIP_OUT * FLIP_OUT);
    float lost = taken(c) * taken(c) * seen * flipped;
    p.first = sb_rsqrt(share);
    p.second = TURNED * sb_rsqrt(share * (TURNED * TURNED + lost));
    return p;
}

/* True if the head of the model reads this part. */
static int is_seen(const plan *p, uint32_t part)
{
    return p->parts == 4 ? part == TARGET : part == OWN_READ || part == OWN_HIDDEN;
}

/* --- norms ------------------------------------------------------------------------------------ */

static int is_turned(const plan *p, const char *norm, uint64_t d, uint32_t percent)
{
    return sb_rng_below(sb_rng_key(p->seed, norm), d, 100) < percent;
}

/* Half of a query and of a key is the code, see query_row. */
static int is_of_code(const plan *p, uint64_t d)
{
    return d % p->config->head_dim < p->config->head_dim / 2;
}

static float query_norm_at(const plan *p, const char *norm, uint64_t d)
{
    if (!is_of_code(p, d))
        return 1.0f;
    return is_turned(p, norm, d, 50) ? -QUERY : QUERY;
}

/* 1 + weight of a norm in dimension d, without noise. */
static float norm_at(const plan *p, sb_role role, uint64_t d)
{
    uint32_t part = (uint32_t)(d % p->parts);
    int carried = d / p->parts < p->carried;
    switch (role) {
    case SB_ROLE_mtp_norm_embedding:
        return carried && part == OWN_READ && is_turned(p, "make/predictable/norm_embedding", d, 40)
                   ? FLIP
                   : 1.0f;
    case SB_ROLE_mtp_norm_hidden:
        return carried && part == AHEAD && is_turned(p, "make/predictable/norm_hidden", d, 40)
                   ? FLIP
                   : 1.0f;
    case SB_ROLE_input_layernorm:
        return carried && part == AHEAD && is_turned(p, "make/predictable/norm_first", d, 40)
                   ? FLIP
                   : 1.0f;
    case SB_ROLE_post_attention_layernorm:
        return carried && part == AHEAD && is_turned(p, "make/predictable/norm_second", d, 40)
                   ? FLIP
                   : 1.0f;
    case SB_ROLE_mtp_norm:
        if (!carried)
            return 1.0f;
        if (!is_seen(p, part)) /* so a second draft does not read the first one's AHEAD */
            return 0.0f;
        if (is_turned(p, "make/predictable/norm_last", d, 33))
            return FLIP_OUT;
        return p->parts == 4 ? 1.5f : 1.0f;
    case SB_ROLE_q_norm:
        return query_norm_at(p, "make/predictable/norm_query", d);
    case SB_ROLE_k_norm:
        return query_norm_at(p, "make/predictable/norm_key", d);
    default:
        return 1.0f;
    }
}

static void norm_row(const plan *p, sb_role role, uint64_t col, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) {
        float at = norm_at(p, role, col + i);
        out[i] = (at - 1.0f) + (at != 0.0f ? at : 0.1f) * out[i];
    }
}

/* --- reading and writing the residual stream -------------------------------------------------- */

/* Adds x to column d of a row, if d is one of the columns col .. col + n - 1. */
static void add(uint64_t d, float x, uint64_t col, size_t n, float *out)
{
    if (d >= col && d < col + n)
        out[d - col] += x;
}

static void read_ahead(const plan *p, sb_role norm, uint32_t j, float x, uint64_t col, size_t n,
                       float *out)
{
    uint64_t d = (uint64_t)p->parts * j + AHEAD;
    add(d, x / norm_at(p, norm, d), col, n, out);
}

/* The weight of a code element in row d, which the head reads. */
static float writes(const plan *p, uint64_t d)
{
    return p->codes->sign[d] / norm_at(p, SB_ROLE_mtp_norm, d);
}

static void fc_row(const plan *p, uint64_t row, uint64_t col, size_t n, float *out)
{
    uint32_t j = (uint32_t)(row / p->parts);
    uint64_t own = (uint64_t)p->parts * j + OWN_READ, ahead = (uint64_t)p->parts * j + AHEAD;
    if (row != ahead || j >= p->carried)
        return;
    /* AHEAD is only one of several parts of a hidden vector. Without a tied head, the last norm of
     * the trunk applies the signs. */
    float hidden = p->parts == 4 ? 3.0f : 1.5f * p->codes->sign[ahead];
    add(own, -1.0f / norm_at(p, SB_ROLE_mtp_norm_embedding, own), col, n, out);
    add(p->config->hidden_size + ahead, -hidden / norm_at(p, SB_ROLE_mtp_norm_hidden, ahead), col,
        n, out);
}

/* --- attention -------------------------------------------------------------------------------- */

/* Half of the query of a head is the code, and so is half of the key of its group. The rest, and
 * about half of the values, is noise: quantizers are not made for matrices whose rows all hold only
 * one large entry. */
static void query_row(const plan *p, sb_role role, uint64_t row, uint64_t col, size_t n, float *out)
{
    const sb_config *c = p->config;
    uint64_t hd = c->head_dim, group = c->heads / c->kv_heads, at = row;
    if (role == SB_ROLE_q_proj) {
        if (row % (2 * hd) >= hd) /* a gate */
            return;
        at = row / (2 * hd) / group * hd + row % (2 * hd);
    }
    if (!is_of_code(p, at))
        return;
    float norm = norm_at(p, role == SB_ROLE_q_proj ? SB_ROLE_q_norm : SB_ROLE_k_norm, at % hd);
    read_ahead(p, SB_ROLE_input_layernorm, (uint32_t)(at % p->carried), norm < 0 ? -1.0f : 1.0f,
               col, n, out);
}

/* The number of values that hold the same code element; together they fill about half of the
 * room. */
static uint32_t copies_of(const plan *p)
{
    return (uint32_t)(sb_config_kv_width(p->config) / p->carried + 1) / 2;
}

/* The code element of a value, in another order than in the key; `carried` if it has none. */
static uint32_t value_of(const plan *p, uint64_t at)
{
    return at < (uint64_t)copies_of(p) * p->carried ? p->carried - 1 - (uint32_t)(at % p->carried)
                                                    : p->carried;
}

static void output_row(const plan *p, uint64_t row, uint64_t col, size_t n, float *out)
{
    const sb_config *c = p->config;
    uint64_t hd = c->head_dim, group = c->heads / c->kv_heads;
    uint64_t copies = copies_of(p) * group;
    uint32_t part = (uint32_t)(row % p->parts), j = (uint32_t)(row / p->parts);
    float x = 2.0f / (p->first * (float)copies); /* the gate is about a half */
    if (j >= p->carried || (part != AHEAD && !is_seen(p, part)))
        return;
    x *= part == AHEAD ? -(TURNED + 1.5f) : taken(c) * writes(p, row);
    for (size_t i = 0; i < n; i++) {
        uint64_t head = (col + i) / hd;
        if (value_of(p, head / group * hd + (col + i) % hd) == j)
            out[i] += x;
    }
}

/* --- MLP -------------------------------------------------------------------------------------- */

/* Units 2j and 2j + 1 have the same input and opposite gates. Together they are an odd function of
 * element j; silu alone would depend on its sign. */
static void pair_row(const plan *p, int gate, uint64_t row, uint64_t col, size_t n, float *out)
{
    float x = gate ? STEEP / p->second : 1.0f;
    if (row / 2 < p->carried)
        read_ahead(p, SB_ROLE_post_attention_layernorm, (uint32_t)(row / 2),
                   gate && row % 2 ? -x : x, col, n, out);
}

static void pair_down_row(const plan *p, uint64_t row, uint64_t col, size_t n, float *out)
{
    uint32_t part = (uint32_t)(row % p->parts), j = (uint32_t)(row / p->parts);
    float unit = STEEP * 0.76f * p->second; /* tanh(1) */
    int dense = !p->config->experts;
    if (j >= p->carried || !(is_seen(p, part) || (dense && part == AHEAD)))
        return;
    float x = part == AHEAD ? -TURNED : (dense ? DENSE : SHARED) * writes(p, row);
    x /= unit;
    add(2 * (uint64_t)j, x, col, n, out);
    add(2 * (uint64_t)j + 1, x, col, n, out);
}

/* The direction for which an expert is chosen and its gates open. Pairs of experts have opposite
 * directions, so that most codes are close to some direction. Experts of even number serve tokens
 * with a positive element 0. */
static void toward_row(const plan *p, uint64_t expert, float x, uint64_t col, size_t n, float *out)
{
    uint64_t key = sb_rng_key(p->seed, "make/predictable/toward");
    float scale = sb_rsqrt((float)p->carried);
    x *= (expert & 1 ? -1.0f : 1.0f) / p->second;
    for (uint32_t j = 0; j < p->carried; j++) {
        uint64_t d = (uint64_t)p->parts * j + AHEAD;
        float at = scale * sb_rng_normal(key, expert / 2 * p->carried + j);
        if (d >= col && d < col + n)
            out[d - col] += x * (j ? at : APART) / norm_at(p, SB_ROLE_post_attention_layernorm, d);
    }
}

static void expert_down_row(const plan *p, uint64_t expert, uint64_t row, uint64_t col, size_t n,
                            float *out)
{
    uint32_t part = (uint32_t)(row % p->parts), j = (uint32_t)(row / p->parts);
    float chosen = 0.68f * root(2.0f * sb_log(0.5f * (float)p->config->experts)) + APART;
    float unit = STEEP * chosen * p->second;
    int even = !(expert & 1);
    if (j >= p->carried)
        return;
    if (is_seen(p, part))
        add(j, (even ? ROUTED : ALONE) / unit * writes(p, row), col, n, out);
    else if (even && part == AHEAD) /* about as large as the others' entries, but not read */
        add(j, -2.0f * TURNED / unit, col, n, out);
}

static void expert_row(const plan *p, const sb_make_matrix *m, uint64_t row, uint64_t col, size_t n,
                       float *out)
{
    if (row >= p->carried)
        return;
    if (m->role == SB_ROLE_expert_gate)
        toward_row(p, m->expert, STEEP, col, n, out);
    else
        read_ahead(p, SB_ROLE_post_attention_layernorm, (uint32_t)row, 1.0f, col, n, out);
}

void sb_make_head_row(const sb_maker *maker, const sb_make_matrix *m, uint64_t row, uint64_t col,
                      size_t n, float *out)
{
    plan p = plan_of(maker);
    switch (m->role) {
    case SB_ROLE_mtp_fc:
        fc_row(&p, row, col, n, out);
        return;
    case SB_ROLE_q_proj:
    case SB_ROLE_k_proj:
        query_row(&p, m->role, row, col, n, out);
        return;
    case SB_ROLE_v_proj:
        if (value_of(&p, row) < p.carried)
            read_ahead(&p, SB_ROLE_input_layernorm, value_of(&p, row), 1.0f, col, n, out);
        return;
    case SB_ROLE_o_proj:
        output_row(&p, row, col, n, out);
        return;
    case SB_ROLE_gate_proj:
    case SB_ROLE_up_proj:
    case SB_ROLE_shared_gate_proj:
    case SB_ROLE_shared_up_proj:
        pair_row(&p, m->role == SB_ROLE_gate_proj || m->role == SB_ROLE_shared_gate_proj, row, col,
                 n, out);
        return;
    case SB_ROLE_down_proj:
    case SB_ROLE_shared_down_proj:
        pair_down_row(&p, row, col, n, out);
        return;
    case SB_ROLE_shared_expert_gate:
        read_ahead(&p, SB_ROLE_post_attention_layernorm, 0, OPEN / p.second, col, n, out);
        return;
    case SB_ROLE_router:
        toward_row(&p, row, SHARP, col, n, out);
        return;
    case SB_ROLE_expert_gate:
    case SB_ROLE_expert_up:
        expert_row(&p, m, row, col, n, out);
        return;
    case SB_ROLE_expert_down:
        expert_down_row(&p, m->expert, row, col, n, out);
        return;
    default:
        norm_row(&p, m->role, col, n, out);
    }
}
