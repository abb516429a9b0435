/* declared_fp8.c - the dialects of transformers: block FP8 as Qwen releases it, and MXFP4 experts.
 */
#include <stdio.h>
#include <string.h>

#include "ref/container/show.h"
#include "ref/model/declared_parts.h"

/* "a name excludes the module that it names, the modules below it, and the modules whose name
 * ends with it, at dots. A name with special characters is a regular expression from the start of
 * the name" */
static sb_rule_kind kind_of(const char **text)
{
    return sb_looks_like_regex(*text) ? SB_RULE_MATCH : SB_RULE_PART;
}

static sb_status read_excluded(sb_declared_reading *reading, sb_error *err)
{
    static const char *const keys[] = {"modules_to_not_convert", "ignored_layers"};
    sb_status status = SB_OK;
    for (size_t i = 0; i < 2 && status == SB_OK; i++)
        status = sb_declared_names(&reading->object, keys[i], kind_of, SB_NOT_QUANTIZED,
                                   &reading->declared->ignore, err);
    return status;
}

/* Reads one of two words; *second is 1 for the second word. An absent key means the first word. */
static sb_status either(const sb_json_object *at, const char *key, const char *const words[2],
                        int *second, sb_error *err)
{
    json_t *value = sb_json_get(at, key);
    const char *text = json_string_value(value);
    char expected[64];
    *second = text && strcmp(text, words[1]) == 0;
    if (!value || *second || (text && strcmp(text, words[0]) == 0))
        return SB_OK;
    snprintf(expected, sizeof expected, "\"%s\" or \"%s\"", words[0], words[1]);
    return sb_json_wrong(at, key, value, expected, err);
}

static sb_status read_block(const sb_json_object *at, sb_declaration *scheme, sb_error *err)
{
    uint64_t block[2];
    size_t two;
    scheme->strategy = SB_STRATEGY_TENSOR;
    if (!sb_json_get(at, "weight_block_size"))
        return SB_OK;
    sb_status status = sb_json_u64_array(at, "weight_block_size", 2, 2, block, &two, err);
    if (status != SB_OK)
        return status;
    if (block[0] - 1 >= 1 << 24 || block[1] - 1 >= 1 << 24)
        return sb_json_wrong(at, "weight_block_size", sb_json_get(at, "weight_block_size"),
                             "two numbers from 1 to 16777216", err);
    scheme->strategy = SB_STRATEGY_BLOCK;
    scheme->block_rows = (uint32_t)block[0];
    scheme->block_cols = (uint32_t)block[1];
    return SB_OK;
}

sb_status sb_declared_fp8_read(sb_declared_reading *reading, sb_error *err)
{
    static const char *const fmts[2] = {"e4m3", "float8_e4m3fn"};
    static const char *const schemes[2] = {"dynamic", "static"};
    static const char *const scales[2] = {"float", "ue8m0"};
    const sb_json_object *at = &reading->object;
    sb_declaration scheme = {.family = SB_FAMILY_FP8,
                             .packing = SB_PACKED_FP8_INVERSE,
                             .bits = 8,
                             .activation_bits = 8,
                             .symmetric = 1};
    int other = 0;
    int is_static = 0;
    int ue8m0 = 0;
    sb_status status = either(at, "fmt", fmts, &other, err);
    if (status == SB_OK)
        status = either(at, "activation_scheme", schemes, &is_static, err);
    if (status == SB_OK)
        status = either(at, "scale_fmt", scales, &ue8m0, err);
    if (status == SB_OK)
        status = read_block(at, &scheme, err);
    if (status != SB_OK)
        return status;
    scheme.ue8m0 = (uint8_t)ue8m0;
    if (is_static) {
        scheme.activation = SB_ACTIVATION_STATIC_TENSOR;
    } else if (scheme.strategy == SB_STRATEGY_BLOCK) {
        scheme.activation = SB_ACTIVATION_DYNAMIC_GROUP;
        scheme.activation_group = scheme.block_cols;
    } else {
        scheme.activation = SB_ACTIVATION_DYNAMIC_TENSOR;
    }
    status = sb_declared_scheme(reading->declared, &scheme, &reading->declared->base, err);
    return status == SB_OK ? read_excluded(reading, err) : status;
}

static sb_status excluded(const sb_declared *declared, const char *module, const sb_rule **out,
                          sb_error *err)
{
    sb_module_name room;
    const char *experts = sb_module_experts(module, &room);
    sb_status status = sb_rules_find(declared, &declared->ignore, module, out, err);
    if (status == SB_OK && !*out && experts)
        status = sb_rules_find(declared, &declared->ignore, experts, out, err);
    return status;
}

sb_status sb_declared_fp8_for(const sb_declared *declared, const char *module, sb_declaration *out,
                              sb_error *err)
{
    const sb_rule *rule;
    sb_module_kind kind = sb_module_kind_of(module);
    sb_status status = excluded(declared, module, &rule, err);
    if (status != SB_OK)
        return status;
    if (rule)
        *out = sb_declared_no(rule->where);
    else if (kind == SB_MODULE_OTHER || kind == SB_MODULE_ROUTER)
        *out = sb_declared_no("it is not a linear layer");
    else
        *out =
            sb_declared_yes(declared, declared->base, "quantization_config.quant_method \"fp8\"");
    return SB_OK;
}

sb_status sb_declared_mxfp4_read(sb_declared_reading *reading, sb_error *err)
{
    const sb_declaration scheme = {.family = SB_FAMILY_MXFP4,
                                   .packing = SB_PACKED_MXFP4_BLOCKS,
                                   .strategy = SB_STRATEGY_GROUP,
                                   .bits = 4,
                                   .group_size = 32,
                                   .symmetric = 1,
                                   .ue8m0 = 1};
    sb_status status =
        sb_declared_scheme(reading->declared, &scheme, &reading->declared->base, err);
    return status == SB_OK ? read_excluded(reading, err) : status;
}

/* The answer for MXFP4, a form that only experts have. */
sb_status sb_declared_mxfp4_for(const sb_declared *declared, const char *module,
                                sb_declaration *out, sb_error *err)
{
    const sb_rule *rule;
    sb_module_name room;
    sb_status status = excluded(declared, module, &rule, err);
    if (status != SB_OK)
        return status;
    if (rule)
        *out = sb_declared_no(rule->where);
    else if (!sb_module_experts(module, &room))
        *out = sb_declared_no("quant_method \"mxfp4\" is for experts only");
    else
        *out =
            sb_declared_yes(declared, declared->base, "quantization_config.quant_method \"mxfp4\"");
    return SB_OK;
}
