/* declared_quark.c - AMD Quark: one scheme for the model, schemes for names and classes, and a list
 * of exclusions. */
#include <inttypes.h>
#include <string.h>

#include "ref/container/show.h"
#include "ref/model/declared_parts.h"

/* Spec of one tensor (weight, input_tensors); `present` is 0 if it is null or absent. */
typedef struct spec {
    int present, dynamic, symmetric;
    const char *dtype, *scheme;
    int64_t group;
    uint64_t block[2]; /* of per_block; 0: absent */
} spec;

static int is(const char *text, const char *name)
{
    return strcmp(text, name) == 0;
}

/* A switch that may be null, as Quark writes it where it has no meaning. */
static sb_status read_switch(const sb_json_object *at, const char *key, int otherwise, int *out,
                             sb_error *err)
{
    *out = otherwise;
    return sb_json_get(at, key) ? sb_json_bool(at, key, out, err) : SB_OK;
}

static sb_status read_spec(const sb_json_object *at, const char *key, spec *out, sb_error *err)
{
    json_t *value = sb_json_get(at, key);
    char path[640];
    sb_json_object object;
    *out = (spec){.present = value != NULL};
    if (!value)
        return SB_OK;
    if (json_is_array(value))
        return sb_json_fail(at, key, SB_ERR_UNSUPPORTED, err,
                            "are quantized in several steps, which is not read");
    snprintf(path, sizeof path, "%s%s%s", at->path, at->path[0] ? "." : "", key);
    sb_status status = sb_json_object_at(value, at->file, path, &object, err);
    if (status == SB_OK)
        status = sb_json_string(&object, "dtype", &out->dtype, err);
    if (status == SB_OK)
        status = sb_json_string_or(&object, "qscheme", "per_tensor", &out->scheme, err);
    if (status == SB_OK)
        status = read_switch(&object, "is_dynamic", 0, &out->dynamic, err);
    if (status == SB_OK)
        status = read_switch(&object, "symmetric", 1, &out->symmetric, err);
    if (status == SB_OK)
        status = sb_declared_group(&object, "group_size", 0, &out->group, err);
    size_t two;
    if (status == SB_OK && is(out->scheme, "per_block"))
        status = sb_json_u64_array(&object, "block_size", 2, 2, out->block, &two, err);
    if (status == SB_OK && (out->block[0] > 1 << 24 || out->block[1] > 1 << 24))
        status = sb_json_wrong(&object, "block_size", sb_json_get(&object, "block_size"),
                               "two numbers up to 16777216", err);
    if (status == SB_OK && is(out->dtype, "fp4") && is(out->scheme, "per_group")) {
        const char *format = NULL;
        status = sb_json_string_or(&object, "scale_format", "float32", &format, err);
        if (status == SB_OK && (out->group != 32 || !is(format, "e8m0")))
            status = sb_json_fail(&object, "scale_format", SB_ERR_UNSUPPORTED, err,
                                  "is \"%s\" in groups of %" PRId64
                                  ", which is not read with fp4: expected e8m0 and 32",
                                  SB_SHOW(format), out->group);
    }
    return status;
}

static sb_status refuse_spec(const sb_json_object *at, const char *key, const spec *s,
                             sb_error *err)
{
    return sb_json_fail(at, key, SB_ERR_UNSUPPORTED, err, "are %s %s %s, which is not read",
                        s->dynamic ? "dynamic" : "static", SB_SHOW(s->dtype), SB_SHOW(s->scheme));
}

/* "Quantized weights are fp4 in groups of 32 with E8M0 scales, fp8_e4m3 per tensor, channel
 * or block, or int8 per tensor or channel". The tensors of Quark's other integers are not known
 * here. */
static sb_status weights(const sb_json_object *at, const spec *w, sb_declaration *out,
                         sb_error *err)
{
    static const struct {
        const char *dtype, *scheme;
        sb_declaration out;
    } known[] = {
        {"fp4", "per_group", {.family = SB_FAMILY_MXFP4, .strategy = SB_STRATEGY_GROUP, .bits = 4}},
        {"fp8_e4m3", "per_tensor", {.family = SB_FAMILY_FP8, .strategy = SB_STRATEGY_TENSOR}},
        {"fp8_e4m3", "per_channel", {.family = SB_FAMILY_FP8, .strategy = SB_STRATEGY_CHANNEL}},
        {"fp8_e4m3", "per_block", {.family = SB_FAMILY_FP8, .strategy = SB_STRATEGY_BLOCK}},
        {"int8", "per_tensor", {.family = SB_FAMILY_INT, .strategy = SB_STRATEGY_TENSOR}},
        {"int8", "per_channel", {.family = SB_FAMILY_INT, .strategy = SB_STRATEGY_CHANNEL}},
    };
    size_t i = 0, n = sizeof known / sizeof *known;
    while (i < n && !(is(w->dtype, known[i].dtype) && is(w->scheme, known[i].scheme)))
        i++;
    if (i == n || w->dynamic || (known[i].out.family == SB_FAMILY_INT && !w->symmetric))
        return refuse_spec(at, "weight", w, err);
    *out = known[i].out;
    out->packing = SB_PACKED_QUARK;
    out->bits = out->bits ? out->bits : 8;
    out->symmetric = 1;
    out->group_size = out->family == SB_FAMILY_MXFP4 ? 32 : 0;
    out->ue8m0 = out->family == SB_FAMILY_MXFP4;
    out->block_rows = (uint32_t)w->block[0];
    out->block_cols = (uint32_t)w->block[1];
    return SB_OK;
}

static sb_status inputs(const sb_json_object *at, const spec *x, sb_declaration *out, sb_error *err)
{
    int fp4 = is(x->dtype, "fp4"), integers = is(x->dtype, "int8");
    if (fp4 && x->dynamic && is(x->scheme, "per_group"))
        out->activation = SB_ACTIVATION_DYNAMIC_GROUP;
    else if (!fp4 && x->dynamic && is(x->scheme, "per_tensor"))
        out->activation = SB_ACTIVATION_DYNAMIC_TENSOR;
    else if (!fp4 && x->dynamic && is(x->scheme, "per_channel"))
        out->activation = SB_ACTIVATION_DYNAMIC_TOKEN;
    else if (!fp4 && !x->dynamic && is(x->scheme, "per_tensor"))
        out->activation = SB_ACTIVATION_STATIC_TENSOR;
    if (out->activation == SB_ACTIVATION_NONE || (!fp4 && !integers && !is(x->dtype, "fp8_e4m3")))
        return refuse_spec(at, "input_tensors", x, err);
    out->activation_bits = fp4 ? 4 : 8;
    out->activation_group = fp4 ? 32 : 0;
    out->activation_int = (uint8_t)integers;
    return SB_OK;
}

/* Reads {weight, input_tensors, ...}; *index is SB_NOT_QUANTIZED without a weight. */
static sb_status read_scheme(const sb_json_object *at, sb_declared *declared, int32_t *index,
                             sb_error *err)
{
    spec w, x;
    sb_declaration scheme = {0};
    sb_status status = read_spec(at, "weight", &w, err);
    if (status == SB_OK)
        status = read_spec(at, "input_tensors", &x, err);
    *index = SB_NOT_QUANTIZED;
    if (status != SB_OK || !w.present)
        return status;
    status = weights(at, &w, &scheme, err);
    if (status == SB_OK && x.present)
        status = inputs(at, &x, &scheme, err);
    return status == SB_OK ? sb_declared_scheme(declared, &scheme, index, err) : status;
}

/* Names are full names, with wildcards as in a shell; vLLM also reads "re:". */
static sb_rule_kind kind_of(const char **text)
{
    if (strncmp(*text, "re:", 3) == 0) {
        *text += 3;
        return SB_RULE_MATCH;
    }
    return strpbrk(*text, "*?[") ? SB_RULE_GLOB : SB_RULE_EXACT;
}

static sb_status read_named(void *ctx, const sb_json_object *list, const char *name,
                            const sb_json_object *member, sb_error *err)
{
    sb_declared *declared = ctx;
    int32_t index;
    const char *text = name;
    sb_rule_kind kind = kind_of(&text);
    sb_rule_place place = {list->file, list->path, SIZE_MAX};
    sb_status status = read_scheme(member, declared, &index, err);
    return status == SB_OK ? sb_rules_add(&declared->targets, kind, text, name, index, &place, err)
                           : status;
}

/* "A rotation, a quantized softmax and weights that are not packed are refused" */
static sb_status refuse(const sb_json_object *at, sb_error *err)
{
    size_t i;
    json_t *algo;
    json_array_foreach(sb_json_get(at, "algo_config"), i, algo)
    {
        const char *name = json_string_value(json_object_get(algo, "name"));
        if (name && (strcmp(name, "rotation") == 0 || strcmp(name, "quarot") == 0))
            return sb_json_fail(at, "algo_config", SB_ERR_UNSUPPORTED, err,
                                "has \"%s\": rotated weights are not read", name);
    }
    if (sb_json_get(at, "softmax_quant_spec"))
        return sb_json_fail(at, "softmax_quant_spec", SB_ERR_UNSUPPORTED, err,
                            "is there: a quantized softmax is not read");
    const char *packed =
        json_string_value(json_object_get(sb_json_get(at, "export"), "weight_format"));
    if (packed && strcmp(packed, "real_quantized") != 0)
        return sb_json_fail(at, "export", SB_ERR_UNSUPPORTED, err,
                            "has weight_format \"%s\": the weights are not packed, expected "
                            "\"real_quantized\"",
                            SB_SHOW(packed));
    return SB_OK;
}

/* The type of the KV cache is the type of the outputs of its projections. */
static sb_status read_kv(void *ctx, const sb_json_object *list, const char *name,
                         const sb_json_object *member, sb_error *err)
{
    sb_declared *declared = ctx;
    spec out;
    (void)list, (void)name;
    sb_status status = read_spec(member, "output_tensors", &out, err);
    if (status != SB_OK || !out.present)
        return status;
    if (!is(out.dtype, "fp8_e4m3"))
        return refuse_spec(member, "output_tensors", &out, err);
    declared->kv = SB_KV_FP8;
    return SB_OK;
}

/* Visits the members of an object that may be absent. */
static sb_status each(const sb_json_object *at, const char *key, sb_declared_visit visit, void *ctx,
                      sb_error *err)
{
    return sb_json_get(at, key) ? sb_declared_each(at, key, NULL, visit, ctx, err) : SB_OK;
}

sb_status sb_declared_quark_read(sb_declared_reading *reading, sb_error *err)
{
    sb_declared *declared = reading->declared;
    const sb_json_object *at = &reading->object;
    sb_json_object global;
    sb_status status = refuse(at, err);
    if (status == SB_OK)
        status = sb_json_object_at(sb_json_get(at, "global_quant_config"), at->file,
                                   "quantization_config.global_quant_config", &global, err);
    if (status == SB_OK)
        status = read_scheme(&global, declared, &declared->base, err);
    if (status == SB_OK)
        status = each(at, "layer_quant_config", read_named, declared, err);
    if (status == SB_OK)
        status = each(at, "layer_type_quant_config", read_named, declared, err);
    if (status == SB_OK)
        status = each(at, "kv_cache_quant_config", read_kv, declared, err);
    if (status == SB_OK)
        status =
            sb_declared_names(at, "exclude", kind_of, SB_NOT_QUANTIZED, &declared->ignore, err);
    return status;
}

/* A name stands for a module; the name of a layer's experts stands for each of them. */
static sb_status find(const sb_declared *declared, const sb_rules *rules, const char *module,
                      const sb_rule **out, sb_error *err)
{
    sb_module_name room;
    const char *experts = sb_module_experts(module, &room);
    sb_status status = sb_rules_find(declared, rules, module, out, err);
    if (status == SB_OK && !*out && experts)
        status = sb_rules_find(declared, rules, experts, out, err);
    return status;
}

/* "in this order: exclude, layer_quant_config, layer_type_quant_config, global_quant_config"
 */
sb_status sb_declared_quark_for(const sb_declared *declared, const char *module,
                                sb_declaration *out, sb_error *err)
{
    const sb_rule *rule = NULL;
    sb_module_kind kind = sb_module_kind_of(module);
    sb_status status = find(declared, &declared->ignore, module, &rule, err);
    if (status == SB_OK && rule) {
        *out = sb_declared_no(rule->where);
        return SB_OK;
    }
    if (status == SB_OK)
        status = find(declared, &declared->targets, module, &rule, err);
    if (status != SB_OK)
        return status;
    /* stacked experts are parameters of a module of another class: Quark leaves them as they are */
    int linear = kind == SB_MODULE_LINEAR || kind == SB_MODULE_HEAD || kind == SB_MODULE_ONE_ROW;
    if (!rule && linear)
        rule = sb_rules_exact(&declared->targets, "Linear");
    if (rule)
        *out = sb_declared_by_rule(declared, rule);
    else if (!linear)
        *out = sb_declared_no("it is not a linear layer");
    else
        *out = sb_declared_yes(declared, declared->base, "quantization_config.global_quant_config");
    return SB_OK;
}
