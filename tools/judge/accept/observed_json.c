/* observed_json.c - responses of SGLang (meta_info) and of llama-server (timings): one response, or
 * a list.
 *
 * Sums over requests. A counter is known if every request with rounds has it. */
#include <string.h>

#include "ref/container/json.h"
#include "ref/container/show.h"
#include "tools/judge/accept/observed_parts.h"

typedef struct reader {
    const char *file;
    sb_observed *out;
    int any; /* a request was read, of engine out->engine */
    int has_depths;
} reader;

static sb_status too_many(const sb_json_object *o, sb_error *err)
{
    return sb_fail(err, SB_ERR_INPUT, "%s: the counters add up to more than 2^48",
                   SB_SHOW(o->file));
}

/* The first of these keys in the object; NULL: none. */
static const char *present(const sb_json_object *o, const char *const *keys)
{
    while (*keys && !sb_json_get(o, *keys))
        keys++;
    return *keys;
}

/* Adds the value of the first of these keys in the object. Without any of them the sum becomes
 * unknown. */
static sb_status add_first(const sb_json_object *o, const char *const *keys, uint64_t *sum,
                           int *known, sb_error *err)
{
    uint64_t value = 0;
    const char *key = present(o, keys);
    if (!key) {
        *known = 0;
        return SB_OK;
    }
    sb_status status = sb_json_u64(o, key, &value, err);
    if (!status && sb_observed_add(sum, value))
        status = too_many(o, err);
    return status;
}

/* --- SGLang ----------------------------------------------------------------------------------- */

static const char *const sg_rounds[] = {"spec_verify_ct", NULL};
static const char *const sg_accepted[] = {"spec_accept_token_num", "spec_accepted_drafts",
                                          "spec_num_correct_drafts", NULL};
static const char *const sg_drafted[] = {"spec_draft_token_num", "spec_proposed_drafts",
                                         "spec_num_proposed_drafts", NULL};
static const char *const sg_emitted[] = {"completion_tokens", NULL};
static const char *const sg_histogram[] = {"spec_accept_histogram", "spec_correct_drafts_histogram",
                                           NULL};

/* E-12: "element i of the histogram counts the rounds that accepted i drafts" */
static sb_status take_histogram(reader *r, const sb_json_object *o, uint64_t rounds, sb_error *err)
{
    uint64_t counts[SB_OBSERVED_DEPTHS + 1], tail = 0;
    size_t n = 0;
    const char *key = present(o, sg_histogram);
    if (!key) {
        r->has_depths = 0;
        return SB_OK;
    }
    sb_status status = sb_json_u64_array(o, key, 1, SB_OBSERVED_DEPTHS + 1, counts, &n, err);
    if (status)
        return status;
    while (n > 0) {
        if (sb_observed_add(&tail, counts[--n]))
            return too_many(o, err);
        if (n > 0 && sb_observed_add(&r->out->by_depth[n - 1], tail))
            return too_many(o, err);
        if (n > r->out->depths)
            r->out->depths = n;
    }
    if (tail != rounds)
        return sb_json_fail(o, key, SB_ERR_INPUT, err,
                            "counts %llu rounds, expected %llu as in spec_verify_ct",
                            (unsigned long long)tail, (unsigned long long)rounds);
    return SB_OK;
}

static sb_status take_rate(reader *r, const sb_json_object *o, uint64_t rounds, sb_error *err)
{
    double rate = 0;
    if (!sb_json_get(o, "spec_accept_rate")) {
        r->out->has_rate = 0;
        return SB_OK;
    }
    sb_status status = sb_json_f64(o, "spec_accept_rate", &rate, err);
    if (!status && !(rate >= 0 && rate <= 1))
        status = sb_json_wrong(o, "spec_accept_rate", sb_json_get(o, "spec_accept_rate"),
                               "a number from 0 to 1", err);
    if (!status)
        r->out->accepted_share += rate * (double)rounds;
    return status;
}

static sb_status take_sglang(reader *r, const sb_json_object *o, sb_error *err)
{
    sb_observed *out = r->out;
    uint64_t rounds = 0;
    sb_status status = present(o, sg_rounds) ? sb_json_u64(o, sg_rounds[0], &rounds, err) : SB_OK;
    if (!status && sb_observed_add(&out->rounds, rounds))
        status = too_many(o, err);
    if (!status)
        status = add_first(o, sg_emitted, &out->emitted, &out->has_emitted, err);
    if (status || rounds == 0) /* a request that ended with its first token */
        return status;
    status = add_first(o, sg_accepted, &out->accepted, &out->has_accepted, err);
    if (!status)
        status = add_first(o, sg_drafted, &out->drafted, &out->has_drafted, err);
    if (!status)
        status = take_histogram(r, o, rounds, err);
    return status ? status : take_rate(r, o, rounds, err);
}

/* --- llama-server ----------------------------------------------------------------------------- */

static const char *const ll_drafted[] = {"draft_n", NULL};
static const char *const ll_accepted[] = {"draft_n_accepted", NULL};
static const char *const ll_emitted[] = {"predicted_n", NULL};

/* Without drafts the response lacks the two counters. */
static sb_status take_llama(reader *r, const sb_json_object *o, sb_error *err)
{
    sb_observed *out = r->out;
    int none = !present(o, ll_drafted) && !present(o, ll_accepted), ignored = 0;
    sb_status status = add_first(o, ll_emitted, &out->emitted, &out->has_emitted, err);
    out->has_rounds = 0;
    out->has_rate = 0;
    r->has_depths = 0;
    if (!status)
        status = add_first(o, ll_drafted, &out->drafted, none ? &ignored : &out->has_drafted, err);
    if (!status)
        status =
            add_first(o, ll_accepted, &out->accepted, none ? &ignored : &out->has_accepted, err);
    return status;
}

/* --- the engine ------------------------------------------------------------------------------- */

static sb_status take_response(reader *r, json_t *value, sb_error *err)
{
    sb_json_object o;
    sb_status status = sb_json_object_at(value, r->file, "a response", &o, err);
    if (status)
        return status;
    json_t *meta = sb_json_get(&o, "meta_info"), *timings = sb_json_get(&o, "timings");
    sb_engine engine = SB_ENGINE_sglang;
    if (meta) {
        status = sb_json_object_at(meta, r->file, "meta_info", &o, err);
    } else if (timings) {
        status = sb_json_object_at(timings, r->file, "timings", &o, err);
        engine = SB_ENGINE_llama;
    } else if (present(&o, ll_drafted)) {
        engine = SB_ENGINE_llama;
    } else if (!present(&o, sg_rounds)) {
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: response %zu has neither meta_info (SGLang) nor timings "
                       "(llama-server)",
                       SB_SHOW(r->file), r->out->parts);
    }
    if (!status && r->any && engine != r->out->engine)
        status = sb_fail(err, SB_ERR_INPUT, "%s: the list mixes responses of %s and %s",
                         SB_SHOW(r->file), sb_engine_name(r->out->engine), sb_engine_name(engine));
    if (status)
        return status;
    r->any = 1;
    r->out->engine = engine;
    r->out->parts++;
    return engine == SB_ENGINE_sglang ? take_sglang(r, &o, err) : take_llama(r, &o, err);
}

static sb_status take_document(reader *r, json_t *document, sb_error *err)
{
    sb_observed *out = r->out;
    sb_status status = SB_OK;
    out->has_rounds = out->has_drafted = out->has_accepted = 1;
    out->has_emitted = out->has_rate = r->has_depths = 1;
    if (!json_is_array(document))
        status = take_response(r, document, err);
    else if (json_array_size(document) == 0 || json_array_size(document) > SB_OBSERVED_PARTS)
        return sb_fail(err, SB_ERR_INPUT, "%s: the list has %zu responses, expected 1 to %d",
                       SB_SHOW(r->file), json_array_size(document), SB_OBSERVED_PARTS);
    for (size_t i = 0; i < json_array_size(document) && !status; i++)
        status = take_response(r, json_array_get(document, i), err);
    if (!r->has_depths) {
        out->depths = 0;
        memset(out->by_depth, 0, sizeof out->by_depth);
    }
    return status;
}

sb_status sb_observed_json(const char *text, size_t n, const char *file, sb_observed *out,
                           sb_error *err)
{
    reader r = {.file = file, .out = out};
    json_t *document = NULL;
    sb_status status = sb_json_parse_rich(text, n, file, &document, err);
    if (!status)
        status = take_document(&r, document, err);
    json_decref(document);
    return status;
}
