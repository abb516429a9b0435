/* draw.h - the values of a tensor before they are rounded to a format. */
#ifndef SB_TOOLS_MAKE_DRAW_H
#define SB_TOOLS_MAKE_DRAW_H

#include "tools/make/plan.h"

/* Values first .. first + n - 1 of a tensor that is not quantized. */
void sb_make_draw(const sb_maker *maker, const sb_make_tensor *tensor, uint64_t first, size_t n,
                  float *out);

#endif
