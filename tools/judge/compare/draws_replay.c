#include "tools/judge/compare/draws_replay.h"

#include <math.h>

#include "tools/judge/bound/wide_fn.h"

/* --- generators ------------------------------------------------------------------------------- */

void sb_mt19937_seed(sb_mt19937 *mt, uint32_t seed)
{
    mt->word[0] = seed;
    for (uint32_t i = 1; i < SB_MT_WORDS; i++) {
        const uint32_t before = mt->word[i - 1];
        mt->word[i] = 1812433253u * (before ^ (before >> 30)) + i;
    }
    mt->next = SB_MT_WORDS;
}

static void twist(sb_mt19937 *mt)
{
    enum { AHEAD = 397 };
    for (size_t i = 0; i < SB_MT_WORDS; i++) {
        const uint32_t both =
            (mt->word[i] & 0x80000000u) | (mt->word[(i + 1) % SB_MT_WORDS] & 0x7fffffffu);
        mt->word[i] =
            mt->word[(i + AHEAD) % SB_MT_WORDS] ^ (both >> 1) ^ (both & 1 ? 0x9908b0dfu : 0);
    }
    mt->next = 0;
}

uint32_t sb_mt19937_next(sb_mt19937 *mt)
{
    if (mt->next == SB_MT_WORDS)
        twist(mt);
    uint32_t word = mt->word[mt->next++];
    word ^= word >> 11;
    word ^= word << 7 & 0x9d2c5680u;
    word ^= word << 15 & 0xefc60000u;
    return word ^ word >> 18;
}

double sb_mt19937_uniform(sb_mt19937 *mt)
{
    const double low = sb_mt19937_next(mt), high = sb_mt19937_next(mt);
    const double u = (low + high * 0x1p32) * 0x1p-64;
    return u < 1 ? u : 1 - 0x1p-53;
}

uint32_t sb_mt19937_torch_seed(sb_mt19937 *mt)
{
    (void)sb_mt19937_next(mt); /* the upper word of 64 bits */
    return sb_mt19937_next(mt) & 0x7fffffffu;
}

static uint64_t mixed(uint64_t word)
{
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
    word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
    return word ^ (word >> 31);
}

double sb_torch_noise(uint32_t seed, uint32_t token)
{
    const uint64_t golden = 0x9e3779b97f4a7c15u;
    const uint64_t bits = mixed(mixed(seed) + ((uint64_t)token + 1) * golden) >> 11;
    const double u = ((double)bits + 0.5) * 0x1p-53;
    const double below = ((double)((UINT64_C(1) << 53) - 1 - bits) + 0.5) * 0x1p-53;
    const double waiting = u < 0.5 ? -sb_wide_log(u) : -sb_wide_log1p(-below);
    return -sb_wide_log(waiting);
}

/* --- draws ------------------------------------------------------------------------------------ */

sb_replay sb_replay_noise(const sb_sampler_row *row, size_t vocab, uint32_t token,
                          sb_noise_fn noise, const void *ctx, double slack)
{
    double least, most;
    sb_replay found = SB_REPLAY_yes;
    sb_sampler_row_scaled(row, token, &least, &most);
    const double mine = noise(ctx, token);
    for (uint32_t i = 0; i < vocab; i++) {
        const sb_support support = sb_sampler_row_support(row, i);
        if (i == token || support == SB_SUPPORT_out)
            continue;
        double other_least, other_most;
        sb_sampler_row_scaled(row, i, &other_least, &other_most);
        const double other = noise(ctx, i);
        if (support == SB_SUPPORT_in && other_least + other > most + mine + slack)
            return SB_REPLAY_no;
        if (other_most + other >= least + mine - slack)
            found = SB_REPLAY_open;
    }
    return found;
}

sb_replay sb_replay_inverse(const sb_sampler_row *row, uint32_t token, double u, int by_id,
                            double slack)
{
    const sb_share share = sb_sampler_row_share(row, token, by_id);
    if (share.before_least - slack >= u || share.with_most + slack < u)
        return SB_REPLAY_no;
    return share.before_most + slack < u && share.with_least - slack >= u ? SB_REPLAY_yes
                                                                          : SB_REPLAY_open;
}
