/* manifest.h - makes, writes, reads and compares manifests: the contents of a checkpoint, one line
 * per tensor, and the meaning of its layers, one line per matrix.
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
 * Lines are sorted bytewise by name. DIVISOR and INPUT are the bits of binary32 numbers, or "-". In
 * names a backslash and control characters are \xHH. */
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
    int in_layer; /* its meaning is in a line of values */
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

/* Reads all bytes of the checkpoint; with_values reads the layers a second time. */
sb_status sb_manifest_make(const sb_checkpoint *checkpoint, int with_values,
                           sb_hash_progress progress, sb_manifest *out, sb_error *err);
void sb_manifest_free(sb_manifest *manifest);

/* For the readers. add: appends an empty row; NULL if memory is out. close: computes the digests of
 * the rows, G-5 and D-8. */
sb_manifest_tensor *sb_manifest_add_tensor(sb_manifest *manifest);
sb_manifest_value *sb_manifest_add_value(sb_manifest *manifest);
sb_status sb_manifest_close(const sb_manifest *manifest, sb_digest *checkpoint, sb_digest *meaning,
                            sb_error *err);

/* A name as in a line of a manifest, and the end of the line. */
void sb_manifest_print_name(const char *name, FILE *out);

void sb_manifest_print(const sb_manifest *manifest, FILE *out);
json_t *sb_manifest_json(const sb_manifest *manifest, json_t *document); /* adds to document */

/* Reads text or JSON. SB_ERR_INPUT or SB_ERR_IO if it is damaged: the digest of its lines must
 * equal the one at its end. */
sb_status sb_manifest_load(const char *path, sb_manifest *out, sb_error *err);

/* One difference. Names belong to the manifests. */
typedef struct sb_difference {
    enum { SB_MANIFEST_DIFFERS, SB_MANIFEST_MISSING, SB_MANIFEST_EXTRA } kind;
    const char *name;
    const char *what; /* "bytes", "dtype or shape", "values", "divisor", ... */
} sb_difference;

typedef struct sb_differences {
    sb_difference *rows;
    size_t count, room;
} sb_differences;

/* Compares the tensors of `now` with those of `then`; by_values: compares the values, and the
 * tensors that belong to no layer. */
sb_status sb_manifest_compare(const sb_manifest *now, const sb_manifest *then, int by_values,
                              sb_differences *out, sb_error *err);
const char *sb_difference_name(const sb_difference *difference); /* "differs" */

#endif
