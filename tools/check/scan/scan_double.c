#include "tools/check/scan/scan_double.h"

#include <string.h>

#include "ref/base/bytes.h"
#include "tools/check/scan/rows.h"

/* V-40: "samples, the same ones in every run" */
enum {
    SIDE = 128,   /* rows and columns of a block */
    BLOCKS = 64,  /* blocks sampled per matrix */
    ONE_IN = 16,  /* at most one in this number of a matrix's blocks, but ... */
    AT_LEAST = 4, /* ... at least this number */
    /* values other than zero that a block needs: BF16 weights then have 500 magnitudes */
    BLOCK_VALUES = 2048,
    LINE_VALUES = 96, /* the same for a row: BF16 weights then have 85 magnitudes */
    NARROW = 127,     /* the largest number of magnitudes that eight bits can have */
    LONGEST = 4096    /* columns of a sampled row that are used */
};

enum { CHUNK = 128 }; /* values that are decoded at once */

/* A set of magnitudes: each value is represented by the upper half of its binary32 without the
 * sign. Magnitudes beyond NARROW are not counted, because their number does not matter. */
typedef struct magnitudes {
    unsigned char is[1 << 15]; /* all zero, except for the members of `keys` */
    uint16_t keys[NARROW + CHUNK];
    uint32_t distinct, nonzero;
} magnitudes;

static void begin(magnitudes *m)
{
    for (uint32_t i = 0; i < m->distinct; i++)
        m->is[m->keys[i]] = 0;
    m->distinct = m->nonzero = 0;
}

/* Adds up to CHUNK values. */
static void add(magnitudes *m, const float *x, uint32_t count)
{
    uint32_t nonzero = 0;
#if !defined(__clang__) /* clang would unroll the loop and then not vectorize it */
#pragma omp simd reduction(+ : nonzero)
#endif
    for (uint32_t k = 0; k < count; k++)
        nonzero += x[k] != 0;
    m->nonzero += nonzero;
    for (uint32_t k = 0; k < count && m->distinct <= NARROW; k++) {
        uint32_t key = (sb_bits_f32(x[k]) & 0x7fffffffu) >> 16;
        if (x[k] == 0)
            continue;
        m->keys[m->distinct] = (uint16_t)key;
        m->distinct += !m->is[key];
        m->is[key] = 1;
    }
}

/* Selects about `wanted` of the numbers 0 .. count - 1, without a regular pattern. */
static int is_sample(uint64_t i, uint64_t count, uint64_t wanted)
{
    uint64_t mixed = (i + 1) * 0x9e3779b97f4a7c15u;
    return count <= wanted || (mixed ^ mixed >> 29) % count < wanted;
}

static uint64_t samples_of(uint64_t count)
{
    uint64_t wanted = count / ONE_IN < BLOCKS ? count / ONE_IN : BLOCKS;
    return wanted < AT_LEAST ? AT_LEAST : wanted;
}

static void look_at_block(const sb_panel *panel, uint32_t row, uint32_t rows, uint32_t col,
                          magnitudes *found)
{
    const sb_matrix *m = &panel->matrix;
    sb_seen_plain *seen = &panel->seen->plain;
    float x[CHUNK];
    begin(found);
    for (uint32_t r = row; r < row + rows; r++)
        for (uint32_t k = 0; k < SIDE; k += CHUNK) {
            if (found->distinct > NARROW && found->nonzero >= BLOCK_VALUES)
                break;
            sb_plain_values(m, r, col + k, CHUNK, x);
            add(found, x, CHUNK);
        }
    if (found->nonzero < BLOCK_VALUES)
        return;
    seen->blocks++;
    seen->narrow_blocks += found->distinct <= NARROW;
    if (found->distinct > seen->most)
        seen->most = found->distinct;
}

/* Looks at the parts of 128 x 128 blocks in this panel. Most panels hold whole blocks. */
static void look_at_blocks(const sb_panel *panel, magnitudes *found)
{
    const sb_matrix *m = &panel->matrix;
    uint32_t across = m->cols / SIDE;
    uint64_t count = (uint64_t)((panel->rows + SIDE - 1) / SIDE) * across;
    for (uint32_t row = 0, rows; row < m->rows && across; row += rows) {
        uint64_t down = (panel->first + row) / SIDE;
        rows = (uint32_t)((down + 1) * SIDE - panel->first) - row;
        rows = rows < m->rows - row ? rows : m->rows - row;
        for (uint32_t b = 0; b < across; b++)
            if (is_sample(down * across + b, count, samples_of(count)))
                look_at_block(panel, row, rows, b * SIDE, found);
    }
}

/* 1 if up to 32 values contain at most `most` distinct ones; mask selects values or magnitudes. */
static int has_at_most(const float *x, unsigned n, uint32_t mask, unsigned most)
{
    uint32_t seen[32];
    unsigned count = 0;
    for (unsigned i = 0; i < n; i++) {
        uint32_t bits = x[i] == 0 ? 0 : sb_bits_f32(x[i]) & mask;
        unsigned j = 0;
        while (j < count && seen[j] != bits)
            j++;
        if (j < count)
            continue;
        if (count == most)
            return 0;
        seen[count++] = bits;
    }
    return 1;
}

/* 1 if every group of 16 has at most 8 magnitudes (FP4), or every group of 32 at most 16 values. */
static int has_four_bits(const sb_matrix *m, uint32_t row, uint32_t cols)
{
    int fp4 = 1, any = 1;
    float x[32];
    for (uint32_t k = 0; k + 32 <= cols && (fp4 || any); k += 32) {
        sb_plain_values(m, row, k, 32, x);
        fp4 = fp4 && has_at_most(x, 16, 0x7fffffffu, 8) && has_at_most(x + 16, 16, 0x7fffffffu, 8);
        any = any && has_at_most(x, 32, 0xffffffffu, 16);
    }
    return fp4 || any;
}

static void look_at_line(const sb_panel *panel, uint32_t row, magnitudes *found)
{
    const sb_matrix *m = &panel->matrix;
    sb_seen_plain *seen = &panel->seen->plain;
    uint32_t cols = m->cols < LONGEST ? m->cols : LONGEST;
    float x[CHUNK];
    begin(found);
    for (uint32_t k = 0, n; k < cols; k += n) {
        if (found->distinct > NARROW && found->nonzero >= LINE_VALUES && 2 * found->nonzero >= cols)
            break;
        n = cols - k < CHUNK ? cols - k : CHUNK;
        sb_plain_values(m, row, k, n, x);
        add(found, x, n);
    }
    if (found->nonzero >= LINE_VALUES) {
        seen->lines++;
        seen->narrow_lines += found->distinct <= NARROW && 2 * found->distinct <= found->nonzero;
    }
    if (found->nonzero >= 64 && 2 * found->nonzero >= cols) {
        seen->fours++;
        seen->narrow_fours += (uint32_t)has_four_bits(m, row, cols);
    }
}

void sb_scan_double(const sb_panel *panel)
{
    const sb_matrix *m = &panel->matrix;
    magnitudes found;
    memset(&found, 0, sizeof found);
    look_at_blocks(panel, &found);
    for (uint32_t row = 0; row < m->rows; row++)
        if (is_sample(panel->first + row, panel->rows, samples_of(panel->rows)))
            look_at_line(panel, row, &found);
}
