/* envelope_cache.c - keys and values in a cache of codes: T-42. */
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/ops/knob.h"
#include "ref/ops/kv_cache.h"
#include "ref/ops/values.h"
#include "tools/judge/compare/envelope_parts.h"

static int is_key(const sb_op_call *call)
{
    return strcmp(call->name, "self_attn.k_rope") == 0;
}

/* True if a cache keeps the result of this op; *scale receives its stored scale. */
static int is_cached(const sb_envelope_lane *lane, const sb_op_call *call, float *scale)
{
    const int key = is_key(call);
    if (call->layer > lane->of->model->config.layers) /* of a drafter */
        return 0;
    if (!SB_IS(call->knobs, kv_cache, fp8) || (!key && strcmp(call->name, "self_attn.v_proj") != 0))
        return 0;
    const sb_layer *layer = &lane->of->model->weights->layers[call->layer];
    *scale = key ? layer->k_scale : layer->v_scale;
    return 1;
}

static double kept(const sb_op_call *call, float scale, float x)
{
    float code;
    sb_kv_store(call->knobs, scale, &x, 1, &code);
    return (double)code;
}

/* x moved by `by` / 2^i, for the largest i that still changes its code. */
static float other_side(const sb_op_call *call, float scale, float x, double by)
{
    enum { HALVES = 12 };
    for (int i = 0; i < HALVES; i++, by /= 2)
        if (kept(call, scale, (float)((double)x + by / 2)) == kept(call, scale, x))
            break;
    return (float)((double)x + by);
}

static double square_apart(const sb_op_call *call, float scale, const float *a, const float *b,
                           size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        double d = kept(call, scale, a[i]) - kept(call, scale, b[i]);
        sum += d * d;
    }
    return sum;
}

/* T-42: "one open code of this input falls the other way. It is the code that changes the row most,
 * unless the run's own codes change the row more" */
static void fall(const sb_op_call *call, float scale, const float *x, size_t n, double window,
                 float *own)
{
    double most = square_apart(call, scale, x, own, n);
    size_t at = n;
    float taken = 0;
    for (size_t i = 0; i < n; i++)
        for (int down = 0; down < 2; down++) {
            double by = down ? -window : window;
            double d = kept(call, scale, (float)((double)x[i] + by)) - kept(call, scale, x[i]);
            if (d * d <= most)
                continue;
            most = d * d;
            at = i;
            taken = other_side(call, scale, x[i], by);
        }
    if (at < n)
        own[at] = taken;
}

/* Keys and values of a layer before they became codes. */
struct sb_uncoded {
    float *data;
    size_t room;
};

static size_t uncoded_count(const sb_envelope *e)
{
    return 2 * ((size_t)e->model->config.layers + 1);
}

/* Allocates room for `elements` elements; NULL if memory runs out. */
static float *uncoded_room(sb_envelope_lane *lane, size_t piece, size_t elements)
{
    if (!lane->uncoded)
        lane->uncoded = sb_alloc(uncoded_count(lane->of), sizeof *lane->uncoded);
    struct sb_uncoded *u = lane->uncoded ? &lane->uncoded[piece] : NULL;
    if (u && elements > u->room) {
        float *data = sb_realloc(u->data, 2 * elements, sizeof *data);
        if (!data)
            return NULL;
        u->data = data;
        u->room = 2 * elements;
    }
    return u ? u->data : NULL;
}

/* Stores the result of the op by the position of its rows, in units of the codes. */
static sb_status keep_uncoded(sb_envelope_lane *lane, const sb_op_call *call,
                              const sb_op_value *out, float stored_scale)
{
    const float scale = sb_kv_scale(call->knobs, stored_scale);
    const size_t first = (size_t)call->position * out->cols;
    float *to = uncoded_room(lane, 2 * (size_t)call->layer + (is_key(call) ? 0 : 1),
                             first + out->rows * out->cols);
    if (!to)
        return SB_ERR_MEMORY;
    for (size_t r = 0; r < out->rows; r++)
        for (size_t i = 0; i < out->cols; i++)
            to[first + r * out->cols + i] = out->data[r * out->stride + i] / scale;
    return SB_OK;
}

sb_status sb_envelope_copy_uncoded(sb_envelope_lane *to, const sb_envelope_lane *from)
{
    sb_status status = SB_OK;
    for (size_t i = 0; from->uncoded && i < uncoded_count(from->of) && !status; i++) {
        const struct sb_uncoded *u = &from->uncoded[i];
        float *data = u->room ? uncoded_room(to, i, u->room) : NULL;
        if (data)
            memcpy(data, u->data, u->room * sizeof *data);
        status = u->room && !data ? SB_ERR_MEMORY : SB_OK;
    }
    return status;
}

void sb_envelope_free_uncoded(sb_envelope_lane *lane)
{
    for (size_t i = 0; lane->uncoded && i < uncoded_count(lane->of); i++)
        free(lane->uncoded[i].data);
    free(lane->uncoded);
}

const float *sb_envelope_uncoded(const sb_envelope *e, size_t i, size_t piece)
{
    const struct sb_uncoded *all = e->lanes[i].uncoded;
    return all && piece < uncoded_count(e) ? all[piece].data : NULL;
}

static void fall_rows(sb_envelope_lane *lane, const sb_op_call *call, const sb_op_value *out,
                      float scale, size_t at)
{
    const sb_envelope *e = lane->of;
    const size_t n = out->cols;
    for (size_t r = 0; r < out->rows; r++) {
        size_t of_row = at + r * n;
        float *own = out->data + r * out->stride;
        if (sb_envelope_is_tight(e, lane->number))
            lane->apart[of_row] = sb_envelope_mean_square(own, e->tape + of_row, n);
        else if (sb_envelope_takes(lane, "open codes", of_row))
            fall(call, scale, e->tape + of_row, n, sb_envelope_window(e, own, of_row, n), own);
    }
}

sb_status sb_envelope_cache(sb_envelope_lane *lane, const sb_op_call *call)
{
    float scale;
    if (!is_cached(lane, call, &scale))
        return SB_OK;
    const sb_op_value out = sb_op_values_of(call->op, call->args).out[0];
    const size_t n = out.cols, at = lane->at;
    sb_status status = SB_OK;
    if (lane->number == 0) {
        for (size_t r = 0; r < out.rows && !status; r++)
            status = sb_envelope_record(lane->of, out.data + r * out.stride, n);
    } else {
        lane->at += out.rows * n;
        if (lane->at <= lane->of->tape_count)
            fall_rows(lane, call, &out, scale, at);
    }
    return status ? status : keep_uncoded(lane, call, &out, scale);
}
