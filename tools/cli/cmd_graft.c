#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "ref/container/stub.h"
#include "ref/model/layers.h"
#include "tools/check/read/check.h"
#include "tools/report/check/report.h"
#include "tools/cli/cli.h"
#include "tools/cli/opts.h"
#include "tools/cli/remote.h"
#include "tools/check/graft/graft.h"
#include "tools/report/part/document.h"

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

/* --- removed and added modules, by kind ------------------------------------------------------- */

/* Modules of one kind of layer and one fate. */
typedef struct fate {
    char kind[128];
    const char *what;
    const char *example;
    uint64_t modules, goes, comes;
    uint64_t renamed; /* new tensors with names that are not in CKPT */

} fate;

static const char *what_of(const sb_taken_module *m)
{
    return !m->comes ? "stays, because DIR has none" : m->goes ? "replaced" : "added";
}

static int fate_order(const void *left, const void *right)
{
    const fate *a = left, *b = right;
    int order = strcmp(a->what, b->what);
    return order ? -order : strcmp(a->kind, b->kind);
}

/* Counts tensors with new names in modules that both sides have but store differently. */
static void count_new_names(const sb_grafted *g, fate *rows, size_t count)
{
    for (size_t i = 0; i < g->take.taken_count; i++) {
        char layer[SB_MAX_TENSOR_NAME], kind[128];
        const char *name = g->take.taken[i].name;
        if (sb_checkpoint_find(g->base, name))
            continue;
        sb_layer_kind(sb_layer_of(name, layer, sizeof layer) ? layer : name, kind, sizeof kind);
        for (size_t k = 0; k < count; k++) {
            size_t n = strlen(rows[k].kind);
            if (rows[k].comes && strncmp(rows[k].kind, kind, n) == 0 &&
                (!kind[n] || kind[n] == '.')) {
                rows[k].renamed++;
                break;
            }
        }
    }
}

/* NULL if memory is out. */
static fate *fates_of(const sb_grafted *g, size_t *count)
{
    fate *rows = sb_alloc(g->take.module_count, sizeof *rows);
    size_t n = 0;
    for (size_t i = 0; rows && i < g->take.module_count; i++) {
        const sb_taken_module *m = &g->take.modules[i];
        char kind[128];
        size_t k = 0;
        sb_layer_kind(m->name, kind, sizeof kind);
        while (k < n && (strcmp(rows[k].kind, kind) != 0 || rows[k].what != what_of(m)))
            k++;
        if (k == n) {
            n++;
            rows[k].what = what_of(m);
            rows[k].example = m->name;
            snprintf(rows[k].kind, sizeof rows[k].kind, "%s", kind);
        }
        rows[k].modules++;
        rows[k].goes += m->goes;
        rows[k].comes += m->comes;
    }
    if (rows && n) {
        count_new_names(g, rows, n);
        qsort(rows, n, sizeof *rows, fate_order);
    }
    *count = n;
    return rows;
}

/* The number of tensors with new names. */
static uint64_t new_names(const sb_grafted *g)
{
    uint64_t count = 0;
    for (size_t i = 0; i < g->take.taken_count; i++)
        count += !sb_checkpoint_find(g->base, g->take.taken[i].name);
    return count;
}

/* --- output ----------------------------------------------------------------------------------- */

static json_t *lines_json(const sb_graft_lines *lines)
{
    json_t *out = json_array();
    for (size_t i = 0; i < lines->count; i++)
        SB_ADD(out, sb_report_string(lines->line[i]));
    return out;
}

static json_t *files_json(const sb_grafted *g)
{
    json_t *out = json_array();
    for (size_t i = 0; i < g->file_count; i++) {
        const sb_graft_file *f = &g->files[i];
        json_t *row = json_object();
        SB_PUT(row, "file", sb_report_string(f->name));
        SB_PUT(row, "as", sb_report_string(f->new_name));
        SB_PUT(row, "action", sb_graft_action_name(f->action));
        SB_PUT(row, "tensors", f->stays);
        SB_PUT(row, "bytes", f->stays_bytes);
        SB_PUT(row, "tensors_gone", f->goes);
        SB_PUT(row, "bytes_gone", f->goes_bytes);
        SB_ADD(out, row);
    }
    return out;
}

/* The names of modules that only one side has. */
static json_t *alone_json(const sb_grafted *g, int added)
{
    json_t *out = json_array();
    for (size_t i = 0; i < g->take.module_count; i++) {
        const sb_taken_module *m = &g->take.modules[i];
        if (added ? !m->goes : !m->comes)
            SB_ADD(out, sb_report_string(m->name));
    }
    return out;
}

static json_t *kinds_json(const fate *rows, size_t count)
{
    json_t *out = json_array();
    for (size_t i = 0; i < count; i++) {
        json_t *row = json_object();
        SB_PUT(row, "kind", rows[i].kind);
        SB_PUT(row, "fate", rows[i].what);
        SB_PUT(row, "modules", rows[i].modules);
        SB_PUT(row, "tensors_gone", rows[i].goes);
        SB_PUT(row, "tensors_taken", rows[i].comes);
        SB_PUT(row, "under_new_names", rows[i].renamed);
        SB_PUT(row, "first", rows[i].example);
        SB_ADD(out, row);
    }
    return out;
}

static sb_status print_json(const sb_graft_options *o, const sb_grafted *g, const fate *rows,
                            size_t count, sb_error *err)
{
    json_t *d = sb_document("graft");
    SB_PUT(d, "folder", o->dry_run ? json_null() : sb_report_string(o->target));
    SB_PUT(d, "taken_tensors", g->take.taken_count);
    SB_PUT(d, "taken_bytes", g->take.taken_bytes);
    SB_PUT(d, "decoded_values", g->decoded);
    SB_PUT(d, "rounded_values", g->rounded);
    SB_PUT(d, "gone_tensors", g->take.dropped_count);
    SB_PUT(d, "gone_bytes", g->take.dropped_bytes);
    SB_PUT(d, "taken_under_new_names", new_names(g));
    SB_PUT(d, "kinds", kinds_json(rows, count));
    SB_PUT(d, "only_in_source", alone_json(g, 0));
    SB_PUT(d, "only_in_other", alone_json(g, 1));
    SB_PUT(d, "files", files_json(g));
    SB_PUT(d, "copied_files", g->copied);
    SB_PUT(d, "total_size", g->total);
    SB_PUT(d, "configuration", lines_json(&g->changes));
    SB_PUT(d, "notes", lines_json(&g->notes));
    return sb_print_document(d, err);
}

static void print_files(const sb_grafted *g)
{
    for (size_t i = 0; i < g->file_count; i++) {
        const sb_graft_file *f = &g->files[i];
        int renamed = strcmp(f->name, f->new_name) != 0;
        printf("  %-10s %s%s%s: %zu tensors, %" PRIu64 " bytes", sb_graft_action_name(f->action),
               SB_SHOW(f->name), renamed ? " as " : "", renamed ? SB_SHOW(f->new_name) : "",
               f->stays, f->stays_bytes);
        if (f->goes)
            printf("; without %zu tensors, %" PRIu64 " bytes", f->goes, f->goes_bytes);
        printf("\n");
    }
}

static void print_lines(const char *title, const sb_graft_lines *lines, size_t most)
{
    if (lines->count)
        printf("%s:\n", title);
    for (size_t i = 0; i < lines->count && i < most; i++) {
        printf("  ");
        sb_print_shown(lines->line[i], stdout);
        printf("\n");
    }
    if (lines->count > most)
        printf("  and %zu more; --json has them all\n", lines->count - most);
}

static void print_text(const sb_graft_options *o, const sb_grafted *g, const fate *rows,
                       size_t count)
{
    if (!o->reindex)
        printf("modules:\n");
    for (size_t i = 0; i < count; i++) {
        const fate *f = &rows[i];
        printf("  %-32s %6" PRIu64 " %s: %" PRIu64 " tensors go, %" PRIu64 " come",
               SB_SHOW(f->kind), f->modules, f->what, f->goes, f->comes);
        if (f->goes && f->renamed)
            printf(", %" PRIu64 " of them without counterpart by name", f->renamed);
        printf(" (%s)\n", SB_SHOW(f->example));
    }
    if (!o->reindex)
        printf("together: %zu tensors taken, %" PRIu64 " bytes, %" PRIu64
               " of them under names that the source does not have; %zu go, %" PRIu64 " bytes\n",
               g->take.taken_count, g->take.taken_bytes, new_names(g), g->take.dropped_count,
               g->take.dropped_bytes);
    if (o->as_bf16)
        printf("decoded to BF16: %" PRIu64 " values, %" PRIu64 " of them rounded\n", g->decoded,
               g->rounded);
    if (g->take.lacking)
        printf("without counterpart in DIR: %zu modules, which stay\n", g->take.lacking);
    if (g->take.added)
        printf("without counterpart in CKPT: %zu modules, which come\n", g->take.added);
    printf("files:\n");
    print_files(g);
    print_lines(o->reindex ? "index and configuration" : "configuration", &g->changes, 20);
    print_lines("notes", &g->notes, 20);
    if (o->dry_run)
        printf("dry run: nothing was written\n");
    else
        printf("wrote %s: %" PRIu64 " bytes of tensors, %" PRIu64 " other files copied\n",
               SB_SHOW(o->target), g->total, g->copied);
}

static sb_status report(const sb_graft_options *o, const sb_grafted *g, int as_json, sb_error *err)
{
    size_t count;
    fate *rows = fates_of(g, &count);
    sb_status status = SB_OK;
    if (!rows)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for the kinds of modules");
    if (as_json)
        status = print_json(o, g, rows, count, err);
    else
        print_text(o, g, rows, count);
    free(rows);
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
