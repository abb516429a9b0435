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
        json_array_append_new(
            rows, json_pack("{s:s,s:s,s:I,s:I,s:I,s:I,s:I,s:f}", "layers", s->kind, "of",
                            s->of_inputs ? "inputs" : "weights", "count", (json_int_t)s->count,
                            "restored", (json_int_t)s->restored, "exact", (json_int_t)s->exact,
                            "inexact", (json_int_t)(s->count - s->exact), "not_restored_by_again",
                            (json_int_t)s->lost, "largest_change", s->largest));
    }
    return rows;
}

static json_t *folders_json(const sb_conversion *c)
{
    json_t *names = json_array();
    for (size_t i = 0; i < c->folder_count; i++)
        json_array_append_new(names, json_string(c->folders[i]));
    return names;
}

static sb_status print_json(const sb_convert_options *o, const sb_conversion *c, sb_error *err)
{
    json_t *document = sb_document("convert");
    double largest = 0;
    for (size_t i = 0; i < c->scalar_count; i++)
        largest = c->scalars[i].largest > largest ? c->scalars[i].largest : largest;
    json_object_set_new(document, "folder", json_string(o->target));
    json_object_set_new(document, "to", json_string(o->to));
    json_object_set_new(document, "layers", json_integer((json_int_t)c->layers));
    json_object_set_new(document, "fp8_layers", json_integer((json_int_t)c->fp8_layers));
    json_object_set_new(document, "copied_tensors", json_integer((json_int_t)c->copied));
    json_object_set_new(document, "copied_files", json_integer((json_int_t)c->files));
    json_object_set_new(document, "left_out_folders", folders_json(c));
    json_object_set_new(document, "scalars", scalars_json(c));
    json_object_set_new(document, "largest_change", json_real(largest));
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
