/* magnitudes.c - magnitudes of vectors and convolutions: are they in the range of the operations
 * that use them? */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/base/bytes.h"
#include "ref/math/fn.h"
#include "tools/check/scan/across.h"
#include "tools/check/read/norms.h"
#include "tools/check/scan/scan_scales.h"
#include "tools/check/judge/vectors.h"

/* V-154: bounds far beyond those of trained models, whose largest norm weights are 20 to 30. */
#define NORM_ELEMENT 1024.0   /* times a normalized 64, this exceeds the range of F16 */
#define NORM_MOST 64.0        /* root mean square of the factors of a norm */
#define NORM_LEAST 0x1p-10    /* lower bound of the same root mean square */
#define DECAY_LEAST (-40.0)   /* A_log */
#define DECAY_MOST 30.0       /* A_log */
#define STEP_MOST 100.0       /* dt_bias */
#define INPUT_MOST 32.0       /* a lies between -32 and 32 */
#define LOG_NOTHING (-17.329) /* log of 2^-25: exp(-x) of a smaller x is 1 in binary32 */
#define LOG_ALL 4.644         /* log of 104: exp(-x) of a larger x is 0 in binary32 */
#define CONV_ELEMENT 1000.0   /* a tap */
#define CONV_SQUARE 4096.0    /* 64 times the median, squared */
#define VISION_ELEMENT 1e4

enum { FEW = 3 }; /* convolutions that are needed for a median */

/* The first element out of bounds, and the number of such elements. */
typedef struct outside {
    uint64_t first, count, values;
    float value;
} outside;

static outside beyond(const sb_unit *unit, double bound, double plus)
{
    outside o = {0};
    const sb_tensor *t = unit->tensor ? unit->tensor : unit->found.part[SB_PART_weight];
    float *x = t ? sb_floats_of(t, &o.values) : NULL;
    for (uint64_t k = 0; x && k < o.values; k++) {
        double size = (double)x[k] + plus;
        if (!sb_is_finite_f32(x[k]) || (size <= bound && size >= -bound))
            continue;
        if (!o.count++) {
            o.first = k;
            o.value = x[k];
        }
    }
    free(x);
    return o;
}

/* Reports the elements out of the interval. Returns 1 if there are any. */
static int judge_elements(sb_check *check, const sb_unit *unit, double bound, double plus,
                          const char *op)
{
    if (unit->seen->moments.largest <= bound - plus)
        return 0;
    outside o = beyond(unit, bound, plus);
    if (!o.count)
        return 0;
    sb_check_find(check, 54, SB_LEVEL_error, sb_unit_tensor(unit, SB_PART_COUNT),
                  "element %" PRIu64 " is %.4g (%" PRIu64 " of %" PRIu64
                  " elements are as large): %s, expected %.4g to %.4g",
                  o.first, (double)o.value, o.count, o.values, op, -bound - plus, bound - plus);
    return 1;
}

/* V-154: "What a norm multiplies by" */
static void judge_norm(sb_check *check, const sb_unit *unit)
{
    int linear = sb_norm_of(unit) == SB_NORM_linear;
    int plain = linear || check->self.config.plain_norms || check->self.is_drafter;
    double plus = plain ? 0 : 1;
    const sb_moments *m = &unit->seen->moments;
    const char *op = linear  ? "linear_attn.norm multiplies by w"
                     : plain ? "the norm multiplies by w"
                             : "the norm multiplies by 1 + w";
    if (!m->count || judge_elements(check, unit, NORM_ELEMENT, plus, op))
        return;
    double square = (m->sum2 + 2 * plus * m->sum) / (double)m->count + plus;
    if (square <= NORM_MOST * NORM_MOST && square >= NORM_LEAST * NORM_LEAST)
        return;
    sb_check_find(check, 54, SB_LEVEL_error, unit->name,
                  "%s; the root mean square of this factor is %.4g, expected 0.001 to 64", op,
                  sb_root(square));
}

/* --- decay ------------------------------------------------------------------------------------ */

/* V-154: "from what A_log and dt_bias give together" */
typedef struct head {
    double least, most; /* bounds of A_log, for the given dt_bias */
} head;

static head head_of(double step)
{
    double top = (double)sb_log(sb_softplus((float)(step + INPUT_MOST)));
    double bottom = (double)sb_log(sb_softplus((float)(step - INPUT_MOST)));
    head h = {LOG_NOTHING - top, LOG_ALL - bottom};
    h.least = h.least < DECAY_LEAST ? DECAY_LEAST : h.least;
    h.most = h.most > DECAY_MOST ? DECAY_MOST : h.most;
    return h;
}

static int is_step(double step)
{
    return step <= STEP_MOST && step >= -STEP_MOST;
}

static void judge_heads(sb_check *check, const sb_unit *unit, const float *decay, const float *step,
                        uint64_t n)
{
    uint64_t count = 0, first = 0;
    for (uint64_t k = 0; k < n; k++) {
        double s = step ? (double)step[k] : 0, x = (double)decay[k];
        if (!is_step(s) || !sb_is_finite_f32(decay[k]))
            continue; /* dt_bias is reported above, and infinite A_log by check 12 */
        head h = head_of(s);
        if (x >= h.least && x <= h.most)
            continue;
        first = count++ ? first : k;
    }
    if (!count)
        return;
    double s = step ? (double)step[first] : 0, x = (double)decay[first];
    head h = head_of(s);
    sb_check_find(check, 54, SB_LEVEL_error, unit->name,
                  "A_log of head %" PRIu64 " is %.4g, and its dt_bias is %.4g (%" PRIu64
                  " of %" PRIu64
                  " heads are like this). The decay exp(-exp(A_log) * softplus(a + dt_bias)) is "
                  "then %s for every a from -32 to 32, expected A_log from %.4g to %.4g",
                  first, x, s, count, n,
                  x < h.least ? "1: nothing is forgotten" : "0: all is forgotten", h.least, h.most);
}

static void judge_decay(sb_check *check, const sb_unit *unit)
{
    char name[SB_MAX_TENSOR_NAME + 16];
    uint64_t n = 0, m = 0;
    size_t stem = strlen(unit->name) - strlen("A_log");
    snprintf(name, sizeof name, "%.*sdt_bias", (int)stem, unit->name);
    const sb_unit *other = sb_unit_named(&check->self.units, name);
    float *decay = sb_floats_of(unit->tensor, &n);
    float *step = other && other->tensor ? sb_floats_of(other->tensor, &m) : NULL;
    if (decay)
        judge_heads(check, unit, decay, n == m ? step : NULL, n);
    free(decay);
    free(step);
}

/* --- convolutions ----------------------------------------------------------------------------- */

static int is_conv(const sb_unit *unit)
{
    return sb_ends(unit->plain, ".linear_attn.conv1d.weight") ||
           sb_ends(unit->plain, ".linear_attn.conv1d");
}

static double mean_square(const sb_unit *unit)
{
    const sb_moments *m = &unit->seen->moments;
    return m->count ? m->sum2 / (double)m->count : 0;
}

static int is_seen(const sb_unit *unit)
{
    return sb_unit_is_plain(unit) && unit->seen_count && unit->seen->done;
}

/* V-154: "the median of the layers" */
static void judge_convolutions(sb_check *check)
{
    const sb_units *u = &check->self.units;
    double *squares = sb_alloc(u->count + 1, sizeof *squares);
    size_t count = 0;
    check->findings.lost |= !squares;
    for (size_t i = 0; squares && i < u->count; i++)
        if (is_seen(&u->rows[i]) && is_conv(&u->rows[i]) && mean_square(&u->rows[i]) > 0)
            squares[count++] = mean_square(&u->rows[i]);
    double median = squares ? sb_median(squares, count) : 0;
    free(squares);
    for (size_t i = 0; i < u->count; i++) {
        const sb_unit *unit = &u->rows[i];
        if (!is_seen(unit) || !is_conv(unit) ||
            judge_elements(check, unit, CONV_ELEMENT, 0, "conv1d sums its taps times the input"))
            continue;
        double square = mean_square(unit), ratio = median > 0 ? square / median : 1;
        if (count < FEW || !(square > 0) || (ratio <= CONV_SQUARE && ratio >= 1 / CONV_SQUARE))
            continue;
        sb_check_find(check, 54, SB_LEVEL_error, sb_unit_tensor(unit, SB_PART_COUNT),
                      "the root mean square of conv1d is %.4g, %.4g times the median %.4g of %zu "
                      "layers, expected 1/64 to 64 times",
                      sb_root(square), sb_root(ratio), sb_root(median), count);
    }
}

void sb_check_magnitudes(sb_check *check)
{
    for (size_t i = 0; i < check->self.units.count; i++) {
        const sb_unit *unit = &check->self.units.rows[i];
        if (!unit->tensor || !is_seen(unit))
            continue;
        if (sb_norm_of(unit) != SB_NORM_none)
            judge_norm(check, unit);
        else if (sb_ends(unit->name, ".linear_attn.A_log"))
            judge_decay(check, unit);
        else if (sb_ends(unit->name, ".linear_attn.dt_bias"))
            judge_elements(check, unit, STEP_MOST, 0,
                           "softplus(a + dt_bias) then hardly depends on a");
        else if (unit->region == SB_REGION_vision)
            judge_elements(check, unit, VISION_ELEMENT, 0,
                           "the vision tower adds or multiplies by it");
    }
    judge_convolutions(check);
    sb_check_vectors(check);
    sb_check_lone_scales(check);
}
