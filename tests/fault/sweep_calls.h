/* sweep_calls.h - calls of the system and of the allocator that fail, or end the process, where a
 * test wants it. The Makefile links test_sweep so that the program's own calls come here (--wrap).
 */
#ifndef SB_TESTS_FAULT_SWEEP_CALLS_H
#define SB_TESTS_FAULT_SWEEP_CALLS_H

#include <stdint.h>

typedef enum sweep_way {
    SWEEP_COUNT, /* nothing fails */
    SWEEP_KILL, /* the process ends before its n-th call that changes files; a write is half done */
    SWEEP_FAIL, /* the n-th call of the system fails */
    SWEEP_STARVE, /* the n-th allocation fails, and all behind it */
    SWEEP_ONE,    /* only the n-th allocation fails */
    SWEEP_ALONE,  /* the n-th thread cannot be started, nor any behind it */
    SWEEP_FEWER,  /* only the n-th thread cannot be started */
    SWEEP_WAYS
} sweep_way;

/* From here on; `error` is what a call of the system fails with. */
void sweep_begin(sweep_way way, unsigned long n, int error);

/* From here on, until sweep_begin, the way by which each allocation is reached is written to
 * paths[0 .. room - 1], in their order: a number of the functions that it was called from. NULL: no
 * more. */
void sweep_paths(uint64_t *paths, unsigned long room);

/* How many calls there were of the kind that the way counts. */
unsigned long sweep_calls(void);

/* The name of the call that failed, or "". */
const char *sweep_failed(void);

#endif
