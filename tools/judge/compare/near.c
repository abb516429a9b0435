#include "tools/judge/compare/near.h"

#include <math.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "tools/judge/bound/wide_fn.h"

sb_near_top sb_near_top_of(const float *logits, size_t n)
{
    size_t best = 0;
    double second = -INFINITY;
    for (size_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    for (size_t i = 0; i < n; i++)
        if (i != best && (double)logits[i] > second)
            second = (double)logits[i];
    return (sb_near_top){(uint32_t)best, (double)logits[best] - second};
}

sb_near_difference sb_near_compare(const float *a, const float *b, size_t n)
{
    sb_near_difference d = {.identical = 1, .finite = 1, .constant = n > 1};
    for (size_t i = 0; i < n; i++) {
        double apart = sb_wide_abs((double)a[i] - (double)b[i]);
        d.identical &= sb_bits_f32(a[i]) == sb_bits_f32(b[i]);
        d.constant &= sb_bits_f32(b[i]) == sb_bits_f32(b[0]);
        if (!sb_is_finite_f32(b[i])) {
            apart = INFINITY;
            d.finite = 0;
        }
        if (apart > d.largest) {
            d.largest = apart;
            d.at = i;
        }
    }
    return d;
}

static double largest_of(const float *logits, size_t n)
{
    double most = -INFINITY;
    for (size_t i = 0; i < n; i++)
        if ((double)logits[i] > most)
            most = (double)logits[i];
    return most;
}

double sb_near_log_sum(const float *logits, size_t n)
{
    double most = largest_of(logits, n), sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += sb_wide_exp((double)logits[i] - most);
    return most + sb_wide_log(sum);
}

double sb_near_kl(const float *a, const float *b, size_t n)
{
    double p_sum = sb_near_log_sum(a, n), q_sum = sb_near_log_sum(b, n), kl = 0;
    for (size_t i = 0; i < n; i++) {
        double p = (double)a[i] - p_sum, q = (double)b[i] - q_sum;
        kl += sb_wide_exp(p) * (p - q);
    }
    return kl > 0 ? kl : 0;
}

/* T-44: "approach each other by at most sqrt 2 of the bound of one" */
double sb_near_pair(double bound)
{
    return 1.4142135623730951 * bound;
}
