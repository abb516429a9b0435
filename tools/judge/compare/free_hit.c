/* free_hit.c - why a sequence that continues another one begins wrongly. T-47: "also run from other
 * states than that of its parent at the position" */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/judge/compare/free_parts.h"

enum { OTHERS = 3, FEED = 256 };

/* A state that an engine could have taken; position 0: an empty state. */
typedef struct source {
    uint32_t sequence;
    uint64_t position;
} source;

enum { SOURCES = 6 + 2 * OTHERS };

/* The pieces that are taken from it. */
typedef enum taken {
    TAKEN_linear,
    TAKEN_conv,
    TAKEN_recurrent,
    TAKEN_keys,
    TAKEN_all,
    TAKEN
} taken;

static const char *const taken_words[TAKEN] = {"conv and recurrent states", "conv states",
                                               "recurrent states", "keys and values",
                                               "whole state"};

/* The reference's state after the tokens of a source. */
static sb_status state_of(const sb_free *f, const source *from, sb_state **out, sb_error *err)
{
    const sb_session_options options = {
        .knobs = &f->knobs, .hook = f->options.twin, .hook_ctx = f->options.twin_ctx};
    uint32_t tokens[FEED];
    sb_session *session = NULL;
    sb_status status = sb_session_new(f->model, &options, &session, err);
    for (uint64_t at = 0; at < from->position && !status;) {
        size_t n = 0;
        while (n < FEED && at + n < from->position &&
               sb_history_token(f->history, from->sequence, at + n, &tokens[n]))
            n++;
        if (!n)
            status = sb_fail(err, SB_ERR_INPUT, "sequence %u has no token at position %" PRIu64,
                             (unsigned)from->sequence, at);
        else
            status = sb_session_feed(session, tokens, n, err);
        at += n;
    }
    if (!status)
        status = sb_state_copy(sb_session_state(session), out, err);
    sb_session_free(session);
    return status;
}

static void copy_rows(const sb_state *from, sb_state *to)
{
    size_t floats = (size_t)to->position * sb_state_kv_row(to->config);
    for (uint32_t i = 0; i < to->config->layers; i++)
        if (sb_state_is_full(to, i)) {
            memcpy(to->layers[i].keys, from->layers[i].keys, floats * sizeof(float));
            memcpy(to->layers[i].values, from->layers[i].values, floats * sizeof(float));
        }
}

static void copy_linear(const sb_state *from, sb_state *to, int conv, int recurrent)
{
    for (uint32_t i = 0; i < to->config->layers; i++) {
        if (sb_state_is_full(to, i))
            continue;
        if (conv)
            memcpy(to->layers[i].conv, from->layers[i].conv,
                   sb_state_conv_size(to->config) * sizeof(float));
        if (recurrent)
            memcpy(to->layers[i].recurrent, from->layers[i].recurrent,
                   sb_state_recurrent_size(to->config) * sizeof(float));
    }
}

/* Adds a hypothesis: the right state with some pieces of another one. */
static sb_status add(const sb_free_sequence *s, const sb_state *right, const source *from,
                     const sb_state *other, taken what, sb_error *err)
{
    sb_state *state = NULL;
    char words[160];
    sb_status status = sb_state_copy(right, &state, err);
    if (status)
        return status;
    if (what == TAKEN_keys || what == TAKEN_all)
        copy_rows(other, state);
    if (what != TAKEN_keys)
        copy_linear(other, state, what != TAKEN_recurrent, what != TAKEN_conv);
    if (from->position)
        snprintf(words, sizeof words, "the %s %s of sequence %u at position %" PRIu64,
                 taken_words[what], what == TAKEN_all ? "was that" : "were those",
                 (unsigned)from->sequence, from->position);
    else
        snprintf(words, sizeof words, "the %s were empty", taken_words[what]);
    status = sb_trials_add(s->trials, state, words, err);
    sb_state_free(state);
    return status;
}

static sb_status add_all(const sb_free *f, const sb_free_sequence *s, const sb_state *right,
                         const source *from, int foreign, sb_error *err)
{
    sb_state *other = NULL;
    sb_status status = state_of(f, from, &other, err);
    for (taken what = 0; what < TAKEN && !status; what++) {
        int rows = what == TAKEN_keys || what == TAKEN_all;
        if (!rows || (foreign && from->position >= right->position))
            status = add(s, right, from, other, what, err);
    }
    sb_state_free(other);
    return status;
}

/* The nearest position below or above the hit at which a call of the parent ended; 0, or the end of
 * the parent: none. */
static uint64_t call_before(const sb_free *f, const sb_hit_verdict *hit)
{
    uint64_t at = hit->position - 1;
    while (at && !sb_history_ended_at(f->history, hit->parent, at))
        at--;
    return at;
}

static uint64_t call_after(const sb_free *f, const sb_hit_verdict *hit, uint64_t end)
{
    uint64_t at = hit->position + 1;
    while (at < end && !sb_history_ended_at(f->history, hit->parent, at))
        at++;
    return at;
}

/* The states of the parent near the hit, those of the newest other sequences, and an empty one.
 * Returns their number; those from *foreign on are of other sequences. */
static size_t find_sources(const sb_free *f, const sb_hit_verdict *hit, source out[SOURCES],
                           size_t *foreign)
{
    uint64_t end = sb_history_end(f->history, hit->parent), call = call_before(f, hit);
    uint64_t block = f->options.prefix_block;
    size_t n = 0, others = 0;
    out[n++] = (source){hit->parent, 0};
    if (hit->position > 1)
        out[n++] = (source){hit->parent, hit->position - 1};
    if (end > hit->position)
        out[n++] = (source){hit->parent, hit->position + 1};
    uint64_t after = call_after(f, hit, end);
    if (after > hit->position + 1 && after < end)
        out[n++] = (source){hit->parent, after};
    if (end > hit->position + 1)
        out[n++] = (source){hit->parent, end};
    if (block && hit->position > block + 1)
        out[n++] = (source){hit->parent, hit->position - block};
    else if (!block && call && call + 1 < hit->position)
        out[n++] = (source){hit->parent, call};
    *foreign = n;
    for (size_t i = sb_history_count(f->history); i-- > 0 && others < OTHERS;) {
        uint32_t number = sb_history_at(f->history, i);
        uint64_t last = sb_history_end(f->history, number);
        if (number == hit->parent || number == hit->sequence)
            continue;
        others++;
        if (last > hit->position)
            out[n++] = (source){number, hit->position};
        out[n++] = (source){number, last};
    }
    return n;
}

sb_status sb_free_suspect_hit(sb_free *f, sb_free_sequence *s, sb_error *err)
{
    const sb_hit_verdict *hit = &f->v->hits[s->hit];
    const source own = {hit->parent, hit->position};
    source sources[SOURCES];
    size_t foreign = 0, count;
    sb_state *right = NULL;
    if (!s->trials || !sb_free_begins(f, s))
        return SB_OK;
    count = find_sources(f, hit, sources, &foreign);
    sb_status status = state_of(f, &own, &right, err);
    if (!status)
        status = sb_trials_begin_with(s->trials, right, err);
    for (size_t i = 0; i < count && !status; i++)
        status = add_all(f, s, right, &sources[i], i >= foreign, err);
    sb_state_free(right);
    return status;
}
