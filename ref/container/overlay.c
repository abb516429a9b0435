#include "ref/container/overlay.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/checkpoint_parts.h"
#include "ref/container/show.h"

/* Lists the remaining tensors of base and the added tensors. Names of added tensors are copied,
 * because they may be new. */
static sb_status list_tensors(const sb_checkpoint *base, const unsigned char *dropped,
                              const sb_overlaid *taken, size_t count, sb_checkpoint *out,
                              sb_error *err)
{
    out->tensors = sb_alloc(base->count + count, sizeof *out->tensors);
    out->names = sb_realloc(NULL, base->name_count + count + 1, sizeof *out->names);
    if (!out->tensors || !out->names)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory for an overlay", SB_SHOW(base->path));
    for (size_t i = 0; i < base->count; i++)
        if (!dropped[i])
            out->tensors[out->count++] = base->tensors[i];
    for (size_t i = 0; i < count; i++) {
        char *name = sb_strdup(taken[i].name);
        if (!name)
            return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory for an overlay",
                           SB_SHOW(base->path));
        out->names[out->name_count++] = name;
        sb_tensor *t = &out->tensors[out->count++];
        *t = *taken[i].from;
        t->name = name;
        t->shard += (uint32_t)base->shard_count;
    }
    return SB_OK;
}

static int by_name(const void *left, const void *right)
{
    return strcmp(((const sb_tensor *)left)->name, ((const sb_tensor *)right)->name);
}

static sb_status sort_tensors(const sb_checkpoint *base, sb_checkpoint *out, sb_error *err)
{
    if (out->count == 0)
        return sb_fail(err, SB_ERR_INPUT, "%s: the overlay leaves no tensors", SB_SHOW(base->path));
    qsort(out->tensors, out->count, sizeof *out->tensors, by_name);
    for (size_t i = 0; i < out->count; i++) {
        if (i > 0 && strcmp(out->tensors[i].name, out->tensors[i - 1].name) == 0)
            return sb_fail(err, SB_ERR_INPUT, "%s: tensor \"%s\" would occur twice",
                           SB_SHOW(base->path), SB_SHOW(out->tensors[i].name));
        out->bytes += out->tensors[i].bytes;
    }
    return SB_OK;
}

/* Makes room for the files of both checkpoints, and sets the folder of the added files. */
static sb_status list_shards(const sb_checkpoint *base, sb_checkpoint *over, sb_checkpoint *out,
                             sb_error *err)
{
    out->shards = sb_alloc(base->shard_count + over->shard_count, sizeof *out->shards);
    int enough = out->shards != NULL;
    for (size_t i = 0; enough && i < over->shard_count; i++) {
        if (!over->shards[i].folder)
            over->shards[i].folder = sb_strdup(over->folder);
        enough = over->shards[i].folder != NULL;
    }
    return enough ? SB_OK
                  : sb_fail(err, SB_ERR_MEMORY, "%s: out of memory for an overlay",
                            SB_SHOW(base->path));
}

/* Moves the files to base. Nothing can fail from here on. */
static void move_in(sb_checkpoint *base, sb_checkpoint *over, sb_checkpoint *out)
{
    memcpy(out->shards, base->shards, base->shard_count * sizeof *out->shards);
    memcpy(out->shards + base->shard_count, over->shards, over->shard_count * sizeof *out->shards);
    if (base->name_count)
        memcpy(out->names + out->name_count, base->names, base->name_count * sizeof *out->names);
    free(base->shards);
    free(base->tensors);
    free(base->names);
    base->shards = out->shards;
    base->shard_count += over->shard_count;
    base->tensors = out->tensors;
    base->count = out->count;
    base->bytes = out->bytes;
    base->names = out->names;
    base->name_count += out->name_count;
    over->shard_count = 0;
}

sb_status sb_checkpoint_overlay(sb_checkpoint *base, const unsigned char *dropped,
                                sb_checkpoint *over, const sb_overlaid *taken, size_t count,
                                sb_error *err)
{
    sb_checkpoint out = {0};
    sb_status status = list_tensors(base, dropped, taken, count, &out, err);
    if (!status)
        status = sort_tensors(base, &out, err);
    if (!status)
        status = list_shards(base, over, &out, err);
    if (!status) {
        move_in(base, over, &out);
    } else {
        for (size_t i = 0; i < out.name_count; i++)
            free(out.names[i]);
        free(out.names);
        free(out.tensors);
        free(out.shards);
    }
    sb_checkpoint_close(over);
    return status;
}

const char *sb_checkpoint_origin(const sb_checkpoint *c, const sb_tensor *tensor)
{
    return c->shards[tensor->shard].folder;
}

size_t sb_checkpoint_own_shards(const sb_checkpoint *c)
{
    size_t n = 0;
    while (n < c->shard_count && !c->shards[n].folder)
        n++;
    return n;
}

const char *sb_checkpoint_shard_folder(const sb_checkpoint *c, uint32_t shard)
{
    return c->shards[shard].folder ? c->shards[shard].folder : c->folder;
}
