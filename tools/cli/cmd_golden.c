/* cmd_golden.c - a recorded run, and its verification: G-4. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ref/container/file.h"
#include "ref/container/json.h"
#include "tools/cli/cli.h"
#include "tools/cli/generate.h"
#include "tools/cli/tokens.h"

/* The command as golden files keep it: what changes the result, in a fixed order. */
static json_t *request_json(const sb_request *r)
{
    json_t *settings = json_array(), *prompts = json_array();
    for (size_t i = 0; i < r->settings.count; i++)
        json_array_append_new(settings, json_string(r->settings.item[i]));
    for (size_t s = 0; s < r->sequence_count; s++) {
        json_t *ids = json_array();
        for (size_t i = 0; i < r->sequences[s].count; i++)
            json_array_append_new(ids, json_integer((json_int_t)r->sequences[s].ids[i]));
        json_array_append_new(prompts, ids);
    }
    return json_pack("{s:s,s:I,s:s,s:o,s:o}", "name", "run", "generate", (json_int_t)r->generate,
                     "profile", r->profile, "set", settings, "prompts", prompts);
}

/* Runs the request: {spec, command, checkpoint, request, sequences}. */
static sb_status record(const char *folder, const sb_request *request, json_t **out, sb_error *err)
{
    sb_model *model = NULL;
    sb_digest digest;
    json_t *sequences = json_array();
    sb_status status = sb_model_open(folder, &model, err);
    if (!status)
        status = sb_checkpoint_digest(model->checkpoint, &digest, err);
    for (size_t i = 0; i < request->sequence_count && !status; i++) {
        sb_generated generated;
        status = sb_generate(model, request, &request->sequences[i], &generated, err);
        if (status)
            break;
        json_array_append_new(sequences, sb_generated_json(&generated));
        sb_generated_free(&generated);
    }
    sb_model_close(model);
    if (status) {
        json_decref(sequences);
        return status;
    }
    *out = sb_document("golden");
    json_object_set_new(*out, "checkpoint", json_string(digest.hex));
    json_object_set_new(*out, "request", request_json(request));
    json_object_set_new(*out, "sequences", sequences);
    return SB_OK;
}

static sb_status write_golden(const char *dir, const char *folder, const sb_request *request,
                              int as_json, sb_error *err)
{
    json_t *golden = NULL;
    char *path = sb_path_join(dir, "golden.json"), *text = NULL;
    sb_status status =
        path ? record(folder, request, &golden, err) : sb_fail(err, SB_ERR_MEMORY, "out of memory");
    if (!status) {
        (void)mkdir(dir, 0777); /* if it cannot be made, the write below names it */
        text = json_dumps(golden, JSON_INDENT(1));
        status = text ? sb_write_file(path, text, strlen(text), err)
                      : sb_fail(err, SB_ERR_MEMORY, "out of memory");
    }
    if (!status && as_json)
        status = sb_print_document(json_incref(golden), err);
    else if (!status)
        printf("wrote %s\n", path);
    json_decref(golden);
    free(text);
    free(path);
    return status;
}

/* Fills a request from a golden file, so that the very same run can be repeated. */
static sb_status read_request(const json_t *golden, const char *path, sb_request *r, sb_error *err)
{
    const json_t *stored = json_object_get(golden, "request");
    const json_t *prompts = json_object_get(stored, "prompts"),
                 *set = json_object_get(stored, "set");
    const json_t *generate = json_object_get(stored, "generate");
    r->profile = json_string_value(json_object_get(stored, "profile"));
    r->backend = "ref";
    int sound = r->profile && json_is_array(prompts) && json_array_size(prompts) > 0 &&
                json_is_array(set) && json_array_size(set) <= SB_MAX_REPEATS &&
                json_is_integer(generate) && json_integer_value(generate) >= 0;
    for (size_t i = 0; sound && i < json_array_size(set); i++) {
        r->settings.item[i] = json_string_value(json_array_get(set, i));
        sound = r->settings.item[i] != NULL;
        r->settings.count = i + 1;
    }
    if (!sound)
        return sb_fail(err, SB_ERR_INPUT, "%s: 'request' lacks profile, set, generate or prompts",
                       path);
    r->generate = (uint64_t)json_integer_value(generate);
    r->sequences = sb_sequences_from_json(prompts, &r->sequence_count);
    if (!r->sequences)
        return sb_fail(err, SB_ERR_INPUT, "%s: 'request.prompts' must be lists of token ids", path);
    sb_status status = sb_knobs_profile(&r->knobs, r->profile, err);
    for (size_t i = 0; i < r->settings.count && !status; i++)
        status = sb_knobs_set(&r->knobs, r->settings.item[i], err);
    return status ? sb_fail_in(err, SB_ERR_INPUT, path) : SB_OK;
}

/* Compares one list of a sequence, position by position. */
static sb_status compare_list(const json_t *was, const json_t *is, const char *key, size_t sequence,
                              sb_error *err)
{
    const json_t *a = json_object_get(was, key), *b = json_object_get(is, key);
    size_t n = json_array_size(a) > json_array_size(b) ? json_array_size(a) : json_array_size(b);
    for (size_t i = 0; i < n; i++)
        if (!json_equal(json_array_get(a, i), json_array_get(b, i))) {
            char *old = json_dumps(json_array_get(a, i), JSON_ENCODE_ANY);
            char *new = json_dumps(json_array_get(b, i), JSON_ENCODE_ANY);
            sb_status status =
                sb_fail(err, SB_ERR_DIFF,
                        "sequence %zu, generated position %zu: %s is %s, the golden "
                        "file has %s",
                        sequence, i, key, new ? new : "absent", old ? old : "absent");
            free(old);
            free(new);
            return status;
        }
    return SB_OK;
}

/* G-4: "verification repeats the command and names the first position that differs" */
static sb_status compare(const json_t *was, const json_t *is, sb_error *err)
{
    const json_t *a = json_object_get(was, "sequences"), *b = json_object_get(is, "sequences");
    if (json_array_size(a) != json_array_size(b))
        return sb_fail(err, SB_ERR_INPUT, "the golden file has %zu sequences for %zu prompts",
                       json_array_size(a), json_array_size(b));
    sb_status status = SB_OK;
    for (size_t s = 0; s < json_array_size(a) && !status; s++) {
        const json_t *old = json_array_get(a, s), *new = json_array_get(b, s);
        /* Logits first: a token follows from them. */
        status = compare_list(old, new, "logits_digest", s, err);
        if (!status)
            status = compare_list(old, new, "tokens", s, err);
        if (!status &&
            !json_equal(json_object_get(old, "state_digest"), json_object_get(new, "state_digest")))
            status = sb_fail(err, SB_ERR_DIFF,
                             "sequence %zu: all positions agree, but the state digest differs", s);
    }
    return status;
}

/* What makes a comparison meaningless is refused (exit 3), not reported as a difference (exit 1).
 */
static sb_status check_ground(const json_t *golden, const char *path, const char *folder,
                              sb_error *err)
{
    const json_t *spec = json_object_get(golden, "spec");
    const char *stored = json_string_value(json_object_get(golden, "checkpoint"));
    sb_checkpoint *checkpoint = NULL;
    sb_digest digest;
    if (!json_is_integer(spec) || json_integer_value(spec) != SB_SPEC_VERSION || !stored)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: written under specification %lld, this program realises %d: the "
                       "definition changed, which is no difference in results",
                       path, (long long)json_integer_value(spec), SB_SPEC_VERSION);
    sb_status status = sb_checkpoint_open(folder, &checkpoint, err);
    if (!status)
        status = sb_checkpoint_digest(checkpoint, &digest, err);
    if (!status && strcmp(stored, digest.hex) != 0)
        status = sb_fail(err, SB_ERR_INPUT, "%s: recorded with checkpoint %s, but %s is %s", path,
                         stored, folder, digest.hex);
    if (checkpoint)
        sb_checkpoint_close(checkpoint);
    return status;
}

/* {"verdict": "IDENTICAL"}, or "FAIL" with the message that also goes to stderr. */
static sb_status print_verdict(sb_status verdict, const char *path, int as_json, sb_error *err)
{
    json_t *document = sb_document("golden");
    int identical = verdict == SB_OK;
    if (!as_json) {
        json_decref(document);
        if (identical)
            printf("IDENTICAL %s\n", path);
        return verdict;
    }
    json_object_set_new(document, "verdict", json_string(identical ? "IDENTICAL" : "FAIL"));
    json_object_set_new(document, "message", identical ? json_null() : json_string(err->text));
    sb_status printed = sb_print_document(document, NULL);
    return verdict ? verdict : printed;
}

static sb_status verify_golden(const char *dir, const char *folder, int as_json, sb_error *err)
{
    json_t *golden = NULL, *now = NULL;
    sb_request request = {0};
    char *path = sb_path_join(dir, "golden.json");
    sb_status status =
        path ? sb_json_load(path, &golden, err) : sb_fail(err, SB_ERR_MEMORY, "out of memory");
    if (!status)
        status = check_ground(golden, path, folder, err);
    if (!status)
        status = read_request(golden, path, &request, err);
    if (!status)
        status = record(folder, &request, &now, err);
    if (!status)
        status = print_verdict(compare(golden, now, err), path, as_json, err);
    sb_request_free(&request);
    json_decref(golden);
    json_decref(now);
    free(path);
    return status;
}

sb_status sb_cmd_golden(int argc, char **argv, sb_error *err)
{
    sb_request request;
    sb_opt opts[SB_REQUEST_OPTS + 1];
    int as_json = 0;
    sb_request_opts(&request, opts);
    opts[SB_REQUEST_OPTS] =
        (sb_opt){"json", 0, SB_OPT_FLAG, &as_json, NULL, "one JSON document on stdout"};
    sb_command_line line = {
        .usage = "golden (write DIR CKPT --tokens 1,2,3 [options of run] | verify DIR CKPT)",
        .about =
            "write runs the request and keeps specification version, checkpoint digest, request,\n"
            "tokens and digests per position in DIR/golden.json. verify repeats the request and\n"
            "compares: exit 1 names the first position that differs; another checkpoint or\n"
            "another specification version is refused with exit 3.",
        .opts = opts,
        .opt_count = SB_REQUEST_OPTS + 1,
        .min_operands = 3,
        .max_operands = 3};
    sb_status status = sb_parse(&line, argc, argv, err);
    if (status || line.helped)
        return status;
    if (strcmp(line.operand[0], "verify") == 0) {
        if (request.tokens || request.tokens_file || request.settings.count ||
            request.logits_file || request.generate != 16 || strcmp(request.profile, "exact") != 0)
            return sb_fail(err, SB_ERR_USAGE,
                           "verify repeats the recorded request; the only options it takes are "
                           "--threads and --json");
        sb_set_threads((unsigned)request.threads);
        return verify_golden(line.operand[1], line.operand[2], as_json, err);
    }
    if (strcmp(line.operand[0], "write") != 0)
        return sb_fail(err, SB_ERR_USAGE, "golden knows write and verify, found '%s'",
                       line.operand[0]);
    status = sb_request_check(&request, err);
    if (!status)
        status = write_golden(line.operand[1], line.operand[2], &request, as_json, err);
    sb_request_free(&request);
    return status;
}
