#include "tools/judge/trace/sampling_json.h"

#include <inttypes.h>

#include "ref/container/show.h"

static sb_status read_setting(const sb_json_object *o, sb_setting which, sb_step_sampling *out,
                              sb_error *err)
{
    const sb_setting_row *row = sb_setting_at(which);
    double *value = &out->value[which];
    json_t *found = sb_json_get(o, row->name);
    sb_json_text text;
    if (!found)
        return SB_OK;
    out->has[which] = 1;
    if (json_is_number(found))
        *value = json_number_value(found);
    if (json_is_number(found) && *value >= row->least && *value <= row->most &&
        (!row->whole || json_is_integer(found)))
        return SB_OK;
    return sb_json_fail(o, row->name, SB_ERR_INPUT, err, "is %s, expected %s",
                        sb_json_found(found, &text), row->range);
}

static sb_status read_words(const sb_json_object *o, sb_step_sampling *out, sb_error *err)
{
    const char *sampler = "", *generator = "";
    sb_status status = sb_json_string_or(o, "sampler", "", &sampler, err);
    if (!status && sb_json_get(o, "sampler") && !sb_trace_sampler_named(sampler, &out->sampler))
        status = sb_json_fail(o, "sampler", SB_ERR_INPUT, err,
                              "is \"%s\", expected a sampler of U-12", SB_SHOW(sampler));
    if (!status)
        status = sb_json_string_or(o, "generator", "", &generator, err);
    if (!status && sb_json_get(o, "generator") &&
        !sb_trace_generator_named(generator, &out->generator))
        status = sb_json_fail(o, "generator", SB_ERR_INPUT, err,
                              "is \"%s\", expected a generator of U-12", SB_SHOW(generator));
    return status;
}

/* U-12: "a number below 2^63, or null" */
static sb_status read_seed(const sb_json_object *o, sb_step_sampling *out, sb_error *err)
{
    json_t *seed = sb_json_get(o, "seed");
    if (!seed)
        return SB_OK;
    out->seed_kind = json_is_null(seed) ? SB_SEED_own : SB_SEED_number;
    return json_is_null(seed) ? SB_OK : sb_json_u64(o, "seed", &out->seed, err);
}

sb_status sb_sampling_read(const sb_json_object *o, sb_step_sampling *out, sb_error *err)
{
    static const char *const keys[] = {
#define SB_SETTING(name, least, most, whole, off, words) #name,
#include "tools/judge/trace/settings.def"
#undef SB_SETTING
        "sequence", "sampler", "generator", "seed", NULL};
    sb_status status = sb_json_only(o, keys, err);
    for (unsigned i = 0; i < SB_SETTINGS && !status; i++)
        status = read_setting(o, (sb_setting)i, out, err);
    if (!status)
        status = read_words(o, out, err);
    return status ? status : read_seed(o, out, err);
}

json_t *sb_sampling_json(const sb_step_sampling *s)
{
    json_t *out = json_pack("{s:I}", "sequence", (json_int_t)s->sequence);
    for (unsigned i = 0; i < SB_SETTINGS; i++) {
        const sb_setting_row *row = sb_setting_at((sb_setting)i);
        if (s->has[i])
            json_object_set_new(out, row->name,
                                row->whole ? json_integer((json_int_t)s->value[i])
                                           : json_real(s->value[i]));
    }
    if (s->sampler)
        json_object_set_new(out, "sampler", json_string(sb_trace_sampler_name(s->sampler)));
    if (s->generator)
        json_object_set_new(out, "generator", json_string(sb_trace_generator_name(s->generator)));
    if (s->seed_kind)
        json_object_set_new(out, "seed",
                            s->seed_kind == SB_SEED_own ? json_null()
                                                        : json_integer((json_int_t)s->seed));
    return out;
}
