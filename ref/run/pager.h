/* pager.h - what of a mapped checkpoint should be in memory: asked for ahead, and given back behind
 * where the whole of it would be too much. It never changes a bit, only when pages are read.
 *
 * Weights are read in place, so a page is in memory once it has been touched. The pager asks for
 * the dense weights of the next layer while this one is computed, and for the experts of this one
 * as soon as they are chosen. Under a limit, layers and experts stay as they come until it is
 * reached, and what comes later leaves with its layer: of a file that is read in a circle, keeping
 * a fixed part saves the most. */
#ifndef SB_RUN_PAGER_H
#define SB_RUN_PAGER_H

#include "ref/model/weights.h"

typedef struct sb_pager sb_pager;

/* NULL: out of memory. weights and config must outlive it. All functions take NULL and do nothing;
 * sessions may call them at the same time. */
sb_pager *sb_pager_new(const sb_weights *weights, const sb_config *config);
void sb_pager_free(sb_pager *pager);

/* What is dense will stay in memory, and is read in large pages where the system has them for
 * files: the processor finds those sooner. Only of experts it is asked for ahead then. A limit ends
 * it. */
void sb_pager_large(sb_pager *pager);

/* Bytes of weights that may stay in memory; 0: all. What is in memory beside them is at most
 * sb_pager_margin, the largest two layers. */
void sb_pager_limit(sb_pager *pager, uint64_t bytes);
uint64_t sb_pager_margin(const sb_pager *pager);
uint64_t sb_pager_bytes(const sb_pager *pager); /* of all weights */

/* Called at the end of each layer with the bytes asked for so far, if there is a limit that the
 * weights exceed. */
typedef void (*sb_pager_fn)(void *ctx, uint64_t bytes);
void sb_pager_watch(sb_pager *pager, sb_pager_fn fn, void *ctx);

/* A layer begins; behind the last one comes the head. Its experts ids[0 .. n-1] were chosen. It
 * has ended. */
void sb_pager_enter(sb_pager *pager, uint32_t layer);
void sb_pager_experts(sb_pager *pager, uint32_t layer, const uint32_t *ids, size_t n);
void sb_pager_leave(sb_pager *pager, uint32_t layer);

#endif
