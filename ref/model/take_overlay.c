/* take_overlay.c - overlays modules on a checkpoint, in memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "ref/container/show.h"
#include "ref/model/declared.h"
#include "ref/model/layers.h"
#include "ref/model/take.h"

/* Added layers whose zero points do not show their convention. */
typedef struct zeros {
    const sb_checkpoint *other;
    const sb_take *take;
    sb_declared *declared;
    int loaded;
} zeros;

static sb_status load(zeros *z, sb_error *err)
{
    const char *folder = sb_checkpoint_folder(z->other);
    char *path = sb_path_join(folder, "config.json");
    sb_status status = path ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for a path");
    if (!status && access(path, F_OK) == 0)
        status = sb_declared_load(folder, &z->declared, err);
    free(path);
    return status;
}

/* W-8: "Zero points that only a declaration marks as those of v2 are refused" */
static sb_status refuse_v2(zeros *z, const char *layer, sb_error *err)
{
    sb_declaration d = {0};
    sb_status status = z->loaded++ ? SB_OK : load(z, err);
    if (!status)
        status = sb_declared_for(z->declared, layer, &d, err);
    if (!status && d.packing == SB_PACKED_GPTQ_V2)
        status = sb_fail(err, SB_ERR_UNSUPPORTED,
                         "%s: only its configuration declares the gptq_v2 zero points of %s, and "
                         "an overlay does not include the configuration",
                         SB_SHOW(sb_checkpoint_path(z->other)), SB_SHOW(layer));
    return status;
}

static sb_status check_each(zeros *z, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t i = 0; i < z->take->taken_count && !status; i++) {
        char layer[SB_MAX_TENSOR_NAME];
        sb_found found;
        const char *name = z->take->taken[i].from->name;
        size_t n = strlen(name);
        if (n < 8 || strcmp(name + n - 8, ".qweight") != 0 ||
            !sb_layer_of(name, layer, sizeof layer))
            continue;
        status = sb_detect_unjudged(z->other, layer, 0, 0, 0, &found, err);
        if (!status && found.zeros_open)
            status = refuse_v2(z, layer, err);
    }
    return status;
}

sb_status sb_take_check_zeros(const sb_checkpoint *other, const sb_take *take, sb_error *err)
{
    zeros z = {.other = other, .take = take};
    sb_status status = check_each(&z, err);
    sb_declared_free(z.declared);
    return status;
}

sb_status sb_take_overlay(sb_checkpoint *base, sb_checkpoint *other, const char *const *patterns,
                          size_t count, sb_error *err)
{
    sb_take take;
    sb_status status = sb_take_plan(base, other, patterns, count, &take, err);
    if (!status)
        status = sb_take_check_zeros(other, &take, err);
    if (status)
        sb_checkpoint_close(other);
    else
        status =
            sb_checkpoint_overlay(base, take.dropped, other, take.taken, take.taken_count, err);
    sb_take_free(&take);
    return status;
}

sb_status sb_take_overlay_text(sb_checkpoint *base, const char *text, sb_error *err)
{
    const char *equals = strchr(text, '=');
    sb_checkpoint *other = NULL;
    if (!equals || equals == text || !equals[1])
        return sb_fail(err, SB_ERR_USAGE, "overlay \"%s\"; expected PATTERN=FOLDER", SB_SHOW(text));
    char *pattern = sb_strdup(text);
    if (!pattern)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a pattern");
    pattern[equals - text] = '\0';
    sb_status status = sb_checkpoint_open(equals + 1, &other, err);
    const char *patterns[1] = {pattern};
    if (!status)
        status = sb_take_overlay(base, other, patterns, 1, err);
    free(pattern);
    return status;
}

/* W-7: "An MTP head that was laid over a model without one brings its number of layers" */
sb_status sb_take_head(const sb_checkpoint *checkpoint, sb_config *config, sb_error *err)
{
    const sb_tensor *fc = sb_checkpoint_find(checkpoint, "mtp.fc.weight");
    const char *origin = fc ? sb_checkpoint_origin(checkpoint, fc) : NULL;
    sb_config theirs;
    if (!origin || config->mtp_layers)
        return SB_OK;
    char *path = sb_path_join(origin, "config.json");
    sb_status status =
        path ? sb_config_load(path, &theirs, err) : sb_fail(err, SB_ERR_MEMORY, "out of memory");
    free(path);
    if (!status) {
        config->mtp_declared = 1;
        config->mtp_layers = theirs.mtp_layers;
    }
    return status;
}
