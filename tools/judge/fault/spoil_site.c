/* spoil_site.c - faults at one place of a trace, and harmless changes of a trace. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/text.h"
#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "tools/judge/fault/spoil.h"

/* --- one place -------------------------------------------------------------------------------- */

/* The row of the site's tap at its token, or NULL; *before: the row before it. */
static float *row_of(const sb_spoiler *spoiler, sb_step *step, size_t *cols, float **before)
{
    const sb_step_value *v = sb_step_find(&step->taps, spoiler->site->tap);
    for (size_t i = 0; v && v->data && i < step->row_count; i++) {
        long long at =
            strcmp(v->name, "logits") == 0 ? sb_step_logits_row(step, v, i) : (long long)i;
        if (step->rows[i].position != spoiler->site->token || at < 0 || (size_t)at >= v->rows)
            continue;
        *cols = v->cols;
        *before = at > 0 ? v->data + (size_t)(at - 1) * v->cols : NULL;
        return v->data + (size_t)at * v->cols;
    }
    return NULL;
}

sb_status sb_spoil_one_nan(sb_spoiler *spoiler, sb_step *step)
{
    size_t cols;
    float *before, *row = row_of(spoiler, step, &cols, &before);
    if (row)
        row[cols / 2] = sb_f32_from_bits(0x7fc00000u);
    return SB_OK;
}

sb_status sb_spoil_row_zeroed(sb_spoiler *spoiler, sb_step *step)
{
    size_t cols;
    float *before, *row = row_of(spoiler, step, &cols, &before);
    if (row)
        memset(row, 0, cols * sizeof *row);
    return SB_OK;
}

sb_status sb_spoil_rows_swapped(sb_spoiler *spoiler, sb_step *step)
{
    size_t cols = 0;
    float *before = NULL, *row = row_of(spoiler, step, &cols, &before);
    for (size_t i = 0; row && before && i < cols; i++) {
        float x = row[i];
        row[i] = before[i];
        before[i] = x;
    }
    return SB_OK;
}

static int of_site(const sb_spoiler *spoiler, const sb_step_value *piece)
{
    char layer[24];
    int n = snprintf(layer, sizeof layer, "layers.%u.", (unsigned)spoiler->site->layer);
    return strncmp(piece->name, layer, (size_t)n) == 0;
}

/* Replaces both pieces of a linear-attention layer by those of the step before, which ctx keeps. */
sb_status sb_spoil_stale_state(sb_spoiler *spoiler, sb_step *step)
{
    size_t n = 0, at = 0;
    float *kept = NULL, *old = spoiler->ctx;
    for (size_t i = 0; i < step->state_count; i++)
        for (size_t p = 0; p < step->states[i].pieces.count; p++) {
            const sb_step_value *v = &step->states[i].pieces.items[p];
            n += of_site(spoiler, v) ? v->rows * v->cols : 0;
        }
    if (n && !(kept = sb_alloc(n, sizeof *kept)))
        return SB_ERR_MEMORY;
    for (size_t i = 0; i < step->state_count; i++)
        for (size_t p = 0; p < step->states[i].pieces.count; p++) {
            sb_step_value *v = &step->states[i].pieces.items[p];
            size_t count = v->rows * v->cols;
            if (!of_site(spoiler, v) || !v->data)
                continue;
            memcpy(kept + at, v->data, count * sizeof *kept);
            if (old && spoiler->seen == n)
                memcpy(v->data, old + at, count * sizeof *kept);
            at += count;
        }
    free(old);
    spoiler->ctx = kept;
    spoiler->seen = n;
    return SB_OK;
}

sb_status sb_spoil_bonus_other(sb_spoiler *spoiler, sb_step *step)
{
    for (size_t i = 0; i < step->round_count; i++)
        if (step->rounds[i].number == spoiler->site->round)
            step->rounds[i].round.tokens[step->rounds[i].round.emitted - 1] ^= 1;
    return SB_OK;
}

static int drafts(const sb_step *step)
{
    return step->row_count && step->rows[0].kind == SB_CALL_draft;
}

sb_status sb_spoil_draft_behind(sb_spoiler *spoiler, sb_step *step)
{
    for (size_t i = 0; drafts(step) && i < step->row_count; i++)
        step->rows[i].position -= step->rows[i].round == spoiler->site->round;
    return SB_OK;
}

/* --- harmless changes ------------------------------------------------------------------------- */

sb_status sb_spoil_arrays_reversed(sb_spoiler *spoiler, sb_step *step)
{
    sb_step_value *items = step->taps.items;
    (void)spoiler;
    for (size_t i = 0, j = step->taps.count; i + 1 < j--; i++) {
        sb_step_value item = items[i];
        items[i] = items[j];
        items[j] = item;
    }
    return SB_OK;
}

sb_status sb_spoil_slots_renumbered(sb_spoiler *spoiler, sb_step *step)
{
    (void)spoiler;
    for (size_t i = 0; i < step->row_count; i++)
        step->rows[i].slot = 7 - step->rows[i].slot % 8;
    return SB_OK;
}

sb_status sb_spoil_sequences_renumbered(sb_spoiler *spoiler, sb_step *step)
{
    enum { BY = 5 };
    (void)spoiler;
    for (size_t i = 0; i < step->row_count; i++)
        step->rows[i].sequence += BY;
    for (size_t i = 0; i < step->state_count; i++)
        step->states[i].sequence += BY;
    for (size_t i = 0; i < step->round_count; i++)
        step->rounds[i].sequence += BY;
    for (size_t i = 0; i < step->ended_count; i++)
        step->ended[i] += BY;
    return SB_OK;
}

/* Works because each call here has one sequence. */
sb_status sb_spoil_last_logits_only(sb_spoiler *spoiler, sb_step *step)
{
    sb_step_value *v = (sb_step_value *)(uintptr_t)sb_step_find(&step->taps, "logits");
    (void)spoiler;
    if (!v || !v->data || step->round_count || v->rows != step->row_count || v->rows < 2)
        return SB_OK;
    step->logits_rows = sb_alloc(1, sizeof *step->logits_rows);
    if (!step->logits_rows)
        return SB_ERR_MEMORY;
    step->logits_rows[0] = v->rows - 1;
    step->logits_count = 1;
    memmove(v->data, v->data + (v->rows - 1) * v->cols, v->cols * sizeof *v->data);
    v->rows = 1;
    v->has_digest = 0;
    return SB_OK;
}

sb_status sb_spoil_no_states(sb_spoiler *spoiler, sb_step *step)
{
    (void)spoiler;
    for (size_t i = 0; i < step->state_count; i++)
        for (size_t p = 0; p < step->states[i].pieces.count; p++) {
            free(step->states[i].pieces.items[p].data);
            step->states[i].pieces.items[p].data = NULL;
        }
    return SB_OK;
}

sb_status sb_spoil_no_digests(sb_spoiler *spoiler, sb_step *step)
{
    (void)spoiler;
    for (size_t i = 0; i < step->taps.count; i++)
        step->taps.items[i].has_digest = 0;
    for (size_t i = 0; i < step->state_count; i++) {
        step->states[i].has_target = step->states[i].has_mtp = 0;
        for (size_t p = 0; p < step->states[i].pieces.count; p++)
            step->states[i].pieces.items[p].has_digest = 0;
    }
    return SB_OK;
}

/* U-4: "Drafts stand in steps of their own before the verify call, or are left out" */
sb_status sb_spoil_no_draft_steps(sb_spoiler *spoiler, sb_step *step)
{
    spoiler->drop = drafts(step);
    return SB_OK;
}

/* Replaces each of `kept` groups of a row by the next one, cyclically. */
static sb_status turn(sb_step_value *v, size_t kept)
{
    size_t width = v->cols / kept;
    float *first = sb_alloc(width, sizeof *first);
    for (size_t t = 0; first && t < v->rows; t++) {
        float *row = v->data + t * v->cols;
        memcpy(first, row, width * sizeof *row);
        memmove(row, row + width, (v->cols - width) * sizeof *row);
        memcpy(row + v->cols - width, first, width * sizeof *row);
    }
    free(first);
    v->has_digest = 0;
    return first ? SB_OK : SB_ERR_MEMORY;
}

sb_status sb_spoil_experts_turned(sb_spoiler *spoiler, sb_step *step)
{
    static const char *const theirs[] = {"mlp.router_ids",        "mlp.router_weights",
                                         "mlp.experts.gate_proj", "mlp.experts.up_proj",
                                         "mlp.experts.swiglu",    "mlp.experts.down_proj"};
    size_t kept = 0;
    sb_status status = SB_OK;
    (void)spoiler;
    for (size_t i = 0; i < step->taps.count; i++)
        if (sb_ends(step->taps.items[i].name, theirs[0]))
            kept = step->taps.items[i].cols;
    for (size_t i = 0; i < step->taps.count && kept && !status; i++)
        for (size_t k = 0; k < sizeof theirs / sizeof *theirs && !status; k++)
            if (step->taps.items[i].data && sb_ends(step->taps.items[i].name, theirs[k]))
                status = turn(&step->taps.items[i], kept);
    return status;
}
