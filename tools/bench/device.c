#include "tools/bench/device.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/bench/device_round.h"
#include "tools/bench/device_sequence.h"

enum { LAUNCHES = 16384 };

typedef struct job {
    const sb_device_options *o;
    sb_device_report *out;
    sb_hollow hollow;
    sb_device_sequence s;
    sb_meter_launch *launches; /* of one pass */
    double *seconds;           /* [launch][pass] */
} job;

static sb_status open_step(job *j, sb_error *err)
{
    const sb_device_options *o = j->o;
    const uint64_t calls = o->prompt ? 1 : (uint64_t)o->warm + o->passes + o->looks + 1;
    j->launches = sb_alloc(LAUNCHES, sizeof *j->launches);
    j->seconds = sb_alloc((size_t)LAUNCHES * SB_DEVICE_PASSES, sizeof *j->seconds);
    if (!j->launches || !j->seconds)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a measurement");
    const sb_status status = sb_gpu_check_memory(o->backend, j->hollow.bytes, err);
    j->s = (sb_device_sequence){.o = o, .model = j->hollow.model};
    return status ? status : sb_device_sequence_open(&j->s, o->rows, calls * o->rows, 0, err);
}

/* --- a call ----------------------------------------------------------------------------------- */

/* The untimed preparation of the call. */
static sb_status prepare(job *j, sb_error *err)
{
    if (j->o->prompt) {
        sb_device_sequence_draw(&j->s, j->o->rows);
        return sb_gpu_step_reset(j->s.step, err);
    }
    if (j->o->rows == 1)
        return SB_OK;
    sb_device_sequence_draw(&j->s, j->o->rows - 1);
    return sb_gpu_step_put(j->s.step, 0, j->s.tokens, j->o->rows - 1, err);
}

static sb_status call(job *j, sb_error *err)
{
    return j->o->prompt ? sb_gpu_step_feed(j->s.step, j->s.tokens, j->o->rows, err)
                        : sb_gpu_step_run(j->s.step, j->o->rows, err);
}

/* A verify step with one right row: the most expensive rollback. */
static sb_status cut(job *j, sb_error *err)
{
    return j->o->prompt || j->o->rows == 1 ? SB_OK : sb_gpu_step_keep(j->s.step, 1, err);
}

static sb_status pass(job *j, double *step, double *keep, sb_error *err)
{
    const sb_backend *b = j->o->backend;
    sb_status status = prepare(j, err);
    if (!status)
        status = sb_meter_mark(b, 0, err);
    if (!status)
        status = call(j, err);
    if (!status)
        status = sb_meter_mark(b, 1, err);
    if (!status)
        status = cut(j, err);
    if (!status)
        status = sb_meter_mark(b, 2, err);
    if (!status)
        status = sb_meter_between(b, 0, 1, step, err);
    return status ? status : sb_meter_between(b, 1, 2, keep, err);
}

static sb_status time_steps(job *j, sb_error *err)
{
    double step[SB_DEVICE_PASSES], keep[SB_DEVICE_PASSES];
    sb_status status = SB_OK;
    for (unsigned i = 0; i < j->o->warm && !status; i++)
        status = pass(j, &step[0], &keep[0], err);
    for (unsigned i = 0; i < j->o->passes && !status; i++)
        status = pass(j, &step[i], &keep[i], err);
    if (status)
        return status;
    j->out->step = sb_meter_time_of(step, j->o->passes);
    j->out->keep = sb_meter_time_of(keep, j->o->passes);
    return SB_OK;
}

/* --- its launches ----------------------------------------------------------------------------- */

/* The plain name in "(sb_linear_kernel<CODES, GROUPED, ...>)". */
static void name_of(const char *kernel, char name[64])
{
    size_t n;
    kernel += *kernel == '(';
    n = strcspn(kernel, "<)");
    n = n < 63 ? n : 63;
    memcpy(name, kernel, n);
    name[n] = '\0';
}

static sb_status add_to(sb_device_part *parts, size_t *count, const char *name, double seconds,
                        sb_error *err)
{
    sb_device_part *p = parts;
    while (p < parts + *count && strcmp(p->name, name) != 0)
        p++;
    if (p == parts + SB_DEVICE_PARTS)
        return sb_fail(err, SB_ERR_UNSUPPORTED, "a step has more than %d kernels or ops",
                       (int)SB_DEVICE_PARTS);
    if (p == parts + *count) {
        *p = (sb_device_part){.launches = 0};
        memcpy(p->name, name, strlen(name) + 1);
        ++*count;
    }
    p->launches++;
    p->seconds += seconds;
    return SB_OK;
}

static sb_status sum_launches(job *j, size_t count, sb_error *err)
{
    sb_device_report *r = j->out;
    sb_status status = SB_OK;
    r->launches = count;
    for (size_t i = 0; i < count && !status; i++) {
        char name[64];
        const double seconds =
            sb_meter_time_of(j->seconds + i * SB_DEVICE_PASSES, j->o->looks).median;
        name_of(j->launches[i].kernel, name);
        r->seconds += seconds;
        status = add_to(r->kernel, &r->kernels, name, seconds, err);
        name_of(j->launches[i].op, name);
        if (!status)
            status = add_to(r->op, &r->ops, name, seconds, err);
    }
    return status;
}

/* A step has the same launches in every pass. The host starts each of them, because only a whole
 * graph can be timed. */
static sb_status time_launches(job *j, sb_error *err)
{
    size_t first = 0, count = 0;
    sb_status status = SB_OK;
    sb_gpu_step_eager(j->s.step, 1);
    for (unsigned i = 0; i < j->o->looks && !status; i++) {
        status = prepare(j, err);
        if (!status)
            status = sb_meter_watch(j->o->backend, j->launches, LAUNCHES, err);
        if (!status)
            status = call(j, err);
        if (!status)
            status = sb_meter_watched(j->o->backend, &count, err);
        if (!status)
            status = cut(j, err);
        if (!status && (count == LAUNCHES || (i > 0 && count != first)))
            status = sb_fail(err, SB_ERR_DIFF,
                             "a step had %zu launches, and its repetition had %zu", first, count);
        first = count;
        for (size_t k = 0; k < count && !status; k++)
            j->seconds[k * SB_DEVICE_PASSES + i] = j->launches[k].seconds;
    }
    sb_gpu_step_eager(j->s.step, 0);
    return status ? status : sum_launches(j, count, err);
}

/* --- all of it -------------------------------------------------------------------------------- */

static sb_status run(job *j, sb_error *err)
{
    const sb_backend *b = j->o->backend;
    const sb_meter_options usual = {.seed = j->o->model.seed};
    sb_status status = sb_meter(b, &usual, &j->out->card, err);
    if (!status)
        status = sb_hollow_new(&j->o->model, &j->hollow, err);
    if (!status && b == sb_backend_emu() && j->hollow.bytes > SB_DEVICE_EMULATED)
        status = sb_fail(err, SB_ERR_USAGE,
                         "%zu bytes of weights are too many for the emulator, expected at most %d: "
                         "use a smaller --preset, such as T1, or --layers",
                         j->hollow.bytes, (int)SB_DEVICE_EMULATED);
    if (!status)
        status = sb_meter_draws(b, j->hollow.first, j->hollow.bytes, j->o->model.seed, err);
    if (!status)
        status = open_step(j, err);
    if (!status)
        status = sb_device_sequence_begin(&j->s, err);
    if (!status)
        status = time_steps(j, err);
    if (!status)
        status = time_launches(j, err);
    if (!status)
        status = sb_gpu_step_tokens(j->s.step, &j->out->token, 1, err);
    sb_device_sequence_close(&j->s);
    if (!status && j->o->drafts)
        status = sb_device_rounds(j->o, j->hollow.model, j->out, err);
    if (!status)
        status = sb_gpu_staging(b, SB_GPU_COMPUTES, &j->out->weights, err);
    return status;
}

sb_status sb_device_run(const sb_device_options *options, sb_device_report *out, sb_error *err)
{
    job j = {.o = options, .out = out};
    *out = (sb_device_report){.launches = 0};
    const sb_status status = run(&j, err);
    sb_device_sequence_close(&j.s);
    if (j.hollow.first) {
        sb_gpu_forget(options->backend);
        sb_meter_draws(options->backend, NULL, 0, 0, NULL);
    }
    sb_hollow_free(&j.hollow);
    free(j.launches);
    free(j.seconds);
    return status;
}
