/* computes.cc - which ops the kernels compute, and under which knobs. */
#include "gpu/gpu.h"

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

/* Y-12: "An op whose kernel is missing, or under knobs that no profile of the GPU path has, is the
 * reference's" */
int sb_gpu_computes(sb_op op, const sb_knobs *knobs)
{
    static const uint32_t kernels = 0
#define SB_GPU_OP(name) | 1u << SB_OP_##name
#include "gpu/op/ops.def"
#undef SB_GPU_OP
        ;
    load();
    for (unsigned knob = 0; knob < SB_KNOB_COUNT; knob++)
        if (!knows(knob, knobs->value[knob]))
            return 0;
    return static_cast<int>(kernels >> op & 1);
}

void sb_gpu_forget(const sb_backend *backend)
{
    sb_emu_forget(backend);
    sb_device_forget(backend);
}

sb_status sb_gpu_staging(const sb_backend *backend, int on, uint64_t *packed, sb_error *err)
{
    const sb_status status = sb_emu_staging(backend, on, packed, err);
    return status == SB_ERR_UNSUPPORTED ? sb_device_staging(backend, on, packed, err) : status;
}
