/* declared_int.c - GPTQ and AWQ: one integer scheme for the linear layers of the decoder, and rules
 * that change it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "ref/container/show.h"
#include "ref/model/declared_parts.h"

static sb_status read_bits(const sb_json_object *at, uint64_t otherwise, uint32_t *out,
                           sb_error *err)
{
    uint64_t bits;
    sb_status status = sb_json_u64_or(at, "bits", otherwise, &bits, err);
    if (status == SB_OK && bits != 2 && bits != 3 && bits != 4 && bits != 8)
        return sb_json_fail(at, "bits", SB_ERR_INPUT, err, "is %" PRIu64 ", expected 2, 3, 4 or 8",
                            bits);
    *out = (uint32_t)bits;
    return status;
}

static void set_group(sb_declaration *scheme, int64_t group)
{
    scheme->strategy = group < 0 ? SB_STRATEGY_CHANNEL : SB_STRATEGY_GROUP;
    scheme->group_size = group < 0 ? 0 : (uint32_t)group;
}

/* --- GPTQ ------------------------------------------------------------------------------------- */

/* Reads an object with the keys of a scheme. Absent keys leave *scheme unchanged. */
static sb_status read_gptq(const sb_json_object *at, sb_declaration *scheme, sb_error *err)
{
    int symmetric;
    int act_order;
    int64_t group;
    int64_t before = scheme->strategy == SB_STRATEGY_GROUP ? (int64_t)scheme->group_size : -1;
    sb_status status = read_bits(at, scheme->bits, &scheme->bits, err);
    if (status == SB_OK)
        status = sb_declared_group(at, "group_size", before, &group, err);
    if (status == SB_OK)
        status = sb_json_bool_or(at, "sym", scheme->symmetric, &symmetric, err);
    if (status == SB_OK)
        status = sb_json_bool_or(at, "desc_act", scheme->act_order, &act_order, err);
    if (status != SB_OK)
        return status;
    set_group(scheme, group);
    scheme->symmetric = (uint8_t)symmetric;
    scheme->act_order = (uint8_t)act_order;
    return SB_OK;
}

/* Reads the packing. Older files name it in checkpoint_format, newer files in format, some files in
 * both. */
static sb_status read_packing(const sb_json_object *at, sb_declaration *scheme, sb_error *err)
{
    static const char *const keys[] = {"checkpoint_format", "format"};
    sb_declared_packing seen = SB_PACKED_NONE;
    for (size_t i = 0; i < 2; i++) {
        json_t *value = sb_json_get(at, keys[i]);
        const char *text = json_string_value(value);
        if (!value)
            continue;
        if (!text || (strcmp(text, "gptq") != 0 && strcmp(text, "gptq_v2") != 0))
            return sb_json_fail(at, keys[i], SB_ERR_UNSUPPORTED, err,
                                "is \"%s\", which is not read: expected \"gptq\" or \"gptq_v2\"",
                                text ? SB_SHOW(text) : "(no string)");
        scheme->packing = text[4] ? SB_PACKED_GPTQ_V2 : SB_PACKED_GPTQ;
        if (seen != SB_PACKED_NONE && seen != scheme->packing)
            return sb_json_fail(at, keys[i], SB_ERR_INPUT, err,
                                "is \"%s\", which contradicts checkpoint_format", SB_SHOW(text));
        seen = scheme->packing;
    }
    return SB_OK;
}

/* The context for visiting `dynamic`. */
typedef struct dynamic_of {
    sb_declared *declared;
    const sb_declaration *base;
} dynamic_of;

/* "a key that starts with -: excludes modules; any other key, with or without +:, changes the
 * settings that its object names. The first key that matches from the start of the name decides" */
static sb_status read_dynamic(void *ctx, const sb_json_object *dynamic, const char *name,
                              const sb_json_object *changes, sb_error *err)
{
    const dynamic_of *of = ctx;
    sb_declaration scheme = *of->base;
    int32_t index = SB_NOT_QUANTIZED;
    int excludes = strncmp(name, "-:", 2) == 0;
    const char *regex = excludes || strncmp(name, "+:", 2) == 0 ? name + 2 : name;
    sb_rule_place place = {dynamic->file, dynamic->path, SIZE_MAX};
    sb_status status = excludes ? SB_OK : read_gptq(changes, &scheme, err);
    if (status == SB_OK && !excludes)
        status = sb_declared_scheme(of->declared, &scheme, &index, err);
    if (status == SB_OK)
        status =
            sb_rules_add(&of->declared->targets, SB_RULE_MATCH, regex, name, index, &place, err);
    return status;
}

sb_status sb_declared_gptq_read(sb_declared_reading *reading, sb_error *err)
{
    const sb_json_object *at = &reading->object;
    sb_declared *declared = reading->declared;
    sb_declaration scheme = {.family = SB_FAMILY_INT, .packing = SB_PACKED_GPTQ, .symmetric = 1};
    int lm_head = 0;
    set_group(&scheme, 128);
    sb_status status = read_gptq(at, &scheme, err);
    if (status == SB_OK)
        status = read_packing(at, &scheme, err);
    if (status == SB_OK)
        status = sb_json_bool_or(at, "lm_head", 0, &lm_head, err);
    if (status == SB_OK)
        status = sb_declared_scheme(declared, &scheme, &declared->base, err);
    declared->lm_head = (uint8_t)lm_head;
    const json_t *dynamic = sb_json_get(at, "dynamic");
    if (status != SB_OK || !dynamic || json_is_false(dynamic))
        return status;
    return sb_declared_each(at, "dynamic", NULL, read_dynamic, &(dynamic_of){declared, &scheme},
                            err);
}

sb_status sb_declared_gptq_for(const sb_declared *declared, const char *module, sb_declaration *out,
                               sb_error *err)
{
    const sb_rule *rule;
    sb_module_kind kind = sb_module_kind_of(module);
    sb_status status = sb_rules_find(declared, &declared->targets, module, &rule, err);
    if (status != SB_OK)
        return status;
    if (rule && rule->scheme == SB_NOT_QUANTIZED)
        *out = sb_declared_no(rule->where);
    else if (kind == SB_MODULE_OTHER || kind == SB_MODULE_ROUTER)
        *out = sb_declared_no("it is not a linear layer");
    else if (kind == SB_MODULE_ONE_ROW)
        *out = sb_declared_no("one row does not fill a word of zero points");
    else if (kind == SB_MODULE_HEAD && !declared->lm_head)
        *out = sb_declared_no("quantization_config.lm_head is not true");
    else if (rule)
        *out = sb_declared_by_rule(declared, rule);
    else if (sb_module_outside(module))
        *out = sb_declared_unknown("no rule covers modules outside the decoder");
    else
        *out = sb_declared_yes(declared, declared->base, "quantization_config.bits");
    return SB_OK;
}

/* --- AWQ -------------------------------------------------------------------------------------- */

/* "AWQ excludes every module whose name contains one of its modules_to_not_convert" */
static sb_rule_kind substring(const char **text)
{
    (void)text;
    return SB_RULE_SUBSTRING;
}

sb_status sb_declared_awq_read(sb_declared_reading *reading, sb_error *err)
{
    const sb_json_object *at = &reading->object;
    sb_declared *declared = reading->declared;
    sb_declaration scheme = {.family = SB_FAMILY_INT, .packing = SB_PACKED_AWQ};
    const char *version = NULL;
    int zero_point = 1;
    int64_t group = 0;
    sb_status status = read_bits(at, 4, &scheme.bits, err);
    if (status == SB_OK)
        status = sb_declared_group(at, "group_size", 128, &group, err);
    if (status == SB_OK)
        status = sb_json_bool_or(at, "zero_point", 1, &zero_point, err);
    if (status == SB_OK)
        status = sb_json_string_or(at, "version", "gemm", &version, err);
    if (status != SB_OK)
        return status;
    if (strcasecmp(version, "gemm") != 0)
        return sb_json_fail(at, "version", SB_ERR_UNSUPPORTED, err,
                            "is \"%s\", which is not read: expected \"gemm\"", SB_SHOW(version));
    set_group(&scheme, group);
    scheme.symmetric = (uint8_t)!zero_point;
    status = sb_declared_scheme(declared, &scheme, &declared->base, err);
    if (status != SB_OK)
        return status;
    return sb_declared_names(at, "modules_to_not_convert", substring, SB_NOT_QUANTIZED,
                             &declared->ignore, err);
}

sb_status sb_declared_awq_for(const sb_declared *declared, const char *module, sb_declaration *out,
                              sb_error *err)
{
    const sb_rule *rule;
    sb_module_kind kind = sb_module_kind_of(module);
    sb_status status = sb_rules_find(declared, &declared->ignore, module, &rule, err);
    if (status != SB_OK)
        return status;
    if (rule)
        *out = sb_declared_no(rule->where);
    else if (kind == SB_MODULE_HEAD)
        *out = sb_declared_no("AWQ does not quantize the head");
    else if (kind != SB_MODULE_LINEAR && kind != SB_MODULE_EXPERTS)
        *out = sb_declared_no("it is not a linear layer of more than one row");
    else if (sb_module_outside(module))
        *out = sb_declared_unknown("no rule covers modules outside the decoder");
    else
        *out = sb_declared_yes(declared, declared->base, "quantization_config.bits");
    return SB_OK;
}
