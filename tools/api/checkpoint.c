/* checkpoint.c - checkpoints of ref/samebit.h. */
#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/container/digest.h"
#include "ref/container/show.h"
#include "ref/formats/containers.h"
#include "tools/api/api.h"

/* --- life ------------------------------------------------------------------------------------- */

samebit_status samebit_checkpoint_open(const char *folder, const char *const *overlays,
                                       size_t overlay_count, samebit_checkpoint **out,
                                       samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(folder && out && (overlays || !overlay_count));
    for (size_t i = 0; i < overlay_count; i++)
        SB_API_NEED(overlays[i]);
    sb_error *error = sb_api_error(err);
    sb_status status = sb_api_start(error);
    samebit_checkpoint *c = status ? NULL : sb_alloc(1, sizeof *c);
    if (!status && !c)
        status = sb_fail(error, SB_ERR_MEMORY, "out of memory");
    if (!status)
        status = sb_model_open_overlaid(folder, overlays, overlay_count, &c->model, error);
    if (!status && pthread_mutex_init(&c->lock, NULL) != 0) {
        status = sb_fail(error, SB_ERR_IO, "pthread_mutex_init failed");
        sb_model_close(c->model);
    }
    if (status) {
        free(c);
        return sb_api_status(status);
    }
    atomic_init(&c->holders, 1);
    *out = c;
    return SAMEBIT_OK;
}

samebit_checkpoint *sb_api_hold(samebit_checkpoint *checkpoint)
{
    atomic_fetch_add(&checkpoint->holders, 1);
    return checkpoint;
}

void samebit_checkpoint_close(samebit_checkpoint *checkpoint)
{
    if (!checkpoint || atomic_fetch_sub(&checkpoint->holders, 1) > 1)
        return;
    sb_model_close(checkpoint->model);
    pthread_mutex_destroy(&checkpoint->lock);
    free(checkpoint);
}

samebit_status samebit_checkpoint_resident_limit(samebit_checkpoint *checkpoint, uint64_t bytes,
                                                 samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(checkpoint);
    sb_pager_limit(checkpoint->model->pager, bytes);
    return SAMEBIT_OK;
}

/* --- configuration ---------------------------------------------------------------------------- */

#define CONFIG_FIELDS(X)                                                                           \
    X(hidden_size, c->hidden_size)                                                                 \
    X(layers, c->layers)                                                                           \
    X(vocab_size, c->vocab_size)                                                                   \
    X(max_position_embeddings, c->max_position_embeddings)                                         \
    X(rms_norm_eps, c->eps)                                                                        \
    X(heads, c->heads)                                                                             \
    X(kv_heads, c->kv_heads)                                                                       \
    X(head_dim, c->head_dim)                                                                       \
    X(rotary_dim, c->rotary_dim)                                                                   \
    X(rope_theta, c->rope_theta)                                                                   \
    X(conv_kernel, c->conv_kernel)                                                                 \
    X(lin_k_heads, c->lin_k_heads)                                                                 \
    X(lin_v_heads, c->lin_v_heads)                                                                 \
    X(lin_k_dim, c->lin_k_dim)                                                                     \
    X(lin_v_dim, c->lin_v_dim)                                                                     \
    X(experts, c->experts)                                                                         \
    X(experts_per_token, c->experts_per_token)                                                     \
    X(moe_intermediate, c->moe_intermediate)                                                       \
    X(shared_intermediate, c->shared_intermediate)                                                 \
    X(intermediate, c->intermediate)                                                               \
    X(norm_topk_prob, c->norm_topk_prob)                                                           \
    X(tie_embeddings, c->tie_embeddings)                                                           \
    X(mtp_layers, c->mtp_layers)                                                                   \
    X(has_mtp, sb_model_has_mtp(model))

#define CONFIG_NAME(name, value) #name,
static const char *const config_names[] = {CONFIG_FIELDS(CONFIG_NAME)};
enum { CONFIG_COUNT = sizeof config_names / sizeof *config_names };

size_t samebit_config_count(void)
{
    return CONFIG_COUNT;
}

const char *samebit_config_name(size_t i)
{
    return i < CONFIG_COUNT ? config_names[i] : NULL;
}

samebit_status samebit_checkpoint_config(const samebit_checkpoint *checkpoint, const char *name,
                                         double *out, samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(checkpoint && name && out);
    const sb_model *model = checkpoint->model;
    const sb_config *c = &model->config;
#define CONFIG_VALUE(field, value) (double)(value),
    const double values[] = {CONFIG_FIELDS(CONFIG_VALUE)};
    for (size_t i = 0; i < CONFIG_COUNT; i++)
        if (strcmp(name, config_names[i]) == 0) {
            *out = values[i];
            return SAMEBIT_OK;
        }
    return sb_api_status(sb_fail(sb_api_error(err), SB_ERR_USAGE,
                                 "there is no number '%s' in a configuration", SB_SHOW(name)));
}

const char *samebit_checkpoint_family(const samebit_checkpoint *checkpoint)
{
    return checkpoint ? sb_family_name(checkpoint->model->config.family) : NULL;
}

const char *samebit_checkpoint_architecture(const samebit_checkpoint *checkpoint)
{
    return checkpoint ? checkpoint->model->config.architecture : NULL;
}

int samebit_checkpoint_is_full(const samebit_checkpoint *checkpoint, uint32_t layer)
{
    return checkpoint && layer < checkpoint->model->config.layers &&
           checkpoint->model->config.layer_is_full[layer];
}

size_t samebit_storage_count(void)
{
    return SB_CONTAINER_COUNT;
}

samebit_status samebit_checkpoint_storage(const samebit_checkpoint *checkpoint, size_t i,
                                          const char **name, uint64_t *layers, uint64_t *bytes,
                                          samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(checkpoint && name && layers && bytes);
    if (i >= SB_CONTAINER_COUNT)
        return sb_api_status(sb_fail(sb_api_error(err), SB_ERR_USAGE,
                                     "form %zu of %d in which layers are stored", i,
                                     (int)SB_CONTAINER_COUNT));
    *name = sb_container_name((sb_container)i);
    *layers = checkpoint->model->weights->stored[i].layers;
    *bytes = checkpoint->model->weights->stored[i].bytes;
    return SAMEBIT_OK;
}

/* --- tensors ---------------------------------------------------------------------------------- */

static void show_tensor(const sb_tensor *t, samebit_array *out)
{
    _Static_assert((int)SAMEBIT_RANK == (int)SB_MAX_RANK, "one rank");
    sb_api_array(out, t->name, t->dtype, NULL, t->rank, t->shape, t->data, t->bytes);
}

size_t samebit_checkpoint_tensors(const samebit_checkpoint *checkpoint)
{
    return checkpoint ? sb_checkpoint_count(checkpoint->model->checkpoint) : 0;
}

samebit_status samebit_checkpoint_tensor(const samebit_checkpoint *checkpoint, size_t i,
                                         samebit_array *out, samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(checkpoint && out);
    size_t count = samebit_checkpoint_tensors(checkpoint);
    if (i >= count)
        return sb_api_status(
            sb_fail(sb_api_error(err), SB_ERR_USAGE, "tensor %zu of %zu", i, count));
    show_tensor(sb_checkpoint_at(checkpoint->model->checkpoint, i), out);
    return SAMEBIT_OK;
}

samebit_status samebit_checkpoint_find(const samebit_checkpoint *checkpoint, const char *name,
                                       samebit_array *out, samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(checkpoint && name && out);
    const sb_tensor *t = sb_checkpoint_find(checkpoint->model->checkpoint, name);
    if (!t)
        return sb_api_status(sb_fail(sb_api_error(err), SB_ERR_USAGE,
                                     "there is no tensor '%s' in this checkpoint", SB_SHOW(name)));
    show_tensor(t, out);
    return SAMEBIT_OK;
}

sb_status sb_api_checkpoint_digest(samebit_checkpoint *checkpoint, sb_digest *out, sb_error *err)
{
    sb_status status = SB_OK;
    pthread_mutex_lock(&checkpoint->lock);
    if (!checkpoint->digest.hex[0])
        status = sb_checkpoint_digest(checkpoint->model->checkpoint, &checkpoint->digest, err);
    if (status)
        checkpoint->digest.hex[0] = '\0';
    else
        *out = checkpoint->digest;
    pthread_mutex_unlock(&checkpoint->lock);
    return status;
}

samebit_status samebit_checkpoint_digest(samebit_checkpoint *checkpoint, samebit_digest *out,
                                         samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(checkpoint && out);
    sb_digest digest;
    sb_status status = sb_api_checkpoint_digest(checkpoint, &digest, sb_api_error(err));
    if (!status)
        sb_api_digest(out, &digest);
    return sb_api_status(status);
}
