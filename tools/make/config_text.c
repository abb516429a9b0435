#include "tools/make/config_text.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "tools/make/json_text.h"
#include "tools/make/quant_config.h"
#include "tools/make/vision.h"

/* The document and its content. */
typedef struct text_out {
    sb_json_out json;
    const sb_make_shape *shape;
    const struct sb_make_plan *plan;
} text_out;

static void write_id(text_out *out, const char *name, uint32_t id)
{
    if (id)
        sb_put_count(&out->json, name, id);
    else
        sb_put_text(&out->json, name, "null");
}

/* --- the values that are computed: SB_CALL ---------------------------------------------------- */

static void write_bos(text_out *out, const char *name)
{
    write_id(out, name, out->shape->dims.bos);
}

static void write_eos(text_out *out, const char *name)
{
    write_id(out, name, out->shape->dims.eos);
}

static void write_dtype(text_out *out, const char *name)
{
    sb_put_string(&out->json, name, out->shape->dtype);
}

static void write_model_type(text_out *out, const char *name)
{
    sb_put_key(&out->json, name);
    fprintf(out->json.file, "\"%s%s\"", sb_family_name(out->shape->dims.family),
            sb_family_is_flat(out->shape->dims.family) ? "" : "_text");
}

static void write_mtp_layers(text_out *out, const char *name)
{
    sb_put_count(&out->json, name, out->shape->has_mtp ? 1 : 0);
}

static void write_output_gate(text_out *out, const char *name)
{
    const char *type = out->shape->dims.output_gate_type;
    if (type && *type)
        sb_put_string(&out->json, name, type);
}

static void write_norm_topk(text_out *out, const char *name)
{
    sb_put_text(&out->json, name, out->shape->dims.norm_topk_prob ? "true" : "false");
}

/* With fewer layers (--layers) the dense one may be gone. */
static void write_dense_layers(text_out *out, const char *name)
{
    const sb_make_preset *dims = &out->shape->dims;
    const int has = dims->dense_layer && dims->dense_layer < dims->layers;
    sb_put_key(&out->json, name);
    if (has)
        fprintf(out->json.file, "[%" PRIu32 "]", dims->dense_layer);
    else
        fprintf(out->json.file, "[]");
}

static void write_tied(text_out *out, const char *name)
{
    sb_put_text(&out->json, name, out->shape->dims.tied ? "true" : "false");
}

static void write_layer_types(text_out *out, const char *name)
{
    sb_put_key(&out->json, name);
    sb_put_open(&out->json, '[');
    for (uint32_t i = 0; i < out->shape->dims.layers; i++)
        sb_put_item(&out->json, (i + 1) % 4 ? "linear_attention" : "full_attention");
    sb_put_close(&out->json, ']');
}

static void write_rope(text_out *out, const char *name)
{
    const uint32_t *section = out->shape->dims.mrope_section;
    sb_put_key(&out->json, name);
    sb_put_open(&out->json, '{');
    sb_put_text(&out->json, "mrope_interleaved", "true");
    sb_put_key(&out->json, "mrope_section");
    fprintf(out->json.file, "[%" PRIu32 ", %" PRIu32 ", %" PRIu32 "]", section[0], section[1],
            section[2]);
    sb_put_text(&out->json, "partial_rotary_factor", "0.25");
    sb_put_text(&out->json, "rope_theta", "10000000");
    sb_put_string(&out->json, "rope_type", "default");
    sb_put_close(&out->json, '}');
}

/* The quantization is a member of the root object, which is the text model or contains it. */
static void write_quantization(text_out *out, const char *name)
{
    if (out->plan && !out->shape->vl)
        sb_make_write_quantization(&out->json, name, out->plan);
}

enum {
    M = 1 << SB_QWEN3_5_MOE,
    D = 1 << SB_QWEN3_5,
    N = 1 << SB_QWEN3_NEXT,
    Q = 1 << SB_QWEN3_MOE,
    R = 1 << SB_QWEN3
};

static const struct {
    int families;
    const char *key;
    const char *literal;
    size_t member;
    void (*call)(text_out *out, const char *key);
} keys[] = {
#define SB_TEXT(families, key, literal) {families, key, literal, 0, NULL},
#define SB_COUNT(families, key, member)                                                            \
    {families, key, NULL, offsetof(sb_make_preset, member), NULL},
#define SB_CALL(families, key, function) {families, key, NULL, 0, function},
#include "tools/make/config_keys.def"
#undef SB_TEXT
#undef SB_COUNT
#undef SB_CALL
};

static void write_text_model(text_out *out)
{
    const sb_make_preset *dims = &out->shape->dims;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        uint32_t count;
        if (!(keys[i].families & 1 << dims->family))
            continue;
        memcpy(&count, (const char *)dims + keys[i].member, sizeof count);
        if (keys[i].call)
            keys[i].call(out, keys[i].key);
        else if (keys[i].literal)
            sb_put_text(&out->json, keys[i].key, keys[i].literal);
        else
            sb_put_count(&out->json, keys[i].key, count);
    }
}

static void write_vision(text_out *out)
{
    sb_put_key(&out->json, "vision_config");
    sb_put_open(&out->json, '{');
    sb_put_text(&out->json, "deepstack_visual_indexes", "[]");
    sb_put_count(&out->json, "depth", SB_VISION_DEPTH);
    sb_put_string(&out->json, "hidden_act", "gelu_pytorch_tanh");
    sb_put_count(&out->json, "hidden_size", SB_VISION_HIDDEN);
    sb_put_count(&out->json, "in_channels", SB_VISION_CHANNELS);
    sb_put_text(&out->json, "initializer_range", "0.02");
    sb_put_count(&out->json, "intermediate_size", SB_VISION_INTERMEDIATE);
    sb_put_string(&out->json, "model_type", sb_family_name(out->shape->dims.family));
    sb_put_count(&out->json, "num_heads", SB_VISION_HEADS);
    sb_put_count(&out->json, "num_position_embeddings", SB_VISION_POSITIONS);
    sb_put_count(&out->json, "out_hidden_size", out->shape->dims.hidden_size);
    sb_put_count(&out->json, "patch_size", SB_VISION_PATCH);
    sb_put_count(&out->json, "spatial_merge_size", SB_VISION_MERGE);
    sb_put_count(&out->json, "temporal_patch_size", SB_VISION_TEMPORAL);
    sb_put_close(&out->json, '}');
}

/* The published ids of the image tokens, or the last four of a small vocabulary. */
static uint32_t image_id(const sb_make_preset *dims, uint32_t published)
{
    return dims->vocab_size > 248057 ? published : dims->vocab_size - (248057 - published) - 1;
}

static void write_root(text_out *out)
{
    const sb_make_preset *dims = &out->shape->dims;
    sb_put_open(&out->json, '{');
    sb_put_key(&out->json, "architectures");
    fprintf(out->json.file, "[\"%sFor%s\"]", sb_family_classes(dims->family),
            out->shape->vl ? "ConditionalGeneration" : "CausalLM");
    if (!out->shape->vl) {
        write_text_model(out);
        sb_put_close(&out->json, '}');
        return;
    }
    write_dtype(out, "dtype");
    sb_put_count(&out->json, "image_token_id", image_id(dims, 248056));
    sb_put_string(&out->json, "model_type", sb_family_name(dims->family));
    if (out->plan)
        sb_make_write_quantization(&out->json, "quantization_config", out->plan);
    sb_put_key(&out->json, "text_config");
    sb_put_open(&out->json, '{');
    write_text_model(out);
    sb_put_close(&out->json, '}');
    write_tied(out, "tie_word_embeddings");
    sb_put_count(&out->json, "video_token_id", image_id(dims, 248057));
    write_vision(out);
    sb_put_count(&out->json, "vision_end_token_id", image_id(dims, 248054));
    sb_put_count(&out->json, "vision_start_token_id", image_id(dims, 248053));
    sb_put_close(&out->json, '}');
}

char *sb_make_config_text(const sb_make_shape *shape, const struct sb_make_plan *plan)
{
    char *text = NULL;
    size_t size = 0;
    text_out out = {{open_memstream(&text, &size), 0, 0}, shape, plan};
    if (!out.json.file)
        return NULL;
    write_root(&out);
    return sb_put_finish(&out.json, &text);
}
