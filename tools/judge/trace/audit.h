/* audit.h - checks that the steps of a trace are consistent: positions, rounds, slots and states of
 * every sequence, step by step. Memory grows only with the number of sequences, and by four bytes
 * per token. */
#ifndef SB_TRACE_AUDIT_H
#define SB_TRACE_AUDIT_H

#include "ref/model/config.h"
#include "tools/judge/trace/head.h"
#include "tools/judge/trace/level.h"
#include "tools/judge/trace/step.h"

typedef struct sb_finding {
    char check[16]; /* "position", "token", "round", "slot", "state", "level", ... */
    uint64_t step;
    uint32_t sequence;
    long long row; /* row of the step; -1: none */
    char words[256];
} sb_finding;

enum { SB_FINDINGS = 64, SB_AUDIT_TAPS = 128 };

typedef struct sb_audit_counts {
    size_t steps, sequences, rows[4]; /* by sb_call_kind */
    size_t rounds, drafted, accepted;
    size_t prefixes;  /* sequences that continue another one */
    size_t samplings; /* declarations of samplers */
    sb_step_sampling first_sampling;
    size_t orphans; /* sequences that begin behind position 0 and continue no other one */
    uint32_t first_orphan;
    uint64_t first_orphan_position;
    size_t arrays, with_data, not_finite; /* of taps; values that are NaN or infinite */
    size_t states, pieces, pieces_with_data;
    size_t constant; /* arrays of several values, all equal: they show little */
    char first_constant[96];
    size_t unknown;
    char first_unknown[96];
    unsigned char kept[SB_AUDIT_TAPS]; /* by row of taps.def: some step has values of the tap */
} sb_audit_counts;

typedef struct sb_audit sb_audit;

/* config NULL: shapes are not checked against a model. head NULL: it is not known at which
 * positions sequences may continue others. */
sb_status sb_audit_new(const sb_config *config, const sb_trace_head *head, sb_audit **out,
                       sb_error *err);
void sb_audit_free(sb_audit *audit);

/* An sb_step_fn: ctx is the audit. Fails only if memory is out. */
sb_status sb_audit_step(void *audit, const sb_step *step, sb_error *err);

/* Adds a finding of the caller. */
void sb_audit_add(sb_audit *audit, const char *check, uint64_t step, uint32_t sequence,
                  long long row, const char *format, ...) SB_PRINTF(6, 7);

const sb_audit_counts *sb_audit_count(const sb_audit *audit);
const sb_level *sb_audit_level(const sb_audit *audit);

/* "slot: step 2, row 0, sequence 0: slot 0 was read by ..." */
void sb_finding_text(const sb_finding *finding, char *out, size_t size);

/* The number of findings; *first receives the first SB_FINDINGS of them. */
size_t sb_audit_findings(const sb_audit *audit, const sb_finding **first);

#endif
