/* floor.h - an upper bound of the decoding rate of a checkpoint at a given memory bandwidth. */
#ifndef SB_FLOOR_FLOOR_H
#define SB_FLOOR_FLOOR_H

#include "tools/check/floor/ledger.h"

typedef struct sb_floor_options {
    double bandwidth;     /* bytes per second */
    uint64_t context;     /* tokens in the cache */
    uint32_t draft;       /* drafts of the MTP head per round; 0: no speculation */
    double accept;        /* probability that a draft is accepted if those before it were: 0 .. 1 */
    double kv_bytes;      /* per element of a cached key or value: 2 BF16, 1 FP8, 0.5625 NVFP4 */
    unsigned state_bytes; /* per element of the recurrent state: 4 or 2 */
} sb_floor_options;

/* The bytes moved by one pass over the weights. */
typedef struct sb_floor_pass {
    double read[SB_FLOOR_CLASSES];
    double state, conv; /* read and written */
    double kv_read, kv_written;
    double total;
} sb_floor_pass;

typedef struct sb_floor {
    sb_floor_pass token; /* plain decoding */
    double kv_token;     /* bytes of one token's keys and values */
    double rate;         /* upper bound of tokens per second */
    /* with drafts; else 0 */
    sb_floor_pass verify, draft; /* draft + 1 tokens at once; one draft */
    double experts;              /* different experts that a verify step reads per layer */
    double emitted;              /* tokens per round */
    double round;                /* bytes */
    double rounds, spec_rate;    /* per second */
    double break_even;           /* least acceptance at which speculation pays; above 1: none */
} sb_floor;

/* options->kv_bytes for a declared cache. */
double sb_floor_kv_bytes(sb_declared_kv kv);

/* The expected number of E experts that a pass over `width` tokens reads, with k experts per
 * token. */
double sb_floor_union(uint32_t experts, uint32_t k, uint32_t width);

void sb_floor_compute(const sb_ledger *ledger, const sb_floor_options *options, sb_floor *out);

/* The expected number of tokens from a round of `draft` drafts. */
double sb_floor_emitted(uint32_t draft, double accept);

/* The least acceptance at which a round that costs `need` plain steps pays; above 1: none. */
double sb_floor_break_even(uint32_t draft, double need);

/* The bandwidth that a claimed number of tokens per second needs. */
double sb_floor_implied(const sb_floor *floor, const sb_floor_options *options, double claim);

#endif
