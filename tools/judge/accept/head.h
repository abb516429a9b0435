/* head.h - the functional verdict on an MTP head: measures every combination of the own or original
 * head with the own or original trunk, on one text. */
#ifndef SB_ACCEPT_HEAD_H
#define SB_ACCEPT_HEAD_H

#include "tools/judge/accept/measure.h"
#include "tools/check/mtp/head_run.h"

enum { SB_HEAD_MAX_POSITIONS = 1000000 };

typedef struct sb_head_options {
    const char *path;     /* the checkpoint: a folder */
    const char *original; /* NULL: none */
    const char *const *overlays;
    size_t overlay_count;
    uint64_t positions;          /* N, at least 1 */
    const sb_accept_text *texts; /* NULL: made by the model */
    size_t text_count;
    const char *text_name; /* name of the file of the texts */
    void (*progress)(void *ctx, const char *what, uint64_t done, uint64_t total);
    void *progress_ctx;
} sb_head_options;

/* A head that cannot be run gives a verdict (UNKNOWN, failed). Fails only if memory is out. */
sb_status sb_head_measure(const sb_head_options *options, sb_head_run *out, sb_error *err);

/* Makes the texts of E-14, greedy continuations by the model, with `positions` positions in all. */
sb_status sb_head_texts(const sb_model *model, uint64_t positions, sb_accept_text **texts,
                        size_t *count, sb_error *err);
void sb_head_texts_free(sb_accept_text *texts, size_t count);

/* E-9, E-15: sets the verdict from the cells. */
void sb_head_judge(sb_head_run *run);

#endif
