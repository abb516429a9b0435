/* logprobs.h - sequences with log-probabilities as steps: common parts of the readers of answers,
 * KLD base files and single rows of logits. */
#ifndef SB_DUMP_LOGPROBS_H
#define SB_DUMP_LOGPROBS_H

#include "tools/dump/dump.h"

enum { SB_DUMP_MAX_VOCAB = 1 << 24, SB_DUMP_MAX_SEQUENCES = 1 << 20 };

/* J-1: "ids that stand in both must be the same" - the `count` ids of the file, and the command
 * line's ids of this sequence, if given. `where` begins messages. */
sb_status sb_dump_check_ids(const sb_dump_options *options, size_t sequence, const uint32_t *ids,
                            size_t count, const char *where, sb_error *err);

/* The command line's ids of a sequence and their count: its own list, or the only list for all. */
const uint32_t *sb_dump_given_ids(const sb_dump_options *options, size_t sequence, size_t *count);

/* The most rows of `width` numbers in a step: at least one, and a multiple of 64 if possible,
 * because the chunks of a call end there, too. */
size_t sb_dump_rows_of_step(size_t width);

/* The number of rows in the next step. If most > 64, never leaves a single row for the last step,
 * because a call of one row may follow other rules than a call of many. */
size_t sb_dump_next_rows(size_t left, size_t most);

/* Adds a tap with data; SB_ERR_MEMORY. */
sb_status sb_dump_add(sb_step *step, const char *name, size_t rows, size_t cols, float **data,
                      sb_error *err);

/* The nearest binary32; values beyond the range become the largest finite ones. */
float sb_dump_f32(double x);

/* Marks rows [first, first + count) of the step as the only ones with logits or
 * log-probabilities. */
sb_status sb_dump_logits_rows(sb_step *step, size_t first, size_t count, sb_error *err);

#endif
