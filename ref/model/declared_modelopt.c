/* declared_modelopt.c - ModelOpt: one quant_algo and a list of exclusions, or a quant_algo for each
 * layer; in config.json, in hf_quant_config.json, or in both. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "ref/container/show.h"
#include "ref/model/declared_parts.h"

static const struct {
    const char *name;
    sb_declaration scheme;
    int group;
} algos[] = {
#define SB_ALGO(text, kind, width, columns, scales, input, input_bits, scaled)                     \
    {text,                                                                                         \
     {.family = SB_FAMILY_##kind,                                                                  \
      .packing = SB_PACKED_MODELOPT,                                                               \
      .strategy = SB_STRATEGY_##scales,                                                            \
      .activation = SB_ACTIVATION_##input,                                                         \
      .bits = width,                                                                               \
      .activation_bits = input_bits,                                                               \
      .symmetric = 1,                                                                              \
      .ue8m0 = SB_FAMILY_##kind == SB_FAMILY_MXFP4 || SB_FAMILY_##kind == SB_FAMILY_MXFP8,         \
      .pre_scaled = scaled},                                                                       \
     columns},
#include "ref/model/declared_algos.def"
#undef SB_ALGO
};

enum { ALGOS = sizeof algos / sizeof algos[0] };

static int is_mixed(const char *algo)
{
    return strcasecmp(algo, "MIXED_PRECISION") == 0;
}

/* Reads a scheme. Its group_size is used only if the scheme has groups, because files have a
 * group_size for FP8, too. */
static sb_status read_scheme(const sb_json_object *at, const char *algo, sb_declared *declared,
                             int32_t *index, sb_error *err)
{
    size_t i = 0;
    int64_t group;
    while (i < ALGOS && strcasecmp(algos[i].name, algo) != 0)
        i++;
    if (i == ALGOS)
        return sb_json_fail(at, "quant_algo", SB_ERR_UNSUPPORTED, err,
                            "is \"%s\", which is not read", SB_SHOW(algo));
    sb_declaration scheme = algos[i].scheme;
    sb_status status = SB_OK;
    if (scheme.strategy == SB_STRATEGY_GROUP || scheme.strategy == SB_STRATEGY_TENSOR_GROUP) {
        status = sb_declared_group(at, "group_size", algos[i].group, &group, err);
        if (status != SB_OK)
            return status;
        int free_choice = scheme.family == SB_FAMILY_INT ||
                          (scheme.family == SB_FAMILY_NVFP4 && scheme.activation_bits != 4);
        if (group < 1 || (!free_choice && group != algos[i].group))
            return sb_json_fail(at, "group_size", SB_ERR_UNSUPPORTED, err,
                                "is %" PRId64 ", which is not read with %s: expected %d", group,
                                algos[i].name, algos[i].group);
        scheme.group_size = (uint32_t)group;
    } else if (scheme.strategy == SB_STRATEGY_BLOCK) {
        scheme.block_rows = scheme.block_cols = (uint32_t)algos[i].group;
    }
    if (scheme.activation == SB_ACTIVATION_NVFP4_LOCAL ||
        scheme.activation == SB_ACTIVATION_DYNAMIC_GROUP)
        scheme.activation_group = scheme.group_size;
    return sb_declared_scheme(declared, &scheme, index, err);
}

/* Names without wildcards are exact: ModelOpt writes exact names and names with a '*' at the
 * end. */
static sb_rule_kind kind_of(const char **text)
{
    return strpbrk(*text, "*?[") ? SB_RULE_GLOB : SB_RULE_EXACT;
}

/* The context for visiting quantized_layers, a map module -> {quant_algo, group_size, ...}. */
typedef struct layer_of {
    sb_declared *declared;
    sb_rules *out;
} layer_of;

static sb_status read_layer(void *ctx, const sb_json_object *layers, const char *name,
                            const sb_json_object *layer, sb_error *err)
{
    const layer_of *of = ctx;
    const char *algo = NULL, *text = name;
    int32_t index = SB_NOT_QUANTIZED;
    sb_rule_place place = {layers->file, layers->path, SIZE_MAX};
    sb_status status = sb_json_string(layer, "quant_algo", &algo, err);
    if (status == SB_OK)
        status = read_scheme(layer, algo, of->declared, &index, err);
    if (status == SB_OK)
        status = sb_rules_add(of->out, kind_of(&text), name, name, index, &place, err);
    return status;
}

static sb_status read_layers(const sb_json_object *at, sb_declared *declared, sb_rules *out,
                             sb_error *err)
{
    return sb_declared_each(at, "quantized_layers", NULL, read_layer, &(layer_of){declared, out},
                            err);
}

/* --- differences between the two files -------------------------------------------------------- */

static sb_status note_layers(sb_declared *declared, const sb_rules *theirs, sb_error *err)
{
    size_t differ = 0;
    const sb_rule *first = NULL;
    for (size_t i = 0; i < theirs->exact; i++) {
        const sb_rule *ours = sb_rules_exact(&declared->targets, theirs->rule[i].text);
        if (ours && ours->scheme == theirs->rule[i].scheme)
            continue;
        differ++;
        first = first ? first : &theirs->rule[i];
    }
    size_t missing = 0;
    for (size_t i = 0; i < declared->targets.exact; i++)
        missing += !sb_rules_exact(theirs, declared->targets.rule[i].text);
    sb_status status = SB_OK;
    if (first) {
        sb_declared_text text;
        sb_declaration said = sb_declared_by_rule(declared, first);
        status = sb_declared_add_note(declared, err,
                                      "hf_quant_config.json contradicts config.json for %zu of its "
                                      "%zu quantized_layers: \"%s\" is %s there",
                                      differ, theirs->exact, SB_SHOW(first->text),
                                      sb_declaration_text(&said, &text));
    }
    if (status == SB_OK && missing)
        status = sb_declared_add_note(
            declared, err, "hf_quant_config.json lacks %zu quantized_layers of config.json",
            missing);
    return status;
}

static sb_status note_lists(sb_declared *declared, const sb_rules *a, const char *name_a,
                            const sb_rules *b, const char *name_b, sb_error *err)
{
    for (size_t i = 0; i < a->count; i++) {
        size_t k = 0;
        while (k < b->count && strcmp(a->rule[i].text, b->rule[k].text) != 0)
            k++;
        if (k == b->count)
            return sb_declared_add_note(declared, err,
                                        "%s excludes \"%s\" from quantization, but %s does not",
                                        name_a, SB_SHOW(a->rule[i].text), name_b);
    }
    return SB_OK;
}

static sb_status note_text(sb_declared_reading *reading, const char *key, const char *theirs,
                           const char *ours, sb_error *err)
{
    if (strcasecmp(theirs ? theirs : "none", ours ? ours : "none") == 0)
        return SB_OK;
    return sb_declared_add_note(reading->declared, err,
                                "hf_quant_config.json says %s %s, but config.json %s", key,
                                theirs ? SB_SHOW(theirs) : "none", ours ? SB_SHOW(ours) : "none");
}

static const char *version_of(const sb_json_object *at)
{
    json_t *producer = sb_json_get(at, "producer");
    return json_string_value(json_object_get(producer, "version"));
}

/* "where two files differ, config.json decides, and each difference is reported as a note" */
static sb_status note_differences(sb_declared_reading *reading, const char *algo, sb_error *err)
{
    sb_declared *declared = reading->declared;
    sb_rules theirs = {0};
    sb_declared_kv kv;
    const char *their_algo = NULL;
    sb_status status = sb_json_string_or(&reading->hf, "quant_algo", NULL, &their_algo, err);
    if (status == SB_OK)
        status = sb_declared_read_kv(&reading->hf, "kv_cache_quant_algo", &kv, err);
    if (status == SB_OK)
        status = note_text(reading, "quant_algo", their_algo, algo, err);
    if (status == SB_OK)
        status = note_text(reading, "kv_cache_quant_algo", sb_declared_kv_name(kv),
                           sb_declared_kv_name(declared->kv), err);
    if (status == SB_OK)
        status = note_text(reading, "producer.version", version_of(&reading->hf_root),
                           version_of(&reading->object), err);
    if (status == SB_OK)
        status = sb_declared_names(&reading->hf, "exclude_modules", kind_of, SB_NOT_QUANTIZED,
                                   &theirs, err);
    if (status == SB_OK)
        status = note_lists(declared, &theirs, "hf_quant_config.json", &declared->ignore,
                            "config.json", err);
    if (status == SB_OK)
        status = note_lists(declared, &declared->ignore, "config.json", &theirs,
                            "hf_quant_config.json", err);
    sb_rules_free(&theirs);
    if (status == SB_OK && declared->by_layer && sb_json_get(&reading->hf, "quantized_layers"))
        status = read_layers(&reading->hf, declared, &theirs, err);
    sb_rules_close(&theirs);
    sb_rules_close(&declared->targets);
    if (status == SB_OK && theirs.count > 0)
        status = note_layers(declared, &theirs, err);
    sb_rules_free(&theirs);
    return status;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Reads a group of config_groups, for files that list the layers nowhere else. ModelOpt's converter
 * writes these number formats there, without a strategy. */
static sb_status read_group(void *ctx, const sb_json_object *groups, const char *name,
                            const sb_json_object *group, sb_error *err)
{
    sb_declared *declared = ctx;
    (void)groups, (void)name;
    json_t *weights = sb_json_get(group, "weights");
    json_t *inputs = sb_json_get(group, "input_activations");
    json_int_t bits = json_integer_value(json_object_get(weights, "num_bits"));
    json_int_t input_bits = json_integer_value(json_object_get(inputs, "num_bits"));
    json_int_t columns = json_integer_value(json_object_get(weights, "group_size"));
    const char *type = json_string_value(json_object_get(weights, "type"));
    const char *scales = json_string_value(json_object_get(weights, "strategy"));
    const char *algo = NULL;
    int32_t index;
    int is_float = type && strcmp(type, "float") == 0;
    if (is_float && bits == 4 && (columns == 16 || columns == 32))
        algo = !inputs ? "W4A16_NVFP4" : input_bits == 4 ? "NVFP4" : "W4A8_NVFP4_FP8";
    else if (is_float && bits == 8 && columns == 32)
        algo = "MXFP8";
    else if (is_float && bits == 8)
        algo = scales && strcmp(scales, "channel") == 0 ? "FP8_PC_PT" : "FP8";
    if (!algo)
        return sb_json_fail(group, "weights", SB_ERR_UNSUPPORTED, err,
                            "are of %" JSON_INTEGER_FORMAT
                            " bits in groups of %" JSON_INTEGER_FORMAT
                            ", which is not read without quantized_layers",
                            bits, columns);
    sb_status status = read_scheme(group, algo, declared, &index, err);
    if (status != SB_OK)
        return status;
    return sb_declared_names(group, "targets", kind_of, index, &declared->targets, err);
}

/* "The list of layers is quantized_layers of config.json, else of hf_quant_config.json, else
 * the targets of config_groups" */
static sb_status read_mixed(sb_declared_reading *reading, sb_error *err)
{
    sb_declared *declared = reading->declared;
    declared->by_layer = 1;
    if (sb_json_get(&reading->object, "quantized_layers"))
        return read_layers(&reading->object, declared, &declared->targets, err);
    if (reading->hf.json && sb_json_get(&reading->hf, "quantized_layers"))
        return read_layers(&reading->hf, declared, &declared->targets, err);
    if (sb_json_get(&reading->object, "config_groups"))
        return sb_declared_each(&reading->object, "config_groups", NULL, read_group, declared, err);
    declared->unlisted = 1;
    return SB_OK;
}

/* Returns the object that has the group size: config.json may have the group size only in
 * config_groups, hf_quant_config.json has it next to the scheme. */
static const sb_json_object *groups_in(const sb_declared_reading *reading)
{
    return reading->hf.json && !sb_json_get(&reading->object, "group_size") ? &reading->hf
                                                                            : &reading->object;
}

sb_status sb_declared_modelopt_read(sb_declared_reading *reading, sb_error *err)
{
    sb_declared *declared = reading->declared;
    const sb_json_object *at = &reading->object;
    const char *excluded = sb_json_get(at, "ignore") ? "ignore" : "exclude_modules";
    const char *kv = sb_json_get(at, "kv_cache_scheme") ? "kv_cache_scheme" : "kv_cache_quant_algo";
    const char *algo = NULL;
    sb_status status = sb_json_string(at, "quant_algo", &algo, err);
    if (status == SB_OK)
        status = sb_declared_read_kv(at, kv, &declared->kv, err);
    if (status == SB_OK)
        status = sb_declared_names(at, excluded, kind_of, SB_NOT_QUANTIZED, &declared->ignore, err);
    if (status == SB_OK && is_mixed(algo))
        status = read_mixed(reading, err);
    else if (status == SB_OK)
        status = read_scheme(groups_in(reading), algo, declared, &declared->base, err);
    if (status == SB_OK && reading->hf.json && !reading->from_hf)
        status = note_differences(reading, algo, err);
    return status;
}

/* --- matching --------------------------------------------------------------------------------- */

/* Finds the rule for a module. Lists name experts one by one, or name the module that contains all
 * experts. */
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

static const char *substring_rule(const sb_declared *declared, const char *module)
{
    for (size_t i = 0; i < declared->ignore.count; i++)
        if (strstr(module, declared->ignore.rule[i].text))
            return declared->ignore.rule[i].where;
    return NULL;
}

/* "a name is the full name of a module, with * and ? as in a shell" */
sb_status sb_declared_modelopt_for(const sb_declared *declared, const char *module,
                                   sb_declaration *out, sb_error *err)
{
    const sb_rule *rule = NULL;
    sb_module_kind kind = sb_module_kind_of(module);
    sb_status status = SB_OK;
    if (declared->by_layer)
        status = find(declared, &declared->targets, module, &rule, err);
    if (status == SB_OK && rule) {
        *out = sb_declared_by_rule(declared, rule);
        return SB_OK;
    }
    if (status == SB_OK)
        status = find(declared, &declared->ignore, module, &rule, err);
    if (status != SB_OK)
        return status;
    if (rule)
        *out = sb_declared_no(rule->where);
    else if (kind == SB_MODULE_OTHER || kind == SB_MODULE_ROUTER)
        *out = sb_declared_no("it is not a linear layer");
    else if (declared->unlisted)
        *out = sb_declared_unknown("quant_algo MIXED_PRECISION without a list of layers");
    else if (declared->by_layer)
        *out = sb_declared_no("it is not in the list of layers of MIXED_PRECISION");
    else
        *out = sb_declared_yes(declared, declared->base, "quant_algo");
    if (!rule && out->answer == SB_DECLARED_YES)
        out->vllm_rule = substring_rule(declared, module);
    return SB_OK;
}
