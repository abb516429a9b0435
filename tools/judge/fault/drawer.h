/* drawer.h - a sampler of an engine, written apart from the judge's (tools/judge/compare/draws.h),
 * with switches for mistakes. */
#ifndef SB_FAULT_DRAWER_H
#define SB_FAULT_DRAWER_H

#include <stddef.h>

#include "ref/base/status.h"
#include "tools/judge/trace/sampling.h"

/* What it does. */
typedef struct sb_drawing {
    sb_step_sampling does; /* its settings, its sampler and its generator, as it really has them */
    int penalized;         /* how often it applies penalties: 1 */
    int answer_only;       /* penalties do not count the prompt */
    int dropped;           /* tokens that top_p drops too many; below 0: too few */
    int absolute;          /* min_p is compared with the probability itself */
    int seed_of_first;     /* every sequence draws with the numbers of the first one */
    int stuck;             /* every token gets the same random number */
    int outside;           /* one draw in 16 is the most probable token that was cut */
    int biased;            /* random numbers below 3/4 only */
} sb_drawing;

/* One sequence. */
typedef struct sb_plain_drawer sb_plain_drawer;

/* sequence: its number. salt: of the random numbers, where the generator is not a published one. */
sb_status sb_plain_drawer_new(const sb_drawing *how, size_t vocab, uint32_t sequence, uint64_t salt,
                              sb_plain_drawer **out, sb_error *err);
void sb_plain_drawer_free(sb_plain_drawer *drawer);

/* A token of the sequence; given: it belongs to the prompt. */
sb_status sb_plain_drawer_feed(sb_plain_drawer *drawer, uint32_t token, int given, sb_error *err);

/* Draws the next token from logits (V). *u receives the random number. */
uint32_t sb_plain_drawer_draw(sb_plain_drawer *drawer, const float *logits, float *u);

/* A row of draws.def. */
typedef struct sb_draw_fault {
    const char *name, *words; /* name NULL: after the last row */
    int sound;
} sb_draw_fault;
extern const sb_draw_fault sb_draw_faults[];

const sb_draw_fault *sb_draw_fault_find(const char *name); /* NULL: no such row */

/* What the trace declares (of sequence 0), and what the engine does. */
void sb_draw_fault_set(const sb_draw_fault *fault, sb_step_sampling *declared, sb_drawing *how);

#endif
