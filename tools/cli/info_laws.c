#include "tools/cli/info_laws.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/model/layers.h"
#include "tools/check/hash/laws.h"
#include "tools/cli/cli.h"
#include "tools/report/part/document.h"

enum { KIND = 128 };

/* --- laws ------------------------------------------------------------------------------------- */

typedef struct group {
    char kind[KIND];
    sb_container container;
    uint64_t matrices;
    int differ;
    sb_law_counts counts;
} group;

typedef struct laws {
    const sb_checkpoint *checkpoint;
    group *groups;
    size_t count, room;
    group all;
    json_t *rows; /* per matrix, for --json; NULL for text */
    uint64_t done;
} laws;

static group *group_of(laws *l, const char *kind, sb_container container)
{
    for (size_t i = 0; i < l->count; i++)
        if (l->groups[i].container == container && strcmp(l->groups[i].kind, kind) == 0)
            return &l->groups[i];
    group *grown = sb_grow(l->groups, l->count, &l->room, sizeof *grown);
    if (!grown)
        return NULL;
    l->groups = grown;
    group *g = &l->groups[l->count++];
    *g = (group){.container = container};
    snprintf(g->kind, sizeof g->kind, "%s", kind);
    return g;
}

static void add_counts(group *g, int differ, const sb_law_counts *c)
{
    g->matrices++;
    g->differ |= differ;
    g->counts.values += c->values;
    for (unsigned p = 0; p < SB_LAW_PAIRS; p++) {
        g->counts.f32[p] += c->f32[p];
        g->counts.bf16[p] += c->bf16[p];
        if (c->ulp[p] > g->counts.ulp[p])
            g->counts.ulp[p] = c->ulp[p];
    }
}

static json_t *pairs_json(const sb_law_counts *c)
{
    json_t *out = json_array();
    for (unsigned p = 0; p < SB_LAW_PAIRS; p++) {
        sb_law a = SB_LAW_exact, b = SB_LAW_exact;
        sb_law_pair(p, &a, &b);
        SB_ADD(out, json_pack("{s:[ss],s:I,s:I,s:I}", "laws", sb_law_name(a), sb_law_name(b), "f32",
                              (json_int_t)c->f32[p], "bf16", (json_int_t)c->bf16[p], "max_ulp",
                              (json_int_t)c->ulp[p]));
    }
    return out;
}

static sb_status count_piece(void *ctx, const sb_piece *piece, sb_error *err)
{
    laws *l = ctx;
    char kind[KIND];
    sb_law_counts counts = {0};
    int differ = sb_laws_differ(&piece->matrix);
    if (!sb_matrix_quantized(&piece->matrix))
        return SB_OK;
    sb_status status = differ ? sb_law_count(&piece->matrix, &counts, err) : SB_OK;
    if (status)
        return sb_fail_in(err, status, piece->name);
    if (!differ)
        counts.values = (uint64_t)piece->matrix.rows * piece->matrix.cols;
    group *g = group_of(l, sb_layer_kind(piece->name, kind, sizeof kind), piece->found->container);
    if (!g)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for kinds of layers");
    add_counts(g, differ, &counts);
    if (differ)
        add_counts(&l->all, 1, &counts);
    if (l->rows) {
        json_t *row = json_object();
        SB_PUT(row, "name", piece->name);
        SB_PUT(row, "container", sb_container_name(piece->found->container));
        SB_PUT(row, "values", counts.values);
        SB_PUT(row, "pairs", differ ? pairs_json(&counts) : json_null());
        SB_ADD(l->rows, row);
    }
    return SB_OK;
}

static sb_status count_layer(void *ctx, const char *name, const sb_found *found, sb_error *err)
{
    laws *l = ctx;
    for (unsigned p = 0; p < SB_PART_COUNT; p++)
        l->done += found->part[p] ? 1 : 0;
    sb_progress(NULL, "layers", l->done, sb_checkpoint_count(l->checkpoint) + 1);
    return sb_each_piece(l->checkpoint, name, found, count_piece, l, err);
}

static void print_group(const group *g)
{
    unsigned agree = 0;
    double n = g->counts.values ? (double)g->counts.values : 1;
    if (!g->differ) {
        printf("%s (%s): %" PRIu64 " matrices, %" PRIu64
               " values: no factor per tensor and no scale wider than bf16, so all laws agree\n",
               g->kind, sb_container_name(g->container), g->matrices, g->counts.values);
        return;
    }
    printf("%s (%s): %" PRIu64 " matrices, %" PRIu64 " values\n", g->kind,
           g->container == SB_CONTAINER_COUNT ? "every kind" : sb_container_name(g->container),
           g->matrices, g->counts.values);
    for (unsigned p = 0; p < SB_LAW_PAIRS; p++) {
        sb_law a = SB_LAW_exact, b = SB_LAW_exact;
        sb_law_pair(p, &a, &b);
        if (g->counts.f32[p] == 0)
            agree++;
        else
            printf("  %-6s %-10s  f32 %12" PRIu64
                   " differ, %7.4f %%, by %u ulp at most;  bf16 %8" PRIu64 ", %.5f %%\n",
                   sb_law_name(a), sb_law_name(b), g->counts.f32[p],
                   100 * (double)g->counts.f32[p] / n, (unsigned)g->counts.ulp[p],
                   g->counts.bf16[p], 100 * (double)g->counts.bf16[p] / n);
    }
    if (agree)
        printf("  pairs of laws that agree everywhere: %u\n", agree);
}

static int by_kind(const void *left, const void *right)
{
    const group *a = left;
    const group *b = right;
    int order = strcmp(a->kind, b->kind);
    return order ? order : (a->container > b->container) - (a->container < b->container);
}

static void print_laws(const laws *l)
{
    for (unsigned law = 0; law < SB_LAW_COUNT; law++)
        printf("%-11s %s (%s)%s\n", sb_law_name((sb_law)law), sb_law_expression((sb_law)law),
               sb_law_users((sb_law)law),
               law == SB_LAW_factor_last ? ": changes the sum, not the weights, and is not counted"
                                         : "");
    for (size_t i = 0; i < l->count; i++)
        print_group(&l->groups[i]);
    if (l->all.matrices)
        print_group(&l->all);
    else
        printf("the laws agree everywhere\n");
}

static json_t *groups_json(const laws *l)
{
    json_t *out = json_array();
    for (size_t i = 0; i < l->count; i++) {
        const group *g = &l->groups[i];
        json_t *row = json_object();
        SB_PUT(row, "layers", g->kind);
        SB_PUT(row, "container", sb_container_name(g->container));
        SB_PUT(row, "matrices", g->matrices);
        SB_PUT(row, "values", g->counts.values);
        SB_PUT(row, "pairs", g->differ ? pairs_json(&g->counts) : json_null());
        SB_ADD(out, row);
    }
    return out;
}

static sb_status print_document(laws *l, sb_error *err)
{
    json_t *document = sb_document("info");
    SB_PUT(document, "kinds", groups_json(l));
    SB_PUT(document, "total",
           json_pack("{s:I,s:I,s:o}", "matrices", (json_int_t)l->all.matrices, "values",
                     (json_int_t)l->all.counts.values, "pairs", pairs_json(&l->all.counts)));
    json_object_set(document, "matrices", l->rows);
    return sb_print_document(document, err);
}

sb_status sb_info_laws(const char *path, int as_json, sb_error *err)
{
    sb_checkpoint *checkpoint = NULL;
    laws l = {.all = {.kind = "together", .container = SB_CONTAINER_COUNT}};
    sb_status status = sb_checkpoint_open(path, &checkpoint, err);
    l.checkpoint = checkpoint;
    l.rows = as_json ? json_array() : NULL;
    if (!status)
        status = sb_each_layer(checkpoint, count_layer, &l, err);
    if (!status) {
        sb_progress(NULL, "layers", 1, 1);
        if (l.count)
            qsort(l.groups, l.count, sizeof *l.groups, by_kind);
        if (as_json)
            status = print_document(&l, err);
        else
            print_laws(&l);
    }
    json_decref(l.rows);
    free(l.groups);
    sb_checkpoint_close(checkpoint);
    return status;
}
