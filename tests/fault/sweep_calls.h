/* sweep_calls.h - makes a system call or an allocation fail, or ends the process there, as a test
 * demands. The Makefile links test_sweep so that the calls of the program come here (--wrap). */
#ifndef SB_TESTS_FAULT_SWEEP_CALLS_H
#define SB_TESTS_FAULT_SWEEP_CALLS_H

#include <stdint.h>

typedef enum sweep_way {
    SWEEP_COUNT, /* nothing fails */
    SWEEP_KILL, /* the process ends before its n-th call that changes files; a write is half done */
    SWEEP_FAIL, /* the n-th system call fails */
    SWEEP_STARVE, /* the n-th allocation and all later ones fail */
    SWEEP_ONE,    /* only the n-th allocation fails */
    SWEEP_ALONE,  /* the n-th thread and all later ones cannot be started */
    SWEEP_FEWER,  /* only the n-th thread cannot be started */
    SWEEP_WAYS
} sweep_way;

/* Starts counting and failing. `error` is the errno of a failing system call. */
void sweep_begin(sweep_way way, unsigned long n, int error);

/* From now until sweep_begin, writes a number for each allocation to paths[0 .. room - 1], in
 * order. The number identifies the chain of callers. NULL: stop. */
void sweep_paths(uint64_t *paths, unsigned long room);

/* The number of calls so far of the kind that the way counts. */
unsigned long sweep_calls(void);

/* The name of the call that failed, or "". */
const char *sweep_failed(void);

#endif
