/* head.h - the head of a trace: fields that hold for all its steps. */
#ifndef SB_TRACE_HEAD_H
#define SB_TRACE_HEAD_H

#include "ref/base/hash.h"
#include "ref/ops/knobs.h"

/* Version 2 is version 1 plus the keys of U-10, version 3 is version 2 plus those of U-11. All are
 * read; 3 is written. */
enum { SB_TRACE_VERSION = 3, SB_TRACE_OLDEST = 1, SB_TRACE_LEVELS = 5 };

/* U-10: "how the engine undoes rejected drafts" */
typedef enum sb_trace_rollback {
    SB_TRACE_ROLLBACK_unknown,
    SB_TRACE_ROLLBACK_replay,
    SB_TRACE_ROLLBACK_snapshots,
    SB_TRACE_ROLLBACK_slots
} sb_trace_rollback;

/* U-10: "who made the drafts" */
typedef enum sb_trace_drafter {
    SB_TRACE_DRAFTER_unknown,
    SB_TRACE_DRAFTER_own,
    SB_TRACE_DRAFTER_external,
    SB_TRACE_DRAFTER_sampled, /* own, with random drafts */
    SB_TRACE_DRAFTER_eagle3,  /* the folder of a drafter (M-12) */
    SB_TRACE_DRAFTER_eagle3_sampled
} sb_trace_drafter;

/* U-11: "at which positions the engine keeps states for other sequences" */
typedef enum sb_trace_prefix {
    SB_TRACE_PREFIX_unknown,
    SB_TRACE_PREFIX_full,
    SB_TRACE_PREFIX_block,
    SB_TRACE_PREFIX_checkpoint
} sb_trace_prefix;

typedef struct sb_trace_head {
    unsigned version;    /* version of the folder's format; set by the reader */
    unsigned level;      /* 0 .. 4, reached by every step; set by the writer and the reader */
    uint64_t spec;       /* version of docs/spec.md */
    char engine[96];     /* "samebit ref", "vllm 0.11.0" */
    char arithmetic[64]; /* a word of docs/trace.md, or "" if unknown */
    char profile[64];    /* a profile of docs/profiles.md, or "" */
    int has_knobs;
    sb_knobs knobs;
    sb_digest checkpoint; /* digest by `samebit hash`, or "" */
    uint32_t vocab_size;
    sb_trace_rollback rollback;
    sb_trace_drafter drafter;
    char functions[32];   /* a library of elementary functions, or "" */
    uint32_t delta_chunk; /* rows of a chunk of the delta rule; 0: not stated */
    sb_trace_prefix prefix;
    uint32_t prefix_block; /* tokens; 0: not stated */
} sb_trace_head;

/* The words for a rollback, a drafter and a prefix; "" for unknown. */
const char *sb_trace_rollback_name(sb_trace_rollback rollback);
const char *sb_trace_drafter_name(sb_trace_drafter drafter);
const char *sb_trace_prefix_name(sb_trace_prefix prefix);

/* T-85: true if the engine undoes rows by feeding rows again, or if that is not known. */
int sb_trace_replays(sb_trace_rollback rollback);

/* 1, and sets *out, if `text` is such a word and not "". */
int sb_trace_rollback_of(const char *text, sb_trace_rollback *out);
int sb_trace_drafter_of(const char *text, sb_trace_drafter *out);
int sb_trace_prefix_of(const char *text, sb_trace_prefix *out);

#endif
