#include "tests/gpu/atom_host.h"

#include <string.h>

#include "gpu/atom/convert.h"
#include "gpu/atom/host/warp.h"
#include "ref/base/bytes.h"

/* The kernel atom_convert. */
static void fold(const uint32_t *in, uint32_t *out)
{
    const uint32_t *a = in, *c = in + 8;
    const float low = sb_f32_from_bits(c[0]), high = sb_f32_from_bits(c[1]);
    uint32_t pair[2];
    sb_cvt_bf16x4_e2m1x4(pair, a[0]);
    out[0] = sb_cvt_bf16x2_f32(low, high) ^ sb_cvt_f16x2_e2m1x2(a[1] & 0xff);
    out[1] = sb_cvt_e4m3x2_f32(low, high) | sb_cvt_e2m1x2_f32(low, high) << 16;
    out[2] = sb_cvt_f16x2_e4m3x2(a[2] & 0xffff) ^ pair[0];
    out[3] = sb_cvt_bf16x2_e4m3x2(a[3] & 0xffff) ^ pair[1];
}

static void multiply(int which, const atom_warp *w, float d[32][4])
{
    switch (which) {
    case DEVICE_ATOM_bf16:
        sb_warp_mma_bf16(w->a, w->b, d);
        break;
    case DEVICE_ATOM_f16:
        sb_warp_mma_f16(w->a, w->b, d);
        break;
    case DEVICE_ATOM_e4m3:
    case DEVICE_ATOM_e4m3_portable:
        sb_warp_mma_e4m3(w->a, w->b, d);
        break;
    default:
        sb_warp_mma_nvfp4(w->a, w->b, w->sa, w->sb, w->from_a, w->from_b, d);
    }
}

void atom_host(int which, const atom_warp *w, const uint32_t *in, int odd, uint32_t *out)
{
    float d[32][4];
    uint32_t bits[32][4];
    int32_t sums[32][4];
    if (which == DEVICE_ATOM_s8) {
        memcpy(sums, w->c, sizeof sums);
        sb_warp_mma_s8(w->a, w->b, sums);
        memcpy(out, sums, sizeof sums);
    } else if (which == DEVICE_ATOM_ldmatrix) {
        sb_warp_ldmatrix(w->a, 4, odd, bits);
        memcpy(out, bits, sizeof bits);
    } else if (which == DEVICE_ATOM_convert) {
        for (unsigned lane = 0; lane < 32; lane++)
            fold(in + lane * DEVICE_IN, out + lane * DEVICE_OUT);
    } else {
        memcpy(d, w->c, sizeof d);
        multiply(which, w, d);
        memcpy(out, d, sizeof d);
    }
}
