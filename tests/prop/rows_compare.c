#include "tests/prop/rows_compare.h"

#include <stdio.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/formats/format.h"
#include "ref/formats/wide.h"
#include "ref/fast/dot/dot.h"
#include "ref/fast/dot/row.h"

const char *rows_family_name(rows_family family)
{
    static const char *const names[] = {
#define NAME(name) #name,
        ROWS_FAMILIES(NAME)
#undef NAME
    };
    return names[family];
}

const char *rows_text(const rows_case *c)
{
    static char text[160];
    static const char *const packings[] = {"", ", gptq", ", awq", ", pairs"};
    static const char *const names[] = {
#define SB_FORMAT(id, name, bits, clause) #id,
#include "ref/formats/formats.def"
#undef SB_FORMAT
    };
    const sb_matrix *m = &c->matrix;
    int scaled = sb_matrix_quantized(m);
    snprintf(text, sizeof text, "%s %s%s, groups of %u%s%s, %u x %u, %zu inputs, %s %llu",
             names[m->format], scaled ? "by " : "", scaled ? names[m->quant.scale_format] : "plain",
             (unsigned)m->quant.block_cols, m->quant.zeros != SB_ZEROS_none ? " with zeros" : "",
             packings[m->quant.packing], (unsigned)m->rows, (unsigned)m->cols, c->count,
             rows_family_name(c->family), (unsigned long long)c->index);
    return text;
}

void rows_define(const rows_case *c, float *want)
{
    static double values[ROWS_COLS];
    const size_t n = c->matrix.cols, rows = c->matrix.rows;
    for (uint32_t row = 0; row < rows; row++) {
        sb_matrix_wide(&c->matrix, row, values);
        for (size_t t = 0; t < c->count; t++) {
            sb_exact acc;
            sb_exact_clear(&acc);
            for (size_t k = 0; k < n; k++)
                sb_exact_add_wide_product(&acc, values[k], c->x[t * n + k]);
            want[t * rows + row] = sb_exact_round_scaled(&acc, &c->factor);
        }
    }
}

int rows_together(const rows_case *c, float *got)
{
    return sb_dot_matrix(&c->matrix, c->x, c->count, &c->factor, got) == SB_OK;
}

int rows_apart(const rows_case *c, float *got)
{
    int done = 1;
    for (size_t t = 0; t < c->count; t++)
        done &= sb_dot_matrix(&c->matrix, c->x + t * c->matrix.cols, 1, &c->factor,
                              got + t * c->matrix.rows) == SB_OK;
    return done;
}

/* The functions for plain rows and inputs in binary32; zero where they do not apply. */
static int rows_narrow(const rows_case *c, float *got)
{
    static float x[ROWS_INPUTS * ROWS_COLS];
    const size_t n = c->matrix.cols;
    const sb_scalar one = SB_SCALAR_ONE;
    if (!c->narrow || sb_matrix_quantized(&c->matrix) || !sb_format_is_plain(c->matrix.format) ||
        memcmp(&c->factor, &one, sizeof one) != 0)
        return 0;
    for (size_t i = 0; i < c->count * n; i++)
        x[i] = (float)c->x[i];
    for (uint32_t row = 0; row < c->matrix.rows; row++)
        for (size_t t = 0; t < c->count; t++)
            got[t * c->matrix.rows + row] = sb_dot_row(&c->matrix, row, x + t * n);
    return 1;
}

size_t rows_compare(const rows_case *c, const float *want, char text[256])
{
    static const struct {
        const char *name;
        int (*run)(const rows_case *c, float *got);
    } ways[] = {{"apart", rows_apart}, {"together", rows_together}, {"plain", rows_narrow}};
    float got[ROWS_MOST * ROWS_INPUTS];
    size_t bad = 0;
    for (size_t s = 1; sb_dot_set(s); s++) {
        if (sb_dot_select(sb_dot_set(s)->name, NULL))
            return 1;
        for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
            if (!ways[way].run(c, got))
                continue;
            for (size_t i = 0; i < c->count * c->matrix.rows; i++) {
                uint32_t bits = sb_bits_f32(got[i]), wanted = sb_bits_f32(want[i]);
                if (bits != wanted && bad++ == 0)
                    snprintf(text, 256, "%s %s: %s: input %zu row %zu: %08x instead of %08x",
                             sb_dot_set(s)->name, ways[way].name, rows_text(c), i / c->matrix.rows,
                             i % c->matrix.rows, (unsigned)bits, (unsigned)wanted);
            }
        }
    }
    return bad;
}
