/* target.h - a folder that is written whole: nothing of it is there before all of it is.
 *
 * Its files are written to "<folder>.partial". Then that folder and the old one change places, and
 * what is left of the old one goes, its config.json and its index first. At whatever moment the
 * process ends, a reader finds the old folder, the new one, or none. The partial folder is locked
 * while a process writes it, so of two writers the second is refused. */
#ifndef SB_CONTAINER_TARGET_H
#define SB_CONTAINER_TARGET_H

#include <sys/stat.h>

#include "ref/base/status.h"

/* Calls visit(ctx, path, name, info) for the entries of a folder, links not followed; a visitor
 * that fails has written err. */
typedef sb_status (*sb_entry_fn)(void *ctx, const char *path, const char *name,
                                 const struct stat *info, sb_error *err);
sb_status sb_each_entry(const char *folder, sb_entry_fn visit, void *ctx, sb_error *err);

/* Where a folder is to stand. A link is followed. What something is mounted on, "." and a folder
 * whose parent is not ours cannot be renamed: it is emptied first, and partial is the folder
 * itself; config.json is then what is written last. */
typedef struct sb_target {
    char *place, *partial;
    char *aside;  /* the old folder, where a system cannot let two folders change places */
    int fd;       /* of the partial folder, locked; -1 before begin and after commit */
    int in_place; /* partial is place */
} sb_target;

/* Names alone; SB_ERR_USAGE if a run that was cut off, or one that goes on, stands in the way. */
sb_status sb_target_open(const char *folder, sb_target *out, sb_error *err);

/* Whether an entry of the old folder goes with it; another moves into the new one, unless that has
 * one of the same name. NULL: all go. */
typedef int (*sb_target_goes)(const char *name);

/* Makes the partial folder, for this process alone; in place, what goes is removed now. */
sb_status sb_target_begin(sb_target *target, sb_target_goes goes, sb_error *err);

/* The folder is whole: it takes its place. Without `replace`, what came there meanwhile is
 * somebody else's, and is refused. */
sb_status sb_target_commit(sb_target *target, int replace, sb_target_goes goes, sb_error *err);

/* Whether a folder has the name of one that is being written, or that is left of an old one. */
int sb_target_is_passing(const char *folder);

/* Removes what was begun and not committed. */
void sb_target_close(sb_target *target);

#endif
