#include "tools/check/graft/graft.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/file.h"
#include "ref/container/show.h"
#include "ref/model/config.h"
#include "ref/model/weights.h"
#include "tools/check/convert/plan.h"
#include "tools/check/graft/adapt.h"
#include "tools/check/graft/config.h"
#include "tools/check/graft/reindex.h"
#include "tools/check/graft/write.h"

/* Makes the result in memory from newly opened checkpoints. The plan keeps its own open
 * checkpoints, which hold the bytes of the result's tensors. */
static sb_status lay_over(const sb_graft_options *o, const sb_grafted *g, sb_checkpoint **out,
                          sb_error *err)
{
    const sb_take *take = &g->take;
    sb_checkpoint *other = NULL;
    sb_status status = o->as_bf16 ? SB_OK : sb_take_check_zeros(g->other, take, err);
    if (!status)
        status = sb_checkpoint_open(o->source, out, err);
    if (!status)
        status = sb_checkpoint_open(o->other, &other, err);
    return status ? status
                  : sb_checkpoint_overlay(*out, take->dropped, other, take->taken,
                                          take->taken_count, err);
}

/* W-16, W-17 */
static sb_status adapt(const sb_graft_options *o, sb_grafted *g, sb_error *err)
{
    if (!o->as_bf16)
        return sb_graft_rename_scales(g, err);
    sb_status status = sb_graft_decode(g, o->round, err);
    if (!status && g->rounded &&
        !sb_graft_line(&g->notes, "%" PRIu64 " of %" PRIu64 " decoded values were rounded to BF16",
                       g->rounded, g->decoded))
        status = sb_fail(err, SB_ERR_MEMORY, "out of memory for a note");
    return status;
}

static sb_status write_text(const char *folder, const char *name, const char *text, sb_error *err)
{
    char *path = sb_path_join(folder, name);
    sb_status status = path ? sb_write_file(path, text, strlen(text), err)
                            : sb_fail(err, SB_ERR_MEMORY, "out of memory for a path");
    free(path);
    return status;
}

/* Writes both files even if unchanged, because sb_target_copy leaves them out. */
static sb_status write_configs(const sb_graft_config *c, const char *partial, sb_error *err)
{
    sb_status status = SB_OK;
    for (int i = 0; i < SB_DOC_COUNT && !status; i++) {
        const char *text = c->doc[i].new_text ? c->doc[i].new_text : c->doc[i].text;
        if (text)
            status = write_text(partial, sb_path_last(c->doc[i].path), text, err);
    }
    return status;
}

static sb_status copy_others(const sb_graft_options *o, const char *partial, sb_grafted *out,
                             sb_error *err)
{
    sb_conversion counted = {0};
    sb_status status = sb_target_copy(o->source, partial, &counted, err);
    out->copied = counted.files;
    for (size_t i = 0; i < counted.folder_count && !status; i++)
        if (!sb_graft_line(&out->notes, "left out: %s/, because it is a folder",
                           SB_SHOW(counted.folders[i])))
            status = sb_fail(err, SB_ERR_MEMORY, "out of memory for a note");
    sb_conversion_free(&counted);
    return status;
}

/* Checks that every tensor has its place in the model (M-4). SB_OK for a folder without
 * config.json. */
static sb_status bind(const char *folder, sb_error *err)
{
    sb_checkpoint *c = NULL;
    sb_declared *declared = NULL;
    sb_weights *weights = NULL;
    sb_config config;
    char *path = sb_path_join(folder, "config.json");
    if (!path)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a path");
    sb_status status = sb_checkpoint_open(folder, &c, err);
    if (!status)
        status = sb_config_load(path, &config, err);
    if (!status)
        status = sb_declared_load(folder, &declared, err);
    if (!status)
        status = sb_weights_bind(c, &config, declared, &weights, err);
    sb_weights_free(weights);
    sb_declared_free(declared);
    sb_checkpoint_close(c);
    free(path);
    return status;
}

/* W-10: "What could be read before can be read afterwards" */
static sb_status prove(const sb_graft_options *o, const char *partial, sb_error *err)
{
    sb_checkpoint *result = NULL;
    sb_error why;
    sb_status status = sb_checkpoint_open(partial, &result, err);
    sb_checkpoint_close(result);
    if (!status && bind(o->source, &why) == SB_OK)
        status = bind(partial, err);
    if (!status && o->verify)
        status = o->verify(o->verify_ctx, o->source, partial, err);
    return status;
}

/* W-12: "The index is the last file" */
static sb_status write_all(const sb_graft_options *o, const sb_graft_config *c, sb_target *target,
                           sb_grafted *out, sb_error *err)
{
    const char *partial = target->partial;
    sb_status status = sb_target_begin(target, NULL, err);
    if (!status)
        status = sb_graft_write(out, o, partial, err);
    if (!status)
        status = copy_others(o, partial, out, err);
    if (!status)
        status = write_configs(c, partial, err);
    if (!status)
        status = sb_graft_write_index(out, partial, err);
    if (!status)
        status = prove(o, partial, err);
    return status ? status : sb_target_commit(target, o->replace, NULL, err);
}

static sb_status plan(const sb_graft_options *o, sb_grafted *out, sb_graft_config *c,
                      sb_checkpoint **result, sb_error *err)
{
    sb_status status = sb_checkpoint_open(o->source, &out->base, err);
    if (!status)
        status = sb_checkpoint_open(o->other, &out->other, err);
    if (!status)
        status = sb_take_plan(out->base, out->other, o->take, o->take_count, &out->take, err);
    if (!status)
        status = adapt(o, out, err);
    if (!status)
        status = sb_graft_files(out, err);
    if (!status)
        status = lay_over(o, out, result, err);
    if (status)
        return status;
    *c = (sb_graft_config){.result = *result,
                           .prefix = sb_text_prefix(out->base),
                           .their_prefix = sb_text_prefix(out->other),
                           .changes = &out->changes,
                           .notes = &out->notes};
    return sb_graft_config_make(c, sb_checkpoint_folder(out->base),
                                sb_checkpoint_folder(out->other), err);
}

static sb_status plan_reindex(const sb_graft_options *o, sb_grafted *out, sb_graft_config *c,
                              sb_error *err)
{
    sb_status status = sb_reindex_open(o->source, out, err);
    if (!status)
        status = sb_graft_files(out, err);
    if (!status)
        status = sb_reindex_files(out, err);
    if (status)
        return status;
    *c = (sb_graft_config){.result = out->base,
                           .reindex = 1,
                           .prefix = sb_text_prefix(out->base),
                           .their_prefix = "",
                           .changes = &out->changes,
                           .notes = &out->notes};
    status = sb_graft_config_make(c, sb_checkpoint_folder(out->base), NULL, err);
    if (!status && !out->changes.count)
        status = sb_fail(err, SB_ERR_USAGE,
                         "%s: there is nothing to repair: the index has every tensor, and the "
                         "configuration declares the MTP head as it is stored",
                         SB_SHOW(o->source));
    return status;
}

sb_status sb_graft(const sb_graft_options *options, sb_grafted *out, sb_error *err)
{
    sb_graft_config config = {0};
    sb_checkpoint *result = NULL;
    sb_target target = {.fd = -1};
    sb_status status = SB_OK;
    *out = (sb_grafted){0};
    if (options->target)
        status = sb_target_check(options->source, options->target, options->replace, &target, err);
    if (!status && options->target && options->other &&
        sb_target_is(options->other, options->target))
        status =
            sb_fail(err, SB_ERR_USAGE,
                    "%s: is the checkpoint that tensors are taken from; graft never writes to it",
                    SB_SHOW(options->target));
    if (!status)
        status = options->reindex ? plan_reindex(options, out, &config, err)
                                  : plan(options, out, &config, &result, err);
    if (!status && !options->dry_run)
        status = write_all(options, &config, &target, out, err);
    sb_graft_config_free(&config);
    sb_checkpoint_close(result);
    sb_target_close(&target);
    return status;
}

void sb_grafted_free(sb_grafted *g)
{
    for (size_t i = 0; i < g->file_count; i++) {
        free(g->files[i].name);
        free(g->files[i].new_name);
    }
    free(g->files);
    sb_take_free(&g->take);
    free(g->made);
    sb_checkpoint_close(g->base);
    sb_checkpoint_close(g->other);
    sb_graft_lines_free(&g->changes);
    sb_graft_lines_free(&g->notes);
    *g = (sb_grafted){0};
}
