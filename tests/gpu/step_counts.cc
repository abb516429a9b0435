#include "tests/gpu/step_counts.h"

#include <initializer_list>
#include <string.h>

#include "gpu/emu/count.h"
#include "gpu/op/experts.h"
#include "gpu/step/step.h"

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

/* "sb_tile_kernel" of "(sb_tile_kernel<LAYER, ...>)" */
struct word {
    const char *at;
    size_t length;
};
word first_of(const char *name)
{
    name += name[0] == '(';
    return {name, strcspn(name, "<)")};
}

/* A launch says "sb_all_rows" or "sb_routed_rows", which is of experts, and not which of the layers
 * it has that cost.def tells apart. */
bool is_alike(const char *a, const char *b)
{
    const word x = first_of(a), y = first_of(b);
    const word tile = first_of("sb_tile_kernel");
    if (x.length != y.length || memcmp(x.at, y.at, x.length) != 0)
        return false;
    const bool of_tiles = x.length == tile.length && memcmp(x.at, tile.at, x.length) == 0;
    return !of_tiles || !strstr(a, "sb_all_rows") == !strstr(b, "sb_all_rows");
}

bool is_kernel(const char *launched, sb_cost_kernel kernel)
{
    return is_alike(launched, sb_cost_name(kernel));
}

const sb_cost_buffer *buffer_of(sb_cost_kernel kernel, const char *name)
{
    static sb_cost_buffer all[SB_COST_BUFFERS];
    uint64_t macs[SB_COST_KERNELS];
    const sb_cost_shape any = {};
    sb_cost_of(&any, all, macs);
    for (const sb_cost_buffer &b : all)
        if (counted_together(b.kernel, kernel) && strcmp(b.name, name) == 0)
            return &b;
    return nullptr;
}

/* SB_COST_ROLES: it has no such buffer. */
sb_cost_role role_of(sb_cost_kernel kernel, const char *buffer)
{
    const sb_cost_buffer *b = buffer_of(kernel, buffer);
    return b ? b->role : SB_COST_ROLES;
}

/* In a step, what stays from call to call has a name of the step's own. */
sb_cost_role role_in_step(sb_cost_kernel kernel, const char *buffer)
{
    for (const char *kept :
         {"convolution states", "recurrent states", "cache of keys", "cache of values"})
        if (strcmp(buffer, kept) == 0)
            return SB_COST_KEPT;
    return role_of(kernel, buffer);
}

/* Whether cost.def says how much of it blocks read. Queries, of which it does not, are among the
 * activations of a step. */
bool has_number(sb_cost_kernel kernel, const char *buffer, sb_cost_role role)
{
    const sb_cost_buffer *b = buffer_of(kernel, buffer);
    return b ? b->by_blocks != SB_COST_AGAIN : kernel != SB_COST_attention || role == SB_COST_KEPT;
}

step_counts sum_of(sb_cost_kernel kernel, sb_cost_role (*role)(sb_cost_kernel, const char *))
{
    step_counts sum = {};
    for (const sb_emu_tally &t : counts.tally) {
        if (!t.kernel || !is_kernel(t.kernel, kernel))
            continue;
        if (!t.what)
            sum.launches += static_cast<double>(t.times);
        if (t.read + t.written == 0)
            continue;
        const sb_cost_role is = role(kernel, t.what);
        double *of = is == SB_COST_WEIGHT ? &sum.weights
                     : is == SB_COST_KEPT ? &sum.kept
                                          : &sum.activations;
        *of += static_cast<double>(t.launch.read + t.launch.written);
        if (has_number(kernel, t.what, is))
            sum.again += static_cast<double>(t.block.read - t.launch.read);
    }
    return sum;
}

/* Counts from the first call on, which brings the weights, and no other before the last; so memory
 * that a call needs only behind 256 positions is seen where the context is no longer. */
sb_status run_step(sb_gpu *body, sb_gpu_step *step, size_t context, size_t rows, sb_error *err)
{
    static const uint32_t drafts[] = {11, 12, 13, 14, 15, 16, 17, 18};
    uint32_t prompt[SB_STEP_SLOTS];
    sb_status status = SB_OK;
    for (size_t fed = 0, now = 0; fed < context && !status; fed += now) {
        now = context - fed < SB_STEP_SLOTS ? context - fed : size_t(SB_STEP_SLOTS);
        for (size_t i = 0; i < now; i++)
            prompt[i] = static_cast<uint32_t>(1 + (fed + i) % 300);
        status = sb_gpu_step_feed(step, prompt, now, err);
        sb_gpu_count(body, nullptr);
    }
    if (!status && rows > 1)
        status = sb_gpu_step_put(step, 0, drafts, rows - 1, err);
    counting_begins();
    sb_gpu_count(body, &counts);
    return status ? status : sb_gpu_step_run(step, rows, err);
}

/* A matrix, or what it is scaled by, as the products have it. */
bool is_matrix(const sb_emu_tally &t)
{
    const bool coded = strcmp(t.what, "weight") == 0 || strcmp(t.what, "scales") == 0;
    return strcmp(t.what, "weights") == 0 || (coded && is_kernel(t.kernel, SB_COST_tile)) ||
           (coded && is_kernel(t.kernel, SB_COST_tile_fp8));
}

} // namespace

int counted_together(sb_cost_kernel a, sb_cost_kernel b)
{
    return is_kernel(sb_cost_name(a), b);
}

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
    return sum_of(kernel, role_of);
}

const char *counted_unknown(void)
{
    for (const sb_emu_tally &t : counts.tally) {
        bool known = !t.kernel;
        for (int i = 0; i < SB_COST_KERNELS && t.kernel; i++) {
            const sb_cost_kernel kernel = static_cast<sb_cost_kernel>(i);
            if (is_kernel(t.kernel, kernel))
                known = t.read + t.written == 0 || role_of(kernel, t.what) != SB_COST_ROLES;
        }
        if (!known)
            return t.what ? t.what : t.kernel;
    }
    return nullptr;
}

sb_status counting_step(const sb_model *model, const sb_knobs *knobs, size_t context, size_t rows,
                        step_passes *passes, sb_error *err)
{
    sb_gpu *body = sb_emu_body(sb_backend_emu());
    const sb_gpu_step_options options = {SB_STEP_SLOTS, rows, context + SB_STEP_SLOTS, 0, 1, 1};
    const uint64_t before = sb_gpu_stage(body, SB_GPU_COMPUTES);
    sb_gpu_step *step = nullptr;
    counting_begins();
    sb_gpu_count(body, &counts);
    sb_status status = sb_gpu_step_open(sb_backend_emu(), model, knobs, &options, &step, err);
    if (!status)
        status = run_step(body, step, context, rows, err);
    *passes = {};
    passes->stays = static_cast<double>(sb_gpu_stage(body, SB_GPU_COMPUTES) - before);
    for (const sb_emu_tally &t : counts.tally) {
        if (t.kernel && t.what && is_matrix(t)) {
            passes->read += static_cast<double>(t.launch.read);
            passes->by_blocks += static_cast<double>(t.block.read);
        } else if (t.kernel && t.what && strcmp(t.what, "sets of pairs") == 0) {
            passes->experts += static_cast<double>(t.launch.written) / 8;
        } else if (t.kernel && !t.what) {
            passes->launches += static_cast<double>(t.times);
        }
    }
    if (step)
        sb_gpu_step_close(step);
    sb_gpu_count(body, nullptr);
    sb_gpu_forget(sb_backend_emu());
    return status;
}

step_counts counted_of_step(sb_cost_kernel kernel)
{
    return sum_of(kernel, role_in_step);
}
