/* origin.h - the number that a conversion replaced by its reciprocal.
 *
 * D-7: "A conversion keeps each number that it replaces" - the number is in the metadata, under the
 * name of the tensor that now contains the reciprocal. */
#ifndef SB_MODEL_ORIGIN_H
#define SB_MODEL_ORIGIN_H

#include "ref/container/checkpoint.h"

/* Keys of the metadata are "<prefix><name of the tensor>". */
/* 8 hexadecimal digits per element: the bits of its binary32 */
#define SB_ORIGIN_PREFIX "samebit.origin."
/* dtype, shape and name before the conversion: "F32 [1] name" */
#define SB_STORED_PREFIX "samebit.stored."

enum { SB_ORIGIN_KEY = SB_MAX_TENSOR_NAME + 16 };

/* RN(1 / x), and infinity for 0. */
float sb_reciprocal(float x);

/* Reads the origin of element e of a tensor of `count` elements; the element has the binary32 value
 * `stored`. *origin is 0 if the metadata of the file has no origin. SB_ERR_INPUT if the origin is
 * damaged, or if `stored` is not its reciprocal. */
sb_status sb_origin_of(const sb_checkpoint *checkpoint, const sb_tensor *tensor, uint64_t count,
                       uint64_t e, float stored, float *origin, sb_error *err);

#endif
