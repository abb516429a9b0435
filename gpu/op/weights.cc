/* weights.cc - packed matrices, which are kept in a hash table. Several matrices may lie in one
 * piece of memory, one after the other. */
#include "gpu/kernel/pack.h"
#include "gpu/meter/body.h"
#include "gpu/op/body.h"

#include <stdlib.h>
#include <string.h>

static bool same(const sb_gpu_key &a, const sb_gpu_key &b)
{
    return a.data == b.data && a.row_map == b.row_map && a.scales == b.scales &&
           a.zero_points == b.zero_points && a.pack == b.pack && a.rows == b.rows &&
           a.cols == b.cols && a.first_row == b.first_row && a.format == b.format;
}

/* Returns the place of a key, or the free place for it. No result depends on the order of places.
 */
static sb_gpu_weight *find(sb_gpu_weight *weights, size_t room, const sb_gpu_key &key)
{
    size_t at = (reinterpret_cast<uintptr_t>(key.data) >> 4) * 0x9e3779b97f4a7c15u >> 20;
    at += key.first_row * 0x9e3779b1u;
    for (at &= room - 1; weights[at].share.of && !same(weights[at].key, key);)
        at = (at + 1) & (room - 1);
    return &weights[at];
}

static sb_gpu_key key_of(const sb_matrix *m, sb_gpu_pack pack)
{
    return {m->data, m->row_map,   m->quant.scales, m->quant.zero_points, pack, m->rows,
            m->cols, m->first_row, m->format};
}

/* Grows the table so that `more` new matrices leave half of the places free. */
static bool grow(sb_gpu *gpu, size_t more)
{
    size_t room = gpu->weight_room ? gpu->weight_room : 256;
    while ((gpu->weight_count + more) * 2 > room)
        room *= 2;
    if (room == gpu->weight_room)
        return true;
    sb_gpu_weight *weights = static_cast<sb_gpu_weight *>(sb_alloc(room, sizeof(sb_gpu_weight)));
    if (!weights)
        return false;
    for (size_t i = 0; i < gpu->weight_room; i++)
        if (gpu->weights[i].share.of)
            *find(weights, room, gpu->weights[i].key) = gpu->weights[i];
    free(gpu->weights);
    gpu->weights = weights;
    gpu->weight_room = room;
    return true;
}

/* Removes one user of the memory, and frees memory without users. */
static void leave(sb_gpu *gpu, sb_gpu_kept *kept)
{
    if (!kept || --kept->users)
        return;
    sb_gpu_drop(gpu, &kept->piece);
    free(kept);
}

void sb_gpu_forget_weights(sb_gpu *gpu)
{
    for (size_t i = 0; i < gpu->weight_room; i++)
        leave(gpu, gpu->weights[i].share.of);
    free(gpu->weights);
    gpu->weights = nullptr;
    gpu->weight_count = gpu->weight_room = 0;
    sb_gpu_forget_constants(gpu);
}

sb_status sb_gpu_unpacked(sb_gpu *gpu, const char *name, sb_status status)
{
    return status == SB_ERR_MEMORY
               ? sb_fail(&gpu->err, status, "out of memory for %s", name)
               : sb_fail(&gpu->err, status, "%s: its matrix could not be packed", name);
}

sb_gpu_part sb_gpu_work::part_of(const sb_gpu_share &share)
{
    return {share.of ? &share.of->piece : nullptr, share.offset, share.bytes};
}

/* Returns the memory where all these matrices already lie one after the other. Its `of` is NULL if
 * there is no such memory. */
static sb_gpu_share together(sb_gpu *gpu, const sb_gpu_matrices &all, sb_gpu_pack pack,
                             size_t bytes)
{
    sb_gpu_share whole = sb_gpu_share();
    for (size_t i = 0; i < all.count; i++) {
        const sb_gpu_key key = key_of(all.at(i), pack);
        const sb_gpu_share one = find(gpu->weights, gpu->weight_room, key)->share;
        if (i == 0)
            whole = {one.of, one.offset, all.count * bytes};
        if (!one.of || one.of != whole.of || one.offset != whole.offset + i * bytes)
            return sb_gpu_share();
    }
    return whole;
}

/* Each matrix becomes a user of its part, and leaves its earlier memory. Y-63: "where one expert's
 * layer is asked for alone, it reads its part of them" */
static void enter(sb_gpu *gpu, const sb_gpu_matrices &all, sb_gpu_pack pack, size_t bytes,
                  sb_gpu_kept *kept)
{
    kept->users += all.count;
    for (size_t i = 0; i < all.count; i++) {
        const sb_gpu_key key = key_of(all.at(i), pack);
        sb_gpu_weight *place = find(gpu->weights, gpu->weight_room, key);
        gpu->weight_count += !place->share.of;
        leave(gpu, place->share.of);
        *place = {key, {kept, i * bytes, bytes}};
    }
}

sb_gpu_share sb_gpu_work::keep(const char *name, const sb_gpu_matrices &all, sb_gpu_pack pack,
                               size_t bytes, size_t step)
{
    if (!ok())
        return sb_gpu_share();
    sb_gpu_kept *kept = nullptr;
    if (grow(gpu, all.count)) {
        const sb_gpu_share whole = together(gpu, all, pack, bytes);
        if (whole.of)
            return whole;
        if (gpu->mode == SB_GPU_COUNTS) {
            gpu->counted += all.count * bytes;
            return sb_gpu_share();
        }
        if (gpu->sealed) {
            did(sb_fail(err(), SB_ERR_USAGE, "%s: its matrix was not copied to the device before",
                        name));
            return sb_gpu_share();
        }
        kept = static_cast<sb_gpu_kept *>(sb_alloc(1, sizeof *kept));
    }
    if (!kept) {
        did(sb_fail(err(), SB_ERR_MEMORY, "out of memory for %s", name));
        return sb_gpu_share();
    }
    did(sb_gpu_is_hollow(gpu, all.first)
            ? sb_gpu_draw(gpu, &kept->piece, name, all, pack, bytes)
            : sb_gpu_fill(gpu, &kept->piece, name, all, pack, bytes, step));
    if (ok()) {
        gpu->packed += all.count * bytes;
        enter(gpu, all, pack, bytes, kept);
        return {kept, 0, all.count * bytes};
    }
    sb_gpu_drop(gpu, &kept->piece);
    free(kept);
    return sb_gpu_share();
}

/* --- values of matrices that are not quantized ------------------------------------------------ */
static bool is_plain(sb_gpu_work *work, const char *name, const sb_matrix *m)
{
    if (sb_matrix_quantized(m))
        work->did(sb_fail(work->err(), SB_ERR_UNSUPPORTED,
                          "%s is quantized, and no kernel reads it in this form", name));
    return !sb_matrix_quantized(m);
}

sb_global<const float> sb_gpu_work::values(const char *name, const sb_matrix *m)
{
    const size_t row = m->cols * sizeof(float);
    if (!is_plain(this, name, m))
        return nullptr;
    return kept<float>(name, m, sb_pack_values, m->rows * row, row);
}

sb_global<const uint16_t> sb_gpu_work::values_bf16(const char *name, const sb_matrix *m)
{
    const size_t row = m->cols * sizeof(uint16_t);
    if (!is_plain(this, name, m))
        return nullptr;
    return kept<uint16_t>(name, m, sb_pack_bf16, m->rows * row, row);
}
