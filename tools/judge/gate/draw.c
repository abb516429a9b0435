/* draw.c - inputs by regime.
 *
 * V-106: "a pure function of seed, op, name, row and column" */
#include "tools/judge/gate/case.h"

#include <stdio.h>

#include "ref/base/rng.h"
#include "ref/formats/format.h"

/* A place in an array, and its drawn value. */
typedef struct place {
    uint64_t key; /* of the array */
    sb_dtype input;
    sb_gate_role role;
    size_t rows, cols, row, col;
    float normal; /* of this place */
} place;

static float half_to(unsigned n)
{
    float x = 1.0f;
    while (n-- > 0)
        x /= 2.0f;
    return x;
}

/* The power of two next to cols^-1/2, so that it rounds nothing. */
static float weight_order(size_t cols)
{
    unsigned n = 0;
    while ((size_t)2 << (2 * n) < cols)
        n++;
    return half_to(n);
}

static float order_of(sb_gate_role role, size_t cols)
{
    switch (role) {
    case SB_GATE_WEIGHT:
        return weight_order(cols);
    case SB_GATE_NORM_WEIGHT:
        return 0.1875f;
    case SB_GATE_LOGIT:
        return 3.0f;
    case SB_GATE_STATE:
        return 0.1f;
    default:
        return 1.0f;
    }
}

/* True for inputs of a layer, false for its weights and state. */
static int is_input(sb_gate_role role)
{
    return role == SB_GATE_ACTIVATION || role == SB_GATE_LOGIT;
}

/* --- regimes: each in units of the role's order ----------------------------------------------- */

static float magnitude(float x)
{
    return x < 0.0f ? -x : x;
}

/* Weights are positive, so that products with the inputs are negative, too. */
static float negative(const place *p)
{
    float size = magnitude(p->normal) + 0.015625f;
    return p->role == SB_GATE_WEIGHT ? size : -size;
}

/* Rows come in pairs of equal ones; eighths up to 1.5 lie halfway between codes of E2M1. */
static float ties(const place *p)
{
    uint64_t at = p->row / 2 * p->cols + p->col;
    if (p->role == SB_GATE_LOGIT)
        return (float)sb_rng_below(p->key, at, 4) - 1.0f;
    return ((float)sb_rng_below(p->key, at, 25) - 12.0f) / 8.0f;
}

/* In binary16, whose least number is 2^-24, the values are subnormal. */
static float tiny(const place *p)
{
    return is_input(p->role) ? p->normal * half_to(p->input == SB_DTYPE_F16 ? 17 : 27) : p->normal;
}

static float least(const place *p)
{
    return is_input(p->role) ? p->normal * half_to(p->input == SB_DTYPE_F16 ? 22 : 76) : p->normal;
}

/* If the largest scale is 448, blocks smaller by 2^15 to 2^17 have subnormal scales. All blocks of
 * odd rows are that small, so that no larger block hides them. Even rows of inputs are normal. */
static float subnormal(const place *p)
{
    size_t block = p->row * ((p->cols + 15) / 16) + p->col / 16;
    uint32_t pick = sb_rng_below(p->key ^ 1, block, 6);
    int mixed = p->rows == 1 || (p->row % 2 == 0 && p->role == SB_GATE_WEIGHT);
    int small = p->role == SB_GATE_NORM_WEIGHT ? 0 : mixed ? pick < 3 : p->row % 2 == 1;
    return small ? p->normal * half_to(15 + pick % 3) : p->normal;
}

/* Below 65504, the largest binary16 number. */
static float huge(const place *p)
{
    if (!is_input(p->role))
        return p->normal;
    return p->normal * (p->role == SB_GATE_LOGIT ? 2048.0f : 8192.0f);
}

/* Zeroes whole rows, and blocks of 16, 32 and 128 columns, at other places in each array. One block
 * of 16 keeps its values, because a narrow array could be all zeros otherwise. */
static float zeros(const place *p)
{
    size_t shift = (size_t)(p->key >> 48);
    int row = p->rows > 1 && p->row % 3 == (p->role == SB_GATE_WEIGHT ? 2 : 1);
    int block = (p->col / 16 + shift) % 5 == 3 || (p->col / 32 + shift) % 7 == 4 ||
                (p->col / 128 + shift) % 3 == 1;
    int stays = p->col / 16 == shift % ((p->cols + 15) / 16);
    return row || (block && !stays) ? 0.0f : p->normal;
}

/* In the first row the nonzero value is in the last column, which loops tend to miss. */
static float one_hot(const place *p)
{
    if (!is_input(p->role))
        return p->normal;
    size_t at =
        p->row ? (size_t)(((p->key >> 40) + (uint64_t)p->row * 7919) % p->cols) : p->cols - 1;
    return p->col == at ? 1.0f + (float)(p->row % 8) / 8.0f : 0.0f;
}

/* Seven bits of row and column; the group of 16 columns selects a power of two. */
static float index_coded(const place *p)
{
    float code = (float)(1 + p->col % 16 + 16 * (p->row % 8));
    return code * half_to(6 + (unsigned)(p->col / 16 % 4));
}

/* Neighbours are x and d - x. Their weights are equal, so that the sum of their products depends
 * only on d. */
static float cancellation(const place *p)
{
    float x = sb_rng_normal(p->key, p->row * p->cols + p->col / 2 * 2);
    if (p->role == SB_GATE_WEIGHT)
        return x;
    if (!is_input(p->role) || p->col / 2 * 2 + 1 == p->cols)
        return p->normal;
    return p->col % 2 ? p->normal - 64.0f * x : 64.0f * x;
}

static float value_of(sb_gate_regime regime, const place *p)
{
    switch (regime) {
    case SB_GATE_REGIME_negative:
        return negative(p);
    case SB_GATE_REGIME_ties:
        return ties(p);
    case SB_GATE_REGIME_tiny:
        return tiny(p);
    case SB_GATE_REGIME_least:
        return least(p);
    case SB_GATE_REGIME_subnormal:
        return subnormal(p);
    case SB_GATE_REGIME_huge:
        return huge(p);
    case SB_GATE_REGIME_zeros:
        return zeros(p);
    case SB_GATE_REGIME_one_hot:
        return one_hot(p);
    case SB_GATE_REGIME_index:
        return index_coded(p);
    case SB_GATE_REGIME_cancellation:
        return cancellation(p);
    default:
        return p->normal;
    }
}

void sb_gate_draw(const sb_gate_case *c, const char *name, sb_gate_role role, size_t rows,
                  size_t cols, float *values)
{
    char path[2 * SB_GATE_NAME + 8];
    sb_format format = SB_FORMAT_f32;
    sb_gate_regime regime = c->regime;
    snprintf(path, sizeof path, "gate.%s.%s", c->op->name, name);
    place p = {.key = sb_rng_key(c->seed, path),
               .input = c->input,
               .role = role,
               .rows = rows,
               .cols = cols};
    if (role != SB_GATE_STATE)
        sb_gate_format(c->input, &format);
    else if (regime != SB_GATE_REGIME_zeros)
        regime = SB_GATE_REGIME_normal;
    float order = order_of(role, cols);
    for (p.row = 0; p.row < rows; p.row++)
        for (p.col = 0; p.col < cols; p.col++) {
            size_t at = p.row * cols + p.col;
            p.normal = sb_rng_normal(p.key, at);
            values[at] = sb_round_to(format, order * value_of(regime, &p));
        }
}
