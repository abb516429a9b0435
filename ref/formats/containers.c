#include "ref/formats/containers.h"

static const struct {
    const char *name, *tensors;
    sb_quant_family family;
    int grid;
} containers[] = {
#define ROWS 0
#define GRID 1
#define SB_CONTAINER(id, name, family, scales, parts, packings, tensors)                           \
    {name, tensors, SB_FAMILY_##family, scales},
#include "ref/formats/containers.def"
#undef SB_CONTAINER
#undef ROWS
#undef GRID
    [SB_CONTAINER_COUNT] = {"", "", SB_FAMILY_NONE, 0},
};

const char *sb_container_name(sb_container container)
{
    return containers[container].name;
}

const char *sb_container_tensors(sb_container container)
{
    return containers[container].tensors;
}

sb_quant_family sb_container_family(sb_container container)
{
    return containers[container].family;
}

int sb_container_has_grid(sb_container container)
{
    return containers[container].grid;
}
