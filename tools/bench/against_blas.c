/* against_blas.c - the linear layers of a checkpoint in a BLAS, as if they were binary32
 * already. */
#include <stdlib.h>

#include "ref/base/mem.h"
#include "tools/bench/blas.h"
#include "tools/bench/cpu.h"

/* The largest sizes, and the seconds of all layers. */
typedef struct layers {
    const sb_blas *blas;
    size_t weights, inputs, outputs;
    float *w, *x, *out; /* NULL: only finds the sizes */
    double seconds;
} layers;

static void one(layers *l, const sb_matrix *m, size_t tokens)
{
    size_t weights = (size_t)m->rows * m->cols;
    if (!m->data || m->rows < 64 || m->cols < 64 || tokens == 0) /* vectors and filters */
        return;
    l->weights = weights > l->weights ? weights : l->weights;
    l->inputs = tokens * m->cols > l->inputs ? tokens * m->cols : l->inputs;
    l->outputs = tokens * m->rows > l->outputs ? tokens * m->rows : l->outputs;
    if (l->w)
        l->seconds += sb_blas_multiply(l->blas, l->w, m->rows, m->cols, l->x, tokens, l->out);
}

/* A prompt without the head. All experts get equal shares of the tokens. */
static void all(layers *l, const sb_model *model, size_t tokens)
{
    const sb_config *c = &model->config;
    for (uint32_t i = 0; i < c->layers; i++) {
        const sb_layer *layer = &model->weights->layers[i];
        size_t each =
            c->experts ? (tokens * c->experts_per_token + c->experts - 1) / c->experts : 0;
        for (int role = 0; role < SB_ROLE_COUNT; role++)
            one(l, &layer->w[role], tokens);
        for (uint32_t e = 0; layer->experts && e < c->experts; e++) {
            one(l, &layer->experts[e].gate, each);
            one(l, &layer->experts[e].up, each);
            one(l, &layer->experts[e].down, each);
        }
    }
}

static sb_status prompt(const sb_blas *blas, const sb_model *model, size_t tokens, size_t passes,
                        sb_bench_noise *out, sb_error *err)
{
    double seconds[SB_BENCH_PASSES];
    layers l = {.blas = blas};
    all(&l, model, tokens);
    l.w = sb_alloc(l.weights, sizeof *l.w);
    l.x = sb_alloc(l.inputs, sizeof *l.x);
    l.out = sb_alloc(l.outputs, sizeof *l.out);
    int failed = !l.w || !l.x || !l.out;
    for (size_t i = 0; !failed && i < l.weights; i++)
        l.w[i] = (float)(i % 7) - 3;
    for (size_t i = 0; !failed && i < l.inputs; i++)
        l.x[i] = (float)(i % 5) - 2;
    for (size_t p = 0; !failed && p < passes; p++) {
        l.seconds = 0;
        all(&l, model, tokens);
        seconds[p] = l.seconds;
    }
    *out = sb_bench_noise_of(seconds, failed ? 0 : passes);
    free(l.w);
    free(l.x);
    free(l.out);
    return failed ? sb_fail(err, SB_ERR_MEMORY, "out of memory for layers in binary32") : SB_OK;
}

sb_status sb_bench_against_blas(const sb_model *model, const sb_bench_options *options,
                                const char *library, sb_bench_report *report, sb_error *err)
{
    sb_blas *blas = NULL;
    sb_status status = sb_blas_open(library, &blas, err);
    for (size_t i = 0; i < report->decode_count && !status; i++) {
        sb_bench_blas *b = &report->blas[i];
        b->threads = report->decode[i].threads;
        sb_blas_threads(blas, b->threads);
        status = sb_blas_rows(blas, options->passes, &b->sgemv, &b->dgemv, err);
        if (!status && options->prefill)
            status =
                prompt(blas, model, options->prefill, options->passes < 3 ? 1 : 3, &b->sgemm, err);
        report->blas_count += !status;
    }
    sb_blas_close(blas);
    return status;
}
