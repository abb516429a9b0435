/* folder_parts.h - shared by the folder*.c files. */
#ifndef SB_TESTS_CHECK_FOLDER_PARTS_H
#define SB_TESTS_CHECK_FOLDER_PARTS_H

#include "tests/check/folder.h"

typedef enum damage_kind {
    DAMAGE_BYTE,
    DAMAGE_CUT,
    DAMAGE_APPEND,
    DAMAGE_HEADER,
    DAMAGE_LOST,
    DAMAGE_INDEX,
    DAMAGE_PAGES,
    DAMAGE_ZERO,
    DAMAGE_COPY,
    DAMAGE_SHIFT,
    DAMAGE_RANDOM
} damage_kind;

struct folder_damage {
    folder_damage *next;
    damage_kind kind;
    char *file;             /* NULL: the first file; for DAMAGE_INDEX: no file */
    char *old, *by;         /* for DAMAGE_INDEX and DAMAGE_PAGES, old is the tensor */
    uint64_t at, to, count; /* to: the target of DAMAGE_COPY, the seed of DAMAGE_RANDOM */
    unsigned bits;
};

char *folder_string(const char *text); /* a copy */
void folder_tensor_free(folder_tensor *t);
void folder_remove_at(const char *path); /* a folder and its files */

#endif
