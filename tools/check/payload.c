#include "tools/check/payload.h"

#include <inttypes.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "ref/model/probe.h"
#include "tools/check/reader.h"
#include "tools/check/scan.h"

/* Elements of a panel: the codes, the original's BF16 and two rows of doubles stay in the cache. */
enum { PANEL = 1 << 19, SLICE = 1 << 20 };

/* Slots of the reader: the parts of the unit, those of its original, and the codes of both. */
enum { OWN_SLOT = 0, MASTER_SLOT = SB_PART_COUNT, CODES_SLOT = 2 * SB_PART_COUNT };

/* What one thread works with. */
typedef struct worker {
    sb_check *check;
    sb_reader *reader;
    double *scratch;
    size_t scratch_cols;
    uint64_t bytes;
} worker;

/* One unit while it is read. */
typedef struct job {
    worker *w;
    sb_unit *unit;
    sb_findings *findings;
    const unsigned char *own[SB_PART_COUNT]; /* parts that are in memory as a whole */
    sb_hash *hash;                           /* of the codes, as they come */
    uint64_t hashed;
    size_t piece;
} job;

static sb_status no_memory(const char *name, sb_error *err)
{
    return sb_fail(err, SB_ERR_MEMORY, "out of memory while reading %s", SB_SHOW(name));
}

/* Which part of a layer holds the byte; SB_PART_COUNT: none. */
static sb_part part_of(const sb_found *found, const unsigned char *byte)
{
    for (unsigned p = 0; p < SB_PART_COUNT && byte; p++)
        if (found->part[p] && byte >= found->part[p]->data &&
            byte < found->part[p]->data + found->part[p]->bytes)
            return (sb_part)p;
    return SB_PART_COUNT;
}

/* Only rows that lie one after the other come in panels. */
static int is_sliced(const sb_matrix *m)
{
    return m->quant.packing == SB_PACKING_rows;
}

static uint64_t row_bytes(const sb_matrix *m)
{
    return (uint64_t)m->cols * sb_format_bits(m->format) / 8;
}

/* Rows that share a scale, or a word of zero points: panels begin where such rows do. What all rows
 * of a matrix share binds nothing. */
static uint32_t shared_rows(const sb_matrix *m)
{
    const sb_quant *q = &m->quant;
    uint32_t block = q->scales && q->block_rows < q->stored_rows ? q->block_rows : 1;
    uint32_t word = m->quant.zeros == SB_ZEROS_rows ? 32 / sb_format_bits(m->format) : 1;
    return block > word ? block : word;
}

static uint32_t panel_rows(const sb_matrix *m)
{
    uint32_t block = shared_rows(m);
    uint32_t rows = m->cols ? PANEL / m->cols : 1;
    if (!is_sliced(m))
        return m->rows;
    rows = rows / block * block;
    return rows ? rows : block;
}

/* The pointer into a part, moved to where the part is in memory. */
static sb_status move_whole(worker *w, const sb_checkpoint *checkpoint, const sb_found *found,
                            unsigned slot, const unsigned char **byte, sb_error *err)
{
    sb_part part = part_of(found, *byte);
    const unsigned char *bytes;
    if (part == SB_PART_COUNT)
        return SB_OK;
    const sb_tensor *t = found->part[part];
    sb_status status =
        sb_reader_fetch(w->reader, checkpoint, t, 0, t->bytes, slot + part, &bytes, err);
    if (!status)
        *byte = bytes + (*byte - t->data);
    return status;
}

/* Rows first .. first + rows - 1 of a matrix of a layer, in memory. */
static sb_status fetch_rows(worker *w, const sb_checkpoint *checkpoint, const sb_found *found,
                            const sb_matrix *whole, uint32_t first, uint32_t rows, unsigned slot,
                            sb_matrix *out, sb_error *err)
{
    sb_quant *q = &out->quant;
    *out = *whole;
    out->rows = rows;
    sb_status status = move_whole(w, checkpoint, found, slot, &q->scales, err);
    if (!status)
        status = move_whole(w, checkpoint, found, slot, &q->zero_points, err);
    if (!status)
        status = move_whole(w, checkpoint, found, slot, &q->group_index, err);
    if (status || !is_sliced(whole))
        return status ? status : move_whole(w, checkpoint, found, slot, &out->data, err);
    sb_part part = part_of(found, whole->data);
    if (part == SB_PART_COUNT)
        return sb_fail(err, SB_ERR_INPUT, "%s: has no bytes", SB_SHOW(found->part[0]->name));
    const sb_tensor *t = found->part[part];
    uint64_t start = whole->first_row + (uint64_t)first;
    /* a piece of a stack may begin inside a block of rows: then from that block on */
    uint32_t inside = (uint32_t)(start % shared_rows(whole));
    uint64_t at = (uint64_t)(whole->data - t->data) + (start - inside) * row_bytes(whole);
    status = sb_reader_fetch(w->reader, checkpoint, t, at, (rows + inside) * row_bytes(whole),
                             CODES_SLOT + (slot == MASTER_SLOT), &out->data, err);
    out->first_row = inside;
    if (q->scales && q->block_rows)
        q->scales +=
            (start - inside) / q->block_rows * q->scale_row * (sb_format_bits(q->scale_format) / 8);
    if (q->zeros == SB_ZEROS_rows) /* 4 bytes for 32 / bits rows of a group */
        q->zero_points += (start - inside) * sb_format_bits(whole->format) / 8 * q->groups;
    w->bytes += rows * row_bytes(whole);
    return status;
}

static void scan(const sb_panel *panel)
{
    switch (panel->unit->tensor ? SB_CONTAINER_plain : panel->unit->found.container) {
    case SB_CONTAINER_plain:
        sb_scan_plain(panel);
        return;
    case SB_CONTAINER_nvfp4_ct:
    case SB_CONTAINER_nvfp4_modelopt:
    case SB_CONTAINER_mxfp4:
        sb_scan_fp4(panel);
        break;
    case SB_CONTAINER_mxfp8:
    case SB_CONTAINER_fp8_block:
    case SB_CONTAINER_fp8_block_ct:
    case SB_CONTAINER_fp8_channel:
    case SB_CONTAINER_fp8_tensor:
        sb_scan_fp8(panel);
        break;
    default:
        sb_scan_int(panel);
    }
    if (sb_check_wanted(panel->check, 48))
        sb_scan_decoding(panel);
}

static sb_status grow_scratch(worker *w, uint32_t cols, const char *name, sb_error *err)
{
    if (cols <= w->scratch_cols)
        return SB_OK;
    double *grown = sb_realloc(w->scratch, 2 * (size_t)cols, sizeof *grown);
    if (!grown)
        return no_memory(name, err);
    w->scratch = grown;
    w->scratch_cols = cols;
    return SB_OK;
}

/* All panels of one matrix; master_of is NULL or what the same matrix is in the original. */
static sb_status scan_matrix(job *j, const char *name, const sb_found *found,
                             const sb_matrix *whole, const sb_found *master_found,
                             const sb_matrix *master, sb_seen *seen, sb_error *err)
{
    worker *w = j->w;
    sb_check *c = w->check;
    uint32_t step = panel_rows(whole);
    sb_panel panel = {.check = c,
                      .unit = j->unit,
                      .name = name,
                      .rows = whole->rows,
                      .seen = seen,
                      .findings = j->findings};
    sb_matrix master_rows;
    if (master && (master->rows != whole->rows || master->cols != whole->cols ||
                   (!is_sliced(master) && step < whole->rows)))
        master = NULL;
    sb_status status = grow_scratch(w, whole->cols, name, err);
    for (uint32_t first = 0; first < whole->rows && !status; first += step) {
        uint32_t rows = whole->rows - first < step ? whole->rows - first : step;
        status = fetch_rows(w, c->self.checkpoint, found, whole, first, rows, OWN_SLOT,
                            &panel.matrix, err);
        if (!status && master)
            status = fetch_rows(w, c->master.checkpoint, master_found, master, first, rows,
                                MASTER_SLOT, &master_rows, err);
        if (status)
            break;
        if (j->hash && is_sliced(whole))
            sb_hash_bytes(j->hash, panel.matrix.data + panel.matrix.first_row * row_bytes(whole),
                          rows * row_bytes(whole));
        panel.first = first;
        panel.last = first + rows == whole->rows;
        panel.master = master ? &master_rows : NULL;
        panel.scratch = w->scratch;
        scan(&panel);
    }
    seen->done = !status;
    return status;
}

/* The same matrix in the original, under any prefix and any storage of experts. */
static const sb_member *master_member(const sb_check *check, const char *name)
{
    const char *prefix = check->self.units.prefix;
    size_t n = strlen(prefix);
    if (!check->master.checkpoint)
        return NULL;
    return sb_member_plain(&check->master.units, strncmp(name, prefix, n) == 0 ? name + n : name);
}

static sb_status scan_piece(void *ctx, const sb_piece *piece, sb_error *err)
{
    job *j = ctx;
    const sb_member *master = master_member(j->w->check, piece->name);
    return scan_matrix(j, piece->name, piece->found, &piece->matrix,
                       master ? &master->unit->found : NULL, master ? &master->matrix : NULL,
                       &j->unit->seen[j->piece++], err);
}

/* Everything but rows of codes is read as a whole, and hashed so. */
static sb_status load_parts(job *j, sb_error *err)
{
    const sb_found *f = &j->unit->found;
    sb_part codes = part_of(f, f->matrix.data);
    sb_status status = SB_OK;
    for (unsigned p = 0; p < SB_PART_COUNT && !status; p++) {
        const sb_tensor *t = f->part[p];
        if (!t || (p == (unsigned)codes && is_sliced(&f->matrix)))
            continue;
        status = sb_reader_fetch(j->w->reader, j->w->check->self.checkpoint, t, 0, t->bytes,
                                 OWN_SLOT + p, &j->own[p], err);
        if (status)
            break;
        sb_hash *hash = sb_hash_new();
        if (!hash)
            return no_memory(j->unit->name, err);
        sb_hash_bytes(hash, j->own[p], (size_t)t->bytes);
        j->unit->digest[p] = sb_hash_end(hash);
        sb_hash_free(hash);
        j->w->bytes += t->bytes;
    }
    return status;
}

static void parts_done(job *j)
{
    const sb_found *f = &j->unit->found;
    for (unsigned p = 0; p < SB_PART_COUNT; p++)
        if (f->part[p])
            sb_reader_done(j->w->reader, f->part[p]);
}

static sb_status read_layer(job *j, sb_error *err)
{
    sb_unit *unit = j->unit;
    sb_part codes = part_of(&unit->found, unit->found.matrix.data);
    int sliced = is_sliced(&unit->found.matrix);
    sb_status status = load_parts(j, err);
    j->hash = status || !sliced ? NULL : sb_hash_new();
    if (!status && sliced && !j->hash)
        status = no_memory(unit->name, err);
    if (!status)
        status = sb_each_piece(j->w->check->self.checkpoint, unit->name, &unit->found, scan_piece,
                               j, err);
    if (!status && sliced && codes < SB_PART_COUNT)
        unit->digest[codes] = sb_hash_end(j->hash);
    if (j->hash)
        sb_hash_free(j->hash);
    parts_done(j);
    return status;
}

/* The bytes of a tensor that nothing can be read out of. */
static sb_status hash_tensor(job *j, const sb_tensor *t, sb_digest *digest, sb_error *err)
{
    const unsigned char *bytes;
    sb_status status = SB_OK;
    sb_hash *hash = sb_hash_new();
    if (!hash)
        return no_memory(t->name, err);
    for (uint64_t at = 0; at < t->bytes && !status; at += SLICE) {
        uint64_t n = t->bytes - at < SLICE ? t->bytes - at : SLICE;
        status = sb_reader_fetch(j->w->reader, j->w->check->self.checkpoint, t, at, n, CODES_SLOT,
                                 &bytes, err);
        if (!status)
            sb_hash_bytes(hash, bytes, (size_t)n);
    }
    *digest = sb_hash_end(hash);
    sb_hash_free(hash);
    j->w->bytes += t->bytes;
    sb_reader_done(j->w->reader, t);
    return status;
}

/* A tensor as a matrix: its last dimension along the rows. 0 if it holds no floats. */
static int tensor_matrix(const sb_tensor *t, sb_matrix *m)
{
    sb_format format;
    if (!sb_plain_format(t->dtype, &format) || t->bytes == 0)
        return 0;
    uint64_t cols = t->rank ? t->shape[t->rank - 1] : 1;
    uint64_t rows = t->bytes / sb_format_bytes(format) / cols;
    if (rows > UINT32_MAX || cols > UINT32_MAX / 2)
        return 0;
    *m = (sb_matrix){
        .data = t->data, .format = format, .rows = (uint32_t)rows, .cols = (uint32_t)cols};
    return 1;
}

const sb_unit *sb_master_unit(const sb_check *check, const sb_unit *unit)
{
    char name[SB_MAX_TENSOR_NAME + 32];
    const sb_units *u = &check->master.units;
    if (!check->master.checkpoint)
        return NULL;
    int bare = unit->place != SB_PLACE_trunk || strncmp(unit->plain, "lm_head.", 8) == 0;
    snprintf(name, sizeof name, "%s%s", bare ? "" : u->prefix, unit->plain);
    return sb_unit_named(u, name);
}

static sb_status read_single(job *j, sb_error *err)
{
    const sb_tensor *t = j->unit->tensor;
    sb_matrix own, other;
    const sb_unit *master = sb_master_unit(j->w->check, j->unit);
    sb_found found = {.part = {[0] = t}}, master_found = {0};
    if (!tensor_matrix(t, &own))
        return hash_tensor(j, t, &j->unit->digest[0], err);
    int has = master && master->tensor && tensor_matrix(master->tensor, &other);
    if (has)
        master_found.part[0] = master->tensor;
    j->unit->seen->rows = own.rows;
    j->unit->seen->cols = own.cols;
    j->hash = sb_hash_new();
    if (!j->hash)
        return no_memory(t->name, err);
    sb_status status = scan_matrix(j, j->unit->name, &found, &own, has ? &master_found : NULL,
                                   has ? &other : NULL, j->unit->seen, err);
    j->unit->digest[0] = sb_hash_end(j->hash);
    sb_hash_free(j->hash);
    sb_reader_done(j->w->reader, t);
    return status;
}

/* A layer that cannot be read: its tensors are hashed all the same. */
static sb_status read_broken(job *j, sb_error *err)
{
    sb_status status = SB_OK;
    for (unsigned p = 0; p < SB_PART_COUNT && !status; p++)
        if (j->unit->found.part[p])
            status = hash_tensor(j, j->unit->found.part[p], &j->unit->digest[p], err);
    return status;
}

static sb_status read_unit(worker *w, sb_unit *unit, sb_findings *findings, sb_error *err)
{
    job j = {.w = w, .unit = unit, .findings = findings};
    if (unit->tensor)
        return read_single(&j, err);
    return unit->status || unit->found.container == SB_CONTAINER_COUNT ? read_broken(&j, err)
                                                                       : read_layer(&j, err);
}

/* --- the order of work ------------------------------------------------------------------------ */

typedef struct place {
    uint32_t shard;
    uint64_t offset;
    size_t unit;
} place;

static int place_order(const void *a, const void *b)
{
    const place *x = a, *y = b;
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
    return t ? (place){t->shard, sb_checkpoint_offset(check->self.checkpoint, t), i}
             : (place){0, 0, i};
}

typedef struct run {
    sb_check *check;
    place *order;
    sb_source *own, *other; /* NULL without an original */
    sb_findings *findings;  /* per unit */
    uint64_t done, total;   /* bytes of the checkpoint itself */
    size_t failed;          /* position of the first unit that failed, or the number of units */
    sb_status status;
    sb_error why;
} run;

static uint64_t unit_bytes(const sb_unit *unit)
{
    uint64_t bytes = unit->tensor ? unit->tensor->bytes : 0;
    for (unsigned p = 0; p < SB_PART_COUNT; p++)
        bytes += unit->found.part[p] ? unit->found.part[p]->bytes : 0;
    return bytes;
}

static void one_unit(run *r, worker *w, size_t at)
{
    sb_unit *unit = &r->check->self.units.rows[r->order[at].unit];
    const sb_check_options *options = r->check->options;
    sb_error err;
    sb_status status = w->reader ? read_unit(w, unit, &r->findings[r->order[at].unit], &err)
                                 : no_memory(unit->name, &err);
    uint64_t done;
#pragma omp atomic capture
    done = r->done += unit_bytes(unit);
    if (options->progress && omp_get_thread_num() == 0 && done < r->total)
        options->progress(options->progress_ctx, "check", done, r->total);
    if (!status)
        return;
#pragma omp critical(sb_check_failed)
    if (at < r->failed) {
        r->failed = at;
        r->status = status;
        r->why = err;
    }
}

static void all_units(run *r)
{
    size_t count = r->check->self.units.count;
    uint64_t bytes = 0;
#pragma omp parallel reduction(+ : bytes)
    {
        worker w = {.check = r->check, .reader = sb_reader_new(r->own, r->other)};
#pragma omp for schedule(dynamic, 1)
        for (size_t at = 0; at < count; at++)
            one_unit(r, &w, at);
        bytes += w.bytes;
        sb_reader_free(w.reader);
        free(w.scratch);
    }
    r->check->bytes_read = bytes;
}

static sb_status start(run *r, sb_error *err)
{
    sb_check *check = r->check;
    size_t count = r->failed;
    r->order = sb_alloc(count, sizeof *r->order);
    r->findings = sb_alloc(count, sizeof *r->findings);
    if (!r->order || !r->findings)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu units", count);
    for (size_t i = 0; i < count; i++) {
        r->order[i] = place_of(check, i);
        r->total += unit_bytes(&check->self.units.rows[i]);
    }
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
}

sb_status sb_check_payload(sb_check *check, sb_error *err)
{
    run r = {.check = check, .failed = check->self.units.count};
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
