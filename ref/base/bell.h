/* bell.h - one thread sleeps until another one rings: a semaphore of one process. macOS has none
 * without a name. */
#ifndef SB_BELL_H
#define SB_BELL_H

#ifdef __APPLE__
#include <pthread.h>
typedef struct sb_bell {
    pthread_mutex_t lock;
    pthread_cond_t rung;
    unsigned rings; /* that no thread has waited for */
} sb_bell;
#else
#include <semaphore.h>
typedef sem_t sb_bell;
#endif

/* Returns 0 if there can be none. Also makes a bell anew after a fork, in the child. */
int sb_bell_new(sb_bell *bell);
void sb_bell_ring(sb_bell *bell);
/* Returns at once if the bell was rung before. */
void sb_bell_wait(sb_bell *bell);

#endif
