#include "tools/dump/arrays.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "ref/formats/format.h"
#include "tools/dump/dump.h"

/* --- types ------------------------------------------------------------------------------------ */

static int format_of(sb_dtype dtype, sb_format *out)
{
    static const struct {
        sb_dtype dtype;
        sb_format format;
    } table[] = {{SB_DTYPE_F32, SB_FORMAT_f32},
                 {SB_DTYPE_F16, SB_FORMAT_f16},
                 {SB_DTYPE_BF16, SB_FORMAT_bf16},
                 {SB_DTYPE_F8_E4M3, SB_FORMAT_e4m3},
                 {SB_DTYPE_F8_E5M2, SB_FORMAT_e5m2}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].dtype == dtype) {
            *out = table[i].format;
            return 1;
        }
    return 0;
}

int sb_dump_is_number(sb_dtype dtype)
{
    sb_format format;
    return dtype == SB_DTYPE_F64 || format_of(dtype, &format);
}

static int is_signed(sb_dtype dtype)
{
    return dtype == SB_DTYPE_I8 || dtype == SB_DTYPE_I16 || dtype == SB_DTYPE_I32 ||
           dtype == SB_DTYPE_I64;
}

int sb_dump_is_integer(sb_dtype dtype)
{
    return is_signed(dtype) || dtype == SB_DTYPE_U8 || dtype == SB_DTYPE_U16 ||
           dtype == SB_DTYPE_U32 || dtype == SB_DTYPE_U64;
}

uint64_t sb_dump_integer(sb_dtype dtype, const unsigned char *bytes, int *negative)
{
    unsigned bits = sb_dtype_bits(dtype);
    uint64_t value = bits == 8    ? bytes[0]
                     : bits == 16 ? sb_load_u16(bytes)
                     : bits == 32 ? sb_load_u32(bytes)
                                  : sb_load_u64(bytes);
    *negative = is_signed(dtype) && value >> (bits - 1);
    return value;
}

long long sb_dump_decode(sb_dtype dtype, const unsigned char *bytes, size_t count, float *out)
{
    sb_format format;
    unsigned size = sb_dtype_bits(dtype) / 8;
    if (format_of(dtype, &format)) {
        sb_decode(format, bytes, count, out);
        return -1;
    }
    for (size_t i = 0; i < count; i++) {
        int negative = 0;
        if (dtype == SB_DTYPE_F64) { /* J-10: "rounded once to binary32" */
            double wide = sb_f64_from_bits(sb_load_u64(bytes + 8 * i));
            int finite = wide - wide == 0,
                large = wide >= 0x1.ffffffp127 || wide <= -0x1.ffffffp127;
            if (finite && large)
                return (long long)i;
            out[i] = (float)wide;
            continue;
        }
        uint64_t id = sb_dump_integer(dtype, bytes + size * i, &negative);
        if (negative || id >= (uint64_t)1 << 24) /* ids are exact in binary32 */
            return (long long)i;
        out[i] = (float)id;
    }
    return -1;
}

/* --- shapes ----------------------------------------------------------------------------------- */

uint64_t sb_dump_array_elements(const sb_dump_array *array)
{
    uint64_t n = 1;
    for (unsigned k = 0; k < array->rank; k++)
        n *= array->shape[k];
    return n;
}

const char *sb_dump_shape_show(const sb_dump_array *array, sb_dump_shape *room)
{
    size_t used = (size_t)snprintf(room->text, sizeof room->text, "[");
    for (unsigned k = 0; k < array->rank; k++)
        used += (size_t)snprintf(room->text + used, sizeof room->text - used, "%s%" PRIu64,
                                 k ? ", " : "", array->shape[k]);
    snprintf(room->text + used, sizeof room->text - used, "]");
    return room->text;
}

/* The number of elements from the first to the last; 0 if the array is empty, or on overflow. */
static uint64_t reach_of(const sb_dump_array *a)
{
    uint64_t last = 0;
    for (unsigned k = 0; k < a->rank; k++) {
        uint64_t steps = a->shape[k] - 1;
        if (a->shape[k] == 0 || (a->stride[k] && steps > (UINT64_MAX / 2 - last) / a->stride[k]))
            return 0;
        last += steps * a->stride[k];
    }
    return last + 1;
}

/* J-11: "as many elements as its shape says, and all of them within its file" */
static sb_status check_bounds(const sb_dump_array *a, const char *name, uint64_t bytes,
                              sb_error *err)
{
    sb_dump_shape shown;
    uint64_t elements = 1, size = sb_dtype_bits(a->dtype) / 8;
    int empty = 0;
    for (unsigned k = 0; k < a->rank; k++) {
        if (a->shape[k] > ((uint64_t)1 << 56) / elements)
            return sb_fail(err, SB_ERR_INPUT, "%s: \"%s\" has the shape %s: too large",
                           SB_SHOW(a->file), SB_SHOW(name), sb_dump_shape_show(a, &shown));
        elements *= a->shape[k] ? a->shape[k] : 1;
        empty |= a->shape[k] == 0;
    }
    uint64_t reach = empty ? 0 : reach_of(a);
    if (empty) /* an empty array is allowed here, but refused as a tap */
        return SB_OK;
    if (reach == 0 || reach > bytes / size)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: \"%s\" of shape %s and type %s reaches beyond the %" PRIu64
                       " bytes of the file",
                       SB_SHOW(a->file), SB_SHOW(name), sb_dump_shape_show(a, &shown),
                       sb_dtype_name(a->dtype), bytes);
    /* J-11: "An array that repeats elements" - with a stride of 0, four bytes become terabytes */
    if (elements > reach && elements > SB_DUMP_STEP_BYTES / 4)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: \"%s\" of shape %s repeats its %" PRIu64 " elements and is too large",
                       SB_SHOW(a->file), SB_SHOW(name), sb_dump_shape_show(a, &shown), reach);
    return SB_OK;
}

/* --- the list --------------------------------------------------------------------------------- */

sb_status sb_dump_arrays_add(sb_dump_arrays *list, const sb_dump_array *array, const char *name,
                             const uint64_t *stride, uint64_t bytes, sb_error *err)
{
    sb_dump_array a = *array;
    uint64_t step = 1;
    for (unsigned k = a.rank; k-- > 0;) {
        a.stride[k] = stride ? stride[k] : step;
        step *= a.shape[k]; /* the check of the bounds refuses an overflow */
    }
    sb_status status = check_bounds(&a, name, bytes, err);
    if (!status && list->count == SB_DUMP_MAX_ARRAYS)
        status = sb_fail(err, SB_ERR_INPUT, "%s: more than %d arrays", SB_SHOW(a.file),
                         SB_DUMP_MAX_ARRAYS);
    if (status)
        return status;
    sb_dump_array *more = sb_grow(list->items, list->count, &list->room, sizeof *more);
    if (!more)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(a.file));
    list->items = more;
    a.name = sb_strdup(name);
    if (!a.name)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(a.file));
    list->items[list->count++] = a;
    return SB_OK;
}

void sb_dump_arrays_clear(sb_dump_arrays *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i].name);
    free(list->items);
    *list = (sb_dump_arrays){.count = 0};
}

void sb_dump_gather(const sb_dump_array *a, uint64_t first, size_t count, unsigned char *out)
{
    size_t size = sb_dtype_bits(a->dtype) / 8;
    uint64_t index[SB_MAX_RANK] = {0}, at = 0, rest = first;
    for (unsigned k = a->rank; k-- > 0;) {
        index[k] = rest % a->shape[k];
        rest /= a->shape[k];
        at += index[k] * a->stride[k];
    }
    for (size_t i = 0; i < count; i++) {
        memcpy(out + i * size, a->data + at * size, size);
        for (unsigned k = a->rank; k-- > 0;) {
            at += a->stride[k];
            if (++index[k] < a->shape[k])
                break;
            at -= a->shape[k] * a->stride[k];
            index[k] = 0;
        }
    }
}

const unsigned char *sb_dump_in_place(const sb_dump_array *a, uint64_t first)
{
    uint64_t step = 1;
    for (unsigned k = a->rank; k-- > 0;) {
        if (a->stride[k] != step && a->shape[k] > 1)
            return NULL;
        step *= a->shape[k];
    }
    return a->data + first * (sb_dtype_bits(a->dtype) / 8);
}
