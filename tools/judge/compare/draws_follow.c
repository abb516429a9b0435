/* draws_follow.c - the tokens that a published generator gives (T-97). */
#include <stdio.h>
#include <string.h>

#include "ref/run/sample.h"
#include "tools/judge/compare/draws_parts.h"
#include "tools/judge/bound/wide_fn.h"

/* T-97: how far rounding moves a sum of a binary32 logit and its noise, and a share */
#define NOISE_SLACK 0x1p-16
#define SHARE_SLACK 0x1p-20

static void seed(sb_draw_stream *stream, sb_trace_generator generator)
{
    if (generator != SB_GENERATOR_mt19937 && generator != SB_GENERATOR_torch_cpu)
        return;
    sb_mt19937_seed(&stream->mt, (uint32_t)stream->seed);
    stream->skips = stream->mt;
}

static void add_stream(sb_drawn *s, uint64_t number, uint32_t sequence, int restarts)
{
    for (size_t i = 0; i < s->stream_count; i++)
        if (s->streams[i].seed == number && s->streams[i].sequence == sequence &&
            s->streams[i].restarts == restarts)
            return;
    if (s->stream_count == SB_STREAMS)
        return;
    sb_draw_stream *stream = &s->streams[s->stream_count++];
    *stream = (sb_draw_stream){.seed = number, .sequence = sequence, .restarts = restarts};
    seed(stream, s->sampling.generator);
}

void sb_draws_begin_streams(sb_draws *d, sb_drawn *s)
{
    const sb_step_sampling *mine = &s->sampling;
    const int philox = mine->generator == SB_GENERATOR_philox;
    if (mine->seed_kind != SB_SEED_number || !mine->generator ||
        mine->generator == SB_GENERATOR_inverse || mine->generator == SB_GENERATOR_inverse_ids)
        return;
    add_stream(s, mine->seed, philox ? mine->sequence : 0, 0);
    if (!philox)
        add_stream(s, mine->seed, 0, 1);
    for (size_t i = 0; i < d->count; i++) {
        const sb_step_sampling *other = &d->items[i].sampling;
        if (other->seed_kind == SB_SEED_number && other->generator == mine->generator)
            add_stream(s, other->seed, philox ? other->sequence : 0, 0);
    }
}

/* --- noise ------------------------------------------------------------------------------------ */

typedef struct philox {
    sb_sampling sampling;
    uint64_t position;
} philox;

static double philox_noise(const void *ctx, uint32_t token)
{
    const philox *p = ctx;
    return (double)sb_sample_gumbel(&p->sampling, token, p->position, SB_DRAW_token);
}

static double torch_noise(const void *ctx, uint32_t token)
{
    const uint32_t *number = ctx;
    return sb_torch_noise(*number, token);
}

/* --- one draw of one stream ------------------------------------------------------------------- */

static int sorts(const sb_step_sampling *s)
{
    return s->value[SB_SETTING_top_k] > 0 || s->value[SB_SETTING_top_p] < 1;
}

static sb_replay by_mt19937(const sb_draws *d, const sb_drawn *s, sb_draw_stream *stream,
                            uint32_t token)
{
    const size_t least = sb_sampler_row_least_count(d->row),
                 most = sb_sampler_row_most_count(d->row);
    const int by_id = !sorts(&s->sampling);
    const double u = sb_mt19937_uniform(&stream->mt);
    const sb_replay always = sb_replay_inverse(d->row, token, u, by_id, SHARE_SLACK);
    sb_replay skips = SB_REPLAY_yes;
    if (most > 1 && least <= 1)
        stream->skips_open = 1; /* it is not known whether this draw took a number */
    if (most > 1)
        skips = sb_replay_inverse(d->row, token, sb_mt19937_uniform(&stream->skips), by_id,
                                  SHARE_SLACK);
    stream->dead |= always == SB_REPLAY_no;
    stream->skips_dead |= skips == SB_REPLAY_no;
    if (!stream->dead)
        return always;
    return stream->skips_open ? SB_REPLAY_open : stream->skips_dead ? SB_REPLAY_no : skips;
}

static sb_replay draw(const sb_draws *d, const sb_drawn *s, sb_draw_stream *stream, uint32_t token)
{
    if (stream->restarts)
        seed(stream, s->sampling.generator);
    if (s->sampling.generator == SB_GENERATOR_mt19937)
        return by_mt19937(d, s, stream, token);
    if (s->sampling.generator == SB_GENERATOR_torch_cpu) {
        const uint32_t number = sb_mt19937_torch_seed(&stream->mt);
        return sb_replay_noise(d->row, d->vocab, token, torch_noise, &number, NOISE_SLACK);
    }
    const philox p = {.sampling = {.seed = stream->seed, .sequence = stream->sequence},
                      .position = s->position + 1};
    return sb_replay_noise(d->row, d->vocab, token, philox_noise, &p, NOISE_SLACK);
}

/* --- the declared stream, and others ---------------------------------------------------------- */

/* T-97: "each token must be the one that the generator gives" */
static void fail_replay(sb_draws *d, const sb_drawn *s, uint32_t token)
{
    sb_draws_fail(d, s,
                  "token %u was drawn, which the generator %s with seed %llu does not give at draw "
                  "%zu of the sequence",
                  (unsigned)token, sb_trace_generator_name(s->sampling.generator),
                  (unsigned long long)s->sampling.seed, s->draws);
    d->v.first.found = token;
}

static void follow_uniform(sb_draws *d, sb_drawn *s, uint32_t token)
{
    const int by_id = s->sampling.generator == SB_GENERATOR_inverse_ids;
    const sb_replay found =
        sb_replay_inverse(d->row, token, (double)s->uniform, by_id, SHARE_SLACK + 0x1p-24);
    d->v.replayed += found == SB_REPLAY_yes;
    if (found != SB_REPLAY_no)
        return;
    s->strayed++;
    sb_draws_fail(d, s, "token %u was drawn, which the recorded uniform %.9g does not give",
                  (unsigned)token, (double)s->uniform);
}

void sb_draws_follow(sb_draws *d, sb_drawn *s, uint32_t token)
{
    const int uniforms = s->sampling.generator == SB_GENERATOR_inverse ||
                         s->sampling.generator == SB_GENERATOR_inverse_ids;
    s->lost |= s->unfollowed && s->sampling.generator == SB_GENERATOR_torch_cpu;
    s->lost |= sb_sampler_row_support(d->row, token) == SB_SUPPORT_out;
    if (sb_sampling_is_open(&s->sampling) || s->lost)
        return;
    if (uniforms && s->has_uniform) {
        follow_uniform(d, s, token);
        return;
    }
    const double surprise = -sb_wide_log(sb_sampler_row_most(d->row, token));
    for (size_t i = 0; i < s->stream_count; i++) {
        sb_draw_stream *stream = &s->streams[i];
        if (i && stream->dead)
            continue;
        const sb_replay found = draw(d, s, stream, token);
        if (i)
            stream->dead |= found == SB_REPLAY_no;
        stream->evidence += found == SB_REPLAY_yes ? surprise : 0;
        if (i)
            continue;
        d->v.replayed += found == SB_REPLAY_yes;
        s->strayed += found == SB_REPLAY_no;
        if (found == SB_REPLAY_no)
            fail_replay(d, s, token);
    }
}

/* T-97: a stream is named if other draws give these tokens with a chance below 10^-6. */
void sb_draws_name_stream(const sb_draws *d, char *out, size_t room)
{
    for (size_t i = 0; i < d->count && !*out; i++) {
        const sb_drawn *s = &d->items[i];
        for (size_t k = 1; k < s->stream_count && s->strayed && !*out; k++) {
            const sb_draw_stream *stream = &s->streams[k];
            if (stream->dead || stream->evidence < 13.815510557964274)
                continue;
            if (stream->restarts)
                snprintf(out, room,
                         "; sequence %u draws as if its generator began anew at every token",
                         (unsigned)s->sampling.sequence);
            else
                snprintf(out, room, "; sequence %u draws with seed %llu%s",
                         (unsigned)s->sampling.sequence, (unsigned long long)stream->seed,
                         stream->seed == s->sampling.seed ? " as another sequence does"
                                                          : ", which is that of another sequence");
        }
    }
}
