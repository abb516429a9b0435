/* scaled.h - is a float tensor its original, scaled as AWQ or SmoothQuant do? */
#ifndef SB_CHECK_SCALED_H
#define SB_CHECK_SCALED_H

#include "tools/check/read/check.h"

/* V-14: "AWQ and SmoothQuant scale by factors": 1 if factors of rows and columns explain every
 * matrix of the unit, or if memory runs out, which the findings record. */
int sb_is_scaled(sb_check *check, const sb_unit *unit);

/* 1 if the decoder layer of the unit ("layers.3.") has quantized matrices: other layers are not
 * scaled. */
int sb_is_beside_quantized(const sb_check *check, const sb_unit *unit);

#endif
