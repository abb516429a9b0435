/* config.c - quantization_config of config.json and hf_quant_config.json in either dialect, made
 * from the layers themselves, not from the declaration in the other dialect. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/json.h"
#include "ref/container/json_out.h"
#include "ref/container/show.h"
#include "tools/check/convert/plan.h"

/* The lists of module names. Experts of one module that are stored alike are one entry. */
typedef struct lister {
    const sb_convert_plan *plan;
    json_t *lists[SB_SCHEME_COUNT]; /* arrays of names; entries for experts end with ".experts" */
    int used[SB_SCHEME_COUNT];
} lister;

static const char *module_of_experts(const char *name, char *room, size_t size)
{
    const char *at = strstr(name, ".experts.");
    size_t n = at ? (size_t)(at - name) + strlen(".experts") : 0;
    if (!at || n >= size)
        return NULL;
    memcpy(room, name, n);
    room[n] = '\0';
    return room;
}

/* True if all modules of these experts, from i on, have one scheme; *end is after the last. They
 * are contiguous, because modules are sorted by name. */
static int experts_alike(const sb_convert_plan *p, const char *experts, size_t i, size_t *end)
{
    size_t n = strlen(experts);
    int alike = 1;
    for (*end = i; *end < p->module_count; ++*end) {
        const char *name = p->modules[*end].name;
        if (strncmp(name, experts, n) != 0 || name[n] != '.')
            break;
        alike &= p->modules[*end].scheme == p->modules[i].scheme;
    }
    return alike;
}

/* False for embeddings and norms: these may be matrices, but are no linear layers. */
static int is_linear(const char *name)
{
    const char *last = strrchr(name, '.');
    return !strstr(last ? last : name, "embed") && !strstr(last ? last : name, "norm");
}

static int make_lists(lister *l)
{
    const sb_convert_plan *p = l->plan;
    for (size_t s = 0; s < SB_SCHEME_COUNT; s++)
        if (!(l->lists[s] = json_array()))
            return 0;
    for (size_t i = 0, end; i < p->module_count; i = end) {
        char room[SB_MAX_TENSOR_NAME];
        const char *experts = module_of_experts(p->modules[i].name, room, sizeof room);
        sb_scheme scheme = p->modules[i].scheme;
        const char *name = p->modules[i].name;
        end = i + 1;
        if (experts && experts_alike(p, experts, i, &end))
            name = experts;
        else
            end = i + 1;
        l->used[scheme] = 1;
        if (is_linear(name) && json_array_append_new(l->lists[scheme], json_string(name)) != 0)
            return 0;
    }
    return 1;
}

/* The name of a module as a rule. For experts compressed-tensors needs a regular expression that
 * matches the module and everything in it; ModelOpt needs a pattern with '*', but in
 * quantized_layers the bare name. */
static json_t *rule(const char *name, int ct)
{
    char text[3 * SB_MAX_TENSOR_NAME];
    size_t n = strlen(name), used = 0;
    const char *tail = ".experts";
    if (n < strlen(tail) || strcmp(name + n - strlen(tail), tail) != 0)
        return json_string(name);
    if (!ct) {
        snprintf(text, sizeof text, "%s*", name);
        return json_string(text);
    }
    used = (size_t)snprintf(text, sizeof text, "re:");
    for (; *name; name++)
        used +=
            (size_t)snprintf(text + used, sizeof text - used, *name == '.' ? "\\%c" : "%c", *name);
    snprintf(text + used, sizeof text - used, "(\\..*)?$");
    return json_string(text);
}

static json_t *rules(const json_t *names, int ct)
{
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(names); i++)
        json_array_append_new(out, rule(json_string_value(json_array_get(names, i)), ct));
    return out;
}

/* --- compressed-tensors ----------------------------------------------------------------------- */

/* The keys of compressed-tensors in its order, with the observers of its schemes. */
static json_t *ct_args(int bits, int inputs)
{
    int fp4 = bits == 4;
    return json_pack(
        "{s:n,s:n,s:o,s:o,s:i,s:s,s:{},s:o,s:s,s:b,s:s,s:n}", "actorder", "block_structure",
        "dynamic", fp4 && inputs ? json_string("local") : json_false(), "group_size",
        fp4 ? json_integer(16) : json_null(), "num_bits", bits, "observer",
        inputs ? "static_minmax" : "memoryless_minmax", "observer_kwargs", "scale_dtype",
        fp4 ? json_string("torch.float8_e4m3fn") : json_null(), "strategy",
        fp4 ? "tensor_group" : "tensor", "symmetric", 1, "type", "float", "zp_dtype");
}

static json_t *ct_group(sb_scheme scheme, json_t *targets)
{
    int nvfp4 = scheme == SB_SCHEME_nvfp4 || scheme == SB_SCHEME_nvfp4_a16;
    int inputs = scheme == SB_SCHEME_nvfp4 || scheme == SB_SCHEME_fp8;
    int bits = nvfp4 ? 4 : 8;
    return json_pack("{s:s,s:o,s:n,s:o,s:o}", "format",
                     nvfp4 ? "nvfp4-pack-quantized" : "float-quantized", "input_activations",
                     inputs ? ct_args(bits, 1) : json_null(), "output_activations", "targets",
                     targets, "weights", ct_args(bits, 0));
}

static json_t *ct_config(const lister *l, json_t *kv)
{
    json_t *groups = json_object();
    int kinds = 0, number = 0;
    for (int s = SB_SCHEME_nvfp4; s < SB_SCHEME_COUNT; s++)
        kinds += l->used[s];
    for (int s = SB_SCHEME_nvfp4; s < SB_SCHEME_COUNT; s++) {
        char name[32];
        if (!l->used[s])
            continue;
        snprintf(name, sizeof name, "group_%d", number++);
        json_object_set_new(
            groups, name,
            ct_group((sb_scheme)s, kinds > 1 ? rules(l->lists[s], 1) : json_pack("[s]", "Linear")));
    }
    return json_pack("{s:o,s:s,s:n,s:o,s:o,s:s,s:s,s:{},s:{}}", "config_groups", groups, "format",
                     kinds > 1 ? "mixed-precision" : "nvfp4-pack-quantized",
                     "global_compression_ratio", "ignore", rules(l->lists[SB_SCHEME_plain], 1),
                     "kv_cache_scheme", kv, "quant_method", "compressed-tensors",
                     "quantization_status", "compressed", "sparsity_config", "transform_config");
}

/* --- ModelOpt --------------------------------------------------------------------------------- */

static const char *const algos[SB_SCHEME_COUNT] = {NULL, "NVFP4", "W4A16_NVFP4", "FP8", NULL};

static json_t *modelopt_layers(const lister *l)
{
    json_t *out = json_object();
    for (int s = SB_SCHEME_nvfp4; s < SB_SCHEME_COUNT; s++)
        for (size_t i = 0; i < json_array_size(l->lists[s]); i++) {
            json_t *layer = json_pack("{s:s}", "quant_algo", algos[s]);
            if (s != SB_SCHEME_fp8)
                json_object_set_new(layer, "group_size", json_integer(16));
            json_object_set_new(out, json_string_value(json_array_get(l->lists[s], i)), layer);
        }
    return out;
}

static json_t *modelopt_numbers(void)
{
    return json_pack("{s:b,s:i,s:s,s:i}", "dynamic", 0, "num_bits", 4, "type", "float",
                     "group_size", 16);
}

static json_t *producer(void)
{
    return json_pack("{s:s,s:s}", "name", "samebit", "version", "1");
}

/* The algorithm of all layers if there is only one, else NULL. */
static const char *modelopt_algo(const lister *l)
{
    int kinds = 0;
    const char *algo = NULL;
    for (int s = SB_SCHEME_nvfp4; s < SB_SCHEME_COUNT; s++)
        if (l->used[s]) {
            kinds++;
            algo = algos[s];
        }
    return kinds == 1 ? algo : NULL;
}

static json_t *modelopt_config(const lister *l, json_t *kv)
{
    const char *algo = modelopt_algo(l);
    json_t *out = json_object();
    if (algo) {
        json_t *group = json_pack("{s:o,s:o,s:[s]}", "input_activations",
                                  l->used[SB_SCHEME_nvfp4] ? modelopt_numbers() : json_null(),
                                  "weights", modelopt_numbers(), "targets", "Linear");
        json_object_set_new(out, "config_groups", json_pack("{s:o}", "group_0", group));
    }
    json_object_set_new(out, "ignore", rules(l->lists[SB_SCHEME_plain], 0));
    json_object_set_new(out, "quant_algo", json_string(algo ? algo : "MIXED_PRECISION"));
    json_object_set_new(out, "kv_cache_scheme", kv);
    json_object_set_new(out, "producer", producer());
    if (!algo)
        json_object_set_new(out, "quantized_layers", modelopt_layers(l));
    json_object_set_new(out, "quant_method", json_string("modelopt"));
    return out;
}

static json_t *modelopt_file(const lister *l, int kv_fp8)
{
    const char *algo = modelopt_algo(l);
    json_t *q = json_pack("{s:s,s:o}", "quant_algo", algo ? algo : "MIXED_PRECISION",
                          "kv_cache_quant_algo", kv_fp8 ? json_string("FP8") : json_null());
    if (algo)
        json_object_set_new(q, "group_size", json_integer(16));
    json_object_set_new(q, "exclude_modules", rules(l->lists[SB_SCHEME_plain], 0));
    if (!algo)
        json_object_set_new(q, "quantized_layers", modelopt_layers(l));
    return json_pack("{s:o,s:o}", "producer", producer(), "quantization", q);
}

/* --- both ------------------------------------------------------------------------------------- */

static json_t *kv_scheme(int fp8, int ct)
{
    if (!fp8)
        return json_null();
    return ct ? ct_args(8, 1)
              : json_pack("{s:b,s:i,s:s}", "dynamic", 0, "num_bits", 8, "type", "float");
}

static sb_status check_expressible(const sb_convert_plan *p, const lister *l, sb_error *err)
{
    sb_declared_kv kv = p->declared ? sb_declared_kv_cache(p->declared) : SB_KV_NONE;
    if (kv != SB_KV_NONE && kv != SB_KV_FP8)
        return sb_fail(err, SB_ERR_UNSUPPORTED,
                       "%s: declares a KV cache in %s, which cannot be converted",
                       SB_SHOW(sb_checkpoint_path(p->source)), sb_declared_kv_name(kv));
    if (!p->to_ct && l->used[SB_SCHEME_fp8_a16])
        return sb_fail(
            err, SB_ERR_UNSUPPORTED,
            "%s: has FP8 layers without input_scale, and ModelOpt has no declaration for them",
            SB_SHOW(sb_checkpoint_path(p->source)));
    return SB_OK;
}

sb_status sb_convert_config(const sb_convert_plan *p, const char *folder, const char *config,
                            char **new_config, char **hf_quant, sb_error *err)
{
    lister l = {.plan = p};
    int kv = p->declared && sb_declared_kv_cache(p->declared) == SB_KV_FP8;
    json_t *inner = NULL, *file = NULL;
    char *text = NULL;
    *new_config = *hf_quant = NULL;
    sb_status status = make_lists(&l) ? check_expressible(p, &l, err)
                                      : sb_fail(err, SB_ERR_MEMORY, "out of memory");
    if (!status) {
        inner = p->to_ct ? ct_config(&l, kv_scheme(kv, 1)) : modelopt_config(&l, kv_scheme(kv, 0));
        text = inner ? sb_json_dumps(inner, JSON_INDENT(2)) : NULL;
        file = p->to_ct ? NULL : modelopt_file(&l, kv);
        *hf_quant = file ? sb_json_dumps(file, JSON_INDENT(4)) : NULL;
        status = text && (p->to_ct || *hf_quant)
                     ? sb_splice_quantization(folder, config, text, new_config, err)
                     : sb_fail(err, SB_ERR_MEMORY, "out of memory for a configuration");
    }
    if (status) {
        free(*hf_quant);
        *hf_quant = NULL;
    }
    for (size_t s = 0; s < SB_SCHEME_COUNT; s++)
        json_decref(l.lists[s]);
    json_decref(inner);
    json_decref(file);
    free(text);
    return status;
}
