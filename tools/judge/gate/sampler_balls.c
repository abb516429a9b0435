#include "tools/judge/gate/sampler_balls.h"

#include "tools/judge/bound/wide_fn.h"

/* V-56: "in an arithmetic of any order the division may come first": P-3, "e_i = exp( RN( RN(l_i -
 * max l) / temperature ) )", of token i. The largest is exactly 1. */
static sb_ball exponential(const sb_arithmetic *ar, const sb_gate_row *row, uint32_t i)
{
    float largest = row->logits[row->order[0]], l = row->logits[i];
    if (l == largest)
        return sb_ball_of(1.0f);
    sb_ball t = sb_ball_of(row->settings.temperature);
    sb_ball x = sb_ball_div(ar, sb_ball_sub(ar, sb_ball_of(l), sb_ball_of(largest)), t);
    if (ar->any_order) {
        double sizes = sb_wide_abs((double)l) + sb_wide_abs((double)largest);
        double centre = ((double)l - (double)largest) / t.mid;
        x = (sb_ball){centre,
                      SB_UNIT * (2.0 * sizes / t.mid + 2.0 * sb_wide_abs(centre)) + ar->underflow};
    }
    return sb_ball_exp(ar, x);
}

/* Sums of the first tokens of the order, which P-5 compares with a part of the total. */
typedef struct prefix {
    const sb_ball *e; /* (V) by token */
    const sb_gate_row *row;
    size_t kept;         /* tokens that top_k keeps */
    double total, error; /* their total, and the largest error of any sum or comparison */
} prefix;

static prefix prefix_of(const sb_arithmetic *ar, const sb_gate_row *row, const sb_ball *e)
{
    uint32_t k = row->settings.top_k;
    prefix s = {.e = e, .row = row, .kept = k > 0 && k < row->n ? k : row->n};
    double spread = 0.0;
    for (size_t j = 0; j < s.kept; j++) {
        s.total += e[row->order[j]].mid;
        spread += e[row->order[j]].rad;
    }
    s.error = 2.0 * (spread + (sb_gamma(ar, s.kept) + 4.0 * SB_UNIT) * s.total);
    return s;
}

/* P-5: "the shortest beginning of the order is kept whose sum(e) is at least RN(top_p sum(e) of all
 * tokens that top_k keeps)", with the limit moved by `shift`. */
static size_t shortest(const prefix *s, double shift)
{
    double enough = (double)s->row->settings.top_p * s->total + shift, sum = 0.0;
    for (size_t j = 0; j < s->kept; j++) {
        sum += s->e[s->row->order[j]].mid;
        if (sum >= enough)
            return j + 1;
    }
    return s->kept;
}

/* P-6: "the tokens with e_i of at least min_p" - or the tokens with p_i of at least min_p times the
 * largest. */
static sb_gate_fate above(const sb_gate_row *row, sb_ball e)
{
    double least = (double)row->settings.min_p, slack = e.rad + 4.0 * SB_UNIT * least;
    if (least == 0.0 || (e.mid == 1.0 && e.rad == 0.0))
        return SB_GATE_STAYS;
    if (e.mid - slack >= least)
        return SB_GATE_STAYS;
    return e.mid + slack < least ? SB_GATE_CUT : SB_GATE_MAY_STAY;
}

static void decide(const sb_arithmetic *ar, const sb_gate_row *row, const sb_ball *e,
                   sb_gate_fate *fate)
{
    prefix s = prefix_of(ar, row, e);
    size_t sure = s.kept, most = s.kept;
    if (row->settings.top_p < 1.0f) {
        sure = shortest(&s, -s.error);
        most = shortest(&s, s.error);
    }
    for (size_t j = 0; j < row->n; j++) {
        uint32_t i = row->order[j];
        sb_gate_fate by_min = above(row, e[i]);
        fate[i] = j < sure ? SB_GATE_STAYS : j < most ? SB_GATE_MAY_STAY : SB_GATE_CUT;
        fate[i] = by_min < fate[i] ? by_min : fate[i];
    }
}

/* P-7: "p_i = RN( e_i / sum(e) )", in place. V-57: "The probability of an open token lies between 0
 * and its value if the token is kept. The probability of any other token lies between its values
 * with all and with none of the open tokens kept"
 */
static void normalise(const sb_arithmetic *ar, const sb_gate_row *row, const sb_gate_fate *fate,
                      sb_ball *p)
{
    double least = 0.0, most = 0.0;
    for (size_t i = 0; i < row->n; i++) {
        least += fate[i] == SB_GATE_STAYS ? p[i].mid - p[i].rad : 0.0;
        most += fate[i] != SB_GATE_CUT ? p[i].mid + p[i].rad : 0.0;
    }
    double slack =
        SB_BOUND_SLACK * (sb_gamma(ar, row->n) + (1.0 + ar->functions->divide) * SB_UNIT);
    for (size_t i = 0; i < row->n; i++) {
        double low = fate[i] == SB_GATE_STAYS ? (p[i].mid - p[i].rad) / most * (1.0 - slack) : 0.0;
        double high = (p[i].mid + p[i].rad) / least * (1.0 + slack);
        p[i] = fate[i] == SB_GATE_CUT
                   ? sb_ball_of(0.0f)
                   : (sb_ball){(low + high) / 2, (high - low) / 2 + ar->underflow};
    }
}

void sb_gate_sampler_balls(const sb_arithmetic *ar, const sb_gate_row *row, sb_gate_fate *fate,
                           sb_ball *p)
{
    ar = sb_arithmetic_vector(ar);
    if (row->settings.temperature == 0.0f) {
        for (size_t j = 0; j < row->n; j++) {
            fate[row->order[j]] = j ? SB_GATE_CUT : SB_GATE_STAYS;
            p[row->order[j]] = sb_ball_of(j ? 0.0f : 1.0f);
        }
        return;
    }
    for (uint32_t i = 0; i < row->n; i++)
        p[i] = exponential(ar, row, i);
    decide(ar, row, p, fate);
    normalise(ar, row, fate, p);
}

/* P-10: "RN( log(w_i) + g_i )", g_i = -log( -log1p(-u_i) ). A sampler that divides p by -log1p(-u)
 * without logarithms has an absolute error of a few 2^-24. */
static sb_ball score(const sb_arithmetic *ar, const sb_gate_row *row, const sb_ball *p, uint32_t i)
{
    double waiting = -sb_wide_log1p(-(double)row->uniform[i]);
    sb_ball w = {waiting, ar->functions->log1p * SB_UNIT * waiting + ar->underflow};
    double low = p[i].mid - p[i].rad, high = p[i].mid + p[i].rad;
    if (!(low > 0x1p-126))
        low = 0x1p-126; /* a token below 2^-126 is drawn with less than that probability */
    high = sb_wide_max(high, low);
    double from = sb_wide_log(low), to = sb_wide_log(high);
    sb_ball logarithm = {(from + to) / 2, (to - from) / 2};
    const sb_functions *f = ar->functions;
    double F = sb_larger(f->log, f->log_near);
    logarithm.rad += 2.0 * F * SB_UNIT * (1.0 + sb_wide_abs(logarithm.mid));
    return sb_ball_sub(ar, logarithm, sb_ball_log(ar, w));
}

/* V-58: "no token that is certainly kept has a score whose ball lies wholly above the ball of its
 * own score" */
int sb_gate_may_draw(const sb_arithmetic *ar, const sb_gate_row *row, const sb_gate_fate *fate,
                     const sb_ball *p, uint32_t token)
{
    ar = sb_arithmetic_vector(ar);
    if (fate[token] == SB_GATE_CUT)
        return 0;
    sb_ball mine = score(ar, row, p, token);
    for (uint32_t i = 0; i < row->n; i++) {
        if (fate[i] != SB_GATE_STAYS || i == token)
            continue;
        sb_ball other = score(ar, row, p, i);
        if (mine.mid + mine.rad < other.mid - other.rad)
            return 0;
    }
    return 1;
}
