/* signs.h - which signs the numbers of a matrix have, for check 42. */
#ifndef SB_CHECK_SIGNS_H
#define SB_CHECK_SIGNS_H

#include "ref/formats/matrix.h"
#include "tools/check/seen.h"

/* Adds those of the rows of a panel to seen->signs; nothing once both have been seen. */
void sb_see_signs(const sb_matrix *panel, sb_seen *seen);

#endif
