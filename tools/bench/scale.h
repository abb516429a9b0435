/* scale.h - from a checkpoint of few layers to one of the same shape with more. */
#ifndef SB_BENCH_SCALE_H
#define SB_BENCH_SCALE_H

#include <stdint.h>

#include "ref/container/checkpoint.h"
#include "ref/model/config.h"

/* Bytes and number of tensors, or of any other thing that layers add up to. */
typedef struct sb_bench_size {
    double bytes, tensors;
} sb_bench_size;

typedef struct sb_bench_scale {
    sb_bench_size linear, full; /* of one layer; of a kind that is absent, those of the other */
    sb_bench_size outside;      /* of everything outside the layers: embedding, head, MTP */
    sb_bench_size here, whole;  /* of the checkpoint, and of one with the given layers */
    uint32_t layers;            /* of the checkpoint */
    uint32_t whole_layers, whole_full;
    int has_linear, has_full;
} sb_bench_scale;

/* layers 0: those of the checkpoint. Otherwise whole = outside + F full + (layers - F) linear,
 * where F is a fourth of the layers; with as many layers as the checkpoint has, whole = here. */
sb_bench_scale sb_bench_scale_of(const sb_checkpoint *checkpoint, const sb_config *config,
                                 uint32_t layers);

#endif
