/* target.h - writes a folder atomically: no part of the folder is visible before the folder is
 * complete.
 *
 * Its files are written to "<folder>.partial". Then the partial folder and the old one are
 * exchanged, and the rest of the old folder is removed, its config.json and its index first. At
 * whatever point the process ends, a reader finds the old folder, the new folder, or none. A
 * process locks the partial folder while it writes, so that a second writer is refused. */
#ifndef SB_CONTAINER_TARGET_H
#define SB_CONTAINER_TARGET_H

#include <sys/stat.h>

#include "ref/base/status.h"

/* Calls visit(ctx, path, name, info) for the entries of a folder without following links. A visitor
 * that fails must write err. */
typedef sb_status (*sb_entry_fn)(void *ctx, const char *path, const char *name,
                                 const struct stat *info, sb_error *err);
sb_status sb_each_entry(const char *folder, sb_entry_fn visit, void *ctx, sb_error *err);

/* A folder to write, and its place. A link is followed. A mount point, "." and a folder in a parent
 * without write permission cannot be renamed. Such a folder is emptied first and written in place:
 * `partial` is the folder itself, and config.json is written last. */
typedef struct sb_target {
    char *place, *partial;
    char *aside;  /* the old folder, if the system cannot exchange two folders */
    int fd;       /* descriptor of the locked partial folder; -1 before begin and after commit */
    int in_place; /* partial is the same as place */
} sb_target;

/* Sets the names and writes nothing. SB_ERR_USAGE if a partial folder exists, from an interrupted
 * run or from a run that is still active. */
sb_status sb_target_open(const char *folder, sb_target *out, sb_error *err);

/* Returns true if an entry of the old folder has to be removed together with this folder. Other
 * entries move to the new folder, unless the new folder has an entry of the same name. A NULL
 * function: all entries are removed. */
typedef int (*sb_target_goes)(const char *name);

/* Creates and locks the partial folder. If in_place is set, removes the old entries now. */
sb_status sb_target_begin(sb_target *target, sb_target_goes goes, sb_error *err);

/* Called when the folder is complete: moves it to its place. Without `replace`, fails if a folder
 * has appeared there in the meantime. */
sb_status sb_target_commit(sb_target *target, int replace, sb_target_goes goes, sb_error *err);

/* Removes a partial folder that no process is writing, left by a run that was cut off. */
void sb_target_clear(const char *folder);

/* True if the name is that of a partial folder, or of an old folder that is being removed. */
int sb_target_is_passing(const char *folder);

/* Removes everything that was begun and not committed. */
void sb_target_close(sb_target *target);

#endif
