/* mistakes.c - the list of mistakes, and their helper functions. */
#include "tools/judge/fault/mistakes.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/fast/fast.h"
#include "ref/formats/plain_row.h"

#define SB_PLANTED(kind, op_, by, with_, words_)                                                   \
    static void plant_##by(sb_op_table *table)                                                     \
    {                                                                                              \
        table->op_ = sb_mistake_##by;                                                              \
    }
#define SB_HARMLESS SB_PLANTED
#include "tools/judge/fault/lists/mistakes.def"
#undef SB_PLANTED
#undef SB_HARMLESS

#define SB_ROW(op_, by, words_, benign_)                                                           \
    {.name = #by,                                                                                  \
     .where = #op_,                                                                                \
     .with = "",                                                                                   \
     .words = words_,                                                                              \
     .benign = benign_,                                                                            \
     .op = SB_OP_##op_,                                                                            \
     .plant = plant_##by},
const sb_planted sb_mistakes[] = {
#define SB_PLANTED(kind, op, by, with, words) SB_ROW(op, by, words, 0)
#define SB_HARMLESS(kind, op, by, with, words) SB_ROW(op, by, words, 1)
#include "tools/judge/fault/lists/mistakes.def"
#undef SB_PLANTED
#undef SB_HARMLESS
    {.name = NULL}};

/* A mistake has no context pointer. */
static _Thread_local const sb_op_table *below;

const sb_op_table *sb_mistakes_ops(void)
{
    static const sb_op_table reference = {
#define SB_OP(name, clause) .name = sb_##name##_fast,
#include "ref/ops/ops.def"
#undef SB_OP
    };
    return below ? below : &reference;
}

void sb_mistakes_run_on(const sb_op_table *table)
{
    below = table;
}

sb_status sb_mistake_edit(const sb_matrix *from,
                          void (*edit)(float *values, size_t rows, size_t cols),
                          sb_mistake_param *to)
{
    size_t count = (size_t)from->rows * from->cols;
    float *values = sb_alloc(count, sizeof *values);
    to->matrix = (sb_matrix){.format = SB_FORMAT_f32, .rows = from->rows, .cols = from->cols};
    to->bytes = sb_alloc(count, sizeof *values);
    to->matrix.data = to->bytes;
    sb_status status = values && to->bytes ? SB_OK : SB_ERR_MEMORY;
    for (uint32_t row = 0; !status && row < from->rows; row++)
        sb_matrix_row(from, row, values + (size_t)row * from->cols);
    if (!status) {
        edit(values, from->rows, from->cols);
        sb_encode(SB_FORMAT_f32, values, count, to->bytes);
    }
    free(values);
    return status;
}

void sb_mistake_subtract_one(float *values, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows * cols; i++)
        values[i] -= 1.0f;
}

float *sb_mistake_copy(const float *values, size_t count)
{
    float *copy = sb_alloc(count, sizeof *copy);
    if (copy)
        memcpy(copy, values, count * sizeof *copy);
    return copy;
}

float *sb_mistake_spread(const float *x, size_t rows, size_t from, size_t to, size_t width)
{
    float *wide = sb_alloc(rows * to, width * sizeof *wide);
    for (size_t i = 0; wide && i < rows * to; i++)
        memcpy(wide + i * width, x + (i / to * from + i % to % from) * width, width * sizeof *wide);
    return wide;
}
