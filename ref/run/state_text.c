#include "ref/run/state_text.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/text.h"
#include "ref/container/show.h"
#include "ref/ops/knob.h"

const char sb_state_kernels[] = "kernels";

const char *sb_state_key_name(sb_state_key key)
{
    static const char *const names[] = {
#define SB_STATE_KEY(name) "samebit.state." #name,
#include "ref/run/state_keys.def"
#undef SB_STATE_KEY
    };
    return names[key];
}

/* --- configuration ---------------------------------------------------------------------------- */

/* A field of the text. Fields that set a state's shape have a least value of 1. */
typedef struct field {
    const char *name; /* as in config.json */
    size_t at;
    uint64_t least, most;
} field;

#define WIDTH(name, member)                                                                        \
    {                                                                                              \
        name, offsetof(sb_config, member), 1, SB_MAX_WIDTH                                         \
    }
#define COUNT(name, member)                                                                        \
    {                                                                                              \
        name, offsetof(sb_config, member), 0, SB_MAX_WIDTH                                         \
    }
static const field fields[] = {
    WIDTH("hidden_size", hidden_size),
    WIDTH("vocab_size", vocab_size),
    WIDTH("num_attention_heads", heads),
    WIDTH("num_key_value_heads", kv_heads),
    WIDTH("head_dim", head_dim),
    WIDTH("rotary_dim", rotary_dim),
    {"linear_conv_kernel_dim", offsetof(sb_config, conv_kernel), 0, SB_MAX_CONV_KERNEL},
    COUNT("linear_num_key_heads", lin_k_heads),
    COUNT("linear_num_value_heads", lin_v_heads),
    COUNT("linear_key_head_dim", lin_k_dim),
    COUNT("linear_value_head_dim", lin_v_dim),
    COUNT("num_experts", experts),
    COUNT("num_experts_per_tok", experts_per_token),
    COUNT("moe_intermediate_size", moe_intermediate),
    COUNT("shared_expert_intermediate_size", shared_intermediate),
    COUNT("intermediate_size", intermediate),
};

enum { FIELDS = sizeof fields / sizeof *fields };

static uint32_t *member(const sb_config *config, const field *f)
{
    return (uint32_t *)(void *)((char *)config + f->at);
}

/* D-11: "the bits of rope_theta and rms_norm_eps in binary64 as 16 hexadecimal digits" */
void sb_state_config_text(const sb_config *c, char text[SB_STATE_CONFIG_SIZE])
{
    size_t used = (size_t)snprintf(text, SB_STATE_CONFIG_SIZE, "model_type=%s norm_topk_prob=%u ",
                                   sb_family_name(c->family), (unsigned)c->norm_topk_prob);
    for (size_t i = 0; i < FIELDS && used < SB_STATE_CONFIG_SIZE; i++)
        used += (size_t)snprintf(text + used, SB_STATE_CONFIG_SIZE - used, "%s=%u ", fields[i].name,
                                 (unsigned)*member(c, &fields[i]));
    if (used < SB_STATE_CONFIG_SIZE)
        snprintf(text + used, SB_STATE_CONFIG_SIZE - used,
                 "rope_theta=%016" PRIx64 " rms_norm_eps=%016" PRIx64, sb_bits_f64(c->rope_theta),
                 sb_bits_f64(c->eps));
    used = strlen(text);
    /* D-11: "the bits of s and m in binary32 as 8 hexadecimal digits, low and high" */
    if (c->yarn.factor > 0 && used < SB_STATE_CONFIG_SIZE)
        snprintf(text + used, SB_STATE_CONFIG_SIZE - used,
                 " yarn=%08" PRIx32 ",%08" PRIx32 ",%u,%u", sb_bits_f32(c->yarn.factor),
                 sb_bits_f32(c->yarn.attention), (unsigned)c->yarn.low, (unsigned)c->yarn.high);
}

void sb_state_layers_text(const sb_config *config, char text[SB_MAX_LAYERS + 1])
{
    for (uint32_t i = 0; i < config->layers; i++)
        text[i] = config->layer_is_dense[i] ? 'd' : config->layer_is_full[i] ? 'f' : 'l';
    text[config->layers] = '\0';
}

/* Reads the decimal value after " name=". */
static sb_status read_field(const char *text, const field *f, uint32_t *out, sb_error *err)
{
    char key[64];
    uint64_t value = 0;
    snprintf(key, sizeof key, " %s=", f->name);
    const char *at = strstr(text, key);
    at = at ? at + strlen(key) : "";
    size_t digits = 0;
    for (; at[digits] >= '0' && at[digits] <= '9' && digits < 10; digits++)
        value = value * 10 + (uint64_t)(at[digits] - '0');
    if (digits == 0 || (at[digits] && at[digits] != ' ') || value < f->least || value > f->most)
        return sb_fail(err, SB_ERR_INPUT, "its config has no %s between %" PRIu64 " and %" PRIu64,
                       f->name, f->least, f->most);
    *out = (uint32_t)value;
    return SB_OK;
}

static sb_status read_layers(const char *layers, sb_config *out, sb_error *err)
{
    size_t count = strlen(layers);
    if (count == 0 || count > SB_MAX_LAYERS || strspn(layers, "lfd") != count)
        return sb_fail(err, SB_ERR_INPUT,
                       "its layers are \"%s\", expected 1 to %d letters l, f or d", SB_SHOW(layers),
                       SB_MAX_LAYERS);
    out->layers = (uint32_t)count;
    for (size_t i = 0; i < count; i++)
        out->layer_is_full[i] = layers[i] != 'l', out->layer_is_dense[i] = layers[i] == 'd';
    return SB_OK;
}

static int too_wide(uint32_t a, uint32_t b)
{
    return (uint64_t)a * b > SB_MAX_WIDTH;
}

/* Reads only the fields above. sb_state_file_belongs compares the whole texts. */
sb_status sb_state_config_parse(const char *text, const char *layers, sb_config *out, sb_error *err)
{
    *out = (sb_config){.layers = 0};
    sb_status status =
        strlen(text) < SB_STATE_CONFIG_SIZE
            ? read_layers(layers, out, err)
            : sb_fail(err, SB_ERR_INPUT, "its config has %zu bytes, expected fewer", strlen(text));
    for (size_t i = 0; i < FIELDS && !status; i++)
        status = read_field(text, &fields[i], member(out, &fields[i]), err);
    const int linear = strchr(layers, 'l') != NULL, none = !out->conv_kernel || !out->lin_k_heads ||
                                                           !out->lin_v_heads || !out->lin_k_dim ||
                                                           !out->lin_v_dim;
    if (!status && linear && none)
        status = sb_fail(err, SB_ERR_INPUT,
                         "its layers have linear attention, but its config has no widths of it");
    if (status)
        return status;
    if (too_wide(out->kv_heads, out->head_dim) || too_wide(out->lin_k_heads, out->lin_k_dim) ||
        too_wide(out->lin_v_heads, out->lin_v_dim) || sb_config_conv_channels(out) > SB_MAX_WIDTH)
        return sb_fail(err, SB_ERR_INPUT, "the heads of its config are wider than %d together",
                       SB_MAX_WIDTH);
    return SB_OK;
}

/* --- drafter ---------------------------------------------------------------------------------- */

/* D-11: "then the words target_hidden_size, draft_vocab_size, states, after and those of its flags"
 */
void sb_state_drafter_text(const sb_eagle3_config *c, const uint32_t *after,
                           char text[SB_EAGLE3_TEXT])
{
    sb_state_config_text(&c->layer, text);
    size_t used = strlen(text);
    used += (size_t)snprintf(
        text + used, SB_EAGLE3_TEXT - used, " target_hidden_size=%u draft_vocab_size=%u states=%u",
        (unsigned)c->target_hidden, (unsigned)c->draft_vocab, (unsigned)c->states);
    for (uint32_t i = 0; i < c->states; i++)
        used += (size_t)snprintf(text + used, SB_EAGLE3_TEXT - used, "%s%u",
                                 i ? "," : " after=", (unsigned)after[i]);
    snprintf(text + used, SB_EAGLE3_TEXT - used,
             " norm_before_residual=%d norm_before_fc=%d fc_norm=%d norm_output=%d qwen3=%d",
             c->norm_before_residual, c->norm_before_fc, c->fc_norm, c->norm_output, c->qk_norm);
}

sb_status sb_state_drafter_parse(const char *text, sb_drafter_state *out, sb_error *err)
{
    const struct {
        field of;
        uint32_t *to;
    } all[] = {{{"num_key_value_heads", 0, 1, SB_MAX_WIDTH}, &out->kv_heads},
               {{"head_dim", 0, 1, SB_MAX_WIDTH}, &out->head_dim},
               {{"target_hidden_size", 0, 1, SB_MAX_WIDTH}, &out->width},
               {{"states", 0, 1, SB_EAGLE3_STATES}, &out->states}};
    sb_status status = SB_OK;
    *out = (sb_drafter_state){.entries = 0};
    if (strlen(text) >= SB_EAGLE3_TEXT)
        return sb_fail(err, SB_ERR_INPUT, "the config of its drafter has %zu bytes, expected fewer",
                       strlen(text));
    for (size_t i = 0; i < sizeof all / sizeof *all && !status; i++)
        status = read_field(text, &all[i].of, all[i].to, err);
    if (!status && too_wide(out->kv_heads, out->head_dim))
        status = sb_fail(err, SB_ERR_INPUT,
                         "the key heads of its drafter are wider than %d together", SB_MAX_WIDTH);
    return status;
}

/* --- knobs ------------------------------------------------------------------------------------ */

void sb_state_knobs_text(const sb_knobs *knobs, char text[SB_STATE_KNOBS_SIZE])
{
    sb_knobs first;
    size_t used = 0;
    text[0] = '\0';
    sb_knobs_exact(&first);
    for (unsigned k = 0; k < SB_KNOB_COUNT && used < SB_STATE_KNOBS_SIZE; k++)
        if (knobs->value[k] != first.value[k])
            used += (size_t)snprintf(text + used, SB_STATE_KNOBS_SIZE - used, "%s%s=%s",
                                     used ? " " : "", sb_knob_name((sb_knob)k),
                                     sb_knob_value_name(knobs->value[k]));
}

/* D-11: "a knob that the file does not name has its first value" - so that a file stays readable
 * when a knob is added. */
sb_status sb_state_knobs_parse(const char *text, sb_knobs *out, sb_error *err)
{
    sb_knobs_exact(out);
    while (*text) {
        char assignment[128];
        size_t length = strcspn(text, " ");
        if (length == 0 || length >= sizeof assignment)
            return sb_fail(err, SB_ERR_INPUT, "its knobs have a word of %zu bytes", length);
        memcpy(assignment, text, length);
        assignment[length] = '\0';
        if (sb_knobs_set(out, assignment, NULL))
            return sb_fail(err, SB_ERR_UNSUPPORTED, "this version has no knob \"%s\"",
                           SB_SHOW(assignment));
        text += length;
        text += *text == ' ';
    }
    return SB_OK;
}

/* --- seal ------------------------------------------------------------------------------------- */

/* D-12: "XXH3-128 over the key, a NUL, the value and a NUL of every other pair" */
sb_status sb_state_seal(const char *const values[SB_STATE_KEY_COUNT], sb_digest *out, sb_error *err)
{
    sb_hash *hash = sb_hash_new();
    if (!hash)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a digest");
    for (unsigned k = 0; k < SB_STATE_KEY_COUNT; k++) {
        if (k == SB_STATE_KEY_seal || !values[k])
            continue;
        const char *name = sb_state_key_name((sb_state_key)k);
        sb_hash_bytes(hash, name, strlen(name) + 1);
        sb_hash_bytes(hash, values[k], strlen(values[k]) + 1);
    }
    *out = sb_hash_end(hash);
    sb_hash_free(hash);
    return SB_OK;
}
