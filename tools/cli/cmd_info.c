/* cmd_info.c - the content of a folder, and the formats and profiles of this program. */
#include <stdlib.h>

#include "ref/container/file.h"
#include "ref/container/stub.h"
#include "ref/model/eagle3.h"
#include "tools/cli/cli.h"
#include "tools/cli/info_laws.h"
#include "tools/cli/opts.h"
#include "tools/cli/remote.h"
#include "tools/report/part/document.h"
#include "tools/report/result/info.h"
#include "tools/report/result/info_drafter.h"

static sb_status show_drafter(const char *folder, int as_json, sb_error *err)
{
    sb_eagle3_config config;
    sb_checkpoint *checkpoint = NULL;
    char *path = sb_path_join(folder, "config.json");
    sb_status status = path ? sb_eagle3_config_load(path, &config, err)
                            : sb_fail(err, SB_ERR_MEMORY, "out of memory for a path");
    if (!status)
        status = sb_checkpoint_open(folder, &checkpoint, err);
    if (!status && as_json)
        status = sb_print_document(sb_info_drafter_json(&config, checkpoint), err);
    else if (!status)
        sb_info_drafter_print(&config, checkpoint);
    sb_checkpoint_close(checkpoint);
    free(path);
    return status;
}

static sb_status show(const char *folder, int as_json, sb_error *err)
{
    if (sb_eagle3_in(folder))
        return show_drafter(folder, as_json, err);
    sb_model *model = NULL;
    json_t *containers = NULL;
    sb_status status = sb_model_open(folder, &model, err);
    if (!status)
        status = sb_containers_json(model->checkpoint, &containers, err);
    if (!status && as_json)
        status = sb_print_document(sb_info_json(model, containers), err);
    else if (!status)
        sb_info_print(model, containers);
    sb_model_close(model);
    json_decref(containers);
    return status;
}

static sb_status show_lists(const sb_info_lists *l, int as_json, sb_error *err)
{
    if (as_json)
        return sb_print_document(sb_info_lists_json(l), err);
    sb_info_lists_print(l);
    return SB_OK;
}

static sb_status show_checkpoint(const char *text, const sb_remote_wish *wish, int laws,
                                 int as_json, sb_error *err)
{
    char *folder = NULL;
    if (laws && wish->remote)
        return sb_fail(err, SB_ERR_USAGE, "--laws reads values, and --remote only headers");
    if (!laws)
        sb_stubs_allow();
    sb_status status = sb_place_of(text, wish, &folder, err);
    if (!status)
        status = laws ? sb_info_laws(folder, as_json, err) : show(folder, as_json, err);
    free(folder);
    return status;
}

sb_status sb_cmd_info(int argc, char **argv, sb_error *err)
{
    int as_json = 0, laws = 0;
    sb_remote_wish wish = {0};
    sb_info_lists l = {.ops = 0};
    const sb_opt opts[] = {
        SB_OPT_JSON(&as_json),
        SB_OPT_REMOTE(&wish),
        {"laws", 0, SB_OPT_FLAG, &laws, NULL,
         "print where laws of dequantization differ; with --json also per matrix"},
        {"ops", 0, SB_OPT_FLAG, &l.ops, NULL, "list the operations and their clauses; no CKPT"},
        {"knobs", 0, SB_OPT_FLAG, &l.knobs, NULL, "list the knobs and their values; no CKPT"},
        {"profiles", 0, SB_OPT_FLAG, &l.profiles, NULL, "list the profiles; no CKPT"},
        {"machine", 0, SB_OPT_FLAG, &l.machine, NULL,
         "print the dot product kernels in use; no CKPT"},
    };
    sb_command_line line = {
        .usage =
            "info (CKPT [--laws | --remote] | --ops | --knobs | --profiles | --machine) [--json]",
        .about =
            "Shows configuration, layers, formats and bytes of a checkpoint, and compares the declared\n"
            "quantization with the stored one. A folder with a tensor of unknown use is refused. CKPT\n"
            "is a folder or a hub id in the local cache; with --remote also a hub id or an address that\n"
            "is not here. CKPT may also be the folder of an EAGLE-3 drafter.",
        .opts = opts,
        .opt_count = sizeof opts / sizeof *opts,
        .max_operands = 1};
    sb_status status = sb_parse(&line, argc, argv, err);
    if (status || line.helped)
        return status;
    if (line.operands == (unsigned)(l.ops | l.knobs | l.profiles | l.machine))
        return sb_fail(err, SB_ERR_USAGE,
                       "expected a checkpoint folder or one of the lists; usage: "
                       "samebit %s",
                       line.usage);
    if (!line.operands)
        return show_lists(&l, as_json, err);
    return show_checkpoint(line.operand[0], &wish, laws, as_json, err);
}
