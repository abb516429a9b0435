/* origin.h - the number that stood in a checkpoint before a conversion put its reciprocal there.
 *
 * D-7: "A conversion keeps the number that it replaced" - as metadata, under the name of the tensor
 * that holds the reciprocal now. */
#ifndef SB_MODEL_ORIGIN_H
#define SB_MODEL_ORIGIN_H

#include "ref/container/checkpoint.h"

/* Keys of the metadata are "<prefix><name of the tensor>". */
#define SB_ORIGIN_PREFIX "samebit.origin." /* 8 hexadecimal digits per element: its binary32 */
#define SB_STORED_PREFIX "samebit.stored." /* what converting back restores: "F32 [1] name" */

enum { SB_ORIGIN_KEY = SB_MAX_TENSOR_NAME + 16 };

/* RN(1 / x), and infinity for 0. */
float sb_reciprocal(float x);

/* The origin of element e of a tensor of `count` elements, whose binary32 value is `stored`;
 * *origin is 0 if the metadata of its file has none. SB_ERR_INPUT if the origin is damaged, or
 * stored is not its reciprocal. */
sb_status sb_origin_of(const sb_checkpoint *checkpoint, const sb_tensor *tensor, uint64_t count,
                       uint64_t e, float stored, float *origin, sb_error *err);

#endif
