/* identities.h - recognizes the number of tensors of a checkpoint as that of a published layout. */
#ifndef SB_CHECK_IDENTITIES_H
#define SB_CHECK_IDENTITIES_H

#include "tools/check/read/check.h"

/* Writes which layout has exactly this number of tensors with this configuration; "" if none
 * has. */
void sb_count_identity(const sb_check *check, char *text, size_t size);

#endif
