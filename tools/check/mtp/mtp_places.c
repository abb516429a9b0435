#include "tools/check/mtp/mtp_places.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/container/overlay.h"
#include "ref/container/show.h"
#include "ref/container/survey.h"
#include "tools/check/read/word.h"

static int is_head(const char *name)
{
    return strncmp(name, "mtp.", 4) == 0;
}

static int against_tensor(const void *key, const void *entry)
{
    return strcmp(key, ((const sb_index_entry *)entry)->tensor);
}

/* 1 if engines find the tensor. Without an index, they read only model.safetensors. */
static int is_indexed(const sb_checkpoint *c, const sb_tensor *t)
{
    const sb_index *index = sb_checkpoint_index(c);
    if (!index)
        return strcmp(sb_checkpoint_shard_name(c, t->shard), "model.safetensors") == 0;
    return index->count && bsearch(t->name, index->entries, index->count, sizeof *index->entries,
                                   against_tensor) != NULL;
}

/* 0 if the checkpoint is a single file, or the index is damaged: then nothing tells where tensors
 * are. */
static int has_places(const sb_check *check)
{
    const sb_checkpoint *c = check->self.checkpoint;
    return strcmp(sb_checkpoint_path(c), sb_checkpoint_folder(c)) == 0 &&
           !check->told[SB_PROBLEM_INDEX];
}

static void find_unindexed(const sb_check *check, sb_mtp_places *out)
{
    const sb_checkpoint *c = check->self.checkpoint;
    uint32_t first = UINT32_MAX;
    for (size_t i = 0; i < sb_checkpoint_count(c); i++) {
        const sb_tensor *t = sb_checkpoint_at(c, i);
        if (!is_head(t->name) || t->shard >= sb_checkpoint_own_shards(c) || is_indexed(c, t))
            continue;
        out->several_files |= out->unindexed > 0 && t->shard != first;
        if (!out->unindexed++ || t->shard < first) {
            first = t->shard;
            out->unindexed_file = sb_checkpoint_shard_name(c, first);
            out->unindexed_name = t->name;
        }
    }
}

/* Adds a file that holds tensors of the head. If it does not fit into the text, nothing is
 * added. */
static void add_file(sb_mtp_places *out, const char *file, int missing)
{
    sb_files_text *text = &out->files;
    size_t names = strlen(text->names), patterns = strlen(text->patterns);
    const char *shown = SB_SHOW(file), *quoted = SB_QUOTED(file);
    if (!out->absent_files++)
        out->missing = missing;
    if (names + strlen(shown) + 3 < sizeof text->names)
        snprintf(text->names + names, sizeof text->names - names, "%s%s", names ? ", " : "", shown);
    if (patterns + strlen(quoted) + 12 < sizeof text->patterns)
        snprintf(text->patterns + patterns, sizeof text->patterns - patterns, " --include %s",
                 quoted);
}

static void find_absent(const sb_check *check, sb_mtp_places *out)
{
    const sb_checkpoint *c = check->self.checkpoint;
    const sb_index *index = sb_checkpoint_index(c);
    for (size_t k = 0; index && k < index->shard_count; k++) {
        const char *file = index->shards[k].name;
        sb_file_state state = sb_file_state_of(c, file);
        uint64_t before = out->absent;
        for (size_t i = 0; state != SB_FILE_OPEN && i < index->count; i++) {
            const sb_index_entry *e = &index->entries[i];
            out->absent += e->shard == k && is_head(e->tensor) && !sb_checkpoint_find(c, e->tensor);
        }
        if (out->absent > before)
            add_file(out, file, state == SB_FILE_MISSING);
    }
}

void sb_mtp_places_of(const sb_check *check, sb_mtp_places *out)
{
    *out = (sb_mtp_places){.unindexed = 0};
    if (!has_places(check))
        return;
    find_unindexed(check, out);
    find_absent(check, out);
}
