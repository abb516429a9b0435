/* case.c - cases of ref/samebit.h: making, reading, and access. */
#include <stdio.h>
#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/show.h"
#include "tools/api/cases.h"

/* --- lists ------------------------------------------------------------------------------------ */

size_t samebit_op_count(void)
{
    return sb_gate_op_count();
}

static const sb_gate_op *op_at(size_t op)
{
    return op < sb_gate_op_count() ? sb_gate_op_at(op) : NULL;
}

const char *samebit_op_name(size_t op)
{
    return op_at(op) ? op_at(op)->name : NULL;
}

const char *samebit_op_help(size_t op)
{
    return op_at(op) ? op_at(op)->what : NULL;
}

const char *samebit_op_clause(size_t op)
{
    return op_at(op) ? op_at(op)->clause : NULL;
}

/* Entry i of a NULL-terminated list. */
static const char *entry(const char *const *list, size_t i)
{
    size_t n = 0;
    while (list && list[n] && n < i)
        n++;
    return list ? list[n] : NULL;
}

const char *samebit_op_format(size_t op, size_t i)
{
    return op_at(op) ? entry(op_at(op)->formats, i) : NULL;
}

const char *samebit_op_param(size_t op, size_t i)
{
    return op_at(op) && i < op_at(op)->param_count ? op_at(op)->params[i].name : NULL;
}

const char *samebit_op_shape(size_t op, size_t i)
{
    return op_at(op) ? entry(op_at(op)->shapes, i) : NULL;
}

int samebit_op_takes(size_t op, size_t regime)
{
    return op_at(op) && regime < SB_GATE_REGIMES &&
           sb_gate_takes(op_at(op), (sb_gate_regime)regime);
}

size_t samebit_regime_count(void)
{
    return SB_GATE_REGIMES;
}

const char *samebit_regime_name(size_t regime)
{
    return regime < SB_GATE_REGIMES ? sb_gate_regime_name((sb_gate_regime)regime) : NULL;
}

const char *samebit_regime_help(size_t regime)
{
    return regime < SB_GATE_REGIMES ? sb_gate_regime_help((sb_gate_regime)regime) : NULL;
}

size_t samebit_arith_count(void)
{
    return sb_gate_arith_count();
}

const char *samebit_arith_name(size_t arith, samebit_name *room)
{
    sb_gate_arith ar;
    if (!room || arith >= sb_gate_arith_count() || sb_gate_arith_at(arith, &ar))
        return NULL;
    snprintf(room->text, sizeof room->text, "%s", ar.name);
    return room->text;
}

const char *samebit_arith_help(size_t arith)
{
    return arith < sb_gate_arith_count() ? sb_gate_arith_help(arith) : NULL;
}

/* --- life ------------------------------------------------------------------------------------- */

void sb_api_case(sb_gate_case *c, samebit_case *handle)
{
    handle->c = c;
    handle->own = 0;
    handle->shape = sb_gate_shape_of(c);
    for (size_t i = 0; i < c->outputs; i++)
        snprintf(handle->output[i].text, sizeof handle->output[i].text, "out%s%s",
                 *c->output[i].name ? "." : "", c->output[i].name);
}

/* Puts a case into a handle, which owns it. */
static sb_status wrap(sb_gate_case *c, samebit_case **out, sb_error *err)
{
    samebit_case *handle = sb_alloc(1, sizeof *handle);
    if (!handle) {
        sb_gate_case_free(c);
        return sb_fail(err, SB_ERR_MEMORY, "out of memory");
    }
    sb_api_case(c, handle);
    *out = handle;
    return SB_OK;
}

/* Converts the arguments that two functions share to a request. */
static sb_status read_request(const char *format, const char *shape, const char *input,
                              sb_gate_request *out, sb_error *err)
{
    *out = (sb_gate_request){.format = format, .shape = shape, .input = SB_DTYPE_BF16};
    if (input && !sb_dtype_find(input, &out->input))
        return sb_fail(err, SB_ERR_USAGE, "input type is '%s', expected BF16, F16 or F32",
                       SB_SHOW(input));
    return SB_OK;
}

samebit_status samebit_case_make(const char *op, const char *format, const char *shape,
                                 const char *regime, const char *input, uint64_t seed,
                                 samebit_case **out, samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(op && out);
    sb_error *error = sb_api_error(err);
    sb_gate_request request;
    sb_gate_case *c = NULL;
    sb_status status = read_request(format, shape, input, &request, error);
    request.op = op;
    request.regime = regime;
    request.seed = seed;
    if (!status)
        status = sb_api_start(error);
    if (!status)
        status = sb_gate_case_make(&request, &c, error);
    if (!status)
        status = wrap(c, out, error);
    return sb_api_status(status);
}

samebit_status samebit_case_read(const char *path, samebit_case **out, samebit_name *arith,
                                 samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(path && out);
    sb_error *error = sb_api_error(err);
    sb_gate_arith ar;
    sb_gate_case *c = NULL;
    sb_status status = sb_api_start(error);
    if (!status)
        status = sb_gate_read(path, &c, &ar, error);
    if (!status)
        status = wrap(c, out, error);
    if (!status && arith)
        snprintf(arith->text, sizeof arith->text, "%s", ar.name);
    return sb_api_status(status);
}

samebit_status samebit_case_write(const samebit_case *c, const char *arith, const char *path,
                                  samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(c && arith && path);
    sb_error *error = sb_api_error(err);
    sb_gate_arith ar;
    sb_status status = sb_api_start(error);
    if (!status && c->own)
        status = sb_fail(error, SB_ERR_USAGE,
                         "the inputs are the caller's: files are of inputs that "
                         "a seed gives, and others are refused by readers");
    if (!status)
        status = sb_gate_arith_of(arith, &ar, error);
    if (!status)
        status = sb_gate_write(c->c, &ar, path, error);
    return sb_api_status(status);
}

void samebit_case_free(samebit_case *c)
{
    if (!c)
        return;
    sb_gate_case_free(c->c);
    free(c);
}

/* --- inputs of the caller --------------------------------------------------------------------- */

sb_status sb_api_whole(const samebit_array *a, sb_dtype *dtype, sb_error *err)
{
    uint64_t bytes = 0;
    const char *name = a->name ? a->name : "out";
    if (!a->dtype || !sb_dtype_find(a->dtype, dtype))
        return sb_fail(err, SB_ERR_USAGE, "%s: '%s' is not a dtype of safetensors", SB_SHOW(name),
                       SB_SHOW(a->dtype ? a->dtype : ""));
    if (a->rank > SAMEBIT_RANK)
        return sb_fail(err, SB_ERR_USAGE, "%s has %u dimensions, expected at most %d",
                       SB_SHOW(name), (unsigned)a->rank, (int)SAMEBIT_RANK);
    sb_status status = sb_dtype_bytes(*dtype, a->rank, a->shape, &bytes, err);
    if (status)
        return sb_fail_in(err, SB_ERR_USAGE, SB_SHOW(name));
    if (!a->data || a->bytes != bytes)
        return sb_fail(err, SB_ERR_USAGE, "%s has %llu bytes of data, and its type and shape %llu",
                       SB_SHOW(name), a->data ? (unsigned long long)a->bytes : 0,
                       (unsigned long long)bytes);
    return SB_OK;
}

/* Copies an array of the caller to the input of that name. */
static sb_status take_input(sb_gate_case *c, const samebit_array *a, int *given, sb_error *err)
{
    sb_dtype dtype;
    sb_status status = sb_api_whole(a, &dtype, err);
    if (status)
        return status;
    const char *name = a->name ? a->name : "";
    if (sb_starts(name, "in."))
        name += 3;
    const sb_gate_array *to = sb_gate_input(c, name);
    if (!to)
        return sb_fail(err, SB_ERR_USAGE, "'%s' is not an input of %s", SB_SHOW(name), c->op->name);
    if (given[to - c->array]++)
        return sb_fail(err, SB_ERR_USAGE, "%s is given twice", to->name);
    if (dtype != to->dtype || a->rank != to->rank ||
        memcmp(a->shape, to->shape, to->rank * sizeof *to->shape) != 0)
        return sb_fail(
            err, SB_ERR_USAGE,
            "%s is %s of %llu bytes with %u axes, expected %s of %llu bytes with %u (%s)", to->name,
            sb_dtype_name(dtype), (unsigned long long)a->bytes, (unsigned)a->rank,
            sb_dtype_name(to->dtype), (unsigned long long)to->bytes, to->rank, to->axes);
    memcpy(to->data, a->data, (size_t)to->bytes);
    return SB_OK;
}

/* Replaces the inputs of a made case by the caller's; the op then checks them like those of a
 * file. */
static sb_status take_inputs(sb_gate_case *c, const samebit_array *arrays, size_t count,
                             sb_error *err)
{
    int given[SB_GATE_ARRAYS] = {0};
    sb_status status = SB_OK;
    for (size_t i = 0; i < count && !status; i++)
        status = take_input(c, &arrays[i], given, err);
    for (size_t i = 0; i < c->arrays && !status; i++)
        if (!given[i])
            status = sb_fail(err, SB_ERR_USAGE, "%s is missing, which %s needs", c->array[i].name,
                             c->op->name);
    for (size_t i = 0; i < c->outputs && !status; i++) {
        free(c->output[i].real);
        free(c->output[i].exact);
    }
    if (status)
        return status;
    c->outputs = 0;
    status = sb_gate_declare(c, err);
    return status == SB_ERR_MEMORY ? sb_fail(err, status, "%s: out of memory", c->op->name)
                                   : status;
}

samebit_status samebit_case_from_arrays(const char *op, const char *format, const char *shape,
                                        const char *input, const samebit_array *arrays,
                                        size_t count, samebit_case **out, samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(op && out && (arrays || !count));
    sb_error *error = sb_api_error(err);
    sb_gate_request request;
    sb_gate_case *c = NULL;
    const sb_gate_op *found = sb_gate_op_find(op);
    sb_status status = read_request(format, shape, input, &request, error);
    if (!status && !found)
        status = sb_fail(error, SB_ERR_USAGE, "there are no cases of '%s'", SB_SHOW(op));
    if (!status)
        status = sb_api_start(error);
    if (!status)
        status = sb_gate_case_begin(found, &request, 1, &c, error);
    if (!status)
        status = take_inputs(c, arrays, count, error);
    if (!status)
        status = sb_gate_case_expected(c, error);
    samebit_case *handle = NULL;
    if (status)
        sb_gate_case_free(c);
    else
        status = wrap(c, &handle, error);
    if (!status) {
        handle->own = 1;
        *out = handle;
    }
    return sb_api_status(status);
}

/* --- access ----------------------------------------------------------------------------------- */

samebit_status samebit_case_about(const samebit_case *c, samebit_case_info *out, samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(c && out);
    const samebit_case_info info = {.op = c->c->op->name,
                                    .format = c->c->format,
                                    .shape = c->shape.text,
                                    .regime = sb_gate_regime_name(c->c->regime),
                                    .input = sb_dtype_name(c->c->input),
                                    .seed = c->c->seed};
    return sb_api_status(sb_api_give(out, out->size, &info, sizeof info, sb_api_error(err)));
}

size_t samebit_case_inputs(const samebit_case *c)
{
    return c ? c->c->arrays : 0;
}

samebit_status samebit_case_input(const samebit_case *c, size_t i, samebit_array *out,
                                  samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(c && out);
    if (i >= c->c->arrays)
        return sb_api_status(
            sb_fail(sb_api_error(err), SB_ERR_USAGE, "input %zu of %zu", i, c->c->arrays));
    const sb_gate_array *a = &c->c->array[i];
    sb_api_array(out, a->name, a->dtype, a->axes, a->rank, a->shape, a->data, a->bytes);
    return SAMEBIT_OK;
}

size_t samebit_case_outputs(const samebit_case *c)
{
    return c ? c->c->outputs : 0;
}

sb_status sb_api_output(const samebit_case *c, size_t i, sb_error *err)
{
    if (i < c->c->outputs)
        return SB_OK;
    return sb_fail(err, SB_ERR_USAGE, "output %zu of %zu", i, c->c->outputs);
}

samebit_status samebit_case_output(const samebit_case *c, size_t i, samebit_array *out,
                                   samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(c && out);
    sb_status status = sb_api_output(c, i, sb_api_error(err));
    if (status)
        return sb_api_status(status);
    const sb_gate_output *y = &c->c->output[i];
    sb_api_array(out, c->output[i].text, SB_DTYPE_F32, y->axes, y->rank, y->shape, y->exact,
                 y->count * sizeof *y->exact);
    return SAMEBIT_OK;
}

int samebit_case_is_choice(const samebit_case *c, size_t output)
{
    return c && output < c->c->outputs && c->c->output[output].kind == SB_GATE_CHOICES;
}

samebit_status samebit_case_real(const samebit_case *c, size_t output, double *hi, double *lo,
                                 samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(c && hi);
    sb_status status = sb_api_output(c, output, sb_api_error(err));
    for (size_t i = 0; !status && i < c->c->output[output].count; i++) {
        hi[i] = c->c->output[output].real[i].hi;
        if (lo)
            lo[i] = c->c->output[output].real[i].lo;
    }
    return sb_api_status(status);
}

samebit_status samebit_case_bound(const samebit_case *c, size_t output, const char *arith,
                                  double *bound, samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(c && arith && bound);
    sb_error *error = sb_api_error(err);
    sb_gate_arith ar;
    sb_status status = sb_api_output(c, output, error);
    if (!status)
        status = sb_api_start(error);
    if (!status)
        status = sb_gate_arith_of(arith, &ar, error);
    if (!status)
        status = sb_gate_bound(c->c, &ar, output, bound, error);
    return sb_api_status(status);
}
