/* declared_read.c - functions that the readers of all dialects use. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "ref/model/declared_parts.h"

enum { MAX_NOTES = 32, MAX_GROUP = 1 << 24 };

sb_status sb_declared_no_memory(const sb_declared *declared, sb_error *err)
{
    return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory for its quantization",
                   SB_SHOW(declared->file));
}

static int same_scheme(const sb_declaration *a, const sb_declaration *b)
{
    return a->family == b->family && a->packing == b->packing && a->strategy == b->strategy &&
           a->activation == b->activation && a->bits == b->bits && a->group_size == b->group_size &&
           a->block_rows == b->block_rows && a->block_cols == b->block_cols &&
           a->activation_bits == b->activation_bits && a->activation_group == b->activation_group &&
           a->activation_int == b->activation_int && a->symmetric == b->symmetric &&
           a->act_order == b->act_order && a->ue8m0 == b->ue8m0 && a->pre_scaled == b->pre_scaled;
}

/* Equal schemes are stored once, so that two rules agree exactly if their indices are equal. */
sb_status sb_declared_scheme(sb_declared *declared, const sb_declaration *scheme, int32_t *index,
                             sb_error *err)
{
    size_t n = declared->scheme_count;
    for (size_t i = 0; i < n; i++) {
        if (same_scheme(&declared->schemes[i], scheme)) {
            *index = (int32_t)i;
            return SB_OK;
        }
    }
    if (n >= 1024)
        return sb_fail(err, SB_ERR_INPUT, "%s: more than 1024 kinds of quantization",
                       SB_SHOW(declared->file));
    sb_declaration *grown = sb_realloc(declared->schemes, n + 1, sizeof *grown);
    if (!grown)
        return sb_declared_no_memory(declared, err);
    declared->schemes = grown;
    grown[n] = *scheme;
    declared->scheme_count = n + 1;
    *index = (int32_t)n;
    return SB_OK;
}

sb_status sb_declared_add_note(sb_declared *declared, sb_error *err, const char *format, ...)
{
    char text[768];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t n = declared->note_count;
    if (n > MAX_NOTES)
        return SB_OK;
    if (n == MAX_NOTES)
        snprintf(text, sizeof text, "and more contradictions, which are not listed");
    char **grown = sb_realloc(declared->notes, n + 1, sizeof *grown);
    if (!grown)
        return sb_declared_no_memory(declared, err);
    declared->notes = grown;
    grown[n] = sb_strdup(text);
    if (!grown[n])
        return sb_declared_no_memory(declared, err);
    declared->note_count = n + 1;
    return SB_OK;
}

sb_status sb_declared_names(const sb_json_object *at, const char *key, sb_rule_kind_fn kind_of,
                            int32_t scheme, sb_rules *out, sb_error *err)
{
    json_t *array = sb_json_get(at, key);
    char path[320];
    snprintf(path, sizeof path, "%s%s%s", at->path, at->path[0] ? "." : "", key);
    if (!array)
        return SB_OK;
    if (!json_is_array(array))
        return sb_json_wrong(at, key, array, "an array of strings", err);
    for (size_t i = 0; i < json_array_size(array); i++) {
        const char *shown = json_string_value(json_array_get(array, i));
        const char *text = shown;
        sb_json_text found;
        if (!shown || !shown[0])
            return sb_json_fail(at, key, SB_ERR_INPUT, err, "has element %zu %s, expected %s", i,
                                sb_json_found(json_array_get(array, i), &found),
                                "the name of a module");
        sb_rule_kind kind = kind_of(&text);
        sb_rule_place place = {at->file, path, i};
        sb_status status = sb_rules_add(out, kind, text, shown, scheme, &place, err);
        if (status != SB_OK)
            return status;
    }
    return SB_OK;
}

sb_status sb_declared_group(const sb_json_object *at, const char *key, int64_t otherwise,
                            int64_t *out, sb_error *err)
{
    const json_t *value = sb_json_get(at, key);
    json_int_t group = value ? json_integer_value(value) : otherwise;
    *out = group;
    if (value && (!json_is_integer(value) || group < -1 || group == 0 || group > MAX_GROUP))
        return sb_json_wrong(at, key, value, "-1, or a number of columns from 1 to 16777216", err);
    return SB_OK;
}

const char *sb_declared_kv_name(sb_declared_kv kv)
{
    static const char *const names[SB_KV_COUNT] = {"none", "fp8", "int8", "nvfp4"};
    return names[kv];
}

static sb_status kv_by_format(const sb_json_object *at, const char *key, json_t *value,
                              sb_declared_kv *out, sb_error *err)
{
    sb_json_object format;
    const char *type = NULL;
    uint64_t bits = 0;
    sb_status status = sb_json_object_at(value, at->file, key, &format, err);
    if (status == SB_OK)
        status = sb_json_string_or(&format, "type", "int", &type, err);
    if (status == SB_OK)
        status = sb_json_u64_or(&format, "num_bits", 8, &bits, err);
    if (status != SB_OK)
        return status;
    int is_float = strcasecmp(type, "float") == 0;
    if (is_float && (bits == 8 || bits == 4))
        *out = bits == 8 ? SB_KV_FP8 : SB_KV_NVFP4;
    else if (bits == 8 && strcasecmp(type, "int") == 0)
        *out = SB_KV_INT8;
    else
        return sb_json_fail(at, key, SB_ERR_UNSUPPORTED, err,
                            "has %" PRIu64 " bits of type \"%s\", which is not read", bits,
                            SB_SHOW(type));
    return SB_OK;
}

sb_status sb_declared_read_kv(const sb_json_object *at, const char *key, sb_declared_kv *out,
                              sb_error *err)
{
    static const struct {
        const char *name;
        sb_declared_kv kv;
    } names[] = {{"none", SB_KV_NONE}, {"fp8", SB_KV_FP8},     {"fp8_affine", SB_KV_FP8},
                 {"int8", SB_KV_INT8}, {"nvfp4", SB_KV_NVFP4}, {"nvfp4_affine", SB_KV_NVFP4}};
    json_t *value = sb_json_get(at, key);
    const char *name = json_string_value(value);
    *out = SB_KV_NONE;
    if (!value)
        return SB_OK;
    if (!name)
        return kv_by_format(at, key, value, out, err);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcasecmp(name, names[i].name) == 0) {
            *out = names[i].kv;
            return SB_OK;
        }
    }
    return sb_json_fail(at, key, SB_ERR_UNSUPPORTED, err, "is \"%s\", which is not read: %s",
                        SB_SHOW(name), "expected FP8, INT8 or NVFP4");
}

/* --- module names ----------------------------------------------------------------------------- */

const char *sb_module_experts(const char *module, sb_module_name *room)
{
    static const char part[] = ".experts";
    const char *at = NULL;
    for (const char *next = strstr(module, part); next; next = strstr(next + 1, part))
        if (next[sizeof part - 1] == '.' || next[sizeof part - 1] == '\0')
            at = next;
    size_t n = at ? (size_t)(at - module) + sizeof part - 1 : 0;
    if (n == 0 || n >= sizeof room->text)
        return NULL;
    memcpy(room->text, module, n);
    room->text[n] = '\0';
    return room->text;
}

/* "Where no rule names such a module, the answer is unknown" */
int sb_module_outside(const char *module)
{
    static const char *const parts[] = {"mtp", "visual", "model.mtp", "model.visual",
                                        "model.language_model.mtp"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (sb_has_prefix_part(module, parts[i]))
            return 1;
    return 0;
}

sb_module_kind sb_module_kind_of(const char *module)
{
    static const struct {
        const char *end;
        sb_module_kind kind;
    } ends[] = {
        {"mlp.gate", SB_MODULE_ROUTER},
        {"mlp.experts", SB_MODULE_EXPERTS},
        {"mlp.experts.gate_up_proj", SB_MODULE_EXPERTS},
        {"mlp.experts.down_proj", SB_MODULE_EXPERTS},
        {"shared_expert_gate", SB_MODULE_ONE_ROW},
        {"lm_head", SB_MODULE_HEAD},
        {"conv1d", SB_MODULE_OTHER},
        {"patch_embed.proj", SB_MODULE_OTHER},
    };
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (sb_has_suffix_part(module, ends[i].end))
            return ends[i].kind;
    const char *last = strrchr(module, '.');
    last = last ? last + 1 : module;
    /* norm, q_norm, input_layernorm, norm1, pre_fc_norm_hidden; embed_tokens, pos_embed */
    return strstr(last, "norm") || strstr(last, "embed") ? SB_MODULE_OTHER : SB_MODULE_LINEAR;
}

sb_status sb_declared_each(const sb_json_object *at, const char *key, const char *if_array,
                           sb_declared_visit visit, void *ctx, sb_error *err)
{
    char path[320], inner[640];
    sb_json_object list, member;
    const char *name;
    json_t *value;
    snprintf(path, sizeof path, "%s%s%s", at->path, at->path[0] ? "." : "", key);
    sb_status status = sb_json_object_at(sb_json_get(at, key), at->file, path, &list, err);
    if (status != SB_OK)
        return status;
    json_object_foreach(list.json, name, value)
    {
        if (if_array && json_is_array(value))
            return sb_json_fail(&list, name, SB_ERR_UNSUPPORTED, err, "%s", if_array);
        snprintf(inner, sizeof inner, "%s.%s", path, SB_SHOW(name));
        status = sb_json_object_at(value, at->file, inner, &member, err);
        if (status == SB_OK)
            status = visit(ctx, &list, name, &member, err);
        if (status != SB_OK)
            return status;
    }
    return SB_OK;
}

/* --- answers ---------------------------------------------------------------------------------- */

sb_declaration sb_declared_no(const char *rule)
{
    return (sb_declaration){.answer = SB_DECLARED_NO, .rule = rule};
}

sb_declaration sb_declared_unknown(const char *rule)
{
    return (sb_declaration){.answer = SB_DECLARED_UNKNOWN, .rule = rule};
}

sb_declaration sb_declared_yes(const sb_declared *declared, int32_t scheme, const char *rule)
{
    if (scheme == SB_NOT_QUANTIZED)
        return sb_declared_no(rule);
    sb_declaration answer = declared->schemes[scheme];
    answer.answer = answer.family == SB_FAMILY_NONE ? SB_DECLARED_NO : SB_DECLARED_YES;
    answer.rule = rule;
    return answer;
}

sb_declaration sb_declared_by_rule(const sb_declared *declared, const sb_rule *rule)
{
    return sb_declared_yes(declared, rule->scheme, rule->where);
}
