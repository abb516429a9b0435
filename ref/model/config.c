#include "ref/model/config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ref/container/file.h"
#include "ref/model/config_source.h"

enum { MAX_CONFIG_BYTES = 16 << 20 };

/* Reads tie_word_embeddings. Files have this switch at the root, in text_config, or in both. */
static sb_status read_tie(const sb_config_source *s, sb_config *out, sb_error *err)
{
    static const char key[] = "tie_word_embeddings";
    int root;
    int text;
    sb_status status = sb_json_bool_or(&s->root, key, 0, &root, err);
    if (status == SB_OK)
        status = sb_json_bool_or(&s->text, key, root, &text, err);
    if (status != SB_OK)
        return status;
    if (json_object_get(s->root.json, key) && root != text)
        return sb_json_fail(&s->root, key, SB_ERR_INPUT, err, "is %s, but text_config.%s is %s",
                            root ? "true" : "false", key, text ? "true" : "false");
    out->tie_embeddings = (uint8_t)text;
    return SB_OK;
}

/* Reads the declared dtype of the weights. Quantizers change this field at the root only. */
static sb_status read_dtype(const sb_config_source *s, sb_config *out, sb_error *err)
{
    static const char *const keys[] = {"dtype", "torch_dtype"};
    for (size_t i = 0; i < 4; i++) {
        const sb_json_object *at = i < 2 ? &s->root : &s->text;
        json_t *value = sb_json_get(at, keys[i % 2]);
        const char *name = json_string_value(value);
        if (!value)
            continue;
        if (!name || (strcmp(name, "bfloat16") != 0 && strcmp(name, "float16") != 0 &&
                      strcmp(name, "float32") != 0))
            return sb_json_wrong(at, keys[i % 2], value, "\"bfloat16\", \"float16\" or \"float32\"",
                                 err);
        memcpy(out->dtype, name, strlen(name) + 1);
        break;
    }
    return SB_OK;
}

/* Returns the object that has this key. text_config comes first. */
static const sb_json_object *place_of(const sb_config_source *s, const char *key)
{
    return sb_json_get(&s->text, key) ? &s->text : &s->root;
}

static sb_status too_large(const sb_json_object *at, const char *key, uint64_t id, sb_error *err)
{
    return sb_json_fail(at, key, SB_ERR_INPUT, err,
                        "holds %" PRIu64 ", expected token ids below 2^24", id);
}

/* Reads the token ids. An id beyond the vocabulary is not an error, because it never occurs:
 * reduced test models keep the ids of the original model. */
static sb_status read_ids(const sb_config_source *s, sb_config *out, sb_error *err)
{
    uint64_t ids[SB_MAX_EOS] = {0};
    size_t count = 0;
    uint64_t bos = 0;
    sb_status status = SB_OK;
    const sb_json_object *at = place_of(s, "bos_token_id");
    if (sb_json_get(at, "bos_token_id")) {
        out->has_bos = 1;
        status = sb_json_u64(at, "bos_token_id", &bos, err);
    }
    if (status == SB_OK && bos >= SB_MAX_WIDTH)
        status = too_large(at, "bos_token_id", bos, err);
    at = place_of(s, "eos_token_id");
    json_t *eos = sb_json_get(at, "eos_token_id");
    if (status == SB_OK && json_is_array(eos)) {
        status = sb_json_u64_array(at, "eos_token_id", 1, SB_MAX_EOS, ids, &count, err);
    } else if (status == SB_OK && eos) {
        status = sb_json_u64(at, "eos_token_id", ids, err);
        count = 1;
    }
    if (status != SB_OK)
        return status;
    out->bos_id = (uint32_t)bos;
    for (size_t i = 0; i < count; i++) {
        if (ids[i] >= SB_MAX_WIDTH)
            return too_large(at, "eos_token_id", ids[i], err);
        out->eos_ids[i] = (uint32_t)ids[i];
    }
    out->eos_count = (uint32_t)count;
    return SB_OK;
}

static sb_status read_mtp(const sb_config_source *s, sb_config *out, sb_error *err)
{
    static const char key[] = "mtp_num_hidden_layers";
    uint64_t layers;
    /* Qwen3-Next has the MTP weights, but no field for them */
    sb_status status = sb_json_u64_or(&s->text, key, out->family == SB_QWEN3_NEXT, &layers, err);
    if (status != SB_OK)
        return status;
    if (layers > 0 && sb_family_is_qwen3(out->family))
        return sb_json_fail(&s->text, key, SB_ERR_UNSUPPORTED, err,
                            "is %" PRIu64 ", which is not read: no release of %s has an MTP head",
                            layers, sb_family_name(out->family));
    if (layers > 1)
        return sb_json_fail(&s->text, key, SB_ERR_UNSUPPORTED, err,
                            "is %" PRIu64 ", which is not read: no release has more than 1",
                            layers);
    out->mtp_declared = json_object_get(s->text.json, key) != NULL;
    out->mtp_layers = (uint32_t)layers;
    return SB_OK;
}

static sb_status read_all(const sb_config_source *s, sb_config *out, sb_error *err)
{
    sb_status status = sb_config_read_family(s, out, err);
    if (status == SB_OK)
        status = sb_config_refuse(s, out->family, err);
    if (status == SB_OK)
        status = sb_config_read_counts(s, out, err);
    if (status == SB_OK)
        status = sb_config_read_rope(s, out, err);
    if (status == SB_OK)
        status = sb_config_read_layers(s, out, err);
    if (status == SB_OK)
        status = read_tie(s, out, err);
    if (status == SB_OK)
        status = read_dtype(s, out, err);
    if (status == SB_OK)
        status = read_ids(s, out, err);
    if (status == SB_OK)
        status = read_mtp(s, out, err);
    return status;
}

sb_status sb_config_parse(const char *text, size_t n, const char *name, sb_config *out,
                          sb_error *err)
{
    json_t *document;
    sb_config_source s = {.file = name};
    sb_status status = sb_json_parse(text, n, name, &document, err);
    if (status != SB_OK)
        return status;
    status = sb_json_object_at(document, name, "", &s.root, err);
    if (status == SB_OK) {
        json_t *nested = sb_json_get(&s.root, "text_config");
        s.nested = nested != NULL;
        s.text = s.root;
        if (nested)
            status = sb_json_object_at(nested, name, "text_config", &s.text, err);
    }
    sb_config config = {0};
    if (status == SB_OK)
        status = read_all(&s, &config, err);
    json_decref(document);
    if (status == SB_OK)
        *out = config;
    return status;
}

sb_status sb_config_load(const char *json_path, sb_config *out, sb_error *err)
{
    unsigned char *text;
    size_t n;
    sb_status status = sb_read_file(json_path, MAX_CONFIG_BYTES, &text, &n, err);
    if (status != SB_OK)
        return status;
    status = sb_config_parse((const char *)text, n, json_path, out, err);
    free(text);
    return status;
}
