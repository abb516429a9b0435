/* draws.c - the sequences whose samplers are declared, and the support of each draw. */
#include "tools/judge/compare/draws.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "tools/judge/compare/draws_parts.h"

sb_status sb_draws_new(size_t vocab, sb_draws **out, sb_error *err)
{
    sb_draws *d = sb_alloc(1, sizeof *d);
    if (!d)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for draws");
    d->vocab = vocab;
    *out = d;
    return SB_OK;
}

/* What only declared sequences need. */
static sb_status make_room(sb_draws *d, sb_error *err)
{
    if (d->row)
        return SB_OK;
    d->p = sb_alloc(d->vocab, sizeof *d->p);
    d->q = sb_alloc(d->vocab, sizeof *d->q);
    if (!d->p || !d->q)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for draws");
    return sb_sampler_row_new(d->vocab, &d->row, err);
}

static void clear(sb_drawn *s)
{
    free(s->tokens);
    free(s->ids);
    free(s->places);
    free(s->logits);
}

void sb_draws_free(sb_draws *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->count; i++)
        clear(&d->items[i]);
    free(d->items);
    free(d->p);
    free(d->q);
    sb_sampler_row_free(d->row);
    free(d);
}

static sb_drawn *find(const sb_draws *d, uint32_t sequence)
{
    for (size_t i = d->count; i-- > 0;)
        if (d->items[i].sampling.sequence == sequence && !d->items[i].ended)
            return &d->items[i];
    return NULL;
}

int sb_draws_has(const sb_draws *d, uint32_t sequence)
{
    const sb_drawn *s = find(d, sequence);
    const int greedy = SB_SETTING_temperature;
    return s && s->declared && !(s->sampling.has[greedy] && s->sampling.value[greedy] == 0);
}

/* T-96: "the draws of two sequences are independent" */
static int is_alone(const sb_draws *d, const sb_step_sampling *s)
{
    if (s->seed_kind == SB_SEED_unknown)
        return 1;
    for (size_t i = 0; i < d->count; i++) {
        const sb_step_sampling *other = &d->items[i].sampling;
        const int philox = s->generator == SB_GENERATOR_philox && other->generator == s->generator;
        if (s->seed_kind == SB_SEED_number && other->seed_kind == SB_SEED_number &&
            s->seed == other->seed && !(philox && s->sequence != other->sequence))
            return 1;
    }
    return 0;
}

static void note_lacks(sb_draws *d, const sb_step_sampling *sampling)
{
    if (!*d->v.lacks)
        sb_sampling_lacks(sampling, d->v.lacks, sizeof d->v.lacks);
}

/* A new item for a sequence, which takes over its tokens so far. */
static sb_drawn *add_item(sb_draws *d, uint32_t sequence)
{
    sb_drawn *more = sb_grow(d->items, d->count, &d->room, sizeof *more);
    if (!more)
        return NULL;
    d->items = more;
    sb_drawn *before = find(d, sequence), *s = &d->items[d->count];
    *s = (sb_drawn){.sampling = {.sequence = sequence}};
    if (before) {
        before->ended = 1;
        s->tokens = before->tokens;
        s->count = before->count;
        s->room = before->room;
        s->prompt = before->prompt;
        before->tokens = NULL;
    }
    d->count++;
    return s;
}

sb_status sb_draws_declare(sb_draws *d, const sb_step_sampling *sampling, sb_error *err)
{
    sb_status status = make_room(d, err);
    if (status)
        return status;
    const int alone = is_alone(d, sampling);
    sb_drawn *s = find(d, sampling->sequence);
    if (!s || s->declared)
        s = add_item(d, sampling->sequence);
    if (!s)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for draws");
    s->sampling = *sampling;
    s->declared = 1;
    s->alone = alone;
    s->logits = sb_alloc(d->vocab, sizeof *s->logits);
    d->v.sequences++;
    note_lacks(d, sampling);
    if (!s->logits)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for draws");
    sb_draws_begin_streams(d, s);
    return SB_OK;
}

sb_status sb_draws_feed(sb_draws *d, uint32_t sequence, uint64_t position, uint32_t token,
                        int given, sb_error *err)
{
    sb_drawn *s = find(d, sequence);
    if (!s)
        s = add_item(d, sequence);
    if (!s)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for draws");
    if (position > s->count || token >= d->vocab)
        return SB_OK; /* the positions before are not known: counts would be wrong anyway */
    if (position == 0)
        s->prompt = 0;
    uint32_t *more = sb_grow(s->tokens, (size_t)position, &s->room, sizeof *more);
    if (!more)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for the tokens of a sequence");
    s->tokens = more;
    s->tokens[position] = token;
    s->count = (size_t)position + 1;
    if (given)
        s->prompt = s->count;
    return SB_OK;
}

static int all_finite(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!sb_is_finite_f32(x[i]))
            return 0;
    return 1;
}

sb_status sb_draws_row(sb_draws *d, uint32_t sequence, const sb_draw_row *row, sb_error *err)
{
    sb_drawn *s = find(d, sequence);
    (void)err;
    if (!s || !s->declared)
        return SB_OK;
    s->waits = all_finite(row->logits, d->vocab) && row->position < s->count;
    s->position = row->position;
    s->pair = row->pair;
    s->has_uniform = row->uniform != NULL;
    s->uniform = row->uniform ? *row->uniform : 0;
    s->unfollowed = row->unfollowed;
    memcpy(s->logits, row->logits, d->vocab * sizeof *s->logits);
    return SB_OK;
}

void sb_draws_lose(sb_draws *d, uint32_t sequence)
{
    sb_drawn *s = find(d, sequence);
    if (!s)
        return;
    s->lost = 1;
    s->waits = 0;
}

void sb_draws_fail(sb_draws *d, const sb_drawn *s, const char *format, ...)
{
    va_list args;
    if (d->v.has_first)
        return;
    d->v.has_first = 1;
    d->v.first = (sb_place){.sequence = s->sampling.sequence,
                            .token = s->position,
                            .layer = SB_NO_LAYER,
                            .op = "sampler",
                            .name = "sampler"};
    va_start(args, format);
    vsnprintf(d->v.first.words, sizeof d->v.first.words, format, args);
    va_end(args);
}

/* The words for a token outside the support. */
static void fail_support(sb_draws *d, const sb_drawn *s, uint32_t token)
{
    char text[200];
    sb_sampling_text(&s->sampling, 0, text, sizeof text);
    sb_draws_fail(d, s,
                  "token %u was drawn, which no correct sampler draws here: %zu tokens are above "
                  "it, at most %zu are kept (%s)",
                  (unsigned)token, sb_sampler_row_above(d->row, token),
                  sb_sampler_row_most_count(d->row), text);
    d->v.first.found = token;
}

static sb_status note_draw(sb_drawn *s, uint32_t token, uint32_t place, sb_error *err)
{
    if (s->draws == s->draw_room) {
        const size_t room = s->draw_room ? 2 * s->draw_room : 64;
        uint32_t *ids = sb_realloc(s->ids, room, sizeof *ids);
        s->ids = ids ? ids : s->ids;
        uint32_t *places = ids ? sb_realloc(s->places, room, sizeof *places) : NULL;
        if (!places)
            return sb_fail(err, SB_ERR_MEMORY, "out of memory for draws");
        s->places = places;
        s->draw_room = room;
    }
    s->ids[s->draws] = token;
    s->places[s->draws++] = place;
    return SB_OK;
}

sb_status sb_draws_token(sb_draws *d, uint32_t sequence, uint32_t token, sb_verdict *out,
                         sb_error *err)
{
    sb_drawn *s = find(d, sequence);
    *out = SB_VERDICT_none;
    if (!s || !s->waits || token >= d->vocab)
        return SB_OK;
    s->waits = 0;
    const sb_token_counts counts = {s->tokens, (size_t)s->position + 1, s->prompt};
    sb_sampler_row_judge(d->row, &s->sampling, s->logits, s->pair, &counts);
    const sb_support support = sb_sampler_row_support(d->row, token);
    d->v.draws++;
    const int known = !sb_sampling_is_open(&s->sampling);
    d->v.open += known && support == SB_SUPPORT_open;
    d->v.outside += support == SB_SUPPORT_out;
    *out = support == SB_SUPPORT_out             ? SB_VERDICT_FAIL
           : known && support == SB_SUPPORT_open ? SB_VERDICT_NEAR_TIE
                                                 : SB_VERDICT_WITHIN;
    if (support == SB_SUPPORT_out)
        fail_support(d, s, token);
    sb_draws_follow(d, s, token);
    sb_draws_bet(d, s, &counts, token);
    return note_draw(s, token, (uint32_t)sb_sampler_row_place(d->row, token), err);
}

void sb_draws_finish(sb_draws *d, sb_sampler_verdict *out)
{
    char like[SB_WORDS];
    sb_draws_name(d, like, sizeof like);
    if (!*like)
        sb_draws_name_stream(d, like, sizeof like);
    const size_t used = strlen(d->v.first.words);
    if (d->v.has_first)
        snprintf(d->v.first.words + used, sizeof d->v.first.words - used, "%s", like);
    if (d->v.draws)
        d->v.verdict = d->v.has_first ? SB_VERDICT_FAIL
                       : d->v.open    ? SB_VERDICT_NEAR_TIE
                                      : SB_VERDICT_WITHIN;
    *out = d->v;
}
