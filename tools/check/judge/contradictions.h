/* contradictions.h - what the files of a folder declare twice and differently. */
#ifndef SB_CHECK_CONTRADICTIONS_H
#define SB_CHECK_CONTRADICTIONS_H

#include "tools/check/read/check.h"

/* A part of check 9; call it after the findings about layers. */
void sb_tell_contradictions(sb_check *check);

#endif
