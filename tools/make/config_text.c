#include "tools/make/config_text.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "tools/make/vision.h"

/* Numbers are written as literals or with %u and never as binary floating point, so that the bytes
 * (G-1: "every byte of the folder") depend on no library's idea of the shortest decimal. */
typedef struct json_out {
    FILE *file;
    const sb_make_shape *shape;
    int depth;
    int members; /* in the object being written */
} json_out;

static void new_line(json_out *out)
{
    fputc('\n', out->file);
    for (int i = 0; i < out->depth; i++)
        fputs("  ", out->file);
}

static void key(json_out *out, const char *name)
{
    if (out->members++)
        fputc(',', out->file);
    new_line(out);
    fprintf(out->file, "\"%s\": ", name);
}

static void open_object(json_out *out)
{
    fputc('{', out->file);
    out->depth++;
    out->members = 0;
}

static void close_object(json_out *out)
{
    out->depth--;
    new_line(out);
    fputc('}', out->file);
    out->members = 1; /* of the object around it: at least this one */
}

static void write_text(json_out *out, const char *name, const char *literal)
{
    key(out, name);
    fputs(literal, out->file);
}

static void write_count(json_out *out, const char *name, uint32_t value)
{
    key(out, name);
    fprintf(out->file, "%" PRIu32, value);
}

static void write_string(json_out *out, const char *name, const char *value)
{
    key(out, name);
    fprintf(out->file, "\"%s\"", value);
}

static void write_id(json_out *out, const char *name, uint32_t id)
{
    if (id)
        write_count(out, name, id);
    else
        write_text(out, name, "null");
}

/* --- the values that are computed: SB_CALL -----------------------------------------------------
 */

static void write_bos(json_out *out, const char *name)
{
    write_id(out, name, out->shape->dims.bos);
}

static void write_eos(json_out *out, const char *name)
{
    write_id(out, name, out->shape->dims.eos);
}

static void write_dtype(json_out *out, const char *name)
{
    write_string(out, name, out->shape->dtype);
}

static void write_model_type(json_out *out, const char *name)
{
    key(out, name);
    fprintf(out->file, "\"%s%s\"", sb_family_name(out->shape->dims.family),
            out->shape->dims.family == SB_QWEN3_NEXT ? "" : "_text");
}

static void write_mtp_layers(json_out *out, const char *name)
{
    write_count(out, name, out->shape->has_mtp ? 1 : 0);
}

static void write_norm_topk(json_out *out, const char *name)
{
    write_text(out, name, out->shape->dims.norm_topk_prob ? "true" : "false");
}

static void write_tied(json_out *out, const char *name)
{
    write_text(out, name, out->shape->dims.tied ? "true" : "false");
}

static void write_layer_types(json_out *out, const char *name)
{
    key(out, name);
    fputc('[', out->file);
    out->depth++;
    for (uint32_t i = 0; i < out->shape->dims.layers; i++) {
        if (i)
            fputc(',', out->file);
        new_line(out);
        fprintf(out->file, "\"%s_attention\"", (i + 1) % 4 ? "linear" : "full");
    }
    out->depth--;
    new_line(out);
    fputc(']', out->file);
}

static void write_rope(json_out *out, const char *name)
{
    const uint32_t *section = out->shape->dims.mrope_section;
    key(out, name);
    open_object(out);
    write_text(out, "mrope_interleaved", "true");
    key(out, "mrope_section");
    fprintf(out->file, "[%" PRIu32 ", %" PRIu32 ", %" PRIu32 "]", section[0], section[1],
            section[2]);
    write_text(out, "partial_rotary_factor", "0.25");
    write_text(out, "rope_theta", "10000000");
    write_string(out, "rope_type", "default");
    close_object(out);
}

enum { M = 1 << SB_QWEN3_5_MOE, D = 1 << SB_QWEN3_5, N = 1 << SB_QWEN3_NEXT };

static const struct {
    int families;
    const char *key;
    const char *literal;
    size_t member;
    void (*call)(json_out *out, const char *key);
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

static void write_text_model(json_out *out)
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
            write_text(out, keys[i].key, keys[i].literal);
        else
            write_count(out, keys[i].key, count);
    }
}

static void write_vision(json_out *out)
{
    key(out, "vision_config");
    open_object(out);
    write_text(out, "deepstack_visual_indexes", "[]");
    write_count(out, "depth", SB_VISION_DEPTH);
    write_string(out, "hidden_act", "gelu_pytorch_tanh");
    write_count(out, "hidden_size", SB_VISION_HIDDEN);
    write_count(out, "in_channels", SB_VISION_CHANNELS);
    write_text(out, "initializer_range", "0.02");
    write_count(out, "intermediate_size", SB_VISION_INTERMEDIATE);
    write_string(out, "model_type", sb_family_name(out->shape->dims.family));
    write_count(out, "num_heads", SB_VISION_HEADS);
    write_count(out, "num_position_embeddings", SB_VISION_POSITIONS);
    write_count(out, "out_hidden_size", out->shape->dims.hidden_size);
    write_count(out, "patch_size", SB_VISION_PATCH);
    write_count(out, "spatial_merge_size", SB_VISION_MERGE);
    write_count(out, "temporal_patch_size", SB_VISION_TEMPORAL);
    close_object(out);
}

/* The published ids of the image tokens, or the last four of a small vocabulary. */
static uint32_t image_id(const sb_make_preset *dims, uint32_t published)
{
    return dims->vocab_size > 248057 ? published : dims->vocab_size - (248057 - published) - 1;
}

static const char *const class_names[] = {"Qwen3_5Moe", "Qwen3_5", "Qwen3Next"};

static void write_root(json_out *out)
{
    const sb_make_preset *dims = &out->shape->dims;
    open_object(out);
    key(out, "architectures");
    fprintf(out->file, "[\"%sFor%s\"]", class_names[dims->family],
            out->shape->vl ? "ConditionalGeneration" : "CausalLM");
    if (!out->shape->vl) {
        write_text_model(out);
        close_object(out);
        return;
    }
    write_dtype(out, "dtype");
    write_count(out, "image_token_id", image_id(dims, 248056));
    write_string(out, "model_type", sb_family_name(dims->family));
    key(out, "text_config");
    open_object(out);
    write_text_model(out);
    close_object(out);
    write_tied(out, "tie_word_embeddings");
    write_count(out, "video_token_id", image_id(dims, 248057));
    write_vision(out);
    write_count(out, "vision_end_token_id", image_id(dims, 248054));
    write_count(out, "vision_start_token_id", image_id(dims, 248053));
    close_object(out);
}

char *sb_make_config_text(const sb_make_shape *shape)
{
    char *text = NULL;
    size_t size = 0;
    json_out out = {open_memstream(&text, &size), shape, 0, 0};
    if (!out.file)
        return NULL;
    write_root(&out);
    fputc('\n', out.file);
    int failed = ferror(out.file);
    if (fclose(out.file) != 0 || failed) {
        free(text);
        return NULL;
    }
    return text;
}
