/* forced_cache.c - T-91: what is known of copied values whose originals were not all recorded: the
 * conv state, and keys and values in the cache. The reference's copy differs from the engine's by
 * at most a bound that is kept for each element. */
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/ops/knob.h"
#include "tools/judge/compare/forced_parts.h"
#include "tools/judge/bound/wide_fn.h"

int forced_too_wide(const sb_ball *ours, const sb_ball *theirs, size_t count)
{
    double bounds = 0.0, values = 0.0;
    for (size_t i = 0; i < count; i++) {
        double apart = sb_ball_distance(ours[i], theirs[i]);
        bounds += apart * apart;
        values += ours[i].mid * ours[i].mid;
    }
    return !(bounds <= values); /* also if one of them is not a number */
}

/* The same for bounds of values. */
static int hide(const double *apart, const float *values, size_t count)
{
    double bounds = 0.0, squares = 0.0;
    for (size_t i = 0; i < count; i++) {
        bounds += apart[i] * apart[i];
        squares += (double)values[i] * (double)values[i];
    }
    return !(bounds <= squares);
}

static int any(const double *apart, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (apart[i] != 0.0)
            return 1;
    return 0;
}

/* Which cache an input of attention is: 0 keys, 1 values; -1: none. */
static int cache_of(const sb_op_call *call, const sb_op_value *in)
{
    if (call->op != SB_OP_attention || strcmp(in->name, "q") == 0)
        return -1;
    return strcmp(in->name, "values") == 0;
}

static int is_conv_state(const sb_op_call *call, const sb_op_value *in)
{
    return call->op == SB_OP_conv && strcmp(in->name, "state") == 0;
}

sb_knowledge forced_memory_kind(sb_forced *f, const sb_op_call *call, const sb_op_value *in)
{
    const forced_memory *m = call->layer == SB_NO_LAYER ? NULL : forced_memory_of(f, call->layer);
    int spread = 0, known = 0;
    if (is_conv_state(call, in)) {
        known = m && m->conv;
        spread = m && m->conv_spread;
    } else if (cache_of(call, in) >= 0) {
        known = m && forced_has_cache(m) && m->drafted;
        spread = m && m->cache_spread;
    } else {
        return SB_KNOWN_COUNT;
    }
    return !known ? SB_KNOWN_not : spread ? SB_KNOWN_balls : SB_KNOWN_exact;
}

sb_status forced_memory_balls(sb_forced *f, const sb_op_call *call, const sb_op_value *in,
                              int theirs, sb_ball *out)
{
    const forced_memory *m = forced_memory_of(f, call->layer);
    size_t count = in->rows * in->cols;
    int which = cache_of(call, in);
    const double *apart = which < 0 ? m->conv_apart : m->cache_apart[which];
    size_t have = which < 0 ? count : m->cache_room[which];
    sb_balls_of(in->data, count, out);
    for (size_t i = 0; i < count && i < have && apart && theirs; i++)
        out[i].rad = apart[i];
    return SB_OK;
}

/* The bound of the distance of both sides' values in an array. K-24: narrow: in a cache of
 * binary16, whose rounding is carried out (T-4). */
static sb_status distances(sb_forced *f, const float *data, size_t count, int narrow, double *out)
{
    sb_ball *balls = sb_alloc(2 * count, sizeof *balls);
    if (!balls)
        return SB_ERR_MEMORY;
    sb_known_balls(&f->known, data, count, 0, balls);
    sb_known_balls(&f->known, data, count, 1, balls + count);
    for (size_t i = 0; i < 2 * count && narrow; i++)
        balls[i] = sb_ball_round_to(SB_FORMAT_f16, balls[i]);
    for (size_t i = 0; i < count; i++)
        out[i] = SB_BOUND_SLACK * sb_ball_distance(balls[i], balls[count + i]);
    free(balls);
    return SB_OK;
}

/* The state after a call has the last rows of the state before it and of the rows that stay. */
sb_status forced_conv_moved(sb_forced *f, const sb_op_call *call)
{
    const sb_conv_args *a = call->args;
    forced_memory *m = forced_memory_of(f, call->layer);
    size_t C = a->weight->rows, back = a->weight->cols - 1, state = back * C;
    size_t rows = f->kept < a->rows ? f->kept : a->rows;
    int spread = sb_known_of(&f->known, a->in, a->rows * C) == SB_KNOWN_balls;
    if (!spread && !m->conv_spread)
        return SB_OK;
    double *all = sb_alloc(state + a->rows * C, sizeof *all);
    double *kept = m->conv_apart ? m->conv_apart : sb_alloc(state, sizeof *kept);
    float *values = sb_alloc(state + a->rows * C, sizeof *values);
    sb_status status = all && kept && values ? SB_OK : SB_ERR_MEMORY;
    m->conv_apart = kept;
    if (!status) {
        for (size_t i = 0; i < state; i++)
            all[i] = m->conv_spread ? kept[i] : 0.0;
        memcpy(values, a->state, state * sizeof *values);
        memcpy(values + state, a->in, a->rows * C * sizeof *values);
        status = distances(f, a->in, a->rows * C, 0, all + state);
    }
    if (!status) {
        memcpy(kept, all + rows * C, state * sizeof *kept);
        m->conv_spread = any(kept, state);
        m->conv = m->conv && !hide(kept, values + rows * C, state);
    }
    free(all);
    free(values);
    return status;
}

/* Makes room for rows of the cache, and sets those that are new to 0. */
static sb_status reserve(forced_memory *m, int which, size_t count)
{
    if (count <= m->cache_room[which])
        return SB_OK;
    size_t room = count + count / 2;
    double *more = sb_realloc(m->cache_apart[which], room, sizeof *more);
    if (!more)
        return SB_ERR_MEMORY;
    for (size_t i = m->cache_room[which]; i < room; i++)
        more[i] = 0.0;
    m->cache_apart[which] = more;
    m->cache_room[which] = room;
    return SB_OK;
}

sb_status forced_stored(sb_forced *f, int which, const float *data, size_t rows, size_t cols)
{
    forced_memory *m = forced_memory_of(f, f->layer);
    size_t first = (size_t)f->first * cols;
    size_t count = rows * cols;
    int spread = sb_known_of(&f->known, data, count) == SB_KNOWN_balls;
    if (!spread && !m->cache_spread)
        return SB_OK;
    sb_status status = reserve(m, which, first + count);
    if (!status)
        status = distances(f, data, count, SB_IS(&f->knobs, kv_cache, f16),
                           m->cache_apart[which] + first);
    m->cache_spread |= spread;
    return status;
}

void forced_cache_known(forced_memory *m)
{
    for (int which = 0; which < 2; which++)
        for (size_t i = 0; i < m->cache_room[which]; i++)
            m->cache_apart[which][i] = 0.0;
    m->cache_spread = 0;
}

void forced_fed_again(const sb_forced *f, forced_sequence *s, uint64_t first)
{
    for (uint32_t i = 0; i < f->model->config.layers; i++) {
        forced_memory *m = &s->memory[i];
        m->conv = m->conv && !m->conv_spread;
        m->recurrent = m->recurrent && !m->state_spread;
        if (m->cache_spread)
            forced_open(m, first, sb_session_state(s->session)->position);
    }
}

void forced_cache_free(forced_memory *m)
{
    free(m->conv_apart);
    free(m->cache_apart[0]);
    free(m->cache_apart[1]);
}
