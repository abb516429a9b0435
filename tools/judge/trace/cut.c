#include "tools/judge/trace/cut.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/rng.h"
#include "tools/judge/trace/names.h"

/* The lowest level that has this array. */
static unsigned level_of(const char *name)
{
    if (sb_tap_is_of_logits(name))
        return 1;
    return sb_tap_is_of_drafts(name) || strstr(name, "mlp.router_ids") ? 2 : 4;
}

/* Values that fused kernels do not write: a convolution with the norms of q and k, gates inside the
 * delta rule, norms with rotary positions, gates behind attention, one kernel for all experts. */
#define INSIDE_CONV "*.linear_attn.conv,*.linear_attn.q,*.linear_attn.k"
#define INSIDE_NORMS "*.q_norm,*.q_rope,*.k_norm,*.k_rope"
#define INSIDE_KERNELS                                                                             \
    INSIDE_CONV "," INSIDE_NORMS                                                                   \
                ",*.linear_attn.g,*.linear_attn.beta,*.self_attn.query,*.self_attn.gate,"          \
                "*.self_attn.core_out,*.mlp.swiglu,*.mlp.router_weights,*.attn_residual,"          \
                "*.shared_expert,*.shared_expert.*,*.shared_expert_gate,*.experts.*"
#define NORMS INSIDE_NORMS ",*layernorm,*.linear_attn.norm,norm,mtp.norm,mtp.pre_fc*"

/* The views that are no levels, by the taps that they lack. */
static const struct {
    const char *name, *lacks;
    int states;
} cuts[] = {
    [SB_VIEW_HIDDEN] = {"hidden states", "", 0},
    [SB_VIEW_FUSED] = {"fused taps", INSIDE_KERNELS, 0},
    [SB_VIEW_NO_NORMS] = {"no norms", NORMS, 1},
    [SB_VIEW_NO_CONV] = {"no convolution", INSIDE_CONV, 1},
    [SB_VIEW_NO_STATES] = {"no states", "", 0},
    [SB_VIEW_SOME] = {"some taps", "", 1},
};

const char *sb_view_name(unsigned view)
{
    static const char *const levels[SB_TRACE_LEVELS] = {"level 0", "1", "2", "3", "4"};
    return view < SB_TRACE_LEVELS ? levels[view] : cuts[view].name;
}

int sb_view_has_ops(unsigned view)
{
    return view >= SB_TRACE_LEVELS - 1 && view != SB_VIEW_HIDDEN;
}

int sb_view_has(unsigned view, uint64_t seed, const char *name)
{
    enum { ONE_TAP_IN = 4 };
    if (view < SB_TRACE_LEVELS)
        return level_of(name) <= view;
    if (view == SB_VIEW_HIDDEN)
        return sb_tap_hidden(name, SB_MAX_LAYERS) >= 0;
    if (view == SB_VIEW_SOME)
        return sb_rng_below(sb_rng_key(seed, name), 0, ONE_TAP_IN) != 0;
    return !sb_tap_matches(cuts[view].lacks, name);
}

static int has_states(unsigned view, uint64_t seed)
{
    if (view < SB_TRACE_LEVELS)
        return view >= 3;
    return cuts[view].states && !(view == SB_VIEW_SOME && seed % 2);
}

sb_status sb_step_cut(const sb_step *step, unsigned what, uint64_t seed, sb_step *view,
                      sb_error *err)
{
    *view = *step;
    view->taps.items = sb_alloc(step->taps.count + 1, sizeof *view->taps.items);
    if (!view->taps.items)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a step");
    view->taps.count = 0;
    for (size_t i = 0; i < step->taps.count; i++)
        if (sb_view_has(what, seed, step->taps.items[i].name))
            view->taps.items[view->taps.count++] = step->taps.items[i];
    if (!has_states(what, seed))
        view->state_count = 0;
    return SB_OK;
}

void sb_step_cut_free(sb_step *view)
{
    free(view->taps.items);
    view->taps.items = NULL;
}
