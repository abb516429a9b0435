/* store.h - common parts of the readers of arrays: open objects, the arrays and their rows, playing
 * the rows, and the files of a folder. */
#ifndef SB_DUMP_STORE_H
#define SB_DUMP_STORE_H

#include "ref/container/map.h"
#include "tools/dump/rows.h"

typedef struct sb_dump_store sb_dump_store;

sb_status sb_dump_store_new(sb_dump_store **out, sb_error *err);

sb_dump_arrays *sb_dump_store_arrays(sb_dump_store *store);

/* Takes ownership of an object: releases it with the store, or at once after a failure. */
sb_status sb_dump_store_keep(sb_dump_store *store, void *object, void (*release)(void *),
                             sb_error *err);

/* Makes "dir/name" (dir NULL: "name"); the store keeps it. */
sb_status sb_dump_store_path(sb_dump_store *store, const char *dir, const char *name,
                             const char **out, sb_error *err);

/* Maps a file; the store keeps it. */
sb_status sb_dump_store_map(sb_dump_store *store, const char *path, sb_map *out, sb_error *err);

/* The last step of an `open`, after all arrays were added: makes their rows. Takes ownership of the
 * store, also if `status`, the status so far, is a failure. */
sb_status sb_dump_store_ready(sb_status status, sb_dump_store *store, const char *path,
                              const sb_dump_options *options, sb_trace_head *head, void **state,
                              sb_error *err);

/* For an sb_dump_reader. */
sb_status sb_dump_store_play(void *store, sb_step_fn take, void *ctx, sb_error *err);
void sb_dump_store_close(void *store);

/* --- files and folders, for `is` and `open` --------------------------------------------------- */

enum { SB_DUMP_MAX_FILES = 1 << 15 };

/* True if the path is a file that begins with these bytes. */
int sb_dump_begins(const char *path, const void *bytes, size_t count);

/* The names in a folder with this suffix, in bytewise order. SB_OK and no names if the path is no
 * folder, or a folder with a trace.json or a config.json (a trace, a checkpoint). */
typedef struct sb_dump_names {
    char **items;
    size_t count, room;
} sb_dump_names;
sb_status sb_dump_list(const char *path, const char *suffix, sb_dump_names *out, sb_error *err);
void sb_dump_names_free(sb_dump_names *names);

/* True if a folder has files with this suffix, and no files of another kind of array. With several
 * kinds, --as has to select one. */
int sb_dump_has_only(const char *path, const char *suffix);

/* The name without folders and suffix, truncated to the room: "a/b.npy" gives "b". */
typedef struct sb_dump_stem {
    char text[SB_MAX_TENSOR_NAME + 1];
} sb_dump_stem;
const char *sb_dump_stem_of(const char *path, const char *suffix, sb_dump_stem *room);

#endif
