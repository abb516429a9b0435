/* twin.h - a hook that runs every op on a second backend, too, and holds the results of both
 * against each other, bit for bit. What goes on is what the first gave. */
#ifndef SB_TESTS_GPU_TWIN_H
#define SB_TESTS_GPU_TWIN_H

#include "ref/run/backend.h"
#include "ref/run/hook.h"

typedef struct twin {
    const sb_backend *first, *second; /* first: of the session */
    uint64_t calls[SB_OP_COUNT];      /* that were compared */
    uint64_t elements, differ;        /* one NaN is as good as another */
    char words[400];                  /* the first that differs */
} twin;

/* For sb_session_options, hook_ctx a twin. An op of which only one backend fails is a difference.
 */
sb_status twin_hook(void *ctx, const sb_op_call *call);

#endif
