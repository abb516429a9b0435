/* pair_walk.c - runs A, B, and A with one layer of B in parallel through the layers. */
#include <stdio.h>
#include <string.h>

#include "ref/base/root.h"
#include "tools/judge/quality/pair_parts.h"

/* Selects the tokens of the mixtures from a stream of all tokens. */
static void pick(const pair_work *w, const float *stream, float *out)
{
    for (size_t i = 0; i < w->text_count; i++) {
        const pair_span *s = &w->spans[i];
        memcpy(out + s->mixed_from * w->width, stream + s->from * w->width,
               s->mixed * w->width * sizeof *out);
    }
}

/* "the root of the sum of squares of the differences between B's output and A's, divided by
 * the same root for what A's layer adds" */
static double added(const pair_work *w, const float *mixture)
{
    double off = 0, all = 0;
    for (size_t i = 0; i < w->out->mixed * w->width; i++) {
        double d = (double)mixture[i] - (double)w->after[i];
        double update = (double)w->after[i] - (double)w->before[i];
        off += d * d;
        all += update * update;
    }
    return all > 0 ? sb_sqrt64(off / all) : 0;
}

/* Runs a stream of all tokens, or of the mixed ones, through a layer of A (0) or B (1). */
static sb_status pass(pair_work *w, int of, uint32_t layer, int mixed, float *stream,
                      pair_routes *routes, sb_error *err)
{
    sb_status status = SB_OK;
    w->listens = routes;
    if (routes)
        routes->count = 0;
    for (size_t i = 0; i < w->text_count && !status; i++) {
        const pair_span *s = &w->spans[i];
        size_t from = mixed ? s->mixed_from : s->from, n = mixed ? s->mixed : s->count;
        if (n)
            status = sb_walk_layer(w->walk[of], layer, n, stream + from * w->width, err);
    }
    w->listens = NULL;
    return status;
}

/* "experts that B keeps and A does not" - for one token. */
static size_t others(const float *a, const float *b, size_t kept)
{
    size_t count = 0;
    for (size_t i = 0; i < kept; i++) {
        size_t j = 0;
        while (j < kept && a[j] != b[i])
            j++;
        count += j == kept;
    }
    return count;
}

static void count_routes(const pair_work *w, int mixed, const pair_routes *b, uint64_t counts[2])
{
    const pair_routes *a = &w->routes[0];
    size_t k = w->kept;
    for (size_t i = 0; i < w->text_count && a->count && b->count; i++) {
        const pair_span *s = &w->spans[i];
        for (size_t t = 0; t < (mixed ? s->mixed : s->count); t++) {
            size_t at = (mixed ? s->mixed_from : s->from) + t;
            counts[0] += k;
            counts[1] += others(a->ids + (s->from + t) * k, b->ids + at * k, k);
        }
    }
}

static sb_status embed(pair_work *w, sb_error *err)
{
    sb_pair_layer *l = &w->out->layers[0];
    sb_status status = SB_OK;
    for (size_t i = 0; i < w->text_count; i++)
        for (int of = 0; of < 2 && !status; of++)
            status = sb_walk_embed(w->walk[of], w->texts[i].ids, w->texts[i].count,
                                   w->stream[of] + w->spans[i].from * w->width, err);
    snprintf(l->name, sizeof l->name, "embed");
    if (status || !w->out->mixed)
        return status;
    pick(w, w->stream[1], pair_mixture(w, 0));
    pick(w, w->stream[0], w->after);
    memset(w->before, 0, w->out->mixed * w->width * sizeof *w->before);
    l->added = added(w, pair_mixture(w, 0));
    return SB_OK;
}

/* "A mixture is A with one layer of B" */
static sb_status begin_mixture(pair_work *w, uint32_t layer, sb_error *err)
{
    float *mixture = pair_mixture(w, layer + 1);
    pick(w, w->stream[0], w->before);
    memcpy(mixture, w->before, w->out->mixed * w->width * sizeof *mixture);
    return pass(w, 1, layer, 1, mixture, &w->routes[2], err);
}

static sb_status one_layer(pair_work *w, uint32_t layer, sb_error *err)
{
    sb_pair_layer *l = &w->out->layers[layer + 1];
    snprintf(l->name, sizeof l->name, "layers.%u", (unsigned)layer);
    sb_status status = w->out->mixed ? begin_mixture(w, layer, err) : SB_OK;
    if (!status)
        status = pass(w, 1, layer, 0, w->stream[1], &w->routes[1], err);
    if (!status)
        status = pass(w, 0, layer, 0, w->stream[0], &w->routes[0], err);
    if (status)
        return status;
    count_routes(w, 0, &w->routes[1], l->drifted);
    if (!w->out->mixed)
        return SB_OK;
    count_routes(w, 1, &w->routes[2], l->routed);
    pick(w, w->stream[0], w->after);
    l->added = added(w, pair_mixture(w, layer + 1));
    for (uint32_t i = 0; i <= layer && !status; i++)
        status = pass(w, 0, layer, 1, pair_mixture(w, i), NULL, err);
    return status;
}

sb_status pair_walk(pair_work *w, sb_error *err)
{
    sb_status status = embed(w, err);
    for (uint32_t layer = 0; layer < w->layers && !status; layer++) {
        pair_progress(w, "layers", layer, w->layers);
        status = one_layer(w, layer, err);
    }
    for (size_t i = 0; i < w->text_count && w->out->has_drafts; i++)
        for (int of = 0; of < 2 && !status; of++)
            status = sb_walk_drafts(w->walk[of], w->stream[of] + w->spans[i].from * w->width,
                                    w->texts[i].ids, w->texts[i].count,
                                    w->guess[of] + w->spans[i].from, err);
    return status;
}
