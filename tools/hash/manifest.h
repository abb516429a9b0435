/* manifest.h - what a checkpoint holds, one line a tensor, and what its layers mean, one line a
 * matrix: made, written, read back and compared.
 *
 * As text:
 *
 *   samebit-manifest 1
 *   tensor DIGEST DTYPE [2,3] NAME      a tensor; "part" in place of "tensor" if the manifest has
 *                                       lines of values and the tensor belongs to one of them
 *   value DIGEST EXACT DIVISOR INPUT CONTAINER NAME
 *   meaning DIGEST                      D-8
 *   checkpoint DIGEST                   G-5
 *
 * sorted bytewise by name. DIVISOR and INPUT are the bits of binary32 numbers, or "-". In names a
 * backslash and control characters are \xHH. */
#ifndef SB_HASH_MANIFEST_H
#define SB_HASH_MANIFEST_H

#include <stdio.h>

#include "ref/container/digest.h"
#include "ref/container/json.h"

typedef struct sb_manifest_tensor {
    char *name;
    sb_dtype dtype;
    unsigned rank;
    uint64_t shape[SB_MAX_RANK];
    sb_digest digest;
    int in_layer; /* what it means stands in a line of values */
} sb_manifest_tensor;

typedef struct sb_manifest_value {
    char *name;
    sb_digest values, exact;
    char divisor[9], input[9]; /* 8 hexadecimal digits, or "-" */
    char container[32];
} sb_manifest_value;

typedef struct sb_manifest {
    sb_manifest_tensor *tensors;
    size_t tensor_count, tensor_room;
    sb_manifest_value *values;
    size_t value_count, value_room;
    int has_values;
    sb_digest checkpoint, meaning;
} sb_manifest;

typedef void (*sb_hash_progress)(void *ctx, const char *what, uint64_t done, uint64_t total);

/* Reads all bytes of the checkpoint, and with_values the layers once more. */
sb_status sb_manifest_make(const sb_checkpoint *checkpoint, int with_values,
                           sb_hash_progress progress, sb_manifest *out, sb_error *err);
void sb_manifest_free(sb_manifest *manifest);

/* Empty rows at the end, for the readers; NULL if memory is out. The digests of the rows there are:
 * G-5 and D-8. */
sb_manifest_tensor *sb_manifest_add_tensor(sb_manifest *manifest);
sb_manifest_value *sb_manifest_add_value(sb_manifest *manifest);
sb_status sb_manifest_close(const sb_manifest *manifest, sb_digest *checkpoint, sb_digest *meaning,
                            sb_error *err);

void sb_manifest_print(const sb_manifest *manifest, FILE *out);
json_t *sb_manifest_json(const sb_manifest *manifest, json_t *document); /* adds to document */

/* Reads either form. SB_ERR_INPUT or SB_ERR_IO if it is damaged: the digests of its lines must be
 * the one at its end. */
sb_status sb_manifest_load(const char *path, sb_manifest *out, sb_error *err);

/* What differs. Names belong to the manifests. */
typedef struct sb_difference {
    enum { SB_MANIFEST_DIFFERS, SB_MANIFEST_MISSING, SB_MANIFEST_EXTRA } kind;
    const char *name;
    const char *what; /* "bytes", "dtype or shape", "values", "divisor", ... */
} sb_difference;

typedef struct sb_differences {
    sb_difference *rows;
    size_t count, room;
} sb_differences;

/* `now` against `then`: of the tensors; or, by_values, of the values and of the tensors that belong
 * to no layer. */
sb_status sb_manifest_compare(const sb_manifest *now, const sb_manifest *then, int by_values,
                              sb_differences *out, sb_error *err);
const char *sb_difference_name(const sb_difference *difference); /* "differs" */

#endif
