/* free_hidden.c - T-92: recorded hidden states against the reference's, layer by layer. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/root.h"
#include "tools/judge/compare/free_parts.h"
#include "tools/judge/bound/wide_fn.h"
#include "tools/judge/trace/names.h"

/* Hidden state number `at` of a model: 0 the embedding, 1 .. L the outputs of the layers, L + 1 the
 * final norm. */
static void name_of(const sb_free *f, size_t at, char *name, size_t size)
{
    const size_t L = f->model->config.layers;
    if (at > 0 && at <= L)
        snprintf(name, size, "layers.%zu.output", at - 1);
    else
        snprintf(name, size, "%s", at ? "norm" : "embed");
}

/* The engine's rows of the current call from its first on; NULL: not recorded, or not finite. */
static const float *recorded(const sb_free *f, size_t at, size_t n)
{
    char name[32];
    const size_t H = f->model->config.hidden_size;
    name_of(f, at, name, sizeof name);
    const sb_step_value *v = sb_step_find(&f->step->taps, name);
    if (!v || !v->data || v->cols != H || f->first > v->rows || n > v->rows - f->first)
        return NULL;
    for (size_t i = 0; i < n * H; i++)
        if (!sb_is_finite_f32(v->data[f->first * H + i]))
            return NULL;
    return v->data + f->first * H;
}

void sb_free_drop_hidden(const sb_free *f, sb_free_sequence *s)
{
    const size_t places = (size_t)f->model->config.layers + 2;
    for (size_t i = 0; s->theirs && i < places; i++)
        free(s->theirs[i]);
    free(s->theirs);
    s->theirs = NULL;
}

sb_status sb_free_take_hidden(sb_free *f, sb_free_sequence *s, size_t n, sb_error *err)
{
    const size_t places = (size_t)f->model->config.layers + 2;
    const size_t count = n * f->model->config.hidden_size;
    if (!f->options.hidden)
        return SB_OK;
    sb_free_drop_hidden(f, s);
    s->theirs = sb_alloc(places, sizeof *s->theirs);
    int good = s->theirs != NULL;
    for (size_t i = 0; i < places && good; i++) {
        const float *theirs = recorded(f, i, n);
        s->theirs[i] = theirs ? sb_alloc(count, sizeof(float)) : NULL;
        good = !theirs || s->theirs[i];
        if (s->theirs[i])
            memcpy(s->theirs[i], theirs, count * sizeof(float));
    }
    sb_envelope_take_hidden(s->envelope, s->theirs);
    return good ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for hidden states");
}

/* The noise of one hidden state of a call. */
typedef struct noise {
    size_t rows, H, adds;
    double factor, unit;
    double *squares[2]; /* (rows, H) mean squares of the tight and of the loose sequences */
} noise;

/* The square of half a unit in the last place of x, twice: the variance of one move (T-40). */
static double own_square(const noise *n, double x)
{
    double unit = 2.0 * n->unit * sb_wide_abs(x); /* at least a unit in the last place */
    return 0.5 * unit * unit;
}

static sb_status measure_noise(const sb_free_sequence *s, size_t at, noise *n, sb_error *err)
{
    const sb_envelope *e = s->envelope;
    const size_t count = n->rows * n->H;
    const float *ours = sb_envelope_hidden(e, 0, at);
    size_t lanes[2] = {0};
    double *squares = n->squares[0] = sb_alloc(2 * count, sizeof *squares);
    if (!squares)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for hidden states");
    n->squares[1] = squares + count;
    for (size_t i = 1; i < sb_envelope_count(e); i++) {
        const float *other = sb_envelope_hidden(e, i, at);
        size_t loose = sb_envelope_is_tight(e, i) ? 0 : 1;
        for (size_t k = 0; k < count; k++) {
            double d = (double)other[k] - (double)ours[k];
            n->squares[loose][k] += d * d;
        }
        lanes[loose]++;
    }
    for (size_t k = 0; k < count; k++) {
        double tight = lanes[0] ? n->squares[0][k] / (double)lanes[0] : 0.0;
        double loose = lanes[1] ? n->squares[1][k] / (double)lanes[1] : 0.0;
        n->squares[0][k] = tight;
        n->squares[1][k] = sb_envelope_loose(e, tight, loose);
    }
    return SB_OK;
}

static double mean_of(const double *x, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return sum / (double)n;
}

/* One row of a hidden state in both programs. */
typedef struct pair {
    const float *ours, *theirs;
    const double *tight, *loose; /* (H) mean squares */
} pair;

typedef struct result {
    double worst, bound; /* largest error / bound, and the bound there */
    size_t at;
    int identical, wide, within_tight;
} result;

/* T-92: "the largest of three numbers" */
static double bound_at(const noise *n, double row, double own, double x)
{
    double most = sb_wide_max(row, own);
    most = sb_wide_max(most, (double)n->adds * own_square(n, x));
    return n->factor * sb_sqrt64(most);
}

static result compare(const noise *n, const pair *p)
{
    result r = {.identical = 1, .within_tight = 1};
    const double tight = mean_of(p->tight, n->H), loose = mean_of(p->loose, n->H);
    double bounds = 0.0, values = 0.0;
    for (size_t i = 0; i < n->H; i++) {
        double x = (double)p->ours[i], error = sb_wide_abs(x - (double)p->theirs[i]);
        double bound = n->adds ? bound_at(n, loose, p->loose[i], x) : 0.0;
        double ratio = sb_free_ratio(error, bound);
        if (ratio != ratio)
            ratio = INFINITY;
        bounds += bound * bound;
        values += x * x;
        r.identical &= sb_bits_f32(p->ours[i]) == sb_bits_f32(p->theirs[i]);
        r.within_tight &= error <= bound_at(n, tight, p->tight[i], x);
        if (ratio > r.worst) {
            r.worst = ratio;
            r.bound = bound;
            r.at = i;
        }
    }
    r.wide = !(bounds <= values);
    return r;
}

/* T-92: "names its layer". after: the last hidden state before it that was within its bound. */
static void fail(sb_free *f, const sb_free_sequence *s, sb_token_verdict *t, size_t at,
                 const char *after, const pair *p, const result *r)
{
    const size_t L = f->model->config.layers;
    sb_place place = {.layer = at > 0 && at <= L ? (uint32_t)at - 1 : SB_NO_LAYER,
                      .op = "hidden",
                      .rank = 1,
                      .element = {r->at},
                      .found = (double)p->theirs[r->at],
                      .expected = (double)p->ours[r->at],
                      .bound = r->bound};
    size_t used;
    name_of(f, at, place.name, sizeof place.name);
    snprintf(place.after, sizeof place.after, "%s", after);
    snprintf(place.words, sizeof place.words, "%s: column %zu is %.9g, expected %.9g within %.3g",
             place.name, r->at, place.found, place.expected, r->bound);
    used = strlen(place.words);
    if (*after)
        snprintf(place.words + used, sizeof place.words - used,
                 "; the fault lies between %s and %s", after, place.name);
    sb_free_fail_row(f, s, t, &place);
}

/* One hidden state of all rows of the call. */
static sb_status judge_hidden(sb_free *f, sb_free_sequence *s, size_t at, size_t first_verdict,
                              const float *theirs, noise *n, unsigned char *failed,
                              const char *after, sb_error *err)
{
    const float *ours = sb_envelope_hidden(s->envelope, 0, at);
    if (!ours)
        return SB_OK;
    sb_status status = measure_noise(s, at, n, err);
    for (size_t row = 0; row < n->rows && !status; row++) {
        const size_t from = row * n->H;
        const pair p = {ours + from, theirs + from, n->squares[0] + from, n->squares[1] + from};
        sb_token_verdict *t = &f->v->tokens[first_verdict + row];
        const result r = compare(n, &p);
        sb_hidden_verdict *h = &f->v->hidden[at];
        h->rows++;
        h->wide += (size_t)r.wide;
        s->within_tight &= r.within_tight;
        if (r.wide)
            continue;
        h->worst = sb_wide_max(h->worst, r.worst);
        t->worst_ratio = sb_wide_max(t->worst_ratio, r.worst);
        f->other_bits += (size_t)!r.identical;
        f->compared++;
        if (!failed[row] && !(r.worst <= 1.0)) {
            failed[row] = 1;
            fail(f, s, t, at, after, &p, &r);
        } else if (!failed[row]) {
            t->verdict = sb_verdict_worse(t->verdict,
                                          r.identical ? SB_VERDICT_IDENTICAL : SB_VERDICT_WITHIN);
        }
    }
    free(n->squares[0]);
    return status;
}

/* True if the last hidden state that is recorded lies within its bounds' reach: T-46. */
static void count_rows(sb_free *f, size_t last, size_t rows, size_t wide)
{
    f->rows_judged += rows;
    f->rows_wide += f->v->hidden[last].wide - wide;
}

sb_status sb_free_hidden(sb_free *f, sb_free_sequence *s, size_t first_verdict, size_t rows,
                         sb_error *err)
{
    const sb_config *c = &f->model->config;
    const size_t places = (size_t)c->layers + 2;
    const sb_format act = sb_act_format(&f->knobs);
    char after[32] = "";
    noise n = {.rows = rows,
               .H = c->hidden_size,
               .factor = sb_envelope_factor(f->model, &f->knobs, f->options.arithmetic,
                                            rows * c->hidden_size),
               .unit = act == SB_FORMAT_bf16  ? 0x1p-8
                       : act == SB_FORMAT_f16 ? 0x1p-11
                                              : 0x1p-24};
    if (!f->options.hidden || !s->theirs)
        return SB_OK;
    if (!sb_verdicts_hidden(f->v, places))
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for verdicts");
    unsigned char *failed = sb_alloc(rows, 1);
    sb_status status = failed ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for verdicts");
    size_t last = places, wide = 0, before = 0;
    for (size_t at = 0; at < places && !status; at++) {
        const float *theirs = s->theirs[at];
        if (!theirs)
            continue;
        last = at;
        wide = f->v->hidden[at].wide;
        name_of(f, at, f->v->hidden[at].name, sizeof f->v->hidden[at].name);
        n.adds = at == 0 ? 0 : at > c->layers ? 1 : 2 * (at - before);
        before = at;
        status = judge_hidden(f, s, at, first_verdict, theirs, &n, failed, after, err);
        snprintf(after, sizeof after, "%s", f->v->hidden[at].name);
    }
    if (!status && last > 0 && last < places)
        count_rows(f, last, rows, wide);
    free(failed);
    return status;
}
