/* fixture.h - one folder of golden/quant, and the values that the library that wrote it reads from
 * it. */
#ifndef SB_TESTS_QUANT_FIXTURE_H
#define SB_TESTS_QUANT_FIXTURE_H

#include <jansson.h>

#include "ref/math/law.h"
#include "ref/model/detect.h"
#include "ref/ops/knobs.h"
#include "ref/run/model.h"

typedef struct quant_row {
    const char *name;
    sb_container container;
    sb_law law;
    sb_law narrow; /* the law for values that are then rounded to BF16 or F16 */
    const char *settings;
} quant_row;

/* The rows of fixtures.def, or of written.def where SAMEBIT_WRITTEN is set; NULL behind the last.
 */
const quant_row *quant_row_at(size_t i);

typedef struct quant_fixture {
    const quant_row *row;
    sb_model *model;
    sb_checkpoint *expect; /* NAME.expect.safetensors */
    json_t *digests;       /* NAME.expect.json */
    sb_knobs exact;        /* profile exact, inputs quantized as the library does */
    sb_knobs theirs;       /* the same with the library's law */
} quant_fixture;

/* Asserts that everything opens. */
void quant_fixture_open(const quant_row *row, quant_fixture *fixture);
void quant_fixture_close(quant_fixture *fixture);

/* The layer of a module that the library has quantized; asserts that it exists and is stored as the
 * row says. */
sb_matrix quant_layer(const quant_fixture *fixture, const char *module);

/* A recorded tensor as binary32, NULL if there is none; free() it. count is its number of values.
 */
float *quant_values(const quant_fixture *fixture, const char *name, size_t *count);

#endif
