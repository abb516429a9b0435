/* answer_openai.c - completions and chats in the format of OpenAI, with extensions of vLLM and
 * llama-server: token ids, prompt_logprobs, routed_experts. */
#include <stdio.h>
#include <string.h>

#include "ref/container/show.h"
#include "tools/dump/telling.h"

/* The floor of llama-server (answer_llama_server.c). */
static const float lowest_llama = -87.3f;

static size_t sequences(const json_t *document)
{
    return json_array_size(sb_tell_get(document, "choices"));
}

/* The value of the choice, else of the document. */
static const json_t *either(const json_t *choice, const json_t *document, const char *key)
{
    const json_t *value = sb_tell_get(choice, key);
    return value ? value : sb_tell_get(document, key);
}

/* --- prompt_logprobs -------------------------------------------------------------------------- */

/* "1234": {"logprob": -0.5, "rank": 1, "decoded_token": "a"} */
static sb_status tell_entry(sb_telling *t, const char *key, const json_t *entry)
{
    const json_t *rank = sb_tell_get(entry, "rank");
    json_int_t place = json_integer_value(rank);
    char text[32];
    uint32_t id = 0;
    double logprob = 0;
    snprintf(text, sizeof text, "token_id:%.16s", key);
    sb_status status = sb_tell_token(t, text, NULL, &id);
    if (!status)
        status = sb_tell_number(t, json_is_object(entry) ? sb_tell_get(entry, "logprob") : entry,
                                &logprob);
    if (!status && (rank && (!json_is_integer(rank) || place < 1 || place > SB_DUMP_MAX_VOCAB)))
        status = sb_tell_fail(t, "the rank of id %u is not a rank", (unsigned)id);
    return status ? status : sb_spoken_list(t->out, id, logprob, (uint32_t)place, t->err);
}

/* J-39: "The entry of a token of the prompt has that token" */
static sb_status check_own(sb_telling *t, size_t i)
{
    const sb_told *own = &t->out->told[i];
    for (size_t k = 0; k < own->count; k++)
        if (t->out->list[own->first + k].id == own->id)
            return SB_OK;
    return sb_tell_fail(
        t,
        "has no entry for %u, the token at this place: does the answer belong to another prompt?",
        (unsigned)own->id);
}

static sb_status tell_prompt_logprobs(sb_telling *t, json_t *list)
{
    sb_status status = SB_OK;
    if (!list)
        return SB_OK;
    if (!json_is_array(list) || json_array_size(list) != t->out->prompt)
        return sb_tell_fail(t, "prompt_logprobs has %zu entries, expected %zu, one for each token",
                            json_array_size(list), t->out->prompt);
    for (size_t i = 0; i < t->out->prompt && !status; i++) {
        json_t *entry = json_array_get(list, i), *value;
        const char *key;
        sb_tell_where(t, "prompt_logprobs[%zu]", i);
        if (json_is_null(entry) && i == 0)
            continue;
        if (!json_is_object(entry) || i == 0)
            return sb_tell_fail(t, "found %s, expected %s",
                                sb_json_found(entry, &(sb_json_text){""}),
                                i ? "an object" : "null, because nothing precedes the first token");
        sb_spoken_at(t->out, i, 1);
        json_object_foreach(entry, key, value)
        {
            status = tell_entry(t, key, value);
            if (status)
                break;
        }
        if (!status)
            status = check_own(t, i);
    }
    return status;
}

/* --- generated tokens ------------------------------------------------------------------------- */

/* Appends token i, with the id from the list of ids if there is one. */
static sb_status append(sb_telling *t, const json_t *ids, size_t i, const char *text,
                        const json_t *bytes)
{
    uint32_t id = 0;
    sb_status status =
        ids ? sb_tell_id(t, json_array_get(ids, i), &id) : sb_tell_token(t, text, bytes, &id);
    return status ? status : sb_spoken_token(t->out, id, t->err);
}

static sb_status tell_map(sb_telling *t, json_t *map)
{
    const char *key;
    json_t *value;
    sb_status status = SB_OK;
    if (!map || json_is_null(map))
        return SB_OK;
    if (!json_is_object(map))
        return sb_tell_fail(t, "an entry of top_logprobs is not an object");
    sb_spoken_at(t->out, t->out->at, 1);
    json_object_foreach(map, key, value)
    {
        uint32_t id = 0;
        double logprob = 0;
        status = sb_tell_token(t, key, NULL, &id);
        if (!status)
            status = sb_tell_number(t, value, &logprob);
        if (!status)
            status = sb_spoken_list(t->out, id, logprob, 0, t->err);
        if (status)
            break;
    }
    return status;
}

/* J-40: "A choice of a completion has `logprobs`" */
static sb_status tell_completion(sb_telling *t, const json_t *logprobs, const json_t *ids)
{
    const json_t *tokens = sb_tell_get(logprobs, "tokens"),
                 *own = sb_tell_get(logprobs, "token_logprobs"),
                 *top = sb_tell_get(logprobs, "top_logprobs");
    size_t n = json_array_size(tokens);
    sb_status status = SB_OK;
    if ((ids && json_array_size(ids) != n) || (own && json_array_size(own) != n) ||
        (top && json_array_size(top) != n))
        return sb_tell_fail(t,
                            "the numbers of tokens, ids, token_logprobs and top_logprobs differ: "
                            "%zu, %zu, %zu and %zu",
                            n, json_array_size(ids), json_array_size(own), json_array_size(top));
    for (size_t i = 0; i < n && !status; i++) {
        const json_t *value = json_array_get(own, i);
        double logprob = 0;
        sb_tell_where(t, "choice %zu: logprobs, token %zu", t->sequence, i);
        status = append(t, ids, i, json_string_value(json_array_get(tokens, i)), NULL);
        if (!status && value && !json_is_null(value)) {
            status = sb_tell_number(t, value, &logprob);
            sb_spoken_own(t->out, logprob);
        }
        if (!status)
            status = tell_map(t, json_array_get(top, i));
    }
    return status;
}

/* {"id"?, "token", "logprob", "bytes"} */
static sb_status read_item(sb_telling *t, const json_t *item, uint32_t *id, double *logprob)
{
    const json_t *own = sb_tell_get(item, "id");
    sb_status status = own ? sb_tell_id(t, own, id)
                           : sb_tell_token(t, json_string_value(sb_tell_get(item, "token")),
                                           sb_tell_get(item, "bytes"), id);
    return status ? status : sb_tell_number(t, sb_tell_get(item, "logprob"), logprob);
}

/* --- a choice --------------------------------------------------------------------------------- */

/* True for an answer with `echo`: the first log-probability is null, and the tokens include the
 * prompt. */
static int is_echo(const json_t *logprobs)
{
    const json_t *own = sb_tell_get(logprobs, "token_logprobs");
    return json_array_size(own) && json_is_null(json_array_get(own, 0));
}

static sb_status tell_echo(sb_telling *t, const json_t *logprobs, const json_t *document,
                           const json_t *prompt)
{
    size_t given = 0, n = json_array_size(prompt);
    sb_status status = tell_completion(t, logprobs, NULL);
    if (!n)
        n = sb_tell_count(sb_tell_get(document, "usage"), "prompt_tokens");
    if (!n && sb_dump_given_ids(t->options, t->sequence, &given))
        n = given;
    t->out->prompt = n && n < t->out->count ? n : t->out->count;
    for (size_t i = 0; i < json_array_size(prompt) && i < t->out->count && !status; i++) {
        uint32_t id = 0;
        status = sb_tell_id(t, json_array_get(prompt, i), &id);
        if (!status && id != t->out->told[i].id)
            status = sb_tell_fail(t, "token %zu is %u, but %u in prompt_token_ids", i,
                                  (unsigned)t->out->told[i].id, (unsigned)id);
    }
    return status;
}

static sb_status tell(sb_telling *t, const json_t *document, size_t i)
{
    const json_t *choice = json_array_get(sb_tell_get(document, "choices"), i);
    const json_t *logprobs = sb_tell_get(choice, "logprobs"),
                 *content = sb_tell_get(logprobs, "content"),
                 *ids = sb_tell_get(choice, "token_ids"), *usage = sb_tell_get(document, "usage"),
                 *prompt = either(choice, document, "prompt_token_ids"),
                 *experts = either(choice, document, "routed_experts");
    t->out->floor = SB_SPOKEN_UNLIKELY;
    sb_tell_where(t, "choice %zu", i);
    if (!json_is_object(choice))
        return sb_tell_fail(t, "is not an object");
    if (is_echo(logprobs)) {
        if (experts || either(choice, document, "prompt_logprobs"))
            return sb_tell_fail(t, "has an echo together with routed_experts or prompt_logprobs; "
                                   "expected only one of them");
        return tell_echo(t, logprobs, document, prompt);
    }
    if (sb_tell_get(json_array_get(content, 0), "id"))
        t->out->floor = lowest_llama;
    t->said_prompt = sb_tell_count(usage, "prompt_tokens");
    if (json_array_size(sb_tell_get(document, "choices")) == 1)
        t->said_generated = sb_tell_count(usage, "completion_tokens");
    sb_status status = sb_tell_prompt(t, prompt);
    if (!status)
        status = tell_prompt_logprobs(
            t, (json_t *)(uintptr_t)either(choice, document, "prompt_logprobs"));
    sb_tell_where(t, "choice %zu", i);
    if (!status && content)
        status = sb_tell_items(t, "logprobs.content", content, ids, read_item);
    else if (!status && sb_tell_get(logprobs, "tokens"))
        status = tell_completion(t, logprobs, ids);
    else if (!status && ids)
        status = sb_tell_ids(t, ids);
    sb_tell_where(t, "choice %zu", i);
    if (!status && experts)
        status = sb_tell_experts(t, json_string_value(experts));
    return status;
}

const sb_answer_format sb_answer_openai = {sequences, tell};
