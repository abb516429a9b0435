/* quantization_config of compressed-tensors. */
#include "tools/make/plan.h"
#include "tools/make/quant_config.h"

/* QuantizationArgs as literals, NULL for null. */
typedef struct args {
    const char *block, *dynamic, *group, *bits, *observer, *scale_dtype, *strategy, *type;
} args;

#define E4M3 "\"torch.float8_e4m3fn\""
#define U8 "\"torch.uint8\""
#define MINMAX "\"memoryless_minmax\""

static const struct {
    sb_scheme scheme;
    const char *format;
    args weights, inputs; /* inputs.bits NULL: activations are not quantized */
} schemes[] = {
    {SB_SCHEME_nvfp4_ct,
     "nvfp4-pack-quantized",
     {NULL, "false", "16", "4", MINMAX, E4M3, "tensor_group", "float"},
     {NULL, "\"local\"", "16", "4", "\"static_minmax\"", E4M3, "tensor_group", "float"}},
    {SB_SCHEME_nvfp4a16_ct,
     "nvfp4-pack-quantized",
     {NULL, "false", "16", "4", MINMAX, E4M3, "tensor_group", "float"},
     {0}},
    {SB_SCHEME_fp8_channel,
     "float-quantized",
     {NULL, "false", NULL, "8", MINMAX, NULL, "channel", "float"},
     {NULL, "true", NULL, "8", NULL, NULL, "token", "float"}},
    {SB_SCHEME_mxfp4,
     "mxfp4-pack-quantized",
     {NULL, "false", "32", "4", MINMAX, U8, "group", "float"},
     {NULL, "true", "32", "4", NULL, U8, "group", "float"}},
    {SB_SCHEME_mxfp8,
     "mxfp8-quantized",
     {NULL, "false", "32", "8", MINMAX, U8, "group", "float"},
     {NULL, "true", "32", "8", NULL, U8, "group", "float"}},
    {SB_SCHEME_int8_ct,
     "int-quantized",
     {NULL, "false", NULL, "8", MINMAX, NULL, "channel", "int"},
     {NULL, "true", NULL, "8", NULL, NULL, "token", "int"}},
    {SB_SCHEME_int4_ct,
     "pack-quantized",
     {NULL, "false", "", "4", MINMAX, NULL, "group", "int"},
     {0}},
};

static const args kv_cache = {NULL, "false",  NULL,   "8", "\"static_minmax\"",
                              NULL, "tensor", "float"};

static void put(sb_json_out *out, const char *name, const char *literal)
{
    sb_put_text(out, name, literal ? literal : "null");
}

static void write_args(sb_json_out *out, const char *name, const args *a, uint32_t group)
{
    if (!a->bits) {
        put(out, name, NULL);
        return;
    }
    sb_put_key(out, name);
    sb_put_open(out, '{');
    put(out, "actorder", NULL);
    put(out, "block_structure", a->block);
    put(out, "dynamic", a->dynamic);
    if (a->group && !a->group[0])
        sb_put_count(out, "group_size", group);
    else
        put(out, "group_size", a->group);
    put(out, "num_bits", a->bits);
    put(out, "observer", a->observer);
    put(out, "observer_kwargs", "{}");
    put(out, "scale_dtype", a->scale_dtype);
    sb_put_string(out, "strategy", a->strategy);
    put(out, "symmetric", "true");
    sb_put_string(out, "type", a->type);
    put(out, "zp_dtype", NULL);
    sb_put_close(out, '}');
}

/* The full names of modules, and one pattern for the MTP head, which was copied unquantized. */
static void write_ignored(sb_json_out *out, const sb_make_plan *plan)
{
    sb_make_module module;
    int has_mtp = 0;
    sb_put_key(out, "ignore");
    sb_put_open(out, '[');
    for (size_t i = 0; i < plan->count; i++) {
        const sb_make_tensor *t = &plan->tensors[i];
        int mtp = sb_make_is_mtp(plan, t);
        has_mtp |= mtp;
        if (!mtp && t->role != SB_ROLE_lm_head && sb_make_plain_linear(plan, t, &module))
            sb_put_item(out, module.name);
    }
    if (!(plan->format->modules[0] & SB_MODULES_HEAD))
        sb_put_item(out, "lm_head");
    if (has_mtp)
        sb_put_item(out, "re:^mtp.*");
    sb_put_close(out, ']');
}

void sb_make_write_compressed_tensors(sb_json_out *out, const sb_make_plan *plan)
{
    uint32_t group = plan->linear_count ? plan->linears[0].group : 0;
    size_t s = 0;
    while (schemes[s].scheme != plan->format->scheme[0])
        s++;
    sb_put_key(out, "config_groups");
    sb_put_open(out, '{');
    sb_put_key(out, "group_0");
    sb_put_open(out, '{');
    sb_put_string(out, "format", schemes[s].format);
    write_args(out, "input_activations", &schemes[s].inputs, group);
    put(out, "output_activations", NULL);
    sb_put_text(out, "targets", "[\"Linear\"]");
    write_args(out, "weights", &schemes[s].weights, group);
    sb_put_close(out, '}');
    sb_put_close(out, '}');
    sb_put_string(out, "format", schemes[s].format);
    put(out, "global_compression_ratio", NULL);
    write_ignored(out, plan);
    if (plan->kv_scales)
        write_args(out, "kv_cache_scheme", &kv_cache, 0);
    else
        put(out, "kv_cache_scheme", NULL);
    sb_put_string(out, "quant_method", "compressed-tensors");
    sb_put_string(out, "quantization_status", "compressed");
    put(out, "sparsity_config", "{}");
    put(out, "transform_config", "{}");
    sb_put_string(out, "version", "0.19.0");
}
