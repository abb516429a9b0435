/* same_format.h - V-14 for layers that are quantized on both sides, and the test whether a tensor
 * was compared. */
#ifndef SB_CHECK_SAME_FORMAT_H
#define SB_CHECK_SAME_FORMAT_H

#include "tools/check/read/check.h"

/* Findings of check 14 for layers that are quantized on both sides, and for tensors without
 * floats. */
void sb_check_same_format(sb_check *check);

/* 1 if a tensor of a unit was compared with the original. part: the part of a layer; else
 * ignored. */
int sb_was_compared(const sb_unit *unit, unsigned part);

#endif
