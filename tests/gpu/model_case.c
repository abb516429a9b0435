#include "tests/gpu/model_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu.h"
#include "tests/lib/checkpoint.h"
#include "tests/lib/record.h"
#include "tools/cli/diff_run.h"

enum { NOISE = 2 };
static char wrong[sizeof(sb_error) + 16];

/* The folder may already have the checkpoint of the case before: cases of one checkpoint are
 * consecutive. */
static sb_status make(const model_case *c, const char *folder, sb_error *err)
{
    static char made[128];
    char wanted[sizeof made];
    sb_make_options options = {.dir = folder,
                               .preset = c->preset,
                               .format = c->format,
                               .layers = c->layers,
                               .seed = 42,
                               .replace = 1};
    snprintf(wanted, sizeof wanted, "%s %s %u", c->preset, c->format, c->layers);
    if (strcmp(wanted, made) == 0)
        return SB_OK;
    sb_status status = sb_make(&options, err);
    if (status == SB_ERR_USAGE) { /* 128 does not divide the rows of T6 */
        options.group_size = 32;
        status = sb_make(&options, err);
    }
    memcpy(made, wanted, sizeof made);
    return status;
}

/* Ops that leave no order of summation open: the profile determines every rounding. */
static const int exact_ops[SB_OP_COUNT] = {
    [SB_OP_embed] = 1,     [SB_OP_gates] = 1,  [SB_OP_rope] = 1, [SB_OP_split_gate] = 1,
    [SB_OP_attn_gate] = 1, [SB_OP_swiglu] = 1, [SB_OP_add] = 1};

/* The first error; NULL: none. */
static const char *fault_of(const sb_diff_run *run)
{
    const sb_verdicts *v = &run->verdicts;
    if (v->verdict != SB_VERDICT_IDENTICAL && v->verdict != SB_VERDICT_WITHIN) {
        snprintf(wrong, sizeof wrong, "%s: %s", sb_verdict_name(v->verdict), v->reason);
        return wrong;
    }
    for (size_t i = 0; i < SB_OP_COUNT; i++) {
        const sb_op_verdict *op = &v->ops[i];
        const int passed = op->verdict == SB_VERDICT_IDENTICAL ||
                           (op->verdict == SB_VERDICT_WITHIN && !exact_ops[i]);
        if (op->values.not_judged || (op->compared && !passed)) {
            snprintf(wrong, sizeof wrong, "op %s is %s", sb_op_name(i),
                     op->values.not_judged ? "not judged" : sb_verdict_name(op->verdict));
            return wrong;
        }
    }
    return !v->ops[SB_OP_linear].compared || !v->ops[SB_OP_attention].compared
               ? "linear layers or attention were not compared"
               : NULL;
}

static void ask(const model_case *c, sb_request *request, uint32_t *ids, sb_sequence *prompt,
                uint32_t *drafts)
{
    *prompt = (sb_sequence){.ids = ids, .count = c->length};
    *drafts = (uint32_t)c->drafts;
    request->sequences = prompt;
    request->sequence_count = 1;
    request->generate = c->generate;
    if (c->drafts)
        request->drafts = (sb_sequence){.ids = drafts, .count = 1};
}

static sb_status judge(const model_case *c, const sb_model *model, sb_diff_run *run, sb_error *err)
{
    char engine[32];
    sb_request request = {.seed = 42};
    sb_side side = {.spec = engine};
    const sb_dumped none = {.as = NULL};
    sb_sequence prompt;
    uint32_t drafts, *ids = calloc(c->length, sizeof *ids);
    snprintf(engine, sizeof engine, "emu:%llu", (unsigned long long)c->seed);
    sb_status status = ids ? sb_knobs_profile(&request.knobs, c->profile, err) : SB_ERR_MEMORY;
    if (!status)
        status = sb_side_open(engine, &none, &side, err);
    sb_backend_emu_history(c->history);
    if (!status) {
        test_draw_ids(c->preset, model->config.vocab_size, ids, c->length);
        ask(c, &request, ids, &prompt, &drafts);
        *run = (sb_diff_run){.model = model,
                             .side = &side,
                             .request = &request,
                             .engine_knobs = request.knobs,
                             .arithmetic = *sb_side_arithmetic(&side),
                             .taps = "all",
                             .rows = c->length,
                             .perturbed = NOISE,
                             .seed = 42,
                             .forced = c->forced ? 1 : -1,
                             .free = !c->forced};
        status = sb_diff_run_side(run, err);
    }
    sb_gpu_forget(side.runner.backend);
    sb_side_close(&side);
    free(ids);
    return status;
}

static double worst_of(const sb_diff_run *run)
{
    double worst = 0.0;
    for (size_t i = 0; i < SB_OP_COUNT; i++)
        worst = run->verdicts.ops[i].worst > worst ? run->verdicts.ops[i].worst : worst;
    return worst;
}

const char *model_case_judge(const model_case *c, const char *name, double *worst)
{
    const char *folder = test_path("models", name), *found = wrong;
    sb_error err = {""};
    sb_diff_run run = {.notes = ""};
    sb_status status = make(c, folder, &err);
    sb_model *model = status ? NULL : test_model_open(folder);
    if (!status)
        status = judge(c, model, &run, &err);
    if (status)
        snprintf(wrong, sizeof wrong, "refused: %s", err.text);
    else
        found = fault_of(&run);
    *worst = worst_of(&run);
    sb_diff_run_free(&run);
    sb_model_close(model);
    return found;
}
