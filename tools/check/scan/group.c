#include "tools/check/scan/group.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"

/* A checkpoint has only a few different faults. Further groups are counted as one. */
enum { MAX_GROUPS = 256 };

typedef struct sb_group {
    unsigned number;
    sb_level level;
    char *key;
    size_t count;
    char *next; /* the first tensor that is only counted */
} sb_group;

static sb_group *group_of(sb_groups *groups, unsigned number, sb_level level, const char *key)
{
    if (groups->count >= MAX_GROUPS)
        key = "faults of several kinds";
    for (size_t i = 0; i < groups->count; i++) {
        sb_group *g = &groups->rows[i];
        if (g->number == number && g->level == level && strcmp(g->key, key) == 0)
            return g;
    }
    sb_group *grown = sb_realloc(groups->rows, groups->count + 1, sizeof *grown);
    if (!grown)
        return NULL;
    groups->rows = grown;
    sb_group *g = &grown[groups->count];
    *g = (sb_group){.number = number, .level = level, .key = sb_strdup(key)};
    groups->count += g->key != NULL;
    return g->key ? g : NULL;
}

void sb_group_find(sb_groups *groups, sb_check *check, unsigned number, sb_level level,
                   const char *tensor, const char *key, const char *format, ...)
{
    va_list args;
    if (!sb_check_wanted(check, number))
        return;
    sb_group *g = group_of(groups, number, level, key);
    if (!g) {
        check->findings.lost = 1;
        return;
    }
    if (g->count++ < SB_GROUP_TOLD) {
        va_start(args, format);
        sb_find_list(&check->findings, number, level, tensor, format, args);
        va_end(args);
        return;
    }
    if (g->next)
        sb_find_place(&check->findings, number, level, tensor);
    else if (!(g->next = sb_strdup(tensor)))
        check->findings.lost = 1;
}

void sb_groups_end(sb_groups *groups, sb_check *check)
{
    for (size_t i = 0; i < groups->count; i++) {
        sb_group *g = &groups->rows[i];
        if (g->next)
            sb_check_find(check, g->number, g->level, g->next,
                          "and %zu more, this one first, %zu in all: %s", g->count - SB_GROUP_TOLD,
                          g->count, SB_SHOW(g->key));
        free(g->key);
        free(g->next);
    }
    free(groups->rows);
    *groups = (sb_groups){0};
}
