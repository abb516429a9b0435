/* scaled.h - whether a float tensor is its original times what AWQ or SmoothQuant scales with. */
#ifndef SB_CHECK_SCALED_H
#define SB_CHECK_SCALED_H

#include "tools/check/check.h"

/* V-14: "AWQ and SmoothQuant scale by factors": 1 if factors of rows and columns explain every
 * matrix of the unit, or memory is out, which the findings remember. */
int sb_is_scaled(sb_check *check, const sb_unit *unit);

/* Whether the layer that the unit belongs to ("layers.3.") has quantized matrices: nothing else is
 * scaled. */
int sb_is_beside_quantized(const sb_check *check, const sb_unit *unit);

#endif
