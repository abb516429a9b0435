/* report.h - the result of a check as people, programs and build servers read it.
 *
 * Everything printed is a function of the files and the options: no time, no order of threads. */
#ifndef SB_CHECK_REPORT_H
#define SB_CHECK_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "tools/check/check.h"
#include "tools/check/head_run.h"
#include "tools/check/loaded.h"
#include "tools/check/mtp.h"
#include "tools/check/waivers.h"

typedef enum sb_check_state {
    SB_STATE_passed,  /* made, and nothing stands against the file, notes apart */
    SB_STATE_found,   /* a WARN or worse that is not waived */
    SB_STATE_waived,  /* all that stands against the file is waived */
    SB_STATE_skipped, /* not made, and it says why */
    SB_STATE_nothing  /* there is nothing of its kind in the files */
} sb_check_state;

const char *sb_check_state_name(sb_check_state state); /* "passed" */

typedef enum sb_check_verdict {
    SB_CHECK_pass,
    SB_CHECK_fail,
    SB_CHECK_mistrusted /* nothing could be looked at, so nothing is known */
} sb_check_verdict;

const char *sb_check_verdict_name(sb_check_verdict verdict); /* "PASS", "FAIL", "MISTRUSTED" */

/* What is known of one check. */
typedef struct sb_report_check {
    sb_check_state state;
    const char *why;     /* of skipped and nothing */
    size_t first, count; /* its findings, in the order of sb_check */
    size_t level[4];     /* of those that are not waived */
    size_t waived;
    sb_level worst; /* of those that are not waived */
} sb_report_check;

/* The files of the original that are not here, and that hold what the checkpoint has. */
typedef struct sb_report_shards {
    const char **names; /* sorted; strings of the index */
    size_t count;
    size_t tensors; /* of the checkpoint that could not be compared for that */
} sb_report_shards;

/* Tensors of the checkpoint that the original has no counterpart for, or nothing says how they
 * would follow from it. */
typedef struct sb_report_role {
    char *name; /* "mlp.experts.gate_proj.input_scale" */
    size_t count;
} sb_report_role;

typedef struct sb_report_compared {
    size_t tensors, not_compared;
    sb_report_role *roles; /* of those not compared; sorted by name */
    size_t role_count;
} sb_report_compared;

typedef struct sb_report {
    const sb_check *check;
    sb_waivers *waivers;     /* NULL: none */
    const sb_loaded *loaded; /* NULL: not asked for */
    const sb_mtp_audit *mtp; /* NULL: not made */
    const sb_head_run *head; /* NULL: not asked for */
    const char *path, *against;
    const char *original_id; /* the hub id that `against` was found by; NULL: it was a path */
    /* filled by sb_report_make */
    sb_report_check checks[SB_CHECK_LAST + 1];
    size_t level[4], waived, unused_waivers;
    size_t made, found, passed, skipped, nothing;
    sb_report_shards shards;
    sb_report_compared compared; /* with an original */
    const char *need;            /* why --need is not met; NULL: it is, or was not given */
    sb_check_verdict verdict;
} sb_report;

/* The waivers have been applied. Fails when memory is out. */
sb_status sb_report_make(sb_report *report, sb_error *err);
void sb_report_free(sb_report *report);

/* Fills report->compared: a part of sb_report_make. */
sb_status sb_report_compare(sb_report *report, sb_error *err);
void sb_report_compared_free(sb_report_compared *compared);

/* Whether a waiver covers nothing although its check was made; 2: it would only cover FATAL. */
int sb_report_unused(const sb_report *report, const sb_waiver *waiver);

/* Why there is nothing in the files that a check could look at; NULL: there is. */
const char *sb_nothing_for(const sb_check *check, unsigned number);

/* Why a check was not made that the folder itself does not allow; NULL: it does. */
const char *sb_lacks_for(const sb_check *check, unsigned number);

/* Which faults the files cannot show without an original or the hub's hashes: a line of text; NULL
 * if there is one of the two, or the payload was not looked at. */
const char *sb_report_unseen(const sb_report *report);

enum { SB_REPORT_LINES = 8 }; /* findings of a check that text shows by default */

/* lines: findings per check, SIZE_MAX for all; quiet: the closing line only; verbose: also what is
 * in order. */
typedef struct sb_report_style {
    size_t lines;
    int quiet, verbose;
} sb_report_style;

void sb_report_text(const sb_report *report, const sb_report_style *style, FILE *out);

/* Adds to document; NULL (and document is gone) if memory is out. */
json_t *sb_report_json(const sb_report *report, json_t *document);

/* Well-formed XML whatever bytes names have; written whole, or not at all. */
sb_status sb_report_junit(const sb_report *report, const char *path, sb_error *err);

/* The text as valid UTF-8 without control characters, others become '?'. NULL if memory is out. */
char *sb_report_clean(const char *text);

/* Of the loaded parameters, in the same three forms. */
void sb_report_loaded_text(const sb_loaded *loaded, const sb_waivers *waivers,
                           const sb_report_style *style, FILE *out);
json_t *sb_report_loaded_json(const sb_loaded *loaded, const sb_waivers *waivers);
void sb_report_mtp_text(const sb_mtp_audit *audit, const sb_report_style *style, FILE *out);
json_t *sb_report_mtp_json(const sb_mtp_audit *audit);

/* A string of a document, cleaned. */
json_t *sb_report_string(const char *text);

#endif
