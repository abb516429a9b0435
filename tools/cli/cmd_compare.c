/* cmd_compare.c - samebit compare: two forms of one model on one text. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "tools/cli/cli.h"
#include "tools/report/result/compare.h"
#include "tools/cli/opts.h"
#include "tools/cli/prompt.h"

typedef struct wishes {
    sb_prompts from;
    const char *folder[2], *profile, *html;
    const char *const *arguments; /* the command line */
    size_t argument_count;
    sb_repeated settings, second;
    uint64_t mixed, threads;
    float most_kl, least_same;
    int has_kl, has_same;
    int as_json, card, all, allow_self;
    sb_knobs knobs[2];
    char arithmetic[320]; /* the profile and the settings, as text */
} wishes;

/* The verdict and the reason; the verdicts are those of diff. */
typedef struct judgement {
    const char *verdict;
    char reason[320];
    sb_status status;
} judgement;

static sb_status measure_pair(const wishes *w, const sb_sequence *sequences, size_t count,
                              sb_pair *out, sb_error *err)
{
    sb_model *models[2] = {NULL, NULL};
    const sb_pair_options options = {.knobs = {&w->knobs[0], &w->knobs[1]},
                                     .mixed_tokens = (size_t)w->mixed,
                                     .progress = sb_progress};
    sb_pair_text *texts = calloc(count + 1, sizeof *texts);
    sb_status status =
        texts ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu texts", count);
    for (size_t i = 0; i < count && !status; i++)
        texts[i] = (sb_pair_text){sequences[i].ids, sequences[i].count};
    for (int i = 0; i < 2 && !status; i++)
        status = sb_model_open(w->folder[i], &models[i], err);
    for (int i = 0; i < 2 && !status; i++)
        status =
            sb_prompts_check_ids(&w->from, sequences, count, models[i]->config.vocab_size, err);
    if (!status)
        status = sb_pair_measure((const sb_model *const *)models, texts, count, &options, out, err);
    sb_model_close(models[0]);
    sb_model_close(models[1]);
    free(texts);
    return status;
}

/* True if all values of B equal A's: a checkpoint was compared with itself. */
static int the_same(const sb_pair *p)
{
    double most = p->kl.most;
    for (size_t i = 0; i < p->layer_count; i++)
        most += p->layers[i].added + p->layers[i].kl;
    return most == 0 && !p->flip_count && !p->other_drafts;
}

static judgement judge_pair(const wishes *w, const sb_pair *p)
{
    judgement j = {.verdict = "MEASURED", .status = SB_OK};
    snprintf(j.reason, sizeof j.reason, "no limit was given; --max-kl and --min-same set one");
    if (w->has_kl || w->has_same) {
        j.verdict = "WITHIN";
        snprintf(j.reason, sizeof j.reason, "inside the limits given");
    }
    if (p->tokens < 2) {
        j = (judgement){.verdict = "MISTRUSTED", .status = SB_ERR_SKIPPED};
        snprintf(j.reason, sizeof j.reason,
                 "%zu token%s: this is too little to compare two models; expected more text",
                 p->tokens, p->tokens == 1 ? "" : "s");
    }
    if (the_same(p) && !w->allow_self) {
        j = (judgement){.verdict = "MISTRUSTED", .status = SB_ERR_SKIPPED};
        snprintf(j.reason, sizeof j.reason,
                 "both give the same bits: is B the right checkpoint? --allow-self accepts this");
    } else if (w->has_kl && (float)p->kl.mean > w->most_kl) {
        j = (judgement){.verdict = "FAIL", .status = SB_ERR_DIFF};
        snprintf(j.reason, sizeof j.reason, "the mean KL is %.3e, expected at most %g", p->kl.mean,
                 (double)w->most_kl);
    } else if (w->has_same && (float)p->agreement_at.rate < w->least_same) {
        j = (judgement){.verdict = "FAIL", .status = SB_ERR_DIFF};
        snprintf(j.reason, sizeof j.reason,
                 "the largest logits agree in %.4f of the tokens, expected at least %g",
                 p->agreement_at.rate, (double)w->least_same);
    }
    return j;
}

static sb_status show(const wishes *w, const sb_compared *c, sb_error *err)
{
    sb_status status = w->html ? sb_compared_html(c, w->html, err) : SB_OK;
    if (status)
        return status;
    if (w->as_json)
        return sb_compared_json(c, err);
    if (w->card)
        sb_compared_card(c);
    else
        sb_compared_print(c);
    return fflush(stdout) == 0 ? SB_OK : sb_fail(err, SB_ERR_IO, "the result could not be written");
}

static sb_status compare(const wishes *w, sb_error *err)
{
    sb_sequence *sequences = NULL;
    size_t count = 0;
    sb_pair pair = {.tokens = 0};
    sb_status status = sb_prompts_read(&w->from, w->folder[0], NULL, &sequences, &count, err);
    if (!status)
        status = measure_pair(w, sequences, count, &pair, err);
    if (!status) {
        judgement j = judge_pair(w, &pair);
        const sb_compared c = {.folder = {w->folder[0], w->folder[1]},
                               .profile = w->arithmetic,
                               .texts = count,
                               .pair = &pair,
                               .verdict = j.verdict,
                               .reason = j.reason,
                               .lines = w->all ? pair.layer_count : 10,
                               .failed = j.status == SB_ERR_DIFF,
                               .arguments = w->arguments,
                               .argument_count = w->argument_count};
        status = show(w, &c, err);
        if (!status && j.status)
            status = sb_fail(err, j.status, "%s: %s", j.verdict, j.reason);
    }
    sb_pair_free(&pair);
    sb_sequences_free(sequences, count);
    return status;
}

/* Example: "vllm, beta=act, of B alone act=f32". */
static void name_arithmetic(wishes *w)
{
    size_t n = sizeof w->arithmetic, used = (size_t)snprintf(w->arithmetic, n, "%s", w->profile);
    for (size_t i = 0; i < w->settings.count && used < n; i++)
        used += (size_t)snprintf(w->arithmetic + used, n - used, ", %s", w->settings.item[i]);
    for (size_t i = 0; i < w->second.count && used < n; i++)
        used += (size_t)snprintf(w->arithmetic + used, n - used, "%s%s", i ? ", " : ", of B alone ",
                                 w->second.item[i]);
}

static sb_status read_wishes(wishes *w, sb_error *err)
{
    if (w->threads > 4096)
        return sb_fail(err, SB_ERR_USAGE, "--threads is at most 4096");
    if (w->least_same > 1)
        return sb_fail(err, SB_ERR_USAGE, "--min-same is a share: expected 0 to 1");
    sb_status status = sb_prompts_check(&w->from, err);
    if (!status)
        status = sb_knobs_profile(&w->knobs[0], w->profile, err);
    for (size_t i = 0; i < w->settings.count && !status; i++)
        status = sb_knobs_set(&w->knobs[0], w->settings.item[i], err);
    w->knobs[1] = w->knobs[0];
    for (size_t i = 0; i < w->second.count && !status; i++)
        status = sb_knobs_set(&w->knobs[1], w->second.item[i], err);
    name_arithmetic(w);
    return status;
}

sb_status sb_cmd_compare(int argc, char **argv, sb_error *err)
{
    wishes w = {.profile = "exact", .mixed = 64};
    enum { MAX_KL = 9, MIN_SAME = 10 };
    const sb_opt opts[] = {
        SB_PROMPT_OPTS(&w.from, "the text to compare on"),
        {"mixed", 0, SB_OPT_NUMBER, &w.mixed, "N",
         "tokens for the contributions of layers (64; 0: none)"},
        {"profile", 0, SB_OPT_STRING, &w.profile, "P",
         "exact (default) or another of info --profiles"},
        {"set", 0, SB_OPT_REPEATED, &w.settings, "KNOB=VALUE", "override a knob of the profile"},
        {"b-set", 0, SB_OPT_REPEATED, &w.second, "KNOB=VALUE", "override a knob for B only"},
        {"threads", 0, SB_OPT_NUMBER, &w.threads, "T", "threads; never changes a bit"},
        {"max-kl", 0, SB_OPT_REAL, &w.most_kl, "X", "fail if the mean KL is larger"},
        {"min-same", 0, SB_OPT_REAL, &w.least_same, "X",
         "fail if the share of tokens with the same largest logit is smaller"},
        {"allow-self", 0, SB_OPT_FLAG, &w.allow_self, NULL,
         "accept two checkpoints that give the same bits"},
        {"card", 0, SB_OPT_FLAG, &w.card, NULL, "print Markdown for a model card"},
        {"all", 0, SB_OPT_FLAG, &w.all, NULL, "print every layer, not only the first ten"},
        SB_OPT_JSON(&w.as_json),
        {"html", 0, SB_OPT_OUTPUT, &w.html, "FILE", "also write a page for a browser"},
    };
    sb_command_line line = {
        .usage = "compare A B (--tokens-file F | --text F) [options]",
        .about =
            "How does B, a quantized form of A, differ from A? KL, largest logits, experts and\n"
            "acceptance of drafts on one text, and which layers cause the difference: each layer of B\n"
            "is put into A, one at a time. Both files are read once, layer by layer. "
            "docs/compare.md.",
        .opts = opts,
        .opt_count = sizeof opts / sizeof *opts,
        .more = "exit status: 0, 1 beyond a limit given, 2 wrong use, 3 input refused, 4 both are "
                "the same,\nor the text is a single token\n\nexample:\n  samebit compare bf16 "
                "nvfp4 --tokens-file texts --card\n",
        .min_operands = 2,
        .max_operands = 2};
    sb_status status = sb_parse(&line, argc, argv, err);
    if (status || line.helped)
        return status;
    w.folder[0] = line.operand[0];
    w.folder[1] = line.operand[1];
    w.arguments = (const char *const *)argv;
    w.argument_count = (size_t)argc;
    w.has_kl = (line.given >> MAX_KL & 1) != 0;
    w.has_same = (line.given >> MIN_SAME & 1) != 0;
    status = read_wishes(&w, err);
    if (status)
        return status;
    sb_set_threads((unsigned)w.threads);
    return compare(&w, err);
}
