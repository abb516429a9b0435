/* zero_runs.h - check 53: runs of zero bytes in a tensor, found while its bytes are read. */
#ifndef SB_CHECK_ZERO_RUNS_H
#define SB_CHECK_ZERO_RUNS_H

#include <stddef.h>
#include <stdint.h>

#include "ref/container/safetensors.h"

/* V-153: "Pages are of 4 KiB" at least. */
enum { SB_PAGE = 4096, SB_ZERO_RUNS = 16 };

typedef struct sb_zero_run {
    const sb_tensor *tensor;
    uint64_t first, end; /* byte positions in its file */
} sb_zero_run;

/* Runs that begin and end at pages of the file but not at rows of the tensor: the first of a
 * unit. */
typedef struct sb_zero_list {
    uint64_t count; /* number of all runs */
    sb_zero_run runs[SB_ZERO_RUNS];
} sb_zero_list;

/* State of one tensor while it is read. */
typedef struct sb_zero_scan {
    sb_zero_list **list; /* allocated when it is needed */
    const sb_tensor *tensor;
    uint64_t start, at; /* positions in its file: of its first byte, and of the next byte */
    /* begin of the zeros directly before `at`; equal to `at` if there are none */
    uint64_t open;
    int lost; /* memory ran out */
} sb_zero_scan;

/* offset: of the tensor in its file. */
void sb_zero_begin(sb_zero_scan *scan, sb_zero_list **list, const sb_tensor *tensor,
                   uint64_t offset);
/* The next bytes, in order. A run that is still open ends with the last byte of the tensor. */
void sb_zero_bytes(sb_zero_scan *scan, const unsigned char *bytes, size_t count);

/* The lost pages of a run: its begin and end without stray zeros at page borders. */
void sb_zero_pages_of(const sb_zero_run *run, uint64_t offset, uint64_t *first, uint64_t *end);

#endif
