#include "tools/bench/device_round.h"

#include "tools/bench/device_sequence.h"

/* The parts of a round in their order; a plain step has one part. */
enum { DRAFTS, VERIFY, ACCEPT, PARTS };

/* Starts a part of a round of k drafts, or a plain step if k is 0, without waiting. */
static sb_status start(sb_device_sequence *s, unsigned k, unsigned part, sb_error *err)
{
    sb_status status = SB_OK;
    if (part == ACCEPT)
        return sb_gpu_step_accept(s->step, err);
    if (part == VERIFY || !k)
        return sb_gpu_step_run(s->step, k + 1, err);
    for (unsigned i = 0; i < k && !status; i++)
        status = sb_gpu_step_draft(s->step, i, err);
    return status;
}

typedef struct times {
    double part[PARTS][SB_DEVICE_PASSES], whole[SB_DEVICE_PASSES];
} times;

/* B-20: "the host waits for none of them". A timing mark follows each part. */
static sb_status time_all(sb_device_sequence *s, unsigned k, times *out, sb_error *err)
{
    const sb_backend *b = s->o->backend;
    const unsigned parts = k ? PARTS : 1, marks = s->o->passes * parts;
    sb_status status = SB_OK;
    for (unsigned i = 0; i < s->o->warm * parts && !status; i++)
        status = start(s, k, i % parts, err);
    for (unsigned i = 0; i <= marks && !status; i++) {
        status = sb_meter_mark(b, i, err);
        if (i < marks && !status)
            status = start(s, k, i % parts, err);
    }
    for (unsigned i = 0; i < marks && !status; i++)
        status = sb_meter_between(b, i, i + 1, &out->part[i % parts][i / parts], err);
    for (unsigned i = 0; i < marks && !status; i += parts)
        status = sb_meter_between(b, i, i + parts, &out->whole[i / parts], err);
    return status;
}

static sb_status time_plain(sb_device_sequence *s, sb_device_report *out, sb_error *err)
{
    times t;
    sb_status status = sb_device_sequence_open(s, 1, s->o->warm + s->o->passes, 0, err);
    if (!status)
        status = sb_device_sequence_begin(s, err);
    if (!status)
        status = time_all(s, 0, &t, err);
    if (!status)
        out->plain = sb_meter_time_of(t.whole, s->o->passes);
    return status;
}

static sb_status time_rounds(sb_device_sequence *s, sb_device_report *out, sb_error *err)
{
    const unsigned passes = s->o->passes, rounds = s->o->warm + passes;
    uint64_t positions = 0; /* if all drafts are accepted: the host does not ask */
    for (unsigned k = 1; k <= s->o->drafts; k++)
        positions += (uint64_t)rounds * (k + 1);
    sb_status status = sb_device_sequence_open(s, s->o->drafts + 1, positions, 1, err);
    if (!status)
        status = sb_device_sequence_begin(s, err);
    for (unsigned k = 1; k <= s->o->drafts && !status; k++) {
        times t;
        status = time_all(s, k, &t, err);
        if (!status)
            out->round[k - 1] =
                (sb_device_round){.drafts = sb_meter_time_of(t.part[DRAFTS], passes),
                                  .verify = sb_meter_time_of(t.part[VERIFY], passes),
                                  .accept = sb_meter_time_of(t.part[ACCEPT], passes),
                                  .whole = sb_meter_time_of(t.whole, passes)};
    }
    return status;
}

sb_status sb_device_rounds(const sb_device_options *options, const sb_model *model,
                           sb_device_report *out, sb_error *err)
{
    sb_device_sequence plain = {.o = options, .model = model}, speculated = plain;
    sb_status status = time_plain(&plain, out, err);
    sb_device_sequence_close(&plain);
    if (!status)
        status = time_rounds(&speculated, out, err);
    sb_device_sequence_close(&speculated);
    out->rounds = status ? 0 : options->drafts;
    return status;
}
