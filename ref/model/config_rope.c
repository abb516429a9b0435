/* config_rope.c - the RoPE fields, which old and new files keep in different places. */
#include "ref/model/config_source.h"

#include <inttypes.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/container/show.h"
#include "ref/math/fn_round.h"

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

/* Every place that names a rotation must name the same one. *of is the place of "yarn", or NULL. */
static sb_status read_rope_type(const rope_source *rope, sb_family family,
                                const sb_json_object **of, sb_error *err)
{
    const char *first = NULL;
    *of = NULL;
    for (size_t i = 0; i + 1 < rope->count; i++) {
        for (size_t k = 0; k < 2; k++) {
            const char *key = k == 0 ? "rope_type" : "type";
            const char *type;
            sb_status status = sb_json_string_or(&rope->at[i], key, NULL, &type, err);
            if (status != SB_OK)
                return status;
            if (!type)
                continue;
            int yarn = strcmp(type, "yarn") == 0 && sb_family_is_qwen3(family);
            if (strcmp(type, "default") != 0 && !yarn)
                return sb_json_fail(&rope->at[i], key, SB_ERR_UNSUPPORTED, err,
                                    "is \"%s\", which is not read: expected \"default\"%s",
                                    SB_SHOW(type),
                                    sb_family_is_qwen3(family) ? " or \"yarn\"" : "");
            if (first && strcmp(first, type) != 0)
                return sb_json_fail(&rope->at[i], key, SB_ERR_INPUT, err,
                                    "is \"%s\", and another place says \"%s\"", SB_SHOW(type),
                                    first);
            first = type;
            *of = yarn ? &rope->at[i] : NULL;
        }
    }
    return SB_OK;
}

/* A number above 0 that may be absent or null: then *out keeps its value. */
static sb_status positive_or(const sb_json_object *at, const char *key, double *out, sb_error *err)
{
    double value = 0;
    if (!sb_json_get(at, key))
        return SB_OK;
    sb_status status = sb_json_f64(at, key, &value, err);
    if (status == SB_OK && !(value > 0 && value <= 1e9))
        status = sb_json_wrong(at, key, sb_json_get(at, key), "a number above 0, at most 1e9", err);
    *out = status ? *out : value;
    return status;
}

/* "d(n) = rd ln( o / (2 pi n) ) / (2 ln theta)". The error of the binary64 value is below
 * 1e-10. */
static double turns_at(const sb_config *c, double original, double turns)
{
    const double log_2pi = 1.8378770664093454836;
    return c->rotary_dim * (sb_core_log(original) - log_2pi - sb_core_log(turns)) /
           (2 * sb_core_log(c->rope_theta));
}

/* The largest whole number that is not above x, which lies between -1e6 and 1e6. */
static int64_t whole_below(double x)
{
    int64_t n = (int64_t)x;
    return (double)n > x ? n - 1 : n;
}

/* R-24 for the factors of a place, after rotary_dim and rope_theta were read. */
static sb_status read_yarn(const sb_json_object *at, sb_config *out, sb_error *err)
{
    static const char *const others[] = {"mscale", "mscale_all_dim"};
    const double undecided = 1e-9;
    double factor = 0, original = 0, attention = 0, fast = 32, slow = 1;
    json_t *truncate = sb_json_get(at, "truncate");
    sb_status status = positive_or(at, "factor", &factor, err);
    if (!status)
        status = positive_or(at, "original_max_position_embeddings", &original, err);
    if (!status)
        status = positive_or(at, "attention_factor", &attention, err);
    if (!status)
        status = positive_or(at, "beta_fast", &fast, err);
    if (!status)
        status = positive_or(at, "beta_slow", &slow, err);
    if (status)
        return status;
    if (!(factor >= 1) || !(original >= 1) || original != (double)(uint32_t)original)
        return sb_json_fail(at, "rope_type", SB_ERR_INPUT, err,
                            "is \"yarn\", which needs a factor from 1 on and a whole number "
                            "original_max_position_embeddings, found %.17g and %.17g",
                            factor, original);
    for (size_t i = 0; i < 2; i++)
        if (sb_json_get(at, others[i]))
            return sb_json_fail(at, others[i], SB_ERR_UNSUPPORTED, err,
                                "is not read: no release of %s has it",
                                sb_family_name(out->family));
    if (truncate && !json_is_true(truncate))
        return sb_json_fail(at, "truncate", SB_ERR_UNSUPPORTED, err,
                            "is not true, which is not read: no release of %s has it",
                            sb_family_name(out->family));
    double low = turns_at(out, original, fast), high = turns_at(out, original, slow);
    double m = attention > 0 ? attention : 1 + sb_core_log(factor) / 10;
    if (whole_below(low - undecided) != whole_below(low + undecided) ||
        whole_below(high - undecided) != whole_below(high + undecided) ||
        (attention == 0 && sb_bits_f32((float)(m - 1e-13)) != sb_bits_f32((float)(m + 1e-13))))
        return sb_json_fail(at, "factor", SB_ERR_UNSUPPORTED, err,
                            "and its neighbours lie too close to a limit of yarn to be decided");
    int64_t from = whole_below(low), to = -whole_below(-high);
    from = from > 0 ? from : 0;
    to = to < (int64_t)out->rotary_dim - 1 ? to : (int64_t)out->rotary_dim - 1;
    if (to < from)
        return sb_json_fail(at, "original_max_position_embeddings", SB_ERR_INPUT, err,
                            "is %.17g: yarn then has no frequencies between %" PRId64
                            " and %" PRId64,
                            original, from, to);
    out->yarn = (sb_yarn){.factor = (float)factor,
                          .attention = (float)m,
                          .low = (uint32_t)from,
                          .high = (uint32_t)to,
                          .original = (uint32_t)original};
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
    const sb_json_object *yarn = NULL;
    double factor = 0;
    sb_status status = find_rope(s, &rope, err);
    if (status == SB_OK)
        status = read_rope_type(&rope, out->family, &yarn, err);
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
    status = read_mrope(&rope, out, err);
    return !status && yarn ? read_yarn(yarn, out, err) : status;
}
