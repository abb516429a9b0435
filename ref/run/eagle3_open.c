/* eagle3_open.c - binds the tensors of a drafter, and checks them against its target (M-12). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/file.h"
#include "ref/container/show.h"
#include "ref/model/probe.h"
#include "ref/run/eagle3_weights.h"

typedef struct binder {
    sb_eagle3 *d;
    const sb_model *target;
    const char *folder, *layer; /* layer: "midlayer." or "layers.0." */
    sb_error *err;
    sb_status status; /* the first error */
} binder;

static sb_status refuse(binder *b, const char *name, const char *words)
{
    if (!b->status)
        b->status =
            sb_fail(b->err, SB_ERR_INPUT, "%s: tensor %s %s", SB_SHOW(b->folder), name, words);
    return b->status;
}

static const sb_tensor *find(const binder *b, const char *name)
{
    return sb_checkpoint_find(b->d->checkpoint, name);
}

static void refuse_shape(binder *b, const sb_tensor *t, uint64_t rows, uint64_t cols)
{
    char found[128] = "", words[240];
    for (unsigned d = 0; d < t->rank; d++)
        snprintf(found + strlen(found), sizeof found - strlen(found), "%s%" PRIu64, d ? ", " : "",
                 t->shape[d]);
    snprintf(words, sizeof words,
             "has shape [%s]; expected [%" PRIu64 ", %" PRIu64 "] from config.json", found, rows,
             cols);
    refuse(b, t->name, words);
}

/* A tensor of this shape; rows 1 is a vector, which may also be stored as (1, n). */
static void bind(binder *b, const char *name, uint64_t rows, uint64_t cols, sb_matrix *out)
{
    const sb_tensor *t = find(b, name);
    sb_format format;
    if (b->status)
        return;
    if (!t) {
        refuse(b, name, "is missing");
        return;
    }
    const int vector = rows == 1 && t->rank == 1 && t->shape[0] == cols;
    if (!vector && !(t->rank == 2 && t->shape[0] == rows && t->shape[1] == cols)) {
        refuse_shape(b, t, rows, cols);
        return;
    }
    if (!sb_plain_format(t->dtype, &format)) {
        b->status = sb_fail(b->err, SB_ERR_UNSUPPORTED,
                            "%s: tensor %s has dtype %s; a drafter is read in BF16, F16 and F32",
                            SB_SHOW(b->folder), name, sb_dtype_name(t->dtype));
        return;
    }
    *out = (sb_matrix){
        .data = t->data, .format = format, .rows = (uint32_t)rows, .cols = (uint32_t)cols};
}

static void bind_layer(binder *b, const char *name, uint64_t rows, uint64_t cols, sb_role role)
{
    char whole[96];
    snprintf(whole, sizeof whole, "%s%s.weight", b->layer, name);
    bind(b, whole, rows, cols, &b->d->layer.w[role]);
}

/* M-12: "A norm that is there without its flag, or the other way round, is refused" */
static void check_norm(binder *b, const char *name, int wanted)
{
    if (!wanted && find(b, name))
        refuse(b, name, "is there, but config.json has no flag for it: engines would ignore it");
}

static void bind_norms(binder *b)
{
    sb_eagle3 *d = b->d;
    const sb_eagle3_config *c = &d->config;
    const uint64_t n = (uint64_t)c->states * c->target_hidden;
    check_norm(b, "input_norm.weight", c->norm_before_fc);
    if (c->norm_before_fc)
        bind(b, "input_norm.weight", 1, n, &d->input_norm);
    for (uint32_t i = 0; i < SB_EAGLE3_STATES; i++) {
        char name[32];
        snprintf(name, sizeof name, "fc_norm.%u.weight", (unsigned)i);
        const int wanted = c->fc_norm && i < c->states;
        check_norm(b, name, wanted);
        if (wanted)
            bind(b, name, 1, c->target_hidden, &d->fc_norm[i]);
    }
    if (find(b, "mask_hidden"))
        refuse(b, "mask_hidden", "belongs to a parallel drafter, which is not computed");
}

static void bind_decoder(binder *b)
{
    const sb_config *c = &b->d->config.layer;
    const uint64_t H = c->hidden_size, Qd = sb_config_query_width(c), KVd = sb_config_kv_width(c);
    char name[96];
    if (find(b, "midlayer.hidden_norm.weight") && find(b, "layers.0.hidden_norm.weight"))
        refuse(b, "midlayer.hidden_norm.weight", "stands beside layers.0.hidden_norm.weight");
    b->layer = find(b, "midlayer.hidden_norm.weight") ? "midlayer." : "layers.0.";
    snprintf(name, sizeof name, "%shidden_norm.weight", b->layer);
    bind(b, name, 1, H, &b->d->hidden_norm);
    bind_layer(b, "input_layernorm", 1, H, SB_ROLE_input_layernorm);
    bind_layer(b, "post_attention_layernorm", 1, H, SB_ROLE_post_attention_layernorm);
    bind_layer(b, "self_attn.q_proj", Qd, 2 * H, SB_ROLE_q_proj);
    bind_layer(b, "self_attn.k_proj", KVd, 2 * H, SB_ROLE_k_proj);
    bind_layer(b, "self_attn.v_proj", KVd, 2 * H, SB_ROLE_v_proj);
    bind_layer(b, "self_attn.o_proj", H, Qd, SB_ROLE_o_proj);
    bind_layer(b, "mlp.gate_proj", c->intermediate, H, SB_ROLE_gate_proj);
    bind_layer(b, "mlp.up_proj", c->intermediate, H, SB_ROLE_up_proj);
    bind_layer(b, "mlp.down_proj", H, c->intermediate, SB_ROLE_down_proj);
    if (b->d->config.qk_norm) {
        bind_layer(b, "self_attn.q_norm", 1, c->head_dim, SB_ROLE_q_norm);
        bind_layer(b, "self_attn.k_norm", 1, c->head_dim, SB_ROLE_k_norm);
    }
}

/* M-12: "Without an embedding of its own it reads the target's, and so its head where the
 * vocabularies are equal" */
static void bind_ends(binder *b)
{
    sb_eagle3 *d = b->d;
    const sb_eagle3_config *c = &d->config;
    const sb_weights *target = b->target->weights;
    const uint64_t V = c->layer.vocab_size, H = c->layer.hidden_size;
    bind(b, "fc.weight", H, (uint64_t)c->states * c->target_hidden, &d->fc);
    bind(b, "norm.weight", 1, H, &d->weights.final_norm);
    if (find(b, "embed_tokens.weight"))
        bind(b, "embed_tokens.weight", V, H, &d->weights.embed_tokens);
    else if (H == target->embed_tokens.cols && V == target->embed_tokens.rows)
        d->weights.embed_tokens = target->embed_tokens;
    else
        refuse(b, "embed_tokens.weight", "is missing, and the target's has another shape");
    if (find(b, "lm_head.weight"))
        bind(b, "lm_head.weight", c->draft_vocab, H, &d->weights.lm_head);
    else if (H == target->lm_head.cols && c->draft_vocab == target->lm_head.rows)
        d->weights.lm_head = target->lm_head;
    else
        refuse(b, "lm_head.weight", "is missing, and the target's has another shape");
}

/* M-12: "d2t has offsets: row d of the head is token d + d2t[d]" */
static void bind_vocabulary(binder *b)
{
    sb_eagle3 *d = b->d;
    const uint32_t Vd = d->config.draft_vocab, V = d->config.layer.vocab_size;
    const sb_tensor *t = find(b, "d2t");
    d->target_of = sb_alloc(Vd, sizeof *d->target_of);
    if (!d->target_of)
        b->status = b->status ? b->status : sb_fail(b->err, SB_ERR_MEMORY, "out of memory");
    if (!t && Vd != V)
        refuse(b, "d2t", "is missing: which tokens the head drafts is not known");
    if (t && (t->rank != 1 || t->shape[0] != Vd || t->dtype != SB_DTYPE_I64))
        refuse(b, "d2t", "is not I64 with a number for each row of the head");
    for (uint32_t i = 0; i < Vd && !b->status; i++) {
        const int64_t id = (int64_t)i + (t ? (int64_t)sb_load_u64(t->data + 8 * (size_t)i) : 0);
        char words[120];
        if (id < 0 || id >= (int64_t)V || (i && id <= (int64_t)d->target_of[i - 1])) {
            snprintf(words, sizeof words,
                     "makes row %u token %" PRId64 "; expected ascending ids below %u", (unsigned)i,
                     id, (unsigned)V);
            refuse(b, "d2t", words);
            return;
        }
        d->target_of[i] = (uint32_t)id;
    }
}

/* M-13: "Absent numbers mean 2, L/2 and L - 3" */
static void resolve_states(binder *b)
{
    sb_eagle3 *d = b->d;
    const uint32_t L = b->target->config.layers;
    const uint32_t usual[] = {2, L / 2, L >= 3 ? L - 3 : 0};
    for (uint32_t i = 0; i < d->config.states && !b->status; i++) {
        d->after[i] = d->config.has_after ? d->config.after[i] : usual[i];
        if (d->after[i] > L || (i && d->after[i] <= d->after[i - 1]))
            b->status = sb_fail(b->err, SB_ERR_INPUT,
                                "%s: state %u is taken after %u layers of a target of %u; expected "
                                "ascending numbers up to %u%s",
                                SB_SHOW(b->folder), (unsigned)i, (unsigned)d->after[i], (unsigned)L,
                                (unsigned)L,
                                d->config.has_after ? "" : ", which config.json must give here");
    }
}

static void check_target(binder *b)
{
    const sb_eagle3_config *c = &b->d->config;
    const sb_config *t = &b->target->config;
    if (c->target_hidden == t->hidden_size && c->layer.vocab_size == t->vocab_size)
        return;
    b->status =
        sb_fail(b->err, SB_ERR_INPUT,
                "%s: is for a target of hidden_size %u and vocab_size %u; this one has %u "
                "and %u",
                SB_SHOW(b->folder), (unsigned)c->target_hidden, (unsigned)c->layer.vocab_size,
                (unsigned)t->hidden_size, (unsigned)t->vocab_size);
}

sb_status sb_eagle3_open(const char *folder, const sb_model *target, sb_eagle3 **out, sb_error *err)
{
    sb_eagle3 *d = sb_alloc(1, sizeof *d);
    if (!d)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a drafter");
    binder b = {.d = d, .target = target, .folder = folder, .err = err};
    char *path = sb_path_join(folder, "config.json");
    b.status = path ? sb_eagle3_config_load(path, &d->config, err)
                    : sb_fail(err, SB_ERR_MEMORY, "out of memory for a path");
    free(path);
    if (!b.status)
        check_target(&b);
    if (!b.status)
        b.status = sb_checkpoint_open(folder, &d->checkpoint, err);
    if (!b.status)
        resolve_states(&b);
    if (!b.status) {
        bind_decoder(&b);
        bind_norms(&b);
        bind_ends(&b);
        bind_vocabulary(&b);
    }
    d->weights.layers = &d->layer;
    d->weights.layer_count = 1;
    d->model =
        (sb_model){.config = d->config.layer, .checkpoint = d->checkpoint, .weights = &d->weights};
    if (b.status) {
        sb_eagle3_close(d);
        return b.status;
    }
    *out = d;
    return SB_OK;
}

void sb_eagle3_close(sb_eagle3 *d)
{
    if (!d)
        return;
    if (d->checkpoint)
        sb_checkpoint_close(d->checkpoint);
    free(d->target_of);
    free(d);
}

const sb_eagle3_config *sb_eagle3_config_of(const sb_eagle3 *d)
{
    return &d->config;
}

const uint32_t *sb_eagle3_vocabulary(const sb_eagle3 *d)
{
    return d->target_of;
}

sb_session_states sb_eagle3_states(const sb_eagle3 *d)
{
    return (sb_session_states){d->after, d->config.states};
}
