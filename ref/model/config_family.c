/* config_family.c - the model family of a config.json, and the features that this version
 * refuses. */
#include "ref/model/config_source.h"

#include <string.h>

#include "ref/container/show.h"

static const struct {
    const char *name;
    sb_family family;
    const char *architecture; /* prefix of the family's class names */
    int flat;                 /* sb_family_is_flat */
} families[] = {
    {"qwen3_5_moe", SB_QWEN3_5_MOE, "Qwen3_5Moe", 0},
    {"qwen3_5", SB_QWEN3_5, "Qwen3_5", 0},
    {"qwen3_next", SB_QWEN3_NEXT, "Qwen3Next", 1},
    {"qwen3_moe", SB_QWEN3_MOE, "Qwen3Moe", 1},
    {"qwen3", SB_QWEN3, "Qwen3", 1},
};

enum { FAMILIES = sizeof families / sizeof *families };

const char *sb_family_name(sb_family family)
{
    return families[family].name;
}

const char *sb_family_classes(sb_family family)
{
    return families[family].architecture;
}

int sb_family_is_flat(sb_family family)
{
    return families[family].flat;
}

/* M-3: "A model that is not of this family is refused by name" */
static sb_status refuse_type(const sb_json_object *at, const char *type, sb_error *err)
{
    const char *why = "this version computes qwen3_5_moe, qwen3_5, qwen3_next, qwen3_moe "
                      "and qwen3 only";
    if (strncmp(type, "qwen4_exp", 9) == 0)
        why = "its hyper-connections, n-gram embeddings and indexer belong to another architecture";
    return sb_json_fail(at, "model_type", SB_ERR_UNSUPPORTED, err,
                        "is \"%s\", which is not read: %s", SB_SHOW(type), why);
}

/* 1 if type is name, or name followed by "_text". */
static int is_type(const char *type, const char *name, int with_text)
{
    size_t n = strlen(name);
    return strncmp(type, name, n) == 0 && strcmp(type + n, with_text ? "_text" : "") == 0;
}

/* Reads the class name, which is needed only to refuse models without logits, such as sequence
 * classifiers. */
static sb_status read_architecture(const sb_config_source *s, sb_config *out, sb_error *err)
{
    json_t *list = sb_json_get(&s->root, "architectures");
    if (!list)
        return SB_OK;
    const char *name = json_string_value(json_array_get(list, 0));
    if (!name || json_array_size(list) != 1)
        return sb_json_wrong(&s->root, "architectures", list, "an array of one string", err);
    const char *begin = families[out->family].architecture;
    const char *kind = name + strlen(begin);
    int ours = strncmp(name, begin, strlen(begin)) == 0 && strlen(name) < sizeof out->architecture;
    int wrong_kind = !ours || (out->family == SB_QWEN3_5 && strncmp(kind, "Moe", 3) == 0) ||
                     (out->family == SB_QWEN3 && strncmp(kind, "For", 3) != 0);
    if (wrong_kind || !(strstr(kind, "ForCausalLM") || strstr(kind, "ForConditionalGeneration")))
        return sb_json_fail(&s->root, "architectures", SB_ERR_UNSUPPORTED, err,
                            "is \"%s\", which is not read: model_type %s expects "
                            "%sForCausalLM or %sForConditionalGeneration",
                            SB_SHOW(name), sb_family_name(out->family), begin, begin);
    memcpy(out->architecture, name, strlen(name) + 1);
    return SB_OK;
}

sb_status sb_config_read_family(const sb_config_source *s, sb_config *out, sb_error *err)
{
    const char *type;
    const char *text_type = NULL;
    sb_status status = sb_json_string(&s->root, "model_type", &type, err);
    if (status == SB_OK && s->nested)
        status = sb_json_string_or(&s->text, "model_type", NULL, &text_type, err);
    if (status != SB_OK)
        return status;
    size_t i = 0;
    while (i < FAMILIES && !is_type(type, families[i].name, 0) &&
           !is_type(type, families[i].name, 1))
        i++;
    if (i == FAMILIES || (families[i].flat && (s->nested || is_type(type, families[i].name, 1))))
        return refuse_type(&s->root, type, err);
    if (s->nested && is_type(type, families[i].name, 1))
        return sb_json_fail(
            &s->root, "model_type", SB_ERR_INPUT, err,
            "is \"%s\", a type for text_config, but the file also has a text_config", type);
    if (text_type && !is_type(text_type, families[i].name, 1))
        return refuse_type(&s->text, text_type, err);
    out->family = families[i].family;
    out->vl = (uint8_t)s->nested;
    return read_architecture(s, out, err);
}

/* Refuses switches that would change the mathematics. A switch that is absent, null or has its
 * `harmless` value changes nothing. */
static sb_status refuse_switches(const sb_config_source *s, sb_family family, sb_error *err)
{
    enum { BOTH = -1, HYBRID, QWEN3 };
    static const struct {
        const char *key;
        int of;
        json_type harmless;
        const char *why;
    } switches[] = {
        {"attention_bias", BOTH, JSON_FALSE, "no release has biases in its attention"},
        {"qkv_bias", BOTH, JSON_FALSE, "no release has biases in its attention"},
        {"attn_output_gate", HYBRID, JSON_TRUE,
         "every release gates, and engines do not agree on false"},
        {"attn_output_gate", QWEN3, JSON_FALSE, "no release of Qwen3 gates its attention"},
        {"layer_scale", BOTH, JSON_FALSE, "no release scales the outputs of its layers"},
        {"mtp_use_dedicated_embeddings", BOTH, JSON_FALSE,
         "no release has separate embeddings for the MTP head"},
        {"use_qk_norm", QWEN3, JSON_TRUE, "every release normalises queries and keys"},
        {"use_sliding_window", QWEN3, JSON_FALSE, "sliding windows are not computed"},
        {"dual_chunk_attention_config", QWEN3, JSON_NULL, "it is another form of attention"},
    };
    for (size_t i = 0; i < sizeof switches / sizeof switches[0]; i++) {
        json_t *value = sb_json_get(&s->text, switches[i].key);
        sb_json_text found;
        if (switches[i].of != BOTH && (switches[i].of == QWEN3) != sb_family_is_qwen3(family))
            continue;
        if (value && json_typeof(value) != switches[i].harmless)
            return sb_json_fail(&s->text, switches[i].key, SB_ERR_UNSUPPORTED, err,
                                "is %s, which is not read: %s", sb_json_found(value, &found),
                                switches[i].why);
    }
    return SB_OK;
}

static sb_status refuse_activation(const sb_config_source *s, const char *key, int swish,
                                   sb_error *err)
{
    json_t *value = sb_json_get(&s->text, key);
    const char *name = json_string_value(value);
    sb_json_text found;
    if (!value || (name && (strcmp(name, "silu") == 0 || (swish && strcmp(name, "swish") == 0))))
        return SB_OK;
    return sb_json_fail(&s->text, key, SB_ERR_UNSUPPORTED, err,
                        "is %s, which is not read: expected \"silu\"",
                        sb_json_found(value, &found));
}

sb_status sb_config_refuse(const sb_config_source *s, sb_family family, sb_error *err)
{
    sb_status status = refuse_switches(s, family, err);
    if (status == SB_OK)
        status = refuse_activation(s, "hidden_act", 0, err);
    if (status == SB_OK)
        status = refuse_activation(s, "output_gate_type", 1, err);
    return status;
}
