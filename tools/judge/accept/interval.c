#include "tools/judge/accept/interval.h"

#include "ref/base/root.h"

/* E-4: "the Wilson score interval of k of n, with n divided by the design effect" */
sb_interval sb_rate_interval(const sb_rate *r, double z)
{
    if (r->of == 0)
        return (sb_interval){0, 0, 1};
    double p = (double)r->accepted / (double)r->of;
    double n = (double)r->of / r->effect;
    double share = z * z / n;
    double centre = p + 0.5 * share;
    double spread = z * sb_sqrt64(p * (1 - p) / n + 0.25 * share / n);
    sb_interval out = {p, (centre - spread) / (1 + share), (centre + spread) / (1 + share)};
    if (r->accepted == 0 || out.low < 0)
        out.low = 0;
    if (r->accepted == r->of || out.high > 1)
        out.high = 1;
    return out;
}

/* E-7: "Newcombe's interval of the difference of two rates" */
sb_interval sb_rate_difference(const sb_rate *first, const sb_rate *second, double z)
{
    sb_interval a = sb_rate_interval(first, z), b = sb_rate_interval(second, z);
    double d = a.rate - b.rate;
    double below =
        sb_sqrt64((a.rate - a.low) * (a.rate - a.low) + (b.high - b.rate) * (b.high - b.rate));
    double above =
        sb_sqrt64((a.high - a.rate) * (a.high - a.rate) + (b.rate - b.low) * (b.rate - b.low));
    return (sb_interval){d, d - below, d + above};
}

/* The sum over all runs of the products of flags `lag` apart, after subtracting the mean. */
static double covariance(const unsigned char *flags, const size_t *ends, size_t run_count,
                         size_t lag, double mean)
{
    double sum = 0;
    for (size_t r = 0, first = 0; r < run_count; first = ends[r++])
        for (size_t t = first; t + lag < ends[r]; t++)
            sum += ((double)flags[t] - mean) * ((double)flags[t + lag] - mean);
    return sum / (double)ends[run_count - 1];
}

/* E-3: "(c_0 + 2 sum over l = 1..m of (1 - l / (m + 1)) c_l) / c_0" */
double sb_design_effect(const unsigned char *flags, const size_t *ends, size_t run_count)
{
    size_t n = run_count ? ends[run_count - 1] : 0, sum_of = 0, most = 0, same = 1;
    for (size_t t = 0; t < n; t++) {
        sum_of += flags[t];
        same &= flags[t] == flags[0];
    }
    if (same)
        return 1;
    while ((most + 1) * (most + 1) * (most + 1) <= n)
        most++;
    double mean = (double)sum_of / (double)n;
    double own = covariance(flags, ends, run_count, 0, mean), sum = own;
    for (size_t lag = 1; lag <= most; lag++)
        sum += 2 * (1 - (double)lag / (double)(most + 1)) *
               covariance(flags, ends, run_count, lag, mean);
    return sum > own ? sum / own : 1;
}
