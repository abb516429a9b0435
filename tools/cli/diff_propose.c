#include "tools/cli/diff_propose.h"

#include <inttypes.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/rng.h"
#include "ref/base/text.h"
#include "ref/run/session.h"
#include "tools/cli/cli.h"
#include "tools/report/part/document.h"

enum { TRIES = 48 };

/* Short prompts are cheap; the longest crosses a border of a chunk. */
static const size_t lengths[] = {12, 80, 32};

static int depends_on_prompt(sb_regime regime)
{
    return regime != SB_REGIME_accepted && regime != SB_REGIME_rejected &&
           regime != SB_REGIME_position;
}

static sb_status see(void *ctx, const sb_op_call *call)
{
    sb_status status = sb_op_run(call);
    if (!status)
        sb_coverage_op(ctx, call);
    return status;
}

static void say(char *words, const char *what)
{
    size_t used = strlen(words);
    snprintf(words + used, SB_PROPOSED_WORDS - used, "%s%s", used ? ", " : "", what);
}

/* Lists what `more` reaches and `have` does not. */
static void say_added(const sb_coverage *have, const sb_coverage *more, char *words)
{
    uint64_t experts = 0;
    char text[32];
    for (size_t i = 0; i < (size_t)have->layers * have->experts; i++)
        experts += more->routed[i] && !have->routed[i];
    for (int r = 0; r < SB_REGIMES; r++)
        if (r != SB_REGIME_experts && depends_on_prompt((sb_regime)r) && more->reached[r] &&
            !have->reached[r])
            say(words, sb_regime_words((sb_regime)r));
    snprintf(text, sizeof text, "%" PRIu64 " more expert%s", experts, sb_s(experts));
    if (experts)
        say(words, text);
}

static size_t still_missed(const sb_coverage *c, char *words)
{
    size_t missed = 0;
    for (int r = 0; r < SB_REGIMES; r++) {
        sb_regime_seen seen = sb_coverage_seen(c, (sb_regime)r);
        if (!depends_on_prompt((sb_regime)r) || !sb_regime_missed(&seen))
            continue;
        missed++;
        if (words)
            say(words, sb_regime_words((sb_regime)r));
    }
    return missed;
}

static sb_status try_prompt(const sb_model *model, const sb_knobs *knobs, const uint32_t *ids,
                            size_t count, sb_coverage *reached, sb_error *err)
{
    sb_session *session = NULL;
    sb_session_options options = {
        .knobs = knobs, .hook = see, .hook_ctx = reached, .mtp = sb_model_has_mtp(model)};
    sb_status status = sb_session_new(model, &options, &session, err);
    if (!status)
        status = sb_session_feed(session, ids, count, err);
    sb_session_free(session);
    return status;
}

static sb_status try_one(const sb_model *model, const sb_knobs *knobs, uint64_t key,
                         sb_coverage *all, sb_proposals *out, sb_error *err)
{
    sb_sequence prompt = {.count = lengths[out->tried % (sizeof lengths / sizeof *lengths)]};
    sb_coverage reached;
    int sound = sb_coverage_begin(&reached, &model->config);
    prompt.ids = sb_alloc(prompt.count, sizeof *prompt.ids);
    sb_status status = sound && prompt.ids
                           ? SB_OK
                           : sb_fail(err, SB_ERR_MEMORY, "out of memory for a proposed prompt");
    for (size_t i = 0; i < prompt.count && !status; i++)
        prompt.ids[i] =
            sb_rng_below(sb_rng_u64(key, out->tried), i, (uint32_t)model->config.vocab_size);
    if (!status)
        status = try_prompt(model, knobs, prompt.ids, prompt.count, &reached, err);
    out->tried++;
    if (!status)
        say_added(all, &reached, out->adds[out->count]);
    if (!status && sb_coverage_add(all, &reached)) {
        out->prompt[out->count++] = prompt;
        prompt.ids = NULL;
    }
    sb_numbers_free(&prompt);
    sb_coverage_free(&reached);
    return status;
}

sb_status sb_propose(const sb_model *model, const sb_knobs *knobs, const sb_coverage *have,
                     uint64_t seed, sb_proposals *out, sb_error *err)
{
    const uint64_t key = sb_rng_key(seed, "propose");
    sb_coverage all;
    *out = (sb_proposals){.count = 0};
    sb_status status = sb_coverage_begin(&all, &model->config)
                           ? SB_OK
                           : sb_fail(err, SB_ERR_MEMORY, "out of memory for proposed prompts");
    if (!status && have->layers == all.layers)
        sb_coverage_add(&all, have);
    /* without any data every regime of the model is missing; which ones it has is known only after
     * the first prompt */
    while (!status && out->tried < TRIES && out->count < SB_PROPOSALS &&
           (!have->layers || !out->tried || still_missed(&all, NULL))) {
        status = try_one(model, knobs, key, &all, out, err);
        sb_progress(NULL, "prompt", out->tried, TRIES);
    }
    if (!status)
        still_missed(&all, out->missing);
    sb_coverage_free(&all);
    return status;
}

void sb_proposals_free(sb_proposals *p)
{
    for (size_t i = 0; i < p->count; i++)
        sb_numbers_free(&p->prompt[i]);
    *p = (sb_proposals){.count = 0};
}

void sb_proposals_print(const sb_proposals *p, FILE *out)
{
    fprintf(out, "# proposed: %zu of %zu random prompts reach more, for --tokens-file\n", p->count,
            p->tried);
    for (size_t i = 0; i < p->count; i++) {
        fprintf(out, "# %s\n", p->adds[i]);
        for (size_t k = 0; k < p->prompt[i].count; k++)
            fprintf(out, "%s%u", k ? "," : "", (unsigned)p->prompt[i].ids[k]);
        fputc('\n', out);
    }
    if (*p->missing)
        fprintf(out, "# no prompt that was tried reaches all of: %s\n", p->missing);
}

json_t *sb_proposals_json(const sb_proposals *p)
{
    json_t *list = json_array();
    for (size_t i = 0; i < p->count; i++)
        json_array_append_new(list, json_pack("{s:o,s:s}", "tokens",
                                              sb_ids_json(p->prompt[i].ids, p->prompt[i].count),
                                              "adds", p->adds[i]));
    return list;
}
