#include "tools/cli/golden_compare.h"
#include "ref/container/json_out.h"
#include "tools/report/part/document.h"

#include <stdio.h>
#include <stdlib.h>

/* Members that are missing on both sides are equal. */
static int same(const json_t *a, const json_t *b)
{
    return (!a && !b) || json_equal(a, b);
}

/* Message: "sequence 0, WHERE: KEY is .., the golden file has ..". */
static sb_status differ(const json_t *was, const json_t *is, size_t sequence, const char *where,
                        const char *key, sb_error *err)
{
    char *old = was ? sb_json_dumps(was, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    char *new = is ? sb_json_dumps(is, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    sb_status status =
        sb_fail(err, SB_ERR_DIFF, "sequence %zu, %s: %s is %s, the golden file has %s", sequence,
                where, key, new ? new : "absent", old ? old : "absent");
    free(old);
    free(new);
    return status;
}

/* Positions from..to-1 of a list. */
static sb_status compare_positions(const json_t *was, const json_t *is, size_t sequence,
                                   size_t from, size_t to, sb_error *err)
{
    static const char *const keys[] = {"logits_digest", "tokens"}; /* a token follows from logits */
    for (size_t i = from; i < to; i++)
        for (size_t k = 0; k < 2; k++) {
            const json_t *a = json_array_get(json_object_get(was, keys[k]), i);
            const json_t *b = json_array_get(json_object_get(is, keys[k]), i);
            char where[64];
            snprintf(where, sizeof where, "generated position %zu", i);
            if (!same(a, b))
                return differ(a, b, sequence, where, keys[k], err);
        }
    return SB_OK;
}

/* One piece of a round: what it drafted, accepted or emitted. */
static sb_status compare_round(const json_t *was, const json_t *is, size_t sequence, size_t round,
                               const char *key, sb_error *err)
{
    const json_t *a = json_object_get(was, key), *b = json_object_get(is, key);
    char where[64];
    snprintf(where, sizeof where, "round %zu", round);
    return same(a, b) ? SB_OK : differ(a, b, sequence, where, key, err);
}

static size_t longer(const json_t *was, const json_t *is, const char *key)
{
    size_t a = json_array_size(json_object_get(was, key)),
           b = json_array_size(json_object_get(is, key));
    return a > b ? a : b;
}

/* Compares the drafts first, then the positions, then the accepted counts, so that the message
 * names the point where the two runs diverge. *at is the first position of the round. */
static sb_status compare_one_round(const json_t *was, const json_t *is, size_t sequence,
                                   size_t round, size_t *at, sb_error *err)
{
    const json_t *a = json_array_get(json_object_get(was, "rounds"), round),
                 *b = json_array_get(json_object_get(is, "rounds"), round);
    size_t emitted = longer(a, b, "emitted");
    sb_status status = compare_round(a, b, sequence, round, "drafted", err);
    if (!status)
        status = compare_positions(was, is, sequence, *at, *at + emitted, err);
    if (!status)
        status = compare_round(a, b, sequence, round, "accepted", err);
    if (!status)
        status = compare_round(a, b, sequence, round, "emitted", err);
    *at += emitted;
    return status;
}

/* Compares the values that follow from positions and rounds. */
static sb_status compare_end(const json_t *was, const json_t *is, size_t sequence, int without_mtp,
                             sb_error *err)
{
    static const char *const pieces[] = {"target", "mtp"};
    for (size_t i = 0; i < 2; i++) {
        const json_t *a = json_object_get(json_object_get(was, "state_digest"), pieces[i]),
                     *b = json_object_get(json_object_get(is, "state_digest"), pieces[i]);
        if (i == 1 && without_mtp && json_is_null(a))
            continue;
        if (!same(a, b))
            return differ(a, b, sequence, "all positions agree, but the state digest differs",
                          pieces[i], err);
    }
    const json_t *a = json_object_get(was, "acceptance"), *b = json_object_get(is, "acceptance");
    return same(a, b) ? SB_OK : differ(a, b, sequence, "all rounds agree", "acceptance", err);
}

static sb_status compare_sequence(const json_t *was, const json_t *is, size_t sequence,
                                  int without_mtp, sb_error *err)
{
    size_t rounds = longer(was, is, "rounds"), at = 1;
    size_t positions = longer(was, is, "tokens"), digests = longer(was, is, "logits_digest");
    sb_status status = compare_positions(was, is, sequence, 0, at, err);
    for (size_t r = 0; r < rounds && !status; r++)
        status = compare_one_round(was, is, sequence, r, &at, err);
    if (!status)
        status = compare_positions(was, is, sequence, at, positions > digests ? positions : digests,
                                   err);
    return status ? status : compare_end(was, is, sequence, without_mtp, err);
}

/* G-4: "verification repeats the command and names the first position or round that differs" */
sb_status sb_golden_compare(const json_t *was, const json_t *is, sb_error *err)
{
    const json_t *a = json_object_get(was, "sequences"), *b = json_object_get(is, "sequences");
    /* files without sampling are from versions that did not run the head */
    int without_mtp = !json_object_get(json_object_get(was, "request"), "sampling");
    if (json_array_size(a) != json_array_size(b))
        return sb_fail(err, SB_ERR_INPUT, "the golden file has %zu sequences, but %zu prompts",
                       json_array_size(a), json_array_size(b));
    sb_status status = SB_OK;
    for (size_t s = 0; s < json_array_size(a) && !status; s++)
        status = compare_sequence(json_array_get(a, s), json_array_get(b, s), s, without_mtp, err);
    return status;
}
