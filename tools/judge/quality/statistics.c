#include "tools/judge/quality/statistics.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/root.h"
#include "tools/judge/bound/wide_fn.h"

static int ascending(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* L-1: "the smallest value such that at least this percentage of the values do not exceed it" */
static double percentile(const double *sorted, size_t count, size_t percent)
{
    size_t rank = (count * percent + 99) / 100;
    return sorted[rank ? rank - 1 : 0];
}

sb_status sb_spread_of(const double *values, size_t count, sb_spread *out)
{
    *out = (sb_spread){.count = count};
    if (!count)
        return SB_OK;
    double *sorted = sb_alloc(count, sizeof *sorted), sum = 0;
    if (!sorted)
        return SB_ERR_MEMORY;
    for (size_t i = 0; i < count; i++) {
        if (values[i] != values[i]) {
            free(sorted);
            return SB_ERR_NUMERIC;
        }
        sum += values[i];
        sorted[i] = values[i];
    }
    qsort(sorted, count, sizeof *sorted, ascending);
    out->mean = sum / (double)count;
    out->median = percentile(sorted, count, 50);
    out->p90 = percentile(sorted, count, 90);
    out->p99 = percentile(sorted, count, 99);
    out->most = sorted[count - 1];
    free(sorted);
    return SB_OK;
}

/* L-3: "the mean plus and minus 1.96 standard errors, with the variance enlarged by the design
 * effect" */
sb_mean sb_mean_of_counts(const unsigned char *counts, const size_t *ends, size_t run_count)
{
    size_t n = run_count ? ends[run_count - 1] : 0;
    sb_mean out = {.count = n};
    double sum = 0, squares = 0;
    if (!n)
        return out;
    for (size_t i = 0; i < n; i++)
        sum += counts[i];
    out.mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (counts[i] - out.mean) * (counts[i] - out.mean);
    double variance = n > 1 ? squares / (double)(n - 1) : 0;
    double spread =
        SB_Z_SHOWN * sb_sqrt64(variance / (double)n * sb_design_effect(counts, ends, run_count));
    out.low = sb_wide_max(0, out.mean - spread);
    out.high = out.mean + spread;
    return out;
}

/* --- of a comparison -------------------------------------------------------------------------- */

static int compared(const sb_token_verdict *t)
{
    return t->has_top[0] && t->has_top[1];
}

/* L-2: "Their agreement" - with the ends of sequences, for the design effect. */
static void count_agreement(const sb_verdicts *v, unsigned char *same, size_t *ends,
                            sb_statistics *out)
{
    size_t n = 0, runs = 0;
    for (size_t i = 0; i < v->token_count; i++) {
        const sb_token_verdict *t = &v->tokens[i];
        if (i && t->sequence != v->tokens[i - 1].sequence && n > (runs ? ends[runs - 1] : 0))
            ends[runs++] = n;
        if (!compared(t))
            continue;
        int hit = t->top[0] != t->top[1];
        same[n++] = !hit;
        out->agreement.accepted += !hit;
        sb_sequential_see(&out->never, hit);
        if (hit)
            out->flips[out->flip_count++] = (sb_flip){.sequence = t->sequence,
                                                      .position = t->position,
                                                      .top = {t->top[0], t->top[1]},
                                                      .margin = t->margin,
                                                      .verdict = t->verdict};
    }
    if (n > (runs ? ends[runs - 1] : 0))
        ends[runs++] = n;
    out->agreement.of = n;
    out->agreement.effect = sb_design_effect(same, ends, runs);
    out->agreement_at = sb_rate_interval(&out->agreement, SB_Z_SHOWN);
}

/* The accepted drafts of one side's rounds with a draft. */
static sb_mean acceptance(const sb_verdicts *v, int side, unsigned char *counts, size_t *ends)
{
    size_t n = 0, runs = 0;
    for (size_t i = 0; i < v->round_count; i++) {
        const sb_round_verdict *r = &v->rounds[i];
        if (i && r->sequence != v->rounds[i - 1].sequence && n > (runs ? ends[runs - 1] : 0))
            ends[runs++] = n;
        if (r->drafted[side])
            counts[n++] = (unsigned char)r->accepted[side];
    }
    if (n > (runs ? ends[runs - 1] : 0))
        ends[runs++] = n;
    return sb_mean_of_counts(counts, ends, runs);
}

sb_status sb_statistics_of(const sb_verdicts *v, sb_statistics *out, sb_error *err)
{
    size_t room = v->token_count > v->round_count ? v->token_count : v->round_count, known = 0;
    *out = (sb_statistics){.never = sb_never(), .agreement = {.effect = 1}};
    double *kl = sb_alloc(room + 1, sizeof *kl);
    unsigned char *flags = sb_alloc(room + 1, 1);
    size_t *ends = sb_alloc(room + 1, sizeof *ends);
    out->flips = sb_alloc(room + 1, sizeof *out->flips);
    sb_status status = kl && flags && ends && out->flips ? SB_OK : SB_ERR_MEMORY;
    if (!status) {
        for (size_t i = 0; i < v->token_count; i++)
            if (v->tokens[i].has_kl) {
                kl[known++] = v->tokens[i].kl;
                out->kl_lower += v->tokens[i].kl_is_lower != 0;
            }
        status = sb_spread_of(kl, known, &out->kl);
    }
    if (!status) {
        count_agreement(v, flags, ends, out);
        for (int side = 0; side < 2; side++)
            out->accepted[side] = acceptance(v, side, flags, ends);
    }
    free(kl);
    free(flags);
    free(ends);
    if (!status)
        return SB_OK;
    sb_statistics_free(out);
    return sb_fail(err, status, "statistics: %s",
                   status == SB_ERR_MEMORY ? "out of memory" : "a value is not a number");
}

void sb_statistics_free(sb_statistics *s)
{
    free(s->flips);
    *s = (sb_statistics){.flip_count = 0};
}
