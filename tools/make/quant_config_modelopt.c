/* quantization_config and hf_quant_config.json of ModelOpt. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/make/plan.h"
#include "tools/make/quant_config.h"

static int is_mixed(const sb_make_plan *plan)
{
    return plan->format->scheme[1] != SB_SCHEME_plain;
}

static int is_nvfp4(sb_scheme scheme)
{
    return scheme == SB_SCHEME_nvfp4_modelopt;
}

/* True for nvidia-mix, the one mixed recipe that quantizes the head. */
static int is_published_mix(const sb_make_plan *plan)
{
    return is_mixed(plan) && (plan->format->modules[0] & SB_MODULES_HEAD);
}

/* The published file of nvidia-mix calls its NVFP4 layers W4A16_NVFP4. */
static const char *nvfp4_algo(const sb_make_plan *plan)
{
    return is_published_mix(plan) ? "W4A16_NVFP4" : "NVFP4";
}

/* Returns 1 and the name of a convolution that is listed as FP8, but stored in BF16. ModelOpt 0.47
 * does so where a recipe names all of linear attention: it puts a quantizer on the convolution, and
 * exports only linear layers. */
static int is_listed_conv(const sb_make_plan *plan, const sb_make_tensor *t, sb_make_module *module)
{
    if (t->role != SB_ROLE_conv1d || t->content != SB_CONTENT_plain ||
        !(plan->format->modules[1] & SB_MODULES_DECAY))
        return 0;
    snprintf(module->name, sizeof module->name, "%.*s", (int)(strlen(t->name) - strlen(".weight")),
             t->name);
    return 1;
}

static const char *algo_of(const sb_make_plan *plan)
{
    if (is_mixed(plan))
        return "MIXED_PRECISION";
    return is_nvfp4(plan->format->scheme[0]) ? "NVFP4" : "FP8";
}

/* The name of a quantized layer in lists. All experts of a layer have one entry: returns 0 for all
 * but the first layer of expert 0. */
static int listed_name(const sb_make_linear *l, sb_make_module *module)
{
    snprintf(module->name, sizeof module->name, "%s", l->module);
    if (l->expert == SB_NO_EXPERT)
        return 1;
    char *experts = strstr(module->name, ".experts.");
    if (experts)
        experts[strlen(".experts")] = '\0';
    return l->expert == 0 && l->role == SB_ROLE_expert_gate;
}

/* --- excluded modules ------------------------------------------------------------------------- */

static void prefixed(sb_json_out *out, const sb_make_plan *plan, uint32_t layer, const char *rest)
{
    char text[SB_NAME_MAX];
    snprintf(text, sizeof text, "%slayers.%u.%s", plan->storage.prefix, (unsigned)layer, rest);
    sb_put_item(out, text);
}

/* Excludes a completely unquantized part of a layer as a whole, otherwise module by module. */
static void exclude_layer(sb_json_out *out, const sb_make_plan *plan, uint32_t layer)
{
    const sb_make_format *f = plan->format;
    unsigned modules = f->modules[0] | f->modules[1];
    if (plan->config.layer_is_full[layer]) {
        if (!(modules & SB_MODULES_ATTENTION))
            prefixed(out, plan, layer, "self_attn*");
    } else if (!(modules & SB_MODULES_LINEAR)) {
        prefixed(out, plan, layer, "linear_attn*");
    } else {
        prefixed(out, plan, layer, "linear_attn.conv1d");
        if (plan->config.family == SB_QWEN3_NEXT) {
            prefixed(out, plan, layer, "linear_attn.in_proj_ba");
        } else {
            prefixed(out, plan, layer, "linear_attn.in_proj_a");
            prefixed(out, plan, layer, "linear_attn.in_proj_b");
        }
    }
    if (sb_config_layer_experts(&plan->config, layer) == 0)
        return;
    if (plan->config.shared_intermediate == 0) { /* as nvidia/Qwen3-235B-A22B-NVFP4 */
        prefixed(out, plan, layer, "mlp.gate");
        return;
    }
    if (!(modules & SB_MODULES_SHARED))
        prefixed(out, plan, layer, "mlp.shared_expert*");
    prefixed(out, plan, layer, "mlp.shared_expert_gate");
}

/* A mixed configuration lists the quantized layers, so it excludes only the MTP head. */
static void write_excluded(sb_json_out *out, const char *key, const sb_make_plan *plan)
{
    sb_put_key(out, key);
    sb_put_open(out, '[');
    if (!is_mixed(plan)) {
        sb_put_item(out, "lm_head");
        for (uint32_t i = 0; i < plan->config.layers; i++)
            exclude_layer(out, plan, i);
        if (plan->shape.vl)
            sb_put_item(out, "model.visual*");
    }
    if (plan->shape.has_mtp) {
        sb_put_item(out, "mtp.layers.0*");
        sb_put_item(out, "mtp*");
    }
    sb_put_close(out, ']');
}

/* --- which layer has which algorithm ---------------------------------------------------------- */

static void write_layer(sb_json_out *out, const sb_make_plan *plan, const char *name, int nvfp4)
{
    sb_put_key(out, name);
    sb_put_open(out, '{');
    sb_put_string(out, "quant_algo", nvfp4 ? nvfp4_algo(plan) : "FP8");
    if (nvfp4)
        sb_put_count(out, "group_size", 16);
    sb_put_close(out, '}');
}

static void write_layers(sb_json_out *out, const sb_make_plan *plan)
{
    sb_make_module module;
    sb_put_key(out, "quantized_layers");
    sb_put_open(out, '{');
    for (size_t i = 0; i < plan->linear_count; i++)
        if (listed_name(&plan->linears[i], &module))
            write_layer(out, plan, module.name, is_nvfp4(plan->linears[i].scheme));
    for (size_t i = 0; i < plan->count; i++)
        if (is_listed_conv(plan, &plan->tensors[i], &module))
            write_layer(out, plan, module.name, 0);
    sb_put_close(out, '}');
}

static void write_numbers(sb_json_out *out, const char *key, int nvfp4)
{
    sb_put_key(out, key);
    sb_put_open(out, '{');
    sb_put_text(out, "dynamic", "false");
    sb_put_count(out, "num_bits", nvfp4 ? 4 : 8);
    sb_put_string(out, "type", "float");
    if (nvfp4)
        sb_put_count(out, "group_size", 16);
    sb_put_close(out, '}');
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The sorted names of the layers of a scheme; none if memory is out. */
static void write_targets(sb_json_out *out, const sb_make_plan *plan, sb_scheme scheme)
{
    char **names = sb_alloc(plan->linear_count + plan->count, sizeof *names);
    sb_make_module module;
    size_t count = 0;
    for (size_t i = 0; names && i < plan->linear_count; i++)
        if (plan->linears[i].scheme == scheme && listed_name(&plan->linears[i], &module)) {
            names[count] = sb_strdup(module.name);
            count += names[count] != NULL;
        }
    for (size_t i = 0; names && !is_nvfp4(scheme) && i < plan->count; i++)
        if (is_listed_conv(plan, &plan->tensors[i], &module)) {
            names[count] = sb_strdup(module.name);
            count += names[count] != NULL;
        }
    if (names)
        qsort(names, count, sizeof *names, compare_texts);
    sb_put_key(out, "targets");
    sb_put_open(out, '[');
    for (size_t i = 0; i < count; i++) {
        sb_put_item(out, names[i]);
        free(names[i]);
    }
    sb_put_close(out, ']');
    free(names);
}

static void write_group(sb_json_out *out, const sb_make_plan *plan, const char *key,
                        sb_scheme scheme)
{
    sb_put_key(out, key);
    sb_put_open(out, '{');
    write_numbers(out, "input_activations", is_nvfp4(scheme));
    write_numbers(out, "weights", is_nvfp4(scheme));
    if (is_mixed(plan))
        write_targets(out, plan, scheme);
    else
        sb_put_text(out, "targets", "[\"Linear\"]");
    sb_put_close(out, '}');
}

/* --- the two documents ------------------------------------------------------------------------ */

static void write_producer(sb_json_out *out, const char *version)
{
    sb_put_key(out, "producer");
    sb_put_open(out, '{');
    sb_put_string(out, "name", "modelopt");
    sb_put_string(out, "version", version);
    sb_put_close(out, '}');
}

/* nvidia-mix has the same contradictions as the published file: in the version, the inputs of NVFP4
 * layers, and the cache. */
void sb_make_write_modelopt(sb_json_out *out, const sb_make_plan *plan)
{
    sb_put_key(out, "config_groups");
    sb_put_open(out, '{');
    write_group(out, plan, "group_0", plan->format->scheme[is_mixed(plan)]);
    if (is_mixed(plan))
        write_group(out, plan, "group_1", plan->format->scheme[0]);
    sb_put_close(out, '}');
    if (is_mixed(plan))
        write_layers(out, plan);
    write_excluded(out, "ignore", plan);
    sb_put_string(out, "quant_algo", algo_of(plan));
    if (plan->kv_scales) {
        sb_put_key(out, "kv_cache_scheme");
        sb_put_open(out, '{');
        sb_put_text(out, "dynamic", "false");
        sb_put_count(out, "num_bits", 8);
        sb_put_string(out, "type", "float");
        sb_put_close(out, '}');
    }
    write_producer(out, is_published_mix(plan) ? "0.37.0" : "0.47.0");
    sb_put_string(out, "quant_method", "modelopt");
}

void sb_make_write_hf_quant(sb_json_out *out, const sb_make_plan *plan)
{
    write_producer(out, is_published_mix(plan) ? "0.44.0" : "0.47.0");
    sb_put_key(out, "quantization");
    sb_put_open(out, '{');
    sb_put_string(out, "quant_algo", algo_of(plan));
    sb_put_text(out, "kv_cache_quant_algo",
                plan->kv_scales || is_published_mix(plan) ? "\"FP8\"" : "null");
    if (!is_mixed(plan) && is_nvfp4(plan->format->scheme[0]))
        sb_put_count(out, "group_size", 16);
    if (is_mixed(plan))
        write_layers(out, plan);
    write_excluded(out, "exclude_modules", plan);
    sb_put_close(out, '}');
}
