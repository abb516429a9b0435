#include <stdio.h>

#include "ref/base/spec.h"
#include "tools/cli/cli.h"
#include "tools/cli/opts.h"
#include "tools/make/make.h"
#include "tools/report/part/document.h"

/* The names in the order of the list, with descriptions. */
static const char formats[] = "formats:\n"
#define SB_MAKE_FORMAT(id, name, dtype, dialect, rules, first, modules, second, others, mtp,       \
                       experts, help)                                                              \
    "  " name ": " help "\n"
#include "tools/make/formats.def"
#undef SB_MAKE_FORMAT
                              "\nexample:\n"
                              "  samebit make /tmp/t1 --preset T1 --format nvfp4-ct --seed 42\n";

static const char about[] = "Writes a synthetic checkpoint in the published layout (config.json,\n"
                            "index, shards). The bytes depend on the options and the seed only:\n"
                            "they are the same on every machine.";

typedef struct wishes {
    sb_make_options o;
    uint64_t layers, group_size, draft_vocab;
    int list, as_json;
} wishes;

static sb_status parse(wishes *w, sb_command_line *line, int argc, char **argv, sb_error *err)
{
    const sb_opt opts[] = {
        {"preset", 0, SB_OPT_STRING, &w->o.preset, "P", "T1..T6 or a published shape; see --list"},
        {"format", 0, SB_OPT_STRING, &w->o.format, "F",
         "bf16 (default) or one of the formats below"},
        {"recipe", 0, SB_OPT_STRING, &w->o.recipe, "R",
         "mistakes (default), predictable, plain or predictable-1"},
        {"layers", 0, SB_OPT_NUMBER, &w->layers, "N", "number of layers, instead of the preset's"},
        {"layout", 0, SB_OPT_STRING, &w->o.layout, "L",
         "text (default), or vl with a vision tower"},
        {"storage", 0, SB_OPT_STRING, &w->o.storage, "S", "qwen3.6 (default) or qwen3.5"},
        {"experts", 0, SB_OPT_STRING, &w->o.experts, "E",
         "fused or split; default: as the model family stores them"},
        {"scale-rule", 0, SB_OPT_STRING, &w->o.scale_rule, "R",
         "how scales are chosen, if the format has a choice; see --list"},
        {"group-size", 0, SB_OPT_NUMBER, &w->group_size, "G",
         "columns that share a scale of INT4 (128 by default) and INT8 (32)"},
        {"kv-scales", 0, SB_OPT_FLAG, &w->o.kv_scales, NULL,
         "add scales of FP8 keys and values to a quantized format"},
        {"weights", 0, SB_OPT_STRING, &w->o.weights, "CKPT",
         "quantize this checkpoint of floats: its shape and values instead of a preset and drawn "
         "values"},
        {"seed", 0, SB_OPT_NUMBER, &w->o.seed, "S", "42 by default; same seed, same bytes"},
        {"shard-bytes", 0, SB_OPT_NUMBER, &w->o.shard_bytes, "B", "largest size of a shard"},
        {"tokenizer", 0, SB_OPT_FLAG, &w->o.tokenizer, NULL,
         "also write a tokenizer.json: every byte, some merges, <|im_end|> and the like"},
        {"no-mtp", 0, SB_OPT_FLAG, &w->o.no_mtp, NULL, "leave the MTP head out"},
        {"drafter", 0, SB_OPT_STRING, &w->o.drafter, "D",
         "write a drafter for this target instead of the target: eagle3"},
        {"dialect", 0, SB_OPT_STRING, &w->o.dialect, "D",
         "of the drafter: speculators (default) or specforge"},
        {"flags", 0, SB_OPT_STRING, &w->o.flags, "LIST",
         "of the drafter: norm_before_residual,fc_norm and the like; see --list"},
        {"draft-vocab", 0, SB_OPT_NUMBER, &w->draft_vocab, "N",
         "tokens that the drafter can draft: 32000 by default, or 7/8 of a small vocabulary"},
        {"replace", 0, SB_OPT_FLAG, &w->o.replace, NULL,
         "replace a folder that is not empty: write beside it, then exchange the two"},
        SB_OPT_JSON(&w->as_json),
        {"list", 0, SB_OPT_FLAG, &w->list, NULL, "list presets, formats and recipes; no DIR"},
    };
    *line = (sb_command_line){.usage = "make DIR --preset P [options]",
                              .about = about,
                              .opts = opts,
                              .opt_count = sizeof opts / sizeof *opts,
                              .more = formats,
                              .max_operands = 1,
                              .written = 1u << 0};
    return sb_parse(line, argc, argv, err);
}

static sb_status check(wishes *w, const sb_command_line *line, sb_error *err)
{
    if (line->operands != 1 || (!w->o.preset && !w->o.weights))
        return sb_fail(err, SB_ERR_USAGE, "expected a folder and --preset; usage: samebit %s",
                       line->usage);
    if (w->o.weights && (w->o.preset || w->layers))
        return sb_fail(err, SB_ERR_USAGE,
                       "--weights has its own shape; expected neither --preset nor --layers");
    if (w->layers > 1024)
        return sb_fail(err, SB_ERR_USAGE, "--layers is %llu; at most 1024",
                       (unsigned long long)w->layers);
    if (w->group_size > 4096)
        return sb_fail(err, SB_ERR_USAGE, "--group-size is %llu; at most 4096",
                       (unsigned long long)w->group_size);
    if (!w->o.drafter && (w->o.dialect || w->o.flags || w->draft_vocab))
        return sb_fail(err, SB_ERR_USAGE,
                       "--dialect, --flags and --draft-vocab are for a drafter; expected --drafter "
                       "eagle3");
    if (w->draft_vocab > UINT32_MAX)
        return sb_fail(err, SB_ERR_USAGE, "--draft-vocab is %llu; expected at most the vocabulary",
                       (unsigned long long)w->draft_vocab);
    w->o.dir = line->operand[0];
    w->o.draft_vocab = (unsigned)w->draft_vocab;
    w->o.group_size = (unsigned)w->group_size;
    w->o.layers = (unsigned)w->layers;
    w->o.progress = sb_progress_bytes;
    return SB_OK;
}

static sb_status print_made(const wishes *w, sb_error *err)
{
    const sb_make_options *o = &w->o;
    if (w->as_json)
        return sb_print_document(json_pack("{s:i,s:s,s:s,s:s,s:s,s:s,s:I}", "spec", SB_SPEC_VERSION,
                                           "command", "make", "folder", o->dir, "preset",
                                           o->weights ? o->weights : o->preset, "format", o->format,
                                           "recipe", o->recipe, "seed", (json_int_t)o->seed),
                                 err);
    printf("wrote %s\n", o->dir);
    return SB_OK;
}

static sb_status print_lists(int as_json, sb_error *err)
{
    if (!as_json) {
        sb_make_list(stdout);
        return SB_OK;
    }
    json_t *document = sb_document("make");
    for (unsigned list = 0; list < SB_MAKE_LISTS; list++) {
        size_t count;
        const sb_make_choice *choices = sb_make_choices((sb_make_list_id)list, &count);
        json_t *rows = json_array();
        for (size_t i = 0; i < count; i++) {
            json_t *row = json_object();
            SB_PUT(row, "name", choices[i].name);
            SB_PUT(row, "help", choices[i].help);
            SB_ADD(rows, row);
        }
        SB_PUT(document, sb_make_list_name((sb_make_list_id)list), rows);
    }
    return sb_print_document(document, err);
}

sb_status sb_cmd_make(int argc, char **argv, sb_error *err)
{
    wishes w = {.o = {.recipe = "mistakes",
                      .format = "bf16",
                      .layout = "text",
                      .storage = "qwen3.6",
                      .seed = 42}};
    sb_command_line line;
    sb_status status = parse(&w, &line, argc, argv, err);
    if (status || line.helped)
        return status;
    if (w.list && line.operands == 0)
        return print_lists(w.as_json, err);
    status = check(&w, &line, err);
    if (!status)
        status = sb_make(&w.o, err);
    return status ? status : print_made(&w, err);
}
