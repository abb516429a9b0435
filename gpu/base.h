/* base.h - what C++ sources take of ref/base, whose headers are C. */
#ifndef SB_GPU_BASE_H
#define SB_GPU_BASE_H

extern "C" {
#include "ref/base/mem.h"
#include "ref/base/rng.h"
#include "ref/base/status.h"
}

/* Who is told of each launch before it is made, and, where an op has been asked for by name, of the
 * name behind all of its launches. */
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
