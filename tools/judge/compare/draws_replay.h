/* draws_replay.h - the random numbers of published generators, and the tokens that they give
 * (T-97). */
#ifndef SB_COMPARE_DRAWS_REPLAY_H
#define SB_COMPARE_DRAWS_REPLAY_H

#include "tools/judge/compare/sampler_row.h"

enum { SB_MT_WORDS = 624 };

/* std::mt19937; also the generator of torch on the CPU. */
typedef struct sb_mt19937 {
    uint32_t word[SB_MT_WORDS];
    size_t next;
} sb_mt19937;
void sb_mt19937_seed(sb_mt19937 *mt, uint32_t seed);
uint32_t sb_mt19937_next(sb_mt19937 *mt);

/* std::uniform_real_distribution<double> over 0 to 1, of libstdc++. */
double sb_mt19937_uniform(sb_mt19937 *mt);

/* torch.randint(0, 2**31, (1,)). */
uint32_t sb_mt19937_torch_seed(sb_mt19937 *mt);

/* The noise of vLLM on the CPU for a token: SplitMix64 of a seed and the token's id. */
double sb_torch_noise(uint32_t seed, uint32_t token);

/* Whether a draw gives this token: no, rounding decides, yes. */
typedef enum sb_replay { SB_REPLAY_no, SB_REPLAY_open, SB_REPLAY_yes } sb_replay;

/* The token whose logit, divided by the temperature, has the largest sum with its noise. `noise` is
 * called for each token; slack: how far rounding can move two sums. */
typedef double (*sb_noise_fn)(const void *ctx, uint32_t token);
sb_replay sb_replay_noise(const sb_sampler_row *row, size_t vocab, uint32_t token,
                          sb_noise_fn noise, const void *ctx, double slack);

/* The first token whose sum reaches u. */
sb_replay sb_replay_inverse(const sb_sampler_row *row, uint32_t token, double u, int by_id,
                            double slack);

#endif
