/* wrong_original.h - is the folder of --against the original of this checkpoint? */
#ifndef SB_CHECK_WRONG_ORIGINAL_H
#define SB_CHECK_WRONG_ORIGINAL_H

#include "tools/check/read/check.h"

/* If the folder is not the original, one finding of check 14 says so, and the side moves from
 * check->master to check->stranger: the run continues as without an original. */
void sb_check_original(sb_check *check);

#endif
