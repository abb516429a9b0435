/* audit_inside.h - shared by the implementation files of the audit. */
#ifndef SB_TRACE_AUDIT_INSIDE_H
#define SB_TRACE_AUDIT_INSIDE_H

#include "tools/judge/trace/audit.h"
#include "tools/judge/trace/history.h"

/* The progress of a sequence. */
typedef struct sb_course {
    int seen;
    int continues; /* it has a parent and begins at `next` */
    uint64_t next; /* position of its next row; with `open`: any from least to next */
    uint64_t least;
    int open; /* drafts were verified, but the number of accepted ones is not known */
    int has_token;
    uint32_t token; /* the token at `next` */
    int has_round, was_cut;
    uint64_t round;           /* the last round */
    size_t accepted, emitted; /* of the last round */
    uint32_t slot;
    uint64_t call;  /* step of its last call */
    size_t drafted; /* draft rows since that call */
    uint64_t draft_position;
    uint32_t drafts[SB_MAX_DRAFTS + 1]; /* their tokens */
    int has_digest;
    sb_digest digest; /* digest of its last state */
    uint64_t digest_position;
} sb_course;

typedef struct sb_owner {
    int used;
    uint32_t sequence;
    uint64_t step;
} sb_owner;

struct sb_audit {
    const sb_config *config;
    sb_trace_prefix prefix;
    uint32_t block;
    sb_history *history; /* of the steps before the current one */
    sb_course *courses;  /* by sequence */
    size_t course_room;
    sb_owner *owners; /* by slot */
    size_t owner_room;
    sb_finding findings[SB_FINDINGS];
    size_t found;
    sb_audit_counts counts;
    sb_level level;
};

/* Rows first .. end-1 of a step: all of one sequence, without drafts. */
typedef struct sb_block {
    const sb_step *step;
    size_t first, end;
} sb_block;

/* audit_rounds.c: checks a block with or without a round, or a draft. */
void sb_audit_round(sb_audit *audit, sb_course *course, const sb_block *block);
void sb_audit_draft(sb_audit *audit, sb_course *course, const sb_step *step, size_t row);

/* The course of a sequence, zeroed at first; NULL if memory is out. */
sb_course *sb_audit_course(sb_audit *audit, uint32_t sequence);

/* audit_prefix.c: checks the sequences that continue others in this step; the beginning of a
 * sequence, with this block. */
sb_status sb_audit_prefixes(sb_audit *audit, const sb_step *step, sb_error *err);

/* audit_prefix.c: counts and checks the declared samplers of this step (U-12). */
void sb_audit_samplings(sb_audit *audit, const sb_step *step);
void sb_audit_begin(sb_audit *audit, const sb_course *course, const sb_block *block);

/* audit_arrays.c: checks the arrays and states of a step. */
void sb_audit_arrays(sb_audit *audit, const sb_step *step);
void sb_audit_states(sb_audit *audit, const sb_step *step);

/* audit_digests.c: U-6: "it must be the digest of these arrays" */
void sb_audit_digests(sb_audit *audit, const sb_step *step, const sb_step_state *state);

#endif
