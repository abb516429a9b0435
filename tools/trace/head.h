/* head.h - what a trace says once, of all its steps. */
#ifndef SB_TRACE_HEAD_H
#define SB_TRACE_HEAD_H

#include "ref/base/hash.h"
#include "ref/ops/knobs.h"

enum { SB_TRACE_VERSION = 1, SB_TRACE_LEVELS = 5 };

typedef struct sb_trace_head {
    unsigned level;      /* 0 .. 4: what is there in every step; set by the writer and the reader */
    uint64_t spec;       /* version of docs/spec.md */
    char engine[96];     /* "samebit ref", "vllm 0.11.0": who computed */
    char arithmetic[64]; /* how: a word of docs/trace.md, or "" if unknown */
    char profile[64];    /* of docs/profiles.md, or "" */
    int has_knobs;
    sb_knobs knobs;
    sb_digest checkpoint; /* of `samebit hash`, or "" */
    uint32_t vocab_size;
} sb_trace_head;

#endif
