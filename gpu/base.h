/* base.h - the headers of ref/base, which are C, for C++ sources. */
#ifndef SB_GPU_BASE_H
#define SB_GPU_BASE_H

#include "ref/base/mem.h"
#include "ref/base/rng.h"
#include "ref/base/status.h"

/* An observer of launches: `before` is called before each launch, `behind` after all launches of an
 * op that was asked for by name. */
struct sb_launch_watch {
    void (*before)(sb_launch_watch *watch, const char *kernel);
    void (*behind)(sb_launch_watch *watch, const char *op);
};
template <class QUEUE> const char *sb_watched(const QUEUE *queue, const char *kernel)
{
    if (queue->watch)
        queue->watch->before(queue->watch, kernel);
    return kernel;
}

#endif
