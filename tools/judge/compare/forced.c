#include "tools/judge/compare/forced_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/ops/knob.h"

/* --- sequences -------------------------------------------------------------------------------- */

static void free_sequence(const sb_forced *f, forced_sequence *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; s->memory && i <= f->model->config.layers + 1; i++) {
        free(s->memory[i].column);
        forced_cache_free(&s->memory[i]);
        forced_drop_states(&s->memory[i]);
    }
    free(s->memory);
    free(s->own[0]);
    free(s->own[1]);
    sb_eagle3_drafts_free(s->entries);
    sb_session_free(s->session);
    free(s);
}

/* T-23: "The state of an empty sequence is known" */
static void begin_sequence(const sb_forced *f, forced_sequence *s)
{
    const sb_config *c = &f->model->config;
    size_t columns = (size_t)c->lin_v_heads * c->lin_v_dim;
    for (uint32_t i = 0; i <= c->layers + 1; i++) {
        forced_memory *m = &s->memory[i];
        m->cache = m->drafted = m->conv = m->recurrent = 1;
        m->form = SB_OP_delta_rule;
        m->conv_spread = m->state_spread = 0;
        forced_cache_known(m);
        forced_close(m);
        if (m->column)
            memset(m->column, 0, columns * (1 + c->lin_k_dim) * sizeof *m->column);
    }
    sb_session_reset(s->session);
    if (s->entries)
        sb_eagle3_reset(s->entries);
    s->follows = s->states = s->entries != NULL;
    s->alive = 1;
    s->overflowed = 0;
    s->hidden = 1; /* the zero vector of K-27 */
    s->drafts = s->verified = 0;
}

static sb_status make_sequence(sb_forced *f, forced_sequence *s, sb_error *err)
{
    const sb_config *c = &f->model->config;
    const sb_eagle3 *drafter = f->options.drafter;
    const sb_session_options options = {.knobs = &f->knobs,
                                        .states = drafter ? sb_eagle3_states(drafter)
                                                          : (sb_session_states){0},
                                        .tap = forced_on_tap,
                                        .tap_ctx = f,
                                        .hook = forced_on_op,
                                        .hook_ctx = f,
                                        .mtp = f->options.mtp};
    size_t columns = (size_t)c->lin_v_heads * c->lin_v_dim;
    s->memory = sb_alloc((size_t)c->layers + 2, sizeof *s->memory);
    if (!s->memory)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a sequence");
    for (uint32_t i = 0; i < c->layers; i++) {
        if (c->layer_is_full[i])
            continue;
        s->memory[i].column = sb_alloc(columns * (1 + c->lin_k_dim), sizeof(double));
        if (!s->memory[i].column)
            return sb_fail(err, SB_ERR_MEMORY, "out of memory for a sequence");
        s->memory[i].element = s->memory[i].column + columns;
    }
    sb_status status = sb_session_new(f->model, &options, &s->session, err);
    if (!status && drafter)
        status = sb_eagle3_drafts_new(drafter, s->session, &s->entries, err);
    if (!status)
        begin_sequence(f, s);
    return status;
}

static sb_status find_sequence(sb_forced *f, uint32_t id, forced_sequence **out, sb_error *err)
{
    for (size_t i = 0; i < f->sequence_count; i++)
        if (f->sequences[i]->id == id) {
            *out = f->sequences[i];
            return SB_OK;
        }
    forced_sequence **more =
        sb_realloc(f->sequences, f->sequence_count + 1, sizeof(forced_sequence *));
    forced_sequence *s = more ? sb_alloc(1, sizeof *s) : NULL;
    f->sequences = more ? more : f->sequences;
    if (!s)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a sequence");
    s->id = id;
    f->sequences[f->sequence_count++] = s;
    *out = s;
    return make_sequence(f, s, err);
}

/* Frees a sequence, so that memory is needed only for current sequences. */
static void end_sequence(sb_forced *f, uint32_t id)
{
    for (size_t i = 0; i < f->sequence_count; i++)
        if (f->sequences[i]->id == id) {
            free_sequence(f, f->sequences[i]);
            f->sequences[i] = f->sequences[--f->sequence_count];
            f->at = NULL;
            return;
        }
}

/* --- steps ------------------------------------------------------------------------------------ */

static const sb_step_round *round_of(const sb_step *step, uint32_t sequence)
{
    for (size_t i = 0; i < step->round_count; i++)
        if (step->rounds[i].sequence == sequence)
            return &step->rounds[i];
    return NULL;
}

/* Stops judging this sequence, until a recorded state starts it anew. */
static void lose(sb_forced *f, forced_sequence *s, const char *why)
{
    sb_verdicts *v = f->options.verdicts;
    s->alive = 0;
    v->lost = 1;
    v->skipped_taps++;
    if (!v->reason[0])
        snprintf(v->reason, sizeof v->reason, "sequence %u: %.200s", (unsigned)s->id, why);
}

/* T-23: "If that takes another form of the delta rule than the verify took, nothing is known of the
 * states", because the results of the engine's replay are not recorded. */
static sb_status cut(sb_forced *f, forced_sequence *s, size_t kept, sb_error *err)
{
    uint64_t first = sb_session_state(s->session)->position - s->verified;
    f->replay = 1;
    f->other_form = 0;
    sb_status status = sb_session_keep(s->session, kept, err);
    f->replay = 0;
    if (!SB_IS(&f->knobs, delta_rule, recurrent))
        forced_fed_again(f, s, first);
    if (f->other_form)
        forced_forget(f, s);
    forced_undone(f, s, first);
    s->verified = 0;
    return status;
}

/* Cuts the rows of a verify when only the next call's position shows how many were kept. The bounds
 * of the states at that row were not computed. */
static sb_status cut_late(sb_forced *f, forced_sequence *s, uint64_t position, sb_error *err)
{
    const sb_state *state = sb_session_state(s->session);
    uint64_t first = state->position - s->verified;
    if (position < first || position > state->position)
        return SB_OK;
    if (position == state->position) {
        s->verified = 0;
        return SB_OK;
    }
    for (uint32_t i = 0; i < f->model->config.layers; i++) {
        s->memory[i].recurrent = 0;
        s->memory[i].conv = s->memory[i].conv && !s->memory[i].conv_spread;
    }
    sb_status status = cut(f, s, (size_t)(position - first), err);
    /* the rows of a replay are not recorded: its states are the reference's own */
    if (!status && !SB_IS(&f->knobs, delta_rule, recurrent))
        forced_forget(f, s);
    return status;
}

static sb_status ask_logits(sb_forced *f, const sb_step *step, size_t row, sb_error *err)
{
    const sb_step_value *v = sb_step_find(&step->taps, "logits");
    size_t vocabulary = f->model->config.vocab_size;
    float *logits = v && v->data ? sb_alloc(vocabulary, sizeof *logits) : NULL;
    sb_status status = SB_OK;
    if (!v || !v->data)
        f->options.verdicts->skipped_taps++;
    else if (!logits)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for logits");
    for (size_t i = 0; i < f->rows && logits && !status; i++) {
        long long at = sb_step_logits_row(step, v, row + i);
        if (at < 0)
            continue;
        f->logits = (size_t)at;
        f->logits_row = row + i;
        status = sb_session_logits(f->at->session, i, logits, err);
    }
    free(logits);
    return status;
}

static sb_status draft(sb_forced *f, forced_sequence *s, uint32_t token, sb_error *err)
{
    float *logits = sb_alloc(f->model->config.vocab_size, sizeof *logits);
    if (!logits)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for logits");
    if (s->drafts)
        s->hidden_draft = f->recycled;
    else {
        s->has_own[0] = s->has_own[1] = 0;
        s->hidden_draft = s->hidden;
        s->memory[f->model->config.layers].drafted = 1;
    }
    s->drafts++;
    sb_status status = sb_session_draft(s->session, token, logits, err);
    free(logits);
    return status;
}

/* S-15: entries are made of the kept rows. Without a round it is not known which these are. */
static sb_status make_entries(sb_forced *f, forced_sequence *s, const uint32_t *tokens, int verify,
                              const sb_step_round *round, sb_error *err)
{
    const size_t emitted = round ? round->round.emitted : f->rows;
    if (verify && !round && f->rows > 1)
        s->follows = 0;
    return s->follows ? forced_follow(f, s, tokens, emitted < f->rows ? emitted : f->rows, err)
                      : SB_OK;
}

/* Runs the rows of one call of the trunk. */
static sb_status feed(sb_forced *f, forced_sequence *s, const sb_step *step, size_t row,
                      sb_error *err)
{
    const sb_step_round *round = round_of(step, s->id);
    int verify = step->rows[row].kind == SB_CALL_verify || round;
    uint32_t *tokens = sb_alloc(f->rows, sizeof *tokens);
    if (!tokens)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a call");
    for (size_t i = 0; i < f->rows; i++)
        tokens[i] = step->rows[row + i].token;
    f->kept = round ? round->round.accepted + 1 : SIZE_MAX;
    f->opens = verify && f->rows > 1 && !f->options.external && !s->entries;
    s->drafts = 0;
    s->memory[f->model->config.layers].drafted = 1;
    s->memory[f->model->config.layers + 1].drafted = 1;
    sb_rollback rollback =
        SB_IS(&f->knobs, delta_rule, recurrent) ? SB_ROLLBACK_snapshots : SB_ROLLBACK_replay;
    sb_status status = verify ? sb_session_verify(s->session, tokens, f->rows, rollback, err)
                              : sb_session_feed(s->session, tokens, f->rows, err);
    s->has_own[0] = s->has_own[1] = 0;
    if (!status) {
        s->hidden = f->norm;
        s->verified = verify ? f->rows : 0;
        status = ask_logits(f, step, row, err);
    }
    if (!status && round && f->kept < f->rows)
        status = cut(f, s, f->kept, err);
    if (!status && s->entries)
        status = make_entries(f, s, tokens, verify, round, err);
    free(tokens);
    return status;
}

/* Runs the rows of one sequence, or one draft row. */
static sb_status run_rows(sb_forced *f, forced_sequence *s, const sb_step *step, size_t row,
                          sb_error *err)
{
    const sb_step_row *first = &step->rows[row];
    const sb_state *state = sb_session_state(s->session);
    sb_status status = SB_OK;
    if (s->verified) /* no round gave the number of kept rows: the next row's position does */
        status = cut_late(f, s, first->position, err);
    if (status)
        return status;
    if (first->kind == SB_CALL_draft && s->entries)
        return forced_draft(f, s, first->token, err);
    if (first->kind == SB_CALL_draft)
        return state->has_mtp ? draft(f, s, first->token, err) : SB_OK;
    if (first->position == 0 && state->position > 0)
        begin_sequence(f, s);
    if (sb_session_state(s->session)->position != first->position) {
        lose(f, s, "its rows do not continue at the end of its last call");
        return SB_OK;
    }
    return feed(f, s, step, row, err);
}

static size_t rows_of(const sb_step *step, size_t row)
{
    const sb_step_row *first = &step->rows[row];
    size_t n = 1;
    while (row + n < step->row_count && step->rows[row + n].sequence == first->sequence &&
           first->kind != SB_CALL_draft && step->rows[row + n].kind != SB_CALL_draft)
        n++;
    return n;
}

static sb_status run_sequence(sb_forced *f, const sb_step *step, size_t row, sb_error *err)
{
    forced_sequence *s = NULL;
    sb_error why = {{0}};
    sb_status status = find_sequence(f, step->rows[row].sequence, &s, err);
    if (status)
        return status;
    f->at = s;
    f->row = row;
    f->rows = rows_of(step, row);
    sb_known_clear(&f->known);
    forced_drop_later(f);
    f->shared_logits = f->cached_values = NULL;
    f->experts = f->norm = f->embedding = f->previous = f->states = f->residual = 0;
    f->query = f->key = 0;
    memset(f->captured, 0, sizeof f->captured);
    uint64_t before = sb_session_state(s->session)->mtp_entries;
    if (step->rows[row].position == 0 && step->rows[row].kind != SB_CALL_draft)
        before = 0;
    if (!s->alive && step->rows[row].position != 0)
        f->options.verdicts->skipped_taps++;
    else
        status = run_rows(f, s, step, row, &why);
    if (forced_end_values(f) && !status)
        status = SB_ERR_MEMORY;
    f->entry +=
        step->rows[row].kind == SB_CALL_draft
            ? 1
            : (size_t)(sb_session_mtp_entries(&f->knobs, step->rows[row].position + f->rows) -
                       before);
    if (status == SB_ERR_NUMERIC || status == SB_ERR_USAGE) {
        s->overflowed = status == SB_ERR_NUMERIC;
        lose(f, s, why.text);
        return SB_OK;
    }
    return status ? sb_fail(err, status, "%s", why.text) : SB_OK;
}

sb_status sb_forced_step(sb_forced *f, const sb_step *step, double *worst, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t i = 0; worst && i < step->row_count; i++)
        worst[i] = 0.0;
    f->step = step;
    f->worst = worst;
    f->entry = f->made = 0;
    for (size_t i = 0; i < step->state_count && !status; i++) {
        forced_sequence *s = NULL;
        status = find_sequence(f, step->states[i].sequence, &s, err);
        f->at = s;
        if (!status && s->verified)
            status = cut_late(f, s, step->states[i].position, err);
        if (!status)
            status = forced_state(f, s, &step->states[i], err);
    }
    for (size_t row = 0; row < step->row_count && !status; row += rows_of(step, row))
        status = run_sequence(f, step, row, err);
    for (size_t i = 0; i < step->ended_count; i++)
        end_sequence(f, step->ended[i]);
    f->step = NULL;
    forced_drop_kept(f);
    return status || !f->broken ? status : sb_fail(err, f->broken, "%s", f->why.text);
}

sb_status sb_forced_again(sb_forced *f, const sb_step *step, int *lost, sb_error *err)
{
    const sb_forced_options options = f->options;
    sb_verdicts unused = {0};
    forced_count *counts = sb_alloc(SB_OP_COUNT, sizeof *counts);
    if (!counts)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a comparison");
    memcpy(counts, f->counts, sizeof f->counts);
    f->options.verdicts = &unused;
    f->options.bundle = NULL;
    f->options.cells = NULL;
    f->options.coverage = NULL;
    sb_status status = sb_forced_step(f, step, NULL, err);
    /* T-85: the engine may have fed the kept rows of a round again */
    if (!status && step->again == SB_STEP_AGAIN_UNDONE && f->at)
        forced_undone(f, f->at, step->rows[0].position);
    *lost = unused.lost;
    f->options = options;
    memcpy(f->counts, counts, sizeof f->counts);
    sb_verdicts_free(&unused);
    free(counts);
    return status;
}

int sb_forced_overflowed(const sb_forced *f, uint32_t sequence)
{
    for (size_t i = 0; f && i < f->sequence_count; i++)
        if (f->sequences[i]->id == sequence)
            return f->sequences[i]->overflowed;
    return 0;
}

/* --- the object ------------------------------------------------------------------------------- */

sb_status sb_forced_new(const sb_model *model, const sb_forced_options *options, sb_forced **out,
                        sb_error *err)
{
    sb_forced *f = sb_alloc(1, sizeof *f);
    if (!f)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a comparison");
    f->model = model;
    f->options = *options;
    f->knobs = *options->knobs;
    f->options.knobs = &f->knobs;
    *out = f;
    const int searches = options->twin || options->site;
    if (sb_bias_new(&f->bias) || (!searches && sb_fit_new(&f->fit)))
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a comparison");
    return SB_OK;
}

void sb_forced_free(sb_forced *f)
{
    if (!f)
        return;
    for (size_t i = 0; i < f->sequence_count; i++)
        free_sequence(f, f->sequences[i]);
    free(f->sequences);
    sb_known_clear(&f->known);
    forced_drop_kept(f);
    forced_drop_later(f);
    free(f->later);
    free(f->values);
    sb_bias_free(f->bias);
    sb_fit_free(f->fit);
    free(f);
}
