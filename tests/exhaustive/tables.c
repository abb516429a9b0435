/* tables.c - writes the constants of ref/math with MPFR: build/tables DIRECTORY
 *
 *   exp_table.inc   2^(j/32); ln2/32 in two parts; 32/ln2; 1/n! of e^r
 *   log_table.inc   log(1 + i/64), halved above 1.41, in two parts; ln2 in two parts; 1/n of log
 *   trig_table.inc  the first bits of 2/pi; pi/2; Taylor coefficients of sin and cos
 *
 * Every constant is rounded to nearest from 400 bits. A high part is a multiple of the unit written
 * beside it, so that the sums and products that the code calls exact are exact. */
#include <mpfr.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/table_file.h"

enum { PRECISION = 400 };

static FILE *create(const char *directory, const char *name)
{
    return table_file(directory, name, "tests/exhaustive/tables.c");
}

static void put(FILE *out, mpfr_t x)
{
    fprintf(out, "%a", mpfr_get_d(x, MPFR_RNDN));
}

static void define(FILE *out, const char *name, mpfr_t x)
{
    fprintf(out, "static const double %s = ", name);
    put(out, x);
    fprintf(out, ";\n");
}

/* high = x rounded to a multiple of 2^-unit; x becomes the remainder. */
static void split(mpfr_t high, mpfr_t x, unsigned unit)
{
    mpfr_mul_2ui(high, x, unit, MPFR_RNDN);
    mpfr_rint(high, high, MPFR_RNDN);
    mpfr_div_2ui(high, high, unit, MPFR_RNDN);
    mpfr_sub(x, x, high, MPFR_RNDN);
}

/* sign/n! or sign/n for n = first, first + step, ... Alternating signs start with -1. */
static void series(FILE *out, const char *name, int factorial, int alternating, unsigned first,
                   unsigned last, unsigned step)
{
    mpfr_t x;
    mpfr_init2(x, PRECISION);
    fprintf(out, "static const double %s[] = {", name);
    for (unsigned n = first, k = 0; n <= last; n += step, k++) {
        if (factorial)
            mpfr_fac_ui(x, n, MPFR_RNDN);
        else
            mpfr_set_ui(x, n, MPFR_RNDN);
        mpfr_si_div(x, alternating && k % 2 == 0 ? -1 : 1, x, MPFR_RNDN);
        fprintf(out, "%s", k == 0 ? "\n" : k % 4 == 0 ? ",\n" : ", ");
        put(out, x);
    }
    fprintf(out, "};\n");
    mpfr_clear(x);
}

static void write_exp(const char *directory)
{
    FILE *out = create(directory, "exp_table.inc");
    mpfr_t x, high;
    mpfr_inits2(PRECISION, x, high, (mpfr_ptr)0);
    mpfr_const_log2(x, MPFR_RNDN);
    mpfr_ui_div(x, 32, x, MPFR_RNDN);
    define(out, "PER_LN2", x);
    mpfr_const_log2(x, MPFR_RNDN);
    mpfr_div_ui(x, x, 32, MPFR_RNDN);
    split(high, x, 44);
    define(out, "LN2_32_HIGH", high);
    define(out, "LN2_32_LOW", x);
    series(out, "EXP_TAYLOR", 1, 0, 2, 6, 1);
    fprintf(out, "static const double ROOT[32] = {\n");
    for (unsigned j = 0; j < 32; j++) {
        mpfr_set_ui_2exp(x, j, -5, MPFR_RNDN);
        mpfr_exp2(x, x, MPFR_RNDN);
        put(out, x);
        fprintf(out, ",%s", j % 4 == 3 ? "\n" : " ");
    }
    fprintf(out, "};\n");
    mpfr_clears(x, high, (mpfr_ptr)0);
    fclose(out);
}

static void write_log(const char *directory)
{
    FILE *out = create(directory, "log_table.inc");
    mpfr_t x, high;
    mpfr_inits2(PRECISION, x, high, (mpfr_ptr)0);
    mpfr_const_log2(x, MPFR_RNDN);
    split(high, x, 40);
    define(out, "LN2_HIGH", high);
    define(out, "LN2_LOW", x);
    series(out, "LOG_TAYLOR", 0, 1, 2, 8, 1);
    fprintf(out, "static const struct {\n    double high, low;\n} LOG[65] = {\n");
    for (unsigned i = 0; i <= 64; i++) {
        mpfr_set_ui_2exp(x, 64 + i, i > 26 ? -7 : -6, MPFR_RNDN);
        mpfr_log(x, x, MPFR_RNDN);
        split(high, x, 40);
        fprintf(out, "{");
        put(out, high);
        fprintf(out, ", ");
        put(out, x);
        fprintf(out, "},%s", i % 2 == 1 ? "\n" : " ");
    }
    fprintf(out, "};\n");
    mpfr_clears(x, high, (mpfr_ptr)0);
    fclose(out);
}

static void write_trig(const char *directory)
{
    enum { WORDS = 8 };
    FILE *out = create(directory, "trig_table.inc");
    mpfr_t x, word;
    mpfr_inits2(PRECISION, x, word, (mpfr_ptr)0);
    mpfr_const_pi(x, MPFR_RNDN);
    mpfr_div_ui(x, x, 2, MPFR_RNDN);
    define(out, "HALF_PI", x);
    series(out, "SIN_TAYLOR", 1, 1, 3, 17, 2);
    series(out, "COS_TAYLOR", 1, 1, 2, 16, 2);
    fprintf(out, "/* 32 zero bits, then 2/pi in words of 32 bits, truncated. */\n");
    fprintf(out, "static const uint32_t TWO_OVER_PI[] = {0x00000000");
    mpfr_ui_div(x, 1, x, MPFR_RNDD);
    for (unsigned i = 0; i < WORDS; i++) {
        mpfr_mul_2ui(x, x, 32, MPFR_RNDD);
        mpfr_floor(word, x);
        mpfr_sub(x, x, word, MPFR_RNDD);
        fprintf(out, ",%s0x%08lx", i % 4 == 0 ? "\n" : " ", mpfr_get_ui(word, MPFR_RNDD));
    }
    fprintf(out, "};\n");
    mpfr_clears(x, word, (mpfr_ptr)0);
    fclose(out);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: tables DIRECTORY\n");
        return 2;
    }
    write_exp(argv[1]);
    write_log(argv[1]);
    write_trig(argv[1]);
    mpfr_free_cache();
    return 0;
}
