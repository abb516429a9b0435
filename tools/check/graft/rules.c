/* rules.c - adds a rule about a module, in the words of each dialect. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/text.h"
#include "ref/container/show.h"
#include "ref/formats/format.h"
#include "tools/check/graft/config.h"

enum { NAME = SB_MAX_TENSOR_NAME, REGEX = 2 * SB_MAX_TENSOR_NAME + 64 };

static sb_status no_memory(sb_error *err)
{
    return sb_fail(err, SB_ERR_MEMORY, "out of memory for a configuration");
}

int sb_graft_experts(const char *name, char *experts, size_t size)
{
    const char *at = strstr(name, ".experts");
    if (!at || (at[8] != '.' && at[8] != '\0') || (size_t)(at - name) + 9 > size)
        return 0;
    snprintf(experts, size, "%.*s", (int)(at - name) + 8, name);
    return 1;
}

void sb_graft_regex(const char *name, char *regex, size_t size)
{
    const char *plain = sb_plain_name(name);
    size_t used = 0;
    if (plain != name && strncmp(plain, "visual.", 7) != 0)
        used = (size_t)snprintf(regex, size, "(model\\.|language_model\\.)*");
    else
        plain = name;
    for (; *plain && used + 3 < size; plain++) {
        if (*plain == '.')
            regex[used++] = '\\';
        regex[used++] = *plain;
    }
    regex[used] = '\0';
}

/* --- lists ------------------------------------------------------------------------------------ */

/* The list of a key, created if missing. */
static json_t *list_of(json_t *object, const char *key)
{
    json_t *list = json_object_get(object, key);
    if (json_is_array(list))
        return list;
    return json_object_set_new(object, key, json_array()) == 0 ? json_object_get(object, key)
                                                               : NULL;
}

static sb_status append(sb_graft_config *c, sb_graft_doc *doc, const char *key, const char *entry,
                        sb_error *err)
{
    json_t *list = list_of(doc->object, key);
    doc->changed = 1;
    return list && json_array_append_new(list, json_string(entry)) == 0 &&
                   sb_graft_line(c->changes, "%s: %s: + \"%s\"", SB_SHOW(sb_path_last(doc->path)),
                                 key, SB_SHOW(entry))
               ? SB_OK
               : no_memory(err);
}

/* Puts the member first: either the first match decides, or an exact match does. */
static sb_status put_first(sb_graft_config *c, sb_graft_doc *doc, const char *key, const char *name,
                           json_t *value, sb_error *err)
{
    json_t *old = json_object_get(doc->object, key), *fresh = json_object();
    const char *other;
    json_t *member;
    int good = fresh && value && json_object_set_new(fresh, name, value) == 0;
    json_object_foreach(old, other, member)
    {
        if (good && strcmp(other, name) != 0)
            good = json_object_set(fresh, other, member) == 0;
    }
    good = good && json_object_set_new(doc->object, key, fresh) == 0;
    doc->changed = 1;
    return good && sb_graft_line(c->changes, "%s: %s: + \"%s\"", SB_SHOW(sb_path_last(doc->path)),
                                 key, SB_SHOW(name))
               ? SB_OK
               : no_memory(err);
}

static const char *const list_keys[] = {"ignore", "exclude_modules", "modules_to_not_convert",
                                        "ignored_layers"};

enum { LISTS = sizeof list_keys / sizeof *list_keys };

/* Replaces the entry by null, so that the others keep their numbers until the end. */
int sb_graft_drop_rule(sb_graft_config *c, sb_graft_doc *doc, const char *rule)
{
    for (size_t i = 0; i < LISTS; i++) {
        char mark[64];
        size_t index;
        json_t *list = json_object_get(doc->object, list_keys[i]);
        snprintf(mark, sizeof mark, "%s[", list_keys[i]);
        const char *at = strstr(rule, mark), *quote = strchr(rule, '"');
        if (!at || (quote && quote < at) || sscanf(at + strlen(mark), "%zu", &index) != 1 ||
            index >= json_array_size(list))
            continue;
        if (json_is_null(json_array_get(list, index)))
            return 1;
        doc->changed = 1;
        return sb_graft_line(c->changes, "%s: %s: - \"%s\"", SB_SHOW(sb_path_last(doc->path)),
                             list_keys[i],
                             SB_SHOW(json_string_value(json_array_get(list, index)))) &&
               json_array_set_new(list, index, json_null()) == 0;
    }
    return 0;
}

void sb_graft_compact(sb_graft_doc *doc)
{
    for (size_t i = 0; i < LISTS; i++) {
        json_t *list = json_object_get(doc->object, list_keys[i]);
        for (size_t k = json_array_size(list); k-- > 0;)
            if (json_is_null(json_array_get(list, k)))
                json_array_remove(list, k);
    }
}

/* --- modules that are not quantized ----------------------------------------------------------- */

static const char *modelopt_key(const sb_graft_doc *doc)
{
    return json_object_get(doc->object, "ignore") ? "ignore" : "exclude_modules";
}

static sb_status exclude_ct(sb_graft_config *c, sb_graft_doc *doc, const char *name,
                            sb_name_kind kind, sb_error *err)
{
    char regex[REGEX], text[REGEX + 16];
    if (kind == SB_NAME_head)
        return append(c, doc, "ignore", "re:^mtp.*", err);
    if (kind == SB_NAME_exact)
        return append(c, doc, "ignore", name, err);
    sb_graft_regex(name, regex, sizeof regex);
    snprintf(text, sizeof text, "re:%s(\\.|$)", regex);
    return append(c, doc, "ignore", text, err);
}

static sb_status exclude_modelopt(sb_graft_config *c, sb_graft_doc *doc, const char *name,
                                  sb_name_kind kind, sb_error *err)
{
    char text[NAME + 2];
    if (sb_graft_modelopt_unlist(c, doc, name, kind))
        return SB_OK;
    if (kind == SB_NAME_head) {
        sb_status status = append(c, doc, modelopt_key(doc), "mtp.layers.0*", err);
        return status ? status : append(c, doc, modelopt_key(doc), "mtp*", err);
    }
    snprintf(text, sizeof text, "%s%s", name, kind == SB_NAME_experts ? "*" : "");
    return append(c, doc, modelopt_key(doc), text, err);
}

/* A key of GPTQ or AutoRound: a regular expression for exactly these modules. */
static void pattern(const char *name, sb_name_kind kind, char *text, size_t size)
{
    char regex[REGEX];
    if (kind == SB_NAME_head) {
        snprintf(text, size, "^mtp\\..*");
        return;
    }
    sb_graft_regex(name, regex, sizeof regex);
    snprintf(text, size, "^%s%s", regex, kind == SB_NAME_exact ? "$" : "(\\.|$)");
}

static sb_status exclude_gptq(sb_graft_config *c, sb_graft_doc *doc, const char *name,
                              sb_name_kind kind, sb_error *err)
{
    char text[REGEX + 32] = "-:";
    pattern(name, kind, text + 2, sizeof text - 2);
    return put_first(c, doc, "dynamic", text, json_object(), err);
}

static sb_status exclude_auto_round(sb_graft_config *c, sb_graft_doc *doc, const char *name,
                                    sb_name_kind kind, sb_error *err)
{
    char text[REGEX + 32];
    pattern(name, kind, text, sizeof text);
    return put_first(c, doc, "extra_config", kind == SB_NAME_exact ? name : text,
                     json_pack("{s:i,s:s}", "bits", 16, "data_type", "fp"), err);
}

/* Quark's names have wildcards as in a shell. */
static sb_status exclude_quark(sb_graft_config *c, sb_graft_doc *doc, const char *name,
                               sb_name_kind kind, sb_error *err)
{
    char text[NAME + 2];
    snprintf(text, sizeof text, "%s%s", kind == SB_NAME_head ? "mtp" : name,
             kind == SB_NAME_exact ? "" : ".*");
    return append(c, doc, "exclude", text, err);
}

sb_status sb_graft_exclude(sb_graft_config *c, sb_graft_doc *doc, const char *name,
                           sb_name_kind kind, sb_error *err)
{
    switch (doc->dialect) {
    case SB_DIALECT_ct:
        return exclude_ct(c, doc, name, kind, err);
    case SB_DIALECT_modelopt:
        return exclude_modelopt(c, doc, name, kind, err);
    case SB_DIALECT_gptq:
        return exclude_gptq(c, doc, name, kind, err);
    case SB_DIALECT_auto_round:
        return exclude_auto_round(c, doc, name, kind, err);
    case SB_DIALECT_quark:
        return exclude_quark(c, doc, name, kind, err);
    default: /* fp8, awq, mxfp4: names, prefixes or parts of names */
        return append(c, doc,
                      json_object_get(doc->object, "ignored_layers") ? "ignored_layers"
                                                                     : "modules_to_not_convert",
                      kind == SB_NAME_head ? "mtp" : name, err);
    }
}

/* --- modules that are quantized --------------------------------------------------------------- */

/* The parameters of integer formats, with the keys of GPTQ or AutoRound. */
static json_t *integers(const sb_graft_config *c, const sb_graft_layer *layer, int gptq)
{
    sb_declaration d = sb_graft_theirs(c, layer->name);
    int said = d.answer == SB_DECLARED_YES && d.family == SB_FAMILY_INT;
    const sb_matrix *m = &layer->found.matrix;
    int whole = said ? d.strategy == SB_STRATEGY_CHANNEL : m->quant.block_cols >= m->cols;
    int group = whole ? -1 : said ? (int)d.group_size : (int)m->quant.block_cols;
    json_t *out = json_pack("{s:i,s:i,s:b}", "bits", (int)sb_format_bits(m->format), "group_size",
                            group, "sym", said ? d.symmetric : 1);
    if (gptq && said)
        json_object_set_new(out, "desc_act", json_boolean(d.act_order));
    if (!gptq)
        json_object_set_new(out, "data_type", json_string("int"));
    return out;
}

/* Adds one rule for all experts of a layer. Does nothing if the rule is there already. */
static sb_status put_integers(sb_graft_config *c, sb_graft_doc *doc, const sb_graft_layer *layer,
                              int whole, sb_error *err)
{
    int gptq = doc->dialect == SB_DIALECT_gptq;
    const char *key = gptq ? "dynamic" : "extra_config";
    char experts[NAME], text[REGEX + 32] = "+:", *name = gptq ? text + 2 : text;
    int block = whole && sb_graft_experts(layer->name, experts, sizeof experts);
    if (gptq || block)
        pattern(block ? experts : layer->name, block ? SB_NAME_experts : SB_NAME_exact, name,
                sizeof text - 2);
    else
        snprintf(text, sizeof text, "%s", layer->name);
    if (json_object_get(json_object_get(doc->object, key), text))
        return SB_OK;
    if (gptq && strcmp(layer->name, "lm_head") == 0)
        json_object_set_new(doc->object, "lm_head", json_true());
    return put_first(c, doc, key, text, integers(c, layer, gptq), err);
}

/* AutoRound: the MTP head is a block of its own. */
static sb_status add_block(sb_graft_config *c, sb_graft_doc *doc, const char *name, sb_error *err)
{
    static const char key[] = "block_name_to_quantize", block[] = "mtp.layers";
    json_t *value = json_object_get(doc->object, key);
    const char *text = json_string_value(value);
    if (strncmp(name, "mtp.layers.", 11) != 0 || !value || (text && strstr(text, block)))
        return SB_OK;
    for (size_t i = 0; i < json_array_size(value); i++)
        if (strcmp(json_string_value(json_array_get(value, i)), block) == 0)
            return SB_OK;
    if (text && json_object_set_new(doc->object, key, json_pack("[s]", text)) != 0)
        return no_memory(err);
    return append(c, doc, key, block, err);
}

static sb_status include_gptq(sb_graft_config *c, sb_graft_doc *doc, const sb_graft_layer *layer,
                              int whole, int *done, sb_error *err)
{
    *done = layer->found.container == SB_CONTAINER_int_gptq;
    if (!*done)
        return SB_OK;
    sb_status status =
        doc->dialect == SB_DIALECT_auto_round ? add_block(c, doc, layer->name, err) : SB_OK;
    return status ? status : put_integers(c, doc, layer, whole, err);
}

int sb_graft_can(const sb_graft_config *c, const sb_graft_doc *doc, const sb_graft_layer *layer)
{
    sb_container container = layer->found.container;
    switch (doc->dialect) {
    case SB_DIALECT_ct:
        return sb_graft_ct_can(c, layer);
    case SB_DIALECT_modelopt:
        return sb_graft_modelopt_can(c, layer);
    case SB_DIALECT_gptq:
    case SB_DIALECT_auto_round:
        return container == SB_CONTAINER_int_gptq;
    case SB_DIALECT_awq:
        return container == SB_CONTAINER_int_awq;
    default:
        return doc->dialect == SB_DIALECT_fp8 && container == SB_CONTAINER_fp8_block;
    }
}

sb_status sb_graft_include(sb_graft_config *c, sb_graft_doc *doc, const sb_graft_layer *layer,
                           int whole, int *done, sb_error *err)
{
    *done = 0;
    switch (doc->dialect) {
    case SB_DIALECT_ct:
        return sb_graft_ct_target(c, doc, layer, whole, done, err);
    case SB_DIALECT_modelopt:
        return sb_graft_modelopt_layer(c, doc, layer, whole, done, err);
    case SB_DIALECT_gptq:
    case SB_DIALECT_auto_round:
        return include_gptq(c, doc, layer, whole, done, err);
    default: /* fp8, awq, mxfp4, quark: everything outside the lists is quantized */
        return SB_OK;
    }
}
