/* answers.h - server answers in memory, for their reader and for tests. */
#ifndef SB_DUMP_ANSWERS_H
#define SB_DUMP_ANSWERS_H

#include "tools/dump/dump.h"

typedef struct sb_answers sb_answers;

/* The text must outlive *out; messages name it by `file`. */
sb_status sb_answers_parse(const char *text, size_t size, const char *file,
                           const sb_dump_options *options, sb_answers **out, sb_error *err);
sb_status sb_answers_play(void *answers, sb_step_fn take, void *ctx, sb_error *err);
void sb_answers_free(void *answers); /* NULL is fine */

#endif
