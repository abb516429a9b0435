/* groups.c - adds a layer to a scheme: config_groups of compressed-tensors, quantized_layers of
 * ModelOpt. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/text.h"
#include "ref/container/show.h"
#include "ref/model/held.h"
#include "tools/check/graft/config.h"

enum { NAME = SB_MAX_TENSOR_NAME, REGEX = 2 * SB_MAX_TENSOR_NAME + 64 };

static sb_status no_memory(sb_error *err)
{
    return sb_fail(err, SB_ERR_MEMORY, "out of memory for a configuration");
}

sb_declaration sb_graft_theirs(const sb_graft_config *c, const char *name)
{
    const char *plain = sb_plain_name(name);
    char full[NAME + 32];
    sb_declaration d = {0};
    int text = plain != name && strncmp(plain, "visual.", 7) != 0;
    snprintf(full, sizeof full, "%s%s", text ? c->their_prefix : "", text ? plain : name);
    if (sb_declared_for(c->their_declared, full, &d, NULL) != SB_OK)
        d = (sb_declaration){.answer = SB_DECLARED_UNKNOWN, .rule = ""};
    return d;
}

/* --- compressed-tensors ----------------------------------------------------------------------- */

/* The other side's group whose targets declare the layer, or NULL. */
static json_t *their_group(const sb_graft_config *c, const sb_graft_layer *layer)
{
    static const char mark[] = "config_groups.";
    sb_declaration d = sb_graft_theirs(c, layer->name);
    const char *at = d.rule ? strstr(d.rule, mark) : NULL;
    char name[128];
    if (!at || d.answer != SB_DECLARED_YES || !sb_declaration_agrees(&d, &layer->found) ||
        !c->theirs.object || c->theirs.dialect != SB_DIALECT_ct)
        return NULL;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(at + sizeof mark - 1, "."),
             at + sizeof mark - 1);
    return json_object_get(json_object_get(c->theirs.object, "config_groups"), name);
}

static const char *format_of(json_t *object, json_t *group)
{
    const char *own = json_string_value(json_object_get(group, "format"));
    return own ? own : json_string_value(json_object_get(object, "format"));
}

/* True if two groups have the same weights, inputs and format. */
static int same_scheme(json_t *a, const char *format_a, json_t *b, const char *format_b)
{
    static const char *const keys[] = {"weights", "input_activations"};
    for (size_t i = 0; i < 2; i++) {
        json_t *x = json_object_get(a, keys[i]), *y = json_object_get(b, keys[i]);
        if (!(json_is_null(x) || !x) != !(json_is_null(y) || !y) ||
            (x && !json_is_null(x) && !json_equal(x, y)))
            return 0;
    }
    return format_a && format_b && strcmp(format_a, format_b) == 0;
}

/* With several formats each group names its own, and the whole is "mixed-precision". */
static int mix_formats(sb_graft_config *c, sb_graft_doc *doc, const char *format)
{
    const char *global = json_string_value(json_object_get(doc->object, "format"));
    json_t *groups = json_object_get(doc->object, "config_groups"), *group;
    const char *name;
    if (!global || strcmp(global, format) == 0 || strcmp(global, "mixed-precision") == 0)
        return 1;
    json_object_foreach(groups, name, group)
    {
        if (!json_is_string(json_object_get(group, "format")) &&
            json_object_set_new(group, "format", json_string(global)) != 0)
            return 0;
    }
    return sb_graft_line(c->changes, "%s: format: \"mixed-precision\" instead of \"%s\"",
                         sb_path_last(doc->path), SB_SHOW(global)) &&
           json_object_set_new(doc->object, "format", json_string("mixed-precision")) == 0;
}

static json_t *add_group(sb_graft_config *c, sb_graft_doc *doc, json_t *theirs, const char *format,
                         char name[32])
{
    json_t *groups = json_object_get(doc->object, "config_groups");
    json_t *fresh = json_deep_copy(theirs);
    size_t number = json_object_size(groups);
    if (!fresh || !mix_formats(c, doc, format) ||
        json_object_set_new(fresh, "format", json_string(format)) != 0 ||
        json_object_set_new(fresh, "targets", json_array()) != 0)
        return NULL;
    do
        snprintf(name, 32, "group_%zu", number++);
    while (json_object_get(groups, name));
    if (!sb_graft_line(c->changes, "%s: config_groups: + %s, %s", sb_path_last(doc->path), name,
                       format))
        return NULL;
    return json_object_set_new(groups, name, fresh) == 0 ? json_object_get(groups, name) : NULL;
}

/* ModelOpt stores FP8 under the names of compressed-tensors. Returns the group that declares it
 * there, or NULL. */
static json_t *fp8_group(const sb_graft_config *c, const sb_graft_layer *layer)
{
    sb_declaration d = sb_graft_theirs(c, layer->name);
    int channel = layer->found.container == SB_CONTAINER_fp8_channel;
    int fits = channel ? d.activation == SB_ACTIVATION_DYNAMIC_TOKEN
                       : layer->found.container == SB_CONTAINER_fp8_tensor &&
                             d.activation == SB_ACTIVATION_STATIC_TENSOR;
    if (d.answer != SB_DECLARED_YES || !fits || c->theirs.dialect != SB_DIALECT_modelopt)
        return NULL;
    return json_pack("{s:{s:i,s:s,s:s,s:b,s:b},s:{s:i,s:s,s:s,s:b,s:b},s:s}", "weights", "num_bits",
                     8, "type", "float", "strategy", channel ? "channel" : "tensor", "symmetric", 1,
                     "dynamic", 0, "input_activations", "num_bits", 8, "type", "float", "strategy",
                     channel ? "token" : "tensor", "symmetric", 1, "dynamic", channel, "format",
                     "float-quantized");
}

/* W-16: the group of the blocks that quant_method fp8 declares, or NULL. */
static json_t *block_group(const sb_graft_config *c, const sb_graft_layer *layer)
{
    sb_declaration d = sb_graft_theirs(c, layer->name);
    if (d.answer != SB_DECLARED_YES || c->theirs.dialect != SB_DIALECT_fp8 ||
        layer->found.container != SB_CONTAINER_fp8_block_ct ||
        d.activation != SB_ACTIVATION_DYNAMIC_GROUP)
        return NULL;
    return json_pack("{s:{s:i,s:s,s:s,s:[i,i],s:b,s:b},s:{s:i,s:s,s:s,s:i,s:b,s:b},s:s}", "weights",
                     "num_bits", 8, "type", "float", "strategy", "block", "block_structure",
                     (int)d.block_rows, (int)d.block_cols, "symmetric", 1, "dynamic", 0,
                     "input_activations", "num_bits", 8, "type", "float", "strategy", "group",
                     "group_size", (int)d.block_cols, "symmetric", 1, "dynamic", 1, "format",
                     "float-quantized");
}

/* The group that declares the layer, to be freed by the caller; NULL: the dialect cannot declare
 * the layer. */
static json_t *wanted_group(const sb_graft_config *c, const sb_graft_layer *layer)
{
    json_t *theirs = their_group(c, layer);
    json_t *blocks = theirs ? NULL : block_group(c, layer);
    return theirs ? json_incref(theirs) : blocks ? blocks : fp8_group(c, layer);
}

int sb_graft_ct_can(const sb_graft_config *c, const sb_graft_layer *layer)
{
    json_t *group = wanted_group(c, layer);
    json_decref(group);
    return group != NULL;
}

/* The group of the document with that scheme, or a new one. */
static json_t *group_for(sb_graft_config *c, sb_graft_doc *doc, json_t *wanted, char found[32])
{
    const char *format = format_of(c->theirs.object, wanted), *name;
    json_t *group;
    json_object_foreach(json_object_get(doc->object, "config_groups"), name, group)
    {
        if (same_scheme(group, format_of(doc->object, group), wanted, format)) {
            snprintf(found, 32, "%s", name);
            return group;
        }
    }
    return format ? add_group(c, doc, wanted, format, found) : NULL;
}

static int has_target(json_t *targets, const char *text)
{
    for (size_t i = json_array_size(targets); i-- > 0;)
        if (strcmp(json_string_value(json_array_get(targets, i)), text) == 0)
            return 1;
    return 0;
}

sb_status sb_graft_ct_target(sb_graft_config *c, sb_graft_doc *doc, const sb_graft_layer *layer,
                             int whole, int *done, sb_error *err)
{
    char experts[NAME], regex[REGEX], text[REGEX + 16], name[32] = "";
    json_t *wanted = wanted_group(c, layer);
    json_t *group = wanted ? group_for(c, doc, wanted, name) : NULL;
    json_decref(wanted);
    json_t *targets = json_object_get(group, "targets");
    *done = targets != NULL;
    if (!*done)
        return SB_OK;
    doc->changed = 1;
    if (whole && sb_graft_experts(layer->name, experts, sizeof experts)) {
        sb_graft_regex(experts, regex, sizeof regex);
        snprintf(text, sizeof text, "re:%s(\\.|$)", regex);
    } else {
        snprintf(text, sizeof text, "%s", layer->name);
    }
    if (has_target(targets, text))
        return SB_OK;
    return json_array_append_new(targets, json_string(text)) == 0 &&
                   sb_graft_line(c->changes, "%s: config_groups.%s.targets: + \"%s\"",
                                 sb_path_last(doc->path), name, SB_SHOW(text))
               ? SB_OK
               : no_memory(err);
}

/* --- ModelOpt --------------------------------------------------------------------------------- */

/* ModelOpt's name of the layer's scheme; NULL if it has none. */
static const char *algo_of(const sb_graft_config *c, const sb_graft_layer *layer)
{
    sb_declaration d = sb_graft_theirs(c, layer->name);
    int inputs = d.answer == SB_DECLARED_YES ? d.activation != SB_ACTIVATION_NONE
                                             : layer->found.part[SB_PART_input_scale] != NULL;
    switch (layer->found.container) {
    case SB_CONTAINER_nvfp4_modelopt:
        return inputs ? "NVFP4" : "W4A16_NVFP4";
    case SB_CONTAINER_fp8_tensor:
        return "FP8";
    case SB_CONTAINER_fp8_channel:
        return "FP8_PC_PT";
    case SB_CONTAINER_fp8_block_ct:
        /* its blocks are always 128 x 128 */
        return d.answer != SB_DECLARED_YES || (d.block_rows == 128 && d.block_cols == 128)
                   ? "FP8_PB_WO"
                   : NULL;
    default:
        return NULL;
    }
}

int sb_graft_modelopt_can(const sb_graft_config *c, const sb_graft_layer *layer)
{
    return algo_of(c, layer) != NULL;
}

static int is_mixed(const sb_graft_doc *doc)
{
    const char *algo = json_string_value(json_object_get(doc->object, "quant_algo"));
    return algo && strcmp(algo, "MIXED_PRECISION") == 0;
}

static int put_layer(sb_graft_doc *doc, const char *name, const char *algo)
{
    json_t *layers = json_object_get(doc->object, "quantized_layers");
    json_t *row = json_pack("{s:s}", "quant_algo", algo);
    if (row && strstr(algo, "NVFP4"))
        json_object_set_new(row, "group_size", json_integer(16));
    return row && json_object_set_new(layers, name, row) == 0;
}

/* Changes one algorithm for all layers into a list of layers with their own. */
static int make_mixed(sb_graft_config *c, sb_graft_doc *doc)
{
    const char *algo = json_string_value(json_object_get(doc->object, "quant_algo"));
    if (!algo || json_object_set_new(doc->object, "quantized_layers", json_object()) != 0)
        return 0;
    for (size_t i = 0; i < c->layer_count; i++) {
        const sb_graft_layer *l = &c->layers[i];
        char experts[NAME];
        int block = sb_graft_experts(l->name, experts, sizeof experts);
        if (l->now.answer == SB_DECLARED_YES && sb_declaration_agrees(&l->now, &l->found) &&
            !put_layer(doc, block ? experts : l->name, algo))
            return 0;
    }
    int good = sb_graft_line(c->changes,
                             "%s: quant_algo: MIXED_PRECISION instead of %s, with the list "
                             "quantized_layers that MIXED_PRECISION needs, without config_groups",
                             sb_path_last(doc->path), SB_SHOW(algo));
    json_object_del(doc->object, "config_groups");
    json_object_del(doc->object, "group_size");
    return good &&
           json_object_set_new(doc->object, "quant_algo", json_string("MIXED_PRECISION")) == 0;
}

static int is_named(const char *entry, const char *name, sb_name_kind kind)
{
    size_t n = strlen(name);
    if (kind == SB_NAME_head)
        return strncmp(entry, "mtp.", 4) == 0;
    return strncmp(entry, name, n) == 0 &&
           (!entry[n] || (kind == SB_NAME_experts && entry[n] == '.'));
}

static void unlist_targets(sb_graft_doc *doc, const char *name, sb_name_kind kind)
{
    const char *key;
    json_t *group;
    json_object_foreach(json_object_get(doc->object, "config_groups"), key, group)
    {
        json_t *targets = json_object_get(group, "targets");
        for (size_t i = json_array_size(targets); i-- > 0;)
            if (is_named(json_string_value(json_array_get(targets, i)), name, kind))
                json_array_remove(targets, i);
    }
}

int sb_graft_modelopt_unlist(sb_graft_config *c, sb_graft_doc *doc, const char *name,
                             sb_name_kind kind)
{
    json_t *layers = json_object_get(doc->object, "quantized_layers"), *row;
    const char *key;
    void *next;
    int removed = 0;
    if (!is_mixed(doc))
        return 0;
    json_object_foreach_safe(layers, next, key, row)
    {
        if (!is_named(key, name, kind))
            continue;
        sb_graft_line(c->changes, "%s: quantized_layers: - \"%s\"", sb_path_last(doc->path),
                      SB_SHOW(key));
        json_object_del(layers, key);
        removed = doc->changed = 1;
    }
    unlist_targets(doc, name, kind);
    return removed;
}

/* For files that also list their layers in config_groups, with one group for each number of
 * bits. */
static int list_target(sb_graft_doc *doc, const char *name, const char *algo)
{
    json_int_t bits = strstr(algo, "NVFP4") ? 4 : 8;
    const char *key;
    json_t *group;
    json_object_foreach(json_object_get(doc->object, "config_groups"), key, group)
    {
        json_t *weights = json_object_get(group, "weights");
        json_t *targets = json_object_get(group, "targets");
        if (json_integer_value(json_object_get(weights, "num_bits")) == bits)
            return !json_is_array(targets) || has_target(targets, name) ||
                   json_array_append_new(targets, json_string(name)) == 0;
    }
    return 1;
}

sb_status sb_graft_modelopt_layer(sb_graft_config *c, sb_graft_doc *doc,
                                  const sb_graft_layer *layer, int whole, int *done, sb_error *err)
{
    const char *algo = algo_of(c, layer);
    char experts[NAME];
    int block = whole && sb_graft_experts(layer->name, experts, sizeof experts);
    const char *name = block ? experts : layer->name;
    *done = algo != NULL;
    if (!algo)
        return SB_OK;
    doc->changed = 1;
    if (!is_mixed(doc) && !make_mixed(c, doc))
        return no_memory(err);
    json_t *layers = json_object_get(doc->object, "quantized_layers");
    const char *old =
        json_string_value(json_object_get(json_object_get(layers, name), "quant_algo"));
    if (!layers || (old && strcmp(old, algo) == 0)) /* declared elsewhere, or already here */
        return SB_OK;
    (void)sb_graft_modelopt_unlist(c, doc, name, block ? SB_NAME_experts : SB_NAME_exact);
    return put_layer(doc, name, algo) && list_target(doc, name, algo) &&
                   sb_graft_line(c->changes, "%s: quantized_layers: + \"%s\" %s",
                                 sb_path_last(doc->path), SB_SHOW(name), algo)
               ? SB_OK
               : no_memory(err);
}
