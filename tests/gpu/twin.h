/* twin.h - a hook that also runs every op on a second backend, and compares the results of both,
 * bit for bit. The session continues with the results of the first. */
#ifndef SB_TESTS_GPU_TWIN_H
#define SB_TESTS_GPU_TWIN_H

#include "ref/run/backend.h"
#include "ref/run/hook.h"

typedef struct twin {
    const sb_backend *first, *second; /* first: that of the session */
    uint64_t calls[SB_OP_COUNT];      /* calls compared */
    uint64_t elements, differ;        /* all NaNs count as equal */
    char words[400];                  /* the first difference */
} twin;

/* For sb_session_options, with a twin as hook_ctx. If only one backend fails, that is a
 * difference. */
sb_status twin_hook(void *ctx, const sb_op_call *call);

#endif
