#include "ref/run/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/machine.h"
#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "ref/model/take.h"

/* Reads config.json of a folder. */
static sb_status load_config(const char *folder, sb_config *out, sb_error *err)
{
    char *path = sb_path_join(folder, "config.json");
    sb_status status =
        path ? sb_config_load(path, out, err) : sb_fail(err, SB_ERR_MEMORY, "out of memory");
    free(path);
    return status;
}

static sb_status open_pager(sb_model *model, sb_error *err)
{
    const uint64_t most = sb_machine_memory() / 100 * SB_RESIDENT_PERCENT;
    model->pager = sb_pager_new(model->weights, &model->config);
    if (!model->pager)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory");
    if (most && sb_pager_bytes(model->pager) > most)
        sb_pager_limit(model->pager, most);
    else
        sb_pager_large(model->pager);
    return SB_OK;
}

sb_status sb_model_open_overlaid(const char *folder, const char *const *overlays, size_t count,
                                 sb_model **out, sb_error *err)
{
    sb_model *model = sb_alloc(1, sizeof *model);
    if (!model)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory");
    sb_status status = sb_checkpoint_open(folder, &model->checkpoint, err);
    if (!status)
        status = load_config(sb_checkpoint_folder(model->checkpoint), &model->config, err);
    if (!status)
        status = sb_declared_load(sb_checkpoint_folder(model->checkpoint), &model->declared, err);
    for (size_t i = 0; i < count && !status; i++)
        status = sb_take_overlay_text(model->checkpoint, overlays[i], err);
    if (!status)
        status = sb_take_head(model->checkpoint, &model->config, err);
    if (!status)
        status = sb_weights_bind(model->checkpoint, &model->config, model->declared,
                                 &model->weights, err);
    if (!status)
        status = open_pager(model, err);
    if (status) {
        sb_model_close(model);
        return status;
    }
    *out = model;
    return SB_OK;
}

sb_status sb_model_open(const char *folder, sb_model **out, sb_error *err)
{
    return sb_model_open_overlaid(folder, NULL, 0, out, err);
}

void sb_model_close(sb_model *model)
{
    if (!model)
        return;
    sb_pager_free(model->pager);
    sb_weights_free(model->weights);
    sb_declared_free(model->declared);
    if (model->checkpoint)
        sb_checkpoint_close(model->checkpoint);
    free(model);
}

int sb_model_has_mtp(const sb_model *model)
{
    return model->weights->storage.has_mtp && model->config.mtp_layers > 0;
}
