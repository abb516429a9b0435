#include "ref/formats/containers.h"

static const struct {
    const char *name, *tensors;
} containers[] = {
#define SB_CONTAINER(id, name, tensors) {name, tensors},
#include "ref/formats/containers.def"
#undef SB_CONTAINER
};

const char *sb_container_name(sb_container container)
{
    return containers[container].name;
}

const char *sb_container_tensors(sb_container container)
{
    return containers[container].tensors;
}
