/* draws_parts.h - shared by the implementation files of draws.h. */
#ifndef SB_COMPARE_DRAWS_PARTS_H
#define SB_COMPARE_DRAWS_PARTS_H

#include "tools/judge/compare/draws.h"
#include "tools/judge/compare/draws_replay.h"

enum {
#define SB_SUSPECT(name, words, change) SB_SUSPECT_##name,
#include "tools/judge/compare/suspects.def"
#undef SB_SUSPECT
    SB_SUSPECTS,
    SB_LEARNED = SB_SUSPECTS, /* the test that learns how often tokens come */
    SB_TESTS,
    SB_BINS = 8,
    SB_PAIRED = 64, /* sequences that are compared with each other */
    SB_STREAMS = 6
};

/* One product of bets (T-96): over one sequence, or over all sequences with seeds of their own. */
typedef struct sb_draw_bets {
    double log[SB_TESTS];
    double seen[SB_BINS], expected[SB_BINS];
    size_t draws;
} sb_draw_bets;

/* The numbers of a generator, if it has this seed. */
typedef struct sb_draw_stream {
    uint64_t seed;
    uint32_t sequence; /* philox: of these draws */
    int restarts;      /* every token gets the first numbers */
    sb_mt19937 mt;     /* mt19937, torch_cpu: the numbers so far */
    sb_mt19937 skips;  /* mt19937: the same, if a draw from one token takes none */
    int dead, skips_dead, skips_open;
    double evidence; /* the logarithm of 1 / the chance that other draws give these tokens */
} sb_draw_stream;

/* A declared sequence. */
typedef struct sb_drawn {
    sb_step_sampling sampling;
    uint32_t *tokens; /* by position */
    size_t count, room, prompt;
    int declared;
    int ended; /* declared anew: a later item goes on */
    int alone; /* its bets do not multiply with those of others */
    sb_draw_bets bets;
    uint32_t *ids, *places; /* (draws) the tokens drawn, and their places in the order */
    size_t draws, draw_room;
    float *logits; /* (V) of the row that waits */
    int waits, has_uniform, unfollowed;
    uint64_t position;
    double pair;
    float uniform;
    sb_draw_stream streams[SB_STREAMS]; /* the declared seed, then what a mistake would take */
    size_t stream_count;
    int lost;       /* the generator cannot be followed any more */
    size_t strayed; /* tokens that the generator does not give */
} sb_drawn;

struct sb_draws {
    size_t vocab;
    sb_sampler_row *row;
    double *p, *q; /* (V) the declared distribution; that of a suspect */
    sb_drawn *items;
    size_t count, room;
    sb_draw_bets together;
    double pairs[SB_PAIRED][SB_PAIRED][4]; /* [a][b], a <= b */
    double fits[SB_TESTS];    /* the logarithm of the likelihood; the last: as declared */
    int dead[SB_TESTS];       /* some token cannot be drawn so */
    double gain[SB_SUSPECTS]; /* what the bets would have won, had they been right */
    int odd; /* 0, or a test has rejected: 1 frequencies, 2 two sequences, 3 one sequence */
    sb_sampler_verdict v;
};

const char *sb_suspect_words(size_t suspect);

/* Bets on the token that was drawn from the row judged last (draws_bets.c). */
void sb_draws_bet(sb_draws *d, sb_drawn *s, const sb_token_counts *counts, uint32_t token);

/* Words about how a wrong sampler draws these tokens; "" if no suspect or several fit. */
void sb_draws_name(sb_draws *d, char *out, size_t room);

/* Follows the generator by one token (draws_follow.c). */
void sb_draws_follow(sb_draws *d, sb_drawn *s, uint32_t token);
void sb_draws_name_stream(const sb_draws *d, char *out, size_t room);
void sb_draws_begin_streams(sb_draws *d, sb_drawn *s);

/* Notes the first failure of the sampler. */
void sb_draws_fail(sb_draws *d, const sb_drawn *s, const char *format, ...) SB_PRINTF(3, 4);

#endif
