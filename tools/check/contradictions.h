/* contradictions.h - what the files of a folder declare twice, and not alike. */
#ifndef SB_CHECK_CONTRADICTIONS_H
#define SB_CHECK_CONTRADICTIONS_H

#include "tools/check/check.h"

/* Of check 9, after all that it finds of layers. */
void sb_tell_contradictions(sb_check *check);

#endif
