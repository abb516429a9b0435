/* state.cc - copies the state of a sequence into the form of a session: values instead of codes,
 * and only the current slot. */
#include "gpu/step/call.h"

#include <stdlib.h>

#include "ref/base/bytes.h"
#include "ref/formats/small_float.h"
#include "ref/ops/knob.h"
#include "ref/state/state.h"

/* Converts E4M3 codes or bfloat16 to values: K-24. */
static sb_status read_cache(sb_queued_step *step, const char *from, size_t count, float *to,
                            sb_error *err)
{
    const bool fp8 = SB_IS(&step->knobs, kv_cache, fp8);
    const size_t each = fp8 ? 1 : 2;
    unsigned char *codes = static_cast<unsigned char *>(sb_alloc(count, each));
    if (!codes)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a copy of the cache");
    const sb_status status = sb_step_read(step, codes, from, count * each, err);
    for (size_t i = 0; i < count && !status; i++)
        to[i] = fp8 ? sb_e4m3_to_f32(codes[i])
                    : sb_f32_from_bits(static_cast<uint32_t>(codes[2 * i] | codes[2 * i + 1] << 8)
                                       << 16);
    free(codes);
    return status;
}

static sb_status read_full(sb_queued_step *step, size_t place, size_t rows, sb_layer_state *to,
                           sb_error *err)
{
    const size_t at = place * step->options.positions * step->kv_row;
    const size_t count = rows * sb_state_kv_row(&step->model->config);
    sb_status status = count ? read_cache(step, step->keys + at, count, to->keys, err) : SB_OK;
    if (!status && count)
        status = read_cache(step, step->values + at, count, to->values, err);
    return status;
}

static sb_status read_linear(sb_queued_step *step, size_t place, sb_layer_state *to, sb_error *err)
{
    const sb_config *m = &step->model->config;
    const size_t conv = sb_state_conv_size(m), recurrent = sb_state_recurrent_size(m);
    const sb_status status =
        sb_step_read(step, to->conv, step->conv + place * conv, conv * sizeof(float), err);
    return status ? status
                  : sb_step_read(step, to->recurrent, step->recurrent + place * recurrent,
                                 recurrent * sizeof(float), err);
}

static sb_status read_layers(sb_queued_step *step, size_t slot, sb_state *state, sb_error *err)
{
    size_t full = 0, linear = 0;
    sb_status status = SB_OK;
    for (uint32_t i = 0; i < sb_state_layers(state) && !status; i++)
        status = sb_state_is_full(state, i)
                     ? read_full(step, full++, sb_state_kv_rows(state, i), &state->layers[i], err)
                     : read_linear(step, linear++ * step->slots + slot, &state->layers[i], err);
    return status;
}

sb_status sb_step_copy_state(sb_queued_step *step, sb_state **out, sb_error *err)
{
    uint32_t position = 0, slot = 0;
    sb_state *state = nullptr;
    *out = nullptr;
    sb_status status = sb_step_read(step, &position, step->position, sizeof position, err);
    if (!status)
        status = sb_step_read(step, &slot, step->slot, sizeof slot, err);
    if (!status)
        status = sb_state_new(&step->model->config, step->options.mtp, &state, err);
    if (!status)
        status = sb_state_reserve(state, position, err);
    if (!status) {
        state->position = position;
        state->mtp_entries = step->options.mtp ? sb_session_mtp_entries(&step->knobs, position) : 0;
        status = read_layers(step, slot, state, err);
    }
    if (!status && step->options.mtp)
        status = sb_step_read(step, state->mtp_hidden, step->before,
                              step->model->config.hidden_size * sizeof(float), err);
    if (status) {
        sb_state_free(state);
        return status;
    }
    *out = state;
    return SB_OK;
}
