/* store.h - what every reader of arrays has in common: what it keeps open, its arrays and their
 * rows, the way through them, and the files of a folder. */
#ifndef SB_DUMP_STORE_H
#define SB_DUMP_STORE_H

#include "ref/container/map.h"
#include "tools/dump/rows.h"

typedef struct sb_dump_store sb_dump_store;

sb_status sb_dump_store_new(sb_dump_store **out, sb_error *err);

sb_dump_arrays *sb_dump_store_arrays(sb_dump_store *store);

/* Takes an object, which is released with the store, or at once if this fails. */
sb_status sb_dump_store_keep(sb_dump_store *store, void *object, void (*release)(void *),
                             sb_error *err);

/* "dir/name" (dir NULL: the name), kept. */
sb_status sb_dump_store_path(sb_dump_store *store, const char *dir, const char *name,
                             const char **out, sb_error *err);

/* A file, mapped and kept. */
sb_status sb_dump_store_map(sb_dump_store *store, const char *path, sb_map *out, sb_error *err);

/* Once all arrays are there: their rows. The end of an `open`: takes the store, also if `status`,
 * what was before it, is a failure. */
sb_status sb_dump_store_ready(sb_status status, sb_dump_store *store, const char *path,
                              const sb_dump_options *options, sb_trace_head *head, void **state,
                              sb_error *err);

/* Of an sb_dump_reader. */
sb_status sb_dump_store_play(void *store, sb_step_fn take, void *ctx, sb_error *err);
void sb_dump_store_close(void *store);

/* --- files and folders, for `is` and `open` --------------------------------------------------- */

enum { SB_DUMP_MAX_FILES = 1 << 15 };

int sb_dump_is_folder(const char *path);

/* The bytes that a file begins with; 0 if it has fewer, or is none. */
int sb_dump_begins(const char *path, const void *bytes, size_t count);

/* The names in a folder that end so, in the order of their bytes; sb_dump_names_free. No folder, or
 * one with a trace.json or a config.json (a trace, a checkpoint): SB_OK and none. */
typedef struct sb_dump_names {
    char **items;
    size_t count, room;
} sb_dump_names;
sb_status sb_dump_list(const char *path, const char *suffix, sb_dump_names *out, sb_error *err);
void sb_dump_names_free(sb_dump_names *names);

/* Whether a folder has files whose names end so, and none of another kind of array: a folder of
 * several kinds is of none until --as says which. */
int sb_dump_has_only(const char *path, const char *suffix);

/* The name without folders and the suffix, cut to room: "a/b.npy" gives "b". */
typedef struct sb_dump_stem {
    char text[SB_MAX_TENSOR_NAME + 1];
} sb_dump_stem;
const char *sb_dump_stem_of(const char *path, const char *suffix, sb_dump_stem *room);

#endif
