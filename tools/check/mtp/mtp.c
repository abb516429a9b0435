#include "tools/check/mtp/mtp.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ref/container/show.h"
#include "tools/check/scan/across.h"
#include "tools/check/mtp/mtp_census.h"

/* --- 10 --------------------------------------------------------------------------------------- */

static void judge_absence(sb_check *check, const sb_mtp_census *s)
{
    sb_level level = check->options->need_mtp ? SB_LEVEL_error : SB_LEVEL_warn;
    if (s->declared)
        sb_check_find(check, 10, level, "",
                      "the configuration declares an MTP head (mtp_num_hidden_layers %u), but no "
                      "tensor begins with mtp.; %" PRIu64 " expected",
                      (unsigned)check->self.config.mtp_layers, s->implied);
    else if (check->options->need_mtp)
        sb_check_find(
            check, 10, level, "",
            "an MTP head is required, but none is declared, and no tensor begins with mtp.");
}

/* V-10: "17 tensors and the experts" */
static void judge_presence(sb_check *check, const sb_mtp_census *s)
{
    int exact;
    if (!check->self.has_config)
        return;
    if (s->found < s->implied) {
        sb_check_find(check, 10, SB_LEVEL_error, s->first_missing,
                      "%" PRIu64 " of %" PRIu64
                      " modules and tensors of the MTP head are missing (%" PRIu64
                      " of them experts), this one first",
                      s->implied - s->found, s->implied, s->missing_experts);
        return;
    }
    sb_mtp_fingerprint known = sb_mtp_fingerprint_of(&check->self.config, s->tensors, &exact);
    if (!exact)
        sb_check_find(
            check, 10, SB_LEVEL_info, "",
            "the MTP head is complete with %" PRIu64
            " tensors, but no known exporter writes that many; the nearest number is %" PRIu64
            " (%s)",
            s->tensors, known.tensors, known.who);
    if (!s->declared && check->self.config.family != SB_QWEN3_NEXT)
        sb_check_find(check, 10, SB_LEVEL_warn, "",
                      "%" PRIu64 " tensors begin with mtp., but the configuration declares no head "
                      "(mtp_num_hidden_layers): engines do not load it",
                      s->tensors);
}

void sb_check_mtp_presence(sb_check *check)
{
    sb_mtp_census s;
    sb_error err;
    if (check->self.is_drafter)
        return;
    if (sb_mtp_census_take(check, &s, &err)) {
        check->findings.lost = 1;
        return;
    }
    if (s.misplaced)
        sb_check_find(
            check, 10, SB_LEVEL_error, s.first_misplaced,
            "%" PRIu64
            " tensors of an MTP head have another prefix, expected mtp.; engines skip them",
            s.misplaced);
    if (s.tensors)
        judge_presence(check, &s);
    else if (!s.misplaced)
        judge_absence(check, &s);
}

/* --- 41 --------------------------------------------------------------------------------------- */

/* V-41: "All of these conditions must hold" - each bound is widened by five standard deviations for
 * this number of normal numbers. */
static int looks_drawn(const sb_moments *m)
{
    if (!m->count || !(m->sum2 > 0))
        return 0;
    const double drawn = 0.02 * 0.02;
    double n = (double)m->count, mean = m->sum / n, variance = m->sum2 / n - mean * mean;
    double kurtosis = m->sum4 * n / (m->sum2 * m->sum2) - 3, off = variance - drawn;
    double room = 0.021 * 0.021 - drawn;
    return off * off <= room * room + 25 * 2 * drawn * drawn / n &&
           kurtosis * kurtosis <= 0.1 * 0.1 + 25 * 24 / n;
}

/* 1 if the variances of all experts scatter by less than 2 %, which is 1 % of their roots. */
static int experts_alike(double sum, double sum2, size_t count, uint64_t values)
{
    double n = (double)count, room = 0.02 * 0.02 + 4 * 2 / (double)values;
    return count < 2 || n * sum2 - sum * sum < room * sum * sum;
}

static int is_constant(const sb_tensor *t)
{
    uint64_t n, k = 0;
    float *x = sb_floats_of(t, &n);
    while (k < n && x[k] == x[0])
        k++;
    free(x);
    return n > 0 && k == n;
}

static int norm_is_constant(const sb_check *check)
{
    const sb_unit *norm = sb_unit_named(&check->self.units, "mtp.norm.weight");
    return norm && norm->tensor && is_constant(norm->tensor);
}

void sb_check_untrained(sb_check *check)
{
    const sb_units *u = &check->self.units;
    size_t matrices = 0, experts = 0;
    double sum = 0, sum2 = 0;
    uint64_t values = 1;
    for (size_t i = 0; i < u->member_count; i++) {
        const sb_member *m = &u->members[i];
        if (strncmp(m->plain, "mtp.", 4) != 0 || m->seen->rows < 2)
            continue;
        if (!m->seen->done || !m->seen->moments.count)
            return;
        matrices++;
        if (!looks_drawn(&m->seen->moments))
            return;
        if (strstr(m->plain, ".experts.")) {
            double variance = m->seen->moments.sum2 / (double)m->seen->moments.count;
            experts++;
            values = m->seen->moments.count;
            sum += variance;
            sum2 += variance * variance;
        }
    }
    if (matrices == 0 || !experts_alike(sum, sum2, experts, values) || !norm_is_constant(check))
        return;
    sb_check_find(
        check, 41, SB_LEVEL_warn, "mtp.norm.weight",
        "all %zu matrices of the MTP head have the standard deviation 0.02 and the kurtosis 3, as "
        "an initialization leaves them, and this norm is constant: the head was never trained",
        matrices);
}
