/* verdict.h - compares an engine's counters with the reference's measurement. */
#ifndef SB_ACCEPT_VERDICT_H
#define SB_ACCEPT_VERDICT_H

#include "tools/judge/accept/measure.h"
#include "tools/judge/accept/observed.h"

typedef enum sb_accept_verdict {
    SB_ACCEPT_CONSISTENT,
    SB_ACCEPT_BELOW, /* the engine accepts less than the reference */
    SB_ACCEPT_ABOVE,
    SB_ACCEPT_UNKNOWN,
    SB_ACCEPT_EQUAL, /* E-16: every counter is that of the reference */
    SB_ACCEPT_DIFFERS
} sb_accept_verdict;

const char *sb_accept_verdict_name(sb_accept_verdict verdict); /* "CONSISTENT" */

/* One rate of both sides. */
typedef struct sb_accept_line {
    size_t depth; /* 1 ..; 0: accepted drafts of all drafts */
    sb_rate engine, reference;
    sb_interval difference; /* engine minus reference, 99.9 % */
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

/* E-16: compares the counters of an engine that gave the answers with those of their rounds. */
void sb_accept_compare_counters(const sb_accept *accept, const sb_observed *observed,
                                sb_accept_comparison *out);

/* The engine's counts in the common definitions; has_* tells which are known. */
typedef struct sb_accept_definitions {
    int has_length, has_rate, has_drafts;
    double length;       /* accepted per round, without the bonus token */
    double bonus_length; /* the same with the bonus token */
    double rate;         /* accepted per drafted token */
    double drafts;       /* drafted tokens per round */
} sb_accept_definitions;

sb_accept_definitions sb_observed_definitions(const sb_observed *observed);

#endif
