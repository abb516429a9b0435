#include "ref/run/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/file.h"

sb_status sb_model_open(const char *folder, sb_model **out, sb_error *err)
{
    sb_model *model = sb_alloc(1, sizeof *model);
    char *config_path = NULL;
    sb_status status = SB_ERR_MEMORY;
    if (!model)
        return sb_fail(err, status, "out of memory");
    status = sb_checkpoint_open(folder, &model->checkpoint, err);
    if (!status) {
        config_path = sb_path_join(sb_checkpoint_folder(model->checkpoint), "config.json");
        status = config_path ? sb_config_load(config_path, &model->config, err)
                             : sb_fail(err, SB_ERR_MEMORY, "out of memory");
    }
    if (!status)
        status = sb_declared_load(sb_checkpoint_folder(model->checkpoint), &model->declared, err);
    if (!status)
        status = sb_weights_bind(model->checkpoint, &model->config, model->declared,
                                 &model->weights, err);
    free(config_path);
    if (status) {
        sb_model_close(model);
        return status;
    }
    *out = model;
    return SB_OK;
}

void sb_model_close(sb_model *model)
{
    if (!model)
        return;
    sb_weights_free(model->weights);
    sb_declared_free(model->declared);
    if (model->checkpoint)
        sb_checkpoint_close(model->checkpoint);
    free(model);
}
