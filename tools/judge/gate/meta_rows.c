/* meta_rows.c - batches of rows of a case. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/rng.h"
#include "tools/judge/gate/meta_parts.h"

const char *sb_gate_meta_name(sb_gate_meta_kind kind)
{
    static const char *const names[] = {"repeated", "surroundings", "alone",
                                        "permuted", "width",        "split"};
    return names[kind];
}

int sb_meta_is_row_array(const sb_gate_op *op, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = op->row_arrays; at && *at;) {
        size_t length = strcspn(at, ",");
        if (length == n && memcmp(at, name, n) == 0)
            return 1;
        at += length + (at[length] == ',');
    }
    return 0;
}

size_t sb_meta_rows(const sb_gate_case *c)
{
    for (size_t i = 0; i < c->arrays; i++)
        if (sb_meta_is_row_array(c->op, c->array[i].name) && c->array[i].rank)
            return (size_t)c->array[i].shape[0];
    return 0;
}

const char *sb_meta_why_not(const sb_gate_case *c)
{
    if (!sb_meta_rows(c))
        return "the op does not say which inputs have rows";
    return c->op->rows_independent ? NULL : "rows of this op depend on the rows before them";
}

/* --- lists of rows ---------------------------------------------------------------------------- */

static const size_t widths[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, SB_META_WIDEST};
enum { WIDTHS = sizeof widths / sizeof *widths, PERMUTATIONS = 3 };

static size_t cuts(size_t rows)
{
    return rows < 2 ? 0 : rows - 1 < SB_META_CUTS ? rows - 1 : SB_META_CUTS;
}

size_t sb_meta_variants(sb_gate_meta_kind kind, size_t rows)
{
    if (!rows)
        return 0;
    switch (kind) {
    case SB_GATE_META_alone:
        return rows < SB_META_ALONE ? rows : SB_META_ALONE;
    case SB_GATE_META_permuted:
        return rows > 1 ? PERMUTATIONS : 0;
    case SB_GATE_META_width:
        return WIDTHS;
    case SB_GATE_META_split:
        return 2 * cuts(rows);
    default:
        return 0;
    }
}

/* Permutation 0: reversed; 1: the last row first; others: random. */
static void permute(size_t which, size_t rows, size_t *out)
{
    uint64_t key = sb_rng_key(42, "permuted"), at = 0;
    for (size_t i = 0; i < rows; i++)
        out[i] = which == 0 ? rows - 1 - i : which == 1 ? (i + rows - 1) % rows : i;
    for (size_t i = rows; which == 2 && i > 1; i--) {
        size_t k = sb_rng_below(key, at++, (uint32_t)i), kept = out[i - 1];
        out[i - 1] = out[k];
        out[k] = kept;
    }
}

sb_status sb_meta_variant_at(sb_gate_meta_kind kind, size_t i, size_t rows, sb_meta_variant *out)
{
    size_t room = rows > SB_META_WIDEST ? rows : SB_META_WIDEST;
    size_t cut = kind == SB_GATE_META_split ? 1 + i / 2 * (rows - 1) / cuts(rows) : 0;
    *out = (sb_meta_variant){.rows = sb_alloc(room, sizeof(size_t)), .count = rows};
    if (!out->rows)
        return SB_ERR_MEMORY;
    size_t number = i, from = 0;
    if (kind == SB_GATE_META_alone) {
        from = i;
        out->count = 1;
    } else if (kind == SB_GATE_META_width) {
        number = out->count = widths[i];
    } else if (kind == SB_GATE_META_split) {
        from = i % 2 ? cut : 0;
        out->count = i % 2 ? rows - cut : cut;
        number = cut;
    }
    for (size_t r = 0; r < out->count; r++)
        out->rows[r] = (from + r) % rows;
    if (kind == SB_GATE_META_permuted)
        permute(i, rows, out->rows);
    snprintf(out->name, sizeof out->name, "%s-%zu%s", sb_gate_meta_name(kind), number,
             kind != SB_GATE_META_split ? ""
             : i % 2                    ? "-behind"
                                        : "-before");
    return SB_OK;
}

/* --- their cases ------------------------------------------------------------------------------ */

/* A scale that all rows share has one element, regardless of the names of its axes. */
static sb_status add_array(sb_gate_case *c, const sb_gate_array *from, size_t rows,
                           const sb_meta_variant *v)
{
    uint64_t shape[SB_GATE_RANK];
    int of_rows = sb_meta_is_row_array(c->op, from->name) && from->rank && from->shape[0] == rows;
    memcpy(shape, from->shape, sizeof shape);
    if (of_rows)
        shape[0] = v->count;
    sb_gate_array *a = sb_gate_add(c, from->name, from->dtype, from->axes, from->rank, shape);
    if (!a)
        return SB_ERR_MEMORY;
    size_t row = of_rows ? (size_t)(from->bytes / from->shape[0]) : 0;
    for (size_t i = 0; of_rows && i < v->count; i++)
        memcpy(a->data + i * row, from->data + v->rows[i] * row, row);
    if (!of_rows)
        memcpy(a->data, from->data, (size_t)from->bytes);
    return SB_OK;
}

sb_status sb_meta_derive(const sb_gate_case *c, const sb_meta_variant *v, sb_gate_case **out,
                         sb_error *err)
{
    sb_gate_case *d = sb_alloc(1, sizeof *d);
    *out = NULL;
    if (!d)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a case");
    *d = (sb_gate_case){
        .op = c->op, .format = c->format, .input = c->input, .regime = c->regime, .seed = c->seed};
    memcpy(d->size, c->size, sizeof d->size);
    for (size_t i = 0; i < c->op->param_count; i++)
        if (strcmp(c->op->params[i].name, "rows") == 0)
            d->size[i] = v->count;
    sb_status status = SB_OK;
    for (size_t i = 0; i < c->arrays && !status; i++)
        status = add_array(d, &c->array[i], sb_meta_rows(c), v);
    if (!status && c->op->refresh)
        status = c->op->refresh(d);
    if (!status)
        status = sb_gate_declare(d, err);
    else
        sb_fail(err, status, "out of memory for a case");
    if (status) {
        sb_gate_case_free(d);
        return status;
    }
    *out = d;
    return SB_OK;
}
