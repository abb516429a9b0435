/* diff.h - the result of a comparison as text, as JSON and for build servers, all from the same
 * structure of verdicts. The output does not depend on time, threads or folders. */
#ifndef SB_REPORT_DIFF_H
#define SB_REPORT_DIFF_H

#include <jansson.h>
#include <stdio.h>

#include "tools/judge/compare/verdict.h"

typedef struct sb_diff_report {
    const sb_verdicts *verdicts;
    const char *checkpoint, *engine;
    const char *versus; /* the other engine, or NULL: the reference alone */
    const char *of;     /* the verdict's subject: `engine`, or `versus` if only `versus` is wrong */
    const char *profile, *arithmetic;
    const char *ways;  /* "forced and free" */
    const char *notes; /* further lines for the reader, each with its newline; or NULL */
    uint32_t layers;   /* layers of the trunk; this layer number is the MTP head */
    size_t steps, sequences;
} sb_diff_report;

/* One engine, or two that were compared with the reference one after the other. */
typedef struct sb_diff_reports {
    sb_diff_report item[2];
    size_t count;
    const char *right;            /* for two engines: "engine", "versus", "both" or "neither" */
    const char *const *arguments; /* the command line after "samebit" */
    size_t argument_count;
    const char *digest; /* digest of the checkpoint; "": not requested */
} sb_diff_reports;

enum {
    SB_DIFF_TOKENS = 32, /* up to this many tokens are all shown */
    SB_DIFF_LINES = 20   /* of more tokens only those not in order, at most this many */
};

typedef struct sb_diff_style {
    int all;   /* a line for every token */
    int quiet; /* only the closing line */
} sb_diff_style;

void sb_diff_text(const sb_diff_report *report, const sb_diff_style *style, FILE *out);

/* Adds to document. NULL if memory is out; document is then freed. docs/diff.md lists the keys. */
json_t *sb_diff_json(const sb_diff_report *report, json_t *document);

/* A suite per engine; a case for the tokens, the rounds, each part of the state, and each op. */
sb_status sb_diff_junit(const sb_diff_reports *reports, const char *path, sb_error *err);

/* The meaning of the verdict in one line. */
const char *sb_diff_meaning(sb_verdict verdict);

/* "layer 3", "mtp.0", "drafter.0", or "" for no layer. */
typedef struct sb_diff_layer {
    char text[24];
} sb_diff_layer;
sb_diff_layer sb_diff_layer_text(const sb_diff_report *report, uint32_t layer);

/* The number of tokens with this verdict. Tokens without a verdict count as SKIPPED. */
size_t sb_diff_tokens(const sb_verdicts *verdicts, sb_verdict verdict);
size_t sb_diff_compared(const sb_verdicts *verdicts); /* tokens with any verdict */

/* Sums over all tokens and rounds; [0] is the reference, [1] the engine. */
typedef struct sb_diff_sums {
    double kl, worst;
    size_t with_kl, lower_kl; /* lower_kl: tokens whose divergence is only a lower bound */
    size_t drafted[2], accepted[2];
} sb_diff_sums;
/* The most drafts that a round has on either side. */
size_t sb_diff_depths(const sb_verdicts *v);

/* The drafts at this place in their rounds, from 0 on; the other sums are 0. */
sb_diff_sums sb_diff_depth(const sb_verdicts *v, size_t place);
sb_diff_sums sb_diff_add(const sb_verdicts *verdicts);

/* The round that begins with a token, or NULL. Call for all tokens in order with the same cursor,
 * which starts zeroed. Rounds are in the order of their tokens. */
typedef struct sb_diff_cursor {
    size_t next, inside; /* inside: remaining rows of the last round */
} sb_diff_cursor;
const sb_round_verdict *sb_diff_round_of(const sb_verdicts *verdicts, const sb_token_verdict *token,
                                         sb_diff_cursor *cursor);

/* The heaviest verdict of a part of the state over all rounds; none if it was never compared. *at
 * receives the first round with that verdict, or NULL. */
sb_verdict sb_diff_state(const sb_verdicts *verdicts, sb_state_part part,
                         const sb_round_verdict **at);

/* True if the verdict is in order: IDENTICAL, WITHIN or none. */
int sb_diff_fine(sb_verdict verdict);

/* True if the op occurred. */
int sb_diff_met(const sb_op_verdict *op);

#endif
