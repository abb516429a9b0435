/* state.cc - copies the state of a sequence into the form of a session, and back. A session has
 * values instead of codes, and only the current slot. */
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

/* --- from a session --------------------------------------------------------------------------- */
/* Converts values to codes. Returns false if a value is none of the code's. */
static bool encode(const float *from, size_t count, bool fp8, unsigned char *codes)
{
    bool exact = true;
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = sb_bits_f32(from[i]);
        if (fp8) {
            codes[i] = sb_f32_to_e4m3(from[i]);
            exact = exact && sb_bits_f32(sb_e4m3_to_f32(codes[i])) == bits;
        } else {
            codes[2 * i] = static_cast<unsigned char>(bits >> 16);
            codes[2 * i + 1] = static_cast<unsigned char>(bits >> 24);
            exact = exact && (bits & 0xffff) == 0;
        }
    }
    return exact;
}

static sb_status write_cache(sb_queued_step *step, const float *from, size_t count, char *to,
                             sb_error *err)
{
    const bool fp8 = SB_IS(&step->knobs, kv_cache, fp8);
    const size_t each = fp8 ? 1 : 2;
    unsigned char *codes = static_cast<unsigned char *>(sb_alloc(count, each));
    if (!codes)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a copy of the cache");
    const sb_status status = encode(from, count, fp8, codes)
                                 ? sb_step_write(step, to, codes, count * each, err)
                                 : sb_fail(err, SB_ERR_USAGE,
                                           "the state has a key or value that is no %s, so the "
                                           "cache of a step cannot hold it",
                                           fp8 ? "E4M3 value" : "bfloat16");
    free(codes);
    return status;
}

static sb_status write_full(sb_queued_step *step, size_t place, size_t rows,
                            const sb_layer_state *from, sb_error *err)
{
    const size_t at = place * step->options.positions * step->kv_row;
    const size_t count = rows * sb_state_kv_row(&step->model->config);
    sb_status status = count ? write_cache(step, from->keys, count, step->keys + at, err) : SB_OK;
    if (!status && count)
        status = write_cache(step, from->values, count, step->values + at, err);
    return status;
}

static sb_status write_linear(sb_queued_step *step, size_t place, const sb_layer_state *from,
                              sb_error *err)
{
    const sb_config *m = &step->model->config;
    const size_t conv = sb_state_conv_size(m), recurrent = sb_state_recurrent_size(m);
    const sb_status status =
        sb_step_write(step, step->conv + place * conv, from->conv, conv * sizeof(float), err);
    return status ? status
                  : sb_step_write(step, step->recurrent + place * recurrent, from->recurrent,
                                  recurrent * sizeof(float), err);
}

/* All in slot 0, which counts after sb_step_empty. */
static sb_status write_layers(sb_queued_step *step, const sb_state *state, sb_error *err)
{
    size_t full = 0, linear = 0;
    sb_status status = SB_OK;
    for (uint32_t i = 0; i < sb_state_layers(state) && !status; i++)
        status = sb_state_is_full(state, i)
                     ? write_full(step, full++, sb_state_kv_rows(state, i), &state->layers[i], err)
                     : write_linear(step, linear++ * step->slots, &state->layers[i], err);
    return status;
}

sb_status sb_step_write_state(sb_queued_step *step, const sb_state *state, sb_error *err)
{
    const uint32_t position = static_cast<uint32_t>(state->position);
    if (state->position > step->options.positions || !state->has_mtp != !step->options.mtp)
        return sb_fail(err, SB_ERR_USAGE,
                       "the state has %llu positions and %s MTP head; the step has room for %zu "
                       "positions and has %s head",
                       static_cast<unsigned long long>(state->position),
                       state->has_mtp ? "an" : "no", step->options.positions,
                       step->options.mtp ? "a" : "no");
    sb_status status = sb_step_empty(step, err);
    step->failed = true; /* until all is written */
    if (!status)
        status = sb_step_write(step, step->position, &position, sizeof position, err);
    if (!status)
        status = write_layers(step, state, err);
    if (!status && state->has_mtp)
        status = sb_step_write(step, step->before, state->mtp_hidden,
                               step->model->config.hidden_size * sizeof(float), err);
    if (status)
        return status;
    step->reach = position;
    step->failed = false;
    return SB_OK;
}
