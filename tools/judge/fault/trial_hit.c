#include "tools/judge/fault/trial_hit.h"

#include <stdlib.h>

#include "ref/base/mem.h"
#include "tools/judge/trace/prefix.h"

sb_status sb_kept_add(sb_kept_steps *kept, const sb_step *step, sb_error *err)
{
    sb_step *more = sb_grow(kept->items, kept->count, &kept->room, sizeof *more);
    if (!more)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for the steps of a trial");
    kept->items = more;
    if (!sb_step_copy(step, &kept->items[kept->count++]))
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for the steps of a trial");
    return SB_OK;
}

void sb_kept_free(sb_kept_steps *kept)
{
    for (size_t i = 0; i < kept->count; i++)
        sb_step_clear(&kept->items[i]);
    free(kept->items);
    *kept = (sb_kept_steps){.count = 0};
}

sb_status sb_kept_again(const sb_kept_steps *kept, const sb_step_prefix *prefix, sb_step_fn take,
                        void *ctx, sb_error *err)
{
    sb_prefix_part *parts = NULL;
    size_t count = 0;
    sb_status status = sb_prefix_plan(kept->items, kept->count, prefix, &parts, &count, err);
    for (size_t i = 0; i < count && !status; i++) {
        sb_step step;
        status =
            sb_prefix_step(&kept->items[parts[i].step], &parts[i], prefix->sequence, &step, err);
        if (status)
            break;
        status = take(ctx, &step, err);
        sb_prefix_step_free(&step);
    }
    free(parts);
    return status;
}

/* The state of the engine after the first n of these tokens, fed in the calls of `ends`, or in
 * calls of `block` tokens if that is not 0. */
static sb_status state_after(const sb_model *model, const sb_session_options *options,
                             const uint32_t *tokens, size_t n, const size_t *ends, size_t block,
                             sb_state **out, sb_error *err)
{
    sb_session *session = NULL;
    sb_status status = sb_session_new(model, options, &session, err);
    for (size_t at = 0, end; at < n && !status; at = end) {
        while (!block && *ends <= at)
            ends++;
        end = block ? at + block : *ends;
        end = end < n ? end : n;
        status = sb_session_feed(session, tokens + at, end - at, err);
    }
    if (!status)
        status = sb_state_copy(sb_session_state(session), out, err);
    sb_session_free(session);
    return status;
}

sb_status sb_trial_begin_hit(const sb_trial *t, const sb_session_options *options,
                             const uint32_t *const prompts[2], const size_t *ends,
                             sb_session *session, sb_error *err)
{
    enum { RIGHT, BEFORE, EARLY, LATE, END, OTHER, BY_BLOCK, STATES };
    const size_t at = t->script.hit, block = t->script.block;
    const struct {
        size_t sequence, tokens, block;
    } wanted[STATES] = {
        [RIGHT] = {0, at, 0},       [BEFORE] = {0, at - block, 0},    [EARLY] = {0, at - 1, 0},
        [LATE] = {0, at + 1, 0},    [END] = {0, t->script.prompt, 0}, [OTHER] = {1, at, 0},
        [BY_BLOCK] = {0, at, block}};
    const sb_model *model = t->engine ? t->engine : t->reference;
    sb_state *states[STATES] = {NULL};
    sb_status status = SB_OK;
    for (size_t i = 0; i < STATES && !status; i++)
        status = state_after(model, options, prompts[wanted[i].sequence], wanted[i].tokens, ends,
                             wanted[i].block, &states[i], err);
    sb_hit_game game = {.live = states[RIGHT],
                        .before = states[BEFORE],
                        .early = states[EARLY],
                        .late = states[LATE],
                        .end = states[END],
                        .other = states[OTHER],
                        .by_block = states[BY_BLOCK]};
    if (!status && t->hit)
        t->hit->restore(&game);
    if (!status)
        status = sb_session_set_state(session, game.live, err);
    for (size_t i = 0; i < STATES; i++)
        sb_state_free(states[i]);
    return status;
}
