/* elsewhere.c - small functions that several checks of names and shapes share. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ref/container/checkpoint_parts.h"
#include "ref/container/file.h"
#include "tools/check/judge/held_by.h"
#include "tools/check/judge/structure.h"

int sb_elsewhere(const sb_check *check, const char *name)
{
    const sb_index *index = sb_checkpoint_index(check->self.checkpoint);
    size_t n = strlen(name), from = 0, to = index ? index->count : 0;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (strcmp(index->entries[middle].tensor, name) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    for (; index && from < index->count; from++) {
        const sb_index_entry *e = &index->entries[from];
        if (strncmp(e->tensor, name, n) != 0)
            return 0;
        if ((e->tensor[n] == '\0' || e->tensor[n] == '.' || e->tensor[n] == '_') &&
            !sb_file_is_open(check->self.checkpoint, e->shard_name))
            return 1;
    }
    return 0;
}

int sb_is_whole(const sb_check *check)
{
    const sb_index *index = sb_checkpoint_index(check->self.checkpoint);
    for (size_t i = 0; index && i < index->shard_count; i++)
        if (!sb_file_is_open(check->self.checkpoint, index->shards[i].name))
            return 0;
    return 1;
}

int sb_is_fragment(const sb_check *check)
{
    const sb_checkpoint *c = check->self.checkpoint;
    if (strcmp(sb_checkpoint_path(c), sb_checkpoint_folder(c)) == 0)
        return 0;
    char *path = sb_path_join(sb_checkpoint_folder(c), SB_INDEX_NAME);
    int yes = path && access(path, F_OK) == 0;
    free(path);
    return yes;
}

const sb_unit *sb_unit_of(const sb_units *units, const sb_expected *x)
{
    char layer[SB_NAME_MAX];
    const sb_unit *unit = sb_unit_named(units, x->name);
    size_t n = strlen(x->name), tail = strlen(".weight");
    if (unit || n < tail || strcmp(x->name + n - tail, ".weight") != 0)
        return unit;
    snprintf(layer, sizeof layer, "%.*s", (int)(n - tail), x->name);
    return sb_unit_named(units, layer);
}

size_t sb_experts_prefix(const sb_expected *x)
{
    static const char mark[] = "mlp.experts.";
    const char *at = strstr(x->name, mark);
    return at ? (size_t)(at - x->name) + sizeof mark - 1 : 0;
}

const char *sb_show_shape(unsigned rank, const uint64_t *shape, sb_shape_text *room)
{
    size_t used = 0;
    room->text[used++] = '[';
    for (unsigned d = 0; d < rank; d++)
        used += (size_t)snprintf(room->text + used, sizeof room->text - used, "%s%" PRIu64,
                                 d ? ", " : "", shape[d]);
    snprintf(room->text + used, sizeof room->text - used, "]");
    return room->text;
}
