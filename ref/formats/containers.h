/* containers.h - the rows of containers.def: the containers of linear layers. */
#ifndef SB_FORMATS_CONTAINERS_H
#define SB_FORMATS_CONTAINERS_H

#ifdef __cplusplus
extern "C" {
#endif

/* The codes of a layer, and with NVFP4, MXFP4 and MXFP8 also their scales. */
typedef enum sb_quant_family {
    SB_FAMILY_NONE,
    SB_FAMILY_NVFP4, /* E2M1, an E4M3 scale per 16 columns, a binary32 scale per tensor */
    SB_FAMILY_MXFP4, /* E2M1, an E8M0 scale per 32 columns */
    SB_FAMILY_MXFP8, /* E4M3, an E8M0 scale per 32 columns */
    SB_FAMILY_FP8,   /* E4M3, scales as the strategy says */
    SB_FAMILY_INT    /* integers, scales as the strategy says */
} sb_quant_family;

typedef enum sb_container {
#define SB_CONTAINER(id, name, family, scales, parts, packings, tensors) SB_CONTAINER_##id,
#include "ref/formats/containers.def"
#undef SB_CONTAINER
    SB_CONTAINER_COUNT
} sb_container;

/* For each row of containers.def. SB_CONTAINER_COUNT is of family NONE and has no grid. */
const char *sb_container_name(sb_container container);    /* "nvfp4-ct" */
const char *sb_container_tensors(sb_container container); /* its tensors, in one line */
sb_quant_family sb_container_family(sb_container container);
int sb_container_has_grid(sb_container container); /* 1: a scale per block of rows and columns */

/* True if the codes are E2M1; if they are E4M3. */
static inline int sb_container_is_fp4(sb_container container)
{
    sb_quant_family family = sb_container_family(container);
    return family == SB_FAMILY_NVFP4 || family == SB_FAMILY_MXFP4;
}

static inline int sb_container_is_fp8(sb_container container)
{
    sb_quant_family family = sb_container_family(container);
    return family == SB_FAMILY_FP8 || family == SB_FAMILY_MXFP8;
}

#ifdef __cplusplus
}
#endif

#endif
