#include "ref/base/mem.h"
#include "ref/base/threads.h"
#include "ref/fast/dot/dots.h"
#include "ref/fast/dot/fn_array.h"
#include "ref/fast/arrays.h"
#include "ref/ops/form.h"
#include "ref/fast/fast.h"
#include "ref/ops/knob.h"

#include <stdlib.h>
#include <string.h>

/* Channels that are computed together, and strips of such blocks, which threads share out. */
enum { BLOCK = 64, STRIPS = 16 };

/* One tap of a block of channels: weights, inputs, rounded products. */
typedef struct tap {
    float weight[BLOCK], product[BLOCK];
} tap;

/* "columns before the call come from the conv state": column t - (kw-1) + j, where negative
 * columns count back from the end of the state. */
static const float *column(const sb_conv_args *a, size_t t, size_t j, size_t taps)
{
    size_t channels = a->weight->rows;
    size_t back = taps - 1; /* columns in the state */
    size_t at = t + j;      /* column number, counted from the first of the state */
    return at < back ? a->state + at * channels : a->in + (at - back) * channels;
}

/* "the new conv state is the last kw-1 columns of u", here after the first `rows` rows. `to`
 * may be the old state: columns move forward only, so each is read before it is overwritten. */
static void columns_after(const sb_conv_args *a, size_t rows, size_t taps, float *to)
{
    size_t channels = a->weight->rows, back = taps - 1;
    for (size_t i = 0; i < back; i++) {
        size_t at = rows + i;
        const float *from = at < back ? a->state + at * channels : a->in + (at - back) * channels;
        memmove(to + i * channels, from, channels * sizeof *from);
    }
}

/* "dot over j = 0..kw-1 of w[ch, j] u_{t-(kw-1)+j}[ch]"; K-31: "c_t is the sum of R( RN(w u)
 * )"; for `count` channels from ch on. */
static void weigh(const sb_knobs *knobs, const sb_conv_args *a, size_t t, size_t ch, size_t count,
                  tap *at, sb_dots_term *terms, float *sum)
{
    static const float one = 1.0f;
    size_t taps = a->weight->cols;
    int rounds = sb_conv_rounds_products(knobs, a->form);
    for (size_t j = 0; j < taps; j++) {
        const float *u = column(a, t, j, taps) + ch;
        terms[j] = (sb_dots_term){.a = u, .b = at[j].weight, .b_stride = 1};
        if (!rounds)
            continue;
        for (size_t c = 0; c < count; c++)
            at[j].product[c] = at[j].weight[c] * u[c];
        sb_act_many(knobs, at[j].product, count, at[j].product);
        terms[j] = (sb_dots_term){.a = at[j].product, .b = &one, .b_stride = 0};
    }
    sb_dots(terms, taps, count, sum);
}

/* All rows of `count` channels; K-3: "act to round the convolution sum before silu". `row` is
 * scratch for BLOCK rows of the weight. */
static void convolve(const sb_knobs *knobs, const sb_conv_args *a, size_t ch, size_t count, tap *at,
                     sb_dots_term *terms, float *row)
{
    size_t channels = a->weight->rows, taps = a->weight->cols;
    sb_param_rows(knobs, a->weight, (uint32_t)ch, count, row);
    for (size_t c = 0; c < count; c++)
        for (size_t j = 0; j < taps; j++)
            at[j].weight[c] = row[c * taps + j];
    for (size_t t = 0; t < a->rows; t++) {
        float sum[BLOCK];
        weigh(knobs, a, t, ch, count, at, terms, sum);
        if (SB_IS(knobs, conv_sum, act))
            sb_act_many(knobs, sum, count, sum);
        sb_silu_array(sum, count, sum);
        sb_act_many(knobs, sum, count, a->out + t * channels + ch);
    }
}

typedef struct job {
    const sb_knobs *knobs;
    const sb_conv_args *a;
    tap *at;
    sb_dots_term *terms;
    float *row;
} job;

static void one_strip(void *ctx, size_t s, size_t worker)
{
    const job *j = ctx;
    const size_t channels = j->a->weight->rows, taps = j->a->weight->cols;
    (void)worker;
    for (size_t ch = s * BLOCK; ch < channels; ch += (size_t)STRIPS * BLOCK)
        convolve(j->knobs, j->a, ch, channels - ch < BLOCK ? channels - ch : BLOCK,
                 j->at + s * taps, j->terms + s * taps, j->row + s * taps * BLOCK);
}

sb_status sb_conv_fast(const sb_knobs *knobs, const sb_conv_args *a)
{
    size_t channels = a->weight->rows, taps = a->weight->cols;
    tap *at = sb_alloc(STRIPS * taps, sizeof *at);
    sb_dots_term *terms = sb_alloc(STRIPS * taps, sizeof *terms);
    float *row = sb_alloc(STRIPS * taps, BLOCK * sizeof *row);
    sb_status status = at && terms && row ? SB_OK : SB_ERR_MEMORY;
    const double values = (double)a->rows * (double)channels;
    job j = {knobs, a, at, terms, row};
    sb_parallel_for(status ? 0 : STRIPS, sb_worth_threads(values * SB_COST_exponential), one_strip,
                    &j);
    free(at);
    free(terms);
    free(row);
    if (status)
        return status;
    for (size_t t = 0; a->trail && t < a->rows; t++)
        columns_after(a, t + 1, taps, a->trail + t * (taps - 1) * channels);
    columns_after(a, a->rows, taps, a->state);
    return SB_OK;
}
