#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/show.h"
#include "ref/math/fn.h"
#include "tools/check/scan/across.h"
#include "tools/check/read/norms.h"
#include "tools/check/scan/recipe.h"

sb_norm sb_norm_of(const sb_unit *unit)
{
    const char *name = unit->plain;
    if (!unit->tensor || unit->region == SB_REGION_vision)
        return SB_NORM_none;
    if (sb_ends(name, ".linear_attn.norm.weight"))
        return SB_NORM_linear;
    if (sb_ends(name, ".input_layernorm.weight") ||
        sb_ends(name, ".post_attention_layernorm.weight"))
        return SB_NORM_layer;
    if (sb_ends(name, ".q_norm.weight") || sb_ends(name, ".k_norm.weight"))
        return SB_NORM_query;
    if (strncmp(name, "mtp.pre_fc_norm_", 16) == 0)
        return SB_NORM_head;
    if (sb_ends(name, ".hidden_norm.weight") || strcmp(name, "input_norm.weight") == 0 ||
        sb_starts(name, "fc_norm."))
        return SB_NORM_drafter;
    return strcmp(name, "norm.weight") == 0 || strcmp(name, "mtp.norm.weight") == 0 ? SB_NORM_final
                                                                                    : SB_NORM_none;
}

/* The number around which a norm is stored. M-11: "every norm multiplies by w"; so do those of a
 * drafter. */
static int expected_of(const sb_check *check, sb_norm norm)
{
    return norm == SB_NORM_linear || check->self.config.plain_norms || check->self.is_drafter;
}

/* The whole number near the mean of a vector, minus the expected one. Also 0 if the mean is near no
 * other number, or the values vary too much. V-45: "within 0.3 of it, with a variance of at most a
 * quarter" */
static int shift_of(const sb_check *check, const sb_unit *unit, double *mean, int *narrowly)
{
    const sb_moments *m = &unit->seen->moments;
    *mean = m->count ? m->sum / (double)m->count : 0;
    double variance = m->count ? m->sum2 / (double)m->count - *mean * *mean : 0;
    const double expected = expected_of(check, sb_norm_of(unit));
    for (int shift = -1; shift <= 2; shift++) {
        double off = *mean - expected - shift;
        *narrowly = off <= 0.2 && off >= -0.2;
        if (shift != 0 && off <= 0.3 && off >= -0.3 && variance <= 0.25)
            return shift;
    }
    return 0;
}

static int close_to(double x, double y)
{
    double size = y < 0 ? -y : y, error = x < y ? y - x : x - y;
    /* allows one rounding to BF16, and one rounding of 1 + w */
    return error <= (size < 1 ? 1 : size) / 128;
}

typedef enum sb_relation { UNKNOWN, SAME, OTHER } sb_relation;

/* The relation of the whole vector to the original's: the same, or shifted by a whole number. */
static sb_relation against_master(const sb_check *check, const sb_unit *unit, int *shift)
{
    static const int shifts[] = {0, 1, -1, 2};
    const sb_unit *master = sb_master_unit(check, unit);
    uint64_t n = 0, m = 0;
    sb_relation relation = OTHER;
    *shift = 0;
    if (!master || !master->tensor)
        return UNKNOWN;
    float *own = sb_floats_of(unit->tensor, &n), *other = sb_floats_of(master->tensor, &m);
    if (!n || n != m)
        relation = UNKNOWN;
    for (size_t s = 0; s < sizeof shifts / sizeof *shifts && relation == OTHER; s++) {
        uint64_t k = 0;
        while (k < n && close_to((double)own[k], (double)other[k] + shifts[s]))
            k++;
        if (k == n) {
            relation = SAME;
            *shift = shifts[s];
        }
    }
    free(own);
    free(other);
    return relation;
}

/* The number of layer norms of a region, the number of them around a wrong value, and the typical
 * mean. */
typedef struct vote {
    size_t norms, shifted;
    double median; /* median of their means */
} vote;

static vote vote_of(sb_check *check, sb_region region)
{
    const sb_units *u = &check->self.units;
    double *means = sb_alloc(u->count + 1, sizeof *means);
    vote v = {0};
    int narrowly;
    check->findings.lost |= !means;
    for (size_t i = 0; means && i < u->count; i++) {
        const sb_unit *unit = &u->rows[i];
        if (unit->region != region || sb_norm_of(unit) != SB_NORM_layer || !unit->seen->done)
            continue;
        v.shifted += shift_of(check, unit, &means[v.norms], &narrowly) != 0;
        v.norms++;
    }
    if (means)
        v.median = sb_median(means, v.norms);
    free(means);
    return v;
}

/* V-45: "It is an ERROR where other norms confirm it" - most norms of its region, or the trunk as a
 * whole. */
static int is_certain(sb_norm norm, int narrowly, const vote *beside, const vote *trunk)
{
    if (beside->norms > 0 && beside->shifted * 2 >= beside->norms && norm != SB_NORM_linear)
        return 1;
    if (norm == SB_NORM_linear)
        return narrowly;
    return narrowly && (norm == SB_NORM_layer || norm == SB_NORM_head) && trunk->norms > 0 &&
           trunk->median <= 0.2 && trunk->median >= -0.2;
}

static void judge_norm(sb_check *check, const sb_unit *unit, const vote *beside, const vote *trunk)
{
    sb_norm norm = sb_norm_of(unit);
    int shift, narrowly;
    double mean;
    sb_relation relation = against_master(check, unit, &shift);
    if (relation == SAME && shift != 0) {
        sb_check_find(
            check, 45, SB_LEVEL_error, unit->name,
            "every value is the original's value %+d: the file contains the shift of (1 + w)",
            shift);
        return;
    }
    shift = shift_of(check, unit, &mean, &narrowly);
    if (relation == SAME || shift == 0)
        return;
    int certain = is_certain(norm, narrowly, beside, trunk);
    if (!certain && !narrowly && (norm == SB_NORM_query || norm == SB_NORM_final))
        return;
    /* V-45: "a recipe that smooths" */
    if (sb_recipe_of(check) & SB_RECIPE_smoothed)
        return;
    sb_check_find(check, 45, certain ? SB_LEVEL_error : SB_LEVEL_warn, unit->name,
                  "the mean is %.4g, expected about %d: values are stored with an offset of %+d",
                  mean, expected_of(check, norm), shift);
}

/* --- A_log ------------------------------------------------------------------------------------ */

enum { DECAY_LAYERS = 3, DECAY_HEADS = 12 }; /* a sixteenth of all heads starts at 0 or below */

/* Names the function that turns the original's values into these. */
static const char *conversion_of(const float *own, const float *master, uint64_t n)
{
    static const char *const names[] = {"the same", "-exp(A_log)", "exp(A_log)", "-A_log"};
    for (size_t f = 0; f < sizeof names / sizeof *names; f++) {
        uint64_t k = 0;
        for (; k < n; k++) {
            float e = f == 1 ? -sb_exp(master[k]) : f == 2 ? sb_exp(master[k]) : master[k];
            double expected = f == 3 ? -(double)e : (double)e;
            double error = (double)own[k] - expected, bound = expected / 64;
            if (!(error * error <= bound * bound))
                break;
        }
        if (k == n)
            return names[f];
    }
    return NULL;
}

static uint64_t positive_of(const float *own, uint64_t n)
{
    uint64_t positive = 0;
    for (uint64_t k = 0; k < n; k++)
        positive += own[k] > 0;
    return positive;
}

static int is_decay(const sb_unit *unit)
{
    return unit->tensor && unit->seen_count && unit->seen->done &&
           sb_ends(unit->name, ".linear_attn.A_log");
}

/* V-46: "every layer has such a tensor" - with enough heads, every model that was initialized for
 * this architecture has a positive value. */
static int none_is_positive(const sb_check *check)
{
    size_t layers = 0;
    uint64_t heads = 0, positive = 0;
    for (size_t i = 0; i < check->self.units.count; i++) {
        uint64_t n = 0;
        if (!is_decay(&check->self.units.rows[i]))
            continue;
        float *own = sb_floats_of(check->self.units.rows[i].tensor, &n);
        positive += own ? positive_of(own, n) : 1;
        heads += n;
        layers++;
        free(own);
    }
    return layers >= DECAY_LAYERS && heads >= DECAY_HEADS && !positive;
}

/* V-46: "no value above 0" */
static void judge_decay(sb_check *check, const sb_unit *unit, int none)
{
    const sb_unit *master = sb_master_unit(check, unit);
    uint64_t n = 0, m = 0;
    float *own = sb_floats_of(unit->tensor, &n), *other = NULL;
    const char *conversion = NULL;
    if (master && master->tensor)
        other = sb_floats_of(master->tensor, &m);
    if (n && n == m)
        conversion = conversion_of(own, other, n);
    if (conversion && strcmp(conversion, "the same") != 0)
        sb_check_find(check, 46, SB_LEVEL_error, unit->name, "is %s of the original's A_log",
                      conversion);
    else if (n && !conversion && positive_of(own, n) == 0)
        sb_check_find(check, 46, none ? SB_LEVEL_error : SB_LEVEL_warn, unit->name,
                      "no value is above 0%s; the first is %.4g: the values may be -exp(A_log)",
                      none ? ", in any layer" : "", (double)own[0]);
    free(own);
    free(other);
}

/* V-45: "The norms of a drafter are judged only all together"
 */
static void judge_drafter(sb_check *check)
{
    const sb_units *u = &check->self.units;
    const sb_unit *first = NULL;
    size_t norms = 0, alike = 0;
    int shift = 0, narrowly;
    double mean, first_mean = 0;
    for (size_t i = 0; i < u->count; i++) {
        const sb_unit *unit = &u->rows[i];
        if (!unit->tensor || !unit->seen_count || !unit->seen->done ||
            sb_norm_of(unit) == SB_NORM_none)
            continue;
        const int own = shift_of(check, unit, &mean, &narrowly);
        if (!first) {
            first = unit;
            first_mean = mean;
            shift = own;
        }
        norms++;
        alike += own && own == shift;
    }
    if (norms && alike == norms)
        sb_check_find(check, 45, SB_LEVEL_error, first->name,
                      "the mean is %.4g, expected about 1, as of all %zu norms of the drafter: "
                      "values are stored with an offset of %+d",
                      first_mean, norms, shift);
}

void sb_check_conventions(sb_check *check)
{
    if (check->self.is_drafter) {
        judge_drafter(check);
        return;
    }
    int none = none_is_positive(check);
    vote trunk = vote_of(check, SB_REGION_trunk), head = vote_of(check, SB_REGION_mtp);
    for (size_t i = 0; i < check->self.units.count; i++) {
        const sb_unit *unit = &check->self.units.rows[i];
        if (!unit->tensor || !unit->seen_count || !unit->seen->done)
            continue;
        if (sb_norm_of(unit) != SB_NORM_none) {
            judge_norm(check, unit, unit->region == SB_REGION_mtp ? &head : &trunk, &trunk);
        } else if (is_decay(unit)) {
            judge_decay(check, unit, none);
        }
    }
}
