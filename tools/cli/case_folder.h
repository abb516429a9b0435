/* case_folder.h - several cases of samebit vectors go into a folder together: after a run that was
 * cut off it has all of them or none. */
#ifndef SB_CLI_CASE_FOLDER_H
#define SB_CLI_CASE_FOLDER_H

#include "ref/container/target.h"

/* The cases are written to target->partial, which is not there yet. SB_ERR_USAGE for a folder that
 * cannot be renamed. sb_target_close() removes what was begun, and is called in any case. */
sb_status sb_case_folder_begin(const char *folder, sb_target *target, sb_error *err);

/* All are there: the folder takes its place. What else stood in the old one stands in it, too. */
sb_status sb_case_folder_commit(sb_target *target, sb_error *err);

#endif
