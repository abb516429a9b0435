#include "tools/check/convert/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/container/digest.h"
#include "ref/container/show.h"
#include "ref/formats/format.h"
#include "ref/model/origin.h"

static sb_status no_memory(sb_error *err)
{
    return sb_fail(err, SB_ERR_MEMORY, "out of memory for a conversion");
}

/* Corresponding parts of both dialects; they have the same number or its reciprocal. */
static const struct {
    sb_model_part ct, modelopt;
} pairs[] = {
    {SB_PART_weight_packed, SB_PART_weight},
    {SB_PART_weight_scale, SB_PART_weight_scale},
    {SB_PART_weight_global_scale, SB_PART_weight_scale_2},
    {SB_PART_input_global_scale, SB_PART_input_scale},
};

/* The name of a layer's tensor in the other dialect. In a stack, parts are joined with '_' or '.';
 * ModelOpt's codes have no suffix. */
static void rename_part(const char *layer, const char *tensor, sb_model_part to, char *out,
                        size_t size)
{
    char joint = tensor[strlen(layer)] ? tensor[strlen(layer)] : '_';
    if (joint == '_' && to == SB_PART_weight)
        snprintf(out, size, "%s", layer);
    else
        snprintf(out, size, "%s%c%s", layer, joint, sb_part_suffix(to));
}

static sb_model_part other_part(sb_model_part part, int to_ct)
{
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (part == (to_ct ? pairs[i].modelopt : pairs[i].ct))
            return to_ct ? pairs[i].ct : pairs[i].modelopt;
    return part;
}

/* The usual shape of a scalar: [1] in compressed-tensors, [] in ModelOpt, [E] for one per expert of
 * a stack. */
static void usual_shape(int ct, uint64_t count, unsigned *rank, uint64_t *shape)
{
    *rank = ct || count > 1;
    shape[0] = *rank ? count : 0;
}

static const char *metadata_of(const sb_convert_plan *p, const char *prefix, const sb_tensor *t)
{
    char key[SB_ORIGIN_KEY];
    snprintf(key, sizeof key, "%s%s", prefix, t->name);
    return sb_checkpoint_metadata(p->source, t->shard, key);
}

/* "[2,3]" */
static int parse_shape(const char *text, sb_item *item)
{
    item->rank = 0;
    memset(item->shape, 0, sizeof item->shape);
    if (strcmp(text, "[]") == 0)
        return 1;
    while (*text == (item->rank ? ',' : '[') && item->rank < SB_MAX_RANK) {
        char *end;
        if (text[1] < '0' || text[1] > '9')
            return 0;
        item->shape[item->rank++] = strtoull(text + 1, &end, 10);
        text = end;
    }
    return strcmp(text, "]") == 0;
}

/* "F32 [1] name": reads how a tensor of `count` elements was stored before an earlier conversion.
 */
static sb_status read_stored(const sb_convert_plan *p, const char *text, uint64_t count,
                             sb_item *item, sb_error *err)
{
    char dtype[16], shape[200];
    int at = 0;
    uint64_t bytes = 0;
    int sound = sscanf(text, "%15s %199s %n", dtype, shape, &at) == 2 && text[at] &&
                sb_dtype_find(dtype, &item->dtype) && parse_shape(shape, item) &&
                sb_dtype_bytes(item->dtype, item->rank, item->shape, &bytes, NULL) == SB_OK;
    if (!sound || bytes != count * sb_dtype_bits(item->dtype) / 8)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: metadata " SB_STORED_PREFIX "%s is \"%s\", expected dtype, shape and "
                       "name of a tensor of %" PRIu64 " elements",
                       SB_SHOW(sb_checkpoint_path(p->source)), SB_SHOW(item->from->name),
                       SB_SHOW(text), count);
    free(item->name);
    item->name = sb_strdup(text + at);
    return item->name ? SB_OK : no_memory(err);
}

/* Notes how the tensor was stored, unless the rules of a conversion back give the same. */
static sb_status note_stored(const char *layer, sb_model_part back, int to_ct, uint64_t count,
                             int is_scalar, sb_item *item, sb_error *err)
{
    const sb_tensor *t = item->from;
    char name[SB_MAX_TENSOR_NAME + 64], text[2 * SB_MAX_TENSOR_NAME];
    unsigned rank;
    uint64_t shape[SB_MAX_RANK] = {0};
    sb_shape_text room;
    rename_part(layer, item->name, back, name, sizeof name);
    usual_shape(!to_ct, count, &rank, shape);
    int same = !is_scalar || (t->dtype == SB_DTYPE_F32 && t->rank == rank &&
                              memcmp(t->shape, shape, sizeof shape) == 0);
    if (same && strcmp(name, t->name) == 0)
        return SB_OK;
    snprintf(text, sizeof text, "%s %s %s", sb_dtype_name(t->dtype), sb_shape_show(t, &room),
             t->name);
    item->stored = sb_strdup(text);
    return item->stored ? SB_OK : no_memory(err);
}

/* --- scalars ---------------------------------------------------------------------------------- */

static sb_scalars *scalars_of(sb_convert_plan *p, const char *layer, int of_inputs)
{
    sb_conversion *out = p->out;
    char kind[128];
    sb_layer_kind(layer, kind, sizeof kind);
    for (size_t i = 0; i < out->scalar_count; i++)
        if (out->scalars[i].of_inputs == of_inputs && strcmp(out->scalars[i].kind, kind) == 0)
            return &out->scalars[i];
    sb_scalars *grown = sb_grow(out->scalars, out->scalar_count, &p->scalar_room, sizeof *grown);
    if (!grown)
        return NULL;
    out->scalars = grown;
    sb_scalars *s = &out->scalars[out->scalar_count++];
    *s = (sb_scalars){.of_inputs = of_inputs};
    snprintf(s->kind, sizeof s->kind, "%s", kind);
    return s;
}

/* Both factors have 24 bits and the product is near 1, so x y - 1 is exact in binary64. */
static void count_scalar(sb_scalars *s, float x, float y, int restored)
{
    double change = (double)x * (double)y - 1;
    change = change < 0 ? -change : change;
    s->count++;
    s->restored += restored != 0;
    s->exact += change == 0;
    s->lost += !restored && sb_reciprocal(y) != x;
    if (change > s->largest)
        s->largest = change;
}

static sb_format format_of(sb_dtype dtype)
{
    return dtype == SB_DTYPE_BF16  ? SB_FORMAT_bf16
           : dtype == SB_DTYPE_F16 ? SB_FORMAT_f16
           : dtype == SB_DTYPE_F32 ? SB_FORMAT_f32
                                   : SB_FORMAT_COUNT;
}

static sb_status put_values(const sb_convert_plan *p, const float *values, uint64_t count,
                            sb_item *item, sb_error *err)
{
    sb_format format = format_of(item->dtype);
    for (uint64_t i = 0; i < count; i++)
        if (format == SB_FORMAT_COUNT || sb_round_to(format, values[i]) != values[i])
            return sb_fail(err, SB_ERR_INPUT,
                           "%s: tensor %s, element %" PRIu64
                           ", should become %.9g, which %s cannot hold: its metadata are damaged",
                           SB_SHOW(sb_checkpoint_path(p->source)), SB_SHOW(item->from->name), i,
                           (double)values[i], sb_dtype_name(item->dtype));
    item->bytes = sb_alloc(count, sb_format_bytes(format));
    if (!item->bytes)
        return no_memory(err);
    sb_encode(format, values, count, item->bytes);
    return SB_OK;
}

/* D-7: "its reciprocal, rounded once, or by its origin if it has one" */
static sb_status invert(sb_convert_plan *p, const char *layer, int of_inputs, float *values,
                        uint64_t count, sb_item *item, sb_error *err)
{
    const sb_tensor *t = item->from;
    int restored = 0;
    char *text = sb_alloc(8 * count + 1, 1);
    sb_scalars *s = scalars_of(p, layer, of_inputs);
    sb_status status = text && s ? SB_OK : no_memory(err);
    for (uint64_t i = 0; i < count && !status; i++) {
        float x = values[i], origin;
        status = sb_origin_of(p->source, t, count, i, x, &origin, err);
        restored = origin != 0;
        values[i] = restored ? origin : sb_reciprocal(x);
        snprintf(text + 8 * i, 9, "%08" PRIx32, sb_bits_f32(x));
        if (!status && !sb_is_finite_f32(values[i]))
            status =
                sb_fail(err, SB_ERR_UNSUPPORTED,
                        "%s: tensor %s, element %" PRIu64
                        ", is %g, whose reciprocal no binary32 number can hold",
                        SB_SHOW(sb_checkpoint_path(p->source)), SB_SHOW(t->name), i, (double)x);
        if (!status)
            count_scalar(s, x, values[i], restored);
    }
    if (status || restored)
        free(text);
    else
        item->origin = text;
    return status;
}

/* Converts a scalar of a layer: new name and usual shape, or as it was stored originally. */
static sb_status take_scalar(sb_convert_plan *p, const char *layer, sb_model_part part,
                             sb_model_part to, int inverse, sb_item *item, sb_error *err)
{
    const sb_tensor *t = item->from;
    sb_format format = format_of(t->dtype);
    const char *stored = metadata_of(p, SB_STORED_PREFIX, t);
    uint64_t count = t->bytes / sb_format_bytes(format); /* sb_detect allows only such dtypes */
    float *values = sb_alloc(count, sizeof *values);
    sb_status status = values ? SB_OK : no_memory(err);
    item->dtype = SB_DTYPE_F32;
    memset(item->shape, 0, sizeof item->shape);
    usual_shape(p->to_ct, count, &item->rank, item->shape);
    if (!status) {
        sb_decode(format, t->data, count, values);
        if (inverse)
            status = invert(p, layer, to == SB_PART_input_global_scale || to == SB_PART_input_scale,
                            values, count, item, err);
    }
    if (!status)
        status = stored ? read_stored(p, stored, count, item, err)
                        : note_stored(layer, part, p->to_ct, count, 1, item, err);
    if (!status)
        status = put_values(p, values, count, item, err);
    free(values);
    return status;
}

/* --- layers ----------------------------------------------------------------------------------- */

static sb_item *item_of(sb_convert_plan *p, const sb_tensor *t)
{
    return &p->items[t - sb_checkpoint_at(p->source, 0)];
}

static sb_status take_part(sb_convert_plan *p, const char *layer, sb_model_part part,
                           const sb_tensor *t, int nvfp4, sb_error *err)
{
    char name[SB_MAX_TENSOR_NAME + 64];
    sb_item *item = item_of(p, t);
    sb_model_part to = nvfp4 ? other_part(part, p->to_ct) : part;
    int scalar = nvfp4 ? part != SB_PART_weight && part != SB_PART_weight_packed &&
                             part != SB_PART_weight_scale
                       : part != SB_PART_weight;
    if (nvfp4)
        rename_part(layer, t->name, to, name, sizeof name);
    else
        snprintf(name, sizeof name, "%s", t->name);
    item->changed = 1;
    item->name = sb_strdup(name);
    if (!item->name)
        return no_memory(err);
    if (scalar)
        return take_scalar(p, layer, part, to, nvfp4, item, err);
    const char *stored = metadata_of(p, SB_STORED_PREFIX, t);
    return stored  ? read_stored(p, stored, 8 * t->bytes / sb_dtype_bits(t->dtype), item, err)
           : nvfp4 ? note_stored(layer, part, p->to_ct, 0, 0, item, err)
                   : SB_OK;
}

static sb_status add_module(sb_convert_plan *p, const char *name, sb_scheme scheme, sb_error *err)
{
    sb_module *grown = sb_grow(p->modules, p->module_count, &p->module_room, sizeof *grown);
    if (!grown)
        return no_memory(err);
    p->modules = grown;
    sb_module *m = &p->modules[p->module_count++];
    *m = (sb_module){sb_strdup(name), scheme};
    return m->name ? SB_OK : no_memory(err);
}

/* Sets *quantized: whether inputs are quantized. A stored input scale does not decide alone: the
 * layer may be declared as quantized in its weights only. */
static sb_status input_scheme(const sb_convert_plan *p, const char *layer, const sb_found *found,
                              int *quantized, sb_error *err)
{
    sb_declaration said;
    int stored = found->matrix.quant.input.kind != SB_NO_FACTOR;
    sb_status status = sb_declared_for(p->declared, layer, &said, err);
    if (status)
        return status;
    int declared = said.answer == SB_DECLARED_YES;
    *quantized = stored && !(declared && said.activation == SB_ACTIVATION_NONE);
    if (declared && said.activation != SB_ACTIVATION_NONE &&
        said.activation != SB_ACTIVATION_STATIC_TENSOR &&
        said.activation != SB_ACTIVATION_NVFP4_LOCAL)
        return sb_fail(err, SB_ERR_UNSUPPORTED,
                       "%s: layer %s is declared to quantize its inputs without a stored scale, "
                       "which cannot be converted (%s)",
                       SB_SHOW(sb_checkpoint_path(p->source)), SB_SHOW(layer), SB_SHOW(said.rule));
    return SB_OK;
}

static sb_status take_layer(void *ctx, const char *layer, const sb_found *found, sb_error *err)
{
    sb_convert_plan *p = ctx;
    sb_container from = p->to_ct ? SB_CONTAINER_nvfp4_modelopt : SB_CONTAINER_nvfp4_ct;
    int nvfp4 = found->container == SB_CONTAINER_nvfp4_ct ||
                found->container == SB_CONTAINER_nvfp4_modelopt;
    int quantized = 0;
    if (found->container == SB_CONTAINER_plain)
        return add_module(p, layer, SB_SCHEME_plain, err);
    if (!nvfp4 && found->container != SB_CONTAINER_fp8_tensor)
        return sb_fail(err, SB_ERR_UNSUPPORTED,
                       "%s: layer %s is stored as %s and cannot be converted; expected NVFP4, FP8 "
                       "with one scale, or a plain layer",
                       SB_SHOW(sb_checkpoint_path(p->source)), SB_SHOW(layer),
                       sb_container_name(found->container));
    sb_status status = input_scheme(p, layer, found, &quantized, err);
    if (!status && nvfp4)
        status = add_module(p, layer, quantized ? SB_SCHEME_nvfp4 : SB_SCHEME_nvfp4_a16, err);
    else if (!status)
        status = add_module(p, layer, quantized ? SB_SCHEME_fp8 : SB_SCHEME_fp8_a16, err);
    if (nvfp4 && found->container != from)
        return status;
    for (unsigned part = 0; part < SB_PART_COUNT && !status; part++)
        if (found->part[part])
            status = take_part(p, layer, (sb_model_part)part, found->part[part], nvfp4, err);
    p->out->layers += nvfp4 ? 1 : 0;
    p->out->fp8_layers += nvfp4 ? 0 : 1;
    return status;
}

static int by_kind(const void *left, const void *right)
{
    const sb_scalars *a = left;
    const sb_scalars *b = right;
    int order = strcmp(a->kind, b->kind);
    return order ? order : a->of_inputs - b->of_inputs;
}

sb_status sb_convert_plan_make(sb_convert_plan *p, sb_error *err)
{
    size_t n = sb_checkpoint_count(p->source);
    p->items = sb_alloc(n, sizeof *p->items);
    if (!p->items)
        return no_memory(err);
    for (size_t i = 0; i < n; i++) {
        const sb_tensor *t = sb_checkpoint_at(p->source, i);
        sb_item *item = &p->items[i];
        *item = (sb_item){.from = t, .dtype = t->dtype, .rank = t->rank};
        memcpy(item->shape, t->shape, sizeof item->shape);
    }
    sb_status status = sb_each_layer(p->source, take_layer, p, err);
    if (!status && p->out->layers == 0)
        status = sb_fail(
            err, SB_ERR_UNSUPPORTED, "%s: has no NVFP4 layer in the dialect %s",
            SB_SHOW(sb_checkpoint_path(p->source)),
            sb_container_name(p->to_ct ? SB_CONTAINER_nvfp4_modelopt : SB_CONTAINER_nvfp4_ct));
    if (p->out->scalar_count)
        qsort(p->out->scalars, p->out->scalar_count, sizeof *p->out->scalars, by_kind);
    for (size_t i = 0; i < n; i++)
        p->out->copied += p->items[i].changed ? 0 : 1;
    return status;
}

void sb_convert_plan_free(sb_convert_plan *p)
{
    for (size_t i = 0; p->items && i < sb_checkpoint_count(p->source); i++) {
        free(p->items[i].name);
        free(p->items[i].bytes);
        free(p->items[i].origin);
        free(p->items[i].stored);
    }
    for (size_t i = 0; i < p->module_count; i++)
        free(p->modules[i].name);
    free(p->items);
    free(p->modules);
}
