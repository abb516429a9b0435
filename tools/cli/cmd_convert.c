#include <inttypes.h>
#include <stdio.h>

#include "ref/container/show.h"
#include "tools/cli/cli.h"
#include "tools/cli/opts.h"
#include "tools/check/convert/convert.h"
#include "tools/report/part/document.h"

static json_t *scalars_json(const sb_conversion *c)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < c->scalar_count; i++) {
        const sb_scalars *s = &c->scalars[i];
        json_t *row = json_object();
        SB_PUT(row, "layers", s->kind);
        SB_PUT(row, "of", s->of_inputs ? "inputs" : "weights");
        SB_PUT(row, "count", s->count);
        SB_PUT(row, "restored", s->restored);
        SB_PUT(row, "exact", s->exact);
        SB_PUT(row, "inexact", (s->count - s->exact));
        SB_PUT(row, "not_restored_by_again", s->lost);
        SB_PUT(row, "largest_change", s->largest);
        SB_ADD(rows, row);
    }
    return rows;
}

static json_t *folders_json(const sb_conversion *c)
{
    json_t *names = json_array();
    for (size_t i = 0; i < c->folder_count; i++)
        SB_ADD(names, c->folders[i]);
    return names;
}

static sb_status print_json(const sb_convert_options *o, const sb_conversion *c, sb_error *err)
{
    json_t *document = sb_document("convert");
    double largest = 0;
    for (size_t i = 0; i < c->scalar_count; i++)
        largest = c->scalars[i].largest > largest ? c->scalars[i].largest : largest;
    SB_PUT(document, "folder", o->target);
    SB_PUT(document, "to", o->to);
    SB_PUT(document, "layers", c->layers);
    SB_PUT(document, "fp8_layers", c->fp8_layers);
    SB_PUT(document, "copied_tensors", c->copied);
    SB_PUT(document, "copied_files", c->files);
    SB_PUT(document, "left_out_folders", folders_json(c));
    SB_PUT(document, "scalars", scalars_json(c));
    SB_PUT(document, "largest_change", largest);
    return sb_print_document(document, err);
}

static void print_text(const sb_convert_options *o, const sb_conversion *c)
{
    sb_scalars all = {.count = 0};
    printf("scalars x and their replacements y:\n");
    for (size_t i = 0; i < c->scalar_count; i++) {
        const sb_scalars *s = &c->scalars[i];
        printf("  %-32s %-7s %6" PRIu64 " scalars: %" PRIu64 " restored, %" PRIu64
               " exact, %" PRIu64 " inexact, |xy - 1| <= %.3g\n",
               s->kind, s->of_inputs ? "inputs" : "weights", s->count, s->restored, s->exact,
               s->count - s->exact, s->largest);
        all.count += s->count;
        all.restored += s->restored;
        all.exact += s->exact;
        all.lost += s->lost;
        all.largest = s->largest > all.largest ? s->largest : all.largest;
    }
    printf("in all: %" PRIu64 " scalars, %" PRIu64 " restored from their origins, %" PRIu64
           " exact reciprocals, %" PRIu64 " inexact, |xy - 1| at most %.3g\n",
           all.count, all.restored, all.exact, all.count - all.exact, all.largest);
    if (all.lost)
        printf("for %" PRIu64 " of them the reciprocal of the reciprocal differs from the "
               "original; the origins in the metadata restore the original\n",
               all.lost);
    printf("codes and block scales are unchanged; %" PRIu64 " tensors and %" PRIu64
           " other files copied\n",
           c->copied, c->files);
    for (size_t i = 0; i < c->folder_count; i++)
        printf("left out: %s/, a folder\n", SB_SHOW(c->folders[i]));
    printf("wrote %s: %" PRIu64 " layers as %s%s", o->target, c->layers, o->to,
           c->fp8_layers ? "" : "\n");
    if (c->fp8_layers)
        printf(", %" PRIu64 " stay FP8\n", c->fp8_layers);
}

sb_status sb_cmd_convert(int argc, char **argv, sb_error *err)
{
    sb_convert_options o = {.progress = sb_progress};
    sb_conversion result;
    int as_json = 0;
    const sb_opt opts[] = {
        {"to", 0, SB_OPT_STRING, &o.to, "D", "dialect to write: nvfp4-ct or nvfp4-modelopt"},
        {"replace", 0, SB_OPT_FLAG, &o.replace, NULL, "replace DST if it is a checkpoint"},
        SB_OPT_JSON(&as_json),
    };
    sb_command_line line = {
        .usage = "convert SRC DST --to nvfp4-ct|nvfp4-modelopt [--replace] [--json]",
        .about =
            "Converts an NVFP4 checkpoint to the dialect of compressed-tensors or of ModelOpt.\n"
            "Codes and block scales keep their bytes. One dialect divides by its scalars (global\n"
            "scales and input scales), the other multiplies by them: every scalar becomes its\n"
            "reciprocal, rounded once. The metadata of the file keep the original scalars, so that\n"
            "converting back restores every byte. FP8 layers with one scale, plain layers and the\n"
            "other files are copied; folders in SRC are left out.",
        .opts = opts,
        .opt_count = sizeof opts / sizeof *opts,
        .min_operands = 2,
        .max_operands = 2,
        .written = 1u << 1};
    sb_status status = sb_parse(&line, argc, argv, err);
    if (status || line.helped)
        return status;
    o.source = line.operand[0];
    o.target = line.operand[1];
    status = sb_convert(&o, &result, err);
    if (status)
        return status;
    if (as_json)
        status = print_json(&o, &result, err);
    else
        print_text(&o, &result);
    sb_conversion_free(&result);
    return status;
}
