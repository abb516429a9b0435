/* voice_force.c - every value of the head, from the recorded values it is made of.
 *
 * T-17: "lies in the ball of the reference arithmetic" - so both sides are bounded by it. One
 * difference remains: mtp.py rounds the routed sum and the gated shared expert before it adds them.
 * If our side may sum in any order (run->ours), its ball is that of the library. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/ops/param.h"
#include "tests/hf/voice.h"

#define LAYER "mtp.layers.0."

/* The recorded rows of the current call. Entries up to t belong to the sequence, the others to the
 * drafts after t. A call never has both. */
static const float *recorded(const voice_run *run, const char *tap)
{
    char name[160];
    int drafting = run->first > run->entry;
    if (drafting)
        snprintf(name, sizeof name, "draft.%zu.%s", run->entry, tap);
    else
        snprintf(name, sizeof name, "prime.%s", tap);
    const sb_tensor *t = hf_find(&run->v->fixture, "%s", name);
    if (!t) {
        fprintf(stderr, "%s has no %s\n", run->v->fixture.name, name);
        abort();
    }
    size_t row = drafting ? run->first - run->entry - 1 : run->first;
    return hf_values(&run->f->arena, t) + row * hf_row_size(t);
}

/* The same for all entries up to the last one of the call: (first + rows, size). */
static float *recorded_so_far(voice_run *run, const char *tap, size_t size)
{
    size_t count = run->first + run->rows;
    float *all = hf_floats(&run->f->arena, count * size);
    voice_run row = *run;
    for (size_t e = 0; e < count; e++) {
        row.first = e;
        memcpy(all + e * size, recorded(&row, tap), size * sizeof *all);
    }
    return all;
}

static const sb_config *config_of(const voice_run *run)
{
    return &run->v->fixture.model->config;
}

/* the input of the embedding norm. */
static float *embedded(voice_run *run)
{
    const sb_weights *w = run->v->fixture.model->weights;
    size_t H = config_of(run)->hidden_size;
    float *rows = hf_floats(&run->f->arena, run->rows * H);
    for (size_t i = 0; i < run->rows; i++) {
        size_t e = run->first + i, t = run->entry;
        uint32_t token =
            e <= t ? run->v->next[e] : (uint32_t)run->v->draft_ids[t * VOICE_DRAFTS + e - t - 1];
        sb_param_row(&run->f->knobs, &w->embed_tokens, token, rows + i * H);
    }
    return rows;
}

/* R-21, S-8: the hidden vector of the trunk; for drafts, the output of mtp.norm of the draft
 * before. */
static const float *fed(voice_run *run)
{
    voice_run before = *run;
    if (run->first <= run->entry)
        return voice_values(run->v, "hidden") + run->first * config_of(run)->hidden_size;
    before.first--;
    return recorded(&before, "mtp.norm");
}

/* "the embedding half first" */
static float *joined(voice_run *run)
{
    size_t H = config_of(run)->hidden_size;
    const float *e = recorded(run, "mtp.pre_fc_norm_embedding");
    const float *n = recorded(run, "mtp.pre_fc_norm_hidden");
    float *both = hf_floats(&run->f->arena, 2 * run->rows * H);
    for (size_t i = 0; i < run->rows; i++) {
        memcpy(both + 2 * i * H, e + i * H, H * sizeof *both);
        memcpy(both + (2 * i + 1) * H, n + i * H, H * sizeof *both);
    }
    return both;
}

/* half 0 of every head of q_proj is the query, half 1 the gate. */
static float *half_of(voice_run *run, size_t half)
{
    size_t hd = config_of(run)->head_dim, heads = run->rows * config_of(run)->heads;
    const float *packed = recorded(run, LAYER "self_attn.q_proj");
    float *out = hf_floats(&run->f->arena, heads * hd);
    for (size_t i = 0; i < heads; i++)
        memcpy(out + i * hd, packed + (2 * i + half) * hd, hd * sizeof *out);
    return out;
}

/* The value being compared, and its balls. */
typedef struct value {
    voice_run *run;
    forced_out out;
    const sb_arithmetic *ar[2]; /* of our side, of the recording */
    sb_ball *ball[2];
    const sb_knobs *knobs[2];
} value;

#define BOTH(value, op, ...)                                                                       \
    for (int side = 0; side < 2; side++)                                                           \
    forced_status((value)->run->f,                                                                 \
                  sb_bound_##op((value)->ar[side], (value)->knobs[side],                           \
                                &(const sb_##op##_args){__VA_ARGS__}, (value)->ball[side], NULL))

static forced_op norm(const value *v, const sb_matrix *weight, const float *in)
{
    size_t n = weight->cols;
    BOTH(v, rmsnorm, .in = in, .weight = weight, .rows = v->out.count / n, .n = n,
         .eps = config_of(v->run)->eps_f32);
    return FORCED_rmsnorm;
}

static forced_op linear(const value *v, const sb_matrix *weight, const float *in)
{
    BOTH(v, linear, .weight = weight, .in = in, .rows = v->run->rows);
    return FORCED_linear;
}

static forced_op add(const value *v, const float *a, const float *b)
{
    BOTH(v, add, .a = a, .b = b, .count = v->out.count);
    return FORCED_add;
}

static forced_op rope(const value *v, const float *in, size_t heads)
{
    const sb_config *c = config_of(v->run);
    float *x = hf_floats(&v->run->f->arena, v->out.count);
    uint32_t *at = hf_alloc(&v->run->f->arena, v->run->rows, sizeof *at);
    memcpy(x, in, v->out.count * sizeof *x);
    for (size_t i = 0; i < v->run->rows; i++)
        at[i] = (uint32_t)(v->run->first + i); /* K-26: entry t has position t */
    BOTH(v, rope, .x = x, .rows = v->run->rows, .heads = heads, .hd = c->head_dim,
         .rd = c->rotary_dim, .theta = c->rope_theta, .position = {at, at, at},
         .section = c->has_mrope ? c->mrope_section : NULL);
    return FORCED_rope;
}

static forced_op core(const value *v)
{
    const sb_config *c = config_of(v->run);
    size_t kv = (size_t)c->kv_heads * c->head_dim;
    BOTH(v, attention, .q = recorded(v->run, LAYER "self_attn.q_rope"),
         .keys = recorded_so_far(v->run, LAYER "self_attn.k_rope", kv),
         .values = recorded_so_far(v->run, LAYER "self_attn.v_proj", kv), .rows = v->run->rows,
         .first = v->run->first, .heads = c->heads, .kv_heads = c->kv_heads, .hd = c->head_dim);
    return FORCED_attention;
}

static uint32_t *chosen(const value *v, size_t count)
{
    const float *shown = recorded(v->run, LAYER "mlp.router_ids");
    uint32_t *ids = hf_alloc(&v->run->f->arena, count, sizeof *ids);
    for (size_t i = 0; i < count; i++)
        ids[i] = (uint32_t)shown[i] % config_of(v->run)->experts;
    return ids;
}

static forced_op router(const value *v)
{
    const sb_config *c = config_of(v->run);
    BOTH(v, router, .logits = recorded(v->run, LAYER "mlp.gate"), .rows = v->run->rows,
         .experts = c->experts, .kept = c->experts_per_token, .renormalise = c->norm_topk_prob,
         .ids = chosen(v, v->out.count));
    return FORCED_router;
}

static void feed_forward(const value *v, int side, sb_mlp_kind kind, const sb_matrix *const w[3],
                         const float *in, size_t rows, sb_ball *out)
{
    forced_status(v->run->f, sb_bound_feed_forward(v->ar[side], v->knobs[side], kind, w[0], w[1],
                                                   w[2], in, rows, out));
}

/* R-17, with the experts' outputs as far as they were recorded. */
static forced_op combine(const value *v, const sb_layer *layer)
{
    const sb_config *c = config_of(v->run);
    size_t k = c->experts_per_token, H = c->hidden_size, rows = v->run->rows;
    const float *y = recorded(v->run, LAYER "post_attention_layernorm");
    const float *weights = recorded(v->run, LAYER "mlp.router_weights");
    const float *logit = recorded(v->run, LAYER "mlp.shared_expert_gate");
    const float *shared_out = recorded(v->run, LAYER "mlp.shared_expert");
    const uint32_t *ids = chosen(v, rows * k);
    sb_ball *expert = hf_alloc(&v->run->f->arena, k * H, sizeof *expert);
    sb_ball *shared = hf_alloc(&v->run->f->arena, H, sizeof *shared);
    for (size_t i = 0; i < 2 * rows; i++) {
        size_t t = i / 2;
        int side = (int)(i % 2);
        const sb_moe_combine_args args = {.weights = weights + t * k,
                                          .ids = ids + t * k,
                                          .shared_logit = logit[t],
                                          .kept = k,
                                          .n = H};
        for (size_t slot = 0; slot < k; slot++) {
            const sb_expert *e = &layer->experts[ids[t * k + slot]];
            feed_forward(v, side, SB_MLP_expert,
                         (const sb_matrix *const[]){&e->gate, &e->up, &e->down}, y + t * H, 1,
                         expert + slot * H);
        }
        sb_balls_of(shared_out + t * H, H, shared);
        sb_bound_moe_combine_of(v->ar[side], v->knobs[side], &args, expert, shared,
                                v->ball[side] + t * H);
    }
    return FORCED_moe_combine;
}

/* An MLP with only its input and output recorded: the shared expert, or the dense one. */
static forced_op mlp(const value *v, const sb_matrix *gate, const sb_matrix *up,
                     const sb_matrix *down)
{
    const sb_matrix *const w[] = {gate, up, down};
    for (int side = 0; side < 2; side++)
        feed_forward(v, side, SB_MLP_dense, w, recorded(v->run, LAYER "post_attention_layernorm"),
                     v->run->rows, v->ball[side]);
    return FORCED_swiglu;
}

/* Compares whole numbers. */
static forced_op same(const value *v, const float *want)
{
    for (int side = 0; side < 2; side++)
        sb_balls_of(want, v->out.count, v->ball[side]);
    return FORCED_router;
}

static forced_op outside_the_layer(const value *v, const char *tap)
{
    const sb_weights *w = v->run->v->fixture.model->weights;
    if (strcmp(tap, "mtp.pre_fc_norm_embedding") == 0)
        return norm(v, &w->mtp[SB_ROLE_mtp_norm_embedding], embedded(v->run));
    if (strcmp(tap, "mtp.pre_fc_norm_hidden") == 0)
        return norm(v, &w->mtp[SB_ROLE_mtp_norm_hidden], fed(v->run));
    if (strcmp(tap, "mtp.fc") == 0)
        return linear(v, &w->mtp[SB_ROLE_mtp_fc], joined(v->run));
    if (strcmp(tap, "mtp.norm") == 0)
        return norm(v, &w->mtp[SB_ROLE_mtp_norm], recorded(v->run, LAYER "output"));
    if (strcmp(tap, "mtp.logits") == 0)
        return linear(v, &w->lm_head, recorded(v->run, "mtp.norm"));
    return FORCED_OPS;
}

static forced_op attention_value(const value *v, const sb_layer *l, const char *tap)
{
    const sb_config *c = config_of(v->run);
    voice_run *run = v->run;
    const float *in = recorded(run, LAYER "input_layernorm");
    if (strcmp(tap, "q_proj") == 0)
        return linear(v, &l->w[SB_ROLE_q_proj], in);
    if (strcmp(tap, "k_proj") == 0)
        return linear(v, &l->w[SB_ROLE_k_proj], in);
    if (strcmp(tap, "v_proj") == 0)
        return linear(v, &l->w[SB_ROLE_v_proj], in);
    if (strcmp(tap, "q_norm") == 0)
        return norm(v, &l->w[SB_ROLE_q_norm], half_of(run, 0));
    if (strcmp(tap, "k_norm") == 0)
        return norm(v, &l->w[SB_ROLE_k_norm], recorded(run, LAYER "self_attn.k_proj"));
    if (strcmp(tap, "q_rope") == 0)
        return rope(v, recorded(run, LAYER "self_attn.q_norm"), c->heads);
    if (strcmp(tap, "k_rope") == 0)
        return rope(v, recorded(run, LAYER "self_attn.k_norm"), c->kv_heads);
    if (strcmp(tap, "core_out") == 0)
        return core(v);
    if (strcmp(tap, "o_proj") == 0)
        return linear(v, &l->w[SB_ROLE_o_proj], recorded(run, LAYER "self_attn.gated"));
    if (strcmp(tap, "gated") != 0)
        return FORCED_OPS;
    BOTH(v, attn_gate, .in = recorded(run, LAYER "self_attn.core_out"), .gate = half_of(run, 1),
         .count = v->out.count);
    return FORCED_attn_gate;
}

static forced_op mlp_value(const value *v, const sb_layer *l, const char *tap, const float *want)
{
    const float *y = recorded(v->run, LAYER "post_attention_layernorm");
    if (strcmp(tap, "gate") == 0)
        return linear(v, &l->w[SB_ROLE_router], y);
    if (strcmp(tap, "shared_expert_gate") == 0)
        return linear(v, &l->w[SB_ROLE_shared_expert_gate], y);
    if (strcmp(tap, "router_ids") == 0)
        return same(v, want);
    if (strcmp(tap, "router_weights") == 0)
        return router(v);
    if (strcmp(tap, "shared_expert") == 0)
        return mlp(v, &l->w[SB_ROLE_shared_gate_proj], &l->w[SB_ROLE_shared_up_proj],
                   &l->w[SB_ROLE_shared_down_proj]);
    if (strcmp(tap, "out") != 0)
        return FORCED_OPS;
    if (l->experts)
        return combine(v, l);
    return mlp(v, &l->w[SB_ROLE_gate_proj], &l->w[SB_ROLE_up_proj], &l->w[SB_ROLE_down_proj]);
}

static const char *mlp_end(const voice_run *run)
{
    return config_of(run)->experts ? LAYER "mlp.out" : LAYER "mlp.down_proj";
}

static forced_op layer_value(const value *v, const char *tap, const float *want)
{
    voice_run *run = v->run;
    const sb_layer *l = &run->v->fixture.model->weights->layers[config_of(run)->layers];
    if (strncmp(tap, "self_attn.", 10) == 0)
        return attention_value(v, l, tap + 10);
    if (strncmp(tap, "mlp.", 4) == 0)
        return mlp_value(v, l, tap + 4, want);
    if (strcmp(tap, "input_layernorm") == 0)
        return norm(v, &l->w[SB_ROLE_input_layernorm], recorded(run, "mtp.fc"));
    if (strcmp(tap, "attn_residual") == 0)
        return add(v, recorded(run, "mtp.fc"), recorded(run, LAYER "self_attn.o_proj"));
    if (strcmp(tap, "post_attention_layernorm") == 0)
        return norm(v, &l->w[SB_ROLE_post_attention_layernorm],
                    recorded(run, LAYER "attn_residual"));
    if (strcmp(tap, "output") == 0)
        return add(v, recorded(run, LAYER "attn_residual"), recorded(run, mlp_end(run)));
    return FORCED_OPS;
}

size_t voice_steps(const voice *v)
{
    /* outside of the layer: 4; attention: 10; norms and sums: 4; a mixture: 6, a dense MLP: 1 */
    return 18 + (v->fixture.model->config.experts ? 6 : 1);
}

/* Taps that the other program does not record: the parts of packed queries, and the values inside
 * an MLP. */
static int recorded_nowhere(const char *name)
{
    static const char *const taps[] = {"self_attn.query",
                                       "self_attn.gate",
                                       "mlp.gate_proj",
                                       "mlp.up_proj",
                                       "mlp.swiglu",
                                       "mlp.shared_expert.gate_proj",
                                       "mlp.shared_expert.up_proj",
                                       "mlp.shared_expert.swiglu",
                                       "mlp.experts.gate_proj",
                                       "mlp.experts.up_proj",
                                       "mlp.experts.swiglu",
                                       "mlp.experts.down_proj"};
    for (size_t i = 0; i < sizeof taps / sizeof *taps; i++)
        if (strncmp(name, LAYER, strlen(LAYER)) == 0 && strcmp(name + strlen(LAYER), taps[i]) == 0)
            return 1;
    return 0;
}

void voice_force(voice_run *run, const char *name, float *data, size_t rows, size_t cols)
{
    forced *f = run->f;
    if (strcmp(name, "mtp.embed") == 0 || recorded_nowhere(name))
        return;
    const float *want = recorded(run, strcmp(name, LAYER "mlp.out") ? name : mlp_end(run));
    value v = {.run = run, .out = forced_room(f, rows * cols)};
    v.ar[0] = run->ours;
    v.ar[1] = &sb_arithmetic_reference;
    v.ball[0] = v.out.ours;
    v.ball[1] = v.out.theirs;
    v.knobs[0] = &f->knobs;
    v.knobs[1] = &f->their_knobs;
    memcpy(v.out.got, data, rows * cols * sizeof *data);
    int inside = strncmp(name, LAYER, strlen(LAYER)) == 0;
    forced_op op =
        inside ? layer_value(&v, name + strlen(LAYER), want) : outside_the_layer(&v, name);
    if (op == FORCED_OPS) {
        hf_forced_fail(f, FORCED_linear, "%s: nothing is known of this value", name);
        return;
    }
    forced_compare(f, op, name, &v.out, want, cols);
    memcpy(data, want, rows * cols * sizeof *data);
    run->steps++;
}
