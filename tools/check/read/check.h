/* check.h - is this checkpoint intact? Everything that files alone can tell, as a list of findings.
 *
 * Nothing is ever repaired. The folder is opened as far as possible (survey.h), split into units
 * (units.h), and checked in two passes: first names, shapes and configuration, then every byte,
 * streaming. The result depends on the bytes alone, never on the order of threads or on time. */
#ifndef SB_CHECK_CHECK_H
#define SB_CHECK_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"
#include "ref/container/checkpoint.h"
#include "ref/model/config.h"
#include "ref/model/declared.h"
#include "tools/check/read/findings.h"
#include "tools/check/read/sample.h"
#include "tools/check/read/source.h"
#include "tools/check/read/units.h"

/* Checks are numbered from 1, in the order of checks.def. */
enum {
    SB_CHECK_NONE, /* no check has the number 0 */
#define SB_CHECK(number, id, worst, needs, title, engines, advice) SB_CHECK_NUMBER_##number,
#define SB_PASS(stage, name)
#include "tools/check/read/checks.def"
#undef SB_CHECK
#undef SB_PASS
    SB_CHECK_END,
    SB_CHECK_LAST = SB_CHECK_END - 1,
    SB_CHECK_PROBLEMS = 9 /* number of kinds of problems that survey.h reports */
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
    const char *against; /* NULL: no original */
    const char *target;  /* for a drafter: the checkpoint that it drafts for; NULL: not known */
    /* "PATTERN=FOLDER": FOLDER replaces these modules of path before the checks */
    const char *const *overlays;
    size_t overlay_count;
    unsigned char skip[SB_CHECK_LAST + 1]; /* skip[n] = 1: check n is not made */
    int headers_only;
    /* not 0: reads the values of at most so many layers and tensors (sample.h); not with
     * headers_only or against */
    size_t sample;
    /* the audit of the head lists only loader faults of this engine; NULL: of all engines */
    const struct sb_mtp_engine *engine;
    sb_io io;      /* how bytes are read; never changes a finding */
    int no_hashes; /* skip check 52; the report names this option as the reason */
    int need_mtp;  /* a declared head that is absent is an error, not a warning */
    sb_check_progress progress;
    void *progress_ctx;
} sb_check_options;

/* One side: the checkpoint, or the original. */
typedef struct sb_side {
    sb_checkpoint *checkpoint;
    int has_config;
    int has_declared; /* the declaration could be read; declared is NULL if there is none */
    int is_drafter;   /* the folder is an EAGLE-3 drafter; config is that of its layer */
    sb_eagle3_config drafter;
    sb_config config;
    sb_declared *declared;
    sb_units units;
} sb_side;

typedef struct sb_check {
    const sb_check_options *options;
    sb_side self, master; /* master.checkpoint is NULL without --against */
    sb_side stranger;     /* the folder of --against, if it is the original of another model */
    sb_side target;       /* of options.target; never judged itself */
    sb_findings findings; /* sorted by check, then by unit, once all checks are made */
    uint64_t bytes_read;  /* number of payload bytes read, of both sides */
    uint64_t mark_mask;   /* V-13: only keys in which all these bits are 0 are kept */
    size_t hub_files;     /* files for which the hub recorded a hash */
    size_t side_files;    /* files that check 51 could look at */
    /* by sb_problem: the number of problems reported to sb_check_problem, and the number of those
     * about mtp.* */
    size_t told[SB_CHECK_PROBLEMS], told_mtp[SB_CHECK_PROBLEMS];
    int unread;          /* some file exists but cannot be read, which is a finding */
    size_t sample_units; /* of options->sample: the number of chosen units, and their bytes */
    uint64_t sample_bytes;
} sb_check;

/* Runs all checks that options ask for. The status describes the run, not the checkpoint: SB_OK
 * whatever the findings, FATAL ones included; SB_ERR_IO or SB_ERR_INPUT if nothing at all can be
 * opened; SB_ERR_MEMORY. Call sb_check_free in any case. */
sb_status sb_check_run(const sb_check_options *options, sb_check *out, sb_error *err);
void sb_check_free(sb_check *check);

/* Opens the checkpoint and sets `chosen` of the units that a run with these options reads: for a
 * program that must fetch their bytes before. */
sb_status sb_check_choose(const sb_check_options *options, sb_check *out, sb_error *err);

/* 1 if check `number` is to be made. */
static inline int sb_check_wanted(const sb_check *check, unsigned number)
{
    return !check->options->skip[number] &&
           !(check->options->sample && sb_sample_says(number) == SB_SAMPLE_nothing);
}

/* Adds a finding that does not belong to the payload pass of one unit. The message is one line:
 * what was found where, and what was expected. tensor: a name, or "" for the folder as a whole. Not
 * thread-safe. */
void sb_check_find(sb_check *check, unsigned number, sb_level level, const char *tensor,
                   const char *format, ...) SB_PRINTF(5, 6);

/* The unit of the original with the same name; NULL: there is none, for example because only one
 * side stacks its experts. */
const sb_unit *sb_master_unit(const sb_check *check, const sb_unit *unit);

/* Checks 1 and 2: turns a problem that survey.h reports into a finding. */
void sb_check_problem(void *check, int problem, const char *file, const char *tensor,
                      const char *message);

/* The checks, one file each. */
#define SB_CHECK(...)
#define SB_PASS(stage, name) void sb_check_##name(sb_check *check);
#include "tools/check/read/checks.def"
#undef SB_CHECK
#undef SB_PASS

#endif
