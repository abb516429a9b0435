/* round.h - rounding of arrays to a format and back. */
#ifndef SB_FORMATS_ROUND_H
#define SB_FORMATS_ROUND_H

#include <stddef.h>

#include "ref/formats/formats.h"

#ifdef __cplusplus
extern "C" {
#endif

/* out[i] = sb_round_to(format, x[i]); out may be x. */
void sb_round_many(sb_format format, const float *x, size_t n, float *out);

#ifdef __cplusplus
}
#endif

#endif
