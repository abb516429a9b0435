/* common.c - the beginning and end of calls, and functions without a handle. */
#include "ref/base/hash.h"
#include "ref/base/pool.h"
#include "ref/base/spec.h"
#include "ref/fast/dot/dot.h"
#include "ref/math/start.h"
#include "tools/api/api.h"

const char *samebit_version(void)
{
    return SAMEBIT_VERSION;
}

unsigned samebit_spec_version(void)
{
    return SB_SPEC_VERSION;
}

samebit_status samebit_digest_f32(const float *values, size_t count, samebit_digest *out,
                                  samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED((values || !count) && out);
    sb_digest digest = sb_digest_f32(values, count);
    sb_api_digest(out, &digest);
    return SAMEBIT_OK;
}

samebit_status sb_api_missing(const char *function, samebit_error *err)
{
    return sb_api_status(sb_fail(sb_api_error(err), SB_ERR_USAGE,
                                 "%s: an argument that must be there is NULL", function));
}

/* The result of selecting the kernels, once per process. */
static struct {
    pthread_once_t once;
    sb_status status;
    sb_error err;
} chosen = {.once = PTHREAD_ONCE_INIT};

static void choose(void)
{
    chosen.status = sb_math_start(NULL, &chosen.err);
}

sb_status sb_api_start(sb_error *err)
{
    /* a thread with a wrong arithmetic must not decide for the others */
    sb_status status = sb_math_check(err);
    if (status)
        return status;
    if (pthread_once(&chosen.once, choose) != 0)
        return sb_fail(err, SB_ERR_IO, "pthread_once failed");
    return chosen.status ? sb_fail(err, chosen.status, "%s", chosen.err.text) : SB_OK;
}

sb_status sb_api_start_on(unsigned threads, sb_error *err)
{
    if (threads)
        sb_threads_set(threads);
    return sb_api_start(err);
}

sb_api_call sb_api_begin(void)
{
    const sb_api_call call = {sb_fp_mode_now(), sb_threads_asked()};
    sb_fp_mode_set(sb_fp_mode_default());
    return call;
}

void sb_api_end(const sb_api_call *call)
{
    sb_threads_set(call->threads);
    sb_fp_mode_set(call->mode);
}

void sb_api_came_back(void)
{
    sb_fp_mode_set(sb_fp_mode_default());
}

samebit_status sb_api_status(sb_status status)
{
    return (samebit_status)sb_exit_status(status || !sb_math_missed() ? status : SB_ERR_NUMERIC);
}

sb_status sb_api_take(void *to, size_t own, const void *from, size_t size, sb_error *err)
{
    if (size < sizeof(size_t) || size > own)
        return sb_fail(err, SB_ERR_USAGE,
                       "the struct has %zu bytes, but this library (%s) knows %zu bytes of it: its "
                       "first member must be its size",
                       size, SAMEBIT_VERSION, own);
    memset(to, 0, own);
    memcpy(to, from, size);
    return SB_OK;
}

sb_status sb_api_give(void *to, size_t size, const void *from, size_t own, sb_error *err)
{
    if (size < sizeof(size_t))
        return sb_fail(err, SB_ERR_USAGE,
                       "a struct of %zu bytes: its first member is to be its size", size);
    size_t both = size < own ? size : own;
    memcpy((char *)to + sizeof size, (const char *)from + sizeof size, both - sizeof size);
    return SB_OK;
}

void sb_api_array(samebit_array *out, const char *name, sb_dtype dtype, const char *axes,
                  unsigned rank, const uint64_t *shape, const void *data, uint64_t bytes)
{
    *out = (samebit_array){.name = name,
                           .dtype = sb_dtype_name(dtype),
                           .axes = axes,
                           .rank = rank,
                           .data = data,
                           .bytes = bytes};
    for (unsigned i = 0; i < rank; i++)
        out->shape[i] = shape[i];
}
