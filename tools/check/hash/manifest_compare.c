/* manifest_compare.c - compares two sorted lists in one pass. */
#include <string.h>

#include "ref/base/mem.h"
#include "tools/check/hash/manifest.h"

const char *sb_difference_name(const sb_difference *difference)
{
    static const char *const names[] = {"differs", "missing", "extra"};
    return names[difference->kind];
}

static sb_status add(sb_differences *out, int kind, const char *name, const char *what,
                     sb_error *err)
{
    sb_difference *grown = sb_grow(out->rows, out->count, &out->room, sizeof *grown);
    if (!grown)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu differences", out->count + 1);
    out->rows = grown;
    sb_difference *row = &out->rows[out->count++];
    row->kind = kind == SB_MANIFEST_DIFFERS   ? SB_MANIFEST_DIFFERS
                : kind == SB_MANIFEST_MISSING ? SB_MANIFEST_MISSING
                                              : SB_MANIFEST_EXTRA;
    row->name = name;
    row->what = what;
    return SB_OK;
}

static const char *tensor_change(const sb_manifest_tensor *a, const sb_manifest_tensor *b)
{
    if (a->dtype != b->dtype)
        return "dtype";
    if (a->rank != b->rank || memcmp(a->shape, b->shape, sizeof a->shape) != 0)
        return "shape";
    return strcmp(a->digest.hex, b->digest.hex) != 0 ? "bytes" : NULL;
}

static sb_status compare_tensors(const sb_manifest *now, const sb_manifest *then, int by_values,
                                 sb_differences *out, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t i = 0, k = 0; (i < now->tensor_count || k < then->tensor_count) && !status;) {
        const sb_manifest_tensor *a = i < now->tensor_count ? &now->tensors[i] : NULL;
        const sb_manifest_tensor *b = k < then->tensor_count ? &then->tensors[k] : NULL;
        if (by_values && a && a->in_layer) {
            i++;
            continue;
        }
        if (by_values && b && b->in_layer) {
            k++;
            continue;
        }
        int order = !a ? 1 : !b ? -1 : strcmp(a->name, b->name);
        const char *what = order == 0 ? tensor_change(a, b) : NULL;
        if (order < 0)
            status = add(out, SB_MANIFEST_EXTRA, a->name, "tensor", err);
        else if (order > 0)
            status = add(out, SB_MANIFEST_MISSING, b->name, "tensor", err);
        else if (what)
            status = add(out, SB_MANIFEST_DIFFERS, a->name, what, err);
        i += order <= 0;
        k += order >= 0;
    }
    return status;
}

/* Exact values may differ between two dialects of one layer, but not within one dialect. There they
 * tell apart two multipliers with the same RN(1/m). */
static const char *value_change(const sb_manifest_value *a, const sb_manifest_value *b)
{
    if (strcmp(a->divisor, b->divisor) != 0)
        return "divisor";
    if (strcmp(a->values.hex, b->values.hex) != 0)
        return "values";
    if (strcmp(a->input, b->input) != 0)
        return "divisor of the inputs";
    int same_dialect = strcmp(a->container, b->container) == 0;
    return same_dialect && strcmp(a->exact.hex, b->exact.hex) != 0 ? "exact values" : NULL;
}

static sb_status compare_values(const sb_manifest *now, const sb_manifest *then,
                                sb_differences *out, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t i = 0, k = 0; (i < now->value_count || k < then->value_count) && !status;) {
        const sb_manifest_value *a = i < now->value_count ? &now->values[i] : NULL;
        const sb_manifest_value *b = k < then->value_count ? &then->values[k] : NULL;
        int order = !a ? 1 : !b ? -1 : strcmp(a->name, b->name);
        const char *what = order == 0 ? value_change(a, b) : NULL;
        if (order < 0)
            status = add(out, SB_MANIFEST_EXTRA, a->name, "layer", err);
        else if (order > 0)
            status = add(out, SB_MANIFEST_MISSING, b->name, "layer", err);
        else if (what)
            status = add(out, SB_MANIFEST_DIFFERS, a->name, what, err);
        i += order <= 0;
        k += order >= 0;
    }
    return status;
}

sb_status sb_manifest_compare(const sb_manifest *now, const sb_manifest *then, int by_values,
                              sb_differences *out, sb_error *err)
{
    *out = (sb_differences){0};
    sb_status status = compare_tensors(now, then, by_values, out, err);
    if (!status && by_values)
        status = compare_values(now, then, out, err);
    return status;
}
