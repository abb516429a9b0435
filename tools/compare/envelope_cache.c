/* envelope_cache.c - keys and values that a cache keeps as codes, which have few values: T-42. */
#include <string.h>

#include "ref/ops/kv_cache.h"
#include "ref/ops/values.h"
#include "tools/compare/envelope_parts.h"

/* The scale that the file has for what this op makes, into *scale; whether a cache keeps it. */
static int is_cached(const sb_envelope_lane *lane, const sb_op_call *call, float *scale)
{
    const int key = strcmp(call->name, "self_attn.k_rope") == 0;
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

/* x moved by the least of the halves of `by` that changes what is kept of it. */
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

/* T-42: "one open code of it falls the other way: the one that changes the row most, unless its own
 * codes change the row more" */
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

sb_status sb_envelope_cache(sb_envelope_lane *lane, const sb_op_call *call)
{
    sb_envelope *e = lane->of;
    float scale;
    if (!is_cached(lane, call, &scale))
        return SB_OK;
    const sb_op_value out = sb_op_values_of(call->op, call->args).out[0];
    const size_t n = out.cols, at = lane->at;
    sb_status status = SB_OK;
    for (size_t r = 0; r < out.rows && lane->number == 0 && !status; r++)
        status = sb_envelope_record(e, out.data + r * out.stride, n);
    if (lane->number == 0)
        return status;
    lane->at += out.rows * n;
    if (lane->at > e->tape_count)
        return SB_OK;
    for (size_t r = 0; r < out.rows; r++) {
        size_t of_row = at + r * n;
        float *own = out.data + r * out.stride;
        if (sb_envelope_is_tight(e, lane->number))
            lane->apart[of_row] = sb_envelope_mean_square(own, e->tape + of_row, n);
        else if (sb_envelope_takes(lane, "open codes", of_row))
            fall(call, scale, e->tape + of_row, n, sb_envelope_window(e, own, of_row, n), own);
    }
    return SB_OK;
}
