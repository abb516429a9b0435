/* zero_runs.h - runs of zero bytes in a tensor as its bytes come by, for check 53. */
#ifndef SB_CHECK_ZERO_RUNS_H
#define SB_CHECK_ZERO_RUNS_H

#include <stddef.h>
#include <stdint.h>

#include "ref/container/safetensors.h"

/* V-153: "Pages are of 4 KiB" at least. */
enum { SB_PAGE = 4096, SB_ZERO_RUNS = 16 };

typedef struct sb_zero_run {
    const sb_tensor *tensor;
    uint64_t first, end; /* bytes of its file */
} sb_zero_run;

/* Runs that pages of the file bound and rows of the tensor do not: the first ones of a unit. */
typedef struct sb_zero_list {
    uint64_t count; /* of all */
    sb_zero_run runs[SB_ZERO_RUNS];
} sb_zero_list;

/* One tensor while it is read. */
typedef struct sb_zero_scan {
    sb_zero_list **list; /* made when it is needed */
    const sb_tensor *tensor;
    uint64_t start, at; /* in its file: the first byte, and the next one that comes */
    uint64_t open;      /* where the zeros right before `at` begin; `at` if there are none */
    int lost;           /* memory is out */
} sb_zero_scan;

/* offset: of the tensor in its file. */
void sb_zero_begin(sb_zero_scan *scan, sb_zero_list **list, const sb_tensor *tensor,
                   uint64_t offset);
/* The next bytes, in order; the run that is open ends with the last byte of the tensor. */
void sb_zero_bytes(sb_zero_scan *scan, const unsigned char *bytes, size_t count);

/* Where a run begins and ends once stray zeros at a border of pages are taken off: what was lost.
 */
void sb_zero_pages_of(const sb_zero_run *run, uint64_t offset, uint64_t *first, uint64_t *end);

#endif
