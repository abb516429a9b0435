/* same_format.h - V-14 of what is quantized on both sides, and what was compared at all. */
#ifndef SB_CHECK_SAME_FORMAT_H
#define SB_CHECK_SAME_FORMAT_H

#include "tools/check/check.h"

/* Findings of check 14 at layers that are quantized on both sides, and at tensors without floats.
 */
void sb_check_same_format(sb_check *check);

/* Whether a tensor of a unit (part: of a layer; else ignored) was held against the original. */
int sb_was_compared(const sb_unit *unit, unsigned part);

#endif
