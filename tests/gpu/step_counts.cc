#include "tests/gpu/step_counts.h"

#include <string.h>

#include "gpu/emu/count.h"
#include "gpu/op/experts.h"

namespace
{

sb_gpu *gpu;
sb_emu_counts counts;

#define SB_OP(name, clause)                                                                        \
    sb_status run_##name(const sb_knobs *knobs, const sb_##name##_args *args)                      \
    {                                                                                              \
        return sb_gpu_##name(gpu, knobs, args);                                                    \
    }
#include "ref/ops/ops.def"
#undef SB_OP

sb_status run_experts(const sb_knobs *knobs, const sb_expert_linear_args *args)
{
    return sb_gpu_experts(gpu, knobs, args);
}

/* "(sb_linear_kernel<CODES, ...>)" is sb_linear_kernel. */
bool is_kernel(const char *launched, const char *name)
{
    launched += launched[0] == '(';
    const size_t length = strcspn(launched, "<)");
    return strlen(name) == length && memcmp(name, launched, length) == 0;
}

/* SB_COST_ROLES: it has no such buffer. */
sb_cost_role role_of(sb_cost_kernel kernel, const char *buffer)
{
    static sb_cost_buffer all[SB_COST_BUFFERS];
    uint64_t macs[SB_COST_KERNELS];
    const sb_cost_shape any = {};
    sb_cost_of(&any, all, macs);
    for (const sb_cost_buffer &b : all)
        if (b.kernel == kernel && strcmp(b.name, buffer) == 0)
            return b.role;
    return SB_COST_ROLES;
}

} // namespace

const sb_backend *counting_backend(void)
{
    static sb_backend backend;
    if (!gpu && sb_gpu_open(&gpu, nullptr) != SB_OK)
        return nullptr;
    sb_gpu_count(gpu, &counts);
    backend.name = "counting";
#define SB_OP(name, clause) backend.ops.name = run_##name;
#include "ref/ops/ops.def"
#undef SB_OP
    backend.experts = run_experts;
    return &backend;
}

void counting_forgets_weights(void)
{
    sb_gpu_forget_weights(gpu);
}

void counting_begins(void)
{
    counts = {};
}

step_counts counted_of(sb_cost_kernel kernel)
{
    step_counts sum = {};
    for (const sb_emu_tally &t : counts.tally) {
        if (!t.kernel || !is_kernel(t.kernel, sb_cost_name(kernel)))
            continue;
        if (!t.what)
            sum.launches += static_cast<double>(t.times);
        if (t.read + t.written == 0)
            continue;
        const sb_cost_role role = role_of(kernel, t.what);
        double *of = role == SB_COST_WEIGHT ? &sum.weights
                     : role == SB_COST_KEPT ? &sum.kept
                                            : &sum.activations;
        *of += static_cast<double>(t.launch.read + t.launch.written);
    }
    return sum;
}

const char *counted_unknown(void)
{
    for (const sb_emu_tally &t : counts.tally) {
        bool known = !t.kernel;
        for (int i = 0; i < SB_COST_KERNELS && t.kernel; i++) {
            const sb_cost_kernel kernel = static_cast<sb_cost_kernel>(i);
            if (is_kernel(t.kernel, sb_cost_name(kernel)))
                known = t.read + t.written == 0 || role_of(kernel, t.what) != SB_COST_ROLES;
        }
        if (!known)
            return t.what ? t.what : t.kernel;
    }
    return nullptr;
}
