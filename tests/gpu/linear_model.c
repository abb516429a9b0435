#include "tests/gpu/linear_model.h"

#include <math.h>
#include <stdlib.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/formats/atoms.h"
#include "ref/formats/plain_row.h"
#include "ref/formats/wide.h"

enum { CHUNK = 64, STEP = 16, PART = 32, NONE = -1 };

/* The layout of a layer in places; a place is a column, or NONE. */
typedef struct plan {
    const sb_matrix *weight;
    uint32_t width;  /* the number of places, a multiple of CHUNK */
    uint32_t ends;   /* a chain ends at each multiple of this; 0: only with the part */
    int in_operand;  /* scales are part of the operands */
    int64_t *column; /* (width) */
    float *w, *x;    /* (width) operands of one row of weights, and of one row of inputs */
} plan;

static uint32_t up(uint32_t n, uint32_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* Y-42: "the columns of a group are brought together, in their order. Each group is filled up to a
 * multiple of 32" */
static uint32_t gather(const sb_matrix *m, int64_t *column)
{
    const sb_quant *q = &m->quant;
    uint32_t n = 0;
    for (uint32_t g = 0; g < q->groups; g++) {
        for (uint32_t k = 0; k < m->cols; k++) {
            uint32_t of =
                q->group_index ? sb_load_u32(q->group_index + 4 * (size_t)k) : k / q->block_cols;
            if (of == g)
                column[n++] = k;
        }
        while (n % PART)
            column[n++] = NONE;
    }
    return n;
}

static int plan_of(const sb_matrix *m, plan *p)
{
    const sb_quant *q = &m->quant;
    uint32_t most = up(m->cols + (q->groups + 1) * PART, CHUNK), n = 0;
    int scaled = sb_matrix_quantized(m);
    *p = (plan){.weight = m,
                .in_operand = scaled && q->scale_format == SB_FORMAT_e4m3,
                .column = sb_alloc(most, sizeof(int64_t)),
                .w = sb_alloc(most, sizeof(float)),
                .x = sb_alloc(most, sizeof(float))};
    if (!p->column || !p->w || !p->x)
        return 0;
    int grouped = scaled && !p->in_operand && q->groups > 1;
    if (grouped && (q->group_index || q->block_cols % PART)) {
        n = gather(m, p->column);
        p->ends = PART;
    } else {
        for (; n < m->cols; n++)
            p->column[n] = n;
        p->ends = !grouped ? 0 : q->block_cols % CHUNK ? PART : CHUNK;
    }
    while (n % CHUNK)
        p->column[n++] = NONE;
    p->width = n;
    return 1;
}

static void read_weights(const plan *p, uint32_t row, float *values)
{
    const sb_matrix *m = p->weight;
    if (sb_matrix_quantized(m))
        sb_matrix_codes(m, row, 0, m->cols, values);
    else
        sb_matrix_row(m, row, values);
    for (uint32_t i = 0; i < p->width; i++) {
        int64_t k = p->column[i];
        p->w[i] = k == NONE ? 0.0f : values[k];
        if (k != NONE && p->in_operand)
            p->w[i] *= sb_matrix_scale(m, row, (uint32_t)k);
    }
}

static float chain(const plan *p, uint32_t from, uint32_t to)
{
    return sb_atom_dot(&sb_atoms[SB_ATOM_sm120_f16], SB_FORMAT_bf16, p->w + from, 1, p->x + from, 1,
                       to - from);
}

/* Y-44: "Its result times the scale is added to the part, rounded once" */
static float part(const plan *p, uint32_t row, uint32_t from, uint32_t to)
{
    float sum = 0.0f;
    if (!p->ends)
        return to > from ? chain(p, from, to) : 0.0f;
    for (uint32_t i = from; i < to; i += p->ends) {
        float scale =
            p->column[i] == NONE ? 0.0f : sb_matrix_scale(p->weight, row, (uint32_t)p->column[i]);
        sum = fmaf(chain(p, i, i + p->ends), scale, sum);
    }
    return sum;
}

/* Y-43: "part w from floor(w C / 8) on, C being their number" and Y-45 */
static float output(const plan *p, uint32_t row)
{
    const sb_quant *q = &p->weight->quant;
    uint32_t chunks = p->width / CHUNK;
    float y = part(p, row, 0, chunks / 8 * CHUNK);
    for (uint32_t w = 1; w < 8; w++)
        y += part(p, row, chunks * w / 8 * CHUNK, chunks * (w + 1) / 8 * CHUNK);
    if (sb_matrix_quantized(p->weight) && !p->in_operand && !p->ends)
        y *= sb_matrix_scale(p->weight, row, 0);
    if (q->factor.kind == SB_MULTIPLIER)
        y *= q->factor.value;
    return q->factor.kind == SB_DIVISOR ? y / q->factor.value : y;
}

int linear_model(const sb_matrix *weight, const float *in, uint32_t rows, int wide, float *out)
{
    plan p;
    float *values = sb_alloc(weight->cols, sizeof *values);
    int done = plan_of(weight, &p) && values;
    for (uint32_t n = 0; n < weight->rows && done; n++) {
        read_weights(&p, n, values);
        for (uint32_t t = 0; t < rows; t++) {
            for (uint32_t i = 0; i < p.width; i++)
                p.x[i] =
                    p.column[i] == NONE ? 0.0f : in[(size_t)t * weight->cols + (size_t)p.column[i]];
            float y = output(&p, n);
            out[(size_t)t * weight->rows + n] = wide ? y : sb_round_to(SB_FORMAT_bf16, y);
        }
    }
    free(values);
    free(p.column);
    free(p.w);
    free(p.x);
    return done;
}
