/* quantization_config of AMD Quark. */
#include "tools/make/plan.h"
#include "tools/make/quant_config.h"

/* MXFP4 of weights or inputs, as QTensorConfig.to_dict of Quark 0.13 writes it. */
static void write_spec(sb_json_out *out, const char *name, int is_dynamic)
{
    sb_put_key(out, name);
    sb_put_open(out, '{');
    sb_put_text(out, "block_size", "null");
    sb_put_text(out, "ch_axis", "-1");
    sb_put_string(out, "dtype", "fp4");
    sb_put_text(out, "enable_buffer_reuse", "false");
    sb_put_count(out, "group_size", 32);
    sb_put_text(out, "is_dynamic", is_dynamic ? "true" : "false");
    sb_put_text(out, "is_scale_quant", "false");
    sb_put_count(out, "max_input_numel", 4194304);
    sb_put_text(out, "mx_element_dtype", "null");
    sb_put_string(out, "observer_cls", "PerBlockMXObserver");
    sb_put_string(out, "qscheme", "per_group");
    sb_put_string(out, "round_method", "half_even");
    sb_put_string(out, "scale_calculation_mode", "even");
    sb_put_string(out, "scale_format", "e8m0");
    sb_put_string(out, "scale_type", "float");
    sb_put_text(out, "symmetric", "null");
    sb_put_string(out, "zero_point_type", "int32");
    sb_put_close(out, '}');
}

/* The full names of the linear layers that are not quantized, and a pattern for the vision
 * tower. */
static void write_exclude(sb_json_out *out, const sb_make_plan *plan)
{
    sb_make_module module;
    sb_put_key(out, "exclude");
    sb_put_open(out, '[');
    for (size_t i = 0; i < plan->count; i++)
        if (!sb_make_is_vision(&plan->tensors[i]) &&
            sb_make_plain_linear(plan, &plan->tensors[i], &module))
            sb_put_item(out, module.name);
    if (plan->config.tie_embeddings)
        sb_put_item(out, "lm_head");
    if (plan->shape.vl)
        sb_put_item(out, "model.visual.*");
    sb_put_close(out, ']');
}

void sb_make_write_quark(sb_json_out *out, const sb_make_plan *plan)
{
    sb_put_text(out, "algo_config", "null");
    write_exclude(out, plan);
    sb_put_key(out, "export");
    sb_put_open(out, '{');
    sb_put_text(out, "kv_cache_group", "[]");
    sb_put_text(out, "min_kv_scale", "0.0");
    sb_put_string(out, "pack_method", "reorder");
    sb_put_string(out, "weight_format", "real_quantized");
    sb_put_text(out, "weight_merge_groups", "null");
    sb_put_close(out, '}');
    sb_put_key(out, "global_quant_config");
    sb_put_open(out, '{');
    sb_put_text(out, "bias", "null");
    write_spec(out, "input_tensors", 1);
    sb_put_text(out, "output_tensors", "null");
    sb_put_text(out, "target_device", "null");
    write_spec(out, "weight", 0);
    sb_put_close(out, '}');
    sb_put_text(out, "kv_cache_post_rope", "false");
    sb_put_text(out, "kv_cache_quant_config", "{}");
    sb_put_text(out, "layer_quant_config", "{}");
    sb_put_text(out, "layer_type_quant_config", "{}");
    sb_put_string(out, "quant_method", "quark");
    sb_put_string(out, "quant_mode", "eager_mode");
    sb_put_text(out, "softmax_quant_spec", "null");
    sb_put_string(out, "version", "0.13");
}
