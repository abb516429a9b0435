#include "tools/judge/trace/cut.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/judge/trace/names.h"

/* The lowest level that has this array. */
static unsigned level_of(const char *name)
{
    if (sb_tap_is_of_logits(name))
        return 1;
    return strcmp(name, "mtp.logits") == 0 || strstr(name, "mlp.router_ids") ? 2 : 4;
}

const char *sb_view_name(unsigned view)
{
    static const char *const names[SB_TRACE_VIEWS] = {"level 0",       "1",         "2", "3", "4",
                                                      "hidden states", "fused taps"};
    return names[view];
}

/* Values that fused kernels do not write: a convolution with the norms of q and k, gates inside the
 * delta rule, norms with rotary positions, gates behind attention, one kernel for all experts. */
static int is_inside_kernel(const char *name)
{
    static const char *const ends[] = {"linear_attn.conv",
                                       "linear_attn.g",
                                       "linear_attn.beta",
                                       "linear_attn.q",
                                       "linear_attn.k",
                                       "self_attn.query",
                                       "self_attn.gate",
                                       "self_attn.q_norm",
                                       "self_attn.q_rope",
                                       "self_attn.k_norm",
                                       "self_attn.k_rope",
                                       "self_attn.core_out",
                                       "mlp.swiglu",
                                       "mlp.router_weights",
                                       "attn_residual",
                                       "shared_expert.gate_proj",
                                       "shared_expert.up_proj",
                                       "shared_expert.swiglu",
                                       "shared_expert",
                                       "shared_expert_gate",
                                       "experts.gate_proj",
                                       "experts.up_proj",
                                       "experts.swiglu",
                                       "experts.down_proj"};
    const size_t length = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t n = strlen(ends[i]);
        if (length > n && name[length - n - 1] == '.' && strcmp(name + length - n, ends[i]) == 0)
            return 1;
    }
    return 0;
}

static int is_hidden(const char *name)
{
    return sb_tap_hidden(name, SB_MAX_LAYERS) >= 0;
}

static int has(const char *name, unsigned what)
{
    if (what == SB_VIEW_HIDDEN)
        return is_hidden(name);
    return what == SB_VIEW_FUSED ? !is_inside_kernel(name) : level_of(name) <= what;
}

sb_status sb_step_cut(const sb_step *step, unsigned what, sb_step *view, sb_error *err)
{
    *view = *step;
    view->taps.items = sb_alloc(step->taps.count + 1, sizeof *view->taps.items);
    if (!view->taps.items)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a step");
    view->taps.count = 0;
    for (size_t i = 0; i < step->taps.count; i++)
        if (has(step->taps.items[i].name, what))
            view->taps.items[view->taps.count++] = step->taps.items[i];
    if (what < 3 || what >= SB_TRACE_LEVELS)
        view->state_count = 0;
    return SB_OK;
}

void sb_step_cut_free(sb_step *view)
{
    free(view->taps.items);
    view->taps.items = NULL;
}
