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
#include "ref/model/eagle3_tensors.h"
#include "ref/model/probe.h"
#include "ref/run/eagle3_weights.h"
#include "ref/run/state_text.h"

typedef struct binder {
    sb_eagle3 *d;
    const sb_model *target;
    const char *folder;
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

/* M-12: "A norm that is there without its flag, or the other way round, is refused" */
static void check_others(binder *b)
{
    const sb_eagle3_config *c = &b->d->config;
    static const char words[] =
        "is there, but config.json has no flag for it: engines would ignore it";
    if (!c->norm_before_fc && find(b, "input_norm.weight"))
        refuse(b, "input_norm.weight", words);
    for (uint32_t i = c->fc_norm ? c->states : 0; i < SB_EAGLE3_STATES; i++) {
        char name[32];
        snprintf(name, sizeof name, "fc_norm.%u.weight", (unsigned)i);
        if (find(b, name))
            refuse(b, name, words);
    }
    if (find(b, "mask_hidden"))
        refuse(b, "mask_hidden", "belongs to a parallel drafter, which is not computed");
    if (find(b, "midlayer.hidden_norm.weight") && find(b, "layers.0.hidden_norm.weight"))
        refuse(b, "midlayer.hidden_norm.weight", "stands beside layers.0.hidden_norm.weight");
}

/* Where a tensor is kept; NULL for the maps of the vocabulary. */
static sb_matrix *place_of(sb_eagle3 *d, const sb_eagle3_tensor *t)
{
    switch (t->part) {
    case SB_EAGLE3_fc:
        return &d->fc;
    case SB_EAGLE3_input_norm:
        return &d->input_norm;
    case SB_EAGLE3_fc_norm:
        return &d->fc_norm[t->state];
    case SB_EAGLE3_hidden_norm:
        return &d->hidden_norm;
    case SB_EAGLE3_layer:
        return &d->layer.w[t->role];
    case SB_EAGLE3_norm:
        return &d->weights.final_norm;
    case SB_EAGLE3_embed_tokens:
        return &d->weights.embed_tokens;
    case SB_EAGLE3_lm_head:
        return &d->weights.lm_head;
    case SB_EAGLE3_d2t:
    case SB_EAGLE3_t2d:
        return NULL;
    }
    return NULL;
}

/* M-12: "Without an embedding of its own it reads the target's, and so its head where the
 * vocabularies are equal" */
static const sb_matrix *target_of(const binder *b, const sb_eagle3_tensor *t)
{
    const sb_weights *target = b->target->weights;
    const sb_matrix *m = t->part == SB_EAGLE3_embed_tokens ? &target->embed_tokens
                         : t->part == SB_EAGLE3_lm_head    ? &target->lm_head
                                                           : NULL;
    return m && m->rows == t->shape[0] && m->cols == t->shape[1] ? m : NULL;
}

static sb_status bind_one(void *ctx, const sb_eagle3_tensor *t, sb_error *err)
{
    binder *b = ctx;
    sb_matrix *place = place_of(b->d, t);
    const sb_matrix *target = target_of(b, t);
    (void)err;
    if (!place)
        return SB_OK;
    if (target && !find(b, t->name))
        *place = *target;
    else if ((t->part == SB_EAGLE3_embed_tokens || t->part == SB_EAGLE3_lm_head) &&
             !find(b, t->name))
        refuse(b, t->name, "is missing, and the target's has another shape");
    else
        bind(b, t->name, t->rank == 1 ? 1 : t->shape[0], t->shape[t->rank - 1], place);
    return b->status;
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
    uint32_t usual[3];
    sb_eagle3_usual_states(L, usual);
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
        check_others(&b);
        b.status = b.status ? b.status
                            : sb_eagle3_each_tensor(&d->config, sb_eagle3_layer_name(d->checkpoint),
                                                    bind_one, &b, err);
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

sb_status sb_eagle3_identify(const sb_eagle3 *d, sb_eagle3_identity *out, sb_error *err)
{
    sb_state_drafter_text(&d->config, d->after, out->text);
    return sb_checkpoint_digest(d->checkpoint, &out->checkpoint, err);
}

sb_session_states sb_eagle3_states(const sb_eagle3 *d)
{
    return (sb_session_states){d->after, d->config.states};
}
