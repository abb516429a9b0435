#include "tools/judge/compare/bias.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/rng.h"
#include "ref/ops/act_quant.h"
#include "ref/ops/knob.h"
#include "tools/judge/bound/wide_fn.h"
#include "tools/judge/compare/bets.h"

/* T-98: "odds of 8 * 10^6 to 1": four directions, two bets on each, and a chance of 10^-6 for an
 * op. */
#define LOG_ODDS 15.894952099644
#define LOG_10 2.302585092994046

/* --- what may be shared ----------------------------------------------------------------------- */

#define NO_FIGURE (-1.0)

/* The error of a division is that of its rounding, or may be shared. */
static double division(const sb_functions *f)
{
    return f->divide > 1 ? f->divide : 0;
}

static double relative_of(const sb_functions *f, const sb_op_call *call)
{
    const int quantized = call->op == SB_OP_linear &&
                          sb_matrix_quantized(((const sb_linear_args *)call->args)->weight);
    /* an error that grows with the argument has no figure */
    const double none = -0x1p20, exponential = f->exp_slope > 0 ? none : f->exp;
#define EXACT none
#define OPEN none
#define EXP exponential
#define SIGMOID (exponential + division(f))
#define SILU (exponential + division(f))
#define LOG1P f->log1p
#define RSQRT f->rsqrt
#define TURN f->turn
#define QUANTIZED quantized
    switch (call->op) {
#define SB_BIAS(op, relative, absolute)                                                            \
    case SB_OP_##op:                                                                               \
        return relative;
#include "tools/judge/compare/bias.def"
#undef SB_BIAS
    case SB_OP_COUNT:
        break;
    }
    return none;
}

static int absolute_of(sb_op op)
{
    static const int absolute[SB_OP_COUNT] = {
#define SB_BIAS(op, relative, absolute) [SB_OP_##op] = absolute,
#include "tools/judge/compare/bias.def"
#undef SB_BIAS
    };
    return absolute[op];
}

/* Ops whose products a matrix unit may add (T-51). */
static int may_cut(sb_op op)
{
    return op == SB_OP_linear || op == SB_OP_attention || op == SB_OP_delta_rule_chunk;
}

static int has_quantized_input(const sb_op_call *call)
{
    const sb_linear_args *a = call->args;
    return call->op == SB_OP_linear && sb_matrix_quantized(a->weight) &&
           sb_input_scheme(call->knobs, a->weight) != SB_SCHEME_none;
}

#define BIT(direction) (1u << SB_BIAS_##direction)

sb_bias_rule sb_bias_rule_of(const sb_arithmetic *ar, const sb_op_call *call)
{
    sb_bias_rule rule = {.relative = relative_of(ar->functions, call)};
    const int narrow = !SB_IS(call->knobs, act, f32);
    if (rule.relative < 0 || (narrow && rule.relative > 0) || has_quantized_input(call))
        return (sb_bias_rule){.relative = NO_FIGURE};
    rule.tested = BIT(away) | BIT(toward) | (absolute_of(call->op) ? BIT(up) | BIT(down) : 0);
    if (may_cut(call->op) && (ar->atom || ar->fp8 || ar->fp4))
        rule.tested = BIT(away);
    return rule;
}

/* --- rows ------------------------------------------------------------------------------------- */

/* What was seen of one op. */
typedef struct seen_op {
    size_t rows;
    double relative, absolute; /* sums of the mean errors of rows, in u */
    double logs[SB_BIAS_DIRECTIONS][SB_STAKES];
    int direction; /* the first that was rejected, or SB_BIAS_none */
    sb_place place;
} seen_op;

/* The rows that were counted, in a table with open addresses. Only asked whether it holds a key. */
typedef struct seen_rows {
    uint64_t *keys;
    size_t count, room;
} seen_rows;

struct sb_bias {
    seen_op ops[SB_OP_COUNT];
    seen_rows rows;
};

enum { FIRST_ROOM = 1024, MOST_ROWS = 1 << 20 };

sb_status sb_bias_new(sb_bias **out)
{
    *out = sb_alloc(1, sizeof **out);
    return *out ? SB_OK : SB_ERR_MEMORY;
}

void sb_bias_free(sb_bias *b)
{
    if (b)
        free(b->rows.keys);
    free(b);
}

/* The place of a key, or the free place for it. */
static size_t place_of(const uint64_t *keys, size_t room, uint64_t key)
{
    size_t at = (size_t)key & (room - 1);
    while (keys[at] && keys[at] != key)
        at = (at + 1) & (room - 1);
    return at;
}

static sb_status make_room(seen_rows *s)
{
    const size_t room = s->room ? 2 * s->room : FIRST_ROOM;
    uint64_t *keys = sb_alloc(room, sizeof *keys); /* zeroed */
    if (!keys)
        return SB_ERR_MEMORY;
    for (size_t i = 0; i < s->room; i++)
        if (s->keys[i])
            keys[place_of(keys, room, s->keys[i])] = s->keys[i];
    free(s->keys);
    s->keys = keys;
    s->room = room;
    return SB_OK;
}

/* T-98: "only the first row of a token counts" - and the part of it that one matrix makes */
static sb_status is_first(seen_rows *s, const sb_bias_row *row, int *first)
{
    const uint64_t key =
        sb_rng_key(((uint64_t)row->token << 32) + row->column, row->name) | 1; /* never 0 */
    *first = 0;
    if (s->count == MOST_ROWS)
        return SB_OK;
    if (2 * s->count >= s->room && make_room(s))
        return SB_ERR_MEMORY;
    const size_t at = place_of(s->keys, s->room, key);
    *first = !s->keys[at];
    s->count += !s->keys[at];
    s->keys[at] = key;
    return SB_OK;
}

typedef struct row_sums {
    double errors, along, squares, magnitudes;
} row_sums;

static row_sums sums_of(const sb_bias_row *row)
{
    row_sums s = {0};
    for (size_t i = 0; i < row->count; i++) {
        const double e = (double)row->expected[i], d = (double)row->found[i] - e;
        s.errors += d;
        s.along += d * e;
        s.squares += e * e;
        s.magnitudes += sb_wide_abs(e);
    }
    return s;
}

/* T-98: "each has a chance of at most one half" */
static void bet(seen_op *op, const sb_bias_row *row, const row_sums *s)
{
    const double along = row->rule.relative * SB_UNIT * s->squares,
                 errors = row->rule.relative * SB_UNIT * s->magnitudes;
    const int happened[SB_BIAS_DIRECTIONS] = {[SB_BIAS_away] = s->along > along,
                                              [SB_BIAS_toward] =
                                                  s->along<-along, [SB_BIAS_up] = s->errors> errors,
                                              [SB_BIAS_down] = s->errors < -errors};
    for (int d = SB_BIAS_none + 1; d < SB_BIAS_DIRECTIONS; d++) {
        if (!(row->rule.tested >> d & 1u))
            continue;
        const double log = sb_bet_on_event(op->logs[d], happened[d], 0.5);
        if (log > LOG_ODDS && op->direction == SB_BIAS_none) {
            op->direction = d;
            op->place = row->place;
        }
    }
}

sb_status sb_bias_see(sb_bias *b, const sb_bias_row *row, int *repeats)
{
    const row_sums s = sums_of(row);
    int first;
    *repeats = 0;
    /* a row without an error says nothing; neither do numbers that may have been flushed to 0 */
    if (!row->rule.tested || !(s.magnitudes > 0x1p-100) || (s.errors == 0 && s.along == 0))
        return SB_OK;
    sb_status status = is_first(&b->rows, row, &first);
    *repeats = !first;
    if (status || !first)
        return status;
    seen_op *op = &b->ops[row->op];
    op->rows++;
    op->relative += s.along / s.squares / SB_UNIT;
    op->absolute += s.errors / s.magnitudes / SB_UNIT;
    bet(op, row, &s);
    return SB_OK;
}

/* --- the judgement ---------------------------------------------------------------------------- */

static double most_of(const seen_op *op, sb_bias_direction direction)
{
    return sb_wide_max(op->logs[direction][0], op->logs[direction][1]);
}

/* The odds of the best bet, as a power of ten. */
static double odds_of(const seen_op *op)
{
    double most = 0;
    for (int d = SB_BIAS_none + 1; d < SB_BIAS_DIRECTIONS; d++)
        most = sb_wide_max(most, most_of(op, (sb_bias_direction)d));
    return most / LOG_10;
}

const char *sb_bias_way(sb_bias_direction direction)
{
    static const char *const ways[SB_BIAS_DIRECTIONS] = {[SB_BIAS_none] = "none",
                                                         [SB_BIAS_away] = "too large",
                                                         [SB_BIAS_toward] = "too small",
                                                         [SB_BIAS_up] = "too high",
                                                         [SB_BIAS_down] = "too low"};
    return ways[direction];
}

static void say(const seen_op *op, const char *name, sb_op_bias *out)
{
    const int relative = out->direction == SB_BIAS_away || out->direction == SB_BIAS_toward;
    snprintf(out->words, sizeof out->words,
             "bias: the results of %s are %s by %.3g u%s, on average over %zu rows: the chance of "
             "round to nearest is 10^-%.1f",
             name, sb_bias_way(out->direction),
             sb_wide_abs(relative ? out->relative : out->absolute),
             relative ? "" : " of their mean magnitude", out->rows,
             most_of(op, out->direction) / LOG_10);
}

sb_bias_direction sb_bias_found(const sb_bias *b, sb_op op)
{
    return (sb_bias_direction)b->ops[op].direction;
}

/* What a correct engine's results may be like. */
static const char *null_of(const sb_verdicts *v, sb_op op)
{
    if (!may_cut(op) || v->fit.declared)
        return v->fit.declared && may_cut(op) ? "the declared matrix unit, which cuts toward zero"
                                              : "round to nearest";
    return op == SB_OP_linear && v->fit.groups
               ? "round to nearest, and every unit of docs/atoms.md that fits"
               : "round to nearest; a unit of docs/atoms.md may cut toward zero";
}

void sb_bias_finish(const sb_bias *b, sb_verdicts *v)
{
    for (size_t i = 0; i < SB_OP_COUNT; i++) {
        const seen_op *op = &b->ops[i];
        sb_op_bias *out = &v->ops[i].bias;
        const double rows = op->rows ? (double)op->rows : 1;
        *out = (sb_op_bias){.rows = op->rows,
                            .direction = (sb_bias_direction)op->direction,
                            .relative = op->relative / rows,
                            .absolute = op->absolute / rows,
                            .odds = odds_of(op),
                            .place = op->place,
                            .null = null_of(v, (sb_op)i)};
        if (out->direction != SB_BIAS_none)
            say(op, sb_op_name(i), out);
    }
}
