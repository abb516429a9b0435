/* diff.h - the result of a comparison as people, programs and build servers read it: all three from
 * the one structure of verdicts. Nothing printed depends on a clock, a thread or a folder. */
#ifndef SB_REPORT_DIFF_H
#define SB_REPORT_DIFF_H

#include <jansson.h>
#include <stdio.h>

#include "tools/compare/verdict.h"

typedef struct sb_diff_report {
    const sb_verdicts *verdicts;
    const char *checkpoint, *engine;
    const char *versus; /* the other engine, or NULL: the reference alone */
    const char *of;     /* whose the verdict is: the engine, or the other one if that is wrong */
    const char *profile, *arithmetic;
    const char *ways;  /* "forced and free" */
    const char *notes; /* lines that the reader should know, each ended, or NULL */
    uint32_t layers;   /* of the trunk: the layer of this number is the MTP head */
    size_t steps, sequences;
} sb_diff_report;

/* One engine, or two that were held against the reference one after the other. */
typedef struct sb_diff_reports {
    sb_diff_report item[2];
    size_t count;
    const char *right;            /* of two: "engine", "versus", "both" or "neither" */
    const char *const *arguments; /* the command line, behind "samebit" */
    size_t argument_count;
    const char *digest; /* of the checkpoint, or "": not asked for */
} sb_diff_reports;

enum {
    SB_DIFF_TOKENS = 32, /* as many tokens are shown one by one */
    SB_DIFF_LINES = 20   /* of more only what is not in order, and at most so many */
};

typedef struct sb_diff_style {
    int all;   /* a line per token, however many */
    int quiet; /* the closing line only */
} sb_diff_style;

void sb_diff_text(const sb_diff_report *report, const sb_diff_style *style, FILE *out);

/* Adds to document; NULL (and document is gone) if memory is out. docs/diff.md lists the keys. */
json_t *sb_diff_json(const sb_diff_report *report, json_t *document);

/* A suite per engine; a case for the tokens, the rounds, each part of the state, and each op. */
sb_status sb_diff_junit(const sb_diff_reports *reports, const char *path, sb_error *err);

/* What the verdict means, for people: one line. */
const char *sb_diff_meaning(sb_verdict verdict);

/* "layer 3", "mtp.0", or "" of what belongs to no layer. */
typedef struct sb_diff_layer {
    char text[24];
} sb_diff_layer;
sb_diff_layer sb_diff_layer_text(const sb_diff_report *report, uint32_t layer);

/* How many tokens have this verdict; SKIPPED are also those of which nothing was asked. */
size_t sb_diff_tokens(const sb_verdicts *verdicts, sb_verdict verdict);
size_t sb_diff_compared(const sb_verdicts *verdicts); /* tokens that have one */

/* What is summed over all tokens and rounds; [0] is the reference, [1] the engine. */
typedef struct sb_diff_sums {
    double kl, worst;
    size_t with_kl,
        lower_kl; /* lower: of a part of the distribution, so that it is at least that */
    size_t drafted[2], accepted[2];
} sb_diff_sums;
sb_diff_sums sb_diff_add(const sb_verdicts *verdicts);

/* The round that begins with a token, or NULL: rounds stand in the order of their tokens, each
 * before the rows of its drafts. One cursor, zeroed, for all tokens in their order. */
typedef struct sb_diff_cursor {
    size_t next, inside; /* rows that are left of the last round */
} sb_diff_cursor;
const sb_round_verdict *sb_diff_round_of(const sb_verdicts *verdicts, const sb_token_verdict *token,
                                         sb_diff_cursor *cursor);

/* A part of the state over all rounds: the heaviest verdict, none if it was never compared. *at
 * gets the first round that has it (NULL if none). */
sb_verdict sb_diff_state(const sb_verdicts *verdicts, sb_state_part part,
                         const sb_round_verdict **at);

/* Whether it is in order: IDENTICAL, WITHIN, or nothing was asked. */
int sb_diff_fine(sb_verdict verdict);

/* Whether an op occurred at all. */
int sb_diff_met(const sb_op_verdict *op);

#endif
