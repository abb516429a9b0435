#include "tools/cli/generate.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/cli/cli.h"
#include "tools/cli/npy.h"
#include "tools/cli/tokens.h"

void sb_request_opts(sb_request *r, sb_opt opts[SB_REQUEST_OPTS])
{
    *r = (sb_request){.profile = "exact", .backend = "ref", .generate = 16};
    const sb_opt table[SB_REQUEST_OPTS] = {
        {"tokens", 0, SB_OPT_STRING, &r->tokens, "1,2,3", "the prompt as token ids"},
        {"tokens-file", 0, SB_OPT_STRING, &r->tokens_file, "F",
         "prompts, one list of ids per line"},
        {"generate", 'n', SB_OPT_NUMBER, &r->generate, "N",
         "tokens to generate (16); 0: prompt only"},
        {"profile", 0, SB_OPT_STRING, &r->profile, "P",
         "exact (default) or another of info --profiles"},
        {"set", 0, SB_OPT_REPEATED, &r->settings, "KNOB=VALUE", "override a knob of the profile"},
        {"backend", 0, SB_OPT_STRING, &r->backend, "B", "ref, the only one of this version"},
        {"threads", 0, SB_OPT_NUMBER, &r->threads, "T", "threads; never changes a bit"},
        {"logits", 0, SB_OPT_STRING, &r->logits_file, "F.npy",
         "all logits, [fed positions, V] f32"},
    };
    memcpy(opts, table, sizeof table);
}

sb_status sb_request_check(sb_request *r, sb_error *err)
{
    if (!r->tokens == !r->tokens_file)
        return sb_fail(err, SB_ERR_USAGE, "expected one of --tokens and --tokens-file");
    if (strcmp(r->backend, "ref") != 0)
        return sb_fail(err, SB_ERR_USAGE, "there is no backend '%s'; the backends are: ref",
                       r->backend);
    if (r->generate > 1000000 || r->threads > 4096)
        return sb_fail(err, SB_ERR_USAGE, "-n is at most 1000000 and --threads at most 4096");
    sb_status status = sb_knobs_profile(&r->knobs, r->profile, err);
    for (size_t i = 0; i < r->settings.count && !status; i++)
        status = sb_knobs_set(&r->knobs, r->settings.item[i], err);
    if (status)
        return status;
    if (r->tokens_file) {
        status = sb_tokens_load(r->tokens_file, &r->sequences, &r->sequence_count, err);
    } else {
        r->sequences = sb_alloc(1, sizeof *r->sequences);
        r->sequence_count = r->sequences ? 1 : 0;
        status = r->sequences ? sb_tokens_parse(r->tokens, "--tokens", r->sequences, err)
                              : sb_fail(err, SB_ERR_MEMORY, "out of memory");
    }
    if (!status && (r->sequence_count == 0 || r->sequences[0].count == 0))
        status = sb_fail(err, SB_ERR_USAGE, "no token ids: a run needs at least one");
    if (!status && r->logits_file && r->sequence_count != 1)
        status =
            sb_fail(err, SB_ERR_USAGE, "--logits takes one sequence, found %zu", r->sequence_count);
    if (!status)
        sb_set_threads((unsigned)r->threads);
    return status;
}

void sb_request_free(sb_request *request)
{
    sb_sequences_free(request->sequences, request->sequence_count);
}

/* The logits of all rows of the last call, appended to the file that --logits names. */
static sb_status save_logits(sb_session *session, sb_npy *npy, float *logits, size_t V,
                             sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t row = 0; npy && row < sb_session_rows(session) && !status; row++) {
        status = sb_session_logits(session, row, logits, err);
        if (!status)
            status = sb_npy_append(npy, logits, V, err);
    }
    return status;
}

/* Prompt, then token after token; logits is scratch for V values, npy may be NULL. */
static sb_status run(sb_session *session, const sb_sequence *prompt, sb_generated *out, size_t n,
                     size_t V, float *logits, sb_npy *npy, sb_error *err)
{
    sb_status status = sb_session_feed(session, prompt->ids, prompt->count, err);
    if (!status)
        status = save_logits(session, npy, logits, V, err);
    for (size_t i = 0; i < n && !status; i++) {
        status = sb_session_logits(session, sb_session_rows(session) - 1, logits, err);
        if (status)
            break;
        out->tokens[i] = sb_greedy(logits, V);
        /* D-2: "the digest of its V logits in binary32" */
        out->logits[i] = sb_digest_f32(logits, V);
        out->count = i + 1;
        sb_progress(NULL, "token", i + 1, n);
        if (i + 1 == n)
            break; /* the last token is emitted, not fed */
        status = sb_session_feed(session, &out->tokens[i], 1, err);
        if (!status)
            status = save_logits(session, npy, logits, V, err);
    }
    if (status)
        return status;
    out->fed = sb_session_state(session)->position;
    return sb_state_digest(sb_session_state(session), &out->target, err);
}

sb_status sb_generate(const sb_model *model, const sb_request *r, const sb_sequence *prompt,
                      sb_generated *out, sb_error *err)
{
    size_t n = (size_t)r->generate, V = model->config.vocab_size;
    sb_session_options options = {.knobs = &r->knobs};
    sb_session *session = NULL;
    sb_npy *npy = NULL;
    float *logits = sb_alloc(V, sizeof *logits);
    *out = (sb_generated){.tokens = sb_alloc(n, sizeof *out->tokens),
                          .logits = sb_alloc(n, sizeof *out->logits)};
    sb_status status = logits && out->tokens && out->logits
                           ? SB_OK
                           : sb_fail(err, SB_ERR_MEMORY, "out of memory for logits");
    if (!status)
        status = sb_session_new(model, &options, &session, err);
    if (!status && r->logits_file)
        status = sb_npy_begin(r->logits_file, prompt->count + (n ? n - 1 : 0), V, &npy, err);
    if (!status)
        status = run(session, prompt, out, n, V, logits, npy, err);
    if (!status && npy)
        status = sb_npy_commit(npy, err);
    sb_npy_free(npy);
    sb_session_free(session);
    free(logits);
    if (status)
        sb_generated_free(out);
    return status;
}

void sb_generated_free(sb_generated *generated)
{
    free(generated->tokens);
    free(generated->logits);
    *generated = (sb_generated){0};
}

json_t *sb_generated_json(const sb_generated *g)
{
    json_t *tokens = json_array(), *digests = json_array();
    for (size_t i = 0; i < g->count; i++) {
        json_array_append_new(tokens, json_integer((json_int_t)g->tokens[i]));
        json_array_append_new(digests, json_string(g->logits[i].hex));
    }
    return json_pack("{s:o,s:o,s:{s:s,s:n}}", "tokens", tokens, "logits_digest", digests,
                     "state_digest", "target", g->target.hex, "mtp");
}

int sb_knobs_json(json_t *document, const sb_request *request)
{
    json_t *knobs = json_object();
    for (unsigned k = 0; k < SB_KNOB_COUNT; k++)
        json_object_set_new(knobs, sb_knob_name((sb_knob)k),
                            json_string(sb_knob_value_name(request->knobs.value[k])));
    return json_object_set_new(document, "profile", json_string(request->profile)) ||
           json_object_set_new(document, "knobs", knobs);
}
