/* map.h - the taps of a file's arrays: names that are taps, and the file of --map (J-2). */
#ifndef SB_DUMP_MAP_H
#define SB_DUMP_MAP_H

#include <stddef.h>

#include "ref/base/status.h"
#include "ref/container/dtype.h"

typedef struct sb_dump_map sb_dump_map;

/* path NULL: an empty map. Checks that every target is a tap, "tokens", "positions" or "". */
sb_status sb_dump_map_open(const char *path, sb_dump_map **out, sb_error *err);
sb_status sb_dump_map_parse(const char *text, size_t size, const char *file, sb_dump_map **out,
                            sb_error *err);
void sb_dump_map_free(sb_dump_map *map); /* NULL is fine */

typedef enum sb_dump_kind {
    SB_DUMP_UNKNOWN, /* neither a tap nor in the map; only counted */
    SB_DUMP_LEFT_OUT,
    SB_DUMP_TAP,
    SB_DUMP_TOKENS,   /* one id per row */
    SB_DUMP_POSITIONS /* one position per row, from 0 */
} sb_dump_kind;

typedef struct sb_dump_named {
    sb_dump_kind kind;
    char tap[96]; /* for SB_DUMP_TAP */
    int has_dtype;
    sb_dtype dtype; /* overrides the type in the file */
} sb_dump_named;

/* SB_ERR_INPUT if two patterns of the same length fit the name. */
sb_status sb_dump_map_find(const sb_dump_map *map, const char *name, sb_dump_named *out,
                           sb_error *err);

#endif
