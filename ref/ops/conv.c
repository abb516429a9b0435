#include "ref/base/mem.h"
#include "ref/math/dot.h"
#include "ref/math/fn.h"
#include "ref/ops/form.h"
#include "ref/ops/op.h"
#include "ref/ops/param.h"

#include <stdlib.h>
#include <string.h>

/* K-3: "act to round the convolution sum before silu" */
static float activate(const sb_knobs *knobs, float c)
{
    if (SB_IS(knobs, conv_sum, act))
        c = sb_act(knobs, c);
    return sb_act(knobs, sb_silu(c));
}

/* "columns before the call come from the conv state": column t - (kw-1) + j of channel ch,
 * where a negative column counts back from the end of the state. */
static float column(const sb_conv_args *a, size_t t, size_t tap, size_t taps, size_t ch)
{
    size_t channels = a->weight->rows;
    size_t back = taps - 1; /* columns in the state */
    size_t at = t + tap;    /* column number, counted from the first of the state */
    return at < back ? a->state[at * channels + ch] : a->in[(at - back) * channels + ch];
}

/* "the new conv state is the last kw-1 columns of u", here of the first `rows` of them. `to`
 * may be the old state: a column moves forward only, and is read before it is overwritten. */
static void columns_after(const sb_conv_args *a, size_t rows, size_t taps, float *to)
{
    size_t channels = a->weight->rows, back = taps - 1;
    for (size_t i = 0; i < back; i++) {
        size_t at = rows + i;
        const float *from = at < back ? a->state + at * channels : a->in + (at - back) * channels;
        memmove(to + i * channels, from, channels * sizeof *from);
    }
}

/* "dot over j = 0..kw-1 of w[ch, j] u_{t-(kw-1)+j}[ch]"; K-31: "c_t is the sum of
 * R( RN(w u) )" */
static float weigh(const sb_knobs *knobs, sb_form form, const float *weight, float *window,
                   size_t taps)
{
    if (!sb_conv_rounds_products(knobs, form))
        return sb_dot(weight, window, taps);
    for (size_t tap = 0; tap < taps; tap++) {
        float product = weight[tap] * window[tap];
        window[tap] = sb_act(knobs, product);
    }
    return sb_sum(window, taps);
}

sb_status sb_conv_ref(const sb_knobs *knobs, const sb_conv_args *a)
{
    size_t channels = a->weight->rows, taps = a->weight->cols;
    float *weight = sb_alloc(2 * taps, sizeof *weight);
    if (!weight)
        return SB_ERR_MEMORY;
    float *window = weight + taps;
    for (size_t ch = 0; ch < channels; ch++) {
        sb_param_row(knobs, a->weight, (uint32_t)ch, weight);
        for (size_t t = 0; t < a->rows; t++) {
            for (size_t tap = 0; tap < taps; tap++)
                window[tap] = column(a, t, tap, taps, ch);
            a->out[t * channels + ch] =
                activate(knobs, weigh(knobs, a->form, weight, window, taps));
        }
    }
    free(weight);
    for (size_t t = 0; a->trail && t < a->rows; t++)
        columns_after(a, t + 1, taps, a->trail + t * (taps - 1) * channels);
    columns_after(a, a->rows, taps, a->state);
    return SB_OK;
}
