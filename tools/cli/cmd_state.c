/* cmd_state.c - the state of a sequence as a file: saved, shown, compared (D-10 to D-12, S-11). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "ref/run/eagle3.h"
#include "tools/cli/cli.h"
#include "tools/cli/continued.h"
#include "tools/cli/opts.h"
#include "tools/cli/prompt.h"
#include "tools/report/result/state.h"

typedef struct state_request {
    sb_prompts prompts;
    const char *profile, *from, *output, *drafter;
    sb_repeated settings;
    uint64_t threads;
    int no_mtp, as_json;
    sb_sequence *sequences;
    size_t sequence_count;
    sb_knobs knobs;
} state_request;

static sb_status read_request(const char *folder, state_request *r, sb_error *err)
{
    if (!r->output)
        return sb_fail(err, SB_ERR_USAGE, "save needs -o FILE");
    sb_status status = sb_prompts_check(&r->prompts, err);
    if (!status)
        status = sb_knobs_profile(&r->knobs, r->profile, err);
    for (size_t i = 0; i < r->settings.count && !status; i++)
        status = sb_knobs_set(&r->knobs, r->settings.item[i], err);
    if (status)
        return status;
    status = sb_prompts_read(&r->prompts, folder, NULL, &r->sequences, &r->sequence_count, err);
    if (!status && r->prompts.tokens_file && !r->sequence_count)
        return sb_fail(err, SB_ERR_INPUT, "%s: no token ids", SB_SHOW(r->prompts.tokens_file));
    if (!status && (r->sequence_count != 1 || r->sequences[0].count == 0))
        status = sb_fail(err, SB_ERR_USAGE, "save takes one sequence of at least one token");
    return status;
}

/* The sequence, and its entries of --drafter. */
typedef struct saving {
    sb_model *model;
    sb_session *session;
    sb_state_file *from; /* of --continue, or NULL */
    sb_eagle3 *drafter;  /* or NULL */
    sb_eagle3_identity identity;
    sb_eagle3_drafts *drafts;
} saving;

/* The drafter, before the session that keeps its states. */
static sb_status open_drafter(saving *s, const state_request *r, sb_error *err)
{
    if (!r->drafter) {
        if (s->from)
            sb_state_note_entries(s->from, r->from);
        return SB_OK;
    }
    sb_status status = sb_eagle3_open(r->drafter, s->model, &s->drafter, err);
    if (!status)
        status = sb_eagle3_identify(s->drafter, &s->identity, err);
    return status || !s->from
               ? status
               : sb_state_file_has_entries(s->from, r->from, &s->identity, r->drafter, err);
}

/* Makes the entries of the tokens that were fed. */
static sb_status feed_drafter(saving *s, const state_request *r, sb_error *err)
{
    if (!s->drafter)
        return SB_OK;
    sb_status status = sb_eagle3_drafts_new(s->drafter, s->session, &s->drafts, err);
    if (!status && s->from)
        status = sb_eagle3_restore(s->drafts, s->from->entries, err);
    return status ? status
                  : sb_eagle3_follow(s->drafts, r->sequences[0].ids, r->sequences[0].count, err);
}

static sb_status feed_and_save(saving *s, const state_request *r, sb_error *err)
{
    sb_session *session = s->session;
    sb_state_file *from = s->from;
    sb_state_origin origin = {.knobs = &r->knobs, .profile = r->profile};
    uint32_t *tokens = NULL;
    sb_status status =
        sb_checkpoint_digest(sb_session_model(session)->checkpoint, &origin.checkpoint, err);
    if (!status && from)
        status = sb_state_resume(session, from, r->from, &origin, err);
    uint64_t before = sb_session_position(session);
    if (!status)
        status = sb_session_feed(session, r->sequences[0].ids, r->sequences[0].count, err);
    if (!status)
        status = feed_drafter(s, r, err);
    if (!status)
        status =
            sb_state_join(from, before, r->sequences[0].ids, r->sequences[0].count, &tokens, err);
    origin.tokens = tokens;
    sb_state state = *sb_session_state(session);
    sb_drafter_state entries;
    if (!status && s->drafter && sb_eagle3_entries(s->drafts, &entries)) {
        state.drafter = &entries;
        origin.drafter = &s->identity;
    }
    if (!status)
        status = sb_state_save(r->output, &state, &origin, err);
    free(tokens);
    return status;
}

/* Reads the written file back, verifies it and shows it. */
static sb_status show_written(const state_request *r, sb_error *err)
{
    sb_state_file *file = NULL;
    sb_status status = sb_state_file_open(r->output, &file, err);
    if (!status)
        status = sb_state_show(r->output, file, r->as_json, err);
    sb_state_file_free(file);
    return status;
}

/* If a state file is continued, the file determines whether there is a head; otherwise the
 * checkpoint does. */
static sb_status save(const char *folder, state_request *r, sb_error *err)
{
    saving s = {.model = NULL};
    sb_status status = read_request(folder, r, err);
    sb_set_threads((unsigned)r->threads);
    if (!status && r->from)
        status = sb_state_file_open(r->from, &s.from, err);
    if (!status)
        status = sb_model_open(folder, &s.model, err);
    if (!status)
        status = sb_prompts_check_ids(&r->prompts, r->sequences, r->sequence_count,
                                      s.model->config.vocab_size, err);
    if (!status)
        status = open_drafter(&s, r, err);
    if (!status) {
        int mtp = s.from ? s.from->state->has_mtp : sb_model_has_mtp(s.model);
        sb_session_options options = {.knobs = &r->knobs, .mtp = mtp && !r->no_mtp};
        if (s.drafter)
            options.states = sb_eagle3_states(s.drafter);
        status = sb_session_new(s.model, &options, &s.session, err);
    }
    if (!status)
        status = feed_and_save(&s, r, err);
    sb_eagle3_drafts_free(s.drafts);
    sb_session_free(s.session);
    sb_eagle3_close(s.drafter);
    sb_state_file_free(s.from);
    sb_model_close(s.model);
    sb_sequences_free(r->sequences, r->sequence_count);
    return status ? status : show_written(r, err);
}

static sb_status info(const char *path, int as_json, sb_error *err)
{
    sb_state_file *file = NULL;
    sb_status status = sb_state_file_open(path, &file, err);
    if (!status)
        status = sb_state_show(path, file, as_json, err);
    sb_state_file_free(file);
    return status;
}

static sb_status diff(const char *const *paths, int as_json, sb_error *err)
{
    sb_state_file *files[2] = {NULL, NULL};
    sb_status status = sb_state_file_open(paths[0], &files[0], err);
    if (!status)
        status = sb_state_file_open_like(paths[1], files[0], &files[1], err);
    if (!status)
        status = sb_state_show_diff(paths, (const sb_state_file *const[]){files[0], files[1]},
                                    as_json, err);
    sb_state_file_free(files[0]);
    sb_state_file_free(files[1]);
    return status;
}

static sb_status dispatch(const sb_command_line *line, state_request *r, sb_error *err)
{
    const char *what = line->operand[0];
    int is_diff = strcmp(what, "diff") == 0, is_info = strcmp(what, "info") == 0;
    if (!is_diff && !is_info && strcmp(what, "save") != 0)
        return sb_fail(err, SB_ERR_USAGE,
                       "expected state save, state diff or state info, found '%s'", what);
    if (line->operands != (is_diff ? 3u : 2u))
        return sb_fail(err, SB_ERR_USAGE, "found %u operands after '%s', expected %s",
                       line->operands - 1, what,
                       is_diff   ? "two state files"
                       : is_info ? "one state file"
                                 : "one checkpoint folder");
    if (!is_diff && !is_info)
        return save(line->operand[1], r, err);
    if (sb_prompts_given(&r->prompts) || r->from || r->output || r->settings.count || r->no_mtp ||
        r->drafter || r->threads || strcmp(r->profile, "exact") != 0)
        return sb_fail(err, SB_ERR_USAGE, "the only option of %s is --json", what);
    return is_diff ? diff(line->operand + 1, r->as_json, err)
                   : info(line->operand[1], r->as_json, err);
}

sb_status sb_cmd_state(int argc, char **argv, sb_error *err)
{
    state_request r = {.profile = "exact"};
    const sb_opt opts[] = {
        SB_PROMPT_OPTS(&r.prompts, "save: the prompt"),
        {"continue", 0, SB_OPT_INPUT, &r.from, "STATE", "save: continue from this state"},
        {"output", 'o', SB_OPT_OUTPUT, &r.output, "STATE", "save: the file to write, or replace"},
        {"no-mtp", 0, SB_OPT_FLAG, &r.no_mtp, NULL, "save: leave the MTP head out"},
        {"drafter", 0, SB_OPT_INPUT, &r.drafter, "DIR",
         "save: also the entries of this EAGLE-3 drafter"},
        {"profile", 0, SB_OPT_STRING, &r.profile, "P", "save: exact, or one of info --profiles"},
        {"set", 0, SB_OPT_REPEATED, &r.settings, "KNOB=VALUE", "save: override a knob"},
        {"threads", 0, SB_OPT_NUMBER, &r.threads, "T", "save: threads; never changes a bit"},
        SB_OPT_JSON(&r.as_json),
    };
    sb_command_line line = {
        .usage = "state (save CKPT --tokens 1,2,3 -o STATE | diff A B | info STATE)",
        .about =
            "The state of a sequence as a file: keys and values, conv states, recurrent states and\n"
            "the state of the MTP head; docs/state.md has the layout.\n"
            "save feeds tokens and writes the state after them. It reads the whole checkpoint once\n"
            "for its digest. The file carries this digest and the knobs: --continue refuses a state\n"
            "of another checkpoint or of other knobs (exit 3).\n"
            "info verifies a file and shows it. diff compares two files bit by bit, without a\n"
            "checkpoint: exit 1 names the first layer, head, row and column that differ. B may be\n"
            "written by another program: tensors of the same names, without metadata.",
        .opts = opts,
        .opt_count = sizeof opts / sizeof *opts,
        .more = "examples:\n  samebit state save CKPT --tokens 1,2,3 -o a.state\n"
                "  samebit state save CKPT --tokens 4 --continue a.state -o b.state\n"
                "  samebit state diff b.state engine.state\n",
        .min_operands = 2,
        .max_operands = 3};
    sb_status status = sb_parse(&line, argc, argv, err);
    if (status || line.helped)
        return status;
    if (r.threads > 4096)
        return sb_fail(err, SB_ERR_USAGE, "--threads is at most 4096");
    return dispatch(&line, &r, err);
}
