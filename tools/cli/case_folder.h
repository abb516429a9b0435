/* case_folder.h - writes several cases of samebit vectors to a folder: after an interrupted run,
 * the folder has all of them or none. */
#ifndef SB_CLI_CASE_FOLDER_H
#define SB_CLI_CASE_FOLDER_H

#include "ref/container/target.h"

/* The caller writes the cases to target->partial, which does not exist yet. SB_ERR_USAGE for a
 * folder that cannot be renamed. Call sb_target_close() in any case; it removes an incomplete
 * folder. */
sb_status sb_case_folder_begin(const char *folder, sb_target *target, sb_error *err);

/* After all cases are written: moves the folder to its place and keeps other files of the old
 * folder. */
sb_status sb_case_folder_commit(sb_target *target, sb_error *err);

#endif
