/* code_runs.h - check 36: stretches of integer codes that lie at the ends of their range as often
 * as random bytes do; found while the bytes are read. */
#ifndef SB_CHECK_CODE_RUNS_H
#define SB_CHECK_CODE_RUNS_H

#include <stddef.h>
#include <stdint.h>

/* V-36: "stretches of 1024 bytes" */
enum { SB_CODE_WINDOW = 1024, SB_CODE_RUNS = 4 };

/* A range of bytes of the tensor. */
typedef struct sb_code_run {
    uint64_t first, end;
} sb_code_run;

/* Runs of the codes of a unit. Codes have 4 or 8 bits each, with 0 in the middle of the range. */
typedef struct sb_code_runs {
    unsigned bits; /* 0: the unit has no such codes */
    /* codes outside of runs, and the number of these in the outer half of the range */
    uint64_t codes, outer;
    uint64_t count; /* number of runs of two stretches or more */
    sb_code_run runs[SB_CODE_RUNS];
} sb_code_runs;

/* One tensor while it is read. */
typedef struct sb_code_scan {
    sb_code_runs *to; /* NULL: the bytes are not such codes */
    uint64_t at, size;
    uint64_t open; /* where the current run of random-looking stretches begins */
    /* outer codes of the current stretch, and of the random-looking stretch before it */
    uint32_t outer, last_outer;
} sb_code_scan;

/* bits: per code, 0 if the bytes are not codes. size: of the tensor. */
void sb_code_begin(sb_code_scan *scan, sb_code_runs *to, unsigned bits, uint64_t size);
void sb_code_bytes(sb_code_scan *scan, const unsigned char *bytes, size_t count);

#endif
