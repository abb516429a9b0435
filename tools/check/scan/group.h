/* group.h - findings that repeat: the first few one by one, then the number of the others.
 *
 * 10^5 tensors can have the same fault. Findings with the same key form a group. After
 * SB_GROUP_TOLD findings of a group only their number is kept, and one more line reports it. */
#ifndef SB_CHECK_GROUP_H
#define SB_CHECK_GROUP_H

#include "tools/check/read/check.h"

enum { SB_GROUP_TOLD = 4 };

typedef struct sb_groups {
    struct sb_group *rows;
    size_t count;
} sb_groups;

/* As sb_check_find. key names the group within the check: the kind of fault and the kind of
 * tensor. */
void sb_group_find(sb_groups *groups, sb_check *check, unsigned number, sb_level level,
                   const char *tensor, const char *key, const char *format, ...) SB_PRINTF(7, 8);

/* Reports for each group how many findings were left out, and frees the groups. */
void sb_groups_end(sb_groups *groups, sb_check *check);

/* Check 9 for a unit of the declared kind: compares its scales, and those of its inputs, with the
 * declaration (stored.c). */
void sb_check_stored(sb_check *check, sb_groups *groups, const sb_unit *unit,
                     const sb_declaration *declaration);

/* Check 9 for keys of the configuration that contradict each other, reported where the
 * configuration is read. */
void sb_check_stored_layers(sb_check *check);

#endif
