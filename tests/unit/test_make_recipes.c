/* test_make_recipes.c - the weights of the recipes: G-2, statistically or exactly, and G-3. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/formats/plain_row.h"
#include "ref/run/session.h"
#include "tests/lib/checkpoint.h"
#include "tools/make/fill.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
static const char *const presets[] = {"T1", "T2", "T3", "T4", "T5", "T5-raw", "T6"};

/* --- G-2: recipe mistakes --------------------------------------------------------------------- */

typedef struct moments {
    double mean, spread; /* spread: the root of the mean square distance from the mean */
    double low, high;
} moments;

/* The moments of rows first .. end-1 and columns from .. to-1. */
static moments of_part(const sb_matrix *m, uint32_t first, uint32_t end, uint32_t from, uint32_t to)
{
    double sum = 0, squares = 0, n = (double)(end - first) * (to - from);
    moments s = {.low = INFINITY, .high = -INFINITY};
    for (uint32_t i = first; i < end; i++) {
        float row[2048];
        sb_matrix_row(m, i, row);
        for (uint32_t j = from; j < to; j++) {
            sum += row[j];
            squares += (double)row[j] * row[j];
            s.low = fmin(s.low, row[j]);
            s.high = fmax(s.high, row[j]);
        }
    }
    s.mean = sum / n;
    s.spread = sqrt(fmax(0, squares / n - s.mean * s.mean));
    return s;
}

static moments of_matrix(const sb_matrix *m)
{
    return of_part(m, 0, m->rows, 0, m->cols);
}

static void check_between(const char *what, uint32_t layer, double value, double low, double high)
{
    if (!(value >= low && value <= high))
        fail_msg("%s of layer %u is %g, expected %g to %g", what, (unsigned)layer, value, low,
                 high);
}

static void check_norm(const char *what, uint32_t layer, const sb_matrix *m, double around)
{
    if (!m->data)
        return;
    double error = 6 * 0.3 / sqrt(m->cols);
    check_between(what, layer, of_matrix(m).mean, around - error, around + error);
    check_between(what, layer, of_matrix(m).spread, 0.2, 0.4);
}

/* G-2: "norm weights around 0 for zero-centred norms and around 1 for linear_attn.norm" and "a
 * final norm far from 0" */
static void check_norms(const sb_weights *w)
{
    check_norm("norm", w->layer_count, &w->final_norm, 1.5);
    check_norm("mtp norm", w->layer_count, &w->mtp[SB_ROLE_mtp_norm], 0);
    check_norm("mtp embedding norm", w->layer_count, &w->mtp[SB_ROLE_mtp_norm_embedding], 0);
    check_norm("mtp hidden norm", w->layer_count, &w->mtp[SB_ROLE_mtp_norm_hidden], 0);
    for (uint32_t i = 0; i < w->layer_count; i++) {
        const sb_matrix *m = w->layers[i].w;
        check_norm("input_layernorm", i, &m[SB_ROLE_input_layernorm], 0);
        check_norm("post_attention_layernorm", i, &m[SB_ROLE_post_attention_layernorm], 0);
        check_norm("q_norm", i, &m[SB_ROLE_q_norm], 0);
        check_norm("k_norm", i, &m[SB_ROLE_k_norm], 0);
        check_norm("linear_attn.norm", i, &m[SB_ROLE_linear_norm], 1);
    }
}

/* Pairs of projections, and the number of pairs with the same scale. */
typedef struct pairs {
    size_t count, alike;
} pairs;

static void compare_scales(pairs *p, const sb_matrix *a, const sb_matrix *b)
{
    if (!a->data || !b->data || a->rows * a->cols < 4096) /* too few values to tell scales apart */
        return;
    double ratio = of_matrix(a).spread / of_matrix(b).spread * sqrt((double)a->cols / b->cols);
    p->count++;
    p->alike += fabs(ratio - 1) < 0.01;
}

/* G-2: "every projection at a scale of its own", drawn from 0.7 to 1.4 times the usual one, so that
 * only few are nearly equal by chance. The pairs are projections that could be swapped: the same
 * one of a later layer or of the next expert, and gate and up, key and value of one layer. */
static void check_scales(const sb_model *model)
{
    const sb_weights *w = model->weights;
    pairs all = {0, 0}, experts = {0, 0};
    for (uint32_t i = 0; i < w->layer_count; i++) {
        const sb_layer *layer = &w->layers[i];
        compare_scales(&all, &layer->w[SB_ROLE_k_proj], &layer->w[SB_ROLE_v_proj]);
        compare_scales(&all, &layer->w[SB_ROLE_gate_proj], &layer->w[SB_ROLE_up_proj]);
        for (unsigned role = 0; role < SB_ROLE_COUNT; role++)
            for (uint32_t k = i + 1; k < w->layer_count; k++)
                compare_scales(&all, &layer->w[role], &w->layers[k].w[role]);
        for (uint32_t e = 0; e < model->config.experts; e++) {
            const sb_expert *x = &layer->experts[e];
            const sb_expert *next = &layer->experts[(e + 1) % model->config.experts];
            compare_scales(&experts, &x->gate, &x->up);
            compare_scales(&experts, &x->gate, &next->gate);
            compare_scales(&experts, &x->up, &next->up);
            compare_scales(&experts, &x->down, &next->down);
        }
    }
    assert_true(all.count > 20);
    check_between("share of one scale", 0, (double)all.alike / (double)all.count, 0, 0.08);
    if (experts.count)
        check_between("share of experts of one scale", 0,
                      (double)experts.alike / (double)experts.count, 0, 0.08);
}

/* G-2: "A_log = log U(0.01, 16), dt_bias that reaches below -17, around 0 and above 20" */
static void check_decay(const sb_weights *w)
{
    size_t low = 0, middle = 0, high = 0;
    for (uint32_t i = 0; i < w->layer_count; i++) {
        const sb_matrix *m = w->layers[i].w;
        if (!m[SB_ROLE_A_log].data)
            continue;
        moments a = of_matrix(&m[SB_ROLE_A_log]);
        check_between("A_log", i, a.low, log(0.01) - 0.02, a.high);
        check_between("A_log", i, a.high, a.low + 0.01, log(16) + 0.02);
        check_between("a", i,
                      of_matrix(&m[SB_ROLE_in_proj_a]).spread * sqrt(m[SB_ROLE_in_proj_a].cols),
                      0.2, 0.8); /* so that a does not hide dt_bias */
        float bias[64];
        sb_matrix_row(&m[SB_ROLE_dt_bias], 0, bias);
        for (uint32_t h = 0; h < m[SB_ROLE_dt_bias].cols; h++) {
            low += bias[h] < -20;
            middle += fabsf(bias[h]) <= 1;
            high += bias[h] > 22;
        }
    }
    assert_true(low > 0 && middle > 0 && high > 0);
}

/* G-2: "a query and a key head near 0": the recipe defines which heads these are. */
static void check_heads(const sb_model *model)
{
    const sb_config *c = &model->config;
    uint32_t near = 0, zero = 0;
    for (uint32_t i = 0, linear = 0; i < c->layers; i++) {
        const sb_matrix *qkv = &model->weights->layers[i].w[SB_ROLE_in_proj_qkv];
        if (c->layer_is_full[i])
            continue;
        double usual = of_part(qkv, 2 * sb_config_key_width(c), qkv->rows, 0, qkv->cols).spread;
        for (uint32_t h = 0; h < 2 * c->lin_k_heads; h++) {
            double ratio =
                of_part(qkv, h * c->lin_k_dim, (h + 1) * c->lin_k_dim, 0, qkv->cols).spread / usual;
            if (ratio > 0.5)
                continue;
            near += ratio > 0;
            zero += ratio == 0;
            if (ratio > 0) /* a query head in the first linear layer, a key head in the second */
                check_between("near 0", i, ratio, 1e-4, 4e-4);
            assert_true(ratio == 0 ? h < c->lin_k_heads
                                   : h == (linear == 0 ? 0 : 2 * c->lin_k_heads - 1));
        }
        linear++;
    }
    assert_int_equal(near, 2);
    assert_int_equal(zero, 1);
}

/* G-2: "duplicated router rows in one layer": in the last but one of the trunk, in pairs in the
 * first half of the experts. In the other layers the last two rows are close, and no two are
 * equal. */
static void check_routers(const sb_model *model)
{
    const sb_config *c = &model->config;
    for (uint32_t i = 0; i < model->weights->layer_count && c->experts; i++) {
        const sb_matrix *m = &model->weights->layers[i].w[SB_ROLE_router];
        size_t row_bytes = m->cols * sb_format_bytes(m->format), equal = 0;
        for (uint32_t a = 0; a < m->rows; a++)
            for (uint32_t b = a + 1; b < m->rows; b++)
                if (memcmp(sb_matrix_row_bytes(m, a), sb_matrix_row_bytes(m, b), row_bytes) == 0) {
                    assert_true(a % 2 == 0 && b == a + 1 && b < m->rows / 2);
                    equal++;
                }
        assert_int_equal(equal, i == c->layers - 2 ? m->rows / 4 : 0);
        float a[512], b[512];
        double distance = 0, size = 0;
        sb_matrix_row(m, m->rows - 2, a);
        sb_matrix_row(m, m->rows - 1, b);
        for (uint32_t j = 0; j < m->cols; j++) {
            distance += (double)(a[j] - b[j]) * (a[j] - b[j]);
            size += (double)a[j] * a[j];
        }
        int close = i != c->layers - 2;
        check_between("last router rows", i, sqrt(distance / size), close ? 1e-3 : 0.5,
                      close ? 0.02 : 5);
    }
}

static void check_halves(const sb_model *model)
{
    const sb_config *c = &model->config;
    for (uint32_t i = 0; i < model->weights->layer_count; i++) {
        const sb_matrix *z = &model->weights->layers[i].w[SB_ROLE_in_proj_z];
        const sb_matrix *q = &model->weights->layers[i].w[SB_ROLE_q_proj];
        if (z->data)
            check_between("z", i, of_matrix(z).spread * sqrt(z->cols), 4, 9);
        for (uint32_t h = 0; q->data && h < c->heads; h++) {
            uint32_t hd = c->head_dim, at = 2 * h * hd;
            double query = of_part(q, at, at + hd, 0, q->cols).spread;
            double gate = of_part(q, at + hd, at + 2 * hd, 0, q->cols).spread;
            check_between("gate against query", i, gate / query, 1.9, 2.1);
        }
    }
    const sb_matrix *fc = &model->weights->mtp[SB_ROLE_mtp_fc];
    double embedding = of_part(fc, 0, fc->rows, 0, fc->cols / 2).spread;
    double hidden = of_part(fc, 0, fc->rows, fc->cols / 2, fc->cols).spread;
    check_between("embedding half of fc", 0, embedding / hidden, 2.9, 3.1);
}

TEST(test_mistakes)
{
    for (size_t p = 0; p < COUNT(presets); p++) {
        sb_model *model =
            test_model_open(test_checkpoint("recipes", presets[p], "mistakes", "bf16", "text"));
        check_norms(model->weights);
        check_scales(model);
        check_decay(model->weights);
        check_heads(model);
        check_routers(model);
        check_halves(model);
        sb_model_close(model);
    }
}

/* --- G-3: recipe predictable ------------------------------------------------------------------ */

static sb_codes codes_of(const sb_model *model, uint32_t used)
{
    sb_codes codes;
    assert_int_equal(sb_codes_new(42, used, sb_make_code_length(&model->config), &codes, NULL),
                     SB_OK);
    return codes;
}

/* The used ids form one cycle: a generated id comes back only after all the others. */
static void check_cycle(const sb_codes *codes)
{
    uint32_t at = 0, steps = 0;
    do {
        assert_int_equal(codes->previous[codes->next[at]], at);
        at = codes->next[at];
        steps++;
    } while (at != 0 && steps <= codes->used);
    assert_int_equal(steps, codes->used);
}

/* The id whose head row has the largest product with x. */
static uint32_t winner(const sb_matrix *head, const double *x)
{
    uint32_t best = 0;
    double most = -INFINITY;
    for (uint32_t v = 0; v < head->rows; v++) {
        float row[512];
        double sum = 0;
        sb_matrix_row(head, v, row);
        for (uint32_t j = 0; j < head->cols; j++)
            sum += x[j] * row[j];
        if (sum > most) {
            most = sum;
            best = v;
        }
    }
    return best;
}

/* embedding_of: the embedding row of a token. through: the same row after an MTP norm and one half
 * of mtp.fc. */
static void embedding_of(const sb_weights *w, uint32_t token, double *out)
{
    float x[512];
    sb_matrix_row(&w->embed_tokens, token, x);
    for (uint32_t i = 0; i < w->embed_tokens.cols; i++)
        out[i] = x[i];
}

static void through(const sb_weights *w, uint32_t token, int hidden, double *out)
{
    const sb_matrix *fc = &w->mtp[SB_ROLE_mtp_fc];
    float x[512], row[1024], norm[512];
    sb_matrix_row(&w->embed_tokens, token, x);
    sb_matrix_row(&w->mtp[hidden ? SB_ROLE_mtp_norm_hidden : SB_ROLE_mtp_norm_embedding], 0, norm);
    for (uint32_t i = 0; i < fc->rows; i++) {
        out[i] = 0;
        sb_matrix_row(fc, i, row);
        for (uint32_t j = 0; j < fc->rows; j++)
            out[i] +=
                (double)x[j] * (1 + (double)norm[j]) * (double)row[(uint32_t)hidden * fc->rows + j];
    }
}

/* The token whose code has the smallest product with x: AHEAD stores codes with the opposite
 * sign. */
static uint32_t named(const sb_codes *codes, const double *x)
{
    uint32_t best = 0;
    double least = INFINITY;
    for (uint32_t t = 0; t < codes->used; t++) {
        double sum = 0;
        for (uint32_t i = 0; i < codes->length; i++)
            sum += x[3 * i + 2] * (double)sb_code(codes, t, i);
        if (sum < least) {
            least = sum;
            best = t;
        }
    }
    return best;
}

/* Without layers, the head of the model finds the successor of every token in its embedding. After
 * mtp.fc, some tokens are found from their own embedding, the others from the embedding of the
 * token before. G-3: "A part of the bigram can be predicted by the MTP head only from the
 * hidden half of its input" */
static void check_halves_of_fc(const sb_model *model, const sb_codes *codes)
{
    const sb_weights *w = model->weights;
    double x[512], both = 0, embedding = 0, hidden = 0;
    for (uint32_t t = 0; t < codes->used; t++) {
        embedding_of(w, t, x);
        assert_int_equal(winner(&w->lm_head, x), codes->next[t]);
        through(w, t, 0, x);
        int from_embedding = named(codes, x) == t;
        through(w, codes->previous[t], 1, x);
        int from_hidden = named(codes, x) == t;
        embedding += from_embedding;
        hidden += from_hidden;
        both += from_embedding && from_hidden;
    }
    check_between("share of the embedding half", 0, embedding / codes->used, 0.35, 0.5);
    check_between("share of the hidden half", 0, hidden / codes->used, 0.3, 0.45);
    check_between("share of both", 0, both / codes->used, 0, 0.01);
}

/* The whole model predicts the successor. Rows of unused ids exist and never win. */
static void check_greedy(const sb_model *model, const sb_codes *codes)
{
    enum { STEPS = 24 };
    const sb_config *c = &model->config;
    float *logits = malloc(c->vocab_size * sizeof *logits);
    sb_session *session = NULL;
    uint32_t token = 5, hits = 0;
    assert_non_null(logits);
    assert_int_equal(sb_session_new(model, NULL, &session, NULL), SB_OK);
    for (int i = 0; i < STEPS; i++) {
        assert_int_equal(sb_session_feed(session, &token, 1, NULL), SB_OK);
        assert_int_equal(sb_session_logits(session, 0, logits, NULL), SB_OK);
        uint32_t greedy = sb_greedy(logits, c->vocab_size);
        hits += greedy == codes->next[token];
        for (uint32_t v = codes->used; v < c->vocab_size; v++)
            assert_true(logits[v] < 0.5f * logits[greedy]);
        check_between("largest logit", 0, logits[greedy], 5, 40);
        token = codes->next[token];
    }
    assert_true(hits >= STEPS - 1);
    free(logits);
    sb_session_free(session);
    for (uint32_t v = codes->used; v < c->vocab_size; v++) {
        assert_true(of_part(&model->weights->embed_tokens, v, v + 1, 0, c->hidden_size).spread > 0);
        assert_true(of_part(&model->weights->lm_head, v, v + 1, 0, c->hidden_size).spread > 0);
    }
}

TEST(test_predictable)
{
    static const uint32_t used[] = {377, 1024, 384, 384, 384, 384, 997};
    for (size_t p = 0; p < COUNT(presets); p++) {
        sb_model *model =
            test_model_open(test_checkpoint("recipes", presets[p], "predictable", "bf16", "text"));
        sb_codes codes = codes_of(model, used[p]);
        check_cycle(&codes);
        if (!model->config.tie_embeddings && used[p] < 400) /* large ones are slow and similar */
            check_halves_of_fc(model, &codes);
        check_greedy(model, &codes);
        sb_codes_free(&codes);
        sb_model_close(model);
    }
}
