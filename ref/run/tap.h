/* tap.h - a callback that sees every intermediate value of a call. A value has the same name in
 * every backend. */
#ifndef SB_RUN_TAP_H
#define SB_RUN_TAP_H

#include <stddef.h>

#include "ref/base/status.h"

/* Called after a value is computed. name: "layers.3.linear_attn.core_out". data: (rows, cols). The
 * callee may overwrite data. Comparisons do this to force recorded inputs or recorded expert sets.
 * Router ids arrive as whole numbers in binary32 and are only shown. */
typedef sb_status (*sb_tap_fn)(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                               sb_error *err);

#endif
