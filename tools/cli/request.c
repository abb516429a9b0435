#include "tools/cli/request.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/show.h"
#include "ref/ops/knob.h"
#include "tools/cli/cli.h"
#include "tools/cli/runner.h"

/* Indexed by sb_acceptance and sb_rollback. */
static const char *const modes[] = {"match", "residual"}, *const ways[] = {"snapshots", "replay"};

const char *sb_request_mode(const sb_request *r)
{
    return modes[r->rounds.acceptance];
}

const char *sb_request_way(const sb_request *r)
{
    return ways[r->rounds.rollback];
}

void sb_request_opts(sb_request *r, sb_opt opts[SB_REQUEST_OPTS])
{
    *r = (sb_request){.profile = "exact", .backend = "ref", .generate = 16, .seed = 42, .top_p = 1};
    const sb_opt table[SB_REQUEST_OPTS] = {
        SB_PROMPT_OPTS(&r->from, "the prompt"),
        {"generate", 'n', SB_OPT_NUMBER, &r->generate, "N",
         "tokens to generate (16); 0: prompt only"},
        {"draft", 0, SB_OPT_STRING, &r->draft, "K",
         "drafts per round, 0 to 8; 3,0,2: per round in turn"},
        {"force-accept", 0, SB_OPT_INPUT, &r->force_accept, "2,0,1",
         "number of drafts to accept, per round in turn; or @FILE"},
        {"accept-mode", 0, SB_OPT_STRING, &r->accept_mode, "MODE",
         "match (default), or residual (needs --temp above 0)"},
        {"rollback", 0, SB_OPT_STRING, &r->rollback, "WAY",
         "snapshots (default if the profile has them) or replay"},
        {"seed", 0, SB_OPT_NUMBER, &r->seed, "S", "seed of the sampler (42)"},
        {"temp", 0, SB_OPT_REAL, &r->temperature, "T", "temperature; 0 (default) is greedy"},
        {"top-k", 0, SB_OPT_NUMBER, &r->top_k, "K", "keep the K likeliest tokens; 0: all"},
        {"top-p", 0, SB_OPT_REAL, &r->top_p, "P",
         "keep the likeliest tokens of total probability P; 1: all"},
        {"min-p", 0, SB_OPT_REAL, &r->min_p, "P",
         "keep tokens of at least P times the largest probability; 0: all"},
        {"profile", 0, SB_OPT_STRING, &r->profile, "P",
         "exact (default) or another of info --profiles"},
        {"set", 0, SB_OPT_REPEATED, &r->settings, "KNOB=VALUE", "override a knob of the profile"},
        {"backend", 0, SB_OPT_INPUT, &r->backend, "B",
         "ref (default), sim:NAME, or the kernels: emu or gpu"},
        {"threads", 0, SB_OPT_NUMBER, &r->threads, "T", "threads; never changes a bit"},
        {"logits", 0, SB_OPT_OUTPUT, &r->logits_file, "F.npy",
         "write all logits, [fed positions, V] f32"},
    };
    memcpy(opts, table, sizeof table);
}

/* --- checks ----------------------------------------------------------------------------------- */

/* Selects one of two words; text NULL selects `otherwise`. */
static sb_status choose(const char *option, const char *text, const char *const words[2],
                        int otherwise, int *out, sb_error *err)
{
    *out = otherwise;
    for (int i = 0; text && i < 2; i++)
        if (strcmp(text, words[i]) == 0) {
            *out = i;
            return SB_OK;
        }
    return !text ? SB_OK
                 : sb_fail(err, SB_ERR_USAGE, "--%s is '%s'; expected %s or %s", option,
                           SB_SHOW(text), words[0], words[1]);
}

/* Keeps *out if a golden file has filled it in already. */
static sb_status read_pattern(const char *option, const char *text, sb_sequence *out, sb_error *err)
{
    sb_status status = text ? sb_numbers_parse(text, option, out, err) : SB_OK;
    for (size_t i = 0; i < out->count && !status; i++)
        if (out->ids[i] > SB_MAX_DRAFTS)
            status =
                sb_fail(err, SB_ERR_USAGE, "%s: number %zu is %u; a round has at most %d drafts",
                        option, i, (unsigned)out->ids[i], SB_MAX_DRAFTS);
    return status;
}

int sb_pattern_at(const sb_sequence *pattern, size_t round, int none)
{
    return pattern->count ? (int)pattern->ids[round % pattern->count] : none;
}

int sb_request_is_residual(const sb_request *r)
{
    return r->rounds.acceptance == SB_ACCEPT_residual && r->sampling.temperature != 0;
}

/* The pattern of --draft for a file: the numbers of drafts of its lists, or the largest of its
 * numbers. */
static sb_status count_drafts(sb_request *r, sb_error *err)
{
    const sb_draft_file *f = r->drafter.file;
    const size_t lists = f->form == SB_DRAFTS_lists ? f->count : 1;
    if (r->draft)
        return sb_fail(err, SB_ERR_USAGE,
                       "--draft and --draft-file exclude each other: the file has the drafts");
    r->drafts.ids = sb_alloc(lists, sizeof *r->drafts.ids);
    if (!r->drafts.ids)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for drafts");
    r->drafts.count = lists;
    for (size_t i = 0; i < lists; i++)
        r->drafts.ids[i] = (uint32_t)(f->form == SB_DRAFTS_lists ? f->entries[i].count : f->most);
    return SB_OK;
}

/* A forced pattern fixes the rounds of a run, so a pattern that does not fit is found before the
 * run. */
static sb_status check_forced(const sb_request *r, sb_error *err)
{
    uint64_t emitted = 1; /* the prompt gives the first */
    for (size_t round = 0; r->forced.count && emitted < r->generate; round++) {
        int drafts = sb_pattern_at(&r->drafts, round, 0);
        int accepted = sb_pattern_at(&r->forced, round, 0);
        if (accepted > drafts)
            return sb_fail(err, SB_ERR_USAGE, "round %zu: --force-accept accepts %d of %d drafts",
                           round, accepted, drafts);
        emitted += (uint64_t)accepted + 1;
    }
    return SB_OK;
}

static sb_status check_lonely(const sb_request *r, sb_error *err)
{
    const char *lonely = r->forced.count   ? "--force-accept"
                         : r->drafter.name ? "--drafter"
                         : r->accept_mode  ? "--accept-mode"
                         : r->rollback     ? "--rollback"
                                           : NULL;
    if (!lonely || r->drafts.count)
        return SB_OK;
    return sb_fail(err, SB_ERR_USAGE, "%s applies to drafts; expected --draft as well", lonely);
}

/* The drafter of --drafter and --draft-file, and the options that do not go with it. */
static sb_status read_drafter(sb_request *r, sb_error *err)
{
    sb_drafter *d = &r->drafter;
    sb_status status = sb_drafter_read(d, err);
    if (status)
        return status;
    const int lists = d->file && d->file->form == SB_DRAFTS_lists;
    if (r->force_accept && (d->kind == SB_DRAFTER_ngram || (d->file && !lists)))
        return sb_fail(
            err, SB_ERR_USAGE,
            "--drafter %s and --force-accept exclude each other: how many drafts a round "
            "has is known only when it begins",
            SB_SHOW(sb_drafter_name(d)));
    const int residual = r->accept_mode && strcmp(r->accept_mode, modes[SB_ACCEPT_residual]) == 0;
    const size_t tree = d->file ? d->file->tree_line : 0;
    if (tree && residual) /* P-16 */
        return sb_fail(err, SB_ERR_UNSUPPORTED,
                       "%s:%zu has a tree of drafts, for which --accept-mode residual has no rule; "
                       "expected match",
                       SB_SHOW(d->path), tree);
    if (tree && r->trace)
        return sb_fail(err, SB_ERR_UNSUPPORTED,
                       "%s:%zu has a tree of drafts, which a trace cannot record yet",
                       SB_SHOW(d->path), tree);
    if (residual && (d->kind == SB_DRAFTER_ngram || lists))
        return sb_fail(err, SB_ERR_USAGE,
                       "%s %s has no distribution, which --accept-mode residual needs",
                       lists ? "--draft-file" : "--drafter", SB_SHOW(lists ? d->path : d->name));
    return d->file ? count_drafts(r, err) : SB_OK;
}

static sb_status check_speculation(sb_request *r, sb_error *err)
{
    int recurrent = sb_knobs_have_row_states(&r->knobs), mode = 0, way = 0;
    sb_status status = read_drafter(r, err);
    if (!status && !r->drafter.file)
        status = read_pattern("--draft", r->draft, &r->drafts, err);
    if (!status)
        status = read_pattern("--force-accept", r->force_accept, &r->forced, err);
    if (!status)
        status = check_lonely(r, err);
    if (!status)
        status = check_forced(r, err);
    if (!status)
        status = choose("accept-mode", r->accept_mode, modes, SB_ACCEPT_match, &mode, err);
    if (!status)
        status = choose("rollback", r->rollback, ways,
                        recurrent ? SB_ROLLBACK_snapshots : SB_ROLLBACK_replay, &way, err);
    if (!status && !recurrent && way == SB_ROLLBACK_snapshots)
        status = sb_fail(err, SB_ERR_USAGE,
                         "--rollback snapshots: delta_rule=%s keeps no state between the rows of a "
                         "chunk; expected --rollback replay, or --set delta_rule=recurrent",
                         sb_knob_value_name(r->knobs.value[SB_KNOB_delta_rule]));
    r->rounds = (sb_round_options){.acceptance = (sb_acceptance)mode, .rollback = (sb_rollback)way};
    return status;
}

static sb_status check_sampling(sb_request *r, sb_error *err)
{
    r->sampling = (sb_sampling){.seed = r->seed,
                                .temperature = r->temperature,
                                .top_k = (uint32_t)r->top_k,
                                .top_p = r->top_p,
                                .min_p = r->min_p};
    if (r->top_k > UINT32_MAX)
        return sb_fail(err, SB_ERR_USAGE, "--top-k is %llu; expected less than 2^32",
                       (unsigned long long)r->top_k);
    return sb_sampling_check(&r->sampling, err);
}

/* Finds the backend by its name, with its required knobs. */
static sb_status find_engine(sb_request *r, sb_error *err)
{
    sb_runner runner;
    sb_status status = sb_runner_find(r->backend, &runner, err);
    r->engine = runner.backend;
    r->kernels = runner.kernels;
    for (size_t i = 0; !status && runner.settings[i]; i++)
        status = sb_knobs_set(&r->knobs, runner.settings[i], err);
    return status;
}

sb_status sb_request_check_settings(sb_request *r, sb_error *err)
{
    if (r->generate > 1000000 || r->threads > 4096)
        return sb_fail(err, SB_ERR_USAGE, "-n is at most 1000000 and --threads at most 4096");
    sb_status status = sb_knobs_profile(&r->knobs, r->profile, err);
    if (!status)
        status = find_engine(r, err);
    for (size_t i = 0; i < r->settings.count && !status; i++)
        status = sb_knobs_set(&r->knobs, r->settings.item[i], err);
    if (!status)
        status = check_speculation(r, err);
    return status ? status : check_sampling(r, err);
}

static sb_status read_prompts(sb_request *r, const char *folder, sb_error *err)
{
    sb_status status =
        sb_prompts_read(&r->from, folder, &r->tokenizer, &r->sequences, &r->sequence_count, err);
    if (!status && (r->sequence_count == 0 || r->sequences[0].count == 0))
        status = sb_fail(err, r->from.tokens_file ? SB_ERR_INPUT : SB_ERR_USAGE,
                         "no token ids: a run needs at least one");
    return status;
}

sb_status sb_request_check(sb_request *r, const char *folder, sb_error *err)
{
    sb_status status = sb_prompts_check(&r->from, err);
    if (!status)
        status = sb_request_check_settings(r, err);
    if (!status)
        status = read_prompts(r, folder, err);
    const char *single = r->logits_file ? "--logits"
                         : r->state_in  ? "--state-in"
                         : r->state_out ? "--state-out"
                                        : NULL;
    if (!status && single && r->sequence_count != 1)
        status = sb_fail(err, SB_ERR_USAGE, "%s takes one sequence, found %zu", single,
                         r->sequence_count);
    if (!status && r->state_out && r->engine != sb_backend_ref() && !r->kernels)
        status = sb_fail(err, SB_ERR_USAGE,
                         "--state-out saves states of the reference and of kernels only, but this "
                         "run uses %s",
                         r->engine->name);
    if (!status)
        sb_set_threads((unsigned)r->threads);
    return status;
}

void sb_request_free(sb_request *r)
{
    sb_sequences_free(r->sequences, r->sequence_count);
    sb_numbers_free(&r->drafts);
    sb_drafter_free(&r->drafter);
    sb_numbers_free(&r->forced);
    sb_tokenizer_free(r->tokenizer);
}
