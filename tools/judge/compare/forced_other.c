/* forced_other.c - states and entries that the engine may have made in another call than the
 * recorded one. They may differ in bits from the states and entries that the recorded rows give. */
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/judge/compare/forced_parts.h"

int forced_has_cache(const forced_memory *m)
{
    return m->cache && m->open_from == m->open_to;
}

int forced_is_open(const forced_memory *m, uint64_t row)
{
    return row >= m->open_from && row < m->open_to;
}

void forced_close(forced_memory *m)
{
    m->open_from = m->open_to = 0;
}

/* Extends the one range of open rows, which covers all of them and the rows between. */
void forced_open(forced_memory *m, uint64_t from, uint64_t to)
{
    int none = m->open_from == m->open_to;
    m->open_from = none || from < m->open_from ? from : m->open_from;
    m->open_to = none || to > m->open_to ? to : m->open_to;
}

/* T-85: "a trace rolls back by replay, or does not say how" */
void forced_undone(const sb_forced *f, forced_sequence *s, uint64_t first)
{
    uint64_t end = sb_session_state(s->session)->position;
    uint32_t layers = f->model->config.layers;
    if (!sb_trace_replays(f->options.rollback) || first == end)
        return;
    for (uint32_t i = 0; i < layers; i++) {
        s->memory[i].conv = s->memory[i].recurrent = 0;
        forced_open(&s->memory[i], first, end);
    }
    forced_open(&s->memory[layers], sb_session_mtp_entries(&f->knobs, first),
                sb_session_mtp_entries(&f->knobs, end));
    s->hidden = 0;
}

/* T-86: "The recorded draft step shows whether both entries are equal" */
static int is_own(const forced_sequence *s, int which, const float *data, size_t cols)
{
    return s->has_own[which] && memcmp(s->own[which], data, cols * sizeof *data) == 0;
}

sb_status forced_see_entry(const sb_forced *f, int which, const float *data, size_t rows,
                           size_t cols, int known)
{
    forced_sequence *s = f->at;
    if (s->drafts == 1) {
        float *own = sb_realloc(s->own[which], cols, sizeof *own);
        if (!own)
            return SB_ERR_MEMORY;
        memcpy(own, data, cols * sizeof *own);
        s->own[which] = own;
        s->has_own[which] = known;
    } else if (!s->drafts && f->opens && rows == f->rows && !is_own(s, which, data, cols)) {
        uint64_t entry = sb_session_state(s->session)->mtp_entries;
        forced_open(&s->memory[f->model->config.layers], entry, entry + 1);
    }
    return SB_OK;
}
