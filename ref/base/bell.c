#include "ref/base/bell.h"

#ifdef __APPLE__

int sb_bell_new(sb_bell *bell)
{
    bell->rings = 0;
    return !pthread_mutex_init(&bell->lock, NULL) && !pthread_cond_init(&bell->rung, NULL);
}

void sb_bell_ring(sb_bell *bell)
{
    pthread_mutex_lock(&bell->lock);
    bell->rings++;
    pthread_cond_signal(&bell->rung);
    pthread_mutex_unlock(&bell->lock);
}

void sb_bell_wait(sb_bell *bell)
{
    pthread_mutex_lock(&bell->lock);
    while (!bell->rings)
        pthread_cond_wait(&bell->rung, &bell->lock);
    bell->rings--;
    pthread_mutex_unlock(&bell->lock);
}

#else

#include <errno.h>

int sb_bell_new(sb_bell *bell)
{
    return sem_init(bell, 0, 0) == 0;
}

void sb_bell_ring(sb_bell *bell)
{
    sem_post(bell);
}

void sb_bell_wait(sb_bell *bell)
{
    while (sem_wait(bell) != 0 && errno == EINTR)
        ;
}

#endif
