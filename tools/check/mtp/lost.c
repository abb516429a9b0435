/* lost.c - check 50: modules that the original has and the checkpoint lacks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "tools/check/mtp/mtp_census.h"
#include "tools/check/judge/structure.h"

/* Names without prefixes; they do not depend on how experts are stored. */
typedef struct names {
    const char **rows;
    size_t count;
} names;

static int name_order(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Removes the prefix of the vision tower: "model.visual." and "visual." are one tower. */
static const char *bare(const char *plain)
{
    return strncmp(plain, "model.visual.", 13) == 0 ? plain + 6 : plain;
}

static int has(const names *n, const char *plain)
{
    const char *key = bare(plain);
    return n->count && bsearch(&key, n->rows, n->count, sizeof *n->rows, name_order);
}

static int names_of(const sb_units *u, names *out)
{
    out->rows = sb_alloc(u->count + u->member_count + 1, sizeof *out->rows);
    if (!out->rows)
        return 0;
    for (size_t i = 0; i < u->count; i++)
        out->rows[out->count++] = bare(u->rows[i].plain);
    for (size_t i = 0; i < u->member_count; i++)
        out->rows[out->count++] = bare(u->members[i].plain);
    if (out->count)
        qsort(out->rows, out->count, sizeof *out->rows, name_order);
    return 1;
}

/* Parts of the original; the modules of a part are probably lost together. */
typedef enum part { HEAD, TOWER, TRUNK, OTHER, PARTS } part;

typedef struct tally {
    size_t all[PARTS], missing[PARTS];
    const char *first[PARTS]; /* name of the first missing module in the original */
    /* some of the checkpoint's experts cannot be named; another check reports that */
    int experts_unread;
} tally;

/* 1 for a tensor that engines compute themselves, whether or not files have it. */
static int is_buffer(const char *plain)
{
    return sb_ends(plain, "inv_freq");
}

/* V-150: "Modules that the checkpoint's own configuration implies are reported by check 5 and check
 * 10" */
static int is_told(const sb_check *check, const sb_unit *unit, const char *plain)
{
    char name[SB_MAX_TENSOR_NAME + 64];
    const sb_units *own = &check->self.units;
    static const char *const ends[] = {"", ".weight"};
    for (size_t i = 0; i < 2; i++) {
        int root = unit->region == SB_REGION_mtp || strncmp(plain, "lm_head", 7) == 0;
        snprintf(name, sizeof name, "%s%s%s", root ? "" : own->prefix, plain, ends[i]);
        if (sb_expected_named(own, name) || sb_elsewhere(check, name))
            return 1;
    }
    return 0;
}

static part part_of(const sb_unit *unit, const char *plain)
{
    if (unit->region == SB_REGION_mtp)
        return HEAD;
    if (unit->region == SB_REGION_vision)
        return TOWER;
    return unit->expected || strncmp(plain, "layers.", 7) == 0 ? TRUNK : OTHER;
}

static void count_one(const sb_check *check, const names *own, const sb_unit *unit,
                      const char *plain, const char *name, tally *t)
{
    part p = part_of(unit, plain);
    if (is_buffer(plain) || (t->experts_unread && strstr(plain, "experts.")))
        return;
    t->all[p]++;
    if (has(own, plain) || sb_elsewhere(check, name))
        return;
    /* all modules of head and tower count, because it matters whether all of them are missing */
    if ((p == TRUNK || p == OTHER) && is_told(check, unit, plain))
        return;
    if (p == OTHER && strcmp(plain, "lm_head") == 0 && check->self.config.tie_embeddings)
        return;
    if (!t->missing[p]++)
        t->first[p] = name;
}

static void count_all(const sb_check *check, const names *own, tally *t)
{
    const sb_units *self = &check->self.units, *u = &check->master.units;
    for (size_t i = 0; i < self->count; i++)
        t->experts_unread |=
            !self->rows[i].tensor && self->rows[i].status && strstr(self->rows[i].plain, "experts");
    for (size_t i = 0; i < u->member_count; i++)
        if (!u->members[i].unit->tensor)
            count_one(check, own, u->members[i].unit, u->members[i].plain, u->members[i].name, t);
    for (size_t i = 0; i < u->count; i++)
        if (u->rows[i].tensor)
            count_one(check, own, &u->rows[i], u->rows[i].plain, u->rows[i].name, t);
}

static int is_misplaced(const sb_units *u)
{
    for (size_t i = 0; i < u->count; i++)
        if (u->rows[i].region != SB_REGION_mtp && strstr(u->rows[i].name, "mtp."))
            return 1; /* check 10 reports it */
    return 0;
}

/* V-150: "A missing MTP head" */
static void tell_head(sb_check *check, const tally *t)
{
    int declared = sb_mtp_declared(check), whole = t->missing[HEAD] == t->all[HEAD];
    int need = check->options->need_mtp;
    /* V-150: "A head that is there" */
    if (t->all[HEAD] && !whole && !declared && check->master.has_config &&
        check->master.config.mtp_declared && check->master.config.mtp_layers)
        sb_check_find(
            check, 50, SB_LEVEL_error, "",
            "mtp_num_hidden_layers is %u, in the original %u, but %zu of the %zu modules of the "
            "original's MTP head are here: no engine loads them, and speculation is off",
            (unsigned)check->self.config.mtp_layers, (unsigned)check->master.config.mtp_layers,
            t->all[HEAD] - t->missing[HEAD], t->all[HEAD]);
    if (!t->missing[HEAD] || is_misplaced(&check->self.units))
        return;
    if (!whole && !declared)
        sb_check_find(check, 50, SB_LEVEL_error, t->first[HEAD],
                      "%zu of the %zu modules of the original's MTP head are missing, this one "
                      "first, and no head is declared: engines do not use the other modules",
                      t->missing[HEAD], t->all[HEAD]);
    else if (whole)
        sb_check_find(
            check, 50, declared || need ? SB_LEVEL_error : SB_LEVEL_warn, "",
            "the original has an MTP head of %zu modules, but this checkpoint has none; %s",
            t->all[HEAD],
            declared ? "its configuration still declares it: drafts come from random "
                       "weights"
                     : "its configuration does not declare one: speculation is off");
}

/* V-150: "A missing vision tower" */
static void tell_tower(sb_check *check, const tally *t)
{
    const sb_config *c = &check->self.config;
    int images = strstr(c->architecture, "ForConditionalGeneration") != NULL;
    size_t missing = t->missing[TOWER], all = t->all[TOWER];
    if (!missing)
        return;
    if (missing < all)
        sb_check_find(check, 50, SB_LEVEL_error, t->first[TOWER],
                      "%zu of the %zu modules of the original's vision tower are missing, this "
                      "one first: they keep random values",
                      missing, all);
    else if (check->self.has_config)
        sb_check_find(check, 50,
                      images  ? SB_LEVEL_error
                      : c->vl ? SB_LEVEL_warn
                              : SB_LEVEL_info,
                      "",
                      "the original has a vision tower of %zu modules, but this checkpoint has "
                      "none; its configuration declares %s",
                      all,
                      images  ? "a model that reads images"
                      : c->vl ? "a text model in the wrapper of a model that reads images"
                              : "a text model");
}

static void tell_rest(sb_check *check, const tally *t)
{
    if (t->missing[TRUNK])
        sb_check_find(check, 50, SB_LEVEL_error, t->first[TRUNK],
                      "%zu of %zu modules of the original's layers are missing here, this one "
                      "first; the configuration does not declare them",
                      t->missing[TRUNK], t->all[TRUNK]);
    if (t->missing[OTHER])
        sb_check_find(check, 50, SB_LEVEL_warn, t->first[OTHER],
                      "%zu of %zu other tensors of the original are missing here, this one first",
                      t->missing[OTHER], t->all[OTHER]);
}

void sb_check_lost(sb_check *check)
{
    names own = {0};
    tally t = {0};
    if (!check->master.checkpoint || !sb_check_wanted(check, 50) || sb_is_fragment(check) ||
        !check->self.has_config)
        return;
    if (!names_of(&check->self.units, &own)) {
        check->findings.lost = 1;
        return;
    }
    count_all(check, &own, &t);
    free(own.rows);
    tell_head(check, &t);
    tell_tower(check, &t);
    if (sb_has_text_model(check) && check->master.has_config)
        tell_rest(check, &t);
}
