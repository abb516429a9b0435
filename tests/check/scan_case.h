/* scan_case.h - runs a scan over one drawn layer, and computes its results by the definitions: by
 * sb_matrix_wide element by element, and by a test of each code alone. */
#ifndef SB_TESTS_CHECK_SCAN_CASE_H
#define SB_TESTS_CHECK_SCAN_CASE_H

#include "tests/lib/quant_layer.h"
#include "tools/check/scan/scan.h"

typedef struct scan_case {
    quant_layer layer;
    sb_checkpoint *checkpoint;
    sb_unit unit;
    sb_matrix master; /* BF16; its bytes are master_bytes */
    unsigned char *master_bytes;
    double *scratch;
} scan_case;

/* The master has the values of the layer, moved by up to a tenth of the scale, or, for one in
 * eight, by up to the whole scale. */
scan_case scan_case_draw(const quant_spec *spec, uint64_t seed);
void scan_case_free(scan_case *c);

/* Runs a scan over panels of `rows` rows (0: all at once), with the master or without. */
sb_seen scan_case_run(const scan_case *c, void (*scan)(const sb_panel *), uint32_t rows,
                      int with_master);

/* Moments, zero rows and distance, by the definitions. */
sb_seen scan_case_defined(const scan_case *c, int with_master);

/* Asserts that two results agree: counts exactly, sums to 1e-9. */
void expect_same_seen(const char *what, const sb_seen *a, const sb_seen *b);

/* The same for sums that were made in binary32: they agree to `near`. */
void expect_near_seen(const char *what, const sb_seen *a, const sb_seen *b, double near);

#endif
