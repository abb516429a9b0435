#include "tools/judge/compare/fit.h"

#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/base/rng.h"
#include "ref/formats/atoms.h"
#include "ref/formats/plain_row.h"
#include "ref/ops/act_quant.h"
#include "ref/ops/knob.h"
#include "ref/ops/rounding.h"
#include "tools/judge/compare/bets.h"
#include "tools/judge/sim/arith.h"

enum { COLUMNS = 4, MOST_GROUPS = 1024 };

/* T-100: "odds of 2 * 10^6 to 1": two bets on one direction, and a chance of 10^-6 for a row. */
#define LOG_ODDS 14.508657738524
#define LOG_10 2.302585092994046

/* Some results of one row, and what each unit gives. */
typedef struct group {
    const float *at[COLUMNS];
    float result[COLUMNS][SB_ATOM_COUNT];
    size_t count;
} group;

struct sb_fit {
    group *groups; /* results that are not judged yet */
    size_t count, room, made;
    size_t seen;
    double sums[SB_STAKES], logs[SB_ATOM_COUNT][SB_STAKES];
};

/* The sums of a unit in binary32, without scales in between; the first of equal rows. */
static int is_tried(size_t row)
{
    const sb_atom *a = &sb_atoms[row];
    if (a->group != 1 || a->sums != SB_ATOM_F32)
        return 0;
    for (size_t i = 0; i < row; i++) {
        const sb_atom *b = &sb_atoms[i];
        if (a->terms == b->terms && a->block == b->block && a->order == b->order &&
            a->fraction == b->fraction && a->kept == b->kept && b->group == 1 &&
            b->sums == SB_ATOM_F32 && a->addend == b->addend)
            return 0;
    }
    return 1;
}

sb_status sb_fit_new(sb_fit **out)
{
    *out = sb_alloc(1, sizeof **out);
    return *out ? SB_OK : SB_ERR_MEMORY;
}

void sb_fit_free(sb_fit *fit)
{
    if (fit)
        free(fit->groups);
    free(fit);
}

/* --- samples ---------------------------------------------------------------------------------- */

static int is_inside(const float *p, const float *base, size_t count)
{
    return p >= base && p < base + count;
}

/* Drops the groups whose results lie in an array. */
static void forget(sb_fit *fit, const float *base, size_t count)
{
    size_t left = 0;
    for (size_t i = 0; i < fit->count; i++)
        if (!is_inside(fit->groups[i].at[0], base, count))
            fit->groups[left++] = fit->groups[i];
    fit->count = left;
}

static void sample(const sb_linear_args *a, const sb_knobs *knobs, size_t row, size_t column,
                   const float *weight, group *g)
{
    const size_t k = a->weight->cols;
    const int wide = sb_linear_stays_wide(knobs, a->kind);
    for (size_t i = 0; i < SB_ATOM_COUNT; i++) {
        if (!is_tried(i))
            continue;
        const float sum = sb_sim_atom_dot(&sb_atoms[i], a->in + row * k, 1, weight, 1, k);
        g->result[g->count][i] = wide ? sum : sb_act(knobs, sum);
    }
    g->at[g->count++] = a->out + row * a->weight->rows + column;
}

static int is_sampled(const sb_linear_args *a, const sb_knobs *knobs)
{
    return !sb_matrix_quantized(a->weight) && SB_IS(knobs, linear_input, act) &&
           a->weight->rows >= COLUMNS;
}

sb_status sb_fit_linear(sb_fit *fit, const sb_op_call *call)
{
    const sb_linear_args *a = call->args;
    if (call->op != SB_OP_linear || !is_sampled(a, call->knobs))
        return SB_OK;
    forget(fit, a->out, a->rows * a->weight->rows);
    float *weight = sb_alloc(a->weight->cols, sizeof *weight);
    sb_status status = weight ? SB_OK : SB_ERR_MEMORY;
    for (size_t row = 0; row < a->rows && !status && fit->made < MOST_GROUPS; row++) {
        group *more = sb_grow(fit->groups, fit->count, &fit->room, sizeof *more);
        if (!more) {
            status = SB_ERR_MEMORY;
            break;
        }
        fit->groups = more;
        group *g = &fit->groups[fit->count++];
        *g = (group){.count = 0};
        fit->made++;
        const uint64_t key = sb_rng_key(fit->made, call->name);
        for (size_t i = 0; i < COLUMNS; i++) {
            const size_t part = a->weight->rows / COLUMNS;
            const size_t column = i * part + (size_t)sb_rng_below(key, i, (uint32_t)part);
            sb_matrix_row(a->weight, (uint32_t)column, weight);
            sample(a, call->knobs, row, column, weight, g);
        }
    }
    free(weight);
    return status;
}

/* --- bets ------------------------------------------------------------------------------------- */

/* T-100: "so its results are smaller than the unit's own, sum((x - y) e) < 0, in at most one half"
 */
static void bet(double logs[SB_STAKES], double along)
{
    if (along < 0 || along > 0)
        sb_bet_on_event(logs, along < 0, 0.5);
}

static void bet_on_all(sb_fit *fit, const group *g, const float *found, const float *expected)
{
    double along[SB_ATOM_COUNT] = {0}, sums = 0.0;
    for (size_t i = 0; i < g->count; i++) {
        const size_t at = (size_t)(g->at[i] - expected);
        const double x = (double)found[at], e = (double)expected[at];
        sums += (x - e) * e;
        for (size_t row = 0; row < SB_ATOM_COUNT; row++)
            along[row] += is_tried(row) ? (x - (double)g->result[i][row]) * e : 0.0;
    }
    bet(fit->sums, sums);
    for (size_t row = 0; row < SB_ATOM_COUNT; row++)
        bet(fit->logs[row], along[row]);
}

void sb_fit_see(sb_fit *fit, const float *found, const float *expected, size_t count, int counts)
{
    for (size_t i = 0; i < fit->count && counts; i++) {
        const group *g = &fit->groups[i];
        if (!is_inside(g->at[0], expected, count) ||
            !is_inside(g->at[g->count - 1], expected, count))
            continue;
        fit->seen++;
        bet_on_all(fit, g, found, expected);
    }
    forget(fit, expected, count);
}

/* --- the rows that fit ------------------------------------------------------------------------ */

/* T-100: "A row of docs/atoms.md that cuts fewer bits is tighter" */
static int is_tighter(const sb_atom *a, const sb_atom *b)
{
    if (a->kept != b->kept)
        return a->kept > b->kept;
    return a->fraction != b->fraction ? a->fraction > b->fraction : a->block > b->block;
}

static double odds_of(const double logs[SB_STAKES])
{
    return logs[0] > logs[1] ? logs[0] : logs[1];
}

void sb_fit_finish(const sb_fit *fit, sb_bias_direction bias, sb_verdicts *v)
{
    sb_fit_verdict *out = &v->fit;
    /* T-100: "Results that are too large fit no unit" */
    const int may_fit = bias == SB_BIAS_none || bias == SB_BIAS_toward;
    *out = (sb_fit_verdict){.groups = fit->seen,
                            .sums = bias == SB_BIAS_none && odds_of(fit->sums) <= LOG_ODDS};
    for (size_t i = 0; i < SB_ATOM_COUNT; i++) {
        if (!is_tried(i) || !fit->seen)
            continue;
        const double odds = odds_of(fit->logs[i]);
        const int fits = may_fit && odds <= LOG_ODDS;
        sb_fit_row *row = &out->rows[out->count++];
        *row = (sb_fit_row){.name = sb_atoms[i].name, .fits = fits, .odds = odds / LOG_10};
        if (fits && (!out->tightest || is_tighter(&sb_atoms[i], sb_atom_find(out->tightest))))
            out->tightest = row->name;
    }
}
