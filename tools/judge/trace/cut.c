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

sb_status sb_step_cut(const sb_step *step, unsigned level, sb_step *view, sb_error *err)
{
    *view = *step;
    view->taps.items = sb_alloc(step->taps.count + 1, sizeof *view->taps.items);
    if (!view->taps.items)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a step");
    view->taps.count = 0;
    for (size_t i = 0; i < step->taps.count; i++)
        if (level_of(step->taps.items[i].name) <= level)
            view->taps.items[view->taps.count++] = step->taps.items[i];
    if (level < 3)
        view->state_count = 0;
    return SB_OK;
}

void sb_step_cut_free(sb_step *view)
{
    free(view->taps.items);
    view->taps.items = NULL;
}
