#include "tools/judge/fault/planted.h"

#include <string.h>

const sb_planted *sb_planted_find(const sb_planted *list, const char *name)
{
    while (list->name && strcmp(list->name, name) != 0)
        list++;
    return list->name ? list : NULL;
}
