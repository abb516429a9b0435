/* cmd_golden.c - a recorded run, and its verification: G-4. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "gpu/gpu.h"
#include "ref/base/spec.h"
#include "ref/container/file.h"
#include "ref/container/json.h"
#include "ref/container/json_out.h"
#include "tools/cli/cli.h"
#include "tools/cli/generated.h"
#include "tools/cli/golden_compare.h"
#include "tools/cli/runner.h"
#include "tools/report/part/document.h"

static sb_status take_generated(void *list, size_t sequence, const sb_generated *generated,
                                sb_error *err)
{
    (void)sequence;
    (void)err;
    SB_ADD(list, sb_generated_json(generated, NULL));
    return SB_OK;
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
    if (!status)
        status = sb_runner_load(request->engine, &request->knobs, model, sb_progress_bytes, err);
    if (!status)
        status = sb_generate(model, request, take_generated, sequences, err);
    sb_gpu_forget(request->engine);
    sb_model_close(model);
    if (status) {
        json_decref(sequences);
        return status;
    }
    *out = sb_document("golden");
    SB_PUT(*out, "checkpoint", digest.hex);
    SB_PUT(*out, "request", sb_request_json(request));
    SB_PUT(*out, "sequences", sequences);
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
        (void)mkdir(dir, 0777); /* after a failure, the write below names the folder */
        text = sb_json_dumps(golden, JSON_INDENT(1));
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

/* Refuses a meaningless comparison (exit 3) instead of reporting a difference (exit 1). */
static sb_status check_ground(const json_t *golden, const char *path, const char *folder,
                              sb_error *err)
{
    const json_t *spec = json_object_get(golden, "spec");
    const char *stored = json_string_value(json_object_get(golden, "checkpoint"));
    sb_checkpoint *checkpoint = NULL;
    sb_digest digest;
    if (!json_is_integer(spec) || json_integer_value(spec) != SB_SPEC_VERSION || !stored)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: written under specification %lld, but this program implements %d: the "
                       "definition changed, not the results",
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
    SB_PUT(document, "verdict", identical ? "IDENTICAL" : "FAIL");
    SB_PUT(document, "message", SB_KNOWN(!identical, err->text));
    sb_error why;
    sb_status printed = sb_print_document(document, &why);
    if (printed)
        *err = why; /* without the document there is no verdict */
    return printed ? printed : verdict;
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
        status = sb_request_from_json(json_object_get(golden, "request"), path, &request, err);
    if (!status)
        status = record(folder, &request, &now, err);
    if (!status)
        status = print_verdict(sb_golden_compare(golden, now, err), path, as_json, err);
    sb_request_free(&request);
    json_decref(golden);
    json_decref(now);
    free(path);
    return status;
}

/* verify repeats the recorded request: refuses options that would change it. */
static sb_status check_repeats(const sb_command_line *line, sb_error *err)
{
    for (size_t i = 0; i < line->opt_count; i++) {
        const char *name = line->opts[i].name;
        if ((line->given >> i & 1) && strcmp(name, "threads") != 0 && strcmp(name, "json") != 0)
            return sb_fail(err, SB_ERR_USAGE,
                           "verify repeats the recorded request; its only options are --threads "
                           "and --json, found --%s",
                           name);
    }
    return SB_OK;
}

sb_status sb_cmd_golden(int argc, char **argv, sb_error *err)
{
    sb_request request;
    sb_opt opts[SB_REQUEST_OPTS + 1];
    int as_json = 0;
    sb_request_opts(&request, opts);
    opts[SB_REQUEST_OPTS] = (sb_opt)SB_OPT_JSON(&as_json);
    sb_command_line line = {
        .usage = "golden (write DIR CKPT --tokens 1,2,3 [options of run] | verify DIR CKPT)",
        .about =
            "write runs the request and stores the results in DIR/golden.json: specification version,\n"
            "checkpoint digest, request, tokens and digests per position, and the rounds. verify\n"
            "repeats the request and compares: exit 1 names the first position or round that differs.\n"
            "Another checkpoint or another specification version is refused with exit 3.",
        .opts = opts,
        .opt_count = SB_REQUEST_OPTS + 1,
        .min_operands = 3,
        .max_operands = 3,
        .written = 1u << 1};
    sb_status status = sb_parse(&line, argc, argv, err);
    if (status || line.helped)
        return status;
    if (strcmp(line.operand[0], "verify") == 0) {
        status = check_repeats(&line, err);
        if (status)
            return status;
        sb_set_threads((unsigned)request.threads);
        return verify_golden(line.operand[1], line.operand[2], as_json, err);
    }
    if (strcmp(line.operand[0], "write") != 0)
        return sb_fail(err, SB_ERR_USAGE, "expected golden write or golden verify, found '%s'",
                       line.operand[0]);
    status = sb_request_check(&request, line.operand[2], err);
    if (!status && request.engine != sb_backend_ref())
        status = sb_fail(err, SB_ERR_USAGE, "golden files record the reference only, not %s",
                         request.engine->name);
    if (!status)
        status = write_golden(line.operand[1], line.operand[2], &request, as_json, err);
    sb_request_free(&request);
    return status;
}
