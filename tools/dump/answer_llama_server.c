/* answer_llama_server.c - llama-server's own completions: completion_probabilities. */
#include "tools/dump/telling.h"

#include <string.h>

#include "ref/math/fn.h"

/* The logarithm of a binary32 probability that is 0 or subnormal is inexact, so it is only an upper
 * bound; llama-server writes the lowest binary32 for the logarithm of 0. */
static const float lowest = -87.3f;

static size_t sequences(const json_t *document)
{
    return json_is_array(json_object_get(document, "completion_probabilities"));
}

/* J-41: "{id, token, logprob}, or "prob" in place of logprob" */
static sb_status read_item(sb_telling *t, const json_t *item, uint32_t *id, double *logprob)
{
    const json_t *value = sb_tell_get(item, "logprob"), *prob = sb_tell_get(item, "prob");
    sb_status status = sb_tell_id(t, sb_tell_get(item, "id"), id);
    if (status || !prob)
        return status ? status : sb_tell_number(t, value, logprob);
    status = sb_tell_number(t, prob, logprob);
    if (!status && !(*logprob >= 0 && *logprob <= 1.001))
        status = sb_tell_fail(t, "the probability of id %u is %g", (unsigned)*id, *logprob);
    if (!status)
        *logprob = *logprob > 0 ? (double)sb_log(sb_dump_f32(*logprob)) : (double)lowest;
    return status;
}

/* True if the probabilities sum to 1: these are the tokens that samplers kept, so they say nothing
 * about the others. */
static int is_left_over(const json_t *item)
{
    const json_t *list = sb_tell_get(item, "top_probs");
    double sum = 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        sum += json_number_value(sb_tell_get(json_array_get(list, i), "prob"));
    return json_array_size(list) && sum > 1 - 0x1p-20;
}

/* J-41: "a list of probabilities that sum to 1" in every row */
static int all_left_over(const json_t *items)
{
    size_t n = 0;
    while (n < json_array_size(items) && is_left_over(json_array_get(items, n)))
        n++;
    return n && n == json_array_size(items);
}

static sb_status tell(sb_telling *t, const json_t *document, size_t i)
{
    const json_t *items = sb_tell_get(document, "completion_probabilities"),
                 *ids = sb_tell_get(document, "tokens");
    (void)i;
    t->out->floor = lowest;
    t->said_prompt = sb_tell_count(document, "tokens_evaluated");
    t->said_generated = sb_tell_count(document, "tokens_predicted");
    ids = json_array_size(ids) ? ids : NULL;
    sb_tell_where(t, "completion_probabilities");
    sb_status status = sb_tell_prompt(t, NULL);
    if (status)
        return status;
    if (ids && all_left_over(items))
        return sb_tell_ids(t, ids);
    return sb_tell_items(t, "completion_probabilities", items, ids, read_item);
}

const sb_answer_format sb_answer_llama_server = {sequences, tell};
