#include "tools/judge/compare/rollback.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/ops/knob.h"

/* Which of the states within a round is read. */
typedef enum slot {
    SLOT_kept,   /* the right state */
    SLOT_first,  /* after the first row */
    SLOT_early,  /* one row too early */
    SLOT_late,   /* one row too late */
    SLOT_last,   /* after all rows, rejected or not */
    SLOT_begin,  /* before the round */
    SLOT_wraps,  /* after the last row if nothing was accepted; else the right state */
    SLOT_before, /* after as many rows as the round before kept */
    SLOT_other   /* after as many rows as another sequence in the call kept */
} slot;

typedef struct mistake {
    const char *words;
    slot conv, recurrent;
    int several; /* the conv mistake is made only if several rows are kept */
    int stale;   /* a round without drafts reads the first slot of the round before */
    int keys;    /* the last kept row has the keys and values of the rejected row after it */
} mistake;

/* T-47: the mistakes that are tried. */
static const mistake mistakes[] = {
    {"the recurrent states are read from the first slot, whatever was accepted", SLOT_kept,
     SLOT_first, 0, 0, 0},
    {"a round without drafts reads the recurrent states from the first slot of the previous round",
     SLOT_kept, SLOT_kept, 0, 1, 0},
    {"the conv states are not rolled back: they keep the columns of rejected rows", SLOT_last,
     SLOT_kept, 0, 0, 0},
    {"the recurrent states are not rolled back: they include rejected rows", SLOT_kept, SLOT_last,
     0, 0, 0},
    {"neither conv nor recurrent states are rolled back", SLOT_last, SLOT_last, 0, 0, 0},
    {"conv and recurrent states are read one slot too early (accepted - 1)", SLOT_early, SLOT_early,
     0, 0, 0},
    {"conv and recurrent states are read one slot too late (accepted + 1: the bonus counted)",
     SLOT_late, SLOT_late, 0, 0, 0},
    {"the recurrent states are read one slot too early (accepted - 1)", SLOT_kept, SLOT_early, 0, 0,
     0},
    {"the recurrent states are read one slot too late (accepted + 1)", SLOT_kept, SLOT_late, 0, 0,
     0},
    {"the conv window is shifted: it ends one column too early", SLOT_early, SLOT_kept, 1, 0, 0},
    {"the conv window is shifted: it ends one column too late", SLOT_late, SLOT_kept, 0, 0, 0},
    {"conv and recurrent states stay as they were before the round", SLOT_begin, SLOT_begin, 0, 0,
     0},
    {"if no draft is accepted, the slot accepted - 1 wraps to the last slot", SLOT_wraps,
     SLOT_wraps, 0, 0, 0},
    {"the accepted count comes from the previous round", SLOT_before, SLOT_before, 0, 0, 0},
    {"the accepted count comes from another sequence of the batch", SLOT_other, SLOT_other, 0, 0,
     0},
    {"the last kept row has the keys and values of the rejected row after it", SLOT_kept, SLOT_kept,
     0, 0, 1},
};
enum { TRIALS = sizeof mistakes / sizeof *mistakes };

/* A session that began with another state makes no mistake in a round. */
static const mistake none = {"", SLOT_kept, SLOT_kept, 0, 0, 0};

typedef struct trial {
    const mistake *mistake;
    char words[160];
    sb_session *session;
    sb_state *before; /* the state before the last verify; NULL where the session has snapshots */
    /* the state after the first row of the last round, if that round kept several rows; or NULL */
    sb_state *stale;
    int dead; /* the trial could not be followed */
    size_t seen;
    double worst;
} trial;

struct sb_trials {
    const sb_model *model;
    sb_session_options options;
    trial *trial; /* (count) the rollback mistakes, then the other states to begin with */
    size_t count, trial_room;
    uint32_t *tokens; /* tokens of the last verify */
    size_t rows, room;
    double reference;
};

static sb_status add(sb_trials *t, const mistake *m, const char *words, sb_error *err)
{
    trial *more = sb_grow(t->trial, t->count, &t->trial_room, sizeof *more);
    if (!more)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for hypotheses");
    t->trial = more;
    trial *one = &t->trial[t->count++];
    *one = (trial){.mistake = m};
    snprintf(one->words, sizeof one->words, "%s", words);
    return sb_session_new(t->model, &t->options, &one->session, err);
}

sb_status sb_trials_new(const sb_model *model, const sb_session_options *options, sb_trials **out,
                        sb_error *err)
{
    sb_trials *t = sb_alloc(1, sizeof *t);
    if (!t)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for hypotheses");
    sb_status status = SB_OK;
    t->model = model;
    t->options = *options;
    for (size_t i = 0; i < TRIALS && !status; i++)
        status = add(t, &mistakes[i], mistakes[i].words, err);
    if (status) {
        sb_trials_free(t);
        return status;
    }
    *out = t;
    return SB_OK;
}

static void drop(sb_state **state)
{
    sb_state_free(*state);
    *state = NULL;
}

void sb_trials_free(sb_trials *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->count; i++) {
        sb_session_free(t->trial[i].session);
        drop(&t->trial[i].before);
        drop(&t->trial[i].stale);
    }
    free(t->trial);
    free(t->tokens);
    free(t);
}

void sb_trials_reset(sb_trials *t)
{
    while (t->count > TRIALS)
        sb_session_free(t->trial[--t->count].session);
    for (size_t i = 0; i < t->count; i++) {
        trial *one = &t->trial[i];
        sb_session_reset(one->session);
        drop(&one->before);
        drop(&one->stale);
        one->dead = 0;
        one->seen = 0;
        one->worst = 0;
    }
    t->rows = 0;
    t->reference = 0;
}

size_t sb_trials_count(const sb_trials *t)
{
    return t->count;
}

/* Drops a trial that reaches a value that is not finite. Lack of memory is an error. */
static sb_status survive(trial *one, sb_status status)
{
    if (!status || status == SB_ERR_MEMORY)
        return status;
    one->dead = 1;
    return SB_OK;
}

sb_status sb_trials_add(sb_trials *t, const sb_state *state, const char *words, sb_error *err)
{
    sb_status status = add(t, &none, words, err);
    return status ? status : sb_session_set_state(t->trial[t->count - 1].session, state, err);
}

sb_status sb_trials_begin_with(sb_trials *t, const sb_state *state, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t i = 0; i < TRIALS && !status; i++)
        status = sb_session_set_state(t->trial[i].session, state, err);
    return status;
}

/* Replaces the conv and recurrent states of the linear-attention layers of `to`. */
static void take_states(const sb_state *conv, const sb_state *recurrent, sb_state *to)
{
    for (uint32_t i = 0; i < to->config->layers; i++) {
        if (sb_state_is_full(to, i))
            continue;
        memcpy(to->layers[i].conv, conv->layers[i].conv,
               sb_state_conv_size(to->config) * sizeof(float));
        memcpy(to->layers[i].recurrent, recurrent->layers[i].recurrent,
               sb_state_recurrent_size(to->config) * sizeof(float));
    }
}

/* Makes the mistake `stale` in a round without drafts, after a round that kept several rows. */
static sb_status read_stale(trial *one, size_t rows, sb_error *err)
{
    sb_state *copy = NULL;
    if (!one->mistake->stale || rows != 1 || !one->stale)
        return SB_OK;
    const sb_state *live = sb_session_state(one->session);
    sb_status status = sb_state_copy(live, &copy, err);
    if (status)
        return status;
    take_states(live, one->stale, copy);
    status = sb_session_set_state(one->session, copy, err);
    sb_state_free(copy);
    drop(&one->stale);
    return status;
}

sb_status sb_trials_begin(sb_trials *t, size_t n, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t i = 0; i < t->count && !status; i++)
        if (!t->trial[i].dead)
            status = survive(&t->trial[i], read_stale(&t->trial[i], n, err));
    return status;
}

sb_status sb_trials_feed(sb_trials *t, const uint32_t *tokens, size_t n, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t i = 0; i < t->count && !status; i++) {
        trial *one = &t->trial[i];
        if (one->dead)
            continue;
        status = survive(one, sb_session_feed(one->session, tokens, n, err));
    }
    t->rows = 0;
    return status;
}

sb_status sb_trials_verify(sb_trials *t, const uint32_t *tokens, size_t n, sb_error *err)
{
    sb_status status = SB_OK;
    if (n > t->room) {
        uint32_t *more = sb_realloc(t->tokens, n, sizeof *more);
        if (!more)
            return sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu tokens", n);
        t->tokens = more;
        t->room = n;
    }
    memcpy(t->tokens, tokens, n * sizeof *tokens);
    t->rows = n;
    int snapshots = SB_IS(sb_session_knobs(t->trial[0].session), delta_rule, recurrent);
    for (size_t i = 0; i < t->count && !status; i++) {
        trial *one = &t->trial[i];
        if (one->dead)
            continue;
        drop(&one->before);
        if (snapshots)
            status = sb_session_verify(one->session, tokens, n, SB_ROLLBACK_snapshots, err);
        else
            status = sb_state_copy(sb_session_state(one->session), &one->before, err);
        if (!status && !snapshots)
            status = sb_session_feed(one->session, tokens, n, err);
        status = survive(one, status);
    }
    return status;
}

/* The state after n rows of the round, as the trial computes them. */
static sb_status state_after(sb_trials *t, trial *one, size_t n, sb_state **out, sb_error *err)
{
    if (!one->before)
        return sb_session_state_at(one->session, n, out, err);
    sb_status status = sb_session_set_state(one->session, one->before, err);
    if (!status && n)
        status = sb_session_feed(one->session, t->tokens, n, err);
    return status ? status : sb_state_copy(sb_session_state(one->session), out, err);
}

/* The number of rows that the slot's state includes. */
static size_t rows_of(slot s, const sb_trial_round *round, size_t rows)
{
    size_t kept = round->kept, n = kept;
    switch (s) {
    case SLOT_kept:
        break;
    case SLOT_first:
        n = 1;
        break;
    case SLOT_early:
        n = kept - 1;
        break;
    case SLOT_late:
        n = kept + 1;
        break;
    case SLOT_last:
        n = rows;
        break;
    case SLOT_begin:
        n = 0;
        break;
    case SLOT_wraps:
        n = kept == 1 ? rows : kept;
        break;
    case SLOT_before:
        n = round->before + 1;
        break;
    case SLOT_other:
        n = round->has_other ? round->other + 1 : kept;
        break;
    }
    return n < rows ? n : rows;
}

/* Overwrites the last kept row of keys and values by the rejected row after it. */
static void take_keys(const sb_state *all, size_t position, sb_state *to)
{
    size_t row = sb_state_kv_row(to->config), at = (position - 1) * row;
    for (uint32_t i = 0; i < to->config->layers && all->position > position; i++) {
        if (!sb_state_is_full(to, i))
            continue;
        memcpy(to->layers[i].keys + at, all->layers[i].keys + at + row, row * sizeof(float));
        memcpy(to->layers[i].values + at, all->layers[i].values + at + row, row * sizeof(float));
    }
}

/* Makes the state after n rows if it is not in `slots` yet. */
static sb_status slot_of(sb_trials *t, trial *one, sb_state **slots, size_t n, sb_error *err)
{
    return slots[n] ? SB_OK : state_after(t, one, n, &slots[n], err);
}

static sb_status keep_slots(sb_trials *t, size_t i, const sb_trial_round *round, sb_state **slots,
                            sb_error *err)
{
    trial *one = &t->trial[i];
    const mistake *m = one->mistake;
    int right = m->several && round->kept < 2;
    size_t kept = round->kept, rows = t->rows;
    size_t conv = right ? kept : rows_of(m->conv, round, rows);
    size_t recurrent = rows_of(m->recurrent, round, rows);
    sb_state *to = NULL;
    sb_status status = slot_of(t, one, slots, kept, err);
    if (!status)
        status = slot_of(t, one, slots, conv, err);
    if (!status)
        status = slot_of(t, one, slots, recurrent, err);
    if (!status && (m->keys || m->stale))
        status = slot_of(t, one, slots, m->keys ? rows : 1, err);
    drop(&one->stale);
    if (!status && m->stale && kept > 1)
        status = sb_state_copy(slots[1], &one->stale, err);
    if (!status)
        status = sb_state_copy(slots[kept], &to, err);
    if (!status) {
        take_states(slots[conv], slots[recurrent], to);
        if (m->keys)
            take_keys(slots[rows], (size_t)to->position, to);
        status = sb_session_set_state(one->session, to, err);
    }
    sb_state_free(to);
    return status;
}

static sb_status keep_one(sb_trials *t, size_t i, const sb_trial_round *round, sb_error *err)
{
    sb_state **slots = sb_alloc(t->rows + 1, sizeof *slots);
    if (!slots)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu states", t->rows + 1);
    sb_status status = keep_slots(t, i, round, slots, err);
    for (size_t n = 0; n <= t->rows; n++)
        sb_state_free(slots[n]);
    free(slots);
    return status;
}

sb_status sb_trials_keep(sb_trials *t, const sb_trial_round *round, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t i = 0; i < t->count && !status; i++)
        if (!t->trial[i].dead)
            status = survive(&t->trial[i], keep_one(t, i, round, err));
    t->rows = 0;
    return status;
}

const sb_state *sb_trial_state(const sb_trials *t, size_t i)
{
    return sb_session_state(t->trial[i].session);
}

sb_status sb_trial_logits(sb_trials *t, size_t i, size_t row, float *logits, sb_error *err)
{
    if (t->trial[i].dead)
        return SB_OK;
    return survive(&t->trial[i], sb_session_logits(t->trial[i].session, row, logits, err));
}

void sb_trial_see(sb_trials *t, size_t i, double ratio)
{
    trial *one = &t->trial[i];
    one->seen++;
    if (!(ratio <= one->worst))
        one->worst = ratio == ratio ? ratio : INFINITY;
}

void sb_trials_see_reference(sb_trials *t, double ratio)
{
    if (!(ratio <= t->reference))
        t->reference = ratio == ratio ? ratio : INFINITY;
}

/* T-47: "its run stays within the bounds everywhere"; T-47: "more than twice as large in the
 * reference as in the best of these runs" */
int sb_trials_say(const sb_trials *t, char *words, size_t size)
{
    size_t best = t->count, fitting = 0;
    if (!(t->reference > 1))
        return 0;
    for (size_t i = 0; i < t->count; i++) {
        const trial *one = &t->trial[i];
        if (one->dead || !one->seen)
            continue;
        fitting += one->worst <= 1;
        if (best == t->count || one->worst < t->trial[best].worst)
            best = i;
    }
    if (best == t->count || !(t->trial[best].worst < t->reference / 2)) {
        snprintf(words, size, "no known mistake of a %s explains it",
                 t->count > TRIALS ? "rollback or of a prefix cache" : "rollback");
        return 0;
    }
    if (fitting == 0) {
        snprintf(words, size,
                 "closest known mistake, still outside the bounds (%.3g, without it %.3g): %s",
                 t->trial[best].worst, t->reference, t->trial[best].words);
        return 0;
    }
    size_t n = (size_t)snprintf(words, size, "behaves as if ");
    const char *between = "";
    for (size_t i = 0; i < t->count && n < size; i++)
        if (!t->trial[i].dead && t->trial[i].seen && t->trial[i].worst <= 1) {
            n += (size_t)snprintf(words + n, size - n, "%s%s", between, t->trial[i].words);
            between = "; or as if ";
        }
    return 1;
}
