#include "tools/make/normal.h"

#include "ref/base/rng.h"

void sb_normals(uint64_t key, uint64_t first, size_t n, float *out)
{
    for (size_t i = sb_normals_avx512(key, first, n, out); i < n; i++)
        out[i] = sb_rng_normal(key, first + i);
}
