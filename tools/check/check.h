/* check.h - is this checkpoint intact? Everything that files alone can tell, as a list of findings.
 *
 * Nothing is ever repaired. The folder is opened as far as it can be (survey.h), split into units
 * (units.h), and looked at in two passes: names, shapes and configuration first, then, streaming,
 * every byte. The result is a function of the bytes alone: no order of threads, no time is in it.
 */
#ifndef SB_CHECK_CHECK_H
#define SB_CHECK_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"
#include "ref/container/checkpoint.h"
#include "ref/model/config.h"
#include "ref/model/declared.h"
#include "tools/check/findings.h"
#include "tools/check/source.h"
#include "tools/check/units.h"

/* Checks are numbered from 1, in the order of checks.def. */
enum {
    SB_CHECK_NONE, /* no check has the number 0 */
#define SB_CHECK(number, id, worst, needs, title, engines, advice) SB_CHECK_NUMBER_##number,
#include "tools/check/checks.def"
#undef SB_CHECK
    SB_CHECK_END,
    SB_CHECK_LAST = SB_CHECK_END - 1,
    SB_CHECK_PROBLEMS = 9 /* of survey.h */
};

typedef enum sb_check_needs {
    SB_NEEDS_headers,
    SB_NEEDS_payload,
    SB_NEEDS_original, /* headers of both sides */
    SB_NEEDS_master    /* payload of both sides */
} sb_check_needs;

/* A row of checks.def. */
typedef struct sb_check_row {
    unsigned number;
    const char *id; /* "fp4-nearest" */
    sb_level worst;
    sb_check_needs needs;
    const char *title, *engines, *advice;
} sb_check_row;

const sb_check_row *sb_check_row_of(unsigned number); /* NULL: there is no such check */

/* The number of a check by its number or id; 0 if there is none. */
unsigned sb_check_number(const char *text);

typedef void (*sb_check_progress)(void *ctx, const char *what, uint64_t done, uint64_t total);

typedef struct sb_check_options {
    const char *path;
    const char *against;         /* NULL: no original */
    const char *const *overlays; /* "PATTERN=FOLDER": modules laid over path first */
    size_t overlay_count;
    unsigned char skip[SB_CHECK_LAST + 1]; /* by number: 1 leaves the check out */
    int headers_only;
    const struct sb_mtp_engine *engine; /* whose faults the audit of the head tells; NULL: all */
    sb_io io;                           /* how bytes are read; never changes a finding */
    int no_hashes; /* check 52 is skipped, and the report says by which option */
    int need_mtp;  /* a declared head that is absent is an error, not a warning */
    sb_check_progress progress;
    void *progress_ctx;
} sb_check_options;

/* One side: the checkpoint, or the original. */
typedef struct sb_side {
    sb_checkpoint *checkpoint;
    int has_config;
    int has_declared; /* what is declared could be read; declared NULL: nothing is */
    sb_config config;
    sb_declared *declared;
    sb_units units;
} sb_side;

typedef struct sb_check {
    const sb_check_options *options;
    sb_side self, master; /* master.checkpoint is NULL without --against */
    sb_side stranger;     /* what --against names, if it is the original of something else */
    sb_findings findings; /* at the end: sorted by check, then by unit */
    uint64_t bytes_read;  /* of the payload, of both sides */
    uint64_t mark_mask;   /* V-13: which keys are kept */
    size_t hub_files;     /* files of which the hub has said a hash */
    size_t side_files;    /* what check 51 had to look at */
    /* how often sb_check_problem was told of each sb_problem, and of mtp.* */
    size_t told[SB_CHECK_PROBLEMS], told_mtp[SB_CHECK_PROBLEMS];
    int unread; /* a file is there and cannot be read, which is a finding */
} sb_check;

/* Runs all checks that options ask for. The status speaks of the run, not of the checkpoint:
 * SB_ERR_IO, SB_ERR_INPUT if nothing at all can be opened, SB_ERR_MEMORY. Findings, FATAL ones
 * too, are SB_OK. free in any case. */
sb_status sb_check_run(const sb_check_options *options, sb_check *out, sb_error *err);
void sb_check_free(sb_check *check);

/* Whether check `number` is to be made. */
static inline int sb_check_wanted(const sb_check *check, unsigned number)
{
    return !check->options->skip[number];
}

/* A finding that no unit's pass makes. Message: one line, what was found where, what was expected.
 * tensor: a name, or "" of the folder as a whole. Thread-safe it is not. */
void sb_check_find(sb_check *check, unsigned number, sb_level level, const char *tensor,
                   const char *format, ...) SB_PRINTF(5, 6);

/* The unit of the original that is the same tensor or layer; NULL: none, or stored otherwise. */
const sb_unit *sb_master_unit(const sb_check *check, const sb_unit *unit);

/* --- the checks, a file each -------------------------------------------------------------------
 * Headers (structure*.c): after the units are there, before any payload is read. */
void sb_check_problem(void *check, int problem, const char *file, const char *tensor,
                      const char *message);  /* 1, 2: what survey.h tells */
void sb_check_files(sb_check *check);        /* 1, 2: what the folder holds and lacks */
void sb_check_names(sb_check *check);        /* 3 */
void sb_check_siblings(sb_check *check);     /* 4 */
void sb_check_coverage(sb_check *check);     /* 5 */
void sb_check_uniformity(sb_check *check);   /* 6 */
void sb_check_shapes(sb_check *check);       /* 7, 8, 32 */
void sb_check_declaration(sb_check *check);  /* 9 */
void sb_check_vision(sb_check *check);       /* 5, 7, 9: the vision tower */
void sb_check_mtp_presence(sb_check *check); /* 10 */
void sb_check_forbidden(sb_check *check);    /* 11 */
void sb_check_config_same(sb_check *check);  /* 49 */
void sb_check_lost(sb_check *check);         /* 50 */
void sb_check_side_files(sb_check *check);   /* 51 */

/* After the payload has been read: what is seen only across units, from units[].seen. */
void sb_check_finite(sb_check *check);       /* 12 */
void sb_check_duplicates(sb_check *check);   /* 13 */
void sb_check_repeats(sb_check *check);      /* 13: parts of tensors, after whole ones */
void sb_check_untouched(sb_check *check);    /* 14 */
void sb_check_fp4_groups(sb_check *check);   /* 17, 18, 22, 26: siblings and fused groups */
void sb_check_inputs(sb_check *check);       /* 27 */
void sb_check_dead(sb_check *check);         /* 21: across layers */
void sb_check_fp8_groups(sb_check *check);   /* 29: all scales of a kind */
void sb_check_int_groups(sb_check *check);   /* 33: one convention per checkpoint */
void sb_check_random_codes(sb_check *check); /* 36: parts of matrices */
void sb_check_double(sb_check *check);       /* 40 */
void sb_check_untrained(sb_check *check);    /* 41 */
void sb_check_statistics(sb_check *check);   /* 42 */
void sb_check_signs(sb_check *check);        /* 42: one sign only */
void sb_check_experts(sb_check *check);      /* 43, 44 */
void sb_check_conventions(sb_check *check);  /* 45, 46 */
void sb_check_kv_scales(sb_check *check);    /* 47 */
void sb_check_hashes(sb_check *check);       /* 52 */
void sb_check_zero_pages(sb_check *check);   /* 53 */
void sb_check_magnitudes(sb_check *check);   /* 54 */
void sb_check_dtypes(sb_check *check);       /* 54: F16 that is BF16 */

#endif
