/* act_plain.h - a second implementation of the activation quantizers of K-18 to K-23, for tests:
 * binary64 with a rounding to binary32 after every operation, encoders that search their tables,
 * one function for all forms of a knob. */
#ifndef SB_TESTS_UNIT_ACT_PLAIN_H
#define SB_TESTS_UNIT_ACT_PLAIN_H

#include "ref/formats/matrix.h"
#include "ref/ops/knobs.h"

/* A group of n <= 256 values after quantization. */
typedef struct plain_group {
    double scale; /* multiplies the codes; without the factor of the file */
    double code[256];
} plain_group;

/* scheme: "nvfp4", "mxfp4", "mxfp8", "group", "token" or "static"; form: the value of its knob. */
plain_group plain_quantize(const sb_knobs *knobs, const char *scheme, const char *form,
                           sb_factor input, const float *x, size_t n);

/* The nearest value of the format; a tie goes to the even code; saturating. */
double plain_e4m3(double x);
double plain_e2m1(double x);

#endif
