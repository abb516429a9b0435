#include "tools/cli/runner.h"

#include <string.h>

#include "gpu/gpu.h"
#include "ref/base/text.h"
#include "ref/container/show.h"
#include "tools/cli/opts.h"

static const char *const nothing[] = {NULL};

int sb_runner_is(const char *name)
{
    return strcmp(name, "ref") == 0 || strcmp(name, "gpu") == 0 || strcmp(name, "emu") == 0 ||
           sb_starts(name, "emu:") || sb_starts(name, "sim:");
}

/* "emu", or "emu:7" with the seed of its schedule */
static sb_status find_emu(const char *name, sb_runner *out, sb_error *err)
{
    uint64_t seed = 0;
    const char *digit = name + (name[3] ? 4 : 3);
    if (name[3] && (!*digit || strlen(digit) > 18))
        return sb_fail(err, SB_ERR_USAGE, "'%s': expected emu, or emu:SEED", SB_SHOW(name));
    for (; *digit; digit++) {
        if (*digit < '0' || *digit > '9')
            return sb_fail(err, SB_ERR_USAGE, "'%s': expected emu, or emu:SEED", SB_SHOW(name));
        seed = seed * 10 + (uint64_t)(*digit - '0');
    }
    out->backend = sb_backend_emu();
    if (!out->backend)
        return sb_fail(err, SB_ERR_SKIPPED,
                       "this program was built without a C++ compiler, so it has no emu backend");
    sb_backend_emu_seed(seed);
    return SB_OK;
}

sb_status sb_runner_find(const char *name, sb_runner *out, sb_error *err)
{
    *out = (sb_runner){.backend = sb_backend_ref(), .settings = nothing};
    if (!sb_runner_is(name))
        return sb_fail(err, SB_ERR_USAGE,
                       "there is no backend '%s'; expected ref, sim:NAME, emu or gpu",
                       SB_SHOW(name));
    if (strcmp(name, "ref") == 0)
        return SB_OK;
    out->kernels = !sb_starts(name, "sim:");
    if (out->kernels)
        return strcmp(name, "gpu") == 0 ? sb_backend_gpu(&out->backend, err)
                                        : find_emu(name, out, err);
    sb_status status = sb_sim_find(name + strlen("sim:"), &out->sim, err);
    if (status)
        return status;
    out->backend = &out->sim->backend;
    out->settings = out->sim->settings;
    return SB_OK;
}

sb_status sb_runner_check_memory(const sb_backend *backend, const sb_model *model, sb_error *err)
{
    return sb_gpu_check_memory(backend, sb_checkpoint_bytes(model->checkpoint), err);
}

sb_status sb_runner_load(const sb_backend *backend, const sb_knobs *knobs, const sb_model *model,
                         sb_stage_progress progress, sb_error *err)
{
    const sb_status status = sb_runner_check_memory(backend, model, err);
    if (status || !backend || strcmp(backend->name, "gpu") != 0)
        return status;
    return sb_stage(backend, knobs, model, progress, NULL, err);
}

int sb_runner_inherits(const sb_runner *runner, sb_op op, const sb_knobs *knobs)
{
    if (runner->kernels)
        return !sb_gpu_computes(op, knobs);
    return runner->sim && sb_sim_inherits(runner->sim, op, knobs);
}

/* T-52: "sm120 is the arithmetic of a program with all units of SM120" */
const sb_arithmetic *sb_runner_arithmetic(const sb_runner *runner)
{
    if (runner->kernels)
        return sb_arithmetic_of("sm120");
    return runner->sim ? sb_arithmetic_of(runner->sim->arithmetic) : &sb_arithmetic_reference;
}
