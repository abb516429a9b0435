/* declared_auto_round.c - AutoRound: one scheme, the blocks of layers to which it applies, and
 * extra_config for single modules or regular expressions. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/show.h"
#include "ref/model/declared_parts.h"

/* The keys that extra_config may change. A key that is absent there keeps its global value. */
typedef struct ar_scheme {
    uint64_t bits;
    int64_t group;
    int symmetric;
    const char *type;
    uint64_t act_bits;
    int act_dynamic;
} ar_scheme;

static sb_status read_scheme(const sb_json_object *at, ar_scheme *s, sb_error *err)
{
    sb_status status = sb_json_u64_or(at, "bits", s->bits, &s->bits, err);
    if (status == SB_OK)
        status = sb_declared_group(at, "group_size", s->group, &s->group, err);
    if (status == SB_OK && sb_json_get(at, "sym"))
        status = sb_json_bool(at, "sym", &s->symmetric, err);
    if (status == SB_OK && sb_json_get(at, "data_type"))
        status = sb_json_string(at, "data_type", &s->type, err);
    if (status == SB_OK && sb_json_get(at, "act_bits"))
        status = sb_json_u64(at, "act_bits", &s->act_bits, err);
    if (status == SB_OK && sb_json_get(at, "act_dynamic"))
        status = sb_json_bool(at, "act_dynamic", &s->act_dynamic, err);
    return status;
}

/* "16 bits or more, and the data types of plain floats, mean no quantization" */
static int is_plain(const ar_scheme *s)
{
    static const char *const plain[] = {"float", "float16", "bfloat16", "float32"};
    for (size_t i = 0; i < 4; i++)
        if (strcmp(s->type, plain[i]) == 0)
            return 1;
    return s->bits >= 16;
}

static sb_quant_family family_of(const ar_scheme *s)
{
    if (sb_starts(s->type, "int"))
        return s->bits >= 2 && s->bits <= 8 ? SB_FAMILY_INT : SB_FAMILY_NONE;
    if (sb_starts(s->type, "nv_fp"))
        return s->bits == 4 && s->group == 16 ? SB_FAMILY_NVFP4 : SB_FAMILY_NONE;
    if (sb_starts(s->type, "mx_fp") && s->group == 32)
        return s->bits == 4 ? SB_FAMILY_MXFP4 : s->bits == 8 ? SB_FAMILY_MXFP8 : SB_FAMILY_NONE;
    return sb_starts(s->type, "fp") && s->bits == 8 ? SB_FAMILY_FP8 : SB_FAMILY_NONE;
}

static sb_declared_packing packing_of(const char *packing, sb_quant_family family)
{
    static const struct {
        const char *name;
        sb_quant_family family;
        sb_declared_packing packing;
    } packings[] = {
        {"auto_round:auto_gptq", SB_FAMILY_INT, SB_PACKED_GPTQ},
        {"auto_round:gptq", SB_FAMILY_INT, SB_PACKED_GPTQ},
        {"auto_round:gptqmodel", SB_FAMILY_INT, SB_PACKED_GPTQ_V2},
        {"auto_round", SB_FAMILY_INT, SB_PACKED_GPTQ_V2},
        {"auto_round:auto_awq", SB_FAMILY_INT, SB_PACKED_AWQ},
        {"auto_round:awq", SB_FAMILY_INT, SB_PACKED_AWQ},
        {"auto_round:llm_compressor", SB_FAMILY_NVFP4, SB_PACKED_CT_NVFP4},
        {"auto_round:llm_compressor", SB_FAMILY_MXFP4, SB_PACKED_CT_MXFP4},
        {"auto_round:llm_compressor", SB_FAMILY_MXFP8, SB_PACKED_CT_MXFP8},
        {"auto_round:llm_compressor", SB_FAMILY_FP8, SB_PACKED_CT_FLOAT},
        {"auto_round:llm_compressor", SB_FAMILY_INT, SB_PACKED_CT_PACKED},
        {"auto_round:fp8", SB_FAMILY_FP8, SB_PACKED_CT_FLOAT},
        {"auto_round:fp8_static", SB_FAMILY_FP8, SB_PACKED_CT_FLOAT},
    };
    for (size_t i = 0; i < sizeof packings / sizeof packings[0]; i++)
        if (packings[i].family == family && strcmp(packings[i].name, packing) == 0)
            return packings[i].packing;
    return SB_PACKED_NONE;
}

static void set_activation(const ar_scheme *s, sb_declaration *out)
{
    if (s->act_bits >= 16)
        return;
    out->activation_bits = (uint32_t)s->act_bits;
    out->activation_int = out->family == SB_FAMILY_INT;
    if (out->family == SB_FAMILY_NVFP4)
        out->activation = SB_ACTIVATION_NVFP4_LOCAL;
    else if (out->ue8m0)
        out->activation = SB_ACTIVATION_DYNAMIC_GROUP;
    else
        out->activation =
            s->act_dynamic ? SB_ACTIVATION_DYNAMIC_TOKEN : SB_ACTIVATION_STATIC_TENSOR;
    if (out->activation != SB_ACTIVATION_DYNAMIC_TOKEN &&
        out->activation != SB_ACTIVATION_STATIC_TENSOR)
        out->activation_group = out->group_size;
}

static sb_status add_scheme(sb_declared *declared, const sb_json_object *at, const char *packing,
                            const ar_scheme *s, int32_t *index, sb_error *err)
{
    *index = SB_NOT_QUANTIZED;
    if (is_plain(s))
        return SB_OK;
    sb_declaration out = {.family = family_of(s)};
    out.packing = packing_of(packing, out.family);
    if (out.packing == SB_PACKED_NONE)
        return sb_json_fail(at, "data_type", SB_ERR_UNSUPPORTED, err,
                            "is \"%s\" of %" PRIu64 " bits in groups of %" PRId64
                            ", which is not read in packing_format \"%s\"",
                            SB_SHOW(s->type), s->bits, s->group, SB_SHOW(packing));
    out.bits = (uint32_t)s->bits;
    out.symmetric = s->symmetric != 0;
    out.group_size = s->group > 0 ? (uint32_t)s->group : 0;
    out.strategy = s->group > 0 ? SB_STRATEGY_GROUP : SB_STRATEGY_CHANNEL;
    if (out.family == SB_FAMILY_NVFP4)
        out.strategy = SB_STRATEGY_TENSOR_GROUP;
    out.ue8m0 = out.family == SB_FAMILY_MXFP4 || out.family == SB_FAMILY_MXFP8;
    set_activation(s, &out);
    return sb_declared_scheme(declared, &out, index, err);
}

/* The context for visiting extra_config. */
typedef struct extra_of {
    sb_declared *declared;
    const char *packing;
    const ar_scheme *base;
} extra_of;

static sb_status read_extra(void *ctx, const sb_json_object *extra, const char *name,
                            const sb_json_object *changes, sb_error *err)
{
    const extra_of *of = ctx;
    ar_scheme scheme = *of->base;
    int32_t index = SB_NOT_QUANTIZED;
    sb_rule_kind kind = sb_looks_like_regex(name) ? SB_RULE_SEARCH : SB_RULE_EXACT;
    sb_rule_place place = {extra->file, extra->path, SIZE_MAX};
    sb_status status = read_scheme(changes, &scheme, err);
    if (status == SB_OK)
        status = add_scheme(of->declared, changes, of->packing, &scheme, &index, err);
    if (status == SB_OK)
        status = sb_rules_add(&of->declared->targets, kind, name, name, index, &place, err);
    return status;
}

static sb_rule_kind prefix(const char **text)
{
    (void)text;
    return SB_RULE_PREFIX;
}

/* Reads the blocks: an array of names, or one string with commas. */
static sb_status read_blocks(sb_declared_reading *reading, sb_error *err)
{
    static const char key[] = "block_name_to_quantize";
    const sb_json_object *at = &reading->object;
    const char *text = json_string_value(sb_json_get(at, key));
    if (!text)
        return sb_declared_names(at, key, prefix, SB_NOT_QUANTIZED, &reading->declared->blocks,
                                 err);
    char *copy = sb_strdup(text);
    sb_status status = copy ? SB_OK : sb_declared_no_memory(reading->declared, err);
    sb_rule_place place = {at->file, key, 0};
    for (char *name = copy; name && status == SB_OK; place.index++) {
        char *comma = strchr(name, ',');
        if (comma)
            *comma = '\0';
        name += strspn(name, " ");
        name[strcspn(name, " ")] = '\0';
        if (name[0])
            status = sb_rules_add(&reading->declared->blocks, SB_RULE_PREFIX, name, name,
                                  SB_NOT_QUANTIZED, &place, err);
        name = comma ? comma + 1 : NULL;
    }
    free(copy);
    return status;
}

sb_status sb_declared_auto_round_read(sb_declared_reading *reading, sb_error *err)
{
    const sb_json_object *at = &reading->object;
    ar_scheme scheme = {
        .bits = 4, .group = 128, .symmetric = 1, .type = "int", .act_bits = 16, .act_dynamic = 1};
    const char *packing = NULL;
    sb_status status = read_scheme(at, &scheme, err);
    if (status == SB_OK)
        status = sb_json_string_or(at, "packing_format", "auto_round:auto_gptq", &packing, err);
    if (status == SB_OK)
        status = add_scheme(reading->declared, at, packing, &scheme, &reading->declared->base, err);
    if (status == SB_OK)
        status = read_blocks(reading, err);
    if (status != SB_OK || !sb_json_get(&reading->object, "extra_config"))
        return status;
    extra_of of = {reading->declared, packing, &scheme};
    return sb_declared_each(&reading->object, "extra_config", NULL, read_extra, &of, err);
}

/* "the key equal to its name, else the longest regular expression found anywhere in the
 * name" */
static sb_status find(const sb_declared *declared, const char *module, const sb_rule **out,
                      const sb_rule **first, sb_error *err)
{
    size_t next = 0;
    const sb_rule *rule = NULL;
    *first = NULL;
    *out = sb_rules_exact(&declared->targets, module);
    if (*out)
        return SB_OK;
    do {
        sb_status status = sb_rules_next(declared, &declared->targets, module, &next, &rule, err);
        if (status != SB_OK)
            return status;
        if (rule && !*first)
            *first = rule;
        if (rule && (!*out || strlen(rule->text) > strlen((*out)->text)))
            *out = rule;
    } while (rule);
    return SB_OK;
}

sb_status sb_declared_auto_round_for(const sb_declared *declared, const char *module,
                                     sb_declaration *out, sb_error *err)
{
    const sb_rule *rule;
    const sb_rule *first;
    const sb_rule *block = NULL;
    sb_module_kind kind = sb_module_kind_of(module);
    sb_status status = find(declared, module, &rule, &first, err);
    if (status == SB_OK)
        status = sb_rules_find(declared, &declared->blocks, module, &block, err);
    if (status != SB_OK)
        return status;
    if (rule && rule->scheme == SB_NOT_QUANTIZED)
        *out = sb_declared_no(rule->where);
    else if (kind == SB_MODULE_OTHER || kind == SB_MODULE_ROUTER || kind == SB_MODULE_ONE_ROW)
        *out = sb_declared_no("it is not a linear layer of more than one row");
    else if (rule)
        *out = sb_declared_by_rule(declared, rule);
    else if (declared->blocks.count > 0 && !block)
        *out = sb_declared_no("it is outside the blocks of block_name_to_quantize");
    else if (kind == SB_MODULE_HEAD)
        *out = sb_declared_no("AutoRound does not quantize the head unless extra_config names it");
    else if (!block && sb_module_outside(module))
        *out = sb_declared_unknown("no rule covers modules outside the decoder");
    else
        *out = sb_declared_yes(declared, declared->base, block ? block->where : "bits");
    if (first && first->scheme != rule->scheme)
        out->vllm_rule = first->where;
    return SB_OK;
}
