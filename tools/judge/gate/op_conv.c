/* op_conv.c - the short causal convolution of linear attention, with silu: a step or a prompt. */
#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/ops/knob.h"
#include "tools/judge/bound/bound.h"
#include "tools/judge/gate/whole.h"

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
    size_t rows, channels, width, back; /* back: columns of the state */
} shape;

static shape shape_of(const sb_gate_case *c)
{
    return (shape){.rows = (size_t)c->size[ROWS],
                   .channels = (size_t)c->size[CHANNELS],
                   .width = (size_t)c->size[WIDTH],
                   .back = (size_t)c->size[WIDTH] - 1};
}

enum { X, WEIGHT, STATE };

/* V-141: "conv_state is (channel, column), the oldest column first" */
static sb_gate_list list(const sb_gate_case *c)
{
    const shape s = shape_of(c);
    return (sb_gate_list){
        .input = {[X] = {"x", "row,channel", .shape = {s.rows, s.channels}},
                  [WEIGHT] = {"weight", "channel,tap", .shape = {s.channels, s.width},
                              .role = SB_GATE_WEIGHT},
                  [STATE] = {"conv_state", "channel,column", .shape = {s.channels, s.back}}},
        .output = {{"", "row,channel", .shape = {s.rows, s.channels}},
                   {"state", "channel,column", .shape = {s.channels, s.back}}}};
}

/* The op stores its state transposed, (column, channel). The caller frees args.state. */
static sb_status args_of(const sb_gate_case *c, float *const in[], const sb_matrix *weight,
                         sb_conv_args *out)
{
    const shape s = shape_of(c);
    float *turned = sb_alloc(s.channels * s.back, sizeof *turned);
    for (size_t i = 0; turned && i < s.channels * s.back; i++)
        turned[i % s.back * s.channels + i / s.back] = in[STATE][i];
    *out = (sb_conv_args){.in = in[X],
                          .weight = weight,
                          .rows = s.rows,
                          .state = turned,
                          .form = s.rows > 1 ? SB_FORM_prompt : SB_FORM_decode};
    return turned ? SB_OK : SB_ERR_MEMORY;
}

static sb_matrix weight_of(const sb_gate_case *c)
{
    return sb_gate_matrix(c, "weight", (uint32_t)c->size[CHANNELS], (uint32_t)c->size[WIDTH]);
}

static sb_status exact(const sb_gate_case *c, float *const in[], const sb_knobs *knobs,
                       const sb_op_table *ops, float *const out[])
{
    const shape s = shape_of(c);
    const sb_matrix weight = weight_of(c);
    sb_conv_args args;
    sb_status status = args_of(c, in, &weight, &args);
    if (status)
        return status;
    args.out = out[0];
    status = ops->conv(knobs, &args);
    for (size_t i = 0; i < s.channels * s.back; i++)
        out[1][i] = args.state[i % s.back * s.channels + i / s.back];
    free(args.state);
    return status;
}

/* Column `at` of the channel, counted from the first of the state. */
static double column(const shape *s, float *const in[], size_t channel, size_t at)
{
    if (at < s->back)
        return (double)in[STATE][channel * s->back + at];
    return (double)in[X][(at - s->back) * s->channels + channel];
}

/* "dot over j = 0..kw-1 of w[ch, j] u_{t-(kw-1)+j}[ch]", then silu. */
static sb_status real(const sb_gate_case *c, float *const in[], sb_dd *const out[])
{
    const shape s = shape_of(c);
    for (size_t t = 0; t < s.rows; t++)
        for (size_t ch = 0; ch < s.channels; ch++) {
            sb_dd sum = sb_dd_of(0.0);
            for (size_t j = 0; j < s.width; j++)
                sum = sb_dd_fma(sum, sb_dd_of((double)in[WEIGHT][ch * s.width + j]),
                                sb_dd_of(column(&s, in, ch, t + j)));
            out[0][t * s.channels + ch] = sb_dd_silu(sum);
        }
    for (size_t i = 0; i < s.channels * s.back; i++)
        out[1][i] = sb_dd_of(column(&s, in, i / s.back, s.rows + i % s.back));
    return SB_OK;
}

/* T-6: "the states of convolution and attention" are copies; V-140 for the sum before silu. */
static sb_status bound(const sb_gate_case *c, float *const in[], const sb_gate_arith *ar,
                       sb_ball *const out[])
{
    const shape s = shape_of(c);
    const sb_matrix weight = weight_of(c);
    size_t count = s.rows * s.channels, state = s.channels * s.back;
    sb_conv_args args;
    sb_status status = args_of(c, in, &weight, &args);
    sb_ball *more = status ? NULL : sb_alloc(count + state, sizeof *more);
    sb_knobs other = ar->knobs;
    other.value[SB_KNOB_conv_sum] = SB_conv_sum_f32;
    if (!more)
        status = SB_ERR_MEMORY;
    if (!status)
        status = sb_bound_conv(&ar->ar, &ar->knobs, &args, out[0], more + count);
    if (!status)
        status = sb_bound_conv(&ar->ar, &other, &args, more, more + count);
    if (!status)
        sb_gate_cover(out[0], more, count, 0);
    for (size_t i = 0; i < state && !status; i++)
        out[1][i] = sb_ball_of((float)column(&s, in, i / s.back, s.rows + i % s.back));
    free(args.state);
    free(more);
    return status;
}

const sb_gate_op *sb_gate_op_conv(void)
{
    static const sb_gate_op op = {
        .name = "conv",
        .clause = "R-4",
        .what = "causal convolution with silu, and the columns for the next call",
        .params = params,
        .param_count = sizeof params / sizeof *params,
        .shapes = shapes,
        .not_regimes = "subnormal padding",
        .uses = uses,
        .use_count = 1,
        .list = list,
        .exact = exact,
        .real = real,
        .bound = bound,
        .row_arrays = "x",
        .state_input = "conv_state",
        .state_output = "state",
        .cut = 1};
    return &op;
}
