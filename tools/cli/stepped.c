#include "tools/cli/stepped.h"

#include <stdio.h>
#include <string.h>

#include "gpu/gpu.h"
#include "ref/container/show.h"

/* Why the run cannot be on steps; NULL: nothing is known yet. */
static const char *obstacle(const sb_request *r)
{
    if (r->trace)
        return "--trace records taps, and a step has none";
    if (r->drafter.kind == SB_DRAFTER_eagle3)
        return "the drafter reads states inside the target, and a step does not keep them";
    if (r->drafter.file && r->drafter.file->tree_line)
        return "the drafts are trees, and a step feeds rows that follow each other";
    if (!sb_gpu_computes(SB_OP_linear, &r->knobs))
        return "the kernels do not compute under these knobs";
    if (r->drafts.count && r->rounds.rollback == SB_ROLLBACK_replay)
        return "the rounds roll back by replay, and a step only by the states that it keeps after "
               "each row";
    return NULL;
}

static void say(sb_stepped *s, const char *why)
{
    snprintf(s->why, sizeof s->why, "%s", why);
    fprintf(stderr, "samebit: note: the run goes op by op, not in steps: %s\n", SB_SHOW(s->why));
}

static size_t most(const sb_sequence *numbers)
{
    size_t most = 0;
    for (size_t i = 0; i < numbers->count; i++)
        most = numbers->ids[i] > most ? numbers->ids[i] : most;
    return most;
}

static sb_gpu_step_options options_of(const sb_request *r, uint64_t before, int mtp)
{
    const size_t drafts = most(&r->drafts);
    size_t prompt = 0;
    for (size_t i = 0; i < r->sequence_count; i++)
        prompt = r->sequences[i].count > prompt ? r->sequences[i].count : prompt;
    /* a round may feed more than -n asks for */
    uint64_t positions = before + prompt + r->generate + drafts + 1;
    if (positions > SB_POSITION_LIMIT)
        positions = SB_POSITION_LIMIT;
    return (sb_gpu_step_options){.rows = prompt > drafts ? prompt : drafts + 1,
                                 .slots = drafts + 1,
                                 .positions = (size_t)positions,
                                 .mtp = mtp,
                                 .fused = 1};
}

sb_status sb_stepped_open(const sb_model *model, const sb_request *r, uint64_t before, int mtp,
                          sb_stepped *out, sb_error *err)
{
    *out = (sb_stepped){.step = NULL};
    if (!r->step && (r->no_step || !r->kernels || r->engine == sb_backend_emu()))
        return SB_OK;
    const char *why = obstacle(r);
    if (why) {
        say(out, why);
        return SB_OK;
    }
    sb_error open = {""};
    const sb_gpu_step_options options = options_of(r, before, mtp);
    const sb_status status =
        sb_gpu_step_open(r->engine, model, &r->knobs, &options, &out->step, &open);
    if (status == SB_ERR_UNSUPPORTED) {
        say(out, open.text);
        return SB_OK;
    }
    if (status == SB_ERR_MEMORY)
        return sb_fail(err, status,
                       "%s (%zu rows, %zu positions); --no-step keeps states and caches on the "
                       "host",
                       open.text, options.rows, options.positions);
    if (status)
        return sb_fail(err, status, "%s", open.text);
    out->resident = sb_gpu_step_resident(out->step);
    return SB_OK;
}

void sb_stepped_give_up(sb_stepped *s, const sb_error *why)
{
    sb_stepped_close(s);
    say(s, why->text);
}

void sb_stepped_close(sb_stepped *s)
{
    sb_gpu_step_close(s->step);
    s->step = NULL;
}
