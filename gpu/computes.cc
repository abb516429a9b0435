/* computes.cc - the knobs that the kernels support. */
#include "gpu/gpu.h"
#include "ref/ops/knob.h"

static const char *const profiles[] = {"sm121", "sm121-w8a8", "sm121-w4a4"};
static sb_knobs known[sizeof profiles / sizeof *profiles];
static bool loaded;

static void load()
{
    for (size_t i = 0; i < sizeof profiles / sizeof *profiles && !loaded; i++)
        sb_knobs_profile(&known[i], profiles[i], nullptr);
    loaded = true;
}

static bool knows(unsigned knob, sb_knob_value value)
{
    switch (knob) {
#define SB_GPU_ANY(name)                                                                           \
    case SB_KNOB_##name:                                                                           \
        return true;
#define SB_GPU_ALSO(name, also)
#include "gpu/op/knobs.def"
#undef SB_GPU_ANY
#undef SB_GPU_ALSO
    default:
        break;
    }
    for (const sb_knobs &profile : known)
        if (profile.value[knob] == value)
            return true;
#define SB_GPU_ANY(name)
#define SB_GPU_ALSO(name, also)                                                                    \
    if (value == SB_##name##_##also)                                                               \
        return true;
#include "gpu/op/knobs.def"
#undef SB_GPU_ANY
#undef SB_GPU_ALSO
    return false;
}

/* Y-12: "An op under knobs that no profile of the GPU path has is computed by the reference". The
 * op does not matter: all have kernels. */
int sb_gpu_computes(sb_op, const sb_knobs *knobs)
{
    load();
    for (unsigned knob = 0; knob < SB_KNOB_COUNT; knob++)
        if (!knows(knob, static_cast<sb_knob_value>(knobs->value[knob])))
            return 0;
    return 1;
}

void sb_gpu_forget(const sb_backend *backend)
{
    sb_emu_forget(backend);
    sb_device_forget(backend);
}

sb_status sb_gpu_staging(const sb_backend *backend, sb_gpu_mode mode, uint64_t *bytes,
                         sb_error *err)
{
    const sb_status status = sb_emu_staging(backend, mode, bytes, err);
    return status == SB_ERR_UNSUPPORTED ? sb_device_staging(backend, mode, bytes, err) : status;
}
