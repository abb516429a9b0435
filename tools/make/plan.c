#include "tools/make/plan.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/make/weights.h"

static sb_status find_names(const sb_make_options *o, size_t found[SB_MAKE_LISTS], sb_error *err)
{
    const char *names[SB_MAKE_LISTS] = {[SB_MAKE_PRESETS] = o->weights  ? NULL
                                                            : o->preset ? o->preset
                                                                        : "",
                                        [SB_MAKE_RECIPES] = o->recipe,
                                        [SB_MAKE_FORMATS] = o->format,
                                        [SB_MAKE_LAYOUTS] = o->layout,
                                        [SB_MAKE_STORAGES] = o->storage,
                                        [SB_MAKE_EXPERTS] = o->experts,
                                        [SB_MAKE_SCALE_RULES] = o->scale_rule};
    sb_status status = SB_OK;
    for (unsigned list = 0; list < SB_MAKE_LISTS && !status; list++)
        status = sb_make_find((sb_make_list_id)list, names[list], &found[list], err);
    return status;
}

/* Refuses options that the family does not support. */
static sb_status check_family(const sb_make_options *o, const sb_make_plan *p, sb_error *err)
{
    const sb_make_preset *dims = &p->shape.dims;
    if (p->shape.vl && sb_family_is_flat(dims->family))
        return sb_fail(err, SB_ERR_USAGE,
                       "preset %s has no layout \"vl\": %s reads text only; expected \"text\"",
                       dims->name, sb_family_name(dims->family));
    if (o->experts && dims->experts == 0)
        return sb_fail(err, SB_ERR_USAGE, "preset %s is dense: it has no experts to store \"%s\"",
                       dims->name, o->experts);
    if (o->layers > SB_MAX_LAYERS)
        return sb_fail(err, SB_ERR_USAGE, "--layers is %u; expected 1 to %d", o->layers,
                       (int)SB_MAX_LAYERS);
    return SB_OK;
}

static const char *dtype_name(sb_dtype dtype)
{
    return dtype == SB_DTYPE_F32 ? "float32" : dtype == SB_DTYPE_F16 ? "float16" : "bfloat16";
}

/* The first rule of scale_rules.def that the format allows. */
static sb_scale_rule own_rule(const sb_make_format *format)
{
    unsigned rule = 0;
    while (rule < SB_SCALE_RULES && !(format->rules >> rule & 1u))
        rule++;
    return (sb_scale_rule)rule;
}

/* Refuses options that the format does not support. */
static sb_status check_format(const sb_make_options *o, const sb_make_plan *p, sb_error *err)
{
    const sb_make_format *f = p->format;
    if (o->scale_rule && !(f->rules >> p->rule & 1u))
        return sb_fail(err, SB_ERR_USAGE, "format %s has no scale rule \"%s\"; its own is %s",
                       f->name, o->scale_rule,
                       f->rules ? sb_make_scale_rule_name(own_rule(f)) : "none: it has no scales");
    if (o->group_size && sb_scheme_at(f->scheme[0])->group == 0)
        return sb_fail(err, SB_ERR_USAGE, "format %s has no choice of group size", f->name);
    if (o->group_size % 8 || o->group_size > 4096)
        return sb_fail(err, SB_ERR_USAGE,
                       "the group size is %u; expected a multiple of 8, at most 4096",
                       o->group_size);
    if (o->kv_scales && f->dialect == SB_MAKE_DIALECT_none)
        return sb_fail(err, SB_ERR_USAGE,
                       "format %s has no scales of keys and values: it is not quantized", f->name);
    if (o->experts && f->scheme[0] != SB_SCHEME_plain && p->storage.fused_experts)
        return sb_fail(err, SB_ERR_USAGE,
                       "format %s stores one tensor per expert; expected experts \"split\"",
                       f->name);
    return SB_OK;
}

/* Stores experts as the family publishes them, or as the quantizing program writes them. */
static void choose_storage(const sb_make_options *o, size_t storage, size_t experts,
                           sb_make_plan *p)
{
    int fused = p->shape.dims.family == SB_QWEN3_5_MOE;
    int quantized = p->format->scheme[0] != SB_SCHEME_plain;
    p->storage = (sb_storage){.prefix = p->shape.vl ? "model.language_model." : "model.",
                              .fused_experts = fused && !quantized,
                              .fused_mtp_experts = fused && storage == 0 && !p->format->mtp_split,
                              .has_mtp = p->shape.has_mtp};
    if (o->experts)
        p->storage.fused_experts = p->storage.fused_mtp_experts = experts == 0;
}

static sb_status read_options(const sb_make_options *o, sb_make_plan *p, sb_error *err)
{
    size_t found[SB_MAKE_LISTS];
    sb_status status = find_names(o, found, err);
    if (status)
        return status;
    p->shape.dims = o->shape ? *o->shape : *sb_make_preset_at(found[SB_MAKE_PRESETS]);
    p->shape.has_mtp = !o->no_mtp && !sb_family_is_qwen3(p->shape.dims.family);
    if (o->weights) {
        status = sb_weights_open(o->weights, &p->weights, err);
        if (status)
            return status;
        sb_weights_shape(p->weights, &p->shape.dims);
        p->shape.has_mtp = !o->no_mtp && sb_weights_have_mtp(p->weights);
    }
    if (o->layers)
        p->shape.dims.layers = o->layers;
    p->format = sb_make_format_at(found[SB_MAKE_FORMATS]);
    p->rule = o->scale_rule ? (sb_scale_rule)found[SB_MAKE_SCALE_RULES] : own_rule(p->format);
    p->group = o->group_size;
    p->kv_scales = o->kv_scales;
    p->shape.dtype = dtype_name(p->format->dtype);
    p->shape.vl = found[SB_MAKE_LAYOUTS] == 1;
    p->recipe = o->weights ? SB_RECIPE_plain : (sb_make_recipe)found[SB_MAKE_RECIPES];
    p->f32_decay = found[SB_MAKE_STORAGES] == 1;
    choose_storage(o, found[SB_MAKE_STORAGES], found[SB_MAKE_EXPERTS], p);
    status = check_family(o, p, err);
    return status ? status : check_format(o, p, err);
}

sb_status sb_make_plan_add(sb_make_plan *p, const char *name, const sb_make_tensor *tensor,
                           sb_error *err)
{
    sb_make_tensor *tensors = sb_grow(p->tensors, p->count, &p->room, sizeof *tensors);
    if (!tensors)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu tensors", p->count + 1);
    p->tensors = tensors;
    sb_make_tensor *t = &p->tensors[p->count];
    *t = *tensor;
    sb_status status = sb_dtype_bytes(t->dtype, t->rank, t->shape, &t->bytes, err);
    if (status)
        return status;
    t->name = sb_strdup(name);
    if (!t->name)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for the name of a tensor");
    p->count++;
    p->bytes += t->bytes;
    return SB_OK;
}

static sb_status add_text(void *ctx, const sb_expected *x, sb_error *err)
{
    sb_make_plan *p = ctx;
    int done = 0;
    sb_status status = sb_make_plan_quantize(p, x, &done, err);
    if (status || done)
        return status;
    sb_make_tensor t = {.dtype = p->format->dtype,
                        .rank = x->rank,
                        .role = x->role,
                        .layer = x->layer,
                        .expert = x->expert};
    if (p->f32_decay && (x->role == SB_ROLE_A_log || x->role == SB_ROLE_linear_norm))
        t.dtype = SB_DTYPE_F32;
    memcpy(t.shape, x->shape, sizeof x->shape);
    return sb_make_plan_add(p, x->name, &t, err);
}

static sb_status add_vision(void *ctx, const sb_vision_tensor *v, sb_error *err)
{
    sb_make_plan *p = ctx;
    sb_make_tensor t = {.dtype = p->format->dtype,
                        .rank = v->rank,
                        .role = SB_ROLE_COUNT,
                        .vision = v->kind,
                        .expert = SB_NO_EXPERT};
    memcpy(t.shape, v->shape, sizeof v->shape);
    return sb_make_plan_add(p, v->name, &t, err);
}

/* Writes the text of config.json twice: first without the quantization, to find the tensors; then
 * with it, because the quantized tensors are known. */
sb_status sb_make_plan_new(const sb_make_options *options, sb_make_plan *out, sb_error *err)
{
    *out = (sb_make_plan){0};
    sb_status status = read_options(options, out, err);
    if (status)
        return status;
    char *plain = sb_make_config_text(&out->shape, NULL);
    if (!plain)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for config.json");
    status = sb_config_parse(plain, strlen(plain), "config.json", &out->config, err);
    free(plain);
    if (!status && out->weights)
        status = sb_weights_fit(out->weights, &out->config, err);
    if (!status)
        status = sb_each_tensor(&out->config, &out->storage, add_text, out, err);
    if (!status && out->shape.vl)
        status = sb_vision_each(&out->config, add_vision, out, err);
    if (status)
        return status;
    out->config_text = sb_make_config_text(&out->shape, out);
    return out->config_text ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for config.json");
}

void sb_make_plan_free(sb_make_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++)
        free(plan->tensors[i].name);
    for (size_t i = 0; i < plan->linear_count; i++)
        free(plan->linears[i].module);
    free(plan->tensors);
    free(plan->linears);
    free(plan->config_text);
    sb_weights_close(plan->weights);
    *plan = (sb_make_plan){0};
}
