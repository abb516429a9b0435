/* follow.c - V-38: which factors explain the difference between a matrix and its original. */
#include "tools/check/scan/follow.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/formats/wide.h"
#include "tools/check/scan/across.h"
#include "tools/check/scan/ints.h"
#include "tools/check/read/norms.h"
#include "tools/check/scan/producer.h"

/* Dot products of values v of a matrix and values w of its original. */
typedef struct dots {
    double vw, vv, ww;
} dots;

/* One pass over a matrix and its original. The columns of a layer may be divided by the factors
 * that its norm was multiplied by. */
typedef struct pass {
    const sb_matrix *own, *other;
    double factor, other_factor; /* factors of the whole tensors */
    double *v, *w;               /* one row of each */
    double *norm;                /* (cols) expected factor of each column; NULL: 1 */
    double *norm_error;          /* (cols) how far rounding may have moved it, relative */
    dots all, *rows, *columns, *units;
    double units_left; /* sum of left_of() over all finished units */
    double steps;      /* integers: sum of (v - w) / S */
    uint64_t counted;
    int cuts;       /* weights beyond the largest code count as equal to it */
    uint64_t cut;   /* number of such weights */
    int16_t *codes; /* scratch */
    uint32_t units_off, unit_row, unit_column;
} pass;

static void add(dots *d, double v, double w)
{
    d->vw += v * w;
    d->vv += v * v;
    d->ww += w * w;
}

/* The best factor a of v = a w. */
static double slope(const dots *d)
{
    return d->ww > 0 ? d->vw / d->ww : 1;
}

/* |v - a w|^2 with the best factor a. */
static double left_of(const dots *d)
{
    double left = d->ww > 0 ? d->vv - d->vw * d->vw / d->ww : d->vv;
    return left > 0 ? left : 0;
}

static double error_of(const dots *d)
{
    double error = d->vv - 2 * d->vw + d->ww;
    return error > 0 ? error : 0;
}

/* --- the norm before a layer ------------------------------------------------------------------ */

/* The length of the name up to and including "layers.3." in "layers.3.mlp.experts.1.up_proj"; 0: no
 * layer. */
static size_t layer_length(const char *name)
{
    const char *at = strstr(name, "layers.");
    if (!at)
        return 0;
    at += strlen("layers.");
    at += strspn(at, "0123456789");
    return *at == '.' ? (size_t)(at + 1 - name) : 0;
}

static const char *norm_before(const char *last)
{
    static const char *const of_attention[] = {"q_proj",      "k_proj",       "v_proj",
                                               "in_proj_qkv", "in_proj_z",    "in_proj_b",
                                               "in_proj_a",   "in_proj_qkvz", "in_proj_ba"};
    for (size_t i = 0; i < sizeof of_attention / sizeof *of_attention; i++)
        if (strcmp(last, of_attention[i]) == 0)
            return "input_layernorm";
    if (strcmp(last, "gate_proj") == 0 || strcmp(last, "up_proj") == 0)
        return "post_attention_layernorm";
    return NULL;
}

/* Half the distance of x to the next number of the type. */
static double half_step(double x, sb_dtype dtype)
{
    const int bits = dtype == SB_DTYPE_BF16 ? 8 : dtype == SB_DTYPE_F16 ? 11 : 24;
    const uint64_t exponent = sb_bits_f64(x) & 0x7ff0000000000000u;
    return sb_f64_from_bits(exponent) * sb_f64_from_bits((uint64_t)(1023 - bits) << 52);
}

/* V-38: "A norm is stored less 1, and rounded" - once as 1 + n', once as n'; 1 + n was rounded
 * before it was divided. */
static double norm_error(double now, double was, sb_dtype dtype)
{
    const double own = (half_step(now - 1, dtype) + half_step(now, dtype)) / now;
    return (own < 0 ? -own : own) + half_step(was, dtype) / (was < 0 ? -was : was);
}

/* (1 + n) / (1 + n') for the columns of a layer; NULL: the norm is unchanged, or there is none.
 * `error` (cols), if it is not NULL, gets what rounding of the norm may have changed. */
static double *norm_factors(const sb_check *check, const sb_member *m, double *error)
{
    char name[SB_MAX_TENSOR_NAME + 64];
    const char *dot = strrchr(m->name, '.');
    const char *norm = dot ? norm_before(dot + 1) : NULL;
    size_t layer = layer_length(m->name);
    if (!norm || !layer)
        return NULL;
    snprintf(name, sizeof name, "%.*s%s.weight", (int)layer, m->name, norm);
    const sb_unit *own = sb_unit_named(&check->self.units, name);
    const sb_unit *other = own ? sb_master_unit(check, own) : NULL;
    if (!own || !own->tensor || !other || !other->tensor)
        return NULL;
    uint64_t n = 0, count = 0;
    float *a = sb_floats_of(own->tensor, &n), *b = sb_floats_of(other->tensor, &count);
    double *out = a && b && n == count && n == m->matrix.cols ? sb_alloc(n, sizeof *out) : NULL;
    int changed = 0;
    for (uint64_t k = 0; out && k < n; k++) {
        double now = 1 + (double)a[k], was = 1 + (double)b[k], apart = now - was;
        out[k] = now != 0 && was != 0 ? was / now : 1;
        if (error && now != 0 && was != 0)
            error[k] = norm_error(now, was, own->tensor->dtype);
        changed |= apart > 0.01 * (was < 0 ? -was : was) || -apart > 0.01 * (was < 0 ? -was : was);
    }
    free(a);
    free(b);
    if (out && !changed) {
        free(out);
        return NULL;
    }
    return out;
}

int sb_follow_is_normed(const sb_check *check, const sb_member *m)
{
    double *norm = check->master.checkpoint ? norm_factors(check, m, NULL) : NULL;
    free(norm);
    return norm != NULL;
}

/* --- one pass --------------------------------------------------------------------------------- */

static uint32_t group_of(const sb_matrix *m, uint32_t k)
{
    const unsigned char *index = m->quant.group_index;
    return index ? sb_load_u32(index + 4 * (size_t)k) : k / m->quant.block_cols;
}

/* V-38: "eight times the effect that noise of this size has on a factor" */
static void end_units(pass *p, uint32_t row, double noise2)
{
    const sb_quant *q = &p->own->quant;
    uint32_t first = row / q->block_rows * q->block_rows;
    for (uint32_t g = 0; g < q->groups; g++) {
        dots *d = &p->units[g];
        double n = (double)q->block_cols * (row + 1 - first), off;
        p->units_left += left_of(d);
        off = d->ww > 0 ? d->vw / d->ww - 1 : 0;
        if (n >= 16 && off * off > 64 * noise2 / n && off * off > 0.0025 && n < 1e9) {
            if (p->units_off++ == 0) {
                p->unit_row = first;
                p->unit_column = g * q->block_cols;
            }
        }
        *d = (dots){0};
    }
}

static void add_steps(pass *p, uint32_t row)
{
    for (uint32_t k = 0; k < p->own->cols; k++) {
        double scale = (double)sb_matrix_scale(p->own, row, k);
        if (scale == 0)
            continue;
        p->steps += (p->v[k] - p->w[k]) / scale;
        p->counted++;
    }
}

/* V-24: "A weight beyond the last code is compared as that code" */
static void cut_row(pass *p, uint32_t row)
{
    const sb_matrix *m = p->own;
    sb_int_range range = {-1, 1};
    if (m->format != SB_FORMAT_e2m1) {
        range = sb_int_range_in(m);
        sb_int_unpack(m, sb_matrix_stored_row(m, row), 1, 0, m->cols, p->codes, m->cols);
    }
    for (uint32_t k = 0; k < m->cols; k++) {
        double scale = p->factor * (double)sb_matrix_scale(m, row, k), v = p->v[k];
        double outward = (p->w[k] - v) * scale; /* above 0: towards larger codes */
        int code = p->codes[k];
        if (m->format == SB_FORMAT_e2m1) {
            double end = 5.99 * scale * (scale < 0 ? -1 : 1);
            code = v >= end ? 1 : v <= -end ? -1 : 0;
            outward = p->w[k] - v;
        }
        if ((code == range.most && outward > 0) || (code == range.least && outward < 0)) {
            p->w[k] = v;
            p->cut++;
        }
    }
}

static void one_row(pass *p, uint32_t row, int integers)
{
    const sb_matrix *m = p->own;
    sb_matrix_wide(m, row, p->v);
    sb_matrix_wide(p->other, row, p->w);
    for (uint32_t k = 0; k < m->cols; k++) {
        p->v[k] *= p->factor;
        p->w[k] *= p->other_factor * (p->norm ? p->norm[k] : 1);
    }
    if (p->cuts)
        cut_row(p, row);
    for (uint32_t k = 0; k < m->cols; k++) {
        add(&p->rows[row], p->v[k], p->w[k]);
        add(&p->columns[k], p->v[k], p->w[k]);
        add(&p->units[group_of(m, k)], p->v[k], p->w[k]);
    }
    p->all.vw += p->rows[row].vw;
    p->all.vv += p->rows[row].vv;
    p->all.ww += p->rows[row].ww;
    if (integers)
        add_steps(p, row);
}

static int run(pass *p, double noise2)
{
    const sb_matrix *m = p->own;
    int integers = m->format != SB_FORMAT_e2m1 && m->format != SB_FORMAT_e4m3;
    for (uint32_t i = 0; i < m->rows; i++) {
        one_row(p, i, integers);
        if ((i + 1) % m->quant.block_rows == 0 || i + 1 == m->rows)
            end_units(p, i, noise2);
    }
    return p->all.ww > 0 && p->all.vv < 1e300 && p->all.ww < 1e300;
}

static int begin(const sb_check *check, const sb_member *m, pass *p)
{
    const sb_member *other =
        check->master.checkpoint ? sb_member_plain(&check->master.units, m->plain) : NULL;
    *p = (pass){.own = &m->matrix};
    if (!other || other->matrix.rows != m->matrix.rows || other->matrix.cols != m->matrix.cols ||
        !m->matrix.quant.groups)
        return 0;
    p->other = &other->matrix;
    const sb_quant *a = &p->own->quant, *b = &p->other->quant;
    p->factor = a->factor.kind == SB_NO_FACTOR ? 1 : (double)sb_factor_multiplier(a->factor);
    p->other_factor = b->factor.kind == SB_NO_FACTOR ? 1 : (double)sb_factor_multiplier(b->factor);
    p->v = sb_alloc(m->matrix.cols, sizeof *p->v);
    p->w = sb_alloc(m->matrix.cols, sizeof *p->w);
    p->rows = sb_alloc(m->matrix.rows, sizeof *p->rows);
    p->columns = sb_alloc(m->matrix.cols, sizeof *p->columns);
    p->units = sb_alloc(a->groups, sizeof *p->units);
    p->norm_error = sb_alloc(m->matrix.cols, sizeof *p->norm_error);
    if (!p->norm_error)
        return 0;
    memset(p->norm_error, 0, m->matrix.cols * sizeof *p->norm_error);
    p->norm = norm_factors(check, m, p->norm_error);
    p->cuts = m->matrix.format != SB_FORMAT_e4m3 && sb_producer_tunes(check);
    p->codes = sb_alloc(m->matrix.cols, sizeof *p->codes);
    if (!p->v || !p->w || !p->codes || !p->rows || !p->columns || !p->units)
        return 0;
    memset(p->rows, 0, m->matrix.rows * sizeof *p->rows);
    memset(p->columns, 0, m->matrix.cols * sizeof *p->columns);
    memset(p->units, 0, a->groups * sizeof *p->units);
    return 1;
}

static void end(pass *p)
{
    free(p->v);
    free(p->w);
    free(p->rows);
    free(p->columns);
    free(p->units);
    free(p->norm);
    free(p->norm_error);
    free(p->codes);
}

/* --- pairs ------------------------------------------------------------------------------------ */

/* The layer that may have the inverse factors: the layer after m for factors of rows, the layer
 * before m for factors of columns. Sets *rows to 1 in the first case. */
static const sb_member *partner_of(const sb_check *check, const sb_member *m, int *rows)
{
    static const char *const pairs[][2] = {{"up_proj", "down_proj"}, {"v_proj", "o_proj"}};
    char plain[SB_MAX_TENSOR_NAME + 64];
    const char *dot = strrchr(m->plain, '.');
    for (size_t i = 0; i < 2 && dot; i++)
        for (unsigned side = 0; side < 2; side++) {
            if (strcmp(dot + 1, pairs[i][side]) != 0)
                continue;
            snprintf(plain, sizeof plain, "%.*s%s", (int)(dot + 1 - m->plain), m->plain,
                     pairs[i][1 - side]);
            *rows = side == 0;
            return sb_member_plain(&check->self.units, plain);
        }
    return NULL;
}

/* 1 for a factor too far from 1 to be noise. */
static int is_off(double factor)
{
    return factor < 0.95 || factor > 1.05;
}

/* V-38: "the product of both must be 1 within a tenth, for nine of ten" */
static int is_paired(const sb_check *check, const sb_member *m, const pass *p, int rows)
{
    int mine = 0, good = 0;
    pass q;
    const sb_member *partner = partner_of(check, m, &mine);
    if (!partner || mine != rows || !begin(check, partner, &q))
        return 0;
    uint32_t count = rows ? p->own->rows : p->own->cols, agree = 0, off = 0;
    uint32_t theirs = rows ? q.own->cols : q.own->rows;
    if (count == theirs && run(&q, 1)) {
        for (uint32_t i = 0; i < count; i++) {
            double x = slope(rows ? &p->rows[i] : &p->columns[i]);
            double y = slope(rows ? &q.columns[i] : &q.rows[i]);
            if (!is_off(x) && !is_off(y))
                continue;
            off++;
            agree += x * y > 0.9 && x * y < 1.1;
        }
        good = off && (uint64_t)agree * 10 >= (uint64_t)off * 9;
    }
    end(&q);
    return good;
}

/* --- judgement -------------------------------------------------------------------------------- */

static int order(const void *a, const void *b)
{
    double x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

/* V-38: "A row is off" */
static void find_rows(const pass *p, sb_follow *f)
{
    uint32_t n = p->own->rows;
    double *errors = sb_alloc(n, sizeof *errors), middle = 0;
    if (!errors)
        return;
    for (uint32_t i = 0; i < n; i++)
        errors[i] = p->rows[i].ww > 0 ? error_of(&p->rows[i]) / p->rows[i].ww : 0;
    qsort(errors, n, sizeof *errors, order);
    middle = errors[n / 2];
    for (uint32_t i = 0; i < n; i++) {
        const dots *d = &p->rows[i];
        if (d->ww > 1e-10 * p->own->cols && error_of(d) > 0.5 * d->ww &&
            error_of(d) > 9 * middle * d->ww && f->parts++ == 0)
            f->row = i;
    }
    free(errors);
}

static double sum_left(const dots *d, uint32_t count)
{
    double left = 0;
    for (uint32_t i = 0; i < count; i++)
        left += left_of(&d[i]);
    return left;
}

/* What is left of the error after a factor for each column. A factor counts only if it is well
 * beyond what rounding of the norm before the layer can change. */
static double left_by_columns(const pass *p)
{
    double left = 0;
    for (uint32_t k = 0; k < p->own->cols; k++) {
        const dots *d = &p->columns[k];
        const double off = slope(d) < 1 ? 1 - slope(d) : slope(d) - 1;
        left += off > 1.5 * p->norm_error[k] ? left_of(d) : error_of(d);
    }
    return left;
}

/* V-38: "GPTQ zeroes the columns whose inputs were never other than zero" - 1 if the matrix,
 * without such columns, differs as tuned codes do. */
static int is_dead_columns(const pass *p, sb_follow *f)
{
    dots rest = {0};
    uint32_t dead = 0;
    for (uint32_t k = 0; k < p->own->cols; k++) {
        const dots *d = &p->columns[k];
        dead += d->vv == 0 && d->ww > 0;
        if (d->vv == 0)
            continue;
        rest.vw += d->vw;
        rest.vv += d->vv;
        rest.ww += d->ww;
    }
    if (!dead || !(rest.ww > 0) || error_of(&rest) > 0.125 * rest.ww)
        return 0;
    f->how = SB_FOLLOWS_noise;
    f->dead = dead;
    f->left = sb_root(error_of(&rest) / rest.ww);
    return 1;
}

static void decide(const sb_check *check, const sb_member *m, const pass *p, sb_follow *f)
{
    const dots *all = &p->all;
    double error2 = error_of(all), limit = 0.5625 * error2 / all->ww * all->vv; /* 0.75^2 */
    double one = left_of(all), rows = sum_left(p->rows, p->own->rows);
    double columns = left_by_columns(p), left = error2;
    double steps = p->counted ? p->steps / (double)p->counted : 0;
    f->error = sb_root(error2 / all->ww);
    f->cosine = all->vv > 0 ? all->vw / sb_root(all->vv) / sb_root(all->ww) : 0;
    f->factor = slope(all);
    if (is_dead_columns(p, f))
        return;
    if (f->cosine < 0.7 && !(steps > 0.5 || steps < -0.5)) {
        f->how = SB_FOLLOWS_not;
    } else if (steps > 0.5 || steps < -0.5) {
        f->how = SB_FOLLOWS_offset;
        f->factor = steps;
    } else if (one < limit) {
        f->how = SB_FOLLOWS_scale;
        left = one;
    } else if (rows < limit && (f->paired = is_paired(check, m, p, 1), f->paired)) {
        f->how = SB_FOLLOWS_rows;
        left = rows;
    } else if (columns < limit) {
        f->how = SB_FOLLOWS_columns;
        f->paired = is_paired(check, m, p, 0);
        left = columns;
    } else if (p->units_left < limit) {
        f->how = SB_FOLLOWS_units;
        left = p->units_left;
    } else if (rows < limit) {
        f->how = SB_FOLLOWS_rows;
        left = rows;
    } else {
        find_rows(p, f);
        f->how = f->parts ? SB_FOLLOWS_part : SB_FOLLOWS_noise;
    }
    f->left = sb_root(left / all->ww);
}

sb_follow sb_follow_of(const sb_check *check, const sb_member *m)
{
    sb_follow f = {.how = SB_FOLLOWS_unknown};
    pass p;
    double noise2 = m->seen->has_distance && m->seen->distance.master2 > 0
                        ? m->seen->distance.error2 / m->seen->distance.master2
                        : 1;
    if (begin(check, m, &p) && run(&p, noise2)) {
        f.normed = p.norm != NULL;
        f.cut = (double)p.cut / ((double)m->matrix.rows * m->matrix.cols);
        decide(check, m, &p, &f);
        if (f.how == SB_FOLLOWS_noise && p.units_off && !f.normed && !f.dead) {
            f.how = SB_FOLLOWS_part;
            f.parts = p.units_off;
            f.row = p.unit_row;
            f.column = p.unit_column;
        }
    }
    end(&p);
    return f;
}

const char *sb_follow_text(const sb_follow *f, char *text, size_t size)
{
    switch (f->how) {
    case SB_FOLLOWS_not:
        snprintf(text, size, "it does not follow the original (cosine %.3f)", f->cosine);
        break;
    case SB_FOLLOWS_scale:
        snprintf(text, size, "it is the original times %.4g: a scale is wrong", f->factor);
        break;
    case SB_FOLLOWS_offset:
        snprintf(text, size,
                 "its weights are %.2f steps off on average: the zero points belong to other codes",
                 f->factor);
        break;
    case SB_FOLLOWS_rows:
    case SB_FOLLOWS_columns:
        snprintf(text, size, "its %s are those of the original, each multiplied by a factor%s",
                 f->how == SB_FOLLOWS_rows ? "rows" : "columns",
                 f->paired ? ", and a neighbouring layer has the inverse factors"
                           : ", and no neighbouring norm or layer has the inverse factors");
        break;
    case SB_FOLLOWS_units:
        snprintf(text, size,
                 "under every scale the weights are the original's times another factor: scales "
                 "are misplaced, or belong to other weights");
        break;
    case SB_FOLLOWS_part:
        snprintf(text, size,
                 "%" PRIu32 " %s are far off and the others are not, the first at row %" PRIu32
                 ", column %" PRIu32,
                 f->parts, f->column ? "scales" : "rows or scales", f->row, f->column);
        break;
    case SB_FOLLOWS_noise:
    case SB_FOLLOWS_unknown:
        snprintf(text, size, "each weight is a little off");
        break;
    }
    return text;
}
