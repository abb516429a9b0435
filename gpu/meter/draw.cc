/* draw.cc - fills the packed form of a matrix with random numbers (B-18). */
#include "gpu/kernel/lowbit_pack.h"
#include "gpu/kernel/pack.h"
#include "gpu/meter/body.h"
#include "gpu/meter/draw.cuh"

void sb_gpu_draws(sb_gpu *gpu, const void *first, size_t bytes, uint64_t seed)
{
    gpu->hollow = {static_cast<const unsigned char *>(first), bytes, seed};
}

bool sb_gpu_is_hollow(const sb_gpu *gpu, const sb_matrix *matrix)
{
    const uintptr_t first = reinterpret_cast<uintptr_t>(gpu->hollow.first);
    return reinterpret_cast<uintptr_t>(matrix->data) - first < gpu->hollow.bytes;
}

/* --- the size of weights ---------------------------------------------------------------------- */
/* The root mean square of weights is about 1 / sqrt(K), so that outputs are about as large as
 * inputs. */

/* The biased exponent of about 1 / sqrt(n) in bfloat16: 127, less one for each factor 4 in n. */
static uint32_t exponent_of(uint32_t n)
{
    uint32_t top = 127;
    for (; n >= 4; n /= 4)
        top--;
    return top;
}

/* A square root without libm, which the program does not link otherwise. */
static float root_of(float n)
{
    float root = n > 1 ? n : 1;
    for (int i = 0; i < 40; i++)
        root = (root + n / root) / 2;
    return root;
}

/* The scale for codes with the root mean square `spread`, such that scale, codes and the factor of
 * the matrix together give the wanted size. */
static float scale_of(const sb_matrix *m, float spread)
{
    const sb_factor f = m->quant.factor;
    const float factor = f.kind == SB_NO_FACTOR ? 1 : sb_factor_multiplier(f);
    return 1 / (root_of(static_cast<float>(m->cols)) * spread * 1.14f * factor);
}

static sb_status linear_tiles(const sb_matrix *m, sb_drawn_tiles *t)
{
    sb_linear_shape s;
    const sb_status status = sb_pack_shape(m, &s);
    t->period = s.tile_bytes / 16;
    t->scales_at = s.scale_at / 16;
    t->scales = s.codes == SB_CODES_nvfp4 ? SB_DRAWN_e4m3_scale : SB_DRAWN_scale;
    t->codes = s.codes == SB_CODES_bf16   ? SB_DRAWN_bf16
               : s.codes == SB_CODES_e4m3 ? SB_DRAWN_e4m3
                                          : SB_DRAWN_e2m1;
    t->scale = scale_of(m, s.codes == SB_CODES_e4m3 ? 7.0f : 2.93f);
    return sb_codes_integer(s.codes) ? SB_ERR_UNSUPPORTED : status;
}

static sb_status lowbit_tiles(const sb_matrix *m, bool of_scales, sb_drawn_tiles *t)
{
    const bool four = m->format == SB_FORMAT_e2m1;
    t->scale = scale_of(m, 7.0f);
    t->codes = of_scales ? (four ? SB_DRAWN_e4m3_scale : SB_DRAWN_scale)
               : four    ? SB_DRAWN_e2m1
                         : SB_DRAWN_e4m3;
    return SB_OK;
}

static sb_status tiles_of(const sb_matrix *m, sb_gpu_pack pack, sb_drawn_tiles *t)
{
    *t = {SB_DRAWN_bf16, SB_DRAWN_bf16, 1, 1, exponent_of(m->cols), 0};
    if (pack == sb_pack_linear)
        return linear_tiles(m, t);
    if (pack == sb_lowbit_code_bytes || pack == sb_lowbit_scale_bytes)
        return lowbit_tiles(m, pack == sb_lowbit_scale_bytes, t);
    if (pack == sb_pack_values)
        t->codes = SB_DRAWN_float;
    else if (pack == sb_pack_bf16)
        t->top = exponent_of(1); /* rows of an embedding, which are looked up, not summed */
    else
        return SB_ERR_UNSUPPORTED;
    return SB_OK;
}

/* The key of the random stream: depends on the place of the matrix in the hollow bytes and on its
 * packing. */
static uint64_t key_of(const sb_gpu *gpu, const sb_matrix *m, const sb_drawn_tiles *t)
{
    const uint64_t place = static_cast<uint64_t>(m->data - gpu->hollow.first);
    const uint64_t which = place * 8 + m->first_row * 131 + t->codes;
    return sb_counter_bits(sb_counter_bits(gpu->hollow.seed, place), which);
}

sb_status sb_gpu_draw(sb_gpu *gpu, sb_gpu_piece *piece, const char *name,
                      const sb_gpu_matrices &all, sb_gpu_pack pack, size_t bytes)
{
    sb_drawn_tiles tiles;
    const size_t whole = all.count * bytes, words = (whole + 15) / 16;
    sb_status status = tiles_of(all.first, pack, &tiles);
    if (status)
        return sb_fail(&gpu->err, status, "%s: no kernel draws random weights in this packing",
                       name);
    status = sb_gpu_drawn_open(gpu, piece, name, words * 16);
    if (!status) {
#ifdef __CUDACC__
        const sb_global<uint4> to = static_cast<uint4 *>(piece->at);
#else
        const sb_global<uint4> to(&piece->region);
#endif
        status = SB_LAUNCH(&gpu->queue, sb_draw_weights, sb_gpu_blocks(words, 256), 256, 0, to,
                           words, tiles, key_of(gpu, all.first, &tiles));
    }
    return status ? status : sb_gpu_drawn_close(gpu, piece, name, whole);
}
