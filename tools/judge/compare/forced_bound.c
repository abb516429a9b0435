/* forced_bound.c - the balls of an op whose inputs are recorded or are balls. */
#include "ref/base/root.h"
#include "tools/judge/compare/forced_parts.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/ops/act_quant.h"
#include "ref/ops/knob.h"
#include "ref/ops/values.h"
#include "tools/judge/compare/forced_twin.h"

/* The two sides of a comparison. */
typedef struct side {
    const sb_arithmetic *arithmetic;
    int theirs;
} side;

sb_status forced_bound_op(const sb_arithmetic *ar, const sb_op_call *call, const sb_ball *const *in,
                          sb_ball *out, sb_ball *second)
{
    switch (call->op) {
#define SB_OP(name, clause)                                                                        \
    case SB_OP_##name:                                                                             \
        return sb_bound_##name##_in(ar, call->knobs, call->args, in, out, second);
#include "ref/ops/ops.def"
#undef SB_OP
    case SB_OP_COUNT:
        break;
    }
    return SB_ERR_USAGE;
}

/* The balls of an input, without its stride. */
static sb_status gather(sb_forced *f, const sb_op_call *call, const sb_op_value *in, int theirs,
                        sb_ball **out)
{
    sb_ball *balls = *out = sb_alloc(in->rows * in->cols, sizeof *balls);
    if (!balls)
        return SB_ERR_MEMORY;
    if (forced_memory_kind(f, call, in) != SB_KNOWN_COUNT)
        return forced_memory_balls(f, call, in, theirs, balls);
    const float *from = forced_origin(f, call, in);
    for (size_t row = 0; row < in->rows; row++)
        sb_known_balls(&f->known, from + row * in->stride, in->cols, theirs,
                       balls + row * in->cols);
    return SB_OK;
}

/* Bounds a linear op for both sides. Reads its weights only once. */
static sb_status both_linear(sb_forced *f, const sb_op_call *call, int chained, sb_ball *ours,
                             sb_ball *theirs)
{
    const sb_linear_args *a = call->args;
    size_t count = a->rows * a->weight->cols;
    sb_bound_side sides[2] = {{.ar = &sb_arithmetic_reference, .out = ours},
                              {.ar = f->options.arithmetic, .out = theirs}};
    if (!chained)
        return sb_bound_linear_sides(call->knobs, a, sides, 2);
    sb_ball *in = sb_alloc(2 * count, sizeof *in);
    if (!in)
        return SB_ERR_MEMORY;
    for (int i = 0; i < 2; i++) {
        sb_known_balls(&f->known, a->in, count, i, in + (size_t)i * count);
        sides[i].in = in + (size_t)i * count;
    }
    sb_status status = sb_bound_linear_of_sides(call->knobs, a->weight, a->kind, a->rows, sides, 2);
    free(in);
    return status;
}

static int is_delta_rule(sb_op op)
{
    return op == SB_OP_delta_rule || op == SB_OP_delta_rule_chunk;
}

/* T-67: "where the knobs name the recurrent form, with any roundings" */
static int any_form(const sb_forced *f, const sb_op_call *call)
{
    return f->options.any_form && call->op == SB_OP_delta_rule &&
           SB_IS(call->knobs, delta_rule, recurrent);
}

/* The delta rule for one side or both. The engine's incoming state may differ from the reference's.
 */
static sb_status delta_rule(sb_forced *f, const sb_op_call *call, const sb_delta_rule_args *a,
                            sb_delta_side *sides, size_t count)
{
    const forced_memory *m = forced_memory_of(f, call->layer);
    size_t keys = a->rows * a->k_heads * a->dk, gates = a->rows * a->v_heads;
    size_t values = gates * a->dv, each = 2 * keys + values + 2 * gates;
    const sb_delta_error carried = {m->column, m->element};
    sb_ball *balls = sb_alloc(count * each, sizeof *balls);
    sb_status status = balls ? SB_OK : SB_ERR_MEMORY;
    for (size_t i = 0; i < count && !status; i++) {
        sb_ball *q = balls + i * each, *k = q + keys, *v = k + keys, *g = v + values,
                *beta = g + gates;
        sb_known_balls(&f->known, a->q, keys, i == 1, q);
        sb_known_balls(&f->known, a->k, keys, i == 1, k);
        for (size_t t = 0; t < a->rows; t++)
            sb_known_balls(&f->known, a->v + t * a->v_stride, a->v_heads * a->dv, i == 1,
                           v + t * a->v_heads * a->dv);
        sb_known_balls(&f->known, a->g, gates, i == 1, g);
        sb_known_balls(&f->known, a->beta, gates, i == 1, beta);
        sides[i].q = q;
        sides[i].k = k;
        sides[i].v = v;
        sides[i].g = g;
        sides[i].beta = beta;
        sides[i].from = i == 1 ? &carried : NULL;
        if (call->op == SB_OP_delta_rule_chunk)
            status = sb_bound_delta_rule_chunk_side(call->knobs, a, &sides[i]);
    }
    int apart = count > 1 && any_form(f, call);
    if (!status && call->op == SB_OP_delta_rule)
        status = sb_bound_delta_rule_sides(call->knobs, a, sides, apart ? 1 : count);
    if (!status && apart)
        status = sb_bound_delta_rule_any_form(call->knobs, a, &sides[1]);
    free(balls);
    return status;
}

sb_status forced_bound_rule(sb_forced *f, const sb_op_call *call, sb_delta_side *of)
{
    const forced_memory *m = forced_memory_of(f, call->layer);
    const sb_delta_error carried = {m->column, m->element};
    of->from = &carried;
    if (call->op == SB_OP_delta_rule_chunk)
        return sb_bound_delta_rule_chunk_side(call->knobs, call->args, of);
    return any_form(f, call) ? sb_bound_delta_rule_any_form(call->knobs, call->args, of)
                             : sb_bound_delta_rule_sides(call->knobs, call->args, of, 1);
}

/* T-23: "The distance by which the engine's state may differ is carried from call to call".
 * Computes it from both sides' balls of the outgoing state and from the norms of its columns. */
static void carry(forced_memory *m, const sb_op_call *call, const sb_delta_rule_args *a,
                  const sb_delta_side sides[2])
{
    size_t size = a->dk * a->dv;
    double bounds = 0.0, values = 0.0;
    for (size_t h = 0; h < a->v_heads; h++)
        for (size_t j = 0; j < a->dv; j++) {
            double squares = 0.0, centres = 0.0;
            for (size_t i = 0; i < a->dk; i++) {
                size_t e = h * size + i * a->dv + j;
                sb_ball ours = sides[0].state[e], theirs = sides[1].state[e];
                double apart = SB_BOUND_SLACK * sb_ball_distance(ours, theirs);
                m->element[e] = apart;
                squares += apart * apart;
                values += ours.mid * ours.mid;
                centres += (ours.mid - theirs.mid) * (ours.mid - theirs.mid);
            }
            size_t at = h * a->dv + j;
            double norm =
                SB_BOUND_SLACK * (sides[0].column[at] + sides[1].column[at] + sb_sqrt64(centres));
            if (SB_IS(call->knobs, delta_state, act)) /* the norms lack the rounding of the state */
                norm = call->op == SB_OP_delta_rule ? m->element[h * size + j] : sb_sqrt64(squares);
            m->column[at] = norm;
            bounds += squares;
        }
    m->state_wide = !(bounds <= values);
    m->form = call->op;
}

/* True if the engine's recurrent state is the reference's. */
static int is_same_state(const forced_memory *m, const sb_delta_rule_args *a)
{
    double apart = 0.0;
    for (size_t i = 0; i < a->v_heads * a->dv; i++)
        apart += m->column[i];
    return m->recurrent && apart == 0.0;
}

/* Bounds both sides for the first `rows` rows; with `carries`, carries the state after them. */
static sb_status both_delta_rules(sb_forced *f, const sb_op_call *call, sb_ball *ours,
                                  sb_ball *theirs, size_t rows, int carries)
{
    sb_delta_rule_args a = *(const sb_delta_rule_args *)call->args;
    size_t columns = a.v_heads * a.dv, size = columns * a.dk;
    sb_ball *state = sb_alloc(2 * size, sizeof *state);
    double *column = sb_alloc(2 * columns, sizeof *column);
    sb_status status = state && column ? SB_OK : SB_ERR_MEMORY;
    if (!status) {
        sb_delta_side sides[2] = {
            {.ar = &sb_arithmetic_reference, .out = ours, .state = state, .column = column},
            {.ar = f->options.arithmetic,
             .out = theirs,
             .state = state + size,
             .column = column + columns}};
        a.rows = rows;
        status = delta_rule(f, call, &a, sides, 2);
        if (!status && carries)
            carry(forced_memory_of(f, call->layer), call, &a, sides);
    }
    free(column);
    free(state);
    return status;
}

/* "f_shared = 0 and l_shared = 0" in a model without a shared expert. */
static int is_absent(const sb_forced *f, const sb_op_call *call, const sb_op_value *in)
{
    return call->op == SB_OP_moe_combine && f->model->config.shared_intermediate == 0 &&
           strncmp(in->name, "shared_", 7) == 0;
}

/* What is known of one input. Covers inputs that no array of `known` describes: states, caches,
 * copies. */
static sb_knowledge input_of(sb_forced *f, const sb_op_call *call, const sb_op_value *in)
{
    const forced_memory *m = call->layer == SB_NO_LAYER ? NULL : forced_memory_of(f, call->layer);
    sb_knowledge of_memory = in->ids ? SB_KNOWN_COUNT : forced_memory_kind(f, call, in);
    int known = forced_knows_copy(f, call, in);
    if (of_memory != SB_KNOWN_COUNT)
        return of_memory;
    if (known >= 0)
        return known ? SB_KNOWN_exact : SB_KNOWN_not;
    if (in->ids)
        known = 1;
    else if (strcmp(in->name, "state") == 0)
        known = m && m->recurrent;
    else if (strcmp(call->name, "mtp.fc") == 0)
        known = f->embedding && f->previous;
    else if (strcmp(call->name, "mtp.pre_fc_norm_hidden") == 0)
        known = f->at->drafts ? f->at->hidden_draft : f->at->hidden && f->norm;
    else if (strncmp(call->name, "mlp.experts.", 12) == 0 && !f->experts)
        known = 0;
    else if (is_absent(f, call, in))
        known = 1;
    if (known >= 0)
        return known ? SB_KNOWN_exact : SB_KNOWN_not;
    const float *from = forced_origin(f, call, in);
    size_t count = in->rows ? (in->rows - 1) * in->stride + in->cols : 0;
    return from ? sb_known_of(&f->known, from, count) : SB_KNOWN_not;
}

/* T-91: "Routers and quantizers end a segment". A quantizer turns the smallest difference into a
 * step, so balls do not pass it. */
static int passes_balls(const sb_op_call *call)
{
    const sb_linear_args *a = call->args;
    return call->op != SB_OP_linear || !sb_matrix_quantized(a->weight) ||
           sb_input_scheme(call->knobs, a->weight) == SB_SCHEME_none;
}

static sb_knowledge inputs_of(sb_forced *f, const sb_op_call *call, const sb_op_values *v)
{
    sb_knowledge least = SB_KNOWN_exact;
    for (size_t i = 0; i < v->inputs; i++) {
        sb_knowledge one = input_of(f, call, &v->in[i]);
        if (one == SB_KNOWN_balls && !passes_balls(call))
            one = SB_KNOWN_not;
        least = one < least ? one : least;
    }
    return least;
}

/* Balls of the outputs of one side. */
static sb_status bound_side(sb_forced *f, const sb_op_call *call, const side *of, int chained,
                            sb_ball *out, sb_ball *second)
{
    sb_op_values v = sb_op_values_of(call->op, call->args);
    sb_ball *own[SB_OP_INPUTS] = {NULL};
    const sb_ball *in[SB_OP_INPUTS] = {NULL};
    sb_status status = SB_OK;
    for (size_t i = 0; i < v.inputs && chained && !status; i++) {
        if (!v.in[i].ids && input_of(f, call, &v.in[i]) == SB_KNOWN_balls)
            status = gather(f, call, &v.in[i], of->theirs, &own[i]);
        in[i] = own[i];
    }
    if (!status)
        status = forced_bound_op(of->arithmetic, call, in, out, second);
    for (size_t i = 0; i < v.inputs; i++)
        free(own[i]);
    return status;
}

/* Balls of all outputs of both sides: ours[0], ours[1], theirs[0], theirs[1]. For a verify, carries
 * the state after the kept rows. */
static sb_status bound_outputs(sb_forced *f, const sb_op_call *call, int chained,
                               sb_ball *const balls[4])
{
    const side sides[2] = {{&sb_arithmetic_reference, 0}, {f->options.arithmetic, 1}};
    if (is_delta_rule(call->op)) {
        size_t rows = ((const sb_delta_rule_args *)call->args)->rows;
        int all = f->kept >= rows;
        forced_memory *m = forced_memory_of(f, call->layer);
        m->state_same = is_same_state(m, call->args);
        sb_status status = both_delta_rules(f, call, balls[0], balls[2], rows, all);
        if (!status && !all && f->kept > 0)
            status = both_delta_rules(f, call, balls[0], balls[2], f->kept, 1);
        return status;
    }
    if (call->op == SB_OP_linear)
        return both_linear(f, call, chained, balls[0], balls[2]);
    sb_status status = bound_side(f, call, &sides[0], chained, balls[0], balls[1]);
    return status ? status : bound_side(f, call, &sides[1], chained, balls[2], balls[3]);
}

/* Updates what is known of the memory of the op's layer. */
static sb_status note_memory(sb_forced *f, const sb_op_call *call, const sb_op_values *v,
                             sb_knowledge known)
{
    forced_memory *m = call->layer == SB_NO_LAYER ? NULL : forced_memory_of(f, call->layer);
    if (m && is_delta_rule(call->op)) {
        m->state_spread |= known == SB_KNOWN_balls;
        m->recurrent = m->recurrent && known != SB_KNOWN_not && !(m->state_spread && m->state_wide);
    }
    if (!m || call->op != SB_OP_conv)
        return SB_OK;
    m->conv = m->conv && input_of(f, call, &v->in[0]) != SB_KNOWN_not;
    return m->conv ? forced_conv_moved(f, call) : SB_OK;
}

static size_t elements(const sb_op_value *v)
{
    return v->rows * v->cols;
}

/* T-1: "Operands without spread give one result in every arithmetic". True for values that can have
 * only one value: they need no recording. */
static int pinned(const sb_ball *ours, const sb_ball *theirs, size_t count)
{
    for (size_t i = 0; i < count && ours; i++)
        if (ours[i].rad != 0.0 || theirs[i].rad != 0.0 || ours[i].mid != theirs[i].mid)
            return 0;
    return ours != NULL;
}

/* T-91: "A bound wider than the values says nothing". Drops such balls of an op whose inputs were
 * not all recorded. */
static void drop_wide(const sb_op_values *v, sb_ball *balls[4])
{
    for (size_t i = 0; i < v->outputs; i++)
        if (balls[i] && forced_too_wide(balls[i], balls[i + 2], elements(&v->out[i]))) {
            free(balls[i]);
            free(balls[i + 2]);
            balls[i] = balls[i + 2] = NULL;
        }
}

sb_status forced_made(sb_forced *f, const sb_op_call *call, sb_ball *balls[4], int chained)
{
    sb_op_values v = sb_op_values_of(call->op, call->args);
    sb_known from = {.source = SB_NO_VALUE};
    sb_status status = forced_trace_back(f, call, &from);
    if (chained)
        drop_wide(&v, balls);
    for (size_t i = 0; i < v.outputs; i++) {
        sb_known made = {.base = v.out[i].data,
                         .count = elements(&v.out[i]),
                         .kind = balls[i] ? SB_KNOWN_balls : SB_KNOWN_not,
                         .op = call->op,
                         .layer = call->layer,
                         .name = call->name,
                         .single = call->single,
                         .ours = balls[i],
                         .theirs = balls[i + 2],
                         .source = from.source,
                         .value = SB_NO_VALUE,
                         .chained = chained,
                         .bias = sb_bias_rule_of(f->options.arithmetic, call)};
        if (pinned(balls[i], balls[i + 2], made.count))
            made.kind = SB_KNOWN_exact;
        sb_status one = sb_marks_join(&made.waiting, &from.waiting);
        status = status ? status : one;
        one = sb_known_make(&f->known, &made);
        status = status ? status : one;
    }
    sb_marks_free(&from.waiting);
    return status;
}

sb_status forced_bound(sb_forced *f, const sb_op_call *call)
{
    sb_op_values v = sb_op_values_of(call->op, call->args);
    sb_knowledge known = inputs_of(f, call, &v);
    sb_ball *balls[4] = {NULL, NULL, NULL, NULL};
    if (call->op == SB_OP_linear && known == SB_KNOWN_exact && f->fit && !f->step->again) {
        sb_status sampled = sb_fit_linear(f->fit, call);
        if (sampled)
            return sampled;
    }
    if (call->op == SB_OP_linear && call->single && known == SB_KNOWN_exact)
        return forced_put_later(f, call);
    sb_status status = forced_do_later(f);
    for (size_t i = 0; i < 4 && known != SB_KNOWN_not && !status; i++)
        if (i % 2 < v.outputs) {
            balls[i] = sb_alloc(elements(&v.out[i % 2]), sizeof **balls);
            status = balls[i] ? SB_OK : SB_ERR_MEMORY;
        }
    if (!status && known == SB_KNOWN_exact && forced_twin_acts(f, call))
        status = forced_twin_balls(f, call, balls);
    else if (!status && known != SB_KNOWN_not)
        status = bound_outputs(f, call, known == SB_KNOWN_balls, balls);
    if (!status)
        status = note_memory(f, call, &v, known);
    if (!status)
        return forced_made(f, call, balls, known == SB_KNOWN_balls);
    for (size_t i = 0; i < 4; i++)
        free(balls[i]);
    return status;
}

/* Adds the error of the form, because the kept rows of a verify are fed again. */
sb_status forced_bound_replay(sb_forced *f, const sb_op_call *call)
{
    if (!is_delta_rule(call->op))
        return SB_OK;
    const sb_delta_rule_args *a = call->args;
    size_t size = a->v_heads * a->dk * a->dv, outputs = a->rows * a->v_heads * a->dv;
    forced_memory *m = forced_memory_of(f, call->layer);
    f->other_form |= call->op != m->form;
    sb_ball *balls = sb_alloc(size + outputs, sizeof *balls);
    sb_delta_side ours = {
        .ar = &sb_arithmetic_reference, .out = balls ? balls + size : NULL, .state = balls};
    sb_status status = balls ? delta_rule(f, call, a, &ours, 1) : SB_ERR_MEMORY;
    for (size_t e = 0; e < size && !status; e++) {
        size_t column = e / (a->dk * a->dv) * a->dv + e % a->dv;
        m->element[e] += balls[e].rad;
        m->column[column] += balls[e].rad; /* an upper bound of the norm in either form */
    }
    free(balls);
    return status;
}
