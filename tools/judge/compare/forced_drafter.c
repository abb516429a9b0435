/* forced_drafter.c - an EAGLE-3 drafter in the forced way: its entries and its drafts, op by
 * op, and the values that are copies: the states of the target, the output of the draft before. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/judge/compare/forced_parts.h"

int forced_is_drafter(const char *name)
{
    return strncmp(name, "drafter.", 8) == 0;
}

/* --- what is known ---------------------------------------------------------------------------- */

/* M-13: "the residual stream after certain numbers of layers" */
void forced_see_state(sb_forced *f, const char *name, int known)
{
    const sb_eagle3 *drafter = f->options.drafter;
    if (!drafter)
        return;
    const sb_eagle3_config *c = sb_eagle3_config_of(drafter);
    const sb_session_states states = sb_eagle3_states(drafter);
    for (size_t i = 0; i < states.count; i++) {
        char from[48] = "embed";
        if (states.after[i])
            snprintf(from, sizeof from, "layers.%u.output", (unsigned)(states.after[i] - 1));
        if (strcmp(name, from) == 0)
            f->captured[i] = known;
    }
    if (strcmp(name, c->norm_output ? "drafter.norm" : "drafter.layers.0.output") == 0)
        f->at->recycled = known;
    if (strcmp(name, "drafter.layers.0.self_attn.q_proj") == 0)
        f->query = known;
    if (strcmp(name, "drafter.layers.0.self_attn.k_proj") == 0)
        f->key = known;
    if (c->norm_before_residual && strcmp(name, "drafter.hidden_norm") == 0)
        f->residual = known;
}

void forced_drafter_op(sb_forced *f, const sb_op_call *call)
{
    const sb_rmsnorm_args *a = call->args;
    if (strcmp(call->name, "drafter.hidden_norm") == 0)
        f->residual = sb_known_of(&f->known, a->in, a->rows * a->n) == SB_KNOWN_exact;
}

/* "attention without a gate over [ e ; f ], e first"; "the residual is h, or f with
 * norm_before_residual"; "only a drafter of type qwen3 norms queries and keys" */
int forced_knows_copy(const sb_forced *f, const sb_op_call *call, const sb_op_value *in)
{
    if (in->ids || !f->options.drafter || call->layer != f->model->config.layers + 1)
        return -1;
    if (call->op == SB_OP_linear && strncmp(call->name, "self_attn.", 10) == 0 &&
        strcmp(call->name, "self_attn.o_proj") != 0)
        return f->embedding && f->previous;
    if (call->op == SB_OP_rope && !sb_eagle3_config_of(f->options.drafter)->qk_norm)
        return strcmp(call->name, "self_attn.q_rope") == 0 ? f->query : f->key;
    if (strcmp(call->name, "attn_residual") == 0 && strcmp(in->name, "a") == 0)
        return f->residual;
    return -1;
}

static int all_captured(const sb_forced *f)
{
    const size_t n = sb_eagle3_states(f->options.drafter).count;
    for (size_t i = 0; i < n; i++)
        if (!f->captured[i])
            return 0;
    return 1;
}

/* --- copies ----------------------------------------------------------------------------------- */

/* Makes a value known without spread: a copy has no error. */
static sb_status pin(sb_forced *f, const char *name, const float *data, size_t count)
{
    sb_known made = {.base = data,
                     .count = count,
                     .kind = SB_KNOWN_exact,
                     .op = SB_OP_add,
                     .layer = SB_NO_LAYER,
                     .name = name,
                     .ours = sb_alloc(count, sizeof(sb_ball)),
                     .theirs = sb_alloc(count, sizeof(sb_ball)),
                     .source = SB_NO_VALUE,
                     .value = SB_NO_VALUE};
    if (!made.ours || !made.theirs) {
        free(made.ours);
        free(made.theirs);
        return SB_ERR_MEMORY;
    }
    sb_balls_of(data, count, made.ours);
    sb_balls_of(data, count, made.theirs);
    return sb_known_make(&f->known, &made);
}

/* A copy of `known` values. What is recorded of one that is not known is an input, as recorded. */
static sb_status judge_copy(sb_forced *f, const char *name, float *data, size_t rows, size_t cols,
                            int known, int *done)
{
    const float *found = forced_recorded(f, name, rows, cols);
    const size_t count = rows * cols;
    *done = !known || !found;
    if (known && found)
        return pin(f, name, data, count);
    if (found && forced_all_finite(found, count)) {
        memcpy(data, found, count * sizeof *data);
        known = 1;
    }
    return sb_known_set(&f->known, data, count, known ? SB_KNOWN_exact : SB_KNOWN_not, SB_NO_VALUE);
}

/* The recorded choice against the logits, which are the recorded ones if there are any. */
static sb_status judge_choice(sb_forced *f, const char *name, const float *ours)
{
    const float *found = forced_recorded(f, name, 1, 2);
    const sb_eagle3_config *c = sb_eagle3_config_of(f->options.drafter);
    const uint32_t *tokens = sb_eagle3_vocabulary(f->options.drafter);
    sb_place place = {.sequence = f->at->id,
                      .layer = f->model->config.layers + 1,
                      .op = "draft",
                      .rank = 1,
                      .bound = 0};
    if (!found)
        return SB_OK;
    const int has_row =
        found[0] >= 0 && found[0] < (float)c->draft_vocab && found[0] == (float)(size_t)found[0];
    const size_t row = has_row ? (size_t)found[0] : 0, best = (size_t)ours[0];
    const int has_logits = forced_recorded(f, "drafter.logits", 1, c->draft_vocab) != NULL;
    const int largest = has_row && (!has_logits || f->draft_logits[row] == f->draft_logits[best]);
    if (largest && found[1] == (float)tokens[row])
        return SB_OK;
    const size_t at = forced_step_row(f, name, 0, 1);
    place.token = f->step->rows[at].position;
    place.element[0] = largest ? 1 : 0;
    place.found = (double)found[largest];
    place.expected = largest ? tokens[row] : (double)best;
    snprintf(place.name, sizeof place.name, "%s", name);
    if (largest)
        snprintf(
            place.words, sizeof place.words,
            "%s: sequence %u, token %llu: row %zu of the drafter's head is token %.0f; expected "
            "token %u (d2t)",
            name, (unsigned)place.sequence, (unsigned long long)place.token, row, place.found,
            (unsigned)tokens[row]);
    else
        snprintf(
            place.words, sizeof place.words,
            "%s: sequence %u, token %llu: the drafter takes row %.0f of its head; expected row "
            "%zu, whose logit is the largest",
            name, (unsigned)place.sequence, (unsigned long long)place.token, place.found, best);
    forced_fail(f, &place, at, (double)INFINITY);
    return SB_OK;
}

sb_status forced_copies(sb_forced *f, const char *name, float *data, size_t rows, size_t cols,
                        int *done)
{
    if (strcmp(name, "drafter.states") == 0)
        return judge_copy(f, name, data, rows, cols, f->states, done);
    if (strcmp(name, "drafter.hidden") == 0)
        return judge_copy(f, name, data, rows, cols, f->states, done);
    if (strcmp(name, "drafter.logits") == 0)
        f->draft_logits = data;
    if (strcmp(name, "drafter.top_ids") != 0)
        return SB_OK;
    *done = 1;
    return judge_choice(f, name, data);
}

/* --- calls ------------------------------------------------------------------------------------ */

/* U-13: "one for each row that is kept, in the order of the rows. The first row of a sequence has
 * none." */
sb_status forced_follow(sb_forced *f, forced_sequence *s, const uint32_t *tokens, size_t n,
                        sb_error *err)
{
    const int captured = all_captured(f);
    f->made_late = f->step->rows[f->row].position == 0;
    f->states = (f->made_late || s->states) && (n == 1 || captured);
    sb_status status = sb_eagle3_follow(s->entries, tokens, n, err);
    s->states = captured;
    f->made += n - f->made_late;
    return status;
}

/* S-15: "each further draft from the output of the step before, one position further" */
sb_status forced_draft(sb_forced *f, forced_sequence *s, uint32_t token, sb_error *err)
{
    uint32_t draft;
    if (!s->follows) {
        f->made++;
        return SB_OK;
    }
    if (!s->drafts) {
        sb_eagle3_forget(s->entries);
        s->memory[f->model->config.layers + 1].drafted = 1;
    }
    f->states = s->drafts ? s->recycled : s->states;
    f->made_late = 0;
    s->drafts++;
    sb_status status = sb_eagle3_draft(s->entries, token, NULL, &draft, err);
    f->made++;
    return status;
}
