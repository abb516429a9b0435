/* config_rope.c - the RoPE fields, which old and new files keep in different places. */
#include "ref/model/config_source.h"

#include <inttypes.h>
#include <string.h>

#include "ref/container/show.h"

/* The three possible places of RoPE fields. */
typedef struct rope_source {
    sb_json_object at[3];
    size_t count;
} rope_source;

static sb_status find_rope(const sb_config_source *s, rope_source *rope, sb_error *err)
{
    static const char *const keys[] = {"rope_parameters", "rope_scaling"};
    static const char *const paths[] = {"rope_parameters", "rope_scaling",
                                        "text_config.rope_parameters", "text_config.rope_scaling"};
    rope->count = 0;
    for (size_t i = 0; i < 2; i++) {
        json_t *value = sb_json_get(&s->text, keys[i]);
        if (!value)
            continue;
        sb_status status = sb_json_object_at(value, s->file, paths[i + (s->nested ? 2 : 0)],
                                             &rope->at[rope->count++], err);
        if (status != SB_OK)
            return status;
    }
    rope->at[rope->count++] = s->text;
    return SB_OK;
}

/* M-10: "the first of rope_parameters, rope_scaling and the text configuration that has this
 * field". The values at these places may differ: transformers saves a class default in the root,
 * but computes with the value in rope_parameters. *out is 0 if no place has the key. */
static sb_status rope_number(const rope_source *rope, const char *key, double *out, sb_error *err)
{
    *out = 0;
    for (size_t i = 0; i < rope->count; i++) {
        const sb_json_object *at = &rope->at[i];
        double value;
        if (!sb_json_get(at, key))
            continue;
        sb_status status = sb_json_f64(at, key, &value, err);
        if (status != SB_OK)
            return status;
        if (!(value > 0))
            return sb_json_wrong(at, key, sb_json_get(at, key), "a number above 0", err);
        *out = value;
        return SB_OK;
    }
    return SB_OK;
}

static sb_status check_rope_type(const rope_source *rope, sb_error *err)
{
    for (size_t i = 0; i + 1 < rope->count; i++) {
        for (size_t k = 0; k < 2; k++) {
            const char *key = k == 0 ? "rope_type" : "type";
            const char *type;
            sb_status status = sb_json_string_or(&rope->at[i], key, "default", &type, err);
            if (status != SB_OK)
                return status;
            if (strcmp(type, "default") != 0)
                return sb_json_fail(&rope->at[i], key, SB_ERR_UNSUPPORTED, err,
                                    "is \"%s\", which is not read: expected \"default\"",
                                    SB_SHOW(type));
        }
    }
    return SB_OK;
}

enum { MAX_SECTION = 1 << 24 };

/* The sections may have any sum: R-8 requires no certain sum, and transformers accepts any. Check 9
 * reports a sum other than half of the rotary dimensions. */
static sb_status read_mrope(const rope_source *rope, sb_config *out, sb_error *err)
{
    for (size_t i = 0; i + 1 < rope->count && !out->has_mrope; i++) {
        uint64_t section[3];
        size_t three;
        if (!sb_json_get(&rope->at[i], "mrope_section"))
            continue;
        sb_status status =
            sb_json_u64_array(&rope->at[i], "mrope_section", 3, 3, section, &three, err);
        if (status != SB_OK)
            return status;
        if (section[0] > MAX_SECTION || section[1] > MAX_SECTION || section[2] > MAX_SECTION)
            return sb_json_fail(&rope->at[i], "mrope_section", SB_ERR_INPUT, err,
                                "is [%" PRIu64 ", %" PRIu64 ", %" PRIu64
                                "], expected numbers up to %d",
                                section[0], section[1], section[2], MAX_SECTION);
        out->has_mrope = 1;
        for (size_t k = 0; k < 3; k++)
            out->mrope_section[k] = (uint32_t)section[k];
    }
    return SB_OK;
}

sb_status sb_config_read_rope(const sb_config_source *s, sb_config *out, sb_error *err)
{
    rope_source rope;
    double factor = 0;
    sb_status status = find_rope(s, &rope, err);
    if (status == SB_OK)
        status = check_rope_type(&rope, err);
    if (status == SB_OK)
        status = rope_number(&rope, "rope_theta", &out->rope_theta, err);
    if (status == SB_OK)
        status = rope_number(&rope, "partial_rotary_factor", &factor, err);
    if (status != SB_OK)
        return status;
    /* if rope_theta is missing, engines take 10000 or 1e7, which differ too much to choose
     * silently */
    if (!(out->rope_theta > 1 && out->rope_theta <= 1e15))
        return sb_json_fail(&s->text, "rope_theta", SB_ERR_INPUT, err,
                            "is %.17g%s, expected above 1 and up to 1e15", out->rope_theta,
                            out->rope_theta == 0 ? " (absent)" : "");
    if (factor == 0)
        factor = sb_family_is_qwen3(out->family) ? 1 : 0.25;
    if (sb_family_is_qwen3(out->family) && factor != 1)
        return sb_json_fail(&s->text, "partial_rotary_factor", SB_ERR_UNSUPPORTED, err,
                            "is %.17g, which is not read: every release of %s rotates whole heads",
                            factor, sb_family_name(out->family));
    double rotary = factor <= 1 ? out->head_dim * factor : 0;
    out->rotary_dim = (uint32_t)rotary;
    /* sb_root_power is proven for at most 256 frequencies */
    if (out->rotary_dim < 2 || out->rotary_dim % 2 != 0 || out->rotary_dim > 512)
        return sb_json_fail(
            &s->text, "partial_rotary_factor", SB_ERR_INPUT, err,
            "is %.17g, which gives, with head_dim %" PRIu32
            ", %.17g rotary dimensions, expected an even number up to head_dim and 512",
            factor, out->head_dim, factor * out->head_dim);
    return read_mrope(&rope, out, err);
}
