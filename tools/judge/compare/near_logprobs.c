#include "tools/judge/compare/near_logprobs.h"

#include <math.h>

#include "ref/base/bytes.h"
#include "tools/judge/bound/wide_fn.h"

/* T-60: "2^-24 (|v| + 32) for the binary32 computation" */
double sb_near_step(const sb_near_row *row, size_t i)
{
    return row->step + 0x1p-24 * (sb_wide_abs((double)row->values[i]) + 32);
}

int sb_near_at_floor(const sb_near_row *row, size_t i)
{
    return (double)row->values[i] <= row->floor;
}

size_t sb_near_id(const sb_near_row *row, size_t V, size_t i)
{
    if (!row->ids)
        return i;
    return row->ids[i] >= 0 && (double)row->ids[i] < (double)V ? (size_t)row->ids[i] : V;
}

static double logprob_of(const sb_near_ours *ours, size_t id)
{
    return (double)ours->logits[id] - ours->log_sum;
}

/* T-61: "A value at the floor may be off in one direction only" */
static double error_of(const sb_near_ours *ours, const sb_near_row *row, size_t i)
{
    size_t id = sb_near_id(row, ours->V, i);
    if (id == ours->V || !sb_is_finite_f32(row->values[i]))
        return INFINITY;
    double above = logprob_of(ours, id) - (double)row->values[i];
    return sb_near_at_floor(row, i) ? sb_wide_max(above, 0) : sb_wide_abs(above);
}

sb_near_errors sb_near_logprobs(const sb_near_ours *ours, const sb_near_row *row, double pair)
{
    sb_near_errors e = {.ratio = 0};
    for (size_t i = 0; i < row->count; i++) {
        double error = error_of(ours, row, i);
        double allowed = pair + (error < INFINITY ? sb_near_step(row, i) : 0);
        double ratio = error < INFINITY ? error / allowed : INFINITY;
        e.not_finite += !sb_is_finite_f32(row->values[i]);
        if (ratio > e.ratio || (i == 0 && ratio >= 0)) {
            e.ratio = ratio;
            e.at = i;
            e.error = error;
            e.allowed = allowed;
        }
    }
    return e;
}

/* T-62: "a value at the floor as any number down to 0" */
sb_near_rest sb_near_left(const sb_near_ours *ours, const sb_near_row *row)
{
    double least = 0, most = 0, own = 0;
    for (size_t i = 0; i < row->count; i++) {
        double value = (double)row->values[i], step = sb_near_step(row, i);
        own += sb_wide_exp(logprob_of(ours, sb_near_id(row, ours->V, i)));
        most += sb_wide_exp(value + step);
        if (!sb_near_at_floor(row, i))
            least += sb_wide_exp(value - step);
    }
    own = row->ids ? 1 - own : 0;
    return (sb_near_rest){own > 0 ? own : 0, 1 - most, 1 - least};
}

/* T-64: "the listed ids, with all other ids as one" */
double sb_near_kl_least(const sb_near_ours *ours, const sb_near_row *row)
{
    sb_near_rest rest = sb_near_left(ours, row);
    double kl = 0;
    for (size_t i = 0; i < row->count; i++) {
        double own = logprob_of(ours, sb_near_id(row, ours->V, i));
        kl += sb_wide_exp(own) * (own - (double)row->values[i] - sb_near_step(row, i));
    }
    if (rest.ours > 0 && rest.most > 0)
        kl += rest.ours * (sb_wide_log(rest.ours) - sb_wide_log(rest.most));
    return kl > 0 ? kl : 0;
}
