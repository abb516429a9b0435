/* envelope_parts.h - what the parts of envelope.h share. */
#ifndef SB_COMPARE_ENVELOPE_PARTS_H
#define SB_COMPARE_ENVELOPE_PARTS_H

#include "tools/compare/envelope.h"

/* One of the sequences. */
typedef struct sb_envelope_lane {
    struct sb_envelope *of;
    sb_session *session;
    size_t number;     /* 0: the reference itself */
    uint64_t key, ops; /* of its random numbers; those taken at this moment */
    size_t at;         /* next input on the tape */
    uint32_t *ids;     /* (rows, k) of the layer at work */
    double *spread;    /* (L + 1, rows): sums of squares of its router logits' differences */
    float *logits;     /* (V) */
    double *apart;     /* of a tight one: mean squares, at the first element of a row of the tape */
    struct sb_uncoded *uncoded; /* of a cache that keeps codes (envelope_cache.c), or NULL */
    sb_status status;           /* of the call at work */
    sb_error err;
    int strayed; /* it chose other experts than the reference */
} sb_envelope_lane;

struct sb_envelope {
    const sb_model *model;
    sb_knobs knobs;
    sb_op_hook twin;
    void *twin_ctx;
    uint64_t seed;
    uint64_t calls;  /* so far; rows whose logits are asked for are none */
    uint64_t moment; /* the call at work, or the row of it whose logits are asked for */
    size_t count;    /* of lanes: N + 1 */
    int has_codes;
    sb_envelope_lane *lanes;
    sb_expert_source source;
    void *source_ctx;
    int replaying;       /* rows are fed again: the choices are those on record */
    int replays;         /* the engine feeds rows again */
    int anew;            /* so that it may choose other experts: the loose sequences do */
    unsigned char *open; /* (L + 1, rows): where */
    uint32_t *fed;       /* the tokens of the last verify, and how many */
    size_t verified;
    double factor;         /* of the router's logits */
    double input_factor;   /* of an input that is quantized */
    double input_tail;     /* without what rounding makes of long sums */
    uint32_t units;        /* of binary32 that one is moved by, */
    uint32_t of_functions; /* and what a function gives */
    size_t rows;           /* that there is room for */
    uint32_t *ids;         /* (L + 1, rows, k): the reference's choices in this call */
    float *router;         /* (L + 1, rows, E): its router logits */
    sb_adopted *adopted;
    size_t adopted_count, adopted_room;
    float *tape; /* what becomes codes, in the order of the reference's ops */
    size_t tape_count, tape_room;
};

/* T-42, T-43: whether what is open falls otherwise in this loose lane. Of a number that belongs to
 * the case and the call each lane takes every second one, the next lane the others; a single lane
 * takes all. */
int sb_envelope_takes(const sb_envelope_lane *lane, const char *what, uint64_t number);

/* The hook of all lanes; ctx is the lane. */
sb_status sb_envelope_hook(void *ctx, const sb_op_call *call);

/* The op as it is in this model. */
sb_status sb_envelope_run(const sb_envelope *envelope, const sb_op_call *call);

/* Whether lane i keeps to the reference's experts, or to another program's. */
int sb_envelope_keeps_experts(const sb_envelope *envelope, size_t i);

/* T-41: the bound of a router's logits in the last call (envelope_router.c). */
double sb_envelope_router_bound(const sb_envelope *envelope, uint32_t layer, size_t row);

/* Finds the choices of the last call that are open, in its first `rows` rows; whether there are
 * any.
 */
int sb_envelope_find_open(sb_envelope *envelope, size_t rows);

/* The router in every lane (envelope_router.c). */
sb_status sb_envelope_route(sb_envelope_lane *lane, const sb_op_call *call);

/* T-42: a linear layer in every lane, whose input may become codes (envelope_codes.c). */
sb_status sb_envelope_linear(sb_envelope_lane *lane, const sb_op_call *call);

/* T-42: keys and values on their way into a cache of codes (envelope_cache.c). */
sb_status sb_envelope_cache(sb_envelope_lane *lane, const sb_op_call *call);

/* Of a sequence that becomes another, or ends: what sb_envelope_uncoded gives. */
sb_status sb_envelope_copy_uncoded(sb_envelope_lane *to, const sb_envelope_lane *from);
void sb_envelope_free_uncoded(sb_envelope_lane *lane);

/* What the reference has of something that becomes codes goes onto the tape. */
sb_status sb_envelope_record(sb_envelope *envelope, const float *data, size_t count);

/* The sum, and the mean, of the squares of a - b. */
double sb_envelope_squares(const float *a, const float *b, size_t n);
double sb_envelope_mean_square(const float *a, const float *b, size_t n);

/* T-42: how far an element of the row (n) at this place of the tape may be off, in a loose lane
 * that has `own` there. */
double sb_envelope_window(const sb_envelope *envelope, const float *own, size_t at, size_t n);

/* Moves every element by at most a unit in the last place of the type the array is rounded to, or
 * so many of binary32. */
void sb_envelope_move(const sb_envelope *envelope, uint64_t key, float *data, size_t rows,
                      size_t cols, size_t stride);

/* The random numbers of the op at work. */
uint64_t sb_envelope_key(sb_envelope_lane *lane);

#endif
