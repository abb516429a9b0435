/* envelope_parts.h - shared by the implementation files of envelope.h. */
#ifndef SB_COMPARE_ENVELOPE_PARTS_H
#define SB_COMPARE_ENVELOPE_PARTS_H

#include "tools/judge/compare/envelope.h"

/* One of the sequences. */
typedef struct sb_envelope_lane {
    struct sb_envelope *of;
    sb_session *session;
    sb_eagle3_drafts *drafts; /* its entries of a drafter, or NULL */
    size_t number;            /* 0: the reference itself */
    /* key of its random numbers; number of ops that took a random number in the current moment */
    uint64_t key, ops;
    size_t at;      /* next entry on the tape */
    uint32_t *ids;  /* (rows, k) experts in the current layer */
    double *spread; /* (L + 1, rows): squared distance of its router logits from the reference's */
    float *logits;  /* (V) */
    double *apart;  /* tight ones: mean square of the distance from a row of the tape, at the row's
                       first element */
    /* values before a cache made them codes (envelope_cache.c), or NULL */
    struct sb_uncoded *uncoded;
    float **hidden;   /* (L + 2) hidden states of the last call, or NULL */
    sb_status status; /* status of the current call */
    sb_error err;
    int strayed; /* it chose other experts than the reference */
} sb_envelope_lane;

struct sb_envelope {
    const sb_model *model;
    const sb_eagle3 *drafter; /* or NULL */
    sb_knobs knobs;
    sb_op_hook twin;
    void *twin_ctx;
    sb_coverage *coverage;
    uint64_t seed;
    uint64_t calls;  /* number of calls so far; requests for logits do not count */
    uint64_t moment; /* number of the current call, or of a row of it whose logits are requested */
    size_t count;    /* number of lanes: N + 1 */
    int has_codes;
    sb_envelope_lane *lanes;
    sb_expert_source source;
    void *source_ctx;
    float *const *theirs; /* (L + 2) another program's hidden states, or NULL */
    int replaying;        /* rows are fed again, with the experts in `ids` */
    int replays;          /* the engine undoes rejected rows by feeding the kept rows again */
    int anew;             /* rows were fed again: loose sequences may choose other experts */
    unsigned char *open;  /* (L + 1, rows): 1 if that choice is open */
    uint32_t *fed;        /* the tokens of the last verify, and their number */
    size_t verified;
    double factor;         /* T-41, for router logits */
    double input_factor;   /* T-41, for a quantized input */
    double input_tail;     /* the same without the factor of long sums */
    uint32_t units;        /* units that a binary32 value is moved by */
    uint32_t of_functions; /* the same for results of functions */
    size_t rows;           /* capacity */
    uint32_t *ids;         /* (L + 1, rows, k): the reference's choices in this call */
    float *router;         /* (L + 1, rows, E): its router logits */
    sb_adopted *adopted;
    size_t adopted_count, adopted_room;
    float *tape; /* reference's values that become codes, in the order of its ops */
    size_t tape_count, tape_room;
};

/* T-42, T-43: whether this loose lane takes the other outcome of open case `number`. A random bit
 * of the case and the call decides it: half of the cases go to every second loose lane, the rest to
 * the others. A single loose lane takes all. */
int sb_envelope_takes(const sb_envelope_lane *lane, const char *what, uint64_t number);

/* The hook of all lanes; ctx is the lane. */
sb_status sb_envelope_hook(void *ctx, const sb_op_call *call);

/* The tap of all lanes, which keeps and replaces hidden states; ctx is the lane
 * (envelope_hidden.c). */
sb_status sb_envelope_tap(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                          sb_error *err);
void sb_envelope_free_hidden(sb_envelope_lane *lane);

/* Runs the op, or its twin. */
sb_status sb_envelope_run(const sb_envelope *envelope, const sb_op_call *call);

/* True if lane i keeps the reference's experts or adopts another program's. */
int sb_envelope_keeps_experts(const sb_envelope *envelope, size_t i);

/* T-41: the bound of a router's logits in the last call (envelope_router.c). */
double sb_envelope_router_bound(const sb_envelope *envelope, uint32_t layer, size_t row);

/* Finds the open choices of the first `rows` rows of the last call. True if there are any. */
int sb_envelope_find_open(sb_envelope *envelope, size_t rows);

/* The router in every lane (envelope_router.c). */
sb_status sb_envelope_route(sb_envelope_lane *lane, const sb_op_call *call);

/* T-42: runs a linear layer whose input may become codes (envelope_codes.c). */
sb_status sb_envelope_linear(sb_envelope_lane *lane, const sb_op_call *call);

/* T-42: keys and values before a cache stores them as codes (envelope_cache.c). */
sb_status sb_envelope_cache(sb_envelope_lane *lane, const sb_op_call *call);

/* Copy or free the values of sb_envelope_uncoded, for a sequence that is replaced or ends. */
sb_status sb_envelope_copy_uncoded(sb_envelope_lane *to, const sb_envelope_lane *from);
void sb_envelope_free_uncoded(sb_envelope_lane *lane);

/* Appends values of the reference that become codes to the tape. */
sb_status sb_envelope_record(sb_envelope *envelope, const float *data, size_t count);

/* The sum, and the mean, of the squares of a - b. */
double sb_envelope_squares(const float *a, const float *b, size_t n);
double sb_envelope_mean_square(const float *a, const float *b, size_t n);

/* T-42: the largest expected error of an element of the row (n) at this place of the tape, for a
 * loose lane whose row is `own`. */
double sb_envelope_window(const sb_envelope *envelope, const float *own, size_t at, size_t n);

/* Moves every element by at most one unit in the last place of the array's type, or by at most
 * envelope->units of binary32. */
void sb_envelope_move(const sb_envelope *envelope, uint64_t key, float *data, size_t rows,
                      size_t cols, size_t stride);

/* The key of the current op's random numbers. */
uint64_t sb_envelope_key(sb_envelope_lane *lane);

#endif
