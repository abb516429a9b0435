#include "tests/lib/pairwise.h"

#include "tests/lib/cmocka.h"

#include <stdlib.h>

#include "ref/base/rng.h"

typedef struct cover {
    const pairwise_factor *factors;
    size_t count;
    pairwise_allowed allowed;
    uint64_t key;
    /* [f][i][g][j]: value i of factor f has met value j of factor g */
    unsigned char met[PAIRWISE_FACTORS][PAIRWISE_VALUES][PAIRWISE_FACTORS][PAIRWISE_VALUES];
} cover;

static size_t gain(cover *v, const pairwise_case *c, int mark)
{
    size_t fresh = 0;
    for (size_t f = 0; f < v->count; f++)
        for (size_t g = f + 1; g < v->count; g++) {
            unsigned char *met = &v->met[f][c->value[f]][g][c->value[g]];
            fresh += !*met;
            *met |= (unsigned char)mark;
        }
    return fresh;
}

static pairwise_case draw(const cover *v, size_t index)
{
    pairwise_case c = {{0}};
    for (size_t h = 0; h < v->count; h++)
        c.value[h] = sb_rng_below(v->key, index * v->count + h, (uint32_t)v->factors[h].count);
    return c;
}

/* The best of 40 drawn cases that contain a given pair; 0 if none of them is possible. */
static int next_case(cover *v, size_t index, size_t f, size_t i, size_t g, size_t j,
                     pairwise_case *best)
{
    size_t most = 0;
    for (size_t k = 0; k < 40; k++) {
        pairwise_case c = draw(v, index * 40 + k);
        c.value[f] = i;
        c.value[g] = j;
        size_t fresh = v->allowed && !v->allowed(&c) ? 0 : gain(v, &c, 0);
        if (fresh > most) {
            most = fresh;
            *best = c;
        }
    }
    return most > 0;
}

static cover *begin(const pairwise_factor *factors, size_t count, const char *stream,
                    pairwise_allowed allowed)
{
    cover *v = calloc(1, sizeof *v);
    assert_non_null(v);
    assert_true(count <= PAIRWISE_FACTORS);
    for (size_t f = 0; f < count; f++)
        assert_true(factors[f].count > 0 && factors[f].count <= PAIRWISE_VALUES);
    v->factors = factors;
    v->count = count;
    v->allowed = allowed;
    v->key = sb_rng_key(42, stream);
    return v;
}

size_t pairwise_cover(const pairwise_factor *factors, size_t count, const char *stream,
                      pairwise_allowed allowed, pairwise_case *cases, size_t room, size_t *pairs)
{
    cover *v = begin(factors, count, stream, allowed);
    size_t drawn = 0, all = 0;
    for (size_t f = 0; f < count; f++)
        for (size_t g = f + 1; g < count; g++)
            for (size_t i = 0; i < factors[f].count; i++)
                for (size_t j = 0; j < factors[g].count; j++) {
                    all++;
                    if (v->met[f][i][g][j])
                        continue;
                    assert_true(drawn < room);
                    if (next_case(v, drawn, f, i, g, j, &cases[drawn]))
                        gain(v, &cases[drawn++], 1);
                }
    free(v);
    if (pairs)
        *pairs = all;
    return drawn;
}

size_t pairwise_each(const pairwise_factor *factors, size_t count, pairwise_allowed allowed,
                     pairwise_case *cases, size_t room)
{
    size_t longest = 0;
    for (size_t f = 0; f < count; f++)
        longest = factors[f].count > longest ? factors[f].count : longest;
    assert_true(longest <= room && count <= PAIRWISE_FACTORS);
    for (size_t k = 0; k < longest; k++) {
        size_t turn = 0;
        do { /* shorter factors are shifted against each other, and further if a case is not
              * possible */
            for (size_t f = 0; f < count; f++) {
                size_t n = factors[f].count;
                cases[k].value[f] = n == longest ? k : (k + turn + k / n * f) % n;
            }
        } while (allowed && !allowed(&cases[k]) && turn++ < 40);
    }
    return longest;
}
