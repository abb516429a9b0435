#include "tools/check/loaded/loaded.h"

#include <pthread.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "ref/container/show.h"
#include "tools/check/loaded/loaded_parts.h"

static const struct {
    const char *name, *text;
} verdicts[] = {
#define SB_LOADED(id, name, text) {name, text},
#include "tools/check/loaded/loaded.def"
#undef SB_LOADED
};

const char *sb_loaded_name(sb_loaded_verdict verdict)
{
    return verdicts[verdict].name;
}

const char *sb_loaded_text(sb_loaded_verdict verdict)
{
    return verdicts[verdict].text;
}

/* A digest, and the module that has it. */
typedef struct named_digest {
    const char *hex, *name;
} named_digest;

typedef struct comparison {
    const sb_check *check;
    sb_loaded_entry *entries; /* entries of the parameters, followed by those of dropped modules */
    size_t count, dropped;
    unsigned char *member_held; /* by member: 1 if the engine holds it */
    unsigned char *tensor_held; /* by tensor: 1 if the engine holds it */
    named_digest *known;        /* sorted */
    size_t known_count;
    sb_waivers *waivers;
    sb_loaded *out;
} comparison;

static sb_status no_memory(sb_error *err)
{
    return sb_fail(err, SB_ERR_MEMORY, "out of memory for the comparison of loaded parameters");
}

/* --- rows of the result ----------------------------------------------------------------------- */

static sb_status add_row(comparison *c, sb_loaded_verdict verdict, const char *name,
                         const char *law, int explained, const char *message, sb_error *err)
{
    sb_loaded *out = c->out;
    sb_loaded_row *grown = sb_grow(out->rows, out->count, &out->room, sizeof *grown);
    if (!grown)
        return no_memory(err);
    out->rows = grown;
    sb_loaded_row *row = &out->rows[out->count++];
    *row = (sb_loaded_row){.verdict = verdict, .law = law, .explained = explained};
    row->name = sb_strdup(name);
    row->message = sb_strdup(message);
    if (!row->name || !row->message)
        return no_memory(err);
    if (verdict != SB_LOADED_ok && !explained && c->waivers)
        row->waived = sb_waivers_cover(c->waivers, 0, SB_LEVEL_error, name);
    out->explained += explained != 0;
    out->waived += row->waived != 0;
    out->counts[verdict] += !explained && !row->waived;
    return SB_OK;
}

/* --- contents of the files -------------------------------------------------------------------- */

static void note_held(comparison *c, const sb_held_values *held)
{
    const sb_checkpoint *checkpoint = c->check->self.checkpoint;
    const sb_tensor *base = sb_checkpoint_at(checkpoint, 0);
    for (size_t i = 0; i < held->count; i++) {
        if (held->segments[i].member)
            c->member_held[held->segments[i].member - c->check->self.units.members] = 1;
        if (held->segments[i].tensor)
            c->tensor_held[held->segments[i].tensor - base] = 1;
    }
    if (held->raw)
        c->tensor_held[held->raw - base] = 1;
}

/* The number of bytes that are still to digest, with values as binary32. */
static uint64_t value_bytes(const sb_loaded_entry *e)
{
    uint64_t bytes = e->held.raw ? e->held.raw->bytes : 0;
    for (size_t i = 0; i < e->held.count; i++)
        bytes += 4 * (uint64_t)e->held.segments[i].rows * e->held.segments[i].matrix.cols;
    return bytes;
}

static void say_progress(const comparison *c, uint64_t done, uint64_t total)
{
    const sb_check_options *o = c->check->options;
    if (o->progress)
        o->progress(o->progress_ctx, "loaded", done, total);
}

typedef struct expecting {
    comparison *c;
    size_t first, failed; /* positions in entries */
    uint64_t total;
    _Atomic uint64_t done;
    pthread_mutex_t lock; /* protects failed, status and why */
    sb_status status;
    sb_error why;
} expecting;

static void expect_one(void *ctx, size_t at, size_t worker)
{
    expecting *x = ctx;
    sb_loaded_entry *e = &x->c->entries[x->first + at];
    sb_error why;
    const sb_status status = sb_loaded_expect(e, &why);
    const uint64_t done = atomic_fetch_add(&x->done, value_bytes(e)) + value_bytes(e);
    if (worker == 0 && done < x->total)
        say_progress(x->c, done, x->total);
    if (!status)
        return;
    pthread_mutex_lock(&x->lock);
    if (at < x->failed) {
        x->failed = at;
        x->status = status;
        x->why = why;
    }
    pthread_mutex_unlock(&x->lock);
}

/* If several entries fail, the failure of the first entry is reported, whatever the order of
 * threads. */
static sb_status expect_all(comparison *c, size_t first, size_t end, sb_error *err)
{
    expecting x = {
        .c = c, .first = first, .failed = end - first, .lock = PTHREAD_MUTEX_INITIALIZER};
    for (size_t i = first; i < end; i++)
        x.total += value_bytes(&c->entries[i]);
    sb_parallel_in_order(end - first, 1, expect_one, &x);
    say_progress(c, x.total, x.total);
    return x.status ? sb_fail(err, x.status, "%s", x.why.text) : SB_OK;
}

/* --- dropped parameters ----------------------------------------------------------------------- */

static const char *region_text(sb_region region)
{
    return region == SB_REGION_mtp      ? ", of the MTP head"
           : region == SB_REGION_vision ? ", of the vision tower"
                                        : "";
}

static sb_loaded_entry *next_dropped(comparison *c, const char *name)
{
    sb_loaded_entry *e = &c->entries[c->count + c->dropped++];
    *e = (sb_loaded_entry){.name = name};
    return e;
}

/* For a layer that the engine holds as stored: reports its tensors that the engine lacks. */
static sb_status drop_tensors(comparison *c, const sb_unit *unit, sb_error *err)
{
    const sb_tensor *base = sb_checkpoint_at(c->check->self.checkpoint, 0);
    sb_status status = SB_OK;
    for (unsigned p = 0; p < SB_PART_COUNT && !status; p++) {
        const sb_tensor *t = unit->found.part[p];
        if (t && p != SB_PART_weight_shape && !c->tensor_held[t - base])
            status = add_row(c, SB_LOADED_dropped, t->name, NULL, 0,
                             "the engine holds other tensors of this layer, as the files store "
                             "them",
                             err);
    }
    return status;
}

static int some_tensor_held(const comparison *c, const sb_unit *unit)
{
    const sb_tensor *base = sb_checkpoint_at(c->check->self.checkpoint, 0);
    if (unit->tensor && c->tensor_held[unit->tensor - base])
        return 1;
    for (unsigned p = 0; p < SB_PART_COUNT; p++)
        if (unit->found.part[p] && c->tensor_held[unit->found.part[p] - base])
            return 1;
    return 0;
}

static int bears_values(const sb_unit *unit)
{
    sb_segment s;
    return !unit->tensor || sb_segment_of_tensor(unit->tensor, &s);
}

static sb_status drop_unit(comparison *c, const sb_unit *unit, size_t members, size_t held,
                           sb_error *err)
{
    char text[160], what[80];
    sb_segment s;
    if (some_tensor_held(c, unit))
        return unit->tensor || held ? SB_OK : drop_tensors(c, unit, err);
    if (!bears_values(unit) || (members && held == members))
        return SB_OK;
    snprintf(what, sizeof what, "cannot be read");
    if (unit->tensor && sb_segment_of_tensor(unit->tensor, &s)) {
        sb_held_values one = {.segments = &s, .count = 1};
        sb_loaded_entry *e = next_dropped(c, unit->name);
        e->held.segments = sb_alloc(1, sizeof s);
        if (!e->held.segments)
            return no_memory(err);
        e->held.segments[0] = s;
        e->held.count = 1;
        sb_held_text(&one, what, sizeof what);
    } else if (members) {
        snprintf(what, sizeof what, "%zu %s, %s", members, members > 1 ? "matrices" : "matrix",
                 sb_container_name(unit->found.container));
    }
    snprintf(text, sizeof text, "%s%s", what, region_text(unit->region));
    return held ? SB_OK : add_row(c, SB_LOADED_dropped, unit->name, NULL, 0, text, err);
}

/* Finds the modules that the engine lacks. Members are sorted by plain name, so that the members of
 * a unit are scattered: counts them first. */
static sb_status find_dropped(comparison *c, sb_error *err)
{
    const sb_units *u = &c->check->self.units;
    size_t *members = sb_alloc(u->count, 2 * sizeof *members), *held = members + u->count;
    sb_status status = members ? SB_OK : no_memory(err);
    for (size_t i = 0; i < u->member_count && !status; i++) {
        members[u->members[i].unit - u->rows]++;
        held[u->members[i].unit - u->rows] += c->member_held[i];
    }
    for (size_t i = 0; i < u->count && !status; i++)
        status = drop_unit(c, &u->rows[i], members[i], held[i], err);
    for (size_t i = 0; i < u->member_count && !status; i++) {
        const sb_unit *unit = u->members[i].unit;
        sb_loaded_entry *e;
        if (c->member_held[i] || some_tensor_held(c, unit))
            continue;
        e = next_dropped(c, u->members[i].name);
        e->held.segments = sb_alloc(1, sizeof *e->held.segments);
        if (!e->held.segments) {
            status = no_memory(err);
            break;
        }
        e->held.segments[0] = sb_segment_of(&u->members[i]);
        e->held.count = 1;
        if (held[unit - u->rows]) /* the engine holds other experts of the stack */
            status = add_row(c, SB_LOADED_dropped, u->members[i].name, NULL, 0,
                             "the engine holds other experts of this stack", err);
    }
    free(members);
    return status;
}

/* --- what a wrong parameter holds instead ----------------------------------------------------- */

static int by_digest(const void *a, const void *b)
{
    const named_digest *x = a, *y = b;
    int order = strcmp(x->hex, y->hex);
    return order ? order : strcmp(x->name, y->name);
}

static sb_status list_digests(comparison *c, sb_error *err)
{
    size_t all = c->count + c->dropped;
    c->known = sb_alloc(all * SB_LOADED_LAWS, sizeof *c->known);
    if (!c->known)
        return no_memory(err);
    for (size_t i = 0; i < all; i++)
        for (unsigned k = 0; k < c->entries[i].digests; k++)
            c->known[c->known_count++] =
                (named_digest){c->entries[i].digest[k].hex, c->entries[i].name};
    if (c->known_count)
        qsort(c->known, c->known_count, sizeof *c->known, by_digest);
    return SB_OK;
}

/* The first name with these values, or NULL. */
static const char *whose(const comparison *c, const char *hex)
{
    size_t low = 0, high = c->known_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(c->known[middle].hex, hex) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < c->known_count && strcmp(c->known[low].hex, hex) == 0 ? c->known[low].name : NULL;
}

static sb_status judge_parameter(comparison *c, const sb_loaded_entry *e, sb_error *err)
{
    char text[700] = "";
    sb_status status = SB_OK;
    sb_loaded_verdict verdict = SB_LOADED_ok;
    const sb_loaded_param *p = e->param;
    if (!e->held.count && !e->held.raw) {
        if (e->held.lacks)
            snprintf(text, sizeof text, "no file has its part %s, or these rows of it",
                     SB_SHOW(e->held.lacks));
        else
            snprintf(text, sizeof text, "%s", p->is_buffer ? "a buffer" : "a parameter");
        return add_row(c, SB_LOADED_extra, p->name, NULL, p->is_buffer, text, err);
    }
    if (e->law == SB_LOADED_LAWS)
        verdict = sb_loaded_judge(whose(c, p->digest), e, text, sizeof text, &status, err);
    else if (sb_loaded_lost_bits(e, text, sizeof text, &status, err))
        verdict = SB_LOADED_dtype;
    if (e->one_zero && verdict == SB_LOADED_ok)
        snprintf(text, sizeof text, "equal except for the signs of zeros");
    if (status)
        return status;
    status = add_row(c, verdict, p->name,
                     e->law < SB_LOADED_LAWS && e->digests > 1 ? sb_law_name(sb_loaded_laws[e->law])
                                                               : NULL,
                     0, text, err);
    if (!status)
        c->out->rows[c->out->count - 1].one_zero = e->one_zero;
    return status;
}

/* --- the whole comparison --------------------------------------------------------------------- */

static int row_order(const void *a, const void *b)
{
    const sb_loaded_row *x = a, *y = b;
    if (x->verdict != y->verdict)
        return x->verdict < y->verdict ? -1 : 1;
    return strcmp(x->name, y->name);
}

static sb_status prepare(comparison *c, const sb_loaded_list *list, sb_error *err)
{
    const sb_units *u = &c->check->self.units;
    c->entries = sb_alloc(list->count + u->count + u->member_count, sizeof *c->entries);
    c->member_held = sb_alloc(u->member_count, 1);
    c->tensor_held = sb_alloc(sb_checkpoint_count(c->check->self.checkpoint), 1);
    if (!c->entries || !c->member_held || !c->tensor_held)
        return no_memory(err);
    sb_status status = SB_OK;
    for (; c->count < list->count && !status; c->count++) {
        sb_loaded_entry *e = &c->entries[c->count];
        e->param = &list->rows[c->count];
        e->name = e->param->name;
        status = sb_loaded_find(c->check, e->param, &e->held, err);
        if (!status)
            note_held(c, &e->held);
    }
    return status;
}

/* Reads dropped modules only if some parameter is wrong: the parameter may hold their values. */
static sb_status compare(comparison *c, sb_error *err)
{
    int strange = 0;
    sb_status status = expect_all(c, 0, c->count, err);
    for (size_t i = 0; i < c->count; i++)
        strange |= c->entries[i].law == SB_LOADED_LAWS && c->entries[i].digests;
    if (!status)
        status = find_dropped(c, err);
    if (!status && strange)
        status = expect_all(c, c->count, c->count + c->dropped, err);
    if (!status)
        status = list_digests(c, err);
    for (size_t i = 0; i < c->count && !status; i++)
        status = judge_parameter(c, &c->entries[i], err);
    return status;
}

sb_status sb_loaded_compare(const sb_check *check, const sb_loaded_list *list, const char *path,
                            sb_waivers *waivers, sb_loaded *out, sb_error *err)
{
    comparison c = {.check = check, .waivers = waivers, .out = out};
    *out = (sb_loaded){.path = path, .program = list->program, .parameters = list->count};
    sb_status status = prepare(&c, list, err);
    if (!status)
        status = compare(&c, err);
    if (!status && out->count)
        qsort(out->rows, out->count, sizeof *out->rows, row_order);
    for (size_t i = 0; i < c.count + c.dropped; i++)
        sb_held_values_free(&c.entries[i].held);
    free(c.entries);
    free(c.member_held);
    free(c.tensor_held);
    free(c.known);
    return status;
}

void sb_loaded_result_free(sb_loaded *loaded)
{
    for (size_t i = 0; i < loaded->count; i++) {
        free(loaded->rows[i].name);
        free(loaded->rows[i].message);
    }
    free(loaded->rows);
    *loaded = (sb_loaded){0};
}

int sb_loaded_bad(const sb_loaded *loaded)
{
    for (unsigned v = SB_LOADED_ok + 1; v < SB_LOADED_COUNT; v++)
        if (loaded->counts[v])
            return 1;
    return 0;
}
