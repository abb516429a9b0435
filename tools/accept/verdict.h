/* verdict.h - what an engine counted, held against what the reference measured. */
#ifndef SB_ACCEPT_VERDICT_H
#define SB_ACCEPT_VERDICT_H

#include "tools/accept/measure.h"
#include "tools/accept/observed.h"

typedef enum sb_accept_verdict {
    SB_ACCEPT_CONSISTENT,
    SB_ACCEPT_BELOW, /* the engine accepts less than the reference does */
    SB_ACCEPT_ABOVE,
    SB_ACCEPT_UNKNOWN
} sb_accept_verdict;

const char *sb_accept_verdict_name(sb_accept_verdict verdict); /* "CONSISTENT" */

/* One rate, of both. */
typedef struct sb_accept_line {
    size_t depth; /* 1 ..; 0: drafts accepted of all */
    sb_rate engine, reference;
    sb_interval difference; /* engine less reference, 99.9 % */
    sb_accept_verdict verdict;
} sb_accept_line;

typedef struct sb_accept_comparison {
    sb_accept_verdict verdict;
    sb_accept_line lines[SB_MAX_DRAFTS + 1];
    size_t count;
    char why[400]; /* the verdict in one sentence */
} sb_accept_comparison;

void sb_accept_compare(const sb_accept *accept, const sb_observed *observed,
                       sb_accept_comparison *out);

/* The definitions in use, of what the engine counted; has_* tells which are known. */
typedef struct sb_accept_definitions {
    int has_length, has_rate, has_drafts;
    double length;       /* accepted per round, without the bonus token */
    double bonus_length; /* with it */
    double rate;         /* accepted per drafted token */
    double drafts;       /* drafted tokens per round */
} sb_accept_definitions;

sb_accept_definitions sb_observed_definitions(const sb_observed *observed);

#endif
