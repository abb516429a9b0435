/* request_json.c - a request as JSON, for golden files and the document of run. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ref/container/show.h"
#include "ref/ops/knob.h"
#include "tools/cli/request.h"
#include "tools/report/part/document.h"

/* Numbers are text: a seed may exceed the JSON numbers of other programs, and the shortest decimal
 * of a binary32 identifies it exactly. */
static json_t *sampling_json(const sb_request *r)
{
    char seed[24], top_k[24];
    snprintf(seed, sizeof seed, "%" PRIu64, r->seed);
    snprintf(top_k, sizeof top_k, "%" PRIu64, r->top_k);
    return json_pack("{s:s,s:s,s:s,s:s,s:s}", "seed", seed, "temp",
                     sb_print_f32(r->temperature).text, "top_k", top_k, "top_p",
                     sb_print_f32(r->top_p).text, "min_p", sb_print_f32(r->min_p).text);
}

static int add_speculation(const sb_request *r, json_t *to)
{
    json_t *forced = r->forced.count ? sb_ids_json(r->forced.ids, r->forced.count) : json_null();
    return json_object_set_new(to, "draft", sb_ids_json(r->drafts.ids, r->drafts.count)) ||
           json_object_set_new(to, "force_accept", forced) ||
           json_object_set_new(to, "accept_mode", json_string(sb_request_mode(r))) ||
           json_object_set_new(to, "rollback", json_string(sb_request_way(r)));
}

json_t *sb_request_json(const sb_request *r)
{
    json_t *settings = json_array(), *prompts = json_array();
    for (size_t i = 0; i < r->settings.count; i++)
        json_array_append_new(settings, json_string(r->settings.item[i]));
    for (size_t s = 0; s < r->sequence_count; s++)
        json_array_append_new(prompts, sb_ids_json(r->sequences[s].ids, r->sequences[s].count));
    json_t *out =
        json_pack("{s:s,s:I,s:s,s:o,s:o}", "name", "run", "generate", (json_int_t)r->generate,
                  "profile", r->profile, "set", settings, "sampling", sampling_json(r));
    if (r->drafts.count)
        add_speculation(r, out);
    json_object_set_new(out, "prompts", prompts);
    return out;
}

/* --- and back --------------------------------------------------------------------------------- */

/* Missing in files from before sampling existed: those runs were greedy. */
static int read_sampling(const json_t *stored, sb_request *r)
{
    const char *text[5];
    static const char *const keys[5] = {"seed", "temp", "top_k", "top_p", "min_p"};
    if (!stored) {
        r->seed = 42;
        r->top_p = 1;
        return 1;
    }
    for (int i = 0; i < 5; i++) {
        text[i] = json_string_value(json_object_get(stored, keys[i]));
        if (!text[i])
            return 0;
    }
    return sb_parse_u64(text[0], &r->seed) && sb_parse_f32(text[1], &r->temperature) &&
           sb_parse_u64(text[2], &r->top_k) && sb_parse_f32(text[3], &r->top_p) &&
           sb_parse_f32(text[4], &r->min_p);
}

static int read_settings(const json_t *stored, sb_request *r)
{
    size_t n = json_array_size(stored);
    if (!json_is_array(stored) || n > SB_MAX_REPEATS)
        return 0;
    for (r->settings.count = 0; r->settings.count < n; r->settings.count++) {
        const char *item = json_string_value(json_array_get(stored, r->settings.count));
        if (!item)
            return 0;
        r->settings.item[r->settings.count] = item;
    }
    return 1;
}

/* Reads the keys of add_speculation: all or none exist. */
static int read_speculation(const json_t *stored, sb_request *r)
{
    const json_t *draft = json_object_get(stored, "draft"),
                 *forced = json_object_get(stored, "force_accept");
    r->accept_mode = json_string_value(json_object_get(stored, "accept_mode"));
    r->rollback = json_string_value(json_object_get(stored, "rollback"));
    if (!draft && !forced)
        return !r->accept_mode && !r->rollback;
    return r->accept_mode && r->rollback && sb_sequence_from_json(draft, &r->drafts) &&
           (json_is_null(forced) || sb_sequence_from_json(forced, &r->forced));
}

sb_status sb_request_from_json(const json_t *stored, const char *path, sb_request *r, sb_error *err)
{
    const json_t *generate = json_object_get(stored, "generate"),
                 *prompts = json_object_get(stored, "prompts");
    const char *lacks = NULL;
    *r = (sb_request){.profile = json_string_value(json_object_get(stored, "profile")),
                      .backend = "ref"};
    if (!json_is_integer(generate) || json_integer_value(generate) < 0)
        lacks = "'generate', a count";
    else if (!r->profile)
        lacks = "'profile', a name";
    else if (!read_settings(json_object_get(stored, "set"), r))
        lacks = "'set', a list of knob=value";
    else if (!read_sampling(json_object_get(stored, "sampling"), r))
        lacks = "'sampling': seed, temp, top_k, top_p and min_p as text";
    else if (!read_speculation(stored, r))
        lacks = "all or none of draft, force_accept, accept_mode and rollback";
    else if (!json_array_size(prompts) ||
             !(r->sequences = sb_sequences_from_json(prompts, &r->sequence_count)))
        lacks = "'prompts', lists of token ids";
    if (lacks)
        return sb_fail(err, SB_ERR_INPUT, "%s: 'request' lacks %s", SB_SHOW(path), lacks);
    r->generate = (uint64_t)json_integer_value(generate);
    return sb_request_check_settings(r, err) ? sb_fail_in(err, SB_ERR_INPUT, path) : SB_OK;
}

int sb_request_describe(const sb_request *r, json_t *document)
{
    json_t *knobs = json_object();
    for (unsigned k = 0; k < SB_KNOB_COUNT; k++)
        json_object_set_new(knobs, sb_knob_name((sb_knob)k),
                            json_string(sb_knob_value_name(r->knobs.value[k])));
    return json_object_set_new(document, "profile", json_string(r->profile)) ||
           json_object_set_new(document, "knobs", knobs) ||
           json_object_set_new(document, "sampling", sampling_json(r)) ||
           (r->engine != sb_backend_ref() &&
            json_object_set_new(document, "backend", json_string(r->engine->name))) ||
           (r->drafts.count && add_speculation(r, document));
}
