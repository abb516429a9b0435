#include "tools/judge/fault/spoil.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"

/* The logits of a step, to be changed: sb_step_find returns a const pointer. */
static sb_step_value *logits_of(sb_step *step)
{
    return (sb_step_value *)(uintptr_t)sb_step_find(&step->taps, "logits");
}

static sb_status fill(sb_step *step, float x)
{
    sb_step_value *v = logits_of(step);
    for (size_t i = 0; v && v->data && i < v->rows * v->cols; i++)
        v->data[i] = x;
    return SB_OK;
}

sb_status sb_spoil_nan_logits(sb_spoiler *spoiler, sb_step *step)
{
    (void)spoiler;
    return fill(step, sb_f32_from_bits(0x7fc00000u));
}

sb_status sb_spoil_constant_logits(sb_spoiler *spoiler, sb_step *step)
{
    (void)spoiler;
    return fill(step, 1.0f);
}

/* Fills all rows with the last row of the call before. */
sb_status sb_spoil_stale_logits(sb_spoiler *spoiler, sb_step *step)
{
    sb_step_value *v = logits_of(step);
    if (!v || !v->data || !v->rows)
        return SB_OK;
    size_t size = v->cols * sizeof *v->data;
    float *last = sb_alloc(v->cols, sizeof *last);
    if (!last)
        return SB_ERR_MEMORY;
    memcpy(last, v->data + (v->rows - 1) * v->cols, size);
    for (size_t row = 0; spoiler->ctx && row < v->rows; row++)
        memcpy(v->data + row * v->cols, spoiler->ctx, size);
    free(spoiler->ctx);
    spoiler->ctx = last;
    return SB_OK;
}

sb_status sb_spoil_cut_logits(sb_spoiler *spoiler, sb_step *step)
{
    sb_step_value *v = logits_of(step);
    (void)spoiler;
    if (!v || !v->data)
        return SB_OK;
    size_t cols = v->cols - v->cols / 3;
    for (size_t row = 0; row < v->rows; row++)
        memmove(v->data + row * cols, v->data + row * v->cols, cols * sizeof *v->data);
    v->cols = cols;
    return SB_OK;
}

sb_status sb_spoil_empty(sb_spoiler *spoiler, sb_step *step)
{
    (void)step;
    spoiler->drop = 1;
    return SB_OK;
}

sb_status sb_spoil_no_taps(sb_spoiler *spoiler, sb_step *step)
{
    (void)spoiler;
    for (size_t i = 0; i < step->taps.count; i++) {
        free(step->taps.items[i].data);
        step->taps.items[i].data = NULL;
    }
    return SB_OK;
}

/* Gives each round the count of the round before. */
sb_status sb_spoil_swapped_counts(sb_spoiler *spoiler, sb_step *step)
{
    for (size_t i = 0; i < step->round_count; i++) {
        sb_round *r = &step->rounds[i].round;
        size_t mine = r->accepted;
        r->accepted = spoiler->seen < r->drafted ? spoiler->seen : r->drafted;
        r->emitted = r->accepted + 1;
        spoiler->seen = mine;
    }
    return SB_OK;
}

const sb_planted sb_spoils[] = {
#define SB_ROW(by, benign_, words_)                                                                \
    {.name = #by,                                                                                  \
     .where = "steps",                                                                             \
     .with = "",                                                                                   \
     .words = words_,                                                                              \
     .benign = benign_,                                                                            \
     .spoil = sb_spoil_##by},
#define SB_PLANTED(kind, where, by, with, words) SB_ROW(by, 0, words)
#define SB_HARMLESS(kind, where, by, with, words) SB_ROW(by, 1, words)
#include "tools/judge/fault/lists/spoil.def"
#undef SB_PLANTED
#undef SB_HARMLESS
    {.name = NULL}};

void sb_spoiler_clear(sb_spoiler *spoiler)
{
    free(spoiler->ctx);
    *spoiler = (sb_spoiler){.seen = 0};
}
