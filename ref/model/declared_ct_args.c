/* declared_ct_args.c - QuantizationArgs of compressed-tensors. */
#include "ref/model/declared_ct.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static sb_status read_block(const sb_json_object *at, sb_ct_args *out, sb_error *err)
{
    json_t *value = sb_json_get(at, "block_structure");
    const char *text = json_string_value(value);
    unsigned rows, cols;
    size_t two;
    int end = 0;
    sb_status status = SB_OK;
    if (!value)
        return SB_OK;
    if (!text) {
        status = sb_json_u64_array(at, "block_structure", 2, 2, out->block, &two, err);
    } else { /* the form in older files: "128x128" */
        if (sscanf(text, "%5ux%5u%n", &rows, &cols, &end) == 2 && text[end] == '\0') {
            out->block[0] = rows;
            out->block[1] = cols;
        }
    }
    if (status == SB_OK && (out->block[0] - 1 >= 1 << 24 || out->block[1] - 1 >= 1 << 24))
        status = sb_json_wrong(at, "block_structure", value, "two numbers from 1 to 16777216", err);
    return status;
}

static sb_status read_dynamic(const sb_json_object *at, sb_ct_args *out, sb_error *err)
{
    json_t *value = json_object_get(at->json, "dynamic");
    const char *text = json_string_value(value);
    if (text && strcasecmp(text, "local") == 0)
        out->dynamic = 2;
    else if (!value || json_is_boolean(value))
        out->dynamic = json_is_true(value);
    else
        return sb_json_wrong(at, "dynamic", value, "true, false or \"local\"", err);
    return SB_OK;
}

static sb_status read_order(const sb_json_object *at, sb_ct_args *out, sb_error *err)
{
    static const char *const known[] = {"group", "dynamic", "weight", "static"};
    json_t *value = sb_json_get(at, "actorder");
    const char *text = json_string_value(value);
    size_t i = 0;
    while (text && i < 4 && strcasecmp(known[i], text) != 0)
        i++;
    if ((text && i == 4) || (value && !text && !json_is_boolean(value)))
        return sb_json_wrong(at, "actorder", value, "\"group\", \"weight\", true, false or null",
                             err);
    out->act_order = text ? i < 2 : json_is_true(value);
    return SB_OK;
}

/* Reads the strategy. If it is absent, it is channel if the group size is -1, group for other group
 * sizes, and tensor without a group size. */
static sb_status read_strategy(const sb_json_object *at, sb_ct_args *out, sb_error *err)
{
    static const char *const known[] = {"tensor", "channel",      "group",    "block",
                                        "token",  "tensor_group", "attn_head"};
    const char *otherwise = out->group == 0 ? "tensor" : out->group > 0 ? "group" : "channel";
    json_t *value = sb_json_get(at, "strategy");
    const char *text = value ? json_string_value(value) : otherwise;
    size_t i = 0;
    while (text && i < 7 && strcasecmp(known[i], text) != 0)
        i++;
    if (!text || i == 7)
        return sb_json_wrong(at, "strategy", value,
                             "tensor, channel, group, block, token or tensor_group", err);
    memcpy(out->strategy, known[i], strlen(known[i]) + 1);
    int by_group = strstr(text, "group") != NULL;
    if (by_group != (out->group > 0))
        return sb_json_fail(at, "group_size", SB_ERR_INPUT, err,
                            "is %" PRId64 "%s, which does not go with strategy %s", out->group,
                            out->group == 0 ? " (absent)" : "", known[i]);
    if ((strcmp(known[i], "block") == 0) != (out->block[0] > 0))
        return sb_json_fail(at, "block_structure", SB_ERR_INPUT, err,
                            "is %s, which does not go with strategy %s",
                            out->block[0] > 0 ? "there" : "absent", known[i]);
    return SB_OK;
}

static sb_status read_number_format(const sb_json_object *at, sb_ct_args *out, sb_error *err)
{
    const char *type = NULL;
    const json_t *scale = sb_json_get(at, "scale_dtype");
    sb_status status = sb_json_u64_or(at, "num_bits", 8, &out->bits, err);
    if (status == SB_OK)
        status = sb_json_string_or(at, "type", "int", &type, err);
    if (status != SB_OK)
        return status;
    out->is_float = strcasecmp(type, "float") == 0;
    if (!out->is_float && strcasecmp(type, "int") != 0)
        return sb_json_wrong(at, "type", sb_json_get(at, "type"), "\"int\" or \"float\"", err);
    out->scale_u8 = scale && json_is_string(scale) && strstr(json_string_value(scale), "uint8");
    if (scale && !json_is_string(scale))
        return sb_json_wrong(at, "scale_dtype", scale, "a string or null", err);
    return sb_json_bool_or(at, "symmetric", 1, &out->symmetric, err);
}

/* "an unknown key within a scheme or its arguments is refused" */
sb_status sb_ct_read_args(const sb_json_object *group, const char *key, sb_ct_args *out,
                          sb_error *err)
{
    static const char *const keys[] = {
        "num_bits", "type",     "symmetric",   "group_size", "strategy", "block_structure",
        "dynamic",  "actorder", "scale_dtype", "zp_dtype",   "observer", "observer_kwargs",
        NULL};
    json_t *value = sb_json_get(group, key);
    char path[640];
    sb_json_object at;
    *out = (sb_ct_args){.present = value != NULL};
    if (!value)
        return SB_OK;
    snprintf(path, sizeof path, "%s%s%s", group->path, group->path[0] ? "." : "", key);
    sb_status status = sb_json_object_at(value, group->file, path, &at, err);
    if (status == SB_OK)
        status = sb_json_only(&at, keys, err);
    if (status == SB_OK)
        status = read_number_format(&at, out, err);
    if (status == SB_OK)
        status = sb_declared_group(&at, "group_size", 0, &out->group, err);
    if (status == SB_OK)
        status = read_block(&at, out, err);
    if (status == SB_OK)
        status = read_dynamic(&at, out, err);
    if (status == SB_OK)
        status = read_order(&at, out, err);
    if (status == SB_OK)
        status = read_strategy(&at, out, err);
    return status;
}
