#include <stdio.h>

#include "tools/cli/cli.h"
#include "tools/cli/opts.h"
#include "tools/make/make.h"

/* The names in the order of the list, with what they are. */
static const char formats[] = "formats:\n"
#define SB_MAKE_FORMAT(id, name, dtype, dialect, rules, first, modules, second, others, mtp,       \
                       experts, help)                                                              \
    "  " name ": " help "\n"
#include "tools/make/formats.def"
#undef SB_MAKE_FORMAT
                              "\nexample:\n"
                              "  samebit make /tmp/t1 --preset T1 --format nvfp4-ct --seed 42\n";

sb_status sb_cmd_make(int argc, char **argv, sb_error *err)
{
    sb_make_options o = {
        .recipe = "mistakes", .format = "bf16", .layout = "text", .storage = "qwen3.6", .seed = 42};
    uint64_t layers = 0, group_size = 0;
    int list = 0, as_json = 0;
    const sb_opt opts[] = {
        {"preset", 0, SB_OPT_STRING, &o.preset, "P", "T1..T6 or a published shape; see --list"},
        {"format", 0, SB_OPT_STRING, &o.format, "F", "bf16 (default) or one of the formats below"},
        {"recipe", 0, SB_OPT_STRING, &o.recipe, "R", "mistakes (default), predictable or plain"},
        {"layers", 0, SB_OPT_NUMBER, &layers, "N", "number of layers, instead of the preset's"},
        {"layout", 0, SB_OPT_STRING, &o.layout, "L", "text (default), or vl with a vision tower"},
        {"storage", 0, SB_OPT_STRING, &o.storage, "S", "qwen3.6 (default) or qwen3.5"},
        {"experts", 0, SB_OPT_STRING, &o.experts, "E",
         "fused or split, instead of the family's way"},
        {"scale-rule", 0, SB_OPT_STRING, &o.scale_rule, "R",
         "how scales are chosen, where a format has a choice; see --list"},
        {"group-size", 0, SB_OPT_NUMBER, &group_size, "G",
         "columns that share a scale of INT4 (128 by default) and INT8 (32)"},
        {"kv-scales", 0, SB_OPT_FLAG, &o.kv_scales, NULL,
         "scales of FP8 keys and values in a quantized format"},
        {"seed", 0, SB_OPT_NUMBER, &o.seed, "S", "42 by default; same seed, same bytes"},
        {"shard-bytes", 0, SB_OPT_NUMBER, &o.shard_bytes, "B",
         "largest shard, instead of the default"},
        {"tokenizer", 0, SB_OPT_FLAG, &o.tokenizer, NULL,
         "a tokenizer.json, too: every byte, some merges, <|im_end|> and the like"},
        {"no-mtp", 0, SB_OPT_FLAG, &o.no_mtp, NULL, "leave the MTP head out"},
        {"replace", 0, SB_OPT_FLAG, &o.replace, NULL, "write over a folder that is not empty"},
        SB_OPT_JSON(&as_json),
        {"list", 0, SB_OPT_FLAG, &list, NULL, "list presets, formats and recipes; no DIR"},
    };
    sb_command_line line = {
        .usage = "make DIR --preset P [options]",
        .about = "Writes a synthetic checkpoint in the published layout (config.json,\n"
                 "index, shards). Every byte is a function of the options and the\n"
                 "seed, on every machine.",
        .opts = opts,
        .opt_count = sizeof opts / sizeof *opts,
        .more = formats,
        .max_operands = 1};
    sb_status status = sb_parse(&line, argc, argv, err);
    if (status || line.helped)
        return status;
    if (list && line.operands == 0) {
        sb_make_list(stdout);
        return SB_OK;
    }
    if (line.operands != 1 || !o.preset)
        return sb_fail(err, SB_ERR_USAGE, "expected a folder and --preset; usage: samebit %s",
                       line.usage);
    if (layers > 1024)
        return sb_fail(err, SB_ERR_USAGE, "--layers is %llu; at most 1024",
                       (unsigned long long)layers);
    if (group_size > 4096)
        return sb_fail(err, SB_ERR_USAGE, "--group-size is %llu; at most 4096",
                       (unsigned long long)group_size);
    o.dir = line.operand[0];
    o.group_size = (unsigned)group_size;
    o.layers = (unsigned)layers;
    o.progress = sb_progress;
    status = sb_make(&o, err);
    if (!status && as_json)
        status = sb_print_document(json_pack("{s:i,s:s,s:s,s:s,s:s,s:s,s:I}", "spec",
                                             SB_SPEC_VERSION, "command", "make", "folder", o.dir,
                                             "preset", o.preset, "format", o.format, "recipe",
                                             o.recipe, "seed", (json_int_t)o.seed),
                                   err);
    else if (!status)
        printf("wrote %s\n", o.dir);
    return status;
}
