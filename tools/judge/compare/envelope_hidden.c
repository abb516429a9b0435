/* envelope_hidden.c - T-92: the hidden states of the last call in all sequences, and those of
 * another program, from which they go on. */
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/judge/compare/envelope_parts.h"
#include "tools/judge/trace/names.h"

sb_status sb_envelope_tap(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                          sb_error *err)
{
    sb_envelope_lane *lane = ctx;
    const sb_envelope *e = lane->of;
    const size_t places = (size_t)e->model->config.layers + 2;
    const long at = e->theirs ? sb_tap_hidden(name, e->model->config.layers) : -1;
    if (at < 0 || !e->theirs[at])
        return SB_OK;
    if (!lane->hidden)
        lane->hidden = sb_alloc(places, sizeof *lane->hidden);
    float *kept = lane->hidden ? sb_realloc(lane->hidden[at], rows * cols, sizeof *kept) : NULL;
    if (!kept)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for hidden states");
    memcpy(kept, data, rows * cols * sizeof *kept);
    lane->hidden[at] = kept;
    memcpy(data, e->theirs[at], rows * cols * sizeof *data);
    return SB_OK;
}

void sb_envelope_take_hidden(sb_envelope *e, float *const *theirs)
{
    e->theirs = theirs;
}

const float *sb_envelope_hidden(const sb_envelope *e, size_t i, size_t at)
{
    return e->lanes[i].hidden ? e->lanes[i].hidden[at] : NULL;
}

void sb_envelope_free_hidden(sb_envelope_lane *lane)
{
    const size_t places = (size_t)lane->of->model->config.layers + 2;
    for (size_t i = 0; lane->hidden && i < places; i++)
        free(lane->hidden[i]);
    free(lane->hidden);
}
