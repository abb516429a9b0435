#include "tools/check/scan/payload.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "tools/check/scan/payload_parts.h"

enum { LARGE = 32 }; /* a unit with more than this part of all bytes is large */

typedef struct place {
    int small;
    uint32_t shard;
    uint64_t offset;
    size_t unit;
} place;

/* Large units come first: a thread that began one last would keep all others waiting. The rest is
 * read from the first file to the last. */
static int place_order(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->small != y->small)
        return x->small - y->small;
    if (x->shard != y->shard)
        return x->shard < y->shard ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static place place_of(const sb_check *check, size_t i)
{
    const sb_unit *unit = &check->self.units.rows[i];
    const sb_tensor *t = unit->tensor;
    for (unsigned p = 0; p < SB_PART_COUNT; p++)
        if (unit->found.part[p] && (!t || unit->found.part[p]->bytes > t->bytes))
            t = unit->found.part[p];
    return t ? (place){1, t->shard, sb_checkpoint_offset(check->self.checkpoint, t), i}
             : (place){1, 0, 0, i};
}

typedef struct run {
    sb_check *check;
    place *order;
    sb_source *own, *other; /* NULL without an original */
    sb_findings *findings;  /* per unit */
    sb_worker *workers;     /* one per thread */
    _Atomic uint64_t done;  /* bytes of the checkpoint itself */
    uint64_t total;
    pthread_mutex_t lock; /* protects the members below */
    size_t failed;        /* position of the first unit that failed, or the number of units */
    sb_status status;
    sb_error why;
} run;

/* The number of rows and pages of a unit for check 13, before any are left out. */
static uint64_t unit_marks(const sb_unit *unit)
{
    uint64_t marks = unit->tensor ? sb_mark_most(unit->tensor) : 0;
    for (unsigned p = 0; p < SB_PART_COUNT; p++)
        marks += unit->found.part[p] ? sb_mark_most(unit->found.part[p]) : 0;
    return marks;
}

/* Reads one unit. A thread opens its reader for its first unit. */
static void one_unit(void *ctx, size_t at, size_t worker)
{
    run *r = ctx;
    sb_worker *w = &r->workers[worker];
    sb_unit *unit = &r->check->self.units.rows[r->order[at].unit];
    const sb_check_options *options = r->check->options;
    sb_error err;
    if (!w->reader)
        w->reader = sb_reader_new(r->own, r->other);
    w->check = r->check;
    sb_status status = w->reader ? sb_read_unit(w, unit, &r->findings[r->order[at].unit], &err)
                                 : sb_payload_no_memory(unit->name, &err);
    const uint64_t bytes = sb_unit_bytes(unit), done = atomic_fetch_add(&r->done, bytes) + bytes;
    if (options->progress && worker == 0 && done < r->total)
        options->progress(options->progress_ctx, "check", done, r->total);
    if (!status)
        return;
    pthread_mutex_lock(&r->lock);
    if (at < r->failed) {
        r->failed = at;
        r->status = status;
        r->why = err;
    }
    pthread_mutex_unlock(&r->lock);
}

static void all_units(run *r)
{
    const size_t threads = sb_threads();
    r->check->bytes_read = 0;
    sb_parallel_in_order(r->check->self.units.count, 1, one_unit, r);
    for (size_t i = 0; i < threads; i++) {
        sb_worker *w = &r->workers[i];
        r->check->bytes_read += w->bytes;
        if (w->reader)
            sb_reader_free(w->reader);
        free(w->scratch);
        free(w->columns);
    }
}

static sb_status start(run *r, sb_error *err)
{
    sb_check *check = r->check;
    size_t count = r->failed;
    r->order = sb_alloc(count, sizeof *r->order);
    r->findings = sb_alloc(count, sizeof *r->findings);
    r->workers = sb_alloc(sb_threads(), sizeof *r->workers);
    if (!r->order || !r->findings || !r->workers)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu units", count);
    uint64_t marks = 0;
    for (size_t i = 0; i < count; i++) {
        r->order[i] = place_of(check, i);
        marks += unit_marks(&check->self.units.rows[i]);
        r->total += sb_unit_bytes(&check->self.units.rows[i]);
    }
    for (size_t i = 0; i < count; i++)
        r->order[i].small = sb_unit_bytes(&check->self.units.rows[i]) <= r->total / LARGE;
    check->mark_mask = sb_mark_mask(marks);
    if (count)
        qsort(r->order, count, sizeof *r->order, place_order);
    sb_status status = sb_source_new(check->self.checkpoint, check->options->io, &r->own, err);
    if (!status && check->master.checkpoint)
        status = sb_source_new(check->master.checkpoint, check->options->io, &r->other, err);
    return status;
}

static void finish(run *r)
{
    for (size_t i = 0; r->findings && i < r->check->self.units.count; i++)
        sb_findings_move(&r->check->findings, &r->findings[i]);
    sb_source_free(r->own);
    sb_source_free(r->other);
    free(r->order);
    free(r->findings);
    free(r->workers);
}

sb_status sb_check_payload(sb_check *check, sb_error *err)
{
    run r = {.check = check, .lock = PTHREAD_MUTEX_INITIALIZER, .failed = check->self.units.count};
    const sb_check_options *o = check->options;
    sb_status status = start(&r, err);
    if (!status) {
        all_units(&r);
        status = r.status ? sb_fail(err, r.status, "%s", r.why.text) : SB_OK;
        if (o->progress)
            o->progress(o->progress_ctx, "check", r.total, r.total);
    }
    finish(&r);
    return status;
}
