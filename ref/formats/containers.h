/* containers.h - the rows of containers.def: the containers of linear layers. */
#ifndef SB_FORMATS_CONTAINERS_H
#define SB_FORMATS_CONTAINERS_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sb_container {
#define SB_CONTAINER(id, name, tensors) SB_CONTAINER_##id,
#include "ref/formats/containers.def"
#undef SB_CONTAINER
    SB_CONTAINER_COUNT
} sb_container;

const char *sb_container_name(sb_container container);    /* "nvfp4-ct" */
const char *sb_container_tensors(sb_container container); /* its tensors, in one line */

#ifdef __cplusplus
}
#endif

#endif
