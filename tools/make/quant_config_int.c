/* quantization_config of FP8 blocks, of GPTQ, AWQ and AutoRound. */
#include <stdio.h>
#include <string.h>

#include "tools/make/plan.h"
#include "tools/make/quant_config.h"

static uint32_t group_of(const sb_make_plan *plan)
{
    return plan->linear_count ? plan->linears[0].group : 0;
}

static int is_linear_part(const sb_make_tensor *t)
{
    return t->role == SB_ROLE_conv1d || t->role == SB_ROLE_embed_tokens;
}

/* FP8: every module with an unquantized matrix; one name for the vision tower. */
static void write_not_converted(sb_json_out *out, const sb_make_plan *plan)
{
    sb_make_module module;
    sb_put_key(out, "modules_to_not_convert");
    sb_put_open(out, '[');
    if (plan->config.tie_embeddings)
        sb_put_item(out, "lm_head");
    for (size_t i = 0; i < plan->count; i++) {
        const sb_make_tensor *t = &plan->tensors[i];
        if (sb_make_is_vision(t))
            continue;
        if (sb_make_plain_linear(plan, t, &module)) {
            sb_put_item(out, module.name);
        } else if (is_linear_part(t)) {
            snprintf(module.name, sizeof module.name, "%.*s",
                     (int)(strlen(t->name) - strlen(".weight")), t->name);
            sb_put_item(out, module.name);
        }
    }
    if (plan->shape.vl)
        sb_put_item(out, "model.visual");
    sb_put_close(out, ']');
}

void sb_make_write_fp8(sb_json_out *out, const sb_make_plan *plan)
{
    sb_put_string(out, "activation_scheme", "dynamic");
    sb_put_string(out, "fmt", "e4m3");
    write_not_converted(out, plan);
    sb_put_string(out, "quant_method", "fp8");
    if (plan->format->scheme[0] == SB_SCHEME_fp8_block_ue8m0)
        sb_put_string(out, "scale_fmt", "ue8m0");
    sb_put_text(out, "weight_block_size", "[128, 128]");
}

/* --- GPTQ ------------------------------------------------------------------------------------- */

static uint32_t bits_of(const sb_make_plan *plan)
{
    return plan->format->scheme[0] == SB_SCHEME_int8_gptq ? 8 : 4;
}

/* The member "dynamic" of Qwen's releases. */
static void write_dynamic(sb_json_out *out)
{
    static const char *const rules[] = {"lm_head",    "model.language_model.embed_tokens",
                                        "-:.*attn.*", "-:.*shared_expert.*",
                                        "-:.*mtp.*",  "-:.*visual.*"};
    sb_put_key(out, "dynamic");
    sb_put_open(out, '{');
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        sb_put_text(out, rules[i], "{}");
    sb_put_close(out, '}');
}

void sb_make_write_quantize_config(sb_json_out *out, const sb_make_plan *plan)
{
    sb_put_count(out, "bits", bits_of(plan));
    sb_put_string(out, "checkpoint_format", "gptq");
    sb_put_text(out, "desc_act", "false");
    write_dynamic(out);
    sb_put_count(out, "group_size", group_of(plan));
    sb_put_text(out, "lm_head", "false");
    sb_put_text(out, "meta", "{\"quantizer\": [\"gptqmodel:5.7.0\"]}");
    sb_put_string(out, "pack_dtype", "int32");
    sb_put_string(out, "quant_method", "gptq");
    sb_put_text(out, "sym", "true");
}

void sb_make_write_gptq(sb_json_out *out, const sb_make_plan *plan)
{
    sb_make_write_quantize_config(out, plan);
}

/* --- AWQ -------------------------------------------------------------------------------------- */

void sb_make_write_awq(sb_json_out *out, const sb_make_plan *plan)
{
    sb_make_module module;
    sb_put_count(out, "bits", 4);
    sb_put_count(out, "group_size", group_of(plan));
    sb_put_key(out, "modules_to_not_convert");
    sb_put_open(out, '[');
    for (size_t i = 0; i < plan->count; i++) {
        const sb_make_tensor *t = &plan->tensors[i];
        int apart = sb_make_is_vision(t) || sb_make_is_mtp(plan, t) || t->role == SB_ROLE_lm_head;
        if (!apart && sb_make_plain_linear(plan, t, &module))
            sb_put_item(out, module.name);
    }
    sb_put_item(out, "lm_head");
    if (plan->shape.vl)
        sb_put_item(out, "visual");
    if (plan->shape.has_mtp)
        sb_put_item(out, "mtp");
    sb_put_close(out, ']');
    sb_put_string(out, "quant_method", "awq");
    sb_put_string(out, "version", "gemm");
    sb_put_text(out, "zero_point", "true");
}

/* --- AutoRound -------------------------------------------------------------------------------- */

/* Returns 1 and the name of a layer that was replaced by its FP8 form after AutoRound wrote the
 * file. */
static int replaced(const sb_make_plan *plan, const sb_make_tensor *t, sb_make_module *module)
{
    if (t->content != SB_CONTENT_codes ||
        plan->linears[t->linear].scheme == plan->format->scheme[0])
        return 0;
    snprintf(module->name, sizeof module->name, "%s", plan->linears[t->linear].module);
    return 1;
}

static void put_plain(sb_json_out *out, const char *key, const char *data_type)
{
    sb_put_key(out, key);
    sb_put_open(out, '{');
    sb_put_count(out, "bits", 16);
    sb_put_string(out, "data_type", data_type);
    sb_put_close(out, '}');
}

static int is_pattern(const sb_make_plan *plan, const sb_make_tensor *t)
{
    return t->role == SB_ROLE_router && !sb_make_is_mtp(plan, t);
}

/* AutoRound does not see a trunk's router as a linear layer; a pattern excludes it. */
static void put_router(sb_json_out *out, const char *name)
{
    char key[2 * sizeof((sb_make_module *)0)->name + 16];
    size_t used = (size_t)snprintf(key, sizeof key, ".*");
    for (; *name; name++)
        used +=
            (size_t)snprintf(key + used, sizeof key - used, *name == '.' ? "\\%c" : "%c", *name);
    snprintf(key + used, sizeof key - used, ".*");
    put_plain(out, key, "float");
}

/* The unquantized layers of blocks, patterns before names. The file next to config.json was written
 * before the MTP head was added, so the head is missing there. */
static void write_extra(sb_json_out *out, const sb_make_plan *plan, int with_mtp)
{
    sb_make_module module;
    sb_put_key(out, "extra_config");
    sb_put_open(out, '{');
    for (size_t i = 0; i < plan->count; i++)
        if (is_pattern(plan, &plan->tensors[i]) &&
            sb_make_plain_linear(plan, &plan->tensors[i], &module))
            put_router(out, module.name);
    for (size_t i = 0; i < plan->count; i++) {
        const sb_make_tensor *t = &plan->tensors[i];
        if (sb_make_is_vision(t) || t->role == SB_ROLE_lm_head || is_pattern(plan, t) ||
            (sb_make_is_mtp(plan, t) && !with_mtp) ||
            (!sb_make_plain_linear(plan, t, &module) && !replaced(plan, t, &module)))
            continue;
        put_plain(out, module.name, "fp");
    }
    sb_put_close(out, '}');
}

static void write_blocks(sb_json_out *out, const sb_make_plan *plan, int with_mtp)
{
    char trunk[64];
    snprintf(trunk, sizeof trunk, "%slayers", plan->storage.prefix);
    if (!with_mtp) {
        sb_put_string(out, "block_name_to_quantize", trunk);
        return;
    }
    sb_put_key(out, "block_name_to_quantize");
    sb_put_open(out, '[');
    sb_put_item(out, trunk);
    sb_put_item(out, "mtp.layers");
    sb_put_close(out, ']');
}

static void write_auto_round(sb_json_out *out, const sb_make_plan *plan, int with_mtp)
{
    sb_put_string(out, "autoround_version", "0.16.1");
    sb_put_count(out, "bits", 4);
    write_blocks(out, plan, with_mtp);
    sb_put_string(out, "data_type", "int");
    sb_put_text(out, "enable_quanted_input", "false");
    write_extra(out, plan, with_mtp);
    sb_put_count(out, "group_size", group_of(plan));
    sb_put_string(out, "packing_format", "auto_round:auto_gptq");
    sb_put_string(out, "quant_method", "auto-round");
    sb_put_text(out, "sym", "true");
}

/* G-22: "its FP8 layers are mentioned by a free key and nowhere else" */
void sb_make_write_auto_round(sb_json_out *out, const sb_make_plan *plan)
{
    if (plan->format->scheme[1] == SB_SCHEME_fp8_block)
        sb_put_text(out, "_hybrid_quant_info",
                    "\"INT4 experts, FP8 shared experts in blocks of 128 x 128\"");
    if (plan->format->modules[1] & SB_MODULES_HEAD)
        sb_put_text(out, "_hybrid_quant_info", "\"INT4 layers, INT8 head with a scale per row\"");
    write_auto_round(out, plan, plan->shape.has_mtp && plan->format->mtp_modules != 0);
}

void sb_make_write_auto_round_file(sb_json_out *out, const sb_make_plan *plan)
{
    write_auto_round(out, plan, 0);
}
