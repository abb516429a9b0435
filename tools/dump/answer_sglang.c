/* answer_sglang.c - answers of SGLang's /generate: the lists of meta_info. */
#include <math.h>
#include <string.h>

#include "tools/dump/telling.h"

static size_t sequences(const json_t *document)
{
    return json_is_object(json_object_get(document, "meta_info"));
}

/* J-42: "null stands for values that JSON cannot express" */
static sb_status read_triple(sb_telling *t, const json_t *triple, uint32_t *id, double *logprob)
{
    if (!json_is_array(triple) || json_array_size(triple) < 2)
        return sb_tell_fail(t, "found %s, expected [logprob, id, text]",
                            sb_json_found(triple, &(sb_json_text){""}));
    *logprob = NAN;
    sb_status status = sb_tell_id(t, json_array_get(triple, 1), id);
    if (!status && !json_is_null(json_array_get(triple, 0)))
        status = sb_tell_number(t, json_array_get(triple, 0), logprob);
    return status;
}

static sb_status tell_list(sb_telling *t, const json_t *list)
{
    sb_status status = SB_OK;
    for (size_t i = 0; i < json_array_size(list) && !status; i++) {
        uint32_t id = 0;
        double logprob = 0;
        status = read_triple(t, json_array_get(list, i), &id, &logprob);
        if (!status)
            status = sb_spoken_list(t->out, id, logprob, 0, t->err);
    }
    return status;
}

/* Adds the data of the last token. J-42: "In the first entry of the input null stands for nothing"
 * - also if the list begins within the prompt, although a row comes before it. */
static sb_status tell_token(sb_telling *t, const json_t *triple, double logprob, const json_t *list,
                            int opens)
{
    int silent = opens && json_is_null(json_array_get(triple, 0));
    if (silent && !json_array_size(list))
        return SB_OK;
    if (t->out->count == 1)
        return sb_tell_fail(t, "the first token of the prompt has a log-probability; expected "
                               "null, or prompt_tokens and --tokens for the tokens before it");
    if (!silent)
        sb_spoken_own(t->out, logprob);
    return tell_list(t, list);
}

/* Adds the token of each triple, with its list. */
static sb_status tell_part(sb_telling *t, const json_t *info, const char *own_key,
                           const char *top_key, int is_prompt)
{
    const json_t *own = sb_tell_get(info, own_key), *top = sb_tell_get(info, top_key);
    sb_status status = SB_OK;
    if (json_array_size(top) && json_array_size(top) != json_array_size(own))
        return sb_tell_fail(t, "%zu %s and %zu %s", json_array_size(own), own_key,
                            json_array_size(top), top_key);
    for (size_t i = 0; i < json_array_size(own) && !status; i++) {
        const json_t *triple = json_array_get(own, i);
        uint32_t id = 0;
        double logprob = 0;
        sb_tell_where(t, "%s[%zu]", own_key, i);
        status = read_triple(t, triple, &id, &logprob);
        if (!status)
            status = sb_spoken_token(t->out, id, t->err);
        if (!status)
            status = tell_token(t, triple, logprob, json_array_get(top, i), is_prompt && i == 0);
    }
    return status;
}

/* J-42: "A list that is shorter than the prompt is the end of the prompt" */
static sb_status tell_prompt(sb_telling *t, const json_t *info)
{
    const json_t *own = sb_tell_get(info, "input_token_logprobs");
    size_t said = sb_tell_count(info, "prompt_tokens");
    size_t listed = json_array_size(own), given = 0, before = 0;
    const uint32_t *ids = sb_dump_given_ids(t->options, t->sequence, &given);
    sb_status status = SB_OK;
    before = said > listed ? said - listed : 0;
    t->said_prompt = sb_tell_count(info, "prompt_tokens");
    t->said_generated = sb_tell_count(info, "completion_tokens");
    if (!listed)
        return sb_tell_prompt(t, NULL);
    if (before && given < before)
        return sb_tell_fail(t, "the answer lacks %zu tokens of the prompt: expected --tokens",
                            before);
    for (size_t i = 0; i < before && !status; i++)
        status = sb_spoken_token(t->out, ids[i], t->err);
    if (!status)
        status = tell_part(t, info, "input_token_logprobs", "input_top_logprobs", 1);
    t->out->prompt = t->out->count;
    return status;
}

static sb_status tell(sb_telling *t, const json_t *document, size_t i)
{
    const json_t *info = json_object_get(document, "meta_info"),
                 *ids = sb_tell_get(document, "output_ids");
    (void)i;
    t->out->floor = SB_SPOKEN_UNLIKELY;
    sb_tell_where(t, "meta_info");
    sb_status status = tell_prompt(t, info);
    size_t told = json_array_size(sb_tell_get(info, "output_token_logprobs"));
    if (!status && told && ids && json_array_size(ids) != told)
        status = sb_tell_fail(
            t, "the numbers of output_token_logprobs and output_ids differ: %zu and %zu", told,
            json_array_size(ids));
    else if (!status && told)
        status = tell_part(t, info, "output_token_logprobs", "output_top_logprobs", 0);
    else if (!status && ids)
        status = sb_tell_ids(t, ids);
    return status;
}

const sb_answer_format sb_answer_sglang = {sequences, tell};
