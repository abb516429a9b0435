#include "tools/cli/protocol.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "ref/base/text.h"
#include "ref/container/show.h"
#include "tools/cli/cli.h"
#include "tools/cli/opts.h"
#include "tools/judge/gate/protocol.h"
#include "tools/report/part/document.h"

static const sb_op_table reference = {
#define SB_OP(name, clause) .name = sb_##name##_ref,
#include "ref/ops/ops.def"
#undef SB_OP
};

typedef struct request {
    sb_protocol_request protocol;
    const char *arith, *output;
    int list;
} request;

static void print_layouts(void)
{
    for (size_t i = 0; sb_protocol_layout_at(i); i++)
        printf("%-10s %s\n", sb_protocol_layout_at(i)->name, sb_protocol_layout_at(i)->source);
}

/* The path: FILE, or DIR/protocol.OP.LAYOUT.safetensors. */
static void name_file(const request *r, const sb_protocol *p, char *path, size_t size)
{
    if (!sb_ends(r->output, "/"))
        snprintf(path, size, "%s", r->output);
    else
        snprintf(path, size, "%sprotocol.%s.%s%s.safetensors", r->output,
                 p->conv ? "conv" : "delta_rule", p->layout->name, p->chained ? ".chained" : "");
}

static sb_status write(const request *r, sb_error *err)
{
    sb_gate_arith ar;
    sb_protocol *p = NULL;
    char path[1200];
    if (!r->output)
        return sb_fail(err, SB_ERR_USAGE, "-o is missing: the file to write, or a folder, DIR/");
    if (strlen(r->output) > 1000)
        return sb_fail(err, SB_ERR_USAGE, "-o is too long");
    sb_status status = sb_gate_arith_of(r->arith, &ar, err);
    if (!status)
        status = sb_protocol_make(&r->protocol, &reference, &p, err);
    if (!status) {
        if (sb_ends(r->output, "/"))
            mkdir(r->output, 0777); /* if this fails, the writer reports the missing folder */
        name_file(r, p, path, sizeof path);
        status = sb_protocol_write(p, &ar, path, err);
    }
    if (!status)
        printf("%s: %s, layout %s, %zu rounds, %zu slots\n", SB_SHOW(path),
               p->conv ? "conv" : "delta_rule", p->layout->name, p->rounds, p->slots);
    sb_protocol_free(p);
    return status;
}

sb_status sb_protocol_vectors(int argc, char **argv, sb_error *err)
{
    request r = {.protocol = {.seed = 42}, .arith = "fp32"};
    const sb_opt opts[] = {
        {"layout", 0, SB_OPT_STRING, &r.protocol.layout, "L",
         "plain, vllm (default), fla, flashinfer, mlx, llamacpp"},
        {"op", 0, SB_OPT_STRING, &r.protocol.op, "OP", "delta_rule (default) or conv"},
        {"rounds", 0, SB_OPT_NUMBER, &r.protocol.rounds, "R",
         "number of rounds, 1 to 64 (8; 4 for flashinfer)"},
        {"regime", 0, SB_OPT_STRING, &r.protocol.regime, "R", "normal (default), tiny, huge"},
        {"chained", 0, SB_OPT_FLAG, &r.protocol.chained, NULL,
         "the kernel continues from its own states; for layouts with a pool"},
        {"arith", 0, SB_OPT_STRING, &r.arith, "A", "arithmetic whose bounds are written (fp32)"},
        {"seed", 0, SB_OPT_NUMBER, &r.protocol.seed, "N", "seed (42)"},
        {"output", 'o', SB_OPT_OUTPUT, &r.output, "FILE", "the file to write, or a folder, DIR/"},
        {"list", 0, SB_OPT_FLAG, &r.list, NULL, "list the layouts and their sources"},
    };
    sb_command_line line = {
        .usage = "vectors protocol [--layout L] [--op OP] [options] -o FILE.safetensors|DIR/",
        .about =
            "Writes several rounds over a pool of states, with prompts and verifications of drafts, in\n"
            "the tensor layout of an engine: the outputs that a kernel must give, and the slots that it\n"
            "must not change. 'samebit judge' compares its output with the file. docs/gates/protocol.md\n"
            "explains the format.",
        .opts = opts,
        .opt_count = sizeof opts / sizeof *opts,
        .max_operands = 0};
    sb_status status = sb_parse(&line, argc - 1, argv + 1, err);
    if (status || line.helped)
        return status;
    if (r.list) {
        print_layouts();
        return SB_OK;
    }
    return write(&r, err);
}

int sb_protocol_file(const char *path)
{
    sb_safetensors file;
    sb_error err;
    if (sb_safetensors_open(path, &file, &err))
        return 0;
    int is = sb_protocol_is(&file);
    sb_safetensors_close(&file);
    return is;
}

static sb_status print_json(const char *file, const sb_protocol_result *r, sb_error *err)
{
    sb_shown name = {{0}};
    sb_show(file, &name);
    sb_clean_text(name.text); /* the name may be no UTF-8 */
    json_t *d = sb_document("judge"),
           *result =
               json_pack("{s:s,s:s,s:I,s:I,s:I,s:I,s:f,s:s}", "name", name.text, "verdict",
                         r->fail ? "FAIL" : "WITHIN", "count", (json_int_t)r->count, "identical",
                         (json_int_t)r->identical, "outside", (json_int_t)r->outside, "changed",
                         (json_int_t)r->changed, "worst", r->worst, "words", r->words);
    if (!d || !result || json_object_set_new(d, "protocol", result)) {
        json_decref(d);
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a document");
    }
    return sb_print_document(d, err);
}

sb_status sb_protocol_verdict(const char *file, const char *got, const char *arith, int as_json,
                              sb_error *err)
{
    sb_protocol_result r;
    sb_status status = sb_protocol_judge(file, got, arith, &r, err);
    if (status)
        return status;
    if (as_json)
        status = print_json(file, &r, err);
    else if (r.fail)
        printf(
            "FAIL  %s\n"
            "      %zu of %zu elements outside their bounds, %zu changed that belong to no sequence\n",
            r.words, r.outside, r.count, r.changed);
    else
        printf("pass  %s\n", r.words);
    if (!status && r.fail)
        status = sb_fail(err, SB_ERR_DIFF, "FAIL: %s: %.700s", SB_SHOW(file), r.words);
    return status;
}
