/* signs.h - check 42: which signs the values of a matrix have. */
#ifndef SB_CHECK_SIGNS_H
#define SB_CHECK_SIGNS_H

#include "ref/formats/matrix.h"
#include "tools/check/read/seen.h"

/* Adds the signs of a panel to seen->signs. Does nothing once both have been seen. */
void sb_see_signs(const sb_matrix *panel, sb_seen *seen);

#endif
