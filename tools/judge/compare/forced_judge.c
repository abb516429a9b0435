/* forced_judge.c - a recorded value against the reference's, element by element. */
#include "tools/judge/compare/forced_parts.h"

#include <stdio.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/container/show.h"
#include "tools/judge/bound/wide_fn.h"

/* error / bound. Infinite for an error with a bound of 0; NaN counts as outside. */
static double ratio_of(double error, double bound)
{
    double infinite = 0x1p1023 * 2.0;
    if (error == 0.0)
        return 0.0;
    return error > 0.0 && bound > 0.0 ? error / bound : infinite;
}

/* T-16: "of the elements that differ from the reference's". The bin of a ratio. */
static size_t bin_of(double ratio)
{
    uint64_t quarters = sb_bits_f64(ratio) >> 50; /* exponent and two bits of the mantissa */
    uint64_t lowest = (uint64_t)(1023 + FORCED_LOWEST) * FORCED_OCTAVE;
    uint64_t bin = quarters < lowest ? 0 : quarters - lowest;
    return bin < FORCED_BINS ? (size_t)bin : FORCED_BINS - 1;
}

void forced_count_value(forced_count *c, float found)
{
    c->nonzero += found != 0.0f;
    if (!c->has_first) {
        c->has_first = 1;
        c->first = found;
    }
    c->distinct += found != c->first;
}

double forced_count_element(sb_forced *f, sb_op op, float found, float expected, double bound,
                            int alone)
{
    sb_op_verdict *v = &f->options.verdicts->ops[op];
    forced_count *c = &f->counts[op];
    double ratio = ratio_of(sb_wide_abs((double)found - (double)expected), bound);
    v->compared++;
    v->identical += found == expected; /* a zero of either sign is the same value */
    v->open += bound > 0.0;
    v->worst = sb_wide_max(v->worst, ratio);
    if (alone)
        c->worst = sb_wide_max(c->worst, ratio);
    if (alone && bound > 0.0 &&
        found != expected) { /* also if the bound is infinite and the ratio 0 */
        c->differing++;
        c->ratio[bin_of(ratio)]++;
    }
    c->open += alone && bound > 0.0;
    c->pinned += alone && bound == 0.0 && found != 0.0f;
    forced_count_value(c, found);
    return ratio;
}

/* In the first call the head makes one entry fewer than the call has rows. */
size_t forced_step_row(const sb_forced *f, const char *name, size_t row, size_t rows)
{
    if (strcmp(name, "logits") == 0)
        return f->logits_row;
    if (forced_is_drafter(name))
        return f->row + f->made_late + row;
    return f->row + row + (f->rows > rows ? f->rows - rows : 0);
}

static void mark(const sb_forced *f, size_t row, uint32_t layer, double ratio)
{
    if (f->worst && f->worst[row] < ratio)
        f->worst[row] = ratio;
    if (f->options.cells)
        sb_cells_mark(f->options.cells, row, layer, ratio);
}

void forced_failing(const sb_forced *f, const sb_place *place, sb_op op, uint32_t layer,
                    const uint64_t column[2], uint64_t columns, int state)
{
    sb_failing one = {.op = op,
                      .layer = layer,
                      .state = state,
                      .choice = !columns,
                      .kinds = 1U << f->kind,
                      .token = {place->token, place->token},
                      .column = {column[0], column[1]},
                      .columns = columns};
    snprintf(one.name, sizeof one.name, "%s", place->name);
    sb_verdicts_failing(f->options.verdicts, &one);
}

int forced_fail(sb_forced *f, const sb_place *place, size_t row, double ratio)
{
    mark(f, row, place->layer, ratio);
    return sb_verdicts_fail(f->options.verdicts, place);
}

/* The first row of the current call among the recorded rows of a tap. */
static size_t first_row(const sb_forced *f, const char *name)
{
    if (strcmp(name, "logits") == 0)
        return f->logits;
    if (forced_is_drafter(name))
        return f->made;
    return strncmp(name, "mtp.", 4) == 0 ? f->entry : f->row;
}

const float *forced_recorded(const sb_forced *f, const char *name, size_t rows, size_t cols)
{
    const sb_step_value *v = sb_step_find(&f->step->taps, name);
    size_t first = first_row(f, name);
    if (!v || !v->data || v->cols != cols || first > v->rows || rows > v->rows - first)
        return NULL;
    return v->data + first * cols;
}

/* One row of one array: elements column .. column + count - 1 of a value. */
typedef struct piece {
    const char *name;
    const sb_known *from;
    size_t row, rows, column, count, cols; /* cols: of the whole value */
    const float *found;
    const float *expected;
} piece;

/* The layer that made the value. Values before and after the layer of the head, or of the drafter,
 * belong to it. */
static uint32_t layer_of(const sb_forced *f, const piece *p)
{
    int head = p->from->layer == SB_NO_LAYER && strncmp(p->name, "mtp.", 4) == 0;
    return forced_is_drafter(p->name) ? f->model->config.layers + 1
           : head                     ? f->model->config.layers
                                      : p->from->layer;
}

static double bound_at(const piece *p, size_t i)
{
    size_t at = (size_t)(p->expected - p->from->base) + i;
    return SB_BOUND_SLACK * sb_ball_distance(p->from->ours[at], p->from->theirs[at]);
}

/* Keeps the elements around the first failure for the reports. */
static void keep_around(sb_around *around, const piece *p, size_t i)
{
    size_t last = p->count > SB_AROUND ? p->count - SB_AROUND : 0;
    size_t first = i < SB_AROUND / 2 ? 0 : i - SB_AROUND / 2;
    first = first < last ? first : last;
    around->first = p->column + first;
    around->count = p->count < SB_AROUND ? p->count : SB_AROUND;
    for (size_t k = 0; k < around->count; k++) {
        around->found[k] = p->found[first + k];
        around->expected[k] = p->expected[first + k];
        around->bound[k] = bound_at(p, first + k);
    }
}

/* T-91: some value on the way to this one was not recorded. */
static int is_inside(const sb_known *known)
{
    return known->chained || known->waiting.count;
}

static void say_segment(const sb_known *known, sb_place *place)
{
    size_t used = strlen(place->words), left = sizeof place->words - used;
    if (*place->after)
        snprintf(place->words + used, left, "; the fault lies between %s and %s", place->after,
                 place->name);
    else if (is_inside(known))
        snprintf(place->words + used, left, "; some values before it were not recorded");
}

/* columns: those of the first and the last failed element of the piece */
static void fail_at(sb_forced *f, const piece *p, size_t i, double bound, double ratio,
                    const uint64_t columns[2])
{
    size_t row = forced_step_row(f, p->name, p->row, p->rows);
    sb_place place = {.sequence = f->at->id,
                      .token = f->step->rows[row].position,
                      .layer = layer_of(f, p),
                      .rank = 1,
                      .element = {p->column + i},
                      .found = (double)p->found[i],
                      .expected = (double)p->expected[i],
                      .bound = bound};
    snprintf(place.op, sizeof place.op, "%s", sb_op_name(p->from->op));
    snprintf(place.name, sizeof place.name, "%s", p->name);
    if (is_inside(p->from))
        snprintf(place.after, sizeof place.after, "%s", forced_value_name(f, p->from->source));
    forced_failing(f, &place, p->from->op, p->from->layer, columns, p->cols, 0);
    snprintf(place.words, sizeof place.words,
             "%s: sequence %u, token %llu, column %zu is %.9g, expected %.9g within %.3g: "
             "%.3g times the bound",
             place.name, (unsigned)place.sequence, (unsigned long long)place.token, p->column + i,
             place.found, place.expected, bound, ratio);
    say_segment(p->from, &place);
    if (forced_fail(f, &place, row, ratio))
        keep_around(&f->options.verdicts->around, p, i);
    const sb_place *first = &f->options.verdicts->first_failure;
    if (!f->options.bundle || f->broken || strcmp(first->words, place.words) != 0)
        return;
    if (forced_is_drafter(p->name))
        forced_no_bundle(f, &place, "is a value of the drafter, whose weights no bundle holds");
    else if (p->from->chained)
        forced_no_bundle(f, &place, "depends on values that were not recorded");
    else
        f->broken = forced_bundle(f, &place, p->from, p->expected + i, p->found + i, &f->why);
}

/* T-98: "Of the delta rule only the first row of a call counts, if the state before it is known to
 * be the reference's" */
static int has_own_errors(sb_forced *f, const piece *p)
{
    if (p->from->op != SB_OP_delta_rule && p->from->op != SB_OP_delta_rule_chunk)
        return 1;
    return p->row == 0 && forced_memory_of(f, p->from->layer)->state_same;
}

static sb_status see_bias(sb_forced *f, const piece *p)
{
    const sb_step_row *row = &f->step->rows[forced_step_row(f, p->name, p->row, p->rows)];
    sb_bias_row seen = {
        .op = p->from->op,
        .rule = p->from->bias,
        .name = p->name,
        .column = p->column,
        .token = row->token,
        .found = p->found,
        .expected = p->expected,
        .count = p->count,
        .place = {
            .sequence = f->at->id, .token = row->position, .layer = layer_of(f, p), .rank = 0}};
    if (f->step->again || is_inside(p->from) || !p->from->bias.tested || !has_own_errors(f, p))
        return SB_OK;
    snprintf(seen.place.op, sizeof seen.place.op, "%s", sb_op_name(p->from->op));
    snprintf(seen.place.name, sizeof seen.place.name, "%s", p->name);
    int repeats;
    sb_status status = sb_bias_see(f->bias, &seen, &repeats);
    if (f->fit && p->from->op == SB_OP_linear && p->from->bias.relative <= 0)
        sb_fit_see(f->fit, p->found, p->expected, p->count, !repeats);
    return status;
}

/* Notes the distance of the watched element. */
static void watch(const sb_forced *f, const piece *p, size_t row)
{
    sb_forced_watch *w = f->options.watch;
    if (!w || w->seen || f->at->id != w->at->sequence ||
        f->step->rows[row].position != w->at->token || strcmp(p->name, w->at->name) != 0 ||
        w->at->element[0] < p->column || w->at->element[0] - p->column >= p->count)
        return;
    size_t i = (size_t)(w->at->element[0] - p->column);
    w->seen = 1;
    w->apart = sb_wide_abs((double)p->found[i] - (double)p->expected[i]);
}

static sb_status judge_piece(sb_forced *f, const piece *p)
{
    size_t row = forced_step_row(f, p->name, p->row, p->rows), failed = 0, first = 0, last = 0;
    double worst = 0.0, first_ratio = 0.0;
    for (size_t i = 0; i < p->count; i++) {
        double ratio = forced_count_element(f, p->from->op, p->found[i], p->expected[i],
                                            bound_at(p, i), !is_inside(p->from));
        worst = sb_wide_max(worst, ratio);
        if (ratio <= 1.0)
            continue;
        last = i;
        if (!failed++) {
            first = i;
            first_ratio = ratio;
        }
    }
    if (failed)
        fail_at(f, p, first, bound_at(p, first), first_ratio,
                (const uint64_t[2]){p->column + first, p->column + last});
    watch(f, p, row);
    mark(f, row, layer_of(f, p), worst);
    return failed ? SB_OK : see_bias(f, p);
}

/* Judges all arrays that one row of a value lies in. *blind grows by the number of elements without
 * balls. */
static sb_status judge_row(sb_forced *f, piece p, size_t cols, size_t *blind)
{
    sb_status status = SB_OK;
    const float *found = p.found, *expected = p.expected;
    for (size_t column = 0; column < cols && !status; column += p.count) {
        p.from = sb_known_find(&f->known, expected + column);
        p.count = cols - column;
        p.column = column;
        p.found = found + column;
        p.expected = expected + column;
        size_t rest = p.from ? p.from->count - (size_t)(p.expected - p.from->base) : p.count;
        p.count = rest < p.count ? rest : p.count;
        if (p.from && p.from->ours)
            status = judge_piece(f, &p);
        else
            *blind += p.count;
    }
    return status;
}

int forced_all_finite(const float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!sb_is_finite_f32(x[i]))
            return 0;
    return 1;
}

/* Replaces the reference's values by the recorded ones. If any of these is not finite, keeps the
 * reference's values, and ops that read them are not judged. */
static sb_status adopt(sb_forced *f, const float *found, float *data, size_t count, uint32_t value)
{
    int finite = forced_all_finite(found, count);
    for (size_t i = 0; i < count && finite; i++)
        data[i] = found[i];
    return sb_known_set(&f->known, data, count, finite ? SB_KNOWN_exact : SB_KNOWN_not, value);
}

/* T-91: "a kernel need not round what it does not write". Adds that rounding to the engine's balls.
 * Between a linear layer, swiglu and the sum of experts the knobs name what is rounded (K-6, K-13,
 * K-14), so these values are as the knobs say. */
static void loosen(const sb_forced *f, sb_known *k)
{
    const sb_format act = sb_act_format(&f->knobs);
    const double unit = act == SB_FORMAT_bf16 ? 0x1p-8 : 0x1p-11;
    const int named = k->op == SB_OP_linear || k->op == SB_OP_swiglu || k->op == SB_OP_moe_combine;
    const int copied = k->op == SB_OP_embed || k->op == SB_OP_split_gate;
    if (act == SB_FORMAT_f32 || !k->theirs || named || copied)
        return;
    for (size_t i = 0; i < k->count; i++)
        k->theirs[i].rad += unit * (sb_wide_abs(k->theirs[i].mid) + k->theirs[i].rad);
    k->kind = SB_KNOWN_balls;
    k->chained = 1;
}

/* T-91: a value that was not recorded waits until a value that depends on it is judged. */
static sb_status wait(sb_forced *f, const char *name, sb_op op, const float *data, size_t count)
{
    uint32_t value;
    f->options.verdicts->skipped_taps++;
    sb_status status = forced_add_value(f, name, op, f->layer, SB_WAY_not, &value);
    for (size_t i = 0; i < f->known.count && !status; i++) {
        sb_known *k = &f->known.items[i];
        if ((uintptr_t)k->base >= (uintptr_t)data &&
            (uintptr_t)k->base < (uintptr_t)(data + count) && k->kind != SB_KNOWN_not) {
            status = sb_marks_add(&k->waiting, value);
            loosen(f, k);
        }
    }
    return status;
}

/* Notes that a recorded value was judged, with all values that waited for it. */
static void reach(sb_forced *f, uint32_t value, const float *data, size_t count)
{
    int inside = 0;
    for (size_t i = 0; i < f->known.count; i++) {
        const sb_known *k = &f->known.items[i];
        if ((uintptr_t)k->base >= (uintptr_t)(data + count) ||
            (uintptr_t)(k->base + k->count) <= (uintptr_t)data)
            continue;
        inside |= is_inside(k);
        forced_reach(f, &k->waiting);
    }
    forced_set_way(f, value, inside ? SB_WAY_inside : SB_WAY_alone);
}

sb_status forced_judge(sb_forced *f, const char *name, float *data, size_t rows, size_t cols)
{
    const float *found = forced_recorded(f, name, rows, cols);
    const sb_known *made = sb_known_find(&f->known, data);
    sb_op op = made && made->op < SB_OP_COUNT ? made->op : f->op;
    uint32_t value = SB_NO_VALUE;
    size_t blind = 0;
    if (!found)
        return f->replay ? SB_OK : wait(f, name, op, data, rows * cols);
    if (!f->replay) {
        sb_status status = forced_add_value(f, name, op, f->layer, SB_WAY_not, &value);
        if (status)
            return status;
        for (size_t row = 0; row < rows && !status; row++)
            status = judge_row(f,
                               (piece){.name = name,
                                       .cols = cols,
                                       .row = row,
                                       .rows = rows,
                                       .found = found + row * cols,
                                       .expected = data + row * cols},
                               cols, &blind);
        if (status)
            return status;
        f->counts[op].calls++;
        if (!blind)
            reach(f, value, data, rows * cols);
    }
    return adopt(f, found, data, rows * cols, value);
}
