#include "tools/judge/quality/sequential.h"

#include "tools/judge/accept/interval.h"
#include "tools/judge/bound/wide_fn.h"

const char *sb_claim_name(sb_claim claim)
{
    static const char *const names[] = {"open", "holds", "broken"};
    return names[claim];
}

sb_sequential sb_sequential_of(double p0, double p1, double alpha, double beta)
{
    return (sb_sequential){.p0 = p0, .p1 = p1, .alpha = alpha, .beta = beta};
}

sb_sequential sb_never(void)
{
    return sb_sequential_of(0, 1e-3, 0.01, 0.01);
}

/* The log-likelihood ratio of an observation without a hit. */
static double miss(const sb_sequential *t)
{
    return sb_wide_log1p(-t->p1) - sb_wide_log1p(-t->p0);
}

/* L-4: "broken once the logarithm of the likelihood ratio reaches ln((1 - beta) / alpha), holds
 * once it falls to ln(beta / (1 - alpha))" */
void sb_sequential_see(sb_sequential *t, int hit)
{
    t->seen++;
    t->hits += hit != 0;
    if (t->claim != SB_CLAIM_open)
        return;
    if (hit && !(t->p0 > 0)) {
        t->claim = SB_CLAIM_broken; /* L-4: "the first occurrence breaks the claim" */
        return;
    }
    t->likelihood += hit ? sb_wide_log(t->p1 / t->p0) : miss(t);
    if (t->likelihood >= sb_wide_log((1 - t->beta) / t->alpha))
        t->claim = SB_CLAIM_broken;
    else if (t->likelihood <= sb_wide_log(t->beta / (1 - t->alpha)))
        t->claim = SB_CLAIM_holds;
}

uint64_t sb_sequential_more(const sb_sequential *t)
{
    double left = t->likelihood - sb_wide_log(t->beta / (1 - t->alpha)), step = -miss(t);
    if (t->claim != SB_CLAIM_open)
        return 0;
    uint64_t more = (uint64_t)(left / step);
    return (double)more * step < left ? more + 1 : more;
}

double sb_sequential_rate(const sb_sequential *t)
{
    if (t->seen == 0)
        return 1;
    if (t->hits)
        return sb_rate_interval(&(sb_rate){t->hits, t->seen, 1}, SB_Z_SHOWN).high;
    return -sb_wide_expm1(sb_wide_log(t->beta) / (double)t->seen);
}
