/* twin.h - a hook that also runs every op on a second backend, and compares the results of both,
 * bit for bit. The session continues with the results of the first. */
#ifndef SB_TESTS_GPU_TWIN_H
#define SB_TESTS_GPU_TWIN_H

#include <stdio.h>

#include "ref/run/backend.h"
#include "ref/ops/values.h"
#include "ref/run/hook.h"

/* An array that an op writes: an output, the state, or the states after each row. */
typedef struct twin_part {
    const char *name;
    void *at;
    size_t count; /* elements of 4 bytes */
    int is_float;
} twin_part;

enum { TWIN_PARTS = SB_OP_OUTPUTS + 2 };

/* Finds the arrays that the op writes, and returns their number. */
size_t twin_parts(sb_op op, const void *args, twin_part parts[TWIN_PARTS]);

typedef struct twin {
    const sb_backend *first, *second; /* first: that of the session */
    const char *evidence;             /* folder for the arrays of the first op that differs; NULL */
    uint64_t calls[SB_OP_COUNT];      /* calls compared */
    uint64_t elements, differ;        /* all NaNs count as equal */
    char words[400];                  /* the first difference */
} twin;

/* The context of told_hook: prints a line for every op, its name before it runs and the digest of
 * what it has written behind. So a line without a digest names an op that hangs. */
typedef struct told {
    FILE *out;
    uint64_t calls;
} told;
sb_status told_hook(void *ctx, const sb_op_call *call);

/* For sb_session_options, with a twin as hook_ctx. If only one backend fails, that is a
 * difference. The folder `evidence` gets a NumPy file for each array: in.NAME of an input,
 * NAME.BACKEND of what a backend has written. */
sb_status twin_hook(void *ctx, const sb_op_call *call);

#endif
