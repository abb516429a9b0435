/* envelope_codes.c - inputs of linear layers that become codes: T-42. */
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/rng.h"
#include "ref/base/root.h"
#include "ref/ops/act_quant.h"
#include "tools/judge/compare/envelope_parts.h"
#include "tools/judge/bound/wide_fn.h"

sb_status sb_envelope_record(sb_envelope *e, const float *in, size_t count)
{
    if (e->tape_count + count > e->tape_room) {
        size_t room = 2 * (e->tape_count + count);
        float *tape = sb_realloc(e->tape, room, sizeof *tape);
        if (!tape)
            return SB_ERR_MEMORY;
        e->tape = tape;
        e->tape_room = room;
    }
    memcpy(e->tape + e->tape_count, in, count * sizeof *in);
    e->tape_count += count;
    return SB_OK;
}

/* True if the current expert is the reference's expert in the same slot. */
static int same_expert(const sb_envelope_lane *lane, const sb_op_call *call)
{
    const sb_envelope *e = lane->of;
    size_t k = e->model->config.experts_per_token, at = call->row * k + call->slot;
    return !call->single || call->layer > e->model->config.layers ||
           lane->ids[at] == e->ids[(size_t)call->layer * e->rows * k + at];
}

/* An element of the reference's row that may fall on the other side of a tie. */
typedef struct tie {
    size_t at;
    double by;      /* the change that takes it to the other side */
    double squares; /* squared change of the quantized row */
} tie;

static size_t group_end(const sb_input *q, size_t n, size_t first)
{
    return n - first < q->group ? n : first + q->group;
}

static size_t largest_at(const float *x, size_t first, size_t end)
{
    size_t most = first;
    for (size_t i = first; i < end; i++)
        if (sb_wide_abs((double)x[i]) > sb_wide_abs((double)x[most]))
            most = i;
    return most;
}

/* Rows that are quantized together: the reference's, the run's own, and the reference's moved by
 * the window. Elements below the largest of a group stay below it, so that only the largest moves
 * the scale. */
enum { ROW_reference, ROW_own, ROW_up, ROW_down, ROW_scale_up, ROW_scale_down, ROWS };

static void moved(const float *x, size_t n, size_t group, double window, float *rows)
{
    for (size_t first = 0; first < n; first += group) {
        size_t end = n - first < group ? n : first + group, most = largest_at(x, first, end);
        double limit = sb_wide_abs((double)x[most]);
        for (size_t i = first; i < end; i++) {
            double up = (double)x[i] + window, down = (double)x[i] - window;
            for (size_t row = ROW_up; row < ROWS; row++)
                rows[row * n + i] = x[i];
            if (i == most) {
                rows[ROW_scale_up * n + i] = (float)up;
                rows[ROW_scale_down * n + i] = (float)down;
                continue;
            }
            rows[ROW_up * n + i] = (float)(up < limit ? up : limit);
            rows[ROW_down * n + i] = (float)(down > -limit ? down : -limit);
        }
    }
}

static double square_apart(const sb_input *q, size_t n, size_t row, size_t first, size_t end)
{
    double sum = 0;
    for (size_t i = first; i < end; i++) {
        double d = q->values[row * n + i] - q->values[i];
        sum += d * d;
    }
    return sum;
}

/* True if a coarse scale has changed to another value. Binary32 scales move by less. */
static int other_scale(const sb_input *q, size_t row, size_t group)
{
    double was = (double)q->scales[group], is = (double)q->scales[row * q->groups + group];
    return sb_wide_abs(is - was) > was / 32;
}

static void see(tie *best, size_t at, double by, double squares)
{
    if (squares > best->squares)
        *best = (tie){at, by, squares};
}

/* The open element or scale that changes the row most. */
static tie largest_open(const sb_input *q, const float *x, const float *rows, size_t n)
{
    tie best = {0};
    for (size_t first = 0; first < n; first += q->group) {
        size_t end = group_end(q, n, first), most = largest_at(x, first, end);
        for (size_t row = ROW_up; row < ROWS; row++)
            for (size_t i = first; i < end; i++) {
                int scale = row >= ROW_scale_up;
                double by = (double)rows[row * n + i] - (double)x[i];
                if (scale != (i == most))
                    continue;
                if (scale && other_scale(q, row, first / q->group))
                    see(&best, i, by, square_apart(q, n, row, first, end));
                else if (q->codes[row * n + i] != q->codes[i])
                    see(&best, i, by, square_apart(q, n, row, i, i + 1));
            }
    }
    return best;
}

/* True if a row's code or scale at this place differs from that of row 0. */
static int is_other(const sb_input *q, size_t n, size_t row, size_t at)
{
    return q->codes[row * n + at] != q->codes[at] || other_scale(q, row, at / q->group);
}

/* Copies the reference's group to `own` with the element just on the other side of the tie: moved
 * by the smallest t->by / 2^i that takes it there. */
static sb_status take_other_side(const sb_op_call *call, const float *x, const tie *t, float *own)
{
    enum { HALVES = 12 };
    const sb_matrix *w = ((const sb_linear_args *)call->args)->weight;
    size_t n = w->cols, row = 1;
    float *rows = sb_alloc((HALVES + 1) * n, sizeof *rows);
    sb_input q;
    double by = 0;
    if (!rows)
        return SB_ERR_MEMORY;
    for (size_t i = 0; i <= HALVES; i++, by = i == 1 ? t->by : by / 2) {
        memcpy(rows + i * n, x, n * sizeof *x);
        rows[i * n + t->at] = (float)((double)x[t->at] + by);
    }
    sb_status status = sb_quantize_input(call->knobs, w, rows, HALVES + 1, &q);
    if (!status) {
        size_t first = t->at / q.group * q.group, end = group_end(&q, n, first);
        while (row < HALVES && is_other(&q, n, row + 1, t->at))
            row++;
        memcpy(own + first, rows + row * n + first, (end - first) * sizeof *own);
        sb_input_free(&q);
    }
    free(rows);
    return status;
}

double sb_envelope_squares(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)a[i] - (double)b[i];
        sum += d * d;
    }
    return sum;
}

double sb_envelope_mean_square(const float *a, const float *b, size_t n)
{
    return sb_envelope_squares(a, b, n) / (double)n;
}

/* T-42: "within the bound of T-41 for that row of the tight runs, or within the second factor of
 * T-41 times the noise of the loose run itself" */
double sb_envelope_window(const sb_envelope *e, const float *own, size_t at, size_t n)
{
    double squares = 0, lanes = 0;
    for (size_t i = 1; i < e->count; i += 2, lanes++)
        squares += e->lanes[i].apart[at];
    double tight = e->input_factor * sb_sqrt64(squares / (lanes > 0 ? lanes : 1));
    double loose = e->input_tail * sb_sqrt64(sb_envelope_mean_square(own, e->tape + at, n));
    return tight > loose ? tight : loose;
}

/* T-42: "one open code of this input falls the other way. It is the code that changes the row most,
 * unless the run's own codes change the row more" */
static sb_status fall_row(const sb_envelope *e, const sb_op_call *call, size_t at, float *own)
{
    const float *x = e->tape + at;
    const sb_matrix *w = ((const sb_linear_args *)call->args)->weight;
    size_t n = w->cols;
    double window = sb_envelope_window(e, own, at, n);
    float *rows = sb_alloc(ROWS * n, sizeof *rows);
    sb_input q;
    sb_status status = rows ? sb_input_open(call->knobs, w, 1, &q) : SB_ERR_MEMORY;
    if (!status) {
        memcpy(rows, x, n * sizeof *x);
        memcpy(rows + ROW_own * n, own, n * sizeof *own);
        moved(x, n, q.group, window, rows);
        sb_input_free(&q);
        status = sb_quantize_input(call->knobs, w, rows, ROWS, &q);
    }
    if (!status) {
        tie t = largest_open(&q, x, rows, n);
        if (t.squares > square_apart(&q, n, ROW_own, 0, n))
            status = take_other_side(call, x, &t, own);
        sb_input_free(&q);
    }
    free(rows);
    return status;
}

/* T-42: "In every second row (the next loose run in the remaining rows; a single loose run in all
 * rows)" */
static sb_status fallen(sb_envelope_lane *lane, const sb_op_call *call, size_t at)
{
    const sb_linear_args *a = call->args;
    size_t n = a->weight->cols;
    float *in = sb_alloc(a->rows * n, sizeof *in);
    sb_linear_args fell = *a;
    sb_op_call other = *call;
    sb_status status = in ? SB_OK : SB_ERR_MEMORY;
    if (in)
        memcpy(in, a->in, a->rows * n * sizeof *in);
    for (size_t r = 0; r < a->rows && !status; r++)
        if (sb_envelope_takes(lane, "open codes", at + r * n))
            status = fall_row(lane->of, call, at + r * n, in + r * n);
    fell.in = in;
    other.args = &fell;
    if (!status)
        status = sb_envelope_run(lane->of, &other);
    free(in);
    return status;
}

/* T-42: a tight run "reads the input of the reference" */
sb_status sb_envelope_linear(sb_envelope_lane *lane, const sb_op_call *call)
{
    sb_envelope *e = lane->of;
    const sb_linear_args *a = call->args;
    size_t count = a->rows * a->weight->cols, at = lane->at;
    sb_linear_args held = *a;
    sb_op_call other = *call;
    if (sb_input_scheme(call->knobs, a->weight) == SB_SCHEME_none)
        return sb_envelope_run(e, call);
    if (lane->number == 0) {
        sb_status status = sb_envelope_record(e, a->in, count);
        return status ? status : sb_envelope_run(e, call);
    }
    lane->at += count;
    if (lane->at > e->tape_count)
        return sb_envelope_run(e, call);
    const int same = same_expert(lane, call), tight = sb_envelope_is_tight(e, lane->number);
    const size_t n = a->weight->cols;
    for (size_t r = 0; r < a->rows && tight; r++)
        lane->apart[at + r * n] =
            same ? sb_envelope_mean_square(a->in + r * n, e->tape + at + r * n, n) : 0;
    if (!same)
        return sb_envelope_run(e, call);
    if (!tight)
        return fallen(lane, call, at);
    held.in = e->tape + at;
    other.args = &held;
    return sb_envelope_run(e, &other);
}
