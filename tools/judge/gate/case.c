/* case.c - cases: checks a request, has the op make the inputs, computes the expected values. */
#include "tools/judge/gate/case.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "ref/formats/format.h"
#include "ref/run/backend.h"

/* --- words ------------------------------------------------------------------------------------ */

const char *sb_gate_words(const char *const *list, const char *none, char *text, size_t bytes)
{
    size_t n = (size_t)snprintf(text, bytes, "%s", list && *list ? "" : none);
    for (size_t i = 0; list && list[i] && n < bytes; i++)
        n += (size_t)snprintf(text + n, bytes - n, "%s%s", i ? ", " : "", list[i]);
    return text;
}

int sb_gate_format(sb_dtype dtype, sb_format *out)
{
    for (int f = 0; f < SB_FORMAT_COUNT; f++)
        if (strcmp(sb_format_name((sb_format)f), sb_dtype_name(dtype)) == 0) {
            *out = (sb_format)f;
            return 1;
        }
    return 0;
}

sb_gate_shape sb_gate_shape_of(const sb_gate_case *c)
{
    sb_gate_shape shape = {""};
    size_t n = 0;
    for (size_t i = 0; i < c->op->param_count; i++)
        n += (size_t)snprintf(shape.text + n, sizeof shape.text - n, "%s%s=%" PRIu64, i ? "," : "",
                              c->op->params[i].name, c->size[i]);
    return shape;
}

/* --- requests --------------------------------------------------------------------------------- */

static sb_status unknown_param(const sb_gate_op *op, const char *name, sb_error *err)
{
    const char *names[SB_GATE_PARAMS + 1] = {NULL};
    char text[400];
    for (size_t i = 0; i < op->param_count; i++)
        names[i] = op->params[i].name;
    return sb_fail(err, SB_ERR_USAGE, "shape: %s has no parameter '%s', expected one of %s",
                   op->name, SB_SHOW(name), sb_gate_words(names, "none", text, sizeof text));
}

/* Decimal digits; a number of more than 64 bits is larger than any parameter. */
static int read_number(const char *text, uint64_t *value)
{
    *value = strtoull(text, NULL, 10);
    return *text && !text[strspn(text, "0123456789")];
}

/* One item, "k=256"; given[i]: an earlier item named parameter i. */
static sb_status read_size(sb_gate_case *c, const char *item, int *given, sb_error *err)
{
    char name[SB_GATE_NAME + 1] = "";
    const char *equals = strchr(item, '=');
    size_t length = equals ? (size_t)(equals - item) : strlen(item), i = 0;
    uint64_t value = 0;
    memcpy(name, item, length < SB_GATE_NAME ? length : SB_GATE_NAME);
    while (i < c->op->param_count && strcmp(c->op->params[i].name, name) != 0)
        i++;
    if (i == c->op->param_count)
        return unknown_param(c->op, name, err);
    const sb_gate_param *p = &c->op->params[i];
    if (given[i]++)
        return sb_fail(err, SB_ERR_USAGE, "shape: %s is given twice", name);
    if (!equals || !read_number(equals + 1, &value) || value < p->least || value > p->most)
        return sb_fail(err, SB_ERR_USAGE,
                       "shape: %s is '%s', expected %" PRIu64 " to %" PRIu64 " (%s)", name,
                       equals ? SB_SHOW(equals + 1) : "", p->least, p->most, p->help);
    c->size[i] = value;
    return SB_OK;
}

/* "rows=4,k=256"; parameters without an item keep their defaults. */
static sb_status read_shape(sb_gate_case *c, const char *shape, sb_error *err)
{
    int given[SB_GATE_PARAMS] = {0};
    for (size_t i = 0; i < c->op->param_count; i++)
        c->size[i] = c->op->params[i].value;
    while (shape && *shape) {
        char item[96];
        size_t n = strcspn(shape, ",");
        if (n >= sizeof item)
            return sb_fail(err, SB_ERR_USAGE, "shape: '%s' is not NAME=NUMBER", SB_SHOW(shape));
        memcpy(item, shape, n);
        item[n] = 0;
        sb_status status = read_size(c, item, given, err);
        if (status)
            return status;
        shape += n;
        if (*shape == ',' && !*++shape)
            return sb_fail(err, SB_ERR_USAGE, "shape: ends with a comma");
    }
    return SB_OK;
}

static sb_status read_format(sb_gate_case *c, const char *format, sb_error *err)
{
    const char *const *formats = c->op->formats;
    char text[256];
    c->format = formats ? formats[0] : "";
    if (!format || !*format)
        return SB_OK;
    for (size_t i = 0; formats && formats[i]; i++)
        if (strcmp(formats[i], format) == 0) {
            c->format = formats[i];
            return SB_OK;
        }
    if (!formats)
        return sb_fail(err, SB_ERR_USAGE,
                       "format '%s': %s has no quantized weights, so it has no formats",
                       SB_SHOW(format), c->op->name);
    return sb_fail(err, SB_ERR_USAGE, "format of %s is '%s', expected %s", c->op->name,
                   SB_SHOW(format), sb_gate_words(formats, "", text, sizeof text));
}

static sb_status read_request(sb_gate_case *c, const sb_gate_request *r, sb_error *err)
{
    sb_status status = read_format(c, r->format, err);
    if (!status)
        status = read_shape(c, r->shape, err);
    if (!status && r->regime)
        status = sb_gate_regime_find(r->regime, &c->regime, err);
    if (!status && !sb_gate_takes(c->op, c->regime))
        status = sb_fail(err, SB_ERR_USAGE,
                         "regime '%s' is not in the contract of %s, which excludes %s",
                         sb_gate_regime_name(c->regime), c->op->name, c->op->not_regimes);
    if (!status && r->input != SB_DTYPE_BF16 && r->input != SB_DTYPE_F16 &&
        r->input != SB_DTYPE_F32)
        status = sb_fail(err, SB_ERR_USAGE, "input type is %s, expected BF16, F16 or F32",
                         sb_dtype_name(r->input));
    c->input = r->input;
    c->seed = r->seed;
    return status;
}

/* --- cases ------------------------------------------------------------------------------------ */

void sb_gate_case_free(sb_gate_case *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->arrays; i++)
        free(c->array[i].data);
    for (size_t i = 0; i < c->outputs; i++) {
        free(c->output[i].real);
        free(c->output[i].exact);
    }
    free(c);
}

/* Sets the message of SB_ERR_MEMORY, which functions return without a message. */
static sb_status said(const sb_gate_case *c, sb_status status, sb_error *err)
{
    if (status == SB_ERR_MEMORY)
        return sb_fail(err, status, "%s: out of memory", c->op->name);
    return status;
}

sb_status sb_gate_case_begin(const sb_gate_op *op, const sb_gate_request *request, int with_inputs,
                             sb_gate_case **out, sb_error *err)
{
    sb_gate_case *c = sb_alloc(1, sizeof *c);
    if (!c)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", op->name);
    c->op = op;
    sb_status status = read_request(c, request, err);
    if (!status && with_inputs)
        status = said(c, sb_gate_make(c, err), err);
    if (status) {
        sb_gate_case_free(c);
        c = NULL;
    }
    *out = c;
    return status;
}

static int finite(double x)
{
    return x - x == 0.0;
}

/* The contract of regimes: every expected value is finite. */
static sb_status check_finite(const sb_gate_case *c, sb_error *err)
{
    for (size_t o = 0; o < c->outputs; o++) {
        const sb_gate_output *y = &c->output[o];
        for (size_t i = 0; i < y->count; i++)
            if (!finite((double)y->exact[i]) || !finite(y->real[i].hi) || !finite(y->real[i].lo))
                return sb_fail(err, SB_ERR_NUMERIC,
                               "%s: element %zu of out%s%s is %g, real value %g: expected numbers",
                               c->op->name, i, *y->name ? "." : "", y->name, (double)y->exact[i],
                               y->real[i].hi);
    }
    return SB_OK;
}

sb_status sb_gate_case_expected(sb_gate_case *c, sb_error *err)
{
    float *exact[SB_GATE_OUTPUTS];
    sb_dd *real[SB_GATE_OUTPUTS];
    sb_knobs knobs;
    sb_knobs_exact(&knobs);
    for (size_t o = 0; o < c->outputs; o++) {
        exact[o] = c->output[o].exact;
        real[o] = c->output[o].real;
    }
    sb_status status = sb_gate_exact(c, &knobs, &sb_backend_ref()->ops, exact);
    if (!status)
        status = sb_gate_real(c, real);
    if (status)
        return said(c, status, err);
    for (size_t o = 0; o < c->outputs; o++)
        for (size_t i = 0; c->output[o].kind == SB_GATE_CHOICES && i < c->output[o].count; i++)
            real[o][i] = sb_dd_of((double)exact[o][i]);
    return check_finite(c, err);
}

sb_status sb_gate_case_of(const sb_gate_op *op, const sb_gate_request *request, sb_gate_case **out,
                          sb_error *err)
{
    sb_status status = sb_gate_case_begin(op, request, 1, out, err);
    if (!status)
        status = sb_gate_case_expected(*out, err);
    if (status) {
        sb_gate_case_free(*out);
        *out = NULL;
    }
    return status;
}

sb_status sb_gate_case_make(const sb_gate_request *request, sb_gate_case **out, sb_error *err)
{
    const sb_gate_op *op = request->op ? sb_gate_op_find(request->op) : NULL;
    *out = NULL;
    if (!op)
        return sb_fail(
            err, SB_ERR_USAGE,
            "there are no vectors for '%s'; 'samebit vectors --list' shows what there is",
            SB_SHOW(request->op ? request->op : ""));
    return sb_gate_case_of(op, request, out, err);
}

uint64_t sb_gate_size(const sb_gate_case *c, const char *name)
{
    size_t i = 0;
    while (strcmp(c->op->params[i].name, name) != 0)
        i++;
    return c->size[i];
}

/* --- inputs ----------------------------------------------------------------------------------- */

const sb_gate_array *sb_gate_input(const sb_gate_case *c, const char *name)
{
    for (size_t i = 0; i < c->arrays; i++)
        if (strcmp(c->array[i].name, name) == 0)
            return &c->array[i];
    return NULL;
}

sb_gate_array *sb_gate_add(sb_gate_case *c, const char *name, sb_dtype dtype, const char *axes,
                           unsigned rank, const uint64_t *shape)
{
    sb_gate_array *a = &c->array[c->arrays];
    uint64_t bytes = 0;
    if (c->arrays == SB_GATE_ARRAYS || sb_dtype_bytes(dtype, rank, shape, &bytes, NULL) ||
        bytes > SIZE_MAX)
        return NULL;
    snprintf(a->name, sizeof a->name, "%s", name);
    a->dtype = dtype;
    a->axes = axes;
    a->rank = rank;
    memcpy(a->shape, shape, rank * sizeof *shape);
    a->bytes = bytes;
    a->data = sb_alloc((size_t)bytes, 1);
    if (!a->data)
        return NULL;
    c->arrays++;
    return a;
}

static size_t elements(unsigned rank, const uint64_t *shape)
{
    size_t count = 1;
    for (unsigned i = 0; i < rank; i++)
        count *= (size_t)shape[i];
    return count;
}

sb_status sb_gate_add_values(sb_gate_case *c, const char *name, const char *axes, unsigned rank,
                             const uint64_t *shape, const float *values)
{
    sb_format format = SB_FORMAT_f32;
    sb_gate_array *a = sb_gate_add(c, name, c->input, axes, rank, shape);
    if (!a || !sb_gate_format(c->input, &format))
        return SB_ERR_MEMORY;
    sb_encode(format, values, elements(rank, shape), a->data);
    return SB_OK;
}

float *sb_gate_values(const sb_gate_case *c, const char *name)
{
    const sb_gate_array *a = sb_gate_input(c, name);
    sb_format format = SB_FORMAT_f32;
    size_t count = elements(a->rank, a->shape);
    float *values = sb_gate_format(a->dtype, &format) ? sb_alloc(count, sizeof *values) : NULL;
    if (values)
        sb_decode(format, a->data, count, values);
    return values;
}

static const char *shape_words(unsigned rank, const uint64_t *shape, char *text, size_t bytes)
{
    size_t n = (size_t)snprintf(text, bytes, "(");
    for (unsigned i = 0; i < rank && n < bytes; i++)
        n += (size_t)snprintf(text + n, bytes - n, "%s%" PRIu64, i ? ", " : "", shape[i]);
    if (n < bytes)
        snprintf(text + n, bytes - n, ")");
    return text;
}

sb_status sb_gate_need(const sb_gate_case *c, const char *name, unsigned rank,
                       const uint64_t *shape, sb_error *err)
{
    const sb_gate_array *a = sb_gate_input(c, name);
    char found[128], expected[128];
    if (!a)
        return sb_fail(err, SB_ERR_INPUT, "in.%s is missing; %s needs it", name, c->op->name);
    if (a->rank == rank && memcmp(a->shape, shape, rank * sizeof *shape) == 0)
        return SB_OK;
    return sb_fail(err, SB_ERR_INPUT, "in.%s has the shape %s, expected %s", name,
                   shape_words(a->rank, a->shape, found, sizeof found),
                   shape_words(rank, shape, expected, sizeof expected));
}

sb_matrix sb_gate_matrix(const sb_gate_case *c, const char *name, uint32_t rows, uint32_t cols)
{
    const sb_gate_array *a = sb_gate_input(c, name);
    sb_matrix m = {.data = a->data, .rows = rows, .cols = cols};
    sb_gate_format(a->dtype, &m.format);
    return m;
}

/* --- bounds ----------------------------------------------------------------------------------- */

static double apart(double centre, sb_dd real)
{
    double d = centre - real.hi - real.lo;
    return d < 0.0 ? -d : d;
}

static void free_balls(sb_ball *const *balls, size_t count)
{
    for (size_t o = 0; o < count; o++)
        free(balls[o]);
}

static sb_status bound_by_balls(const sb_gate_case *c, const sb_gate_arith *ar, size_t output,
                                double *bound)
{
    const sb_gate_output *y = &c->output[output];
    sb_ball *balls[SB_GATE_OUTPUTS] = {NULL};
    sb_status status = SB_OK;
    for (size_t o = 0; o < c->outputs && !status; o++) {
        balls[o] = sb_alloc(c->output[o].count, sizeof **balls);
        status = balls[o] ? SB_OK : SB_ERR_MEMORY;
    }
    if (!status)
        status = sb_gate_balls(c, ar, balls);
    for (size_t i = 0; i < y->count && !status; i++)
        bound[i] =
            (apart(balls[output][i].mid, y->real[i]) + balls[output][i].rad) * SB_BOUND_SLACK;
    free_balls(balls, c->outputs);
    return status;
}

/* V-107: "|m - real| + r, increased by a hundredth" */
sb_status sb_gate_bound(const sb_gate_case *c, const sb_gate_arith *ar, size_t output,
                        double *bound, sb_error *err)
{
    const sb_gate_output *y = &c->output[output];
    if (y->kind == SB_GATE_VALUES && !ar->exact)
        return said(c, bound_by_balls(c, ar, output, bound), err);
    for (size_t i = 0; i < y->count; i++)
        bound[i] = apart((double)y->exact[i], y->real[i]);
    return SB_OK;
}
