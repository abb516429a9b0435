/* api.h - the implementation of ref/samebit.h: its handles, and the beginning and end of calls. */
#ifndef SB_API_API_H
#define SB_API_API_H

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "ref/base/fp_mode.h"
#include "ref/base/status.h"
#include "ref/container/dtype.h"
#include "ref/run/model.h"
#include "ref/run/round.h"
#include "ref/run/session.h"
#include "ref/samebit.h"

/* Closed together with the last handle that needs it; `holders` counts these handles. */
struct samebit_checkpoint {
    sb_model *model;
    atomic_size_t holders;
    pthread_mutex_t lock; /* for digest */
    sb_digest digest;     /* "": not computed yet */
};

struct samebit_session {
    samebit_checkpoint *checkpoint;
    sb_session *session;
    sb_rounds *rounds; /* NULL until the first pick or round */
    sb_round_options round_options;
    sb_sampling sampling;
    sb_knobs knobs;
    char profile[64];
    unsigned threads;
    samebit_tap tap;
    void *tap_ctx;
};

struct samebit_state {
    samebit_checkpoint *checkpoint;
    sb_state *state;
};

samebit_checkpoint *sb_api_hold(samebit_checkpoint *checkpoint);

/* The same struct under another name. */
static inline sb_error *sb_api_error(samebit_error *err)
{
    _Static_assert(sizeof(samebit_error) == sizeof(sb_error), "one text");
    return (sb_error *)(void *)err;
}

/* sb_api_status converts a status of the library. sb_api_missing is the failure of a function with
 * a missing argument. */
samebit_status sb_api_status(sb_status status);

samebit_status sb_api_missing(const char *function, samebit_error *err);

/* Checks mandatory arguments. */
#define SB_API_NEED(condition)                                                                     \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return sb_api_missing(__func__, err);                                                  \
    } while (0)

/* Begins a call that computes. The first such call selects the kernels; every call checks the
 * arithmetic of its thread. */
sb_status sb_api_start(sb_error *err);

/* The same with a number of threads for this call (0: any). */
sb_status sb_api_start_on(unsigned threads, sb_error *err);

/* The settings of the caller's thread, saved during a call and restored at every exit. */
typedef struct sb_api_call {
    sb_fp_mode mode;
    size_t threads;
} sb_api_call;

sb_api_call sb_api_begin(void);
void sb_api_end(const sb_api_call *call);

#define SB_API_CALL sb_api_call call_ __attribute__((cleanup(sb_api_end), unused)) = sb_api_begin()

/* Call this after a function of the caller, which may have changed the floating-point mode. */
void sb_api_came_back(void);

/* Copy a struct from or to the caller, which has `size` bytes and begins with its size: only the
 * members that both sides know. */
sb_status sb_api_take(void *to, size_t own, const void *from, size_t size, sb_error *err);
sb_status sb_api_give(void *to, size_t size, const void *from, size_t own, sb_error *err);

void sb_api_array(samebit_array *out, const char *name, sb_dtype dtype, const char *axes,
                  unsigned rank, const uint64_t *shape, const void *data, uint64_t bytes);

static inline void sb_api_digest(samebit_digest *out, const sb_digest *from)
{
    memcpy(out->hex, from->hex, sizeof out->hex);
}

/* The checkpoint's digest, computed once. */
sb_status sb_api_checkpoint_digest(samebit_checkpoint *checkpoint, sb_digest *out, sb_error *err);

#endif
