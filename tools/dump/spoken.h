/* spoken.h - one sequence as an answer tells it: tokens, and with each what was said of the
 * distribution that it was taken from. The formats fill it in, spoken.c makes steps of it. */
#ifndef SB_DUMP_SPOKEN_H
#define SB_DUMP_SPOKEN_H

#include "tools/dump/arrays.h"
#include "tools/dump/logprobs.h"

/* What stands for minus infinity, or for a token that is none of the largest. */
#define SB_SPOKEN_UNLIKELY (-9999.0f)

typedef struct sb_listed {
    uint32_t id;
    float logprob;
    uint32_t rank; /* 1: the largest; 0: not said */
} sb_listed;

/* A token, and the row before it. */
typedef struct sb_told {
    uint32_t id;
    int has_own;
    float own;           /* its log-probability */
    size_t first, count; /* of sb_spoken.list */
    int is_map;          /* the list has no order, and may have the token beyond the largest */
} sb_told;

typedef struct sb_spoken {
    sb_told *told;
    size_t count, room;
    size_t prompt; /* so many of them were given */
    size_t at;     /* the token that is described */
    sb_listed *list;
    size_t listed, list_room;
    float floor;            /* a value there means "so much or less" */
    sb_dump_arrays experts; /* none, or one: [rows, layers, k] */
    unsigned char *experts_bytes;
} sb_spoken;

void sb_spoken_clear(sb_spoken *s);

/* Appends a token, and goes there; goes to one that is there. Nothing was said of it yet. */
sb_status sb_spoken_token(sb_spoken *s, uint32_t id, sb_error *err);
void sb_spoken_at(sb_spoken *s, size_t i, int is_map);

/* Of that token: its own log-probability; one of the list before it. */
void sb_spoken_own(sb_spoken *s, double logprob);
sb_status sb_spoken_list(sb_spoken *s, uint32_t id, double logprob, uint32_t rank, sb_error *err);

/* Puts the lists in order, and makes them as long as each other, once all tokens are there (J-37).
 */
void sb_spoken_finish(sb_spoken *s);

/* The steps of one sequence (J-36). vocab_size 0: not known. */
sb_status sb_spoken_play(const sb_spoken *s, uint32_t sequence, uint32_t vocab_size,
                         sb_step_fn take, void *ctx, sb_error *err);

#endif
