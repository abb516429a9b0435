/* code_runs.h - stretches of integer codes that lie at the ends of their range as often as random
 * bytes do, as the bytes come by, for check 36. */
#ifndef SB_CHECK_CODE_RUNS_H
#define SB_CHECK_CODE_RUNS_H

#include <stddef.h>
#include <stdint.h>

/* V-36: "stretches of 1024 bytes" */
enum { SB_CODE_WINDOW = 1024, SB_CODE_RUNS = 4 };

/* Bytes of the tensor. */
typedef struct sb_code_run {
    uint64_t first, end;
} sb_code_run;

/* Of the codes of a unit, 4 or 8 bits each, where the middle of the range stands for 0. */
typedef struct sb_code_runs {
    unsigned bits;         /* 0: it has no such codes */
    uint64_t codes, outer; /* in stretches outside runs; of them, those in the outer half */
    uint64_t count;        /* of runs of two stretches or more */
    sb_code_run runs[SB_CODE_RUNS];
} sb_code_runs;

/* One tensor while it is read. */
typedef struct sb_code_scan {
    sb_code_runs *to; /* NULL: these bytes are no such codes */
    uint64_t at, size;
    uint64_t open;              /* where stretches like random bytes begin */
    uint32_t outer, last_outer; /* of the stretch that is read; of the only one since `open` */
} sb_code_scan;

/* bits: of a code; 0: these are none. size: of the tensor. */
void sb_code_begin(sb_code_scan *scan, sb_code_runs *to, unsigned bits, uint64_t size);
void sb_code_bytes(sb_code_scan *scan, const unsigned char *bytes, size_t count);

#endif
