/* pair_parts.h - parts that the files of pair share. */
#ifndef SB_QUALITY_PAIR_PARTS_H
#define SB_QUALITY_PAIR_PARTS_H

#include "ref/run/walk.h"
#include "tools/judge/quality/pair.h"

/* The place of a text's tokens in a stream of all tokens, and in a stream of the mixtures, which
 * has the first tokens of each text. */
typedef struct pair_span {
    size_t from, count, mixed_from, mixed;
} pair_span;

/* The expert ids of one pass through a layer: (tokens, kept). */
typedef struct pair_routes {
    float *ids;
    size_t count;
} pair_routes;

typedef struct pair_work {
    const sb_model *const *models;
    const sb_pair_text *texts;
    size_t text_count;
    const sb_pair_options *options;
    sb_pair *out;
    pair_span *spans; /* (text_count) */
    sb_walk *walk[2];
    size_t width, layers, kept;
    float *stream[2];      /* (tokens, width): A alone, B alone */
    float *before, *after; /* (mixed, width): A before and after one layer */
    float *mixture; /* (layers + 1, mixed, width): item 0 has B's embedding, i B's layer i - 1 */
    pair_routes routes[3]; /* A alone, B alone, B on A's input */
    pair_routes *listens;  /* destination of ids from the tap, or NULL */
    uint32_t *guess[2];    /* (tokens) drafts */
} pair_work;

/* The stream of mixture i. */
float *pair_mixture(const pair_work *w, size_t i);

/* Runs the embedding and all layers, and the heads' drafts. */
sb_status pair_walk(pair_work *w, sb_error *err);

/* Computes the logits of every token of every stream, and the results from them. */
sb_status pair_judge(pair_work *w, sb_error *err);

void pair_progress(const pair_work *w, const char *what, uint64_t done, uint64_t total);

#endif
