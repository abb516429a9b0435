/* floor.h - how fast a checkpoint can decode at most, if memory is read at a given rate. */
#ifndef SB_FLOOR_FLOOR_H
#define SB_FLOOR_FLOOR_H

#include "tools/floor/ledger.h"

typedef struct sb_floor_options {
    double bandwidth; /* bytes per second */
    uint64_t context; /* tokens that are in the cache */
    uint32_t draft;   /* tokens that the MTP head proposes per round; 0: no speculation */
    double accept;    /* how likely a proposed token is accepted, if those before it were: 0 .. 1 */
    double kv_bytes;  /* of an element of a cached key or value: 2 BF16, 1 FP8, 0.5625 NVFP4 */
    unsigned state_bytes; /* of an element of the recurrent state: 4 or 2 */
} sb_floor_options;

/* What one pass over the weights moves, in bytes. */
typedef struct sb_floor_pass {
    double read[SB_FLOOR_CLASSES];
    double state, conv; /* read and written */
    double kv_read, kv_written;
    double total;
} sb_floor_pass;

typedef struct sb_floor {
    sb_floor_pass token; /* one token after the other */
    double kv_token;     /* bytes of the keys and values of one token */
    double rate;         /* tokens per second, at most */
    /* with a draft; else 0 */
    sb_floor_pass verify, draft; /* of draft + 1 tokens at once; of one proposed token */
    double experts;              /* different ones that a verification reads per layer */
    double emitted;              /* tokens per round */
    double round;                /* bytes */
    double rounds, spec_rate;    /* per second */
    double break_even;           /* the acceptance from which on speculation pays; above 1: none */
} sb_floor;

/* options->kv_bytes of a declared cache. */
double sb_floor_kv_bytes(sb_declared_kv kv);

/* How many of E experts a pass over `width` tokens touches, each token k of its own. */
double sb_floor_union(uint32_t experts, uint32_t k, uint32_t width);

void sb_floor_compute(const sb_ledger *ledger, const sb_floor_options *options, sb_floor *out);

/* Tokens that a round of `draft` proposed ones emits. */
double sb_floor_emitted(uint32_t draft, double accept);

/* The acceptance from which on such a round pays that costs `need` plain steps; above 1: none. */
double sb_floor_break_even(uint32_t draft, double need);

/* The bandwidth that a claimed number of tokens per second needs. */
double sb_floor_implied(const sb_floor *floor, const sb_floor_options *options, double claim);

#endif
