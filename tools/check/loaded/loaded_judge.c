/* loaded_judge.c - what a parameter should hold, and, if it does not, what it holds instead. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/digest.h"
#include "ref/container/show.h"
#include "ref/formats/format.h"
#include "ref/model/probe.h"
#include "tools/check/loaded/loaded_parts.h"

const sb_law sb_loaded_laws[SB_LOADED_LAWS] = {SB_LAW_exact, SB_LAW_ct_div, SB_LAW_mo_mul,
                                               SB_LAW_ct_rcp, SB_LAW_bf16_scale};

sb_journey sb_journey_of(unsigned law, sb_format to)
{
    return (sb_journey){.law = sb_loaded_laws[law], .via = SB_FORMAT_f32, .to = to, .times = 1};
}

static const char *shape_text(const sb_loaded_param *p, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "[");
    for (unsigned i = 0; i < p->rank; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%" PRIu64, i ? "," : "", p->shape[i]);
    snprintf(text + used, size - used, "]");
    return text;
}

const char *sb_held_text(const sb_held_values *held, char *text, size_t size)
{
    const sb_segment *s = held->segments;
    if (held->count == 1)
        snprintf(text, size, "%u x %u, %s", (unsigned)s->rows, (unsigned)s->matrix.cols,
                 s->member ? sb_container_name(s->member->unit->found.container)
                           : sb_format_name(s->matrix.format));
    else
        snprintf(text, size, "%zu matrices, %" PRIu64 " elements", held->count, held->elements);
    return text;
}

/* 1 if the parameter holds the values after these conversions; for layers of ModelOpt, also with
 * zeros that lost their sign. */
static int arrives(const sb_loaded_entry *e, const sb_journey *j, sb_status *status, sb_error *err)
{
    int ways = 1 + sb_segments_have_one_zero(e->held.segments, e->held.count);
    for (int way = 0; way < ways && !*status; way++) {
        sb_digest digest;
        sb_journey with = *j;
        with.one_zero = way;
        *status = sb_segments_digest(e->held.segments, e->held.count, &with, &digest, NULL, err);
        if (!*status && strcmp(digest.hex, e->param->digest) == 0)
            return 1;
    }
    return 0;
}

static sb_format format_of(sb_dtype dtype)
{
    sb_format format = SB_FORMAT_f32;
    sb_plain_format(dtype, &format);
    return format;
}

static void match(sb_loaded_entry *e)
{
    for (unsigned k = 0; k < e->digests && e->param && e->law == SB_LOADED_LAWS; k++)
        if (strcmp(e->digest[k].hex, e->param->digest) == 0)
            e->law = k;
}

/* As match, for ModelOpt's zeros without a sign. */
static sb_status match_one_zero(sb_loaded_entry *e, sb_format to, sb_error *err)
{
    sb_status status = SB_OK;
    if (!e->param || !sb_segments_have_one_zero(e->held.segments, e->held.count))
        return SB_OK;
    for (unsigned k = 0; k < e->digests && e->law == SB_LOADED_LAWS && !status; k++) {
        sb_digest digest;
        sb_journey j = sb_journey_of(k, to);
        j.one_zero = 1;
        status = sb_segments_digest(e->held.segments, e->held.count, &j, &digest, NULL, err);
        if (!status && strcmp(digest.hex, e->param->digest) == 0) {
            e->law = k;
            e->one_zero = 1;
        }
    }
    return status;
}

sb_status sb_loaded_expect(sb_loaded_entry *e, sb_error *err)
{
    sb_format to = SB_FORMAT_f32;
    sb_status status = SB_OK;
    e->law = SB_LOADED_LAWS;
    if (e->held.raw) {
        status = sb_tensor_digest(e->held.raw, &e->digest[0], err);
        e->digests = !status;
        match(e);
        return status;
    }
    if (!e->held.count)
        return SB_OK;
    sb_plain_format(e->param ? e->param->dtype : SB_DTYPE_BF16, &to);
    unsigned n = sb_segments_have_laws(e->held.segments, e->held.count) ? SB_LOADED_LAWS : 1;
    for (unsigned i = 0; i < n && !status; i++) {
        sb_journey j = sb_journey_of(i, to);
        status = sb_segments_digest(e->held.segments, e->held.count, &j, &e->digest[i],
                                    i ? NULL : &e->size, err);
    }
    e->digests = status ? 0 : n;
    match(e);
    return status ? status : match_one_zero(e, to, err);
}

/* 1 if the values were rounded to a narrower type on the way. */
static int was_rounded(const sb_loaded_entry *e, char *text, size_t size, sb_status *status,
                       sb_error *err)
{
    static const sb_format narrow[] = {SB_FORMAT_bf16, SB_FORMAT_f16};
    for (unsigned i = 0; i < 2; i++)
        for (unsigned law = 0; law < e->digests; law++) {
            sb_journey j = sb_journey_of(law, format_of(e->param->dtype));
            j.via = narrow[i];
            if (j.via != j.to && arrives(e, &j, status, err)) {
                snprintf(text, size, "held as %s, but rounded to %s while it was loaded",
                         sb_dtype_name(e->param->dtype), sb_format_name(j.via));
                return 1;
            }
        }
    return 0;
}

/* 1 if the values are codes times block scales, without the factor of the whole tensor. */
static int lacks_factor(const sb_loaded_entry *e, char *text, size_t size, sb_status *status,
                        sb_error *err)
{
    sb_journey j = sb_journey_of(0, format_of(e->param->dtype));
    j.law = SB_LAW_factor_last;
    if (e->digests < 2 || !arrives(e, &j, status, err))
        return 0;
    snprintf(text, size,
             "the values are codes times block scales, without the scale of the whole tensor");
    return 1;
}

static double magnitude(double x)
{
    return x < 0 ? -x : x;
}

/* 1 if the first values are those of the files times a factor, up to rounding. Also 1 if the list
 * has no first values. */
static int first_are(const sb_loaded_entry *e, double factor, sb_status *status, sb_error *err)
{
    float own[SB_LOADED_FIRST];
    size_t n = 0;
    if (!e->param->first_count || *status)
        return 1;
    *status = sb_segments_first(e->held.segments, own, &n, err);
    for (size_t i = 0; i < n && i < e->param->first_count && !*status; i++) {
        double x = (double)own[i] * factor, off = magnitude(e->param->first[i] - x);
        if (off > magnitude(x) / 64 && off > e->param->max / 4096)
            return 0;
    }
    return !*status;
}

/* Finds the factor from the largest magnitudes, and tests whether the values really are scaled by
 * it. */
static int was_scaled(const sb_loaded_entry *e, char *text, size_t size, sb_status *status,
                      sb_error *err)
{
    const sb_loaded_param *p = e->param;
    double own = e->size.largest, count = (double)e->size.count;
    if (!p->has_size || !(own > 0) || !(p->max > 0) || !(p->max < 1e300) || !(e->size.sum2 > 0))
        return 0;
    double factor = p->max / own, ratio = p->rms * p->rms * count / e->size.sum2;
    double off = ratio / (factor * factor) - 1;
    if (off > 0.02 || off < -0.02) /* BF16 rounds the largest magnitude by up to 2^-9 */
        return 0;
    for (int sign = 1; sign >= -1; sign -= 2)
        for (unsigned law = 0; law < e->digests; law++) {
            sb_journey j = sb_journey_of(law, format_of(p->dtype));
            j.times = (float)(sign * factor);
            if ((sign < 0 || j.times != 1) && arrives(e, &j, status, err)) {
                snprintf(text, size, "every value is %.9g times the value in the files",
                         (double)j.times);
                return 1;
            }
        }
    for (int sign = 1; sign >= (p->first_count ? -1 : 1); sign -= 2)
        if (magnitude(sign * factor - 1) > 0.02 && first_are(e, sign * factor, status, err)) {
            snprintf(text, size,
                     "the values are about %.6g times those in the files, according to rms, max%s",
                     sign * factor, p->first_count ? " and the first values" : "");
            return 1;
        }
    return 0;
}

/* Lists the slices along the first dimension that are wrong, and what they hold. */
static void tell_slices(const sb_loaded_entry *e, char *text, size_t size, sb_status *status,
                        sb_error *err)
{
    const sb_loaded_param *p = e->param;
    size_t n = p->slices && p->rank == 3 ? p->shape[0] : 0, shown = 0, wrong = 0, used;
    if (!n || e->held.count % n != 0 || *status)
        return;
    size_t each = e->held.count / n;
    sb_digest *right = sb_alloc(n * SB_LOADED_LAWS, sizeof *right);
    if (!right)
        *status = sb_fail(err, SB_ERR_MEMORY, "out of memory for the slices of a parameter");
    for (size_t i = 0; i < n && !*status; i++)
        for (unsigned law = 0; law < e->digests && !*status; law++) {
            sb_journey j = sb_journey_of(law, format_of(p->dtype));
            *status = sb_segments_digest(e->held.segments + i * each, each, &j,
                                         &right[i * SB_LOADED_LAWS + law], NULL, err);
        }
    used = strlen(text);
    for (size_t i = 0; i < n && !*status; i++) {
        size_t is = n;
        for (size_t k = 0; k < n && is != i; k++)
            for (unsigned law = 0; law < e->digests; law++)
                if (strcmp(right[k * SB_LOADED_LAWS + law].hex, p->slices[i]) == 0 &&
                    (is == n || k == i))
                    is = k;
        if (is == i)
            continue;
        wrong++;
        if (shown >= 4 || used + 64 >= size)
            continue;
        used += (size_t)snprintf(text + used, size - used, "%sslice %zu", shown++ ? ", " : "; ", i);
        if (is < n)
            used += (size_t)snprintf(text + used, size - used, " holds slice %zu of the files", is);
    }
    if (!*status && wrong > shown && used + 32 < size)
        snprintf(text + used, size - used, ", ...: %zu of %zu slices are wrong", wrong, n);
    free(right);
}

static sb_loaded_verdict other_values(const sb_loaded_entry *e, char *text, size_t size,
                                      sb_status *status, sb_error *err)
{
    sb_journey plus_one = sb_journey_of(0, format_of(e->param->dtype));
    plus_one.plus = 1;
    text[0] = '\0';
    if (e->param->has_size && e->param->max == 0)
        snprintf(text, size, "all zero");
    else if (arrives(e, &plus_one, status, err))
        snprintf(text, size, "every value is 1 more than in the files");
    else if (e->param->has_size)
        snprintf(text, size, "max is %.6g, in the files %.6g", e->param->max, e->size.largest);
    else
        snprintf(text, size, "digest %s, expected %s", e->param->digest, e->digest[0].hex);
    tell_slices(e, text, size, status, err);
    return SB_LOADED_other;
}

sb_loaded_verdict sb_loaded_judge(const char *twin, const sb_loaded_entry *e, char *text,
                                  size_t size, sb_status *status, sb_error *err)
{
    char shape[200], file[120];
    const sb_loaded_param *p = e->param;
    if (e->held.raw) {
        snprintf(text, size, "the bytes are not those of %s in the files",
                 SB_SHOW(e->held.raw->name));
        return p->dtype == e->held.raw->dtype ? SB_LOADED_other : SB_LOADED_dtype;
    }
    if (p->elements != e->held.elements) {
        snprintf(text, size, "%s, the files have %s", shape_text(p, shape, sizeof shape),
                 sb_held_text(&e->held, file, sizeof file));
        return SB_LOADED_shape;
    }
    if (!(p->has_size && p->max == 0) && twin) {
        snprintf(text, size, "holds the values of %s", SB_SHOW(twin));
        return SB_LOADED_swapped;
    }
    if (lacks_factor(e, text, size, status, err))
        return SB_LOADED_rescaled;
    if (was_rounded(e, text, size, status, err))
        return SB_LOADED_dtype;
    if (was_scaled(e, text, size, status, err))
        return SB_LOADED_rescaled;
    return other_values(e, text, size, status, err);
}

int sb_loaded_lost_bits(const sb_loaded_entry *e, char *text, size_t size, sb_status *status,
                        sb_error *err)
{
    const sb_segment *s = e->held.segments;
    sb_format to = format_of(e->param->dtype);
    if (!e->held.count || sb_matrix_quantized(&s->matrix) || s->matrix.format == to ||
        to == SB_FORMAT_f32)
        return 0;
    sb_digest whole;
    sb_journey j = sb_journey_of(0, SB_FORMAT_f32);
    *status = sb_segments_digest(s, e->held.count, &j, &whole, NULL, err);
    if (*status || strcmp(whole.hex, e->param->digest) == 0)
        return 0;
    snprintf(text, size, "%s in the files, rounded to %s", sb_format_name(s->matrix.format),
             sb_dtype_name(e->param->dtype));
    return 1;
}
