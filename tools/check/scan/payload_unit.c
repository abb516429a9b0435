/* payload_unit.c - one unit of the payload pass: scans its panels and makes its digests. */
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "ref/formats/format.h"
#include "tools/check/scan/extremes.h"
#include "tools/check/scan/payload_parts.h"
#include "tools/check/scan/scan.h"
#include "tools/check/scan/scan_columns.h"
#include "tools/check/scan/scan_fit.h"
#include "tools/check/scan/scan_floor.h"
#include "tools/check/scan/scan_scales.h"
#include "tools/check/scan/signs.h"

enum { SLICE = 1 << 20 }; /* bytes that are hashed at once */

/* State of one unit while it is read. */
typedef struct job {
    sb_worker *w;
    sb_unit *unit;
    sb_findings *findings;
    sb_zero_scan zeros;
    sb_mark_scan marks;
    sb_code_scan codes;
    sb_hash *hash;         /* hash of the codes, in the order in which they come */
    const sb_unit *master; /* the same layer or tensor of the original, or NULL */
    size_t piece;
} job;

sb_status sb_payload_no_memory(const char *name, sb_error *err)
{
    return sb_fail(err, SB_ERR_MEMORY, "out of memory while reading %s", SB_SHOW(name));
}

/* The part of the unit that a tensor is; 0 if the unit is one tensor. */
static unsigned part_of(const sb_unit *unit, const sb_tensor *t)
{
    unsigned p = 0;
    while (!unit->tensor && p + 1 < SB_PART_COUNT && unit->found.part[p] != t)
        p++;
    return p;
}

/* V-13: "column orders and shapes, which layers share" */
static int is_shared(const sb_unit *unit, unsigned part)
{
    return !unit->tensor &&
           (part == SB_PART_g_idx || part == SB_PART_weight_g_idx || part == SB_PART_weight_shape);
}

static void begin_marks(job *j, const sb_tensor *t, uint64_t offset)
{
    sb_unit *unit = j->unit;
    unsigned part = part_of(unit, t);
    int scales = !unit->tensor && part != SB_PART_weight && part != SB_PART_weight_packed &&
                 part != SB_PART_qweight;
    sb_mark_begin(&j->marks, &unit->marks, t, part, scales, offset,
                  is_shared(unit, part) ? UINT64_MAX : j->w->check->mark_mask);
}

/* V-36: "GPTQ's, AWQ's and compressed-tensors' codes" */
static void begin_codes(job *j, const sb_tensor *t)
{
    const sb_found *f = &j->unit->found;
    int ints = !j->unit->tensor && !j->unit->status && sb_container_has_words(f->container);
    int codes = ints && (t == f->part[SB_PART_qweight] || t == f->part[SB_PART_weight_packed]);
    sb_code_begin(&j->codes, &j->unit->codes, codes ? sb_format_bits(f->matrix.format) : 0,
                  t->bytes);
}

static void begin_tensor(job *j, const sb_tensor *t)
{
    uint64_t offset = sb_checkpoint_offset(j->w->check->self.checkpoint, t);
    begin_marks(j, t, offset);
    begin_codes(j, t);
    sb_zero_begin(&j->zeros, &j->unit->zeros, t, offset);
}

/* The next bytes of a tensor, for its digest and for checks 13 and 53. */
static void take_bytes(job *j, sb_hash *hash, const unsigned char *bytes, size_t count)
{
    sb_hash_bytes(hash, bytes, count);
    sb_zero_bytes(&j->zeros, bytes, count);
    sb_mark_bytes(&j->marks, bytes, count);
    sb_code_bytes(&j->codes, bytes, count);
    j->findings->lost |= j->zeros.lost || j->marks.lost;
}

static void scan(const sb_panel *panel)
{
    const sb_container container = panel->unit->found.container;
    if (panel->unit->tensor || container == SB_CONTAINER_plain) {
        sb_scan_plain(panel);
        return;
    }
    if (sb_container_is_fp4(container))
        sb_scan_fp4(panel);
    else if (sb_container_is_fp8(container))
        sb_scan_fp8(panel);
    else
        sb_scan_int(panel);
    if (sb_container_family(container) == SB_FAMILY_INT && sb_check_wanted(panel->check, 21))
        sb_scan_floor(panel);
    if (sb_check_wanted(panel->check, 55))
        sb_scan_fit(panel);
    if (sb_check_wanted(panel->check, 48))
        sb_scan_decoding(panel);
}

static sb_status grow_scratch(sb_worker *w, uint32_t cols, const char *name, sb_error *err)
{
    if (cols <= w->scratch_cols)
        return SB_OK;
    double *grown = sb_realloc(w->scratch, 2 * (size_t)cols, sizeof *grown);
    if (!grown)
        return sb_payload_no_memory(name, err);
    w->scratch = grown;
    unsigned char *columns = sb_realloc(w->columns, cols, 1);
    if (!columns)
        return sb_payload_no_memory(name, err);
    w->columns = columns;
    w->scratch_cols = cols;
    return SB_OK;
}

/* Compares bytes of codes where both sides store them alike, else values. */
static sb_status compare(job *j, const sb_panel *panel, const sb_matrix *whole, sb_error *err)
{
    sb_unit *unit = j->unit;
    const sb_matrix *own = &panel->matrix, *other = panel->master;
    if (unit->tensor || !other || !sb_matrix_quantized(own) || !sb_matrix_quantized(other))
        return SB_OK;
    unit->same.of_four |= sb_format_bits(other->format) <= 4;
    sb_model_part codes = sb_part_of(&unit->found, whole->data);
    int alike = codes < SB_PART_COUNT && sb_same_part(unit, j->master, codes);
    if (!alike && sb_same_family(own, other))
        return sb_same_values(panel, unit, (uint32_t)j->piece, err);
    if (!alike || !sb_is_sliced(own))
        return SB_OK;
    uint64_t row = sb_row_bytes(own);
    uint64_t at = (uint64_t)(whole->data - unit->found.part[codes]->data) +
                  ((uint64_t)whole->first_row + panel->first) * row;
    return sb_same_bytes(unit, codes, sb_format_bits(own->format), at,
                         own->data + own->first_row * row, other->data + other->first_row * row,
                         own->rows * row, err);
}

/* Scans all panels of one matrix. master and master_found describe the same matrix of the original,
 * or are NULL. */
static sb_status scan_matrix(job *j, const char *name, const sb_found *found,
                             const sb_matrix *whole, const sb_found *master_found,
                             const sb_matrix *master, sb_seen *seen, sb_error *err)
{
    sb_worker *w = j->w;
    sb_check *c = w->check;
    uint32_t step = sb_panel_rows(whole);
    sb_panel panel = {.check = c,
                      .unit = j->unit,
                      .name = name,
                      .rows = whole->rows,
                      .seen = seen,
                      .findings = j->findings};
    sb_matrix master_rows;
    if (master && (master->rows != whole->rows || master->cols != whole->cols))
        master = NULL;
    if (master && !sb_is_sliced(master))
        step = whole->rows; /* the original comes as one panel */
    sb_status status = grow_scratch(w, whole->cols, name, err);
    for (uint32_t first = 0; first < whole->rows && !status; first += step) {
        uint32_t rows = whole->rows - first < step ? whole->rows - first : step;
        status = sb_fetch_rows(w, c->self.checkpoint, name, found, whole, first, rows, OWN_SLOT,
                               &panel.matrix, err);
        if (!status && master)
            status = sb_fetch_rows(w, c->master.checkpoint, name, master_found, master, first, rows,
                                   MASTER_SLOT, &master_rows, err);
        if (status)
            break;
        if (j->hash && sb_is_sliced(whole))
            take_bytes(j, j->hash, panel.matrix.data + panel.matrix.first_row * sb_row_bytes(whole),
                       rows * sb_row_bytes(whole));
        if (sb_is_sliced(whole)) {
            sb_see_signs(&panel.matrix, seen);
            sb_see_extremes(&panel.matrix, seen);
        }
        panel.first = first;
        panel.last = first + rows == whole->rows;
        panel.master = master ? &master_rows : NULL;
        panel.scratch = w->scratch;
        status = compare(j, &panel, whole, err);
        if (!status)
            scan(&panel);
        if (!status && !j->unit->tensor && sb_check_wanted(c, 21))
            sb_scan_columns(&panel, w->columns);
        if (!status && !j->unit->tensor && sb_check_wanted(c, 54))
            sb_scan_scales(&panel);
    }
    seen->done = !status;
    seen->matched = master != NULL;
    return status;
}

/* The same matrix of the original, under any prefix, with experts stacked or not. */
static const sb_member *master_member(const sb_check *check, const char *name)
{
    const char *prefix = check->self.units.prefix;
    size_t n = strlen(prefix);
    if (!check->master.checkpoint)
        return NULL;
    return sb_member_plain(&check->master.units, strncmp(name, prefix, n) == 0 ? name + n : name);
}

static sb_status scan_one(job *j, const sb_piece *piece, sb_error *err)
{
    const sb_member *master = master_member(j->w->check, piece->name);
    if (master && sb_matrix_quantized(&piece->matrix) && sb_matrix_quantized(&master->matrix)) {
        sb_status status =
            sb_same_factors(j->unit, &piece->matrix.quant, &master->matrix.quant, err);
        if (status)
            return status;
    }
    return scan_matrix(j, piece->name, piece->found, &piece->matrix,
                       master ? &master->unit->found : NULL, master ? &master->matrix : NULL,
                       &j->unit->seen[j->piece], err);
}

static sb_status scan_piece(void *ctx, const sb_piece *piece, sb_error *err)
{
    job *j = ctx;
    sb_status status = scan_one(j, piece, err);
    j->piece++;
    return status;
}

/* Compares a part that is in memory as a whole with the same part of the original. */
static sb_status compare_part(job *j, unsigned p, const unsigned char *own, sb_error *err)
{
    const unsigned char *other;
    if (!sb_same_part(j->unit, j->master, p))
        return SB_OK;
    const sb_tensor *t = j->master->found.part[p];
    sb_status status = sb_reader_fetch(j->w->reader, j->w->check->master.checkpoint, t, 0, t->bytes,
                                       MASTER_SLOT + p, &other, err);
    j->w->bytes += status ? 0 : t->bytes;
    return status
               ? status
               : sb_same_bytes(j->unit, p, sb_dtype_bits(t->dtype), 0, own, other, t->bytes, err);
}

/* Reads and hashes every part as a whole, except rows of codes. */
static sb_status load_parts(job *j, sb_error *err)
{
    const sb_found *f = &j->unit->found;
    sb_model_part codes = sb_part_of(f, f->matrix.data);
    sb_status status = SB_OK;
    for (unsigned p = 0; p < SB_PART_COUNT && !status; p++) {
        const sb_tensor *t = f->part[p];
        const unsigned char *bytes;
        if (!t || (p == (unsigned)codes && sb_is_sliced(&f->matrix)))
            continue;
        status = sb_reader_fetch(j->w->reader, j->w->check->self.checkpoint, t, 0, t->bytes,
                                 OWN_SLOT + p, &bytes, err);
        if (status)
            break;
        sb_hash *hash = sb_hash_new();
        if (!hash)
            return sb_payload_no_memory(j->unit->name, err);
        begin_tensor(j, t);
        take_bytes(j, hash, bytes, (size_t)t->bytes);
        j->unit->digest[p] = sb_hash_end(hash);
        sb_hash_free(hash);
        j->w->bytes += t->bytes;
        status = compare_part(j, p, bytes, err);
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
    sb_model_part codes = sb_part_of(&unit->found, unit->found.matrix.data);
    int sliced = sb_is_sliced(&unit->found.matrix);
    sb_status status = load_parts(j, err);
    j->hash = status || !sliced ? NULL : sb_hash_new();
    if (!status && sliced && !j->hash)
        status = sb_payload_no_memory(unit->name, err);
    if (!status && sliced && codes < SB_PART_COUNT)
        begin_tensor(j, unit->found.part[codes]);
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

/* Hashes a tensor whose values cannot be read, and compares its bytes. */
static sb_status hash_tensor(job *j, const sb_tensor *t, sb_digest *digest, const sb_tensor *other,
                             sb_error *err)
{
    const unsigned char *bytes, *others;
    if (other && (other->dtype != t->dtype || other->bytes != t->bytes))
        other = NULL;
    sb_status status = SB_OK;
    sb_hash *hash = sb_hash_new();
    if (!hash)
        return sb_payload_no_memory(t->name, err);
    begin_tensor(j, t);
    for (uint64_t at = 0; at < t->bytes && !status; at += SLICE) {
        uint64_t n = t->bytes - at < SLICE ? t->bytes - at : SLICE;
        status = sb_reader_fetch(j->w->reader, j->w->check->self.checkpoint, t, at, n, CODES_SLOT,
                                 &bytes, err);
        if (!status)
            take_bytes(j, hash, bytes, (size_t)n);
        if (!status && other)
            status = sb_reader_fetch(j->w->reader, j->w->check->master.checkpoint, other, at, n,
                                     OTHER_SLOT, &others, err);
        if (!status && other)
            status = sb_same_bytes(j->unit, 0, sb_dtype_bits(t->dtype), at, bytes, others, n, err);
    }
    *digest = sb_hash_end(hash);
    sb_hash_free(hash);
    j->w->bytes += t->bytes;
    sb_reader_done(j->w->reader, t);
    return status;
}

const sb_unit *sb_master_unit(const sb_check *check, const sb_unit *unit)
{
    char name[SB_MAX_TENSOR_NAME + 32];
    const sb_units *u = &check->master.units;
    if (!check->master.checkpoint)
        return NULL;
    int bare = unit->region != SB_REGION_trunk || strncmp(unit->plain, "lm_head.", 8) == 0;
    snprintf(name, sizeof name, "%s%s", bare ? "" : u->prefix, unit->plain);
    return sb_unit_named(u, name);
}

static sb_status read_single(job *j, sb_error *err)
{
    const sb_tensor *t = j->unit->tensor;
    sb_matrix own, other;
    const sb_unit *master = j->master;
    sb_found found = {.part = {[0] = t}}, master_found = {0};
    if (!sb_tensor_matrix(t, &own))
        return hash_tensor(j, t, &j->unit->digest[0],
                           master && master->tensor ? master->tensor : NULL, err);
    int has = master && master->tensor && sb_tensor_matrix(master->tensor, &other);
    if (has)
        master_found.part[0] = master->tensor;
    j->unit->seen->rows = own.rows;
    j->unit->seen->cols = own.cols;
    j->hash = sb_hash_new();
    if (!j->hash)
        return sb_payload_no_memory(t->name, err);
    begin_tensor(j, t);
    sb_status status = scan_matrix(j, j->unit->name, &found, &own, has ? &master_found : NULL,
                                   has ? &other : NULL, j->unit->seen, err);
    j->unit->digest[0] = sb_hash_end(j->hash);
    sb_hash_free(j->hash);
    sb_reader_done(j->w->reader, t);
    return status;
}

/* A layer that cannot be read: only hashes its tensors. */
static sb_status read_broken(job *j, sb_error *err)
{
    sb_status status = SB_OK;
    for (unsigned p = 0; p < SB_PART_COUNT && !status; p++)
        if (j->unit->found.part[p])
            status = hash_tensor(j, j->unit->found.part[p], &j->unit->digest[p], NULL, err);
    return status;
}

sb_status sb_read_unit(sb_worker *w, sb_unit *unit, sb_findings *findings, sb_error *err)
{
    job j = {.w = w, .unit = unit, .findings = findings, .master = sb_master_unit(w->check, unit)};
    if (unit->tensor)
        return read_single(&j, err);
    return unit->status || unit->found.container == SB_CONTAINER_COUNT ? read_broken(&j, err)
                                                                       : read_layer(&j, err);
}
