/* whole.h - compares the whole model with a recording: the same calls in the same order.
 *
 * Besides hidden vectors and logits, the experts of every row are recorded. If the reference would
 * choose others, it adopts the recorded experts, and the distance of the logits concerned is noted.
 * Otherwise a choice that two programs may make differently would change everything after it. */
#ifndef SB_TESTS_HF_WHOLE_H
#define SB_TESTS_HF_WHOLE_H

#include "tests/hf/fixture.h"
#include "ref/run/backend.h"

/* One call of `rows` tokens. Its experts are recorded under `name` from row `at` on. The last
 * `compared` rows have recorded hidden vectors and logits, from row `compared_at` on. */
typedef struct whole_call {
    const char *name;
    size_t rows, at, compared, compared_at;
} whole_call;

enum { WHOLE_CALLS = 24, WHOLE_PARTS = 9, WHOLE_LAYERS = 64 };

/* The results of one run of all calls. */
typedef struct whole {
    const hf_fixture *fixture;
    const sb_knobs *knobs;
    const sb_backend *backend; /* NULL: the reference */
    uint64_t seed; /* 0, or every tap is rounded anew: x (1 + s 2^-24) with seeded s in -1, 0, 1 */
    hf_arena *arena;
    sb_status status;
    sb_error err;

    float *hidden[WHOLE_CALLS], *logits[WHOLE_CALLS]; /* (compared, H), (compared, V) */
    float *router[WHOLE_CALLS][WHOLE_LAYERS];         /* (rows, E) before any adoption */

    size_t routed, adopted, tied;   /* choices of rows: all, adopted, and adopted between equal
                                     * logits */
    double margin[WHOLE_LAYERS];    /* the largest distance between the logits of adopted choices */
    size_t tied_rows[WHOLE_LAYERS]; /* adopted choices between equal logits */

    size_t call;    /* the current call */
    uint64_t draws; /* the number of taps so far */
} whole;

size_t whole_call_count(void);
const whole_call *whole_call_at(size_t i);

/* Runs all calls. run->fixture, knobs, backend, seed and arena are set by the caller, the rest is
 * zero. */
void whole_run(whole *run);

/* The recorded hidden vectors or logits ("hidden", "logits") of a call: (compared, n). */
const float *whole_recorded(whole *run, size_t call, const char *what);

#endif
