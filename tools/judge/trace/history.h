/* history.h - the tokens of every sequence so far, also of one that continues another (U-11). Four
 * bytes per token, eight per call. */
#ifndef SB_TRACE_HISTORY_H
#define SB_TRACE_HISTORY_H

#include "tools/judge/trace/step.h"

typedef struct sb_history sb_history;

sb_history *sb_history_new(void); /* NULL if memory is out */
void sb_history_free(sb_history *history);

/* Adds a step: first the sequences that begin in it, then its rows. Rows that an earlier round
 * rejected are overwritten. SB_OK or SB_ERR_MEMORY. */
sb_status sb_history_step(sb_history *history, const sb_step *step, sb_error *err);

/* The number of tokens that the sequence was fed, its prefix counted; of a round that is not
 * recorded, all rows count until the next call. 0: there is no such sequence. */
uint64_t sb_history_end(const sb_history *history, uint32_t sequence);

/* True if a call of the sequence, or of a parent in its prefix, ended at this position, so that a
 * state existed there between two calls. */
int sb_history_ended_at(const sb_history *history, uint32_t sequence, uint64_t position);

/* Token `position` of a sequence; 0 if there is none, *out stays. */
int sb_history_token(const sb_history *history, uint32_t sequence, uint64_t position,
                     uint32_t *out);

/* The number of sequences, and the number of sequence i, in the order in which they began. */
size_t sb_history_count(const sb_history *history);
uint32_t sb_history_at(const sb_history *history, size_t i);

#endif
