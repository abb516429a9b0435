/* target.h - writes a folder atomically: no part of it is visible before all of it is complete.
 *
 * Its files are written to "<folder>.partial". Then the partial folder and the old one are
 * exchanged, and the rest of the old folder is removed, its config.json and its index first.
 * Whenever the process ends, a reader finds the old folder, the new one, or none. A process locks
 * the partial folder while it writes, so that a second writer is refused. */
#ifndef SB_CONTAINER_TARGET_H
#define SB_CONTAINER_TARGET_H

#include <sys/stat.h>

#include "ref/base/status.h"

/* Calls visit(ctx, path, name, info) for the entries of a folder without following links. A visitor
 * that fails must write err. */
typedef sb_status (*sb_entry_fn)(void *ctx, const char *path, const char *name,
                                 const struct stat *info, sb_error *err);
sb_status sb_each_entry(const char *folder, sb_entry_fn visit, void *ctx, sb_error *err);

/* The place of a folder to write. A link is followed. A mount point, "." and a folder in a parent
 * without write permission cannot be renamed. Such a folder is emptied first and written in place:
 * `partial` is the folder itself, and config.json is written last. */
typedef struct sb_target {
    char *place, *partial;
    char *aside;  /* the old folder, if the system cannot exchange two folders */
    int fd;       /* of the partial folder, locked; -1 before begin and after commit */
    int in_place; /* partial is the same as place */
} sb_target;

/* Only sets the names. SB_ERR_USAGE if a partial folder exists, from an interrupted run or from a
 * run that is still active. */
sb_status sb_target_open(const char *folder, sb_target *out, sb_error *err);

/* True if an entry of the old folder is to be removed with it. Other entries move to the new
 * folder, unless that has an entry of the same name. NULL: all are removed. */
typedef int (*sb_target_goes)(const char *name);

/* Creates and locks the partial folder. In place, removes the old entries now. */
sb_status sb_target_begin(sb_target *target, sb_target_goes goes, sb_error *err);

/* The folder is complete: moves it to its place. Without `replace`, a folder that has appeared
 * there in the meantime is refused. */
sb_status sb_target_commit(sb_target *target, int replace, sb_target_goes goes, sb_error *err);

/* True if a folder has the name of a partial folder or of the rest of an old one. */
int sb_target_is_passing(const char *folder);

/* Removes everything that was begun and not committed. */
void sb_target_close(sb_target *target);

#endif
