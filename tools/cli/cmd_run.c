#include <stdio.h>
#include <stdlib.h>

#include "tools/cli/cli.h"
#include "tools/cli/generate.h"

static void print_text(const sb_generated *g, size_t sequence, size_t sequences)
{
    if (sequences > 1)
        printf("sequence %zu\n", sequence);
    printf("tokens");
    for (size_t i = 0; i < g->count; i++)
        printf("%s%u", i ? "," : " ", (unsigned)g->tokens[i]);
    printf("\n");
    for (size_t i = 0; i < g->count; i++)
        printf("logits %zu %s\n", i, g->logits[i].hex);
    printf("state target %s after %llu positions\n", g->target.hex, (unsigned long long)g->fed);
}

static sb_status run_all(const char *folder, const sb_repeated *overlays, const sb_request *request,
                         int as_json, sb_error *err)
{
    sb_model *model = NULL;
    json_t *document = sb_document("run"), *list = json_array();
    sb_status status = sb_model_open_overlaid(folder, overlays->item, overlays->count, &model, err);
    for (size_t i = 0; i < request->sequence_count && !status; i++) {
        sb_generated generated;
        status = sb_generate(model, request, &request->sequences[i], &generated, err);
        if (status)
            break;
        if (as_json)
            json_array_append_new(list, sb_generated_json(&generated));
        else
            print_text(&generated, i, request->sequence_count);
        sb_generated_free(&generated);
    }
    sb_model_close(model);
    if (!status && as_json) {
        sb_knobs_json(document, request);
        if (request->sequence_count == 1)
            json_object_update(document, json_array_get(list, 0));
        else
            json_object_set(document, "sequences", list);
        status = sb_print_document(json_incref(document), err);
    }
    json_decref(list);
    json_decref(document);
    return status;
}

sb_status sb_cmd_run(int argc, char **argv, sb_error *err)
{
    sb_request request;
    sb_opt opts[SB_REQUEST_OPTS + 2];
    sb_repeated overlays = {.count = 0};
    int as_json = 0;
    sb_request_opts(&request, opts);
    opts[SB_REQUEST_OPTS] =
        (sb_opt){"json", 0, SB_OPT_FLAG, &as_json, NULL, "one JSON document on stdout"};
    opts[SB_REQUEST_OPTS + 1] = (sb_opt){"overlay", 0,       SB_OPT_REPEATED,
                                         &overlays, "P=DIR", "as if P were grafted from DIR"};
    sb_command_line line = {
        .usage = "run CKPT (--tokens 1,2,3 | --tokens-file F) [options]",
        .about =
            "Feeds a prompt to the reference and generates greedily (ties go to the lowest id).\n"
            "For every generated position it prints the digest of its logits, and at the end the\n"
            "digest of the state in which all tokens but the last have been fed.\n"
            "CKPT is a checkpoint folder. End-of-sequence ids do not stop the run.",
        .opts = opts,
        .opt_count = SB_REQUEST_OPTS + 2,
        .more = "example:\n  samebit run CKPT --tokens 1,2,3 -n 8 --json\n",
        .min_operands = 1,
        .max_operands = 1};
    sb_status status = sb_parse(&line, argc, argv, err);
    if (status || line.helped)
        return status;
    status = sb_request_check(&request, err);
    if (!status)
        status = run_all(line.operand[0], &overlays, &request, as_json, err);
    sb_request_free(&request);
    return status;
}
