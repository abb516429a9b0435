/* math_tables.c - writes the constants of gpu/math with MPFR: build/tests/gpu/math_tables DIRECTORY
 *
 *   exp_table.inc   2^(j/32) as pairs of binary32; ln2/32 in three parts; 32/ln2; 1/n! of e^r
 *   log_table.inc   v = RN(64/i) and -log v as a pair; ln2 in three parts
 *   log_series.inc  1/n of log(1 + r)
 *   trig_reduce.inc pi/2 in binary64, the first bits of 2/pi
 *   trig_series.inc 1/n! of sine and cosine, in binary64
 *
 * Every constant is rounded to nearest from 400 bits. The second number of a pair is the rounded
 * rest. The parts of ln2 are short enough for exact products with n in gpu/math. */
#include <mpfr.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/table_file.h"

enum { PRECISION = 400, LOG_FIRST = 45, LOG_LAST = 91 };

static FILE *create(const char *directory, const char *name)
{
    return table_file(directory, name, "tests/gpu/math_tables.c");
}

/* The first `bits` bits of x, rounded to nearest; x becomes the remainder. */
static double part(mpfr_t x, unsigned bits)
{
    mpfr_t high;
    mpfr_init2(high, bits);
    mpfr_set(high, x, MPFR_RNDN);
    mpfr_sub(x, x, high, MPFR_RNDN);
    double value = mpfr_get_d(high, MPFR_RNDN);
    mpfr_clear(high);
    return value;
}

static void define(FILE *out, const char *name, double value)
{
    fprintf(out, "static const float %s = %af;\n", name, value);
}

static void write_exp(const char *directory)
{
    FILE *out = create(directory, "exp_table.inc");
    mpfr_t x;
    mpfr_init2(x, PRECISION);
    mpfr_const_log2(x, MPFR_RNDN);
    mpfr_ui_div(x, 32, x, MPFR_RNDN);
    define(out, "PER_LN2", part(x, 24));
    mpfr_const_log2(x, MPFR_RNDN);
    mpfr_div_ui(x, x, 32, MPFR_RNDN);
    define(out, "LN2_A", part(x, 24));
    define(out, "LN2_B", part(x, 11));
    define(out, "LN2_C", part(x, 24));
    for (unsigned n = 3; n <= 6; n++) {
        char name[8];
        snprintf(name, sizeof name, "C%u", n);
        mpfr_fac_ui(x, n, MPFR_RNDN);
        mpfr_ui_div(x, 1, x, MPFR_RNDN);
        define(out, name, part(x, 24));
    }
    fprintf(out, "static const float ROOT[64] = {\n");
    for (unsigned j = 0; j < 32; j++) {
        mpfr_set_ui(x, j, MPFR_RNDN);
        mpfr_div_ui(x, x, 32, MPFR_RNDN);
        mpfr_exp2(x, x, MPFR_RNDN);
        double high = part(x, 24), low = part(x, 24);
        fprintf(out, "%af, %af,%s", high, low, j % 2 ? "\n" : " ");
    }
    fprintf(out, "};\n");
    mpfr_clear(x);
    fclose(out);
}

/* sign/n! for n = first, first + 2, ... The sign alternates and starts with -1. */
static void series(FILE *out, const char *name, unsigned first, unsigned last)
{
    mpfr_t x;
    mpfr_init2(x, PRECISION);
    fprintf(out, "static const double %s[] = {\n", name);
    for (unsigned n = first, k = 0; n <= last; n += 2, k++) {
        mpfr_fac_ui(x, n, MPFR_RNDN);
        mpfr_si_div(x, k % 2 ? 1 : -1, x, MPFR_RNDN);
        fprintf(out, "%a,%s", mpfr_get_d(x, MPFR_RNDN), k % 4 == 3 ? "\n" : " ");
    }
    fprintf(out, "};\n");
    mpfr_clear(x);
}

/* 2/pi in 32-bit words after a word of zeros; word 1 starts with the weight 2^-1. */
static void write_trig(const char *directory)
{
    FILE *out = create(directory, "trig_reduce.inc");
    mpfr_t x;
    mpfr_init2(x, PRECISION);
    mpfr_const_pi(x, MPFR_RNDN);
    mpfr_div_2ui(x, x, 1, MPFR_RNDN);
    fprintf(out, "static const double HALF_PI = %a;\n", mpfr_get_d(x, MPFR_RNDN));
    mpfr_ui_div(x, 1, x, MPFR_RNDN);
    fprintf(out, "static const uint32_t TWO_OVER_PI[] = {0x00000000u,");
    for (unsigned i = 0; i < 8; i++) {
        mpfr_mul_2ui(x, x, 32, MPFR_RNDN);
        unsigned long word = mpfr_get_ui(x, MPFR_RNDZ);
        mpfr_sub_ui(x, x, word, MPFR_RNDN);
        fprintf(out, "%s0x%08lxu", i == 0 ? " " : i % 4 ? ", " : ",\n", word);
    }
    fprintf(out, "};\n");
    mpfr_clear(x);
    fclose(out);
    out = create(directory, "trig_series.inc");
    series(out, "SINE", 3, 17);
    series(out, "COSINE", 2, 18);
    fclose(out);
}

static void write_log(const char *directory)
{
    FILE *out = create(directory, "log_table.inc");
    mpfr_t x;
    mpfr_init2(x, PRECISION);
    mpfr_const_log2(x, MPFR_RNDN);
    define(out, "LN2_A", part(x, 16));
    define(out, "LN2_B", part(x, 16));
    define(out, "LN2_C", part(x, 24));
    fprintf(out, "static const int LOG_FIRST = %d;\nstatic const float LOG[] = {\n", LOG_FIRST);
    for (unsigned i = LOG_FIRST; i <= LOG_LAST; i++) {
        mpfr_set_ui(x, 64, MPFR_RNDN);
        mpfr_div_ui(x, x, i, MPFR_RNDN);
        double v = part(x, 24);
        mpfr_set_d(x, v, MPFR_RNDN);
        mpfr_log(x, x, MPFR_RNDN);
        mpfr_neg(x, x, MPFR_RNDN);
        double high = mpfr_zero_p(x) ? 0 : part(x, 24), low = mpfr_zero_p(x) ? 0 : part(x, 24);
        fprintf(out, "%af, %af, %af,\n", v, high, low);
    }
    fprintf(out, "};\n");
    fclose(out);

    out = create(directory, "log_series.inc");
    for (unsigned n = 3; n <= 8; n++) {
        char name[8];
        snprintf(name, sizeof name, "D%u", n);
        mpfr_set_si(x, n % 2 ? 1 : -1, MPFR_RNDN);
        mpfr_div_ui(x, x, n, MPFR_RNDN);
        define(out, name, part(x, 24));
        if (n == 3)
            define(out, "D3_LOW", part(x, 24));
    }
    mpfr_clear(x);
    fclose(out);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
        return 2;
    }
    write_exp(argv[1]);
    write_log(argv[1]);
    write_trig(argv[1]);
    mpfr_free_cache();
    return 0;
}
