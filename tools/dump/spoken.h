/* spoken.h - the sequence of an answer: tokens, each with the known part of its distribution. The
 * formats fill it in; spoken.c converts it to steps. */
#ifndef SB_DUMP_SPOKEN_H
#define SB_DUMP_SPOKEN_H

#include "tools/dump/arrays.h"
#include "tools/dump/logprobs.h"

/* Replaces minus infinity, or the value of a token that is not among the largest. */
#define SB_SPOKEN_UNLIKELY (-9999.0f)

typedef struct sb_listed {
    uint32_t id;
    float logprob;
    uint32_t rank; /* 1: the largest; 0: unknown */
} sb_listed;

/* A token, and the data of the row before it. */
typedef struct sb_told {
    uint32_t id;
    int has_own;
    float own;           /* its log-probability */
    size_t first, count; /* of sb_spoken.list */
    int is_map; /* the list has no order, and may include the token in addition to the largest */
} sb_told;

typedef struct sb_spoken {
    sb_told *told;
    size_t count, room;
    size_t prompt; /* the number of given tokens */
    size_t at;     /* the token being described */
    sb_listed *list;
    size_t listed, list_room;
    float floor;            /* a value there is an upper bound */
    sb_dump_arrays experts; /* no array, or one: [rows, layers, k] */
    unsigned char *experts_bytes;
} sb_spoken;

void sb_spoken_clear(sb_spoken *s);

/* sb_spoken_token appends a token and makes it the current one. sb_spoken_at makes token i, still
 * without data, the current one. */
sb_status sb_spoken_token(sb_spoken *s, uint32_t id, sb_error *err);
void sb_spoken_at(sb_spoken *s, size_t i, int is_map);

/* Data of the current token: its own log-probability; an entry of its list. */
void sb_spoken_own(sb_spoken *s, double logprob);
sb_status sb_spoken_list(sb_spoken *s, uint32_t id, double logprob, uint32_t rank, sb_error *err);

/* After all tokens: sorts the lists and cuts them to one length (J-37). */
void sb_spoken_finish(sb_spoken *s);

/* Passes on the steps of one sequence (J-36). vocab_size 0: unknown. */
sb_status sb_spoken_play(const sb_spoken *s, uint32_t sequence, uint32_t vocab_size,
                         sb_step_fn take, void *ctx, sb_error *err);

#endif
