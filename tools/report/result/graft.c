#include "tools/report/result/graft.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "ref/model/layers.h"
#include "tools/report/part/document.h"

/* --- removed and added modules, by kind ------------------------------------------------------- */

static const char *what_of(const sb_taken_module *m)
{
    return !m->comes ? "stays, because DIR has none" : m->goes ? "replaced" : "added";
}

static int fate_order(const void *left, const void *right)
{
    const sb_graft_fate *a = left, *b = right;
    int order = strcmp(a->what, b->what);
    return order ? -order : strcmp(a->kind, b->kind);
}

/* Counts tensors with new names in modules that both sides have but store differently. */
static void count_new_names(const sb_grafted *g, sb_graft_fate *rows, size_t count)
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
static sb_graft_fate *fates_of(const sb_grafted *g, size_t *count)
{
    sb_graft_fate *rows = sb_alloc(g->take.module_count, sizeof *rows);
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

sb_status sb_graft_document_make(const sb_graft_options *options, const sb_grafted *grafted,
                                 sb_graft_document *out, sb_error *err)
{
    *out = (sb_graft_document){.options = options, .grafted = grafted};
    out->fates = fates_of(grafted, &out->count);
    return out->fates ? SB_OK
                      : sb_fail(err, SB_ERR_MEMORY, "out of memory for the kinds of modules");
}

void sb_graft_document_free(sb_graft_document *document)
{
    free(document->fates);
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

static json_t *kinds_json(const sb_graft_fate *rows, size_t count)
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

json_t *sb_graft_json(const sb_graft_document *document)
{
    const sb_graft_options *o = document->options;
    const sb_grafted *g = document->grafted;
    json_t *d = sb_document("graft");
    SB_PUT(d, "folder", SB_KNOWN(!o->dry_run, sb_report_string(o->target)));
    SB_PUT(d, "taken_tensors", g->take.taken_count);
    SB_PUT(d, "taken_bytes", g->take.taken_bytes);
    SB_PUT(d, "decoded_values", g->decoded);
    SB_PUT(d, "rounded_values", g->rounded);
    SB_PUT(d, "gone_tensors", g->take.dropped_count);
    SB_PUT(d, "gone_bytes", g->take.dropped_bytes);
    SB_PUT(d, "taken_under_new_names", new_names(g));
    SB_PUT(d, "kinds", kinds_json(document->fates, document->count));
    SB_PUT(d, "only_in_source", alone_json(g, 0));
    SB_PUT(d, "only_in_other", alone_json(g, 1));
    SB_PUT(d, "files", files_json(g));
    SB_PUT(d, "copied_files", g->copied);
    SB_PUT(d, "total_size", g->total);
    SB_PUT(d, "configuration", lines_json(&g->changes));
    SB_PUT(d, "notes", lines_json(&g->notes));
    return d;
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

void sb_graft_print(const sb_graft_document *d)
{
    const sb_graft_options *o = d->options;
    const sb_grafted *g = d->grafted;
    if (!o->reindex)
        printf("modules:\n");
    for (size_t i = 0; i < d->count; i++) {
        const sb_graft_fate *f = &d->fates[i];
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
