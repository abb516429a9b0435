/* prop_rows.c - compares rows of every format with the definition, by every kernel and for many
 * inputs at once. Checks the promises of row.h one by one.
 *
 * SAMEBIT_CASES / 10 is the number of matrices (default 10000, about 70000 rows). */
#include "tests/lib/suite.h"

#include <mpfr.h>
#include <stdio.h>
#include <stdlib.h>

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "ref/formats/wide.h"
#include "ref/fast/dot/kernels.h"
#include "ref/fast/dot/row.h"
#include "ref/fast/dot/strips.h"
#include "tests/prop/rows_compare.h"

enum { EXACT_BITS = 1100 }; /* for sums of products of 2^-350 to 2^320, and of their magnitudes */

static rows_case c;

static unsigned long cases_wanted(void)
{
    const char *text = getenv("SAMEBIT_CASES");
    unsigned long n = text ? strtoul(text, NULL, 10) : 0;
    return (n ? n : 100000) / 10;
}

TEST(test_rows_equal_the_definition)
{
    const uint64_t key = sb_rng_key(42, "rows");
    unsigned long rows[ROWS_FAMILY_COUNT] = {0}, all = 0, strips = 0;
    for (unsigned long i = 0; i < cases_wanted(); i++) {
        float want[ROWS_MOST * ROWS_INPUTS];
        char text[256];
        rows_make(&c, key, i);
        rows_define(&c, want);
        if (rows_compare(&c, want, text))
            fail_msg("%s", text);
        rows[c.family] += c.count * c.matrix.rows;
        all += c.count * c.matrix.rows;
        strips += (unsigned long)sb_strips_read(&c.matrix);
    }
    assert_true(strips > all / 1000 || !sb_dot_kernels_now()->strip);
    print_message("%lu rows:", all);
    for (int f = 0; f < ROWS_FAMILY_COUNT; f++) {
        print_message(" %s %lu", rows_family_name((rows_family)f), rows[f]);
        assert_true(rows[f] > all / 200);
    }
    print_message("\n");
}

/* --- what a kernel promises ------------------------------------------------------------------- */

/* The result of a row's kernel, and the exact sums of the row. */
typedef struct sight {
    sb_partial partial;
    size_t steps;
    mpfr_t sum, size; /* of the products and of their magnitudes */
} sight;

static void exact_sums(sight *s, const double *values, const double *x, size_t n)
{
    mpfr_t product;
    mpfr_init2(product, EXACT_BITS);
    mpfr_set_zero(s->sum, 1);
    mpfr_set_zero(s->size, 1);
    for (size_t k = 0; k < n; k++) {
        mpfr_set_d(product, values[k], MPFR_RNDN);
        mpfr_mul_d(product, product, x[k], MPFR_RNDN);
        assert_int_equal(mpfr_add(s->sum, s->sum, product, MPFR_RNDN), 0);
        mpfr_abs(product, product, MPFR_RNDN);
        assert_int_equal(mpfr_add(s->size, s->size, product, MPFR_RNDN), 0);
    }
    mpfr_clear(product);
}

/* |sum - S| divided by steps * 2^-53 * magnitude. Asserts before that the magnitude is large
 * enough. */
static double share_of_bound(const sight *s)
{
    const double slack = 1 + (double)s->steps * 0x1p-53;
    const double bound = (double)s->steps * 0x1p-53 * s->partial.magnitude;
    mpfr_t error;
    mpfr_init2(error, EXACT_BITS);
    mpfr_sub_d(error, s->sum, s->partial.sum, MPFR_RNDN);
    const double size = mpfr_get_d(error, MPFR_RNDU);
    mpfr_clear(error);
    assert_true(mpfr_cmp_d(s->size, s->partial.magnitude * slack) <= 0);
    return size == 0 ? 0 : (size < 0 ? -size : size) / bound;
}

static double check_row(const sb_dot_kernels *set, uint32_t row, sight *s)
{
    static double room[2 * ROWS_COLS], input_room[8 * ROWS_COLS], values[ROWS_COLS];
    const size_t n = c.matrix.cols;
    const sb_row_codes codes = sb_row_open(&c.matrix, row, room);
    assert_true(sb_row_workspace(&c.matrix) <= 2 * ROWS_COLS);
    assert_true(sb_row_input_workspace(&c.matrix) <= 8 * ROWS_COLS);
    const sb_row_input input = sb_row_prepare(&c.matrix, c.x, input_room);
    sb_matrix_wide(&c.matrix, row, values);
    s->partial = set->row[c.matrix.format](&codes, &input);
    s->steps = sb_row_roundings(n);
    exact_sums(s, values, c.x, n);
    const double share = share_of_bound(s);
    if (!(share <= 1))
        fail_msg("%s: %s: row %u: %.3g of the bound", set->name, rows_text(&c), (unsigned)row,
                 share);
    return share;
}

/* True if the rounding test with this bound would accept a result that differs from the
 * definition's. */
static int misled(const sight *s, size_t steps, float want)
{
    float rounded;
    return sb_round_within(s->partial, steps, &rounded) &&
           sb_bits_f32(rounded) != sb_bits_f32(want);
}

/* Also counts how often the comparison above sees a kernel with an eighth of its bound, or a kernel
 * that drops an element. */
TEST(test_kernels_keep_their_promises)
{
    const uint64_t key = sb_rng_key(42, "promises");
    sight s;
    double worst = 0;
    unsigned long looked = 0, certain = 0, plain = 0, eighth = 0, dropped = 0;
    mpfr_inits2(EXACT_BITS, s.sum, s.size, (mpfr_ptr)0);
    for (unsigned long i = 0; i < 3000; i++) {
        rows_make(&c, key, i);
        if (c.family == ROWS_poison)
            continue;
        for (size_t k = 1; sb_dot_set(k); k++) {
            assert_int_equal(sb_dot_select(sb_dot_set(k)->name, NULL), SB_OK);
            if (!sb_row_reads(&c.matrix))
                continue;
            const double share = check_row(sb_dot_set(k), 0, &s);
            const float want = mpfr_zero_p(s.sum) ? 0.0f : mpfr_get_flt(s.sum, MPFR_RNDN);
            float rounded;
            worst = share > worst ? share : worst;
            looked++;
            plain += c.family == ROWS_plain;
            certain += c.family == ROWS_plain && sb_round_within(s.partial, s.steps, &rounded);
            assert_false(misled(&s, s.steps, want));
            eighth += (unsigned long)misled(&s, s.steps / 8, want);
            s.partial.sum -= c.x[0] * 1e-3;
            dropped += (unsigned long)misled(&s, s.steps, want);
        }
    }
    mpfr_clears(s.sum, s.size, (mpfr_ptr)0);
    print_message("%lu rows, largest error %.2f of its bound; of %lu plain ones %lu certain; an "
                  "eighth of the bound would err in %lu, a lost term in %lu\n",
                  looked, worst, plain, certain, eighth, dropped);
    assert_true(worst > 0.2 && certain > plain * 9 / 10);
    assert_true(eighth > 10 && dropped > looked / 4);
}
