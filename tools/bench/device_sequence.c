#include "tools/bench/device_sequence.h"

#include <stdlib.h>

#include "gpu/meter/counter.h"
#include "ref/base/mem.h"

enum { PROMPT = 512, MOST_ROWS = SB_STEP_SLOTS };

void sb_device_sequence_draw(sb_device_sequence *s, size_t n)
{
    const uint32_t vocabulary = s->model->config.vocab_size;
    for (size_t i = 0; i < n; i++)
        s->tokens[i] = (uint32_t)(sb_counter_bits(s->o->model.seed, s->drawn++) % vocabulary);
}

sb_status sb_device_sequence_begin(sb_device_sequence *s, sb_error *err)
{
    const uint64_t context = s->o->prompt ? 0 : s->o->context ? s->o->context : 1;
    sb_status status = sb_gpu_step_reset(s->step, err);
    for (uint64_t at = 0; at < context && !status;) {
        const size_t n = context - at < PROMPT ? (size_t)(context - at) : PROMPT;
        sb_device_sequence_draw(s, n);
        status = sb_gpu_step_feed(s->step, s->tokens, n, err);
        at += n;
    }
    return status;
}

sb_status sb_device_sequence_open(sb_device_sequence *s, size_t rows, uint64_t positions, int mtp,
                                  sb_error *err)
{
    const sb_device_options *o = s->o;
    const size_t call = o->prompt ? rows : o->context < PROMPT ? (size_t)o->context : PROMPT;
    const uint64_t all = positions + (o->prompt ? 0 : o->context + 1);
    const sb_gpu_step_options options = {.rows = call > MOST_ROWS ? call : MOST_ROWS,
                                         .slots = o->prompt ? 1 : rows,
                                         .positions = all > MOST_ROWS ? all : MOST_ROWS,
                                         .mtp = mtp,
                                         .fused = 1};
    sb_knobs knobs;
    sb_status status = sb_knobs_profile(&knobs, o->profile, err);
    if (!status)
        status = sb_knobs_set(&knobs, o->fp8_cache ? "kv_cache=fp8" : "kv_cache=act", err);
    if (status)
        return status;
    s->tokens = sb_alloc(options.rows, sizeof *s->tokens);
    return s->tokens ? sb_gpu_step_open(o->backend, s->model, &knobs, &options, &s->step, err)
                     : sb_fail(err, SB_ERR_MEMORY, "out of memory for a measurement");
}

void sb_device_sequence_close(sb_device_sequence *s)
{
    sb_gpu_step_close(s->step);
    free(s->tokens);
    s->step = NULL;
    s->tokens = NULL;
}
