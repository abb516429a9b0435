/* pager.h - decides which pages of a mapped checkpoint are in memory. It requests pages ahead of
 * their use, and releases them afterwards if the whole checkpoint does not fit in memory. It never
 * changes a bit, only the time at which pages are read.
 *
 * Weights are read in place, so a page is in memory once it has been touched. The pager requests
 * the dense weights of the next layer while the current one is computed, and the experts of the
 * current layer as soon as they are chosen. Under a limit, the layers and experts that are
 * requested first stay in memory, until the limit is reached. All others are released at the end of
 * their layer. Each token reads the weights in the same order again, and for such cyclic reads a
 * fixed resident part saves the most reads. */
#ifndef SB_RUN_PAGER_H
#define SB_RUN_PAGER_H

#include "ref/model/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sb_pager sb_pager;

/* Returns NULL if out of memory. weights and config must outlive the pager. All functions accept a
 * NULL pager and then do nothing. Several sessions may call them at the same time. */
sb_pager *sb_pager_new(const sb_weights *weights, const sb_config *config);
void sb_pager_free(sb_pager *pager);

/* Keeps the dense weights in memory, in large pages if the system has these for files. The
 * processor translates addresses in large pages faster. In this mode only experts are requested
 * ahead. Setting a limit ends the mode. */
void sb_pager_large(sb_pager *pager);

/* Sets the number of bytes of weights that may stay in memory; 0: all. In addition, at most
 * sb_pager_margin bytes are in memory: the largest total size of two consecutive layers. */
void sb_pager_limit(sb_pager *pager, uint64_t bytes);
uint64_t sb_pager_margin(const sb_pager *pager);
uint64_t sb_pager_bytes(const sb_pager *pager); /* of all weights */

/* Called at the end of each layer with the bytes requested so far, if the weights exceed the
 * limit. */
typedef void (*sb_pager_fn)(void *ctx, uint64_t bytes);
void sb_pager_watch(sb_pager *pager, sb_pager_fn fn, void *ctx);

/* Called for three events of a layer: the layer begins, its experts ids[0 .. n-1] were chosen, the
 * layer has ended. The head counts as one more layer after the last. */
void sb_pager_enter(sb_pager *pager, uint32_t layer);
void sb_pager_experts(sb_pager *pager, uint32_t layer, const uint32_t *ids, size_t n);
void sb_pager_leave(sb_pager *pager, uint32_t layer);

#ifdef __cplusplus
}
#endif

#endif
