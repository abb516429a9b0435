/* fixture.h - a recording of transformers (tools/gen/hf_fixtures.py record) and the recorded model.
 *
 * The recording is in golden/hf (or $SAMEBIT_HF). The model is made again from its seed, in
 * $SAMEBIT_TMP or test-data of the build, and used only if its digest is the recorded one. */
#ifndef SB_TESTS_HF_FIXTURE_H
#define SB_TESTS_HF_FIXTURE_H

#include "ref/container/safetensors.h"
#include "ref/run/model.h"

/* The recordings that must exist: X(preset, type). T8_yarn is T8 under the rotation of R-24. */
#define HF_FIXTURES(X)                                                                             \
    X(T1, f32)                                                                                     \
    X(T2, f32)                                                                                     \
    X(T3, f32)                                                                                     \
    X(T4, f32)                                                                                     \
    X(T5, f32)                                                                                     \
    X(T7, f32)                                                                                     \
    X(T8, f32)                                                                                     \
    X(T8_yarn, f32)                                                                                \
    X(T1, bf16)                                                                                    \
    X(T2, bf16)                                                                                    \
    X(T3, bf16)                                                                                    \
    X(T4, bf16)                                                                                    \
    X(T5, bf16)                                                                                    \
    X(T7, bf16)                                                                                    \
    X(T8, bf16)                                                                                    \
    X(T8_yarn, bf16)

/* Memory that is freed all at once. */
typedef struct hf_arena {
    struct hf_piece *pieces;
} hf_arena;

/* count * size zeroed bytes; stops the test program if memory runs out. */
void *hf_alloc(hf_arena *arena, size_t count, size_t size);
float *hf_floats(hf_arena *arena, size_t count);
void hf_release(hf_arena *arena);

typedef struct hf_fixture {
    char name[32]; /* "T1.f32" */
    int bf16;      /* recorded in bfloat16, else in binary32 */
    char sha256[65];
    sb_safetensors file;
    sb_model *model;
    /* The layers recorded op by op. gdn is L if the model has no linear attention; dense is the
     * dense layer of a mixture, L if it has none. */
    unsigned gdn, attention, mlp, dense;
} hf_fixture;

/* Opens the recording and makes or reuses the model. Missing files are an error. */
sb_status hf_fixture_open(const char *preset, const char *type, hf_fixture *out, sb_error *err);
void hf_fixture_close(hf_fixture *fixture);

/* The tensor of a formatted name, or NULL. */
const sb_tensor *hf_find(const hf_fixture *fixture, const char *format, ...) SB_PRINTF(2, 3);

/* The rows (elements of axis 0), and the elements of a row. */
size_t hf_rows(const sb_tensor *tensor);
size_t hf_row_size(const sb_tensor *tensor);

/* All values; integers become whole numbers. */
float *hf_values(hf_arena *arena, const sb_tensor *tensor);

#endif
