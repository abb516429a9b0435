#include "tests/gpu/step_counts.h"

#include <initializer_list>
#include <string.h>

#include "gpu/emu/count.h"
#include "gpu/op/gpu.h"
#include "gpu/step/step.h"

namespace
{

sb_emu_counts counts;

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

/* A launch says "sb_all_rows", or "sb_routed_rows" for experts, but not which of the layers that
 * cost.def tells apart. */
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

/* The buffer of a kernel, or of one that is counted together with it. */
template <class IS> const sb_cost_buffer *find_buffer(sb_cost_kernel kernel, IS is)
{
    static sb_cost_buffer all[SB_COST_BUFFERS];
    uint64_t macs[SB_COST_KERNELS];
    const sb_cost_shape any = {};
    sb_cost_of(&any, all, macs);
    for (const sb_cost_buffer &b : all)
        if (counted_together(b.kernel, kernel) && is(b))
            return &b;
    return nullptr;
}

const sb_cost_buffer *buffer_of(sb_cost_kernel kernel, const char *name)
{
    return find_buffer(kernel, [&](const sb_cost_buffer &b) { return strcmp(b.name, name) == 0; });
}

/* SB_COST_ROLES: the kernel has no such buffer. */
sb_cost_role role_of(sb_cost_kernel kernel, const char *buffer)
{
    const sb_cost_buffer *b = buffer_of(kernel, buffer);
    return b ? b->role : SB_COST_ROLES;
}

/* In a step, data kept between calls has a name given by the step. A weight has the name given by
 * the kernel that used it first, which may be a fused one. */
sb_cost_role role_in_step(sb_cost_kernel kernel, const char *buffer)
{
    for (const char *kept :
         {"convolution states", "recurrent states", "cache of keys", "cache of values"})
        if (strcmp(buffer, kept) == 0)
            return SB_COST_KEPT;
    for (const char *weight : {"conv", "q_norm", "k_norm"})
        if (strcmp(buffer, weight) == 0)
            return SB_COST_WEIGHT;
    return role_of(kernel, buffer);
}

/* Whether cost.def gives the bytes that blocks read again. Values have other names in a step.
 * Therefore no value is counted for a kernel that has a value without such a number. */
bool has_number(sb_cost_kernel kernel, const char *buffer, sb_cost_role role)
{
    const sb_cost_buffer *b = buffer_of(kernel, buffer);
    if (b || role == SB_COST_KEPT || role == SB_COST_WEIGHT)
        return !b || b->by_blocks != SB_COST_AGAIN;
    return !find_buffer(kernel, [](const sb_cost_buffer &of) {
        return of.role == SB_COST_VALUE && of.by_blocks == SB_COST_AGAIN;
    });
}

sb_gpu *body()
{
    return sb_emu_body(sb_backend_emu());
}

void counting_begins()
{
    counts = {};
    sb_gpu_count(body(), &counts);
}

} // namespace

step_counts counted_of_step(sb_cost_kernel kernel)
{
    step_counts sum = {};
    for (const sb_emu_tally &t : counts.tally) {
        if (!t.kernel || !is_kernel(t.kernel, kernel))
            continue;
        if (!t.what)
            sum.launches += static_cast<double>(t.times);
        if (t.read + t.written == 0)
            continue;
        const sb_cost_role is = role_in_step(kernel, t.what);
        double *of = is == SB_COST_WEIGHT ? &sum.weights
                     : is == SB_COST_KEPT ? &sum.kept
                                          : &sum.activations;
        *of += static_cast<double>(t.launch.read + t.launch.written);
        if (has_number(kernel, t.what, is))
            sum.again += static_cast<double>(t.block.read - t.launch.read);
    }
    return sum;
}

namespace
{

/* Counts the first call, which uploads the weights, and then only the last. Memory that a call
 * needs only after 256 positions is therefore counted if the context is long enough. */
sb_status run_context(sb_gpu_step *step, size_t context, sb_error *err)
{
    uint32_t tokens[SB_STEP_SLOTS];
    sb_status status = SB_OK;
    for (size_t fed = 0, now = 0; fed < context && !status; fed += now) {
        now = context - fed < SB_STEP_SLOTS ? context - fed : size_t(SB_STEP_SLOTS);
        for (size_t i = 0; i < now; i++)
            tokens[i] = static_cast<uint32_t>(1 + (fed + i) % 300);
        status = sb_gpu_step_feed(step, tokens, now, err);
        sb_gpu_count(body(), nullptr);
    }
    return status;
}

/* A prompt of different tokens. */
sb_status run_prompt(sb_gpu_step *step, size_t rows, sb_error *err)
{
    static uint32_t tokens[SB_COUNTED_ROWS];
    if (rows > SB_COUNTED_ROWS)
        return sb_fail(err, SB_ERR_USAGE, "a prompt of %zu rows", rows);
    for (size_t i = 0; i < rows; i++)
        tokens[i] = static_cast<uint32_t>(i);
    counting_begins();
    return sb_gpu_step_feed(step, tokens, rows, err);
}

sb_status run_verify(sb_gpu_step *step, size_t rows, sb_error *err)
{
    static const uint32_t drafts[] = {11, 12, 13, 14, 15, 16, 17, 18};
    const sb_status status = rows > 1 ? sb_gpu_step_put(step, 0, drafts, rows - 1, err) : SB_OK;
    counting_begins();
    return status ? status : sb_gpu_step_run(step, rows, err);
}

/* Drafts that are right, because the same sequence had these tokens before. */
sb_status run_accept(sb_gpu_step *step, size_t context, size_t rows, sb_error *err)
{
    uint32_t right[SB_STEP_SLOTS] = {};
    sb_status status = SB_OK;
    for (size_t i = 0; i + 1 < rows && !status; i++) {
        status = sb_gpu_step_run(step, 1, err);
        if (!status)
            status = sb_gpu_step_tokens(step, right + i, 1, err);
    }
    if (!status)
        status = sb_gpu_step_reset(step, err);
    if (!status)
        status = run_context(step, context, err);
    if (!status)
        status = sb_gpu_step_put(step, 0, right, rows - 1, err);
    if (!status)
        status = sb_gpu_step_run(step, rows, err);
    counting_begins();
    return status ? status : sb_gpu_step_accept(step, err);
}

sb_status run_part(sb_gpu_step *step, const step_part *part, sb_error *err)
{
    const sb_status status = run_context(step, part->context, err);
    if (status)
        return status;
    switch (part->kind) {
    case STEP_PROMPT:
        return run_prompt(step, part->rows, err);
    case STEP_VERIFY:
        return run_verify(step, part->rows, err);
    case STEP_ACCEPT:
        return run_accept(step, part->context, part->rows, err);
    case STEP_DRAFT:
        break;
    }
    counting_begins();
    return sb_gpu_step_draft(step, 0, err);
}

/* Whether a buffer is a matrix, or its scales. */
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

sb_status counting_part(const sb_model *model, const sb_knobs *knobs, const step_part *part,
                        step_passes *passes, sb_error *err)
{
    const size_t rows = part->rows > SB_STEP_SLOTS ? part->rows : size_t(SB_STEP_SLOTS);
    const size_t slots = part->kind == STEP_PROMPT ? 1 : part->rows;
    const sb_gpu_step_options options = {rows,        slots, part->context + rows, part->mtp, 1,
                                         part->fused, 0};
    const uint64_t before = sb_gpu_stage(body(), SB_GPU_COMPUTES);
    sb_gpu_step *step = nullptr;
    counting_begins();
    sb_status status = sb_gpu_step_open(sb_backend_emu(), model, knobs, &options, &step, err);
    if (!status)
        status = run_part(step, part, err);
    *passes = {};
    passes->stays = static_cast<double>(sb_gpu_stage(body(), SB_GPU_COMPUTES) - before);
    for (const sb_emu_tally &t : counts.tally) {
        if (t.kernel && t.what && is_matrix(t)) {
            passes->read += static_cast<double>(t.launch.read);
            passes->by_blocks += static_cast<double>(t.block.read);
        } else if (t.kernel && t.what && strcmp(t.what, "sets of pairs") == 0) {
            passes->experts += static_cast<double>(t.launch.written) / 8;
        } else if (t.kernel && t.what && strcmp(t.what, "first pairs") == 0) {
            passes->used += static_cast<double>(t.launch.read) / 4;
        } else if (t.kernel && !t.what) {
            passes->launches += static_cast<double>(t.times);
        }
    }
    if (step)
        sb_gpu_step_close(step);
    sb_gpu_count(body(), nullptr);
    sb_gpu_forget(sb_backend_emu());
    return status;
}
