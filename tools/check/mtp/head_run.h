/* head_run.h - the result of running the MTP head: the functional half of the MTP verdict.
 *
 * tools/judge/accept/head.c, which runs models, fills it in. Here it is joined with the audit of
 * the files and reported. Documented in docs/mtp-audit.md. */
#ifndef SB_CHECK_HEAD_RUN_H
#define SB_CHECK_HEAD_RUN_H

#include <jansson.h>
#include <stdio.h>

#include "tools/check/mtp/mtp.h"

typedef enum sb_head_verdict {
    SB_HEAD_OK,     /* drafts as well as the original's head */
    SB_HEAD_WEAK,   /* worse than the original's, or no better than a constant */
    SB_HEAD_UNKNOWN /* no head to compare with, or the head could not be run */
} sb_head_verdict;

const char *sb_head_verdict_name(sb_head_verdict verdict); /* "HEAD-WEAK" */

enum { SB_HEAD_OWN, SB_HEAD_ORIGINAL, SB_HEAD_SIDES };

/* Acceptance at depth 1 of one head on one trunk. */
typedef struct sb_head_cell {
    int known;
    uint64_t accepted, of;
    double rate, low, high; /* 95 % */
} sb_head_cell;

typedef struct sb_head_run {
    sb_head_verdict verdict;
    int failed; /* the head was asked for and could not be run */
    /* even with the original's head, this trunk drafts worse than the original's trunk */
    int trunk_bad;
    sb_head_cell cell[SB_HEAD_SIDES][SB_HEAD_SIDES]; /* [head][trunk] */
    uint64_t common; /* positions at which the target's choice is its most frequent token */
    char text[300];  /* source of the text; names in it went through SB_SHOW */
    char why[600];   /* the verdict in one sentence; names in it went through SB_SHOW, too */
} sb_head_run;

/* Joins the run into the verdict of the audit: HEAD-WEAK if the files are not bad and the head is
 * weak. original: the path of --against, or NULL. */
void sb_mtp_audit_join(sb_mtp_audit *audit, const sb_head_run *run, const char *path,
                       const char *original);

#endif
