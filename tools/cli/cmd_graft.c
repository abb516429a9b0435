#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/container/show.h"
#include "ref/container/stub.h"
#include "tools/check/read/check.h"
#include "tools/cli/cli.h"
#include "tools/cli/opts.h"
#include "tools/cli/remote.h"
#include "tools/report/part/document.h"
#include "tools/report/result/graft.h"

/* --- the header pass of the check ------------------------------------------------------------- */

static sb_status check_headers(const char *path, sb_check_options *options, sb_check *out,
                               sb_error *err)
{
    *options = (sb_check_options){.path = path, .headers_only = 1};
    return sb_check_run(options, out, err);
}

static int was_there(const sb_findings *before, const sb_finding *f)
{
    for (size_t i = 0; i < before->count; i++)
        if (before->rows[i].check == f->check && before->rows[i].level >= f->level &&
            strcmp(before->rows[i].tensor, f->tensor) == 0)
            return 1;
    return 0;
}

/* W-10: "If a finding refuses the result and neither of the two folders" */
static sb_status verify(void *ctx, const char *source, const char *result, sb_error *err)
{
    const sb_grafted *g = ctx;
    sb_check_options options[3];
    sb_check before = {0}, after = {0}, theirs = {0};
    sb_status status = check_headers(source, &options[0], &before, err);
    if (!status)
        status = check_headers(result, &options[1], &after, err);
    if (!status && g->other)
        status = check_headers(sb_checkpoint_folder(g->other), &options[2], &theirs, err);
    for (size_t i = 0; i < after.findings.count && !status; i++) {
        const sb_finding *f = &after.findings.rows[i];
        if (f->level >= SB_LEVEL_error && !was_there(&before.findings, f) &&
            !was_there(&theirs.findings, f))
            status = sb_fail(err, SB_ERR_INPUT, "the result was removed, because of %s %u: %s%s%s",
                             sb_level_name(f->level), f->check, SB_SHOW(f->tensor),
                             f->tensor[0] ? ": " : "", f->message);
    }
    sb_check_free(&before);
    sb_check_free(&after);
    sb_check_free(&theirs);
    return status;
}

static sb_status report(const sb_graft_options *o, const sb_grafted *g, int as_json, sb_error *err)
{
    sb_graft_document d;
    sb_status status = sb_graft_document_make(o, g, &d, err);
    if (!status && as_json)
        status = sb_print_document(sb_graft_json(&d), err);
    else if (!status)
        sb_graft_print(&d);
    sb_graft_document_free(&d);
    return status;
}

static sb_status graft(const sb_command_line *line, sb_graft_options *o, const sb_repeated *take,
                       const char *as, const sb_remote_wish *wish, int as_json, sb_error *err)
{
    sb_grafted result = {0};
    char *source = NULL, *other = NULL; /* after a lookup in the hub's cache, or on a server */
    o->take = take->item;
    o->take_count = take->count;
    o->verify_ctx = &result;
    if (as && strcmp(as, "bf16") != 0)
        return sb_fail(err, SB_ERR_USAGE, "--as is \"%s\"; expected bf16", SB_SHOW(as));
    o->as_bf16 = as != NULL;
    if (o->round && !as)
        return sb_fail(err, SB_ERR_USAGE, "--round needs --as bf16");
    if (o->reindex && as)
        return sb_fail(err, SB_ERR_USAGE, "--reindex writes no tensors: it excludes --as");
    if (o->reindex && (o->take_count || o->other))
        return sb_fail(err, SB_ERR_USAGE,
                       "--reindex takes nothing from elsewhere: it excludes --take and --from");
    if (!o->reindex && (!o->take_count || !o->other))
        return sb_fail(err, SB_ERR_USAGE, "--%s is missing; see 'samebit graft --help'",
                       o->take_count ? "from" : "take");
    if (!o->target && !o->dry_run)
        return sb_fail(err, SB_ERR_USAGE, "-o is missing, the folder to be written");
    if (wish->remote && (!o->dry_run || as))
        return sb_fail(err, SB_ERR_USAGE,
                       "--remote reads only headers: it needs --dry-run and excludes --as");
    if (o->dry_run && !as)
        sb_stubs_allow();
    sb_status status = sb_place_of(line->operand[0], wish, &source, err);
    if (!status && o->other)
        status = sb_place_of(o->other, wish, &other, err);
    o->source = source;
    o->other = other;
    if (!status)
        status = sb_graft(o, &result, err);
    if (!status)
        status = report(o, &result, as_json, err);
    sb_grafted_free(&result);
    free(source);
    free(other);
    return status;
}

sb_status sb_cmd_graft(int argc, char **argv, sb_error *err)
{
    sb_graft_options o = {.progress = sb_progress, .verify = verify};
    sb_repeated take = {.count = 0};
    int as_json = 0;
    const char *as = NULL;
    sb_remote_wish wish = {0};
    const sb_opt opts[] = {
        {"take", 0, SB_OPT_REPEATED, &take, "PATTERN", "take modules with such names; repeatable"},
        {"from", 0, SB_OPT_INPUT, &o.other, "DIR", "the checkpoint that modules are taken from"},
        {"reindex", 0, SB_OPT_FLAG, &o.reindex, NULL,
         "take nothing; add what the index and the lists of the configuration lack"},
        {"as", 0, SB_OPT_STRING, &as, "bf16", "decode the quantized layers that are taken"},
        {"round", 0, SB_OPT_FLAG, &o.round, NULL,
         "with --as: round values that are not BF16 numbers to the nearest"},
        {"output", 'o', SB_OPT_OUTPUT, &o.target, "OUT", "the folder to be written"},
        {"dry-run", 0, SB_OPT_FLAG, &o.dry_run, NULL,
         "print what would be done, by names and bytes, and write nothing"},
        {"copy", 0, SB_OPT_FLAG, &o.copy, NULL, "copy files that stay instead of linking them"},
        {"replace", 0, SB_OPT_FLAG, &o.replace, NULL, "replace OUT if it is a checkpoint"},
        SB_OPT_REMOTE(&wish),
        SB_OPT_JSON(&as_json),
    };
    sb_command_line line = {
        .usage = "graft CKPT (--take PATTERN --from DIR | --reindex) -o OUT [options]",
        .about =
            "Writes a copy of CKPT in which some modules are taken from another checkpoint of the same\n"
            "model, as they are stored there. All parts of such a module are replaced. Files that lose\n"
            "nothing are linked, so CKPT and OUT share them: do not write into them. Index and\n"
            "configuration are changed so that every module is declared as it is stored; if the dialect\n"
            "cannot declare it, a note says so. With --reindex nothing is taken: tensors of CKPT that\n"
            "the index lacks, such as a lost MTP head, are added to the index, and the configuration is\n"
            "corrected. CKPT and DIR are folders, or hub ids (org/name, org/name@revision) that are in\n"
            "the local cache; with --dry-run --remote also hub ids or addresses that are not here.",
        .opts = opts,
        .opt_count = sizeof opts / sizeof *opts,
        .more = "example:\n  samebit graft NVFP4 --take 'mtp.*' --from BF16 -o REPAIRED\n"
                "  samebit graft NVFP4 --reindex -o REPAIRED\n",
        .min_operands = 1,
        .max_operands = 1};
    sb_status status = sb_parse(&line, argc, argv, err);
    if (status || line.helped)
        return status;
    return graft(&line, &o, &take, as, &wish, as_json, err);
}
