/* linear.c - rows of matrices. */
#include "tools/judge/sim/arith.h"

#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "ref/formats/format.h"
#include "ref/ops/act_quant.h"
#include "ref/ops/knob.h"
#include "ref/ops/param.h"
#include "ref/ops/rounding.h"

/* R-1: "x_t is row token_t of the embedding, unscaled, R" */
sb_status sb_sim_embed(const sb_sim_arith *s, const sb_knobs *knobs, const sb_embed_args *a)
{
    (void)s; /* copies only */
    size_t n = a->table->cols;
    for (size_t t = 0; t < a->rows; t++) {
        sb_param_row(knobs, a->table, a->tokens[t], a->out + t * n);
        for (size_t i = 0; i < n; i++)
            a->out[t * n + i] = sb_act(knobs, a->out[t * n + i]);
    }
    return SB_OK;
}

/* The input of a layer in binary32, and the factors applied at the end. */
typedef struct operands {
    float *in; /* (T, K) */
    float mul, div;
} operands;

/* Unless a law says otherwise, values and factors are rounded to binary32 before their product. */
static sb_status make_operands(const sb_knobs *knobs, const sb_linear_args *a, operands *out)
{
    size_t count = a->rows * a->weight->cols;
    *out = (operands){.in = sb_alloc(count, sizeof *out->in), .mul = 1.0f, .div = 1.0f};
    if (!out->in)
        return SB_ERR_MEMORY;
    sb_format format = sb_linear_input_format(knobs, a->weight, a->kind);
    for (size_t i = 0; i < count; i++)
        out->in[i] = sb_round_to(format, a->in[i]);
    if (!sb_matrix_quantized(a->weight))
        return SB_OK;
    sb_input input = {0};
    sb_status status = sb_quantize_input(knobs, a->weight, a->in, a->rows, &input);
    if (status)
        return status;
    double mul = (double)input.factor.mul[0], div = (double)input.factor.div[0];
    for (size_t i = 0; i < count; i++)
        out->in[i] = input.rounded ? input.rounded[i] : (float)(input.values[i] * mul / div);
    if (SB_IS(knobs, dequant, factor_last)) {
        sb_scalar factor = sb_matrix_factor(a->weight);
        out->mul = factor.mul[0] * input.factor.mul[0];
        out->div = factor.div[0] * input.factor.div[0];
    }
    sb_input_free(&input);
    return SB_OK;
}

/* Scratch of a thread. */
typedef struct room {
    double *wide; /* (K) */
    float *row;   /* (K) */
    float *panel; /* (K, SB_SIM_COLUMNS): rows of the matrix, stored as columns */
} room;

static sb_status make_room(size_t k, room *all)
{
    size_t threads = sb_threads();
    all->wide = sb_alloc(threads * k, sizeof *all->wide);
    all->row = sb_alloc(threads * k, sizeof *all->row);
    all->panel = sb_alloc(threads * k, SB_SIM_COLUMNS * sizeof *all->panel);
    return all->wide && all->row && all->panel ? SB_OK : SB_ERR_MEMORY;
}

static void free_room(room *all)
{
    free(all->wide);
    free(all->row);
    free(all->panel);
}

/* R-2: "y_t[n] = R( dot(W[n], x_t) )", for `count` rows of the matrix from `first` on. Each row is
 * read once for the whole call. */
static void outputs(const sb_sim_arith *s, const sb_knobs *knobs, const sb_linear_args *a,
                    const operands *of, const room *mine, size_t first, size_t count)
{
    size_t n = a->weight->rows, k = a->weight->cols;
    int wide_output = sb_linear_stays_wide(knobs, a->kind);
    float y[SB_SIM_COLUMNS];
    for (size_t j = 0; j < count; j++) {
        sb_weight_row(knobs, a->weight, (uint32_t)(first + j), mine->wide, mine->row);
        for (size_t i = 0; i < k; i++)
            mine->panel[i * SB_SIM_COLUMNS + j] = mine->row[i];
    }
    for (size_t t = 0; t < a->rows; t++) {
        sb_sim_products(s, of->in + t * k, 1, mine->panel, SB_SIM_COLUMNS, k, count, y);
        for (size_t j = 0; j < count; j++)
            a->out[t * n + first + j] =
                sb_sim_act_if(knobs, !wide_output, y[j] * of->mul / of->div);
    }
}

typedef struct job {
    const sb_sim_arith *s;
    const sb_knobs *knobs;
    const sb_linear_args *a;
    operands of;
    room all; /* for all threads */
} job;

static void one_panel(void *ctx, size_t p, size_t worker)
{
    const job *j = ctx;
    const size_t n = j->a->weight->rows, thread = worker * j->a->weight->cols;
    const size_t first = p * SB_SIM_COLUMNS;
    const size_t count = n - first < SB_SIM_COLUMNS ? n - first : SB_SIM_COLUMNS;
    const room mine = {j->all.wide + thread, j->all.row + thread,
                       j->all.panel + thread * SB_SIM_COLUMNS};
    outputs(j->s, j->knobs, j->a, &j->of, &mine, first, count);
}

/* The arithmetic depends on the number of rows in the call, as in programs that choose a kernel, or
 * split sums, by the number of rows. */
static sb_sim_arith arith_of_call(const sb_sim_arith *s, size_t rows)
{
    sb_sim_arith own = *s;
    for (size_t i = 1; i < rows && s->form == FORM_batched && own.lanes < SB_SIM_LANES; i++)
        own.lanes *= 2;
    return own;
}

sb_status sb_sim_linear(const sb_sim_arith *s, const sb_knobs *knobs, const sb_linear_args *a)
{
    size_t n = a->weight->rows, k = a->weight->cols;
    const sb_sim_arith own = arith_of_call(s, a->rows);
    job j = {.s = &own, .knobs = knobs, .a = a};
    sb_status status = make_operands(knobs, a, &j.of);
    if (!status)
        status = make_room(k, &j.all);
    if (!status)
        sb_parallel_for((n + SB_SIM_COLUMNS - 1) / SB_SIM_COLUMNS, a->rows * n * k > 1000000,
                        one_panel, &j);
    free(j.of.in);
    free_room(&j.all);
    return status;
}

/* R-18: "x = R( RN(x + y) )"; K-48: "Under sum, the norm reads RN(x + y) instead" */
sb_status sb_sim_add(const sb_sim_arith *s, const sb_knobs *knobs, const sb_add_args *a)
{
    (void)s; /* only one operation */
    for (size_t i = 0; i < a->count; i++) {
        float sum = a->a[i] + a->b[i];
        if (a->sum)
            a->sum[i] = sum;
        a->out[i] = sb_residual(knobs, sum);
    }
    return SB_OK;
}
