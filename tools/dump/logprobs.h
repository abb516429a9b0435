/* logprobs.h - sequences of which log-probabilities are known, as steps: what the readers of
 * answers, of KLD base files and of single rows of logits have in common. */
#ifndef SB_DUMP_LOGPROBS_H
#define SB_DUMP_LOGPROBS_H

#include "tools/dump/dump.h"

enum { SB_DUMP_MAX_VOCAB = 1 << 24, SB_DUMP_MAX_SEQUENCES = 1 << 20 };

/* J-1: "ids that stand in both must be the same" - those of the file, which has `count`, and those
 * of the command line for this sequence, if there are any. `where` begins messages. */
sb_status sb_dump_check_ids(const sb_dump_options *options, size_t sequence, const uint32_t *ids,
                            size_t count, const char *where, sb_error *err);

/* How many of the command line stand for a sequence: of one list for all, or of its own. */
const uint32_t *sb_dump_given_ids(const sb_dump_options *options, size_t sequence, size_t *count);

/* Rows of `width` numbers that one step may have: one at least, and whole chunks of 64 where there
 * are so many, at which the chunks of a call end, too. */
size_t sb_dump_rows_of_step(size_t width);

/* How many of the rows left come next: never all but one, as a call of one row may follow other
 * rules than one of many. */
size_t sb_dump_next_rows(size_t left, size_t most);

/* Adds a tap with data; SB_ERR_MEMORY. */
sb_status sb_dump_add(sb_step *step, const char *name, size_t rows, size_t cols, float **data,
                      sb_error *err);

/* The nearest binary32; the largest ones stand for what is beyond them. */
float sb_dump_f32(double x);

/* Says that only rows [first, first + count) of the step have logits or log-probabilities. */
sb_status sb_dump_logits_rows(sb_step *step, size_t first, size_t count, sb_error *err);

#endif
