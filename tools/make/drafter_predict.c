/* drafter_predict.c - a drafter for a target of recipe `predictable`.
 *
 * G-26: "every part of it is needed". Token x is followed by the token next(x), and the drafter
 * knows x by its code. The codes of SB_CODE_EMBEDDING are in the embedding of x, those of
 * SB_CODE_HIDDEN only in the states of the token before x, which hold the code of the token after
 * it (AHEAD). The drafter does not know the codes of SB_CODE_TRUNK. Element j of a code passes
 * through dimensions 5 j + lane of its stream:
 *
 *   QUERY, KEY, VALUE  fc writes the code of x, from one captured state each
 *   SEEN               fc writes the code of the token before x, from all three: so a state that
 *                      holds no code of x has about the same norm
 *   OWN                empty
 *
 * attention: query and key hold the code of x, from the embedding or from their lane, so a row
 * attends to its own entry. Its value holds what both norms pass on. o_proj takes the stream away,
 * as the residual brings it, and writes anew: the code of x into OWN, the same with the wrong sign
 * into SEEN, and the code of next(x) into the first three lanes, where the embedding of x has it:
 * the next draft reads it there.
 *
 * MLP: moves the code from OWN to SEEN, which the head reads.
 *
 * norms: the weights of some dimensions are negative; the matrices that read these dimensions
 * reverse the sign again. */
#include "tools/make/drafter.h"

#include "ref/base/rng.h"
#include "ref/math/fn.h"

enum { QUERY, KEY, VALUE, OWN, SEEN, LANES };

/* The parts of a target's embedding (predictable.c). */
enum { OWN_READ, OWN_HIDDEN, AHEAD };

#define TRUNK_PRESENT                                                                              \
    1.38f                 /* codes of an embedding: its own, and that of 38 % of the successors    \
                           */
#define TRUNK_LATER 2.4f  /* codes in a captured state of a target with a tied head */
#define TRUNK_NOISE 0.07f /* in a captured state of another, what its layers add */
#define CONSTANT 4.0f     /* tied: the last dimension of an embedding, in units of its codes */
#define AHEAD_SHARE 0.38f /* of the tokens are of SB_CODE_HIDDEN */

/* Magnitudes of codes, before the hidden norm. */
#define CODE 1.0f   /* in the first three lanes */
#define BEFORE 2.0f /* in SEEN */
#define SCALE 4.0f  /* of what fc writes: so a residual that is normed has another scale */

#define MATCH 1.2f  /* in a query and in a key */
#define TURNED 3.0f /* in OWN after attention */
#define TAKEN 0.8f  /* with the wrong sign in SEEN after attention */
#define WRITTEN                                                                                    \
    1.6f /* in SEEN after the MLP, so that the next draft reads a state of the same norm */
#define STEEP 4.0f  /* the largest part of a gate, in units of its spread */
#define LOGIT 16.0f /* about the largest logit */

typedef struct plan {
    const sb_drafter *d;
    uint64_t target, hidden; /* Ht, H */
    uint32_t parts;
    uint32_t carried; /* C: the elements of a code that pass through all parts */
    float level;      /* of a code in an embedding of the target */
    float embedded;   /* of a code in the embedding after input_layernorm */
    float pattern;    /* the norm of the codes that fc writes, before SCALE */
    float stream;     /* the residual, in units of the hidden state after its norm */
    float scale;      /* of fc */
    float second;     /* of OWN after post_attention_layernorm */
    float state;      /* the norm of a captured state */
} plan;

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static plan plan_of(const sb_drafter *d)
{
    const int tied = d->config->tie_embeddings, own = d->flag[SB_DRAFTER_own_embedding];
    const uint32_t length = d->codes.length;
    plan p = {.d = d,
              .target = d->size[SB_DRAFTER_target],
              .hidden = d->size[SB_DRAFTER_hidden],
              .parts = tied ? 4 : 3};
    p.carried = least(least(length, d->size[SB_DRAFTER_hidden] / LANES),
                      least(d->size[SB_DRAFTER_key] / (LANES + 2), d->size[SB_DRAFTER_mlp] / 2));
    p.level = tied ? LOGIT / (1.7f * (float)length) : 1.0f;
    const float all = (float)length / (float)p.target,
                constant = CONSTANT * CONSTANT / (float)p.target;
    const float embedding =
        all * (TRUNK_PRESENT + (tied && !own ? 1.0f : 0.0f)) + (tied && !own ? constant : 0.0f);
    const float later = tied ? all * TRUNK_LATER + constant : all * TRUNK_PRESENT + TRUNK_NOISE;
    p.embedded = sb_rsqrt(embedding);
    p.state = p.level * sb_sqrt(later);
    const float share = (float)p.carried / (float)p.hidden;
    p.pattern = sb_sqrt(share * (BEFORE * BEFORE + 3 * AHEAD_SHARE * CODE * CODE));
    p.scale = d->flag[SB_DRAFTER_norm_output] ? 1.0f / p.pattern : SCALE;
    p.stream = d->flag[SB_DRAFTER_norm_before_residual] ? 1.0f : p.scale * p.pattern;
    const float code = CODE / p.pattern;
    p.second = TURNED *
               sb_rsqrt(share * (TURNED * TURNED + TAKEN * TAKEN + 3 * AHEAD_SHARE * code * code));
    return p;
}

/* --- norms ------------------------------------------------------------------------------------ */

/* 1 or -1: the sign of a norm's weight in dimension d. */
static float sign_at(const plan *p, sb_drafter_tensor norm, uint64_t d)
{
    static const char *const streams[SB_DRAFTER_TENSORS] = {
        [SB_DRAFTER_TENSOR_input_norm] = "make/drafter/input_norm",
        [SB_DRAFTER_TENSOR_fc_norm_0] = "make/drafter/fc_norm.0",
        [SB_DRAFTER_TENSOR_fc_norm_1] = "make/drafter/fc_norm.1",
        [SB_DRAFTER_TENSOR_fc_norm_2] = "make/drafter/fc_norm.2",
        [SB_DRAFTER_TENSOR_input_layernorm] = "make/drafter/input_layernorm",
        [SB_DRAFTER_TENSOR_hidden_norm] = "make/drafter/hidden_norm",
        [SB_DRAFTER_TENSOR_q_norm] = "make/drafter/q_norm",
        [SB_DRAFTER_TENSOR_k_norm] = "make/drafter/k_norm",
        [SB_DRAFTER_TENSOR_post_norm] = "make/drafter/post_norm",
        [SB_DRAFTER_TENSOR_norm] = "make/drafter/norm"};
    return sb_rng_below(sb_rng_key(p->d->seed, streams[norm]), d, 100) < 40 ? -1.0f : 1.0f;
}

static void norm_row(const plan *p, sb_drafter_tensor norm, uint64_t col, size_t n, float *out)
{
    const int of_heads = norm == SB_DRAFTER_TENSOR_q_norm || norm == SB_DRAFTER_TENSOR_k_norm;
    for (size_t i = 0; i < n; i++)
        out[i] *= sign_at(p, norm, col + i) * (of_heads ? MATCH : 1.0f);
}

/* --- entries of matrices ---------------------------------------------------------------------- */

/* Adds x to column d of a row, if d is one of the columns col .. col + n - 1. */
static void add(uint64_t d, float x, uint64_t col, size_t n, float *out)
{
    if (d >= col && d < col + n)
        out[d - col] += x;
}

static uint64_t at(uint64_t j, unsigned lane)
{
    return LANES * j + lane;
}

/* The dimension of a code in the embedding. One of the drafter's own has them in the opposite
 * order. */
static uint64_t embedded_at(const plan *p, uint64_t j, unsigned part)
{
    const uint64_t d = p->parts * j + part;
    return p->d->flag[SB_DRAFTER_own_embedding] ? p->hidden - 1 - d : d;
}

/* Reads the code of x, or that of next(x), from the embedding half of the input: with weight x the
 * result has this magnitude. */
static void read_embedding(const plan *p, uint64_t j, unsigned part, float x, uint64_t col,
                           size_t n, float *out)
{
    const uint64_t d = embedded_at(p, j, part);
    add(d, x * sign_at(p, SB_DRAFTER_TENSOR_input_layernorm, d) / p->embedded, col, n, out);
}

/* Reads a lane of the hidden half as it was before the weights of its norm. */
static void read_lane(const plan *p, uint64_t j, unsigned lane, float x, uint64_t col, size_t n,
                      float *out)
{
    const uint64_t d = at(j, lane);
    add(p->hidden + d, x * sign_at(p, SB_DRAFTER_TENSOR_hidden_norm, d), col, n, out);
}

/* Reads a part of captured state i. */
static void read_state(const plan *p, unsigned i, uint64_t j, unsigned part, float x, uint64_t col,
                       size_t n, float *out)
{
    const uint64_t d = p->parts * j + part, whole = i * p->target + d;
    x *= p->scale / p->level;
    if (p->d->flag[SB_DRAFTER_fc_norm])
        x *= p->state * sign_at(p, (sb_drafter_tensor)(SB_DRAFTER_TENSOR_fc_norm_0 + i), d);
    else if (p->d->flag[SB_DRAFTER_norm_before_fc])
        x *= p->state * sign_at(p, SB_DRAFTER_TENSOR_input_norm, whole);
    add(whole, x, col, n, out);
}

static void fc_row(const plan *p, uint64_t row, uint64_t col, size_t n, float *out)
{
    const uint64_t j = row / LANES;
    const unsigned lane = (unsigned)(row % LANES);
    if (j >= p->carried || lane == OWN)
        return;
    if (lane < SB_DRAFTER_STATES) {
        read_state(p, lane, j, AHEAD, CODE, col, n, out);
        return;
    }
    for (unsigned i = 0; i < SB_DRAFTER_STATES; i++) {
        read_state(p, i, j, OWN_READ, BEFORE / SB_DRAFTER_STATES, col, n, out);
        read_state(p, i, j, OWN_HIDDEN, BEFORE / SB_DRAFTER_STATES, col, n, out);
    }
}

/* --- attention -------------------------------------------------------------------------------- */

static void match_row(const plan *p, int is_query, uint64_t row, uint64_t col, size_t n, float *out)
{
    const uint64_t i = row % p->d->size[SB_DRAFTER_head], j = i % p->carried;
    float x = MATCH;
    if (p->d->flag[SB_DRAFTER_qwen3])
        x *= sign_at(p, is_query ? SB_DRAFTER_TENSOR_q_norm : SB_DRAFTER_TENSOR_k_norm, i);
    read_embedding(p, j, OWN_READ, x, col, n, out);
    read_lane(p, j, is_query ? QUERY : KEY, x * p->pattern / CODE, col, n, out);
}

/* Values: the code of x and of next(x) in the embedding, then the lanes. */
enum { OF_TOKEN, OF_NEXT, OF_LANES };

static void value_row(const plan *p, uint64_t row, uint64_t col, size_t n, float *out)
{
    const uint64_t j = row % p->carried, what = row / p->carried;
    if (what == OF_TOKEN)
        read_embedding(p, j, OWN_READ, 1, col, n, out);
    else if (what == OF_NEXT)
        read_embedding(p, j, AHEAD, 1, col, n, out);
    else if (what - OF_LANES < LANES)
        read_lane(p, j, (unsigned)(what - OF_LANES), 1, col, n, out);
}

/* All query heads of a group have the same values. */
static void take_value(const plan *p, uint64_t what, uint64_t j, float x, uint64_t col, size_t n,
                       float *out)
{
    const uint64_t hd = p->d->size[SB_DRAFTER_head], group = p->d->heads / p->d->kv_heads;
    const uint64_t value = what * p->carried + j, first = value / hd * group;
    for (uint64_t head = first; head < first + group; head++)
        add(head * hd + value % hd, x / (float)group, col, n, out);
}

/* The code of x, of magnitude x. */
static void take_code(const plan *p, uint64_t j, float x, uint64_t col, size_t n, float *out)
{
    take_value(p, OF_TOKEN, j, x, col, n, out);
    take_value(p, OF_LANES + VALUE, j, x * p->pattern / CODE, col, n, out);
}

/* The sign of a code that the next draft reads: with norm_output the final norm reverses some. */
static float passed_on(const plan *p, uint64_t d)
{
    return p->d->flag[SB_DRAFTER_norm_output] ? sign_at(p, SB_DRAFTER_TENSOR_norm, d) : 1.0f;
}

static void output_row(const plan *p, uint64_t row, uint64_t col, size_t n, float *out)
{
    const uint64_t j = row / LANES;
    const unsigned lane = (unsigned)(row % LANES);
    if (j >= p->carried)
        return;
    float here = p->d->flag[SB_DRAFTER_norm_before_residual]
                     ? sign_at(p, SB_DRAFTER_TENSOR_hidden_norm, row)
                     : p->stream;
    take_value(p, OF_LANES + lane, j, -here, col, n, out);
    if (lane == OWN)
        take_code(p, j, TURNED * p->stream, col, n, out);
    else if (lane == SEEN)
        take_code(p, j, -TAKEN * p->stream, col, n, out);
    else
        take_value(p, OF_NEXT, j, passed_on(p, row) * CODE / p->pattern * p->stream, col, n, out);
}

/* --- MLP -------------------------------------------------------------------------------------- */

/* Units 2j and 2j + 1 have the same input and opposite gates. Together they are an odd function of
 * element j. */
static void pair_row(const plan *p, int gate, uint64_t row, uint64_t col, size_t n, float *out)
{
    const uint64_t d = at(row / 2, OWN);
    float x = gate ? STEEP / p->second : 1.0f;
    if (row / 2 < p->carried)
        add(d, (gate && row % 2 ? -x : x) * sign_at(p, SB_DRAFTER_TENSOR_post_norm, d), col, n,
            out);
}

static void down_row(const plan *p, uint64_t row, uint64_t col, size_t n, float *out)
{
    const uint64_t j = row / LANES;
    const unsigned lane = (unsigned)(row % LANES);
    const float unit = STEEP * 0.96f * p->second; /* tanh(2) */
    if (j >= p->carried || lane < OWN)
        return;
    const float x =
        p->stream / unit * (lane == OWN ? -0.85f * TURNED : WRITTEN / p->pattern + TAKEN);
    add(2 * j, x, col, n, out);
    add(2 * j + 1, x, col, n, out);
}

/* --- vocabulary ------------------------------------------------------------------------------- */

/* Row r of the head holds the code of the token before token ids[r]. */
static void head_row(const plan *p, uint64_t row, uint64_t col, size_t n, float *out)
{
    const sb_codes *codes = &p->d->codes;
    const uint32_t id = p->d->ids[row];
    if (id >= codes->used)
        return;
    for (uint32_t j = 0; j < p->carried; j++) {
        const uint64_t d = at(j, SEEN);
        const float x = LOGIT / (2.0f * (float)p->carried) * sign_at(p, SB_DRAFTER_TENSOR_norm, d);
        add(d, x * sb_code(codes, codes->previous[id], j), col, n, out);
    }
}

static void embedding_row(const plan *p, uint64_t row, uint64_t col, size_t n, float *out)
{
    const sb_codes *codes = &p->d->codes;
    if (row >= codes->used)
        return;
    const uint32_t token = (uint32_t)row, next = codes->next[row];
    for (uint32_t j = 0; j < codes->length; j++) {
        const unsigned part = codes->kind[token] == SB_CODE_EMBEDDING ? OWN_READ : OWN_HIDDEN;
        add(embedded_at(p, j, part), sb_code(codes, token, j), col, n, out);
        if (codes->kind[next] == SB_CODE_HIDDEN)
            add(embedded_at(p, j, AHEAD), sb_code(codes, next, j), col, n, out);
    }
}

/* --- the tensors ------------------------------------------------------------------------------ */

float sb_drafter_noise(const sb_drafter *d, sb_drafter_tensor tensor)
{
    const plan p = plan_of(d);
    const float each = sb_rsqrt((float)sb_drafter_cols(d, tensor));
    switch (tensor) {
    case SB_DRAFTER_TENSOR_fc:
        return 0.1f * p.scale / p.level * each *
               (d->flag[SB_DRAFTER_fc_norm] || d->flag[SB_DRAFTER_norm_before_fc] ? p.state : 1.0f);
    case SB_DRAFTER_TENSOR_q_proj:
    case SB_DRAFTER_TENSOR_k_proj:
        return 0.2f * each;
    case SB_DRAFTER_TENSOR_o_proj:
    case SB_DRAFTER_TENSOR_down_proj:
        return 0.05f * p.stream * each;
    case SB_DRAFTER_TENSOR_lm_head:
        return 0.1f * LOGIT / (2.0f * (float)p.carried);
    case SB_DRAFTER_TENSOR_embed_tokens:
        return 0.1f;
    default:
        return 0.1f * (sb_drafter_rows(d, tensor) == 1 ? 1.0f : each);
    }
}

void sb_drafter_predict(const sb_drafter *d, sb_drafter_tensor tensor, uint64_t row, uint64_t col,
                        size_t n, float *out)
{
    const plan p = plan_of(d);
    switch (tensor) {
    case SB_DRAFTER_TENSOR_fc:
        fc_row(&p, row, col, n, out);
        return;
    case SB_DRAFTER_TENSOR_q_proj:
    case SB_DRAFTER_TENSOR_k_proj:
        match_row(&p, tensor == SB_DRAFTER_TENSOR_q_proj, row, col, n, out);
        return;
    case SB_DRAFTER_TENSOR_v_proj:
        value_row(&p, row, col, n, out);
        return;
    case SB_DRAFTER_TENSOR_o_proj:
        output_row(&p, row, col, n, out);
        return;
    case SB_DRAFTER_TENSOR_gate_proj:
    case SB_DRAFTER_TENSOR_up_proj:
        pair_row(&p, tensor == SB_DRAFTER_TENSOR_gate_proj, row, col, n, out);
        return;
    case SB_DRAFTER_TENSOR_down_proj:
        down_row(&p, row, col, n, out);
        return;
    case SB_DRAFTER_TENSOR_lm_head:
        head_row(&p, row, col, n, out);
        return;
    case SB_DRAFTER_TENSOR_embed_tokens:
        embedding_row(&p, row, col, n, out);
        return;
    default:
        norm_row(&p, tensor, col, n, out);
    }
}
