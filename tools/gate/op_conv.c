/* op_conv.c - the short causal convolution of linear attention, with silu: a step or a prompt. */
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/compare/bound.h"
#include "tools/gate/whole.h"

enum { ROWS, CHANNELS, WIDTH };
static const sb_gate_param params[] = {
    {"rows", 3, 1, 4096, "tokens of the call"},
    {"channels", 96, 1, 65536, "channels"},
    {"width", 4, 2, 16, "taps, of which the last is the current token"}};
static const char *const shapes[] = {"rows=1",
                                     "rows=2",
                                     "rows=4",
                                     "rows=5",
                                     "rows=9",
                                     "rows=64",
                                     "rows=9,channels=1",
                                     "channels=7",
                                     "channels=129",
                                     "width=2",
                                     "rows=2,width=8",
                                     NULL};
static const sb_op uses[] = {SB_OP_conv};

typedef struct shape {
    size_t rows, channels, width, back; /* columns that the state has */
} shape;

static shape shape_of(const sb_gate_case *c)
{
    return (shape){.rows = (size_t)c->size[ROWS],
                   .channels = (size_t)c->size[CHANNELS],
                   .width = (size_t)c->size[WIDTH],
                   .back = (size_t)c->size[WIDTH] - 1};
}

static sb_status expect(sb_gate_case *c)
{
    const shape s = shape_of(c);
    const uint64_t out[] = {s.rows, s.channels}, state[] = {s.channels, s.back};
    sb_status status = sb_gate_expect(c, "", SB_GATE_VALUES, "row,channel", 2, out);
    return status ? status : sb_gate_expect(c, "state", SB_GATE_VALUES, "channel,column", 2, state);
}

/* V-141: "conv_state is (channel, column), the oldest column first" */
static sb_status make(sb_gate_case *c, sb_error *err)
{
    (void)err;
    const shape s = shape_of(c);
    const uint64_t x_shape[] = {s.rows, s.channels}, w_shape[] = {s.channels, s.width},
                   state_shape[] = {s.channels, s.back};
    size_t count = s.rows * s.channels, taps = s.channels * s.width;
    float *x = sb_alloc(count + 2 * taps, sizeof *x);
    if (!x)
        return SB_ERR_MEMORY;
    float *weight = x + count, *state = weight + taps;
    sb_gate_draw(c, "x", SB_GATE_ACTIVATION, s.rows, s.channels, x);
    sb_gate_draw(c, "weight", SB_GATE_WEIGHT, s.channels, s.width, weight);
    sb_gate_draw(c, "conv_state", SB_GATE_ACTIVATION, s.channels, s.back, state);
    sb_status status = sb_gate_add_values(c, "x", "row,channel", 2, x_shape, x);
    if (!status)
        status = sb_gate_add_values(c, "weight", "channel,tap", 2, w_shape, weight);
    if (!status)
        status = sb_gate_add_values(c, "conv_state", "channel,column", 2, state_shape, state);
    free(x);
    return status ? status : expect(c);
}

static sb_status declare(sb_gate_case *c, sb_error *err)
{
    const shape s = shape_of(c);
    const uint64_t shapes_of[][2] = {
        {s.rows, s.channels}, {s.channels, s.width}, {s.channels, s.back}};
    static const char *const names[] = {"x", "weight", "conv_state"};
    for (size_t i = 0; i < 3; i++) {
        sb_status status = sb_gate_need(c, names[i], 2, shapes_of[i], err);
        if (!status)
            status =
                sb_gate_need_finite(c, names[i], (size_t)(shapes_of[i][0] * shapes_of[i][1]), err);
        if (status)
            return status;
    }
    return expect(c);
}

/* The inputs in binary32; the op has its state the other way round, (column, channel). */
typedef struct inputs {
    float *x, *state, *turned;
    sb_matrix weight;
    sb_conv_args args;
} inputs;

static void inputs_free(inputs *in)
{
    free(in->x);
    free(in->state);
    free(in->turned);
}

static sb_status inputs_of(const sb_gate_case *c, inputs *in)
{
    const shape s = shape_of(c);
    *in = (inputs){.x = sb_gate_values(c, "x"),
                   .state = sb_gate_values(c, "conv_state"),
                   .turned = sb_alloc(s.channels * s.back, sizeof(float)),
                   .weight = sb_gate_matrix(c, "weight", (uint32_t)s.channels, (uint32_t)s.width)};
    if (!in->x || !in->state || !in->turned) {
        inputs_free(in);
        return SB_ERR_MEMORY;
    }
    for (size_t i = 0; i < s.channels * s.back; i++)
        in->turned[i % s.back * s.channels + i / s.back] = in->state[i];
    in->args = (sb_conv_args){.in = in->x,
                              .weight = &in->weight,
                              .rows = s.rows,
                              .state = in->turned,
                              .form = s.rows > 1 ? SB_FORM_prompt : SB_FORM_decode};
    return SB_OK;
}

static sb_status exact(const sb_gate_case *c, const sb_knobs *knobs, const sb_op_table *ops,
                       float *const out[])
{
    const shape s = shape_of(c);
    inputs in;
    sb_status status = inputs_of(c, &in);
    if (status)
        return status;
    in.args.out = out[0];
    status = ops->conv(knobs, &in.args);
    for (size_t i = 0; i < s.channels * s.back; i++)
        out[1][i] = in.turned[i % s.back * s.channels + i / s.back];
    inputs_free(&in);
    return status;
}

/* Column `at` of the channel, counted from the first of the state. */
static double column(const shape *s, const inputs *in, size_t channel, size_t at)
{
    if (at < s->back)
        return (double)in->state[channel * s->back + at];
    return (double)in->x[(at - s->back) * s->channels + channel];
}

/* "dot over j = 0..kw-1 of w[ch, j] u_{t-(kw-1)+j}[ch]", and silu of it. */
static sb_status real(const sb_gate_case *c, sb_dd *const out[])
{
    const shape s = shape_of(c);
    inputs in;
    float *weight = sb_gate_values(c, "weight");
    sb_status status = weight ? inputs_of(c, &in) : SB_ERR_MEMORY;
    for (size_t t = 0; t < s.rows && !status; t++)
        for (size_t ch = 0; ch < s.channels; ch++) {
            sb_dd sum = sb_dd_of(0.0);
            for (size_t j = 0; j < s.width; j++)
                sum = sb_dd_fma(sum, sb_dd_of((double)weight[ch * s.width + j]),
                                sb_dd_of(column(&s, &in, ch, t + j)));
            out[0][t * s.channels + ch] = sb_dd_silu(sum);
        }
    for (size_t i = 0; i < s.channels * s.back && !status; i++)
        out[1][i] = sb_dd_of(column(&s, &in, i / s.back, s.rows + i % s.back));
    if (!status)
        inputs_free(&in);
    free(weight);
    return status;
}

/* T-6: "the states of convolution and attention" are copies; V-140 of the sum before silu. */
static sb_status bound(const sb_gate_case *c, const sb_gate_arith *ar, sb_ball *const out[])
{
    const shape s = shape_of(c);
    size_t count = s.rows * s.channels, state = s.channels * s.back;
    inputs in;
    sb_ball *more = sb_alloc(count + state, sizeof *more);
    sb_status status = more ? inputs_of(c, &in) : SB_ERR_MEMORY;
    if (status) {
        free(more);
        return status;
    }
    sb_knobs other = ar->knobs;
    other.value[SB_KNOB_conv_sum] = SB_conv_sum_f32;
    status = sb_bound_conv(ar->ar, &ar->knobs, &in.args, out[0], more + count);
    if (!status)
        status = sb_bound_conv(ar->ar, &other, &in.args, more, more + count);
    if (!status)
        sb_gate_cover(out[0], more, count, 0);
    for (size_t i = 0; i < state && !status; i++)
        out[1][i] = sb_ball_of((float)column(&s, &in, i / s.back, s.rows + i % s.back));
    inputs_free(&in);
    free(more);
    return status;
}

const sb_gate_op *sb_gate_op_conv(void)
{
    static const sb_gate_op op = {.name = "conv",
                                  .clause = "R-4",
                                  .what = "causal convolution and silu, and the columns it leaves",
                                  .params = params,
                                  .param_count = sizeof params / sizeof *params,
                                  .shapes = shapes,
                                  .not_regimes = "subnormal padding",
                                  .uses = uses,
                                  .use_count = 1,
                                  .make = make,
                                  .declare = declare,
                                  .exact = exact,
                                  .real = real,
                                  .bound = bound,
                                  .row_arrays = "x",
                                  .state_input = "conv_state",
                                  .state_output = "state",
                                  .cut = 1};
    return &op;
}
