/* pool.h - threads that share out the turns of a loop.
 *
 * Each thread begins with an equal share of the turns and takes them one by one; one that has none
 * left takes half of what another has. Nobody waits for a thread that has not come yet, only for
 * those that are in a turn. So a thread that has no processor costs one turn, not a share.
 *
 * Who waits looks for some microseconds and then sleeps. A thread that cannot be started is done
 * without, down to the one that calls. A call inside another runs on the thread that calls, and so
 * does one while another thread of the process has the pool. The child of a fork() starts threads
 * of its own. Each worker begins each loop in the default floating-point mode (fp_mode.h). */
#ifndef SB_BASE_POOL_H
#define SB_BASE_POOL_H

#include <stddef.h>

enum { SB_THREADS_MOST = 4096 };

/* Turn i of a loop; worker < sb_threads_here() of the caller, and no other turn has the same one at
 * the same time: it chooses the room of a thread. */
typedef void sb_turn(void *ctx, size_t i, size_t worker);

/* All turns below count, in whatever order. many 0: on this thread, as a loop; loops inside may
 * then share out theirs. */
void sb_parallel_for(size_t count, int many, sb_turn *turn, void *ctx);

/* The same for turns that are to begin in their order: the largest are first, or a file is read. */
void sb_parallel_in_order(size_t count, int many, sb_turn *turn, void *ctx);

/* How many threads loops of this thread have from now on; 0: as many as sb_processors(). */
void sb_threads_set(size_t threads);
size_t sb_threads(void);

/* What sb_threads_set() was told: to be put back. */
size_t sb_threads_asked(void);

/* How many threads a loop would have that begins here: 1 inside another. */
size_t sb_threads_here(void);

#endif
