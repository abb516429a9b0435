#include "tools/check/graft/reindex.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/checkpoint_parts.h"
#include "ref/container/show.h"
#include "ref/container/survey.h"
#include "tools/check/graft/config.h"

/* --- faults that no index can repair ---------------------------------------------------------- */

typedef struct telling {
    const char *folder;
    sb_status status; /* the first error */
    sb_error *err;
} telling;

/* W-14: "refused by name". Equal tensors in two files are handled later. */
static void tell(void *ctx, sb_problem problem, const char *file, const char *tensor,
                 const char *message)
{
    telling *t = ctx;
    if (t->status)
        return;
    if (problem <= SB_PROBLEM_UNREAD || problem == SB_PROBLEM_INDEX)
        t->status = sb_fail(t->err, SB_ERR_INPUT,
                            "%s/%s: %s; download it again: hf download REPO --include %s",
                            SB_SHOW(t->folder), SB_SHOW(file), message, SB_SHOW(file));
    else if (problem == SB_PROBLEM_TWIN_DIFFERS)
        t->status = sb_fail(
            t->err, SB_ERR_INPUT,
            "%s/%s: %s %s: only you can know which of them is right; remove one of the files",
            SB_SHOW(t->folder), SB_SHOW(file), SB_SHOW(tensor), message);
}

/* Refuses an index entry without a tensor: its file is missing, or it was never written. */
static sb_status find_lost(const sb_checkpoint *c, sb_error *err)
{
    const sb_index *index = sb_checkpoint_index(c);
    for (size_t i = 0; index && i < index->count; i++) {
        const sb_index_entry *e = &index->entries[i];
        if (!sb_checkpoint_find(c, e->tensor))
            return sb_fail(err, SB_ERR_INPUT,
                           "%s/%s: the index places %s there, but no file has it; download it: hf "
                           "download REPO --include %s",
                           SB_SHOW(sb_checkpoint_folder(c)), SB_SHOW(e->shard_name),
                           SB_SHOW(e->tensor), SB_SHOW(e->shard_name));
    }
    return SB_OK;
}

/* --- tensors missing in the index ------------------------------------------------------------- */

static int against_tensor(const void *key, const void *entry)
{
    return strcmp(key, ((const sb_index_entry *)entry)->tensor);
}

/* The file of a tensor by the index. Without an index engines read only model.safetensors. */
static const char *place_of(const sb_checkpoint *c, const char *tensor)
{
    const sb_index *index = sb_checkpoint_index(c);
    if (!index || !index->count)
        return NULL;
    const sb_index_entry *e =
        bsearch(tensor, index->entries, index->count, sizeof *index->entries, against_tensor);
    return e ? e->shard_name : NULL;
}

static int is_new(const sb_checkpoint *c, const sb_tensor *t)
{
    const char *file = sb_checkpoint_shard_name(c, t->shard);
    return sb_checkpoint_index(c) ? !place_of(c, t->name) : strcmp(file, SB_SINGLE_NAME) != 0;
}

int sb_reindex_is_new(const sb_checkpoint *c, const char *layer, const sb_found *found)
{
    for (unsigned p = 0; p < SB_PART_COUNT; p++)
        if (found->part[p] && is_new(c, found->part[p]))
            return 1;
    return strncmp(layer, "mtp.", 4) == 0 && found->container == SB_CONTAINER_plain;
}

/* Reports the tensors of a file that are not in the index, or that the index puts into another
 * file. */
static int tell_file(sb_grafted *g, uint32_t shard)
{
    const sb_checkpoint *c = g->base;
    const char *file = sb_checkpoint_shard_name(c, shard), *first[2] = {NULL, NULL};
    size_t count[2] = {0, 0};
    for (size_t i = 0; i < sb_checkpoint_count(c); i++) {
        const sb_tensor *t = sb_checkpoint_at(c, i);
        const char *place = place_of(c, t->name);
        int moved = place && strcmp(place, file) != 0;
        if (t->shard != shard || !(moved || is_new(c, t)))
            continue;
        first[moved] = count[moved]++ ? first[moved] : t->name;
    }
    for (int moved = 0; moved < 2; moved++)
        if (count[moved] &&
            !sb_graft_line(&g->changes, SB_INDEX_NAME ": + %zu tensors of %s%s, the first %s",
                           count[moved], SB_SHOW(file),
                           moved ? ", which the index places in another file" : "",
                           SB_SHOW(first[moved])))
            return 0;
    return 1;
}

sb_status sb_reindex_open(const char *folder, sb_grafted *out, sb_error *err)
{
    telling t = {folder, SB_OK, err};
    sb_error why;
    sb_status status = sb_checkpoint_survey(folder, tell, &t, &out->base, &why);
    if (t.status)
        return t.status;
    if (status)
        return sb_fail(err, status, "%s", why.text);
    if (strcmp(sb_checkpoint_path(out->base), sb_checkpoint_folder(out->base)) != 0)
        return sb_fail(err, SB_ERR_USAGE, "%s: is a file; --reindex expects a folder",
                       SB_SHOW(folder));
    status = find_lost(out->base, err);
    out->take.dropped = status ? NULL : sb_alloc(sb_checkpoint_count(out->base), 1);
    int good = out->take.dropped != NULL;
    for (uint32_t i = 0; i < sb_checkpoint_shards(out->base) && good; i++)
        good = tell_file(out, i);
    return status || good ? status : sb_fail(err, SB_ERR_MEMORY, "out of memory for an index");
}

/* --- tensors in two files --------------------------------------------------------------------- */

/* The first tensor of a file that is read from another file. */
static const char *twin_of(const sb_checkpoint *c, uint32_t shard)
{
    const sb_safetensors *file = &c->shards[shard].file;
    for (size_t i = 0; i < file->count; i++) {
        const sb_tensor *t = sb_checkpoint_find(c, file->tensors[i].name);
        if (t && t->shard != shard)
            return t->name;
    }
    return "";
}

sb_status sb_reindex_files(sb_grafted *g, sb_error *err)
{
    const sb_checkpoint *c = g->base;
    for (uint32_t i = 0; i < g->file_count; i++) {
        sb_graft_file *f = &g->files[i];
        if (f->stays == c->shards[i].file.count && f->stays)
            continue;
        if (f->stays)
            return sb_fail(err, SB_ERR_INPUT,
                           "%s/%s: %s is also in another file, with the same bytes, and this file "
                           "has tensors that no other file has. --reindex copies no tensors: "
                           "remove one of the two copies first",
                           SB_SHOW(sb_checkpoint_folder(c)), SB_SHOW(f->name),
                           SB_SHOW(twin_of(c, i)));
        f->action = SB_GRAFT_dropped;
        f->goes = c->shards[i].file.count;
        if (!sb_graft_line(&g->changes, "%s: left out, because other files have all of its tensors",
                           SB_SHOW(f->name)))
            return sb_fail(err, SB_ERR_MEMORY, "out of memory for an index");
    }
    return SB_OK;
}
