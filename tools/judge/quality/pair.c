#include "tools/judge/quality/pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/judge/quality/pair_parts.h"

float *pair_mixture(const pair_work *w, size_t i)
{
    return w->mixture + i * w->out->mixed * w->width;
}

void pair_progress(const pair_work *w, const char *what, uint64_t done, uint64_t total)
{
    if (w->options->progress)
        w->options->progress(w->options->progress_ctx, what, done, total);
}

/* "the same layers, widths, vocabulary and experts" */
static sb_status check_shapes(const sb_config *a, const sb_config *b, sb_error *err)
{
    const struct {
        const char *name;
        uint32_t a, b;
    } all[] = {{"hidden_size", a->hidden_size, b->hidden_size},
               {"num_hidden_layers", a->layers, b->layers},
               {"vocab_size", a->vocab_size, b->vocab_size},
               {"num_experts", a->experts, b->experts},
               {"num_experts_per_tok", a->experts_per_token, b->experts_per_token}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].a != all[i].b)
            return sb_fail(err, SB_ERR_INPUT,
                           "%s is %u in the first and %u in the second: they are not two forms of "
                           "one model",
                           all[i].name, (unsigned)all[i].a, (unsigned)all[i].b);
    for (uint32_t i = 0; i < a->layers; i++)
        if (a->layer_is_full[i] != b->layer_is_full[i])
            return sb_fail(err, SB_ERR_INPUT,
                           "layer %u has full attention in only one of the two: they are not two "
                           "forms of one model",
                           (unsigned)i);
    return SB_OK;
}

/* Records the expert choices of the running model. */
static sb_status on_tap(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                        sb_error *err)
{
    static const char last[] = "mlp.router_ids";
    pair_work *w = ctx;
    size_t n = strlen(name), m = sizeof last - 1;
    (void)err;
    if (!w->listens || n < m || strcmp(name + n - m, last) != 0)
        return SB_OK;
    memcpy(w->listens->ids + w->listens->count, data, rows * cols * sizeof *data);
    w->listens->count += rows * cols;
    return SB_OK;
}

static void lay_out(pair_work *w)
{
    size_t from = 0, mixed = 0;
    for (size_t i = 0; i < w->text_count; i++) {
        size_t n = w->texts[i].count, left = w->options->mixed_tokens - mixed;
        w->spans[i] = (pair_span){from, n, mixed, n < left ? n : left};
        from += n;
        mixed += w->spans[i].mixed;
    }
    w->out->tokens = from;
    w->out->mixed = mixed;
}

static sb_status reserve(pair_work *w, sb_error *err)
{
    sb_pair *out = w->out;
    size_t all = out->tokens * w->width, some = out->mixed * w->width;
    int room = 1;
    for (int i = 0; i < 2; i++) {
        room &= (w->stream[i] = sb_alloc(all, sizeof(float))) != NULL;
        room &= (w->guess[i] = sb_alloc(out->tokens, sizeof(uint32_t))) != NULL;
    }
    for (int i = 0; i < 3; i++)
        room &= (w->routes[i].ids = sb_alloc(out->tokens * w->kept + 1, sizeof(float))) != NULL;
    w->before = sb_alloc(some + 1, sizeof(float));
    w->after = sb_alloc(some + 1, sizeof(float));
    w->mixture = sb_alloc((w->layers + 1) * some + 1, sizeof(float));
    room &= w->before && w->after && w->mixture;
    return room ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu tokens", out->tokens);
}

static sb_status begin(pair_work *w, sb_error *err)
{
    const sb_config *c = &w->models[0]->config;
    sb_pair *out = w->out;
    w->layers = c->layers;
    w->kept = c->experts_per_token;
    w->spans = sb_alloc(w->text_count + 1, sizeof *w->spans);
    out->layer_count = (size_t)c->layers + 2;
    out->layers = sb_alloc(out->layer_count, sizeof *out->layers);
    if (!w->spans || !out->layers)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a comparison");
    lay_out(w);
    if (!out->tokens)
        return sb_fail(err, SB_ERR_USAGE, "there is no token to compare on");
    sb_status status = check_shapes(c, &w->models[1]->config, err);
    for (int i = 0; i < 2 && !status; i++)
        status = sb_walk_new(w->models[i], w->options->knobs[i], on_tap, w, &w->walk[i], err);
    if (status)
        return status;
    w->width = sb_walk_width(w->walk[0]);
    if (w->width != sb_walk_width(w->walk[1]))
        return sb_fail(
            err, SB_ERR_USAGE,
            "norm_input=sum is set for only one of the two checkpoints; expected both or neither");
    out->has_drafts = sb_model_has_mtp(w->models[0]) && sb_model_has_mtp(w->models[1]);
    snprintf(out->layers[w->layers + 1].name, sizeof out->layers->name, "head");
    return reserve(w, err);
}

static void release(pair_work *w)
{
    for (int i = 0; i < 2; i++) {
        sb_walk_free(w->walk[i]);
        free(w->stream[i]);
        free(w->guess[i]);
    }
    for (int i = 0; i < 3; i++)
        free(w->routes[i].ids);
    free(w->spans);
    free(w->before);
    free(w->after);
    free(w->mixture);
}

sb_status sb_pair_measure(const sb_model *const models[2], const sb_pair_text *texts, size_t count,
                          const sb_pair_options *options, sb_pair *out, sb_error *err)
{
    *out = (sb_pair){.tokens = 0};
    pair_work w = {
        .models = models, .texts = texts, .text_count = count, .options = options, .out = out};
    sb_status status = begin(&w, err);
    if (!status)
        status = pair_walk(&w, err);
    if (!status)
        status = pair_judge(&w, err);
    release(&w);
    if (status)
        sb_pair_free(out);
    return status;
}

void sb_pair_free(sb_pair *pair)
{
    free(pair->flips);
    free(pair->layers);
    free(pair->kl_at);
    free(pair->ends);
    *pair = (sb_pair){.tokens = 0};
}

void sb_pair_rank(const sb_pair *pair, size_t *ranks)
{
    for (size_t i = 0; i < pair->layer_count; i++) {
        size_t at = i;
        while (at > 0 && pair->layers[ranks[at - 1]].kl < pair->layers[i].kl) {
            ranks[at] = ranks[at - 1];
            at--;
        }
        ranks[at] = i;
    }
}
