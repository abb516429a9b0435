/* warp.h - operations of a warp: each lane brings its operands, and the last lane to arrive
 * computes the results of all lanes.
 *
 *   Out sb_emu_warp<In, Out>(name, mask, in, apply)
 *
 * Every lane of the mask calls it with the same mask and apply, and gets its element of `out`.
 * `apply(mask, in, out)` is a pure function of 32 elements; the elements of lanes outside the mask
 * are zero. The operation does not order memory accesses; only __syncwarp does. */
#ifndef SB_GPU_EMU_WARP_H
#define SB_GPU_EMU_WARP_H

#include <string.h>

#include "gpu/emu/grid.h"
#include "gpu/emu/words.h"

/* A type-erased function pointer. All lanes must pass the same function and the same name. */
using sb_emu_operation = void();

/* Waits until all lanes of the mask have called this function, each with its box. The last lane
 * calls apply. */
void sb_emu_meet(const char *name, uint32_t mask, void *box, sb_emu_operation *operation,
                 void (*apply)(uint32_t mask, void *const *boxes), sb_emu_site site);

/* The lane of the running thread: its number in the block modulo 32. */
unsigned sb_emu_lane();

template <class In, class Out> struct sb_emu_box {
    const In *in;
    Out *out;
    void (*apply)(uint32_t mask, const In *in, Out *out);
};

template <class In, class Out> void sb_emu_open_boxes(uint32_t mask, void *const *boxes)
{
    In in[SB_EMU_WARP];
    Out out[SB_EMU_WARP];
    if (mask != 0xffffffffu)
        memset(static_cast<void *>(in), 0, sizeof in);
    memset(static_cast<void *>(out), 0, sizeof out);
    void (*apply)(uint32_t, const In *, Out *) = nullptr;
    for (int lane = 0; lane < SB_EMU_WARP; lane++) {
        if (!boxes[lane])
            continue;
        const auto *box = static_cast<const sb_emu_box<In, Out> *>(boxes[lane]);
        memcpy(static_cast<void *>(&in[lane]), box->in, sizeof(In));
        apply = box->apply;
    }
    apply(mask, in, out);
    for (int lane = 0; lane < SB_EMU_WARP; lane++)
        if (boxes[lane])
            memcpy(static_cast<void *>(static_cast<const sb_emu_box<In, Out> *>(boxes[lane])->out),
                   &out[lane], sizeof(Out));
}

template <class In, class Out>
Out sb_emu_warp(const char *name, uint32_t mask, const In &in,
                void (*apply)(uint32_t mask, const In *in, Out *out),
                sb_emu_site site = sb_emu_site::here())
{
    Out out;
    sb_emu_box<In, Out> box = {&in, &out, apply};
    sb_emu_meet(name, mask, &box, reinterpret_cast<sb_emu_operation *>(apply),
                sb_emu_open_boxes<In, Out>, site);
    return out;
}

/* For `apply` functions: fails because of an invalid request of lane `lane`. */
[[noreturn]] void sb_emu_lane_fail(int lane, const char *format, ...) SB_PRINTF(2, 3);

void sb_emu_sync_warp(uint32_t mask, sb_emu_site site);

#endif
