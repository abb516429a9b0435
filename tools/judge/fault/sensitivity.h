/* sensitivity.h - measures how small a fault can be and still be named: moves one element of one
 * op, at one layer and token, by a multiple of its bound. */
#ifndef SB_FAULT_SENSITIVITY_H
#define SB_FAULT_SENSITIVITY_H

#include "tools/judge/fault/campaign.h"

enum { SB_SENSITIVITY_STEPS = 7 };
extern const double sb_sensitivity_steps[SB_SENSITIVITY_STEPS]; /* 0.5 to 100 bounds */

typedef struct sb_sensitivity {
    const char *op, *tap;
    size_t elements; /* moved elements */
    size_t exact;    /* of these, elements with a bound of 0: any change is named */
    double bound;    /* the largest bound */
    size_t named[SB_SENSITIVITY_STEPS]; /* the others: with token, layer, op and element */
} sb_sensitivity;

/* Measures op i with `elements` elements. Call with i = 0, 1, ... until *more is 0. */
sb_status sb_sensitivity_of(sb_campaign *campaign, size_t i, size_t elements, uint64_t seed,
                            sb_sensitivity *out, int *more, sb_error *err);

#endif
