#include "tools/bench/rounding.h"

#include <stdlib.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/formats/format.h"
#include "ref/formats/wide.h"
#include "ref/fast/dot/int_dot.h"
#include "ref/fast/dot/kernels.h"
#include "ref/fast/dot/row.h"
#include "ref/fast/dot/strips.h"
#include "ref/ops/act_quant.h"
#include "ref/ops/param.h"

enum { MOST = 256 }; /* most rows of a layer */

typedef struct sample {
    uint32_t count;
    uint32_t row[MOST];    /* of the matrix */
    uint32_t stored[MOST]; /* the same through the matrix's own row map */
    float out[MOST];
    sb_matrix part; /* only these rows */
} sample;

static void choose(const sb_matrix *w, sample *s)
{
    s->count = w->rows < MOST ? w->rows : MOST;
    for (uint32_t i = 0; i < s->count; i++) {
        s->row[i] = (uint32_t)((uint64_t)i * w->rows / s->count);
        s->stored[i] = w->row_map ? w->row_map[s->row[i]] : s->row[i];
    }
    s->part = *w;
    s->part.rows = s->count;
    s->part.row_map = s->stored;
}

static sb_status by_definition(const sb_knobs *knobs, const sb_linear_args *args, sample *s,
                               sb_error *err)
{
    sb_linear_args part = *args;
    part.weight = &s->part;
    part.out = s->out;
    if (sb_linear_ref(knobs, &part))
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a comparison");
    return SB_OK;
}

/* sent: the kernel leaves the rounding of the row open; exact: the compensated sum leaves it open,
 * too. */
static void count_tests(const sb_matrix *w, uint32_t row, const double *x, sb_partial partial,
                        const sb_scalar *factor, double *wide, sb_bench_tried *tried)
{
    const sb_dot_kernels *set = sb_dot_kernels_now();
    float rounded;
    if (sb_row_certain(partial, w->cols, factor, &rounded))
        return;
    sb_compensated kept = {0, 0, 0, 0};
    sb_matrix_wide(w, row, wide);
    (set->kept ? set->kept : sb_compensated_add)(&kept, wide, x, w->cols);
    tried->sent++;
    tried->exact += !sb_compensated_round(&kept, w->cols, factor, &rounded);
}

/* The partial sums of the given rows. room: sb_row_input_workspace(w) and sb_row_workspace(w). */
static void partials_of(const sb_matrix *w, const double *x, const uint32_t *rows, uint32_t count,
                        double *room, sb_partial *partials)
{
    const sb_row_input input = sb_row_prepare(w, x, room);
    for (uint32_t i = 0; i < count; i++) {
        const sb_row_codes codes = sb_row_open(w, rows[i], room + sb_row_input_workspace(w));
        partials[rows[i]] = sb_dot_kernels_now()->row[w->format](&codes, &input);
    }
}

sb_status sb_bench_count(const sb_matrix *w, const double *x, const sb_scalar *factor,
                         const uint32_t *rows, uint32_t count, sb_bench_tried *tried, sb_error *err)
{
    const int strips = sb_strips_read(w);
    if (!sb_dot_kernels_now()->f64 || !(strips || sb_row_reads(w)))
        return SB_OK;
    const size_t inputs = sb_row_input_workspace(w) + sb_row_workspace(w);
    double *room = sb_alloc(inputs + w->cols, sizeof *room);
    sb_partial *partials = sb_alloc(w->rows, sizeof *partials);
    sb_status status = SB_OK;
    if (!room || !partials || (strips && sb_strips_partials(w, x, partials)))
        status = sb_fail(err, SB_ERR_MEMORY, "out of memory for a comparison");
    if (!status && !strips)
        partials_of(w, x, rows, count, room, partials);
    for (uint32_t i = 0; i < count && !status; i++)
        count_tests(w, rows[i], x, partials[rows[i]], factor, room + inputs, tried);
    tried->asked += status ? 0 : count;
    free(partials);
    free(room);
    return status;
}

static sb_status count_sample(const sb_knobs *knobs, const sb_linear_args *args, const sample *s,
                              sb_bench_tried *tried, sb_error *err)
{
    const sb_matrix *w = args->weight;
    sb_input in = {0};
    if (sb_quantize_input(knobs, w, args->in, 1, &in))
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a comparison");
    sb_scalar factor = SB_SCALAR_ONE;
    if (sb_matrix_quantized(w))
        factor = sb_matrix_factor(w);
    factor.mul[1] = in.factor.mul[0];
    factor.div[1] = in.factor.div[0];
    const sb_codes_input coded = {in.codes, in.scales, in.group, in.format, in.values};
    sb_status status = SB_OK;
    if (sb_int_dot_read(w, &coded))
        tried->integers += s->count;
    else
        status = sb_bench_count(w, in.values, &factor, s->row, s->count, tried, err);
    sb_input_free(&in);
    return status;
}

sb_status sb_bench_try(const sb_knobs *knobs, const sb_linear_args *args, int plant,
                       sb_bench_tried *tried, sb_error *err)
{
    sample s;
    choose(args->weight, &s);
    sb_status status = by_definition(knobs, args, &s, err);
    for (uint32_t i = 0; i < s.count && !status; i++) {
        uint32_t got = sb_bits_f32(args->out[s.row[i]]), expected = sb_bits_f32(s.out[i]);
        got ^= plant && i == 0;
        if (got != expected)
            status = sb_fail(err, SB_ERR_DIFF,
                             "row %u of a %s layer of %u x %u is %08x, expected %08x by the "
                             "definition: nothing is timed",
                             (unsigned)s.row[i], sb_format_name(args->weight->format),
                             (unsigned)args->weight->rows, (unsigned)args->weight->cols,
                             (unsigned)got, (unsigned)expected);
    }
    tried->outputs = s.count;
    if (!status && !sb_param_cast(knobs, args->weight))
        status = count_sample(knobs, args, &s, tried, err);
    return status;
}
