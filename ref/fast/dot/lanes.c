#include "ref/fast/dot/lanes.h"

#include "ref/fast/dot/kernels.h"

const sb_lane_kernels *sb_lanes(void)
{
    const char *name = sb_dot_selected(); /* a pointer to the set's own string, so == is enough */
    if (name == sb_dot_set(0)->name)
        return NULL;
    if ((sb_dot_avx512 && name == sb_dot_avx512->name) ||
        (sb_dot_avx512vnni && name == sb_dot_avx512vnni->name))
        return sb_lanes_avx512;
    if (sb_dot_avx2 && name == sb_dot_avx2->name)
        return sb_lanes_avx2;
    return sb_lanes_scalar;
}
