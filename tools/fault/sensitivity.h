/* sensitivity.h - how small a fault is still named: one element of one op, of one layer, at one
 * token, moved by a multiple of its bound. */
#ifndef SB_FAULT_SENSITIVITY_H
#define SB_FAULT_SENSITIVITY_H

#include "tools/fault/campaign.h"

enum { SB_SENSITIVITY_STEPS = 7 };
extern const double sb_sensitivity_steps[SB_SENSITIVITY_STEPS]; /* 0.5 to 100 bounds */

typedef struct sb_sensitivity {
    const char *op, *tap;
    size_t elements; /* that were moved */
    size_t exact;    /* of these, whose bound is 0: any change is named */
    double bound;    /* the largest */
    size_t
        named[SB_SENSITIVITY_STEPS]; /* with token, layer, op and element; exact ones not counted */
} sb_sensitivity;

/* Ops i = 0, 1, ...; *more is 0 behind the last. `elements` of each are tried. */
sb_status sb_sensitivity_of(sb_campaign *campaign, size_t i, size_t elements, uint64_t seed,
                            sb_sensitivity *out, int *more, sb_error *err);

#endif
