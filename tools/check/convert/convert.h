/* convert.h - writes a checkpoint in the other dialect of NVFP4: D-7.
 *
 * Codes and block scales keep their bytes. The scalars of weights and inputs are multipliers in one
 * dialect and divisors in the other, so they become their reciprocals. The original number is kept
 * as metadata, and converting back restores it. */
#ifndef SB_CONVERT_CONVERT_H
#define SB_CONVERT_CONVERT_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"

typedef struct sb_convert_options {
    const char *source, *target; /* folders */
    const char *to;              /* "nvfp4-ct" or "nvfp4-modelopt" */
    int replace;                 /* the target may be a checkpoint, which is replaced */
    void (*progress)(void *ctx, const char *what, uint64_t done, uint64_t total);
} sb_convert_options;

/* The scalars of one kind of layer. */
typedef struct sb_scalars {
    char kind[128]; /* "mlp.experts.gate_proj" */
    int of_inputs;  /* 0: of the weights */
    uint64_t count;
    uint64_t restored; /* restored from their origin; the rest became reciprocals */
    uint64_t exact;    /* x * y == 1 */
    uint64_t lost;     /* RN(1 / y) != x: the reciprocal of the reciprocal differs */
    double largest;    /* |x * y - 1| */
} sb_scalars;

typedef struct sb_conversion {
    sb_scalars *scalars; /* in order of kind, weights before inputs */
    size_t scalar_count;
    uint64_t layers;     /* converted layers */
    uint64_t fp8_layers; /* FP8 per tensor, kept except for the shape of their scales */
    uint64_t copied;     /* unchanged tensors */
    uint64_t files;      /* copied files without tensors */
    char **folders;      /* names of folders in the source, which are not copied */
    size_t folder_count;
} sb_conversion;

/* Everything is written to "<target>.partial", read again and, if complete, renamed. Refuses a
 * target that is the source or that exists (unless replace), layers that the dialect cannot declare
 * (SB_ERR_UNSUPPORTED), a factor of 0, and a damaged origin (SB_ERR_INPUT). */
sb_status sb_convert(const sb_convert_options *options, sb_conversion *out, sb_error *err);
void sb_conversion_free(sb_conversion *conversion);

#endif
