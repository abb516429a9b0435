/* vectors.h - compares vectors of a layer with the same vectors of other layers. */
#ifndef SB_CHECK_VECTORS_H
#define SB_CHECK_VECTORS_H

#include "tools/check/read/check.h"

void sb_check_vectors(sb_check *check); /* a part of 54 */

#endif
