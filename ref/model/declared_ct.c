/* declared_ct.c - compressed-tensors: groups of targets, each with a scheme, and an ignore list. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/container/show.h"
#include "ref/model/declared_ct.h"

/* --- schemes ---------------------------------------------------------------------------------- */

static int is_strategy(const sb_ct_args *args, const char *name)
{
    return strcmp(args->strategy, name) == 0;
}

static sb_quant_family family_of(const sb_ct_args *w, const char *format)
{
    if (!w->is_float)
        return w->bits >= 2 && w->bits <= 8 ? SB_FAMILY_INT : SB_FAMILY_NONE;
    if (w->bits == 4 && is_strategy(w, "tensor_group"))
        return w->group == 16 ? SB_FAMILY_NVFP4 : SB_FAMILY_NONE;
    if (w->bits == 4)
        return is_strategy(w, "group") && w->group == 32 ? SB_FAMILY_MXFP4 : SB_FAMILY_NONE;
    if (w->bits != 8)
        return SB_FAMILY_NONE;
    int mx = w->scale_u8 || strcmp(format, "mxfp8-quantized") == 0;
    if (mx)
        return is_strategy(w, "group") && w->group == 32 ? SB_FAMILY_MXFP8 : SB_FAMILY_NONE;
    return SB_FAMILY_FP8;
}

/* The supported formats and their possible contents. */
static const struct {
    const char *name;
    sb_quant_family family;
    sb_declared_packing packing;
} formats[] = {
    {"nvfp4-pack-quantized", SB_FAMILY_NVFP4, SB_PACKED_CT_NVFP4},
    {"mxfp4-pack-quantized", SB_FAMILY_MXFP4, SB_PACKED_CT_MXFP4},
    {"mxfp8-quantized", SB_FAMILY_MXFP8, SB_PACKED_CT_MXFP8},
    {"float-quantized", SB_FAMILY_FP8, SB_PACKED_CT_FLOAT},
    {"naive-quantized", SB_FAMILY_FP8, SB_PACKED_CT_FLOAT},
    {"naive-quantized", SB_FAMILY_INT, SB_PACKED_CT_INT},
    {"int-quantized", SB_FAMILY_INT, SB_PACKED_CT_INT},
    {"pack-quantized", SB_FAMILY_INT, SB_PACKED_CT_PACKED},
};

static sb_status pack(const sb_json_object *group, const char *format, const sb_ct_args *w,
                      sb_declaration *out, sb_error *err)
{
    int known = 0;
    out->family = family_of(w, format);
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        known |= strcmp(formats[i].name, format) == 0;
        if (strcmp(formats[i].name, format) == 0 && formats[i].family == out->family)
            out->packing = formats[i].packing;
    }
    if (!known)
        return sb_json_fail(group, "format", SB_ERR_UNSUPPORTED, err,
                            "is \"%s\", which is not read", SB_SHOW(format));
    if (out->family == SB_FAMILY_NONE || out->packing == SB_PACKED_NONE)
        return sb_json_fail(group, "weights", SB_ERR_UNSUPPORTED, err,
                            "are %s of %" PRIu64 " bits by %s%s, which is not read in format %s",
                            w->is_float ? "floats" : "integers", w->bits, w->strategy,
                            w->symmetric ? "" : " with zero points", SB_SHOW(format));
    return SB_OK;
}

static sb_status weights(const sb_json_object *group, const char *format, const sb_ct_args *w,
                         sb_declaration *out, sb_error *err)
{
    sb_status status = pack(group, format, w, out, err);
    if (status != SB_OK)
        return status;
    static const struct {
        const char *name;
        sb_declared_strategy strategy;
    } strategies[] = {{"tensor", SB_STRATEGY_TENSOR},
                      {"channel", SB_STRATEGY_CHANNEL},
                      {"group", SB_STRATEGY_GROUP},
                      {"block", SB_STRATEGY_BLOCK},
                      {"tensor_group", SB_STRATEGY_TENSOR_GROUP}};
    for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++)
        if (is_strategy(w, strategies[i].name))
            out->strategy = strategies[i].strategy;
    if (out->strategy == SB_STRATEGY_NONE || w->dynamic)
        return sb_json_fail(group, "weights", SB_ERR_INPUT, err,
                            "have strategy %s%s, which is valid for activations only", w->strategy,
                            w->dynamic ? " and are dynamic" : "");
    out->bits = (uint32_t)w->bits;
    out->group_size = w->group > 0 ? (uint32_t)w->group : 0;
    out->block_rows = (uint32_t)w->block[0];
    out->block_cols = (uint32_t)w->block[1];
    out->symmetric = (uint8_t)w->symmetric;
    out->act_order = (uint8_t)w->act_order;
    out->ue8m0 = out->family == SB_FAMILY_MXFP4 || out->family == SB_FAMILY_MXFP8;
    return SB_OK;
}

static sb_status inputs(const sb_json_object *group, const sb_ct_args *x, sb_declaration *out,
                        sb_error *err)
{
    if (!x->present)
        return SB_OK;
    if (x->is_float && x->bits == 4 && x->dynamic == 2 && is_strategy(x, "tensor_group"))
        out->activation = SB_ACTIVATION_NVFP4_LOCAL;
    else if (x->dynamic == 1 && is_strategy(x, "group"))
        out->activation = SB_ACTIVATION_DYNAMIC_GROUP;
    else if (x->dynamic == 1 && is_strategy(x, "token"))
        out->activation = SB_ACTIVATION_DYNAMIC_TOKEN;
    else if (x->dynamic == 1 && is_strategy(x, "tensor"))
        out->activation = SB_ACTIVATION_DYNAMIC_TENSOR;
    else if (x->dynamic == 0 && is_strategy(x, "tensor"))
        out->activation = SB_ACTIVATION_STATIC_TENSOR;
    else
        return sb_json_fail(group, "input_activations", SB_ERR_UNSUPPORTED, err,
                            "are %s %s by %s, which is not read", x->dynamic ? "dynamic" : "static",
                            x->is_float ? "floats" : "integers", x->strategy);
    out->activation_bits = (uint32_t)x->bits;
    out->activation_group = x->group > 0 ? (uint32_t)x->group : 0;
    out->activation_int = (uint8_t)!x->is_float;
    return SB_OK;
}

static sb_rule_kind kind_of(const char **text)
{
    if (strncmp(*text, "re:", 3) != 0)
        return SB_RULE_EXACT;
    *text += 3;
    return SB_RULE_MATCH;
}

/* "A group may have a format of its own, and must have one where the global format is
 * mixed-precision" */
static sb_status read_group(sb_declared_reading *reading, const char *global,
                            const sb_json_object *group, sb_error *err)
{
    static const char *const keys[] = {
        "targets", "weights", "input_activations", "output_activations", "format", NULL};
    sb_ct_args w = {0};
    sb_ct_args x = {0};
    const char *format = json_string_value(sb_json_get(group, "format"));
    sb_declaration scheme = {0};
    int32_t index;
    sb_status status = sb_json_only(group, keys, err);
    if (status == SB_OK && sb_json_get(group, "format") && !format)
        status = sb_json_wrong(group, "format", sb_json_get(group, "format"), "a string", err);
    if (status == SB_OK && sb_json_get(group, "output_activations"))
        status = sb_json_fail(group, "output_activations", SB_ERR_UNSUPPORTED, err,
                              "are quantized, which is not read");
    if (status == SB_OK && !json_is_array(sb_json_get(group, "targets")))
        status = sb_json_wrong(group, "targets", sb_json_get(group, "targets"), "an array", err);
    if (status == SB_OK)
        status = sb_ct_read_args(group, "weights", &w, err);
    if (status == SB_OK)
        status = sb_ct_read_args(group, "input_activations", &x, err);
    if (status == SB_OK && w.present)
        status = weights(group, format ? format : global, &w, &scheme, err);
    if (status == SB_OK)
        status = inputs(group, &x, &scheme, err);
    if (status == SB_OK)
        status = sb_declared_scheme(reading->declared, &scheme, &index, err);
    if (status != SB_OK)
        return status;
    return sb_declared_names(group, "targets", kind_of, index, &reading->declared->targets, err);
}

/* --- reading everything ----------------------------------------------------------------------- */

static sb_status refuse_empty(const sb_json_object *at, const char *key, const char *why,
                              sb_error *err)
{
    json_t *value = sb_json_get(at, key);
    const char *format = json_string_value(json_object_get(value, "format"));
    if (!value || (json_is_object(value) && json_object_size(value) == 0) ||
        (format && strcmp(format, "dense") == 0))
        return SB_OK;
    json_t *groups = json_object_get(value, "config_groups");
    if (json_is_object(groups) && json_object_size(groups) == 0)
        return SB_OK;
    return sb_json_fail(at, key, SB_ERR_UNSUPPORTED, err, "is not empty: %s", why);
}

/* "Unpacked, sparse and rotated weights are refused" */
static sb_status refuse(const sb_json_object *at, sb_error *err)
{
    const char *state;
    sb_status status = SB_OK;
    if (sb_json_get(at, "quantization_status")) {
        status = sb_json_string(at, "quantization_status", &state, err);
        if (status == SB_OK && strcmp(state, "compressed") != 0)
            return sb_json_fail(at, "quantization_status", SB_ERR_UNSUPPORTED, err,
                                "is \"%s\": the weights are not packed, expected \"compressed\"",
                                SB_SHOW(state));
    }
    if (status == SB_OK)
        status = refuse_empty(at, "transform_config", "rotated weights are not read", err);
    if (status == SB_OK)
        status = refuse_empty(at, "sparsity_config", "sparse weights are not read", err);
    return status;
}

/* compressed-tensors orders regular expressions by their text. If two are equal, the later group
 * decides. */
static int by_text(const void *left, const void *right)
{
    const sb_rule *a = left;
    const sb_rule *b = right;
    int order = strcmp(a->text, b->text);
    return order != 0 ? order : (a->order < b->order) - (a->order > b->order);
}

/* The context of sb_declared_each for reading groups. */
typedef struct group_of {
    sb_declared_reading *reading;
    const char *format; /* the format of groups that name none */
} group_of;

static sb_status visit_group(void *ctx, const sb_json_object *groups, const char *name,
                             const sb_json_object *group, sb_error *err)
{
    const group_of *of = ctx;
    (void)groups, (void)name;
    return read_group(of->reading, of->format, group, err);
}

sb_status sb_declared_ct_read(sb_declared_reading *reading, sb_error *err)
{
    sb_declared *declared = reading->declared;
    const char *format = "";
    sb_rules *targets = &declared->targets;
    sb_ct_args kv;
    sb_status status = refuse(&reading->object, err);
    if (status == SB_OK)
        status = sb_json_string_or(&reading->object, "format", "dense", &format, err);
    if (status == SB_OK)
        status = sb_declared_each(&reading->object, "config_groups",
                                  "is the name of a preset scheme, which is not read", visit_group,
                                  &(group_of){reading, format}, err);
    if (status == SB_OK)
        status = sb_declared_names(&reading->object, "ignore", kind_of, SB_NOT_QUANTIZED,
                                   &declared->ignore, err);
    if (status == SB_OK)
        status = sb_ct_read_args(&reading->object, "kv_cache_scheme", &kv, err);
    if (status == SB_OK)
        status = sb_declared_read_kv(&reading->object, "kv_cache_scheme", &declared->kv, err);
    if (status != SB_OK)
        return status;
    sb_rules_close(targets);
    if (targets->count > targets->exact)
        qsort(targets->rule + targets->exact, targets->count - targets->exact,
              sizeof *targets->rule, by_text);
    for (size_t i = 0; i < targets->count; i++)
        targets->rule[i].order = (uint32_t)i;
    return SB_OK;
}

/* --- matching --------------------------------------------------------------------------------- */

static const char *const *classes_of(sb_module_kind kind)
{
    static const char *const linear[] = {"Linear", NULL};
    static const char *const router[] = {"Qwen3_5MoeTopKRouter", "Qwen3NextTopKRouter", NULL};
    static const char *const experts[] = {"Qwen3_5MoeExperts", "Qwen3NextExperts", NULL};
    static const char *const none[] = {NULL};
    switch (kind) {
    case SB_MODULE_ROUTER:
        return router;
    case SB_MODULE_EXPERTS:
        return experts;
    case SB_MODULE_OTHER:
        return none;
    default:
        return linear;
    }
}

/* "in this order: the full name, the regular expressions, the class" */
static sb_status find(const sb_declared *declared, const sb_rules *rules, const char *module,
                      const sb_rule **out, sb_error *err)
{
    sb_module_kind kind = sb_module_kind_of(module);
    sb_module_name room;
    const char *experts = kind == SB_MODULE_EXPERTS ? sb_module_experts(module, &room) : NULL;
    sb_status status = sb_rules_find(declared, rules, module, out, err);
    if (status == SB_OK && !*out && experts)
        status = sb_rules_find(declared, rules, experts, out, err);
    for (const char *const *name = classes_of(kind); status == SB_OK && !*out && *name; name++)
        *out = sb_rules_exact(rules, *name);
    return status;
}

sb_status sb_declared_ct_for(const sb_declared *declared, const char *module, sb_declaration *out,
                             sb_error *err)
{
    const sb_rule *ignored;
    const sb_rule *target = NULL;
    sb_status status = find(declared, &declared->ignore, module, &ignored, err);
    if (status == SB_OK && !ignored)
        status = find(declared, &declared->targets, module, &target, err);
    if (status != SB_OK)
        return status;
    if (ignored)
        *out = sb_declared_no(ignored->where);
    else if (target)
        *out = sb_declared_by_rule(declared, target);
    else
        *out = sb_declared_no("no target of quantization_config.config_groups matches it");
    return SB_OK;
}
