/* report.h - the result of a check for people, programs and build servers.
 *
 * The output depends on the files and the options alone, never on the order of threads or on
 * time. */
#ifndef SB_CHECK_REPORT_H
#define SB_CHECK_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "tools/check/read/check.h"
#include "tools/check/mtp/head_run.h"
#include "tools/check/loaded/loaded.h"
#include "tools/check/mtp/mtp.h"
#include "tools/check/read/waivers.h"
#include "tools/report/part/document.h"

typedef enum sb_check_state {
    SB_STATE_passed,  /* made, and it found nothing but notes */
    SB_STATE_found,   /* a WARN or worse that is not waived */
    SB_STATE_waived,  /* all its findings of WARN or worse are waived */
    SB_STATE_skipped, /* not made; the report says why */
    SB_STATE_nothing  /* the files contain nothing of the kind that the check looks at */
} sb_check_state;

const char *sb_check_state_name(sb_check_state state); /* "passed" */

typedef enum sb_check_verdict {
    SB_CHECK_pass,
    SB_CHECK_fail,
    SB_CHECK_mistrusted /* nothing could be checked, so nothing is known */
} sb_check_verdict;

const char *sb_check_verdict_name(sb_check_verdict verdict); /* "PASS", "FAIL", "MISTRUSTED" */

/* The result of one check. */
typedef struct sb_report_check {
    sb_check_state state;
    const char *why;     /* why the check was skipped, or had nothing to look at */
    size_t first, count; /* findings of the check: the first, and their number */
    size_t level[4];     /* number of findings that are not waived, by level */
    size_t waived;
    sb_level worst; /* worst level of the findings that are not waived */
} sb_report_check;

/* Missing files of the original that hold tensors of the checkpoint. */
typedef struct sb_report_shards {
    const char **names; /* sorted; strings of the index */
    size_t count;
    /* tensors of the checkpoint that could not be compared because of these files */
    size_t tensors;
} sb_report_shards;

/* Tensors of the checkpoint with no counterpart in the original, or that follow from the original
 * by no known rule. */
typedef struct sb_report_role {
    char *name; /* "mlp.experts.gate_proj.input_scale" */
    size_t count;
} sb_report_role;

typedef struct sb_report_compared {
    size_t tensors, not_compared;
    sb_report_role *roles; /* roles of the tensors that were not compared; sorted by name */
    size_t role_count;
} sb_report_compared;

typedef struct sb_report {
    const sb_check *check;
    sb_waivers *waivers;     /* NULL: none */
    const sb_loaded *loaded; /* NULL: not asked for */
    const sb_mtp_audit *mtp; /* NULL: not made */
    const sb_head_run *head; /* NULL: not asked for */
    const char *path, *against;
    /* the hub id by which `against` was found; NULL: `against` was given as a path */
    const char *original_id;
    const char *const *arguments; /* the command line after "samebit", for the page */
    size_t argument_count;
    /* filled by sb_report_make */
    sb_report_check checks[SB_CHECK_LAST + 1];
    size_t level[4], waived, unused_waivers;
    size_t made, found, passed, skipped, nothing;
    sb_report_shards shards;
    sb_report_compared compared; /* filled if there is an original */
    const char *need;            /* why --need is not met; NULL: it is met, or was not given */
    sb_check_verdict verdict;
} sb_report;

/* Apply the waivers first. Fails when memory runs out. */
sb_status sb_report_make(sb_report *report, sb_error *err);
void sb_report_free(sb_report *report);

/* Fills report->compared; called by sb_report_make. */
sb_status sb_report_compare(sb_report *report, sb_error *err);
void sb_report_compared_free(sb_report_compared *compared);

/* 1 if a waiver covers nothing although its check was made; 2 if it would cover only FATAL
 * findings; else 0. */
int sb_report_unused(const sb_report *report, const sb_waiver *waiver);

/* Why the files contain nothing for this check to look at; NULL: they do. */
const char *sb_nothing_for(const sb_check *check, unsigned number);

/* 1 if the chosen units (check --sample) contain something for this check to look at. */
int sb_in_sample(const sb_check *check, unsigned number);

/* Why the folder itself does not allow this check; NULL: it does. */
const char *sb_lacks_for(const sb_check *check, unsigned number);

/* One line of text: the faults that files alone cannot show, without an original or the hub's
 * hashes. NULL if either is available, or if the payload was not read. */
const char *sb_report_unseen(const sb_report *report);

/* How much of the values was read: "every byte", "headers only", "values of 8 of 96 layers and
 * tensors". */
typedef struct sb_report_extent {
    char text[96];
} sb_report_extent;
sb_report_extent sb_report_read(const sb_check *check);

enum { SB_REPORT_LINES = 8 }; /* default number of findings per check in the text */

/* lines: findings per check, SIZE_MAX for all; quiet: only the closing line; verbose: also checks
 * without findings. */
typedef struct sb_report_style {
    size_t lines;
    int quiet, verbose;
} sb_report_style;

void sb_report_text(const sb_report *report, const sb_report_style *style, FILE *out);

/* Adds the report to document. Returns NULL if memory runs out; document is released then. */
json_t *sb_report_json(const sb_report *report, json_t *document);

/* What --run found about the MTP head, as text and as JSON (NULL if memory runs out). */
void sb_report_head_text(const sb_head_run *run, FILE *out);
json_t *sb_report_head_json(const sb_head_run *run);

/* Well-formed XML, whatever bytes names contain. The file is written completely or not at all. */
sb_status sb_report_junit(const sb_report *report, const char *path, sb_error *err);

/* SARIF 2.1.0: a rule per check, a result per finding; waived findings are suppressed. */
sb_status sb_report_sarif(const sb_report *report, const char *path, sb_error *err);

/* Counts and findings of WARN and worse in Markdown. */
sb_status sb_report_markdown(const sb_report *report, const char *path, sb_error *err);

/* Both verdicts as an SVG picture, or in a file that ends in .json as an endpoint of shields.io. */
sb_status sb_report_badge(const sb_report *report, const char *path, sb_error *err);

/* A page for a browser (docs/report.md). */
sb_status sb_report_html(const sb_report *report, const char *path, sb_error *err);

/* The verdict and the map of the folder as an SVG picture for the page of a model. */
sb_status sb_report_image(const sb_report *report, const char *path, sb_error *err);

/* The loaded parameters, and the audit of the MTP head, as text and as JSON. */
void sb_report_loaded_text(const sb_loaded *loaded, const sb_waivers *waivers,
                           const sb_report_style *style, FILE *out);
json_t *sb_report_loaded_json(const sb_loaded *loaded, const sb_waivers *waivers);
void sb_report_mtp_text(const sb_mtp_audit *audit, const sb_report_style *style, FILE *out);
json_t *sb_report_mtp_json(const sb_mtp_audit *audit);

#endif
