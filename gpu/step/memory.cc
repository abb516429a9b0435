/* memory.cc - the resident arrays of a step. */
#include "gpu/step/call.h"
#include "ref/ops/knob.h"
#include "ref/state/state.h"

sb_status sb_step_write(sb_queued_step *step, void *resident, const void *host, size_t bytes,
                        sb_error *err)
{
    const sb_status status = sb_gpu_write(step->gpu, resident, host, bytes);
    return status ? sb_fail(err, status, "%s", sb_gpu_said(step->gpu)->text) : SB_OK;
}

sb_status sb_step_read(sb_queued_step *step, void *host, const void *resident, size_t bytes,
                       sb_error *err)
{
    const sb_status status = sb_gpu_read(step->gpu, host, resident, bytes);
    return status ? sb_fail(err, status, "%s", sb_gpu_said(step->gpu)->text) : SB_OK;
}

/* Counts the layers of each kind; the head's layer counts as attention. */
static void count_layers(sb_queued_step *step)
{
    const sb_config *m = &step->model->config;
    step->full = step->options.mtp ? 1 : 0;
    for (uint32_t i = 0; i < m->layers; i++)
        *(m->layer_is_full[i] ? &step->full : &step->linear) += 1;
}

static sb_status settle_array(sb_queued_step *step, const char *name, size_t count, size_t each,
                              void *out, sb_error *err)
{
    void *at;
    const sb_status status = sb_gpu_reside(step->gpu, name, count * each, &at);
    if (status)
        return sb_fail(err, status, "%s", sb_gpu_said(step->gpu)->text);
    *static_cast<void **>(out) = at;
    return SB_OK;
}

/* Writes `bytes` zeros, in few large parts, since each write waits for the device. */
static sb_status clear(sb_queued_step *step, void *at, size_t bytes, sb_error *err)
{
    static char zeros[1 << 20]; /* never written */
    sb_status status = SB_OK;
    for (size_t done = 0; done < bytes && !status; done += sizeof zeros)
        status = sb_step_write(step, static_cast<char *>(at) + done, zeros,
                               bytes - done < sizeof zeros ? bytes - done : sizeof zeros, err);
    return status;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Allocates the arrays of fused kernels, for SB_FUSED_ROWS rows. */
static sb_status settle_fused(sb_queued_step *step, sb_error *err)
{
    const sb_config *m = &step->model->config;
    const size_t rows = SB_FUSED_ROWS, k = m->experts_per_token;
    const size_t mlp = larger(m->intermediate, m->shared_intermediate);
    const size_t mixer = larger(sb_config_query_width(m), sb_config_value_width(m));
    sb_step_fused *f = &step->fused;
    const struct {
        const char *name;
        size_t count, each;
        void *out;
    } arrays[] = {
        {"staged norm", sb_gpu_staged_bytes(rows, m->hidden_size), 1, &f->norm.layers},
        {"staged norm for experts", sb_gpu_staged_bytes(rows, m->hidden_size), 1, &f->norm.experts},
        {"staged input", sb_gpu_staged_bytes(rows, larger(mlp, mixer)), 1, &f->other.layers},
        {"staged input for experts", sb_gpu_staged_bytes(rows * k, m->moe_intermediate) + 4, 1,
         &f->other.experts},
        {"rotations", rows * m->rotary_dim, 4, &f->turns},
        {"order of pairs", rows * k + 1, 4, &f->choice.order},
        {"first pairs", m->experts + 1, 4, &f->choice.begin},
        {"sets of pairs", 4 * rows * k + 2, 4, &f->choice.sets},
        {"count of sets", 1, 4, &f->choice.count},
        {"largest logits", rows, 8, &f->best},
        {"parts that are done", rows, 4, &f->done},
    };
    sb_status status = SB_OK;
    for (const auto &a : arrays)
        status = status ? status : settle_array(step, a.name, a.count, a.each, a.out, err);
    if (!status)
        status = clear(step, f->best, rows * sizeof *f->best, err);
    return status ? status : clear(step, f->done, rows * sizeof *f->done, err);
}

sb_status sb_step_settle(sb_queued_step *step, sb_error *err)
{
    const sb_config *m = &step->model->config;
    const size_t rows = step->options.rows, positions = step->options.positions;
    const size_t H = m->hidden_size, k = m->experts_per_token;
    float *activations = nullptr;
    count_layers(step);
    step->slots = step->options.slots > 2 ? step->options.slots : 2;
    step->kv_row = sb_config_kv_width(m) * (SB_IS(&step->knobs, kv_cache, fp8) ? 1 : 2);
    const size_t states = step->linear * step->slots, cache = step->full * positions * step->kv_row;
    const struct {
        const char *name;
        size_t count, each;
        void *out;
    } arrays[] = {
        {"activations", sb_scratch_lay_out(&step->s, m, rows, nullptr), 4, &activations},
        {"experts", rows * k + 1, 4, &step->s.ids},
        {"positions", rows, 4, &step->s.position},
        {"position", 1, 4, &step->position},
        {"slot", 1, 4, &step->slot},
        {"kept", 1, 4, &step->kept},
        {"first", 1, 4, &step->first},
        {"tokens", rows + SB_STEP_SLOTS, 4, &step->tokens},
        {"picked", step->slots, 4, &step->picked},
        {"logits", step->slots * m->vocab_size, 4, &step->logits},
        {"keys of a call", rows * sb_config_kv_width(m), 4, &step->keys_now},
        {"convolution states", states * sb_state_conv_size(m) + 1, 4, &step->conv},
        {"recurrent states", states * sb_state_recurrent_size(m) + 1, 4, &step->recurrent},
        {"cache of keys", cache + 1, 1, &step->keys},
        {"cache of values", cache + 1, 1, &step->values},
        {"vectors before tokens", (rows + 1) * H, 4, &step->before},
        {"vectors of the head", rows * H, 4, &step->head_hidden},
    };
    sb_status status = SB_OK;
    for (const auto &a : arrays)
        status = status ? status : settle_array(step, a.name, a.count, a.each, a.out, err);
    if (!status)
        sb_scratch_lay_out(&step->s, m, rows, activations);
    if (!status && step->options.fused)
        status = settle_fused(step, err);
    return status ? status : sb_step_empty(step, err);
}

void sb_step_leave(sb_queued_step *step)
{
    void *const arrays[] = {step->s.x,
                            step->s.ids,
                            step->s.position,
                            step->position,
                            step->slot,
                            step->kept,
                            step->first,
                            step->tokens,
                            step->picked,
                            step->logits,
                            step->keys_now,
                            step->conv,
                            step->recurrent,
                            step->keys,
                            step->values,
                            step->before,
                            step->head_hidden,
                            step->fused.norm.layers,
                            step->fused.norm.experts,
                            step->fused.other.layers,
                            step->fused.other.experts,
                            step->fused.turns,
                            step->fused.choice.order,
                            step->fused.choice.begin,
                            step->fused.choice.sets,
                            step->fused.choice.count,
                            step->fused.best,
                            step->fused.done};
    for (void *at : arrays)
        sb_gpu_depart(step->gpu, at);
    sb_gpu_pool_free(step->gpu, step->pool);
}

/* S-1: "It starts with position 0 and zero states." The cache becomes an array without values. */
sb_status sb_step_empty(sb_queued_step *step, sb_error *err)
{
    const sb_config *m = &step->model->config;
    const size_t cache = step->full * step->options.positions * step->kv_row;
    const size_t states = step->linear * step->slots * sizeof(float);
    sb_gpu_void(step->gpu, step->keys, cache + 1);
    sb_gpu_void(step->gpu, step->values, cache + 1);
    step->reach = step->rows = 0;
    step->shown = step->shown_rows = 0;
    step->next = step->trail = step->drafted = step->failed = false;
    sb_status status = clear(step, step->position, sizeof *step->position, err);
    if (!status)
        status = clear(step, step->slot, sizeof *step->slot, err);
    if (!status)
        status = clear(step, step->conv, states * sb_state_conv_size(m), err);
    if (!status)
        status = clear(step, step->recurrent, states * sb_state_recurrent_size(m), err);
    return status ? status : clear(step, step->before, m->hidden_size * sizeof(float), err);
}
