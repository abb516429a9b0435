/* pool.h - threads that share out the turns of a loop.
 *
 * Each thread begins with an equal share of the turns and takes them one by one. A thread that has
 * run out of turns takes half of another thread's remaining turns. The loop does not wait for
 * threads that have not entered it, only for threads within a turn. So a thread without a processor
 * delays one turn, not a whole share.
 *
 * A waiting thread spins for some microseconds and then sleeps. If threads cannot be started, the
 * loop uses fewer, at least the calling thread. A loop inside a loop runs on the calling thread
 * only. So does a loop that begins while another thread of the process uses the pool. The child of
 * a fork() starts threads of its own. Each worker begins each loop in the default floating-point
 * mode (fp_mode.h). */
#ifndef SB_BASE_POOL_H
#define SB_BASE_POOL_H

#include <stddef.h>

enum { SB_THREADS_MOST = 4096 };

/* Turn i of a loop. worker < sb_threads_here() of the caller. No two turns have the same worker at
 * the same time, so `worker` can select scratch memory. */
typedef void sb_turn(void *ctx, size_t i, size_t worker);

/* Runs all turns below count, in any order. If `many` is 0, they run on this thread in a plain
 * loop, and inner loops may use the pool. */
void sb_parallel_for(size_t count, int many, sb_turn *turn, void *ctx);

/* As sb_parallel_for, but turns begin in order. Used if the longest turns come first, or if turns
 * read a file from its start. */
void sb_parallel_in_order(size_t count, int many, sb_turn *turn, void *ctx);

/* Sets the number of threads for loops of this thread; 0: sb_processors(). */
void sb_threads_set(size_t threads);
size_t sb_threads(void);

/* The argument of the last sb_threads_set(), so that a caller can restore it. */
size_t sb_threads_asked(void);

/* The number of threads of a loop that begins here; 1 inside another loop. */
size_t sb_threads_here(void);

#endif
