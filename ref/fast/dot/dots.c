#include "ref/fast/dot/dots.h"

#include "ref/fast/dot/dot.h"
#include "ref/fast/dot/lanes.h"

enum { FEW = 32 /* terms for which dot.h is used */ };

static float one_dot(const sb_dots_term *terms, size_t n, size_t j)
{
    float a[FEW], b[FEW];
    sb_exact acc;
    sb_exact_clear(&acc);
    for (size_t t = 0; t < n && n <= FEW; t++) {
        a[t] = terms[t].a[j];
        b[t] = terms[t].b[j * terms[t].b_stride];
    }
    if (n <= FEW)
        return sb_dot(a, b, n);
    for (size_t t = 0; t < n; t++)
        sb_exact_add_product(&acc, terms[t].a[j], terms[t].b[j * terms[t].b_stride]);
    return sb_exact_round(&acc);
}

void sb_dots(const sb_dots_term *terms, size_t n, size_t count, float *out)
{
    const sb_lane_kernels *lanes = sb_lanes();
    const size_t whole = lanes ? count - count % lanes->width : 0;
    for (size_t j = 0, some; j < whole; j += some) {
        some = whole - j < SB_LANES_COLUMNS ? whole - j : SB_LANES_COLUMNS;
        uint32_t open = lanes->dots(terms, n, j, some, sb_lanes_coefficient(n), out + j);
        for (size_t l = 0; open != 0; l++, open >>= 1)
            if (open & 1u)
                out[j + l] = one_dot(terms, n, j + l);
    }
    for (size_t j = whole; j < count; j++)
        out[j] = one_dot(terms, n, j);
}
