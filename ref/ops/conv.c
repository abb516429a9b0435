#include "ref/math/exact.h"
#include "ref/math/fn.h"
#include "ref/ops/form.h"
#include "ref/ops/knob.h"
#include "ref/ops/op.h"
#include "ref/ops/param.h"

/* "columns before the call come from the conv state". Column 0 is the first column of the
 * state. */
static float column(const sb_conv_args *a, size_t at, size_t ch)
{
    const size_t channels = a->weight->rows, back = a->weight->cols - 1;
    return at < back ? a->state[at * channels + ch] : a->in[(at - back) * channels + ch];
}

/* "c_t[ch] = dot over j = 0..kw-1 of w[ch, j] u_{t-(kw-1)+j}[ch]"; K-31: "Otherwise c_t is the
 * sum of R( RN(w u) ) over the kw products" */
static float weigh(const sb_knobs *knobs, const sb_conv_args *a, size_t t, size_t ch)
{
    const int rounds = sb_conv_rounds_products(knobs, a->form);
    sb_exact sum;
    sb_exact_clear(&sum);
    for (size_t j = 0; j < a->weight->cols; j++) {
        float w = sb_param_at(knobs, a->weight, (uint32_t)ch, j), u = column(a, t + j, ch);
        if (rounds)
            sb_exact_add(&sum, sb_act(knobs, w * u));
        else
            sb_exact_add_product(&sum, w, u);
    }
    return sb_exact_round(&sum);
}

/* "s_t = R( silu( c_t ) ), with c_t rounded to the activation type first where K-3 says so;
 * the new conv state is the last kw-1 columns of u" */
sb_status sb_conv_ref(const sb_knobs *knobs, const sb_conv_args *a)
{
    const size_t channels = a->weight->rows, back = a->weight->cols - 1;
    for (size_t t = 0; t < a->rows; t++)
        for (size_t ch = 0; ch < channels; ch++) {
            float c = weigh(knobs, a, t, ch);
            if (SB_IS(knobs, conv_sum, act))
                c = sb_act(knobs, c);
            a->out[t * channels + ch] = sb_act(knobs, sb_silu(c));
        }
    for (size_t t = 0; a->trail && t < a->rows; t++)
        for (size_t i = 0; i < back; i++)
            for (size_t ch = 0; ch < channels; ch++)
                a->trail[(t * back + i) * channels + ch] = column(a, t + 1 + i, ch);
    for (size_t i = 0; i < back;
         i++) /* columns move forward, so each is read before it is overwritten */
        for (size_t ch = 0; ch < channels; ch++)
            a->state[i * channels + ch] = column(a, a->rows + i, ch);
    return SB_OK;
}
