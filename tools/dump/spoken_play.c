/* spoken_play.c - the steps of an answer: one or several calls for its prompt, and a call for each
 * generated token. */
#include <stdio.h>
#include <stdlib.h>

#include "ref/base/mem.h"
#include "tools/dump/spoken.h"

/* The kind of data of a row; the same for all rows of a step. */
typedef struct form {
    size_t listed;
    int own;
} form;

/* The form of a row, which has the data of the token after it. */
static form form_of(const sb_spoken *s, size_t row)
{
    const sb_told *t = row + 1 < s->count ? &s->told[row + 1] : NULL;
    return t ? (form){t->count, t->has_own} : (form){0, 0};
}

static int has_any(form f)
{
    return f.listed || f.own;
}

static int same(form a, form b)
{
    return a.listed == b.listed && a.own == b.own;
}

/* True if a list is the whole vocabulary, each id once. */
static int is_whole(const sb_spoken *s, size_t row, uint32_t vocab_size, unsigned char *seen)
{
    const sb_told *t = &s->told[row + 1];
    if (t->count != vocab_size)
        return 0;
    for (size_t i = 0; i < t->count; i++)
        seen[s->list[t->first + i].id] = 0;
    for (size_t i = 0; i < t->count; i++)
        if (seen[s->list[t->first + i].id]++)
            return 0;
    return 1;
}

static int all_whole(const sb_spoken *s, size_t first, size_t count, uint32_t vocab_size)
{
    unsigned char *seen = vocab_size ? sb_alloc(vocab_size, 1) : NULL;
    size_t whole = 0;
    while (seen && whole < count && is_whole(s, first + whole, vocab_size, seen))
        whole++;
    free(seen);
    return whole == count;
}

/* J-36: "or `logprobs` where it has all ids" */
static sb_status add_lists(const sb_spoken *s, size_t first, size_t count, size_t k,
                           uint32_t vocab_size, sb_step *out, sb_error *err)
{
    int whole = all_whole(s, first, count, vocab_size);
    float *ids = NULL, *values = NULL;
    sb_status status =
        sb_dump_add(out, whole ? "logprobs" : "top_logprobs", count, k, &values, err);
    if (!status && !whole)
        status = sb_dump_add(out, "top_ids", count, k, &ids, err);
    for (size_t r = 0; r < count && !status; r++) {
        const sb_listed *list = s->list + s->told[first + r + 1].first;
        for (size_t i = 0; i < k; i++) {
            values[r * k + (whole ? list[i].id : i)] = list[i].logprob;
            if (!whole)
                ids[r * k + i] = (float)list[i].id;
        }
    }
    return status;
}

static sb_status add_own(const sb_spoken *s, size_t first, size_t count, sb_step *out,
                         sb_error *err)
{
    float *ids = NULL, *values = NULL;
    sb_status status = sb_dump_add(out, "next_ids", count, 1, &ids, err);
    if (!status)
        status = sb_dump_add(out, "next_logprobs", count, 1, &values, err);
    for (size_t r = 0; r < count && !status; r++) {
        ids[r] = (float)s->told[first + r + 1].id;
        values[r] = s->told[first + r + 1].own;
    }
    return status;
}

static int at_floor(const sb_spoken *s, size_t first, size_t count)
{
    for (size_t r = first + 1; r <= first + count; r++) {
        const sb_told *t = &s->told[r];
        if (t->has_own && t->own <= s->floor)
            return 1;
        for (size_t i = 0; i < t->count; i++)
            if (s->list[t->first + i].logprob <= s->floor)
                return 1;
    }
    return 0;
}

/* J-3: "and the floor: a value there means" - only if some value is at the floor. */
static sb_status add_floor(const sb_spoken *s, size_t first, size_t count, sb_step *out,
                           sb_error *err)
{
    float *limits = NULL;
    if (!at_floor(s, first, count))
        return SB_OK;
    sb_status status = sb_dump_add(out, "logprob_limits", count, 2, &limits, err);
    for (size_t r = 0; r < count && !status; r++)
        limits[2 * r + 1] = s->floor;
    return status;
}

/* J-38: "the experts of all layers, a row for each token that was fed" */
static sb_status add_experts(const sb_spoken *s, size_t first, size_t count, sb_step *out,
                             sb_error *err)
{
    const sb_dump_array *a = s->experts.count ? &s->experts.items[0] : NULL;
    if (!a || first + count > a->shape[0])
        return SB_OK;
    size_t k = (size_t)a->shape[2], layers = (size_t)a->shape[1];
    sb_status status = SB_OK;
    for (size_t layer = 0; layer < layers && !status; layer++) {
        char name[64];
        float *ids = NULL;
        snprintf(name, sizeof name, "layers.%zu.mlp.router_ids", layer);
        status = sb_dump_add(out, name, count, k, &ids, err);
        for (size_t i = 0; i < count * k && !status; i++) {
            uint64_t at = ((first + i / k) * layers + layer) * k + i % k;
            int negative = 0;
            unsigned char bytes[8];
            sb_dump_gather(a, at, 1, bytes);
            uint64_t id = sb_dump_integer(a->dtype, bytes, &negative);
            ids[i] = negative || id >= 65536 ? 65536.0f : (float)id;
        }
    }
    return status;
}

/* Rows [first, first + count): rows with data come last. */
static sb_status make_step(const sb_spoken *s, uint32_t sequence, size_t first, size_t count,
                           uint32_t vocab_size, sb_step *out, sb_error *err)
{
    size_t begin = first, n;
    sb_status status = SB_OK;
    for (size_t i = first; i < first + count; i++) {
        sb_step_row *row = sb_step_add_row(out);
        if (!row)
            return sb_fail(err, SB_ERR_MEMORY, "out of memory for rows");
        int given = i < s->prompt;
        *row = (sb_step_row){sequence,
                             SB_NO_SLOT,
                             i,
                             s->told[i].id,
                             given ? SB_CALL_prompt : SB_CALL_decode,
                             given ? 0 : i - s->prompt};
    }
    while (begin < first + count && !has_any(form_of(s, begin)))
        begin++;
    n = first + count - begin;
    form f = n ? form_of(s, begin) : (form){0, 0};
    if (n)
        status = sb_dump_logits_rows(out, begin - first, n, err);
    if (!status && f.listed)
        status = add_lists(s, begin, n, f.listed, vocab_size, out, err);
    if (!status && f.own)
        status = add_own(s, begin, n, out, err);
    if (!status && n)
        status = add_floor(s, begin, n, out, err);
    return status ? status : add_experts(s, first, count, out, err);
}

/* The number of rows of a step from `first` on: of one kind and one form, and not too many. */
static size_t rows_of_step(const sb_spoken *s, size_t first)
{
    size_t n = 1,
           width = s->experts.count
                       ? (size_t)(s->experts.items[0].shape[1] * s->experts.items[0].shape[2])
                       : 0;
    form f = form_of(s, first);
    size_t most = sb_dump_rows_of_step(2 * f.listed + width + 4);
    if (first >= s->prompt)
        return 1;
    while (first + n < s->prompt && n < most) {
        form next = form_of(s, first + n);
        if (!same(f, next) && has_any(f))
            break;
        if (!has_any(f)) {
            f = next;
            most = sb_dump_rows_of_step(2 * f.listed + width + 4);
        }
        n++;
    }
    return n;
}

sb_status sb_spoken_play(const sb_spoken *s, uint32_t sequence, uint32_t vocab_size,
                         sb_step_fn take, void *ctx, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t first = 0, n; first < s->count && !status; first += n) {
        sb_step step = {.number = 0};
        n = rows_of_step(s, first);
        status = make_step(s, sequence, first, n, vocab_size, &step, err);
        if (!status)
            status = take(ctx, &step, err);
        sb_step_clear(&step);
    }
    return status;
}
