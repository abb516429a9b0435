#include "tools/check/scan/scaled.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/formats/plain_row.h"
#include "tools/check/scan/across.h"

enum {
    ROWS = 256,     /* sampled rows of a matrix, evenly spread */
    EXCEPTIONS = 64 /* one value in this number may differ from what the factors give */
};
#define DOUBT 0x1p-5 /* relative: a few roundings to BF16 */
#define FACTOR 4096.0

/* Sampled rows of both sides, and one factor per column. */
typedef struct pair {
    uint32_t rows, cols;
    float *own, *other; /* rows * cols */
    double *factors;    /* cols */
} pair;

static int is_factor(double f)
{
    return f > 1 / FACTOR && f < FACTOR;
}

/* The row with the fewest zeros in the original. */
static uint32_t reference_row(const pair *p)
{
    uint32_t best = 0, fewest = UINT32_MAX;
    for (uint32_t r = 0; r < p->rows; r++) {
        uint32_t zeros = 0;
        for (uint32_t c = 0; c < p->cols; c++)
            zeros += p->other[(size_t)r * p->cols + c] == 0;
        if (zeros < fewest) {
            fewest = zeros;
            best = r;
        }
    }
    return best;
}

/* The factor of a row, in addition to the factors of the columns, from its largest value; 0:
 * none. */
static double row_factor(const pair *p, uint32_t r)
{
    const float *own = p->own + (size_t)r * p->cols, *other = p->other + (size_t)r * p->cols;
    double largest = 0, factor = 0;
    for (uint32_t c = 0; c < p->cols; c++) {
        double size = other[c] < 0 ? -(double)other[c] : (double)other[c];
        if (size <= largest || !is_factor(p->factors[c]))
            continue;
        largest = size;
        factor = (double)own[c] / ((double)other[c] * p->factors[c]);
    }
    return is_factor(factor) ? factor : 0;
}

static uint64_t exceptions_of(const pair *p, uint32_t r)
{
    const float *own = p->own + (size_t)r * p->cols, *other = p->other + (size_t)r * p->cols;
    double factor = row_factor(p, r);
    uint64_t count = 0;
    for (uint32_t c = 0; c < p->cols; c++) {
        double expected = (double)other[c] * p->factors[c] * factor;
        double error = (double)own[c] - expected, bound = expected * DOUBT;
        count += (factor == 0 && other[c] != 0) || !(error * error <= bound * bound);
    }
    return count;
}

static int is_explained(pair *p)
{
    uint64_t exceptions = 0;
    size_t reference = (size_t)reference_row(p) * p->cols;
    for (uint32_t c = 0; c < p->cols; c++) {
        double f = (double)p->own[reference + c] / (double)p->other[reference + c];
        p->factors[c] = is_factor(f) ? f : 0;
        exceptions += !is_factor(f);
    }
    if (exceptions * EXCEPTIONS > p->cols)
        return 0;
    for (uint32_t r = 0; r < p->rows; r++)
        exceptions += exceptions_of(p, r);
    return exceptions * EXCEPTIONS <= (uint64_t)p->rows * p->cols;
}

static int judge_pair(sb_check *check, const sb_matrix *own, const sb_matrix *other)
{
    pair p = {.rows = own->rows < ROWS ? own->rows : ROWS, .cols = own->cols};
    size_t count = (size_t)p.rows * p.cols;
    p.own = sb_alloc(count + 1, sizeof *p.own);
    p.other = sb_alloc(count + 1, sizeof *p.other);
    p.factors = sb_alloc((size_t)p.cols + 1, sizeof *p.factors);
    int ready = p.own && p.other && p.factors, explained = 1;
    check->findings.lost |= !ready;
    for (uint32_t r = 0; ready && r < p.rows; r++) {
        uint32_t row = (uint32_t)((uint64_t)own->rows * r / p.rows);
        sb_matrix_row(own, row, p.own + (size_t)r * p.cols);
        sb_matrix_row(other, row, p.other + (size_t)r * p.cols);
    }
    if (ready && count)
        explained = is_explained(&p);
    free(p.own);
    free(p.other);
    free(p.factors);
    return explained;
}

int sb_is_scaled(sb_check *check, const sb_unit *unit)
{
    const sb_units *u = &check->self.units;
    for (size_t i = 0; i < u->member_count; i++) {
        const sb_member *m = &u->members[i];
        if (m->unit != unit || sb_matrix_quantized(&m->matrix))
            continue;
        const sb_member *master = sb_member_plain(&check->master.units, m->plain);
        if (master && !sb_matrix_quantized(&master->matrix) &&
            master->matrix.rows == m->matrix.rows && master->matrix.cols == m->matrix.cols &&
            !judge_pair(check, &m->matrix, &master->matrix))
            return 0;
    }
    return 1;
}

/* The length of "layers.3." or "mtp.layers.0." at the beginning; 0: the name is not in a layer. */
static size_t layer_length(const char *plain)
{
    size_t n = strncmp(plain, "mtp.", 4) == 0 ? 4 : 0;
    if (strncmp(plain + n, "layers.", 7) != 0)
        return n;
    for (n += 7; plain[n] >= '0' && plain[n] <= '9';)
        n++;
    return plain[n] == '.' ? n + 1 : 0;
}

int sb_is_beside_quantized(const sb_check *check, const sb_unit *unit)
{
    const sb_units *u = &check->self.units;
    size_t length = layer_length(unit->plain);
    if (!length)
        return 1; /* the final norm, or a head */
    for (size_t i = 0; i < u->count; i++)
        if ((sb_unit_quantized(&u->rows[i]) ||
             u->rows[i].found.part[SB_PART_pre_quant_scale]) && /* cannot be read, but is
                                                                 * quantized */
            strncmp(u->rows[i].plain, unit->plain, length) == 0)
            return 1;
    return 0;
}
