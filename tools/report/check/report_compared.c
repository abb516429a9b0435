/* report_compared.c - tensors that were not compared with the original, by role (V-14). */
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/report/check/report.h"
#include "tools/check/judge/same_format.h"

static int role_order(const void *a, const void *b)
{
    return strcmp(((const sb_report_role *)a)->name, ((const sb_report_role *)b)->name);
}

static sb_status add(sb_report_compared *c, size_t *room, const char *kind, const char *suffix,
                     sb_error *err)
{
    sb_report_role *grown = sb_grow(c->roles, c->role_count, room, sizeof *grown);
    size_t n = strlen(kind) + strlen(suffix) + 2;
    if (grown) {
        c->roles = grown;
        grown[c->role_count].count = 1;
        grown[c->role_count].name = sb_alloc(n, 1);
    }
    if (!grown || !grown[c->role_count].name)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for the report");
    snprintf(grown[c->role_count++].name, n, "%s%s%s", kind, *suffix ? "." : "", suffix);
    c->not_compared++;
    return SB_OK;
}

static sb_status one_unit(sb_report_compared *c, size_t *room, const sb_unit *unit, sb_error *err)
{
    if (unit->tensor) {
        c->tensors++;
        return unit->tensor->bytes == 0 || sb_was_compared(unit, 0)
                   ? SB_OK
                   : add(c, room, unit->kind, "", err);
    }
    sb_status status = SB_OK;
    for (unsigned p = 0; p < SB_PART_COUNT && !status; p++) {
        if (!unit->found.part[p])
            continue;
        c->tensors++;
        if (!sb_was_compared(unit, p))
            status = add(c, room, unit->kind, sb_part_suffix((sb_model_part)p), err);
    }
    return status;
}

/* Merges equal roles and adds up their numbers. */
static void merge(sb_report_compared *c)
{
    size_t kept = 0;
    if (!c->role_count)
        return;
    qsort(c->roles, c->role_count, sizeof *c->roles, role_order);
    for (size_t i = 1; i < c->role_count; i++)
        if (strcmp(c->roles[i].name, c->roles[kept].name) == 0) {
            c->roles[kept].count++;
            free(c->roles[i].name);
        } else {
            c->roles[++kept] = c->roles[i];
        }
    c->role_count = kept + 1;
}

sb_status sb_report_compare(sb_report *r, sb_error *err)
{
    const sb_units *u = &r->check->self.units;
    sb_report_compared *c = &r->compared;
    size_t room = 0;
    sb_status status = SB_OK;
    if (!r->check->master.checkpoint)
        return SB_OK;
    for (size_t i = 0; i < u->count && !status; i++)
        status = one_unit(c, &room, &u->rows[i], err);
    merge(c);
    return status;
}

void sb_report_compared_free(sb_report_compared *c)
{
    for (size_t i = 0; i < c->role_count; i++)
        free(c->roles[i].name);
    free(c->roles);
    *c = (sb_report_compared){0};
}

const char *sb_report_unseen(const sb_report *report)
{
    const sb_check *c = report->check;
    if (c->master.checkpoint || c->stranger.checkpoint || c->hub_files ||
        c->options->headers_only || c->options->sample || !sb_check_wanted(c, 14))
        return NULL;
    return "exchanged experts, layers, heads or rows; another order of nibbles; inverted signs; "
           "weights of another run; single flipped bits of codes; valid but wrong values in "
           "config.json";
}
