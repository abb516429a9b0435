/* slots.cuh - several copies of a state, called slots; a number in memory selects the current slot.
 */
#ifndef SB_GPU_KERNEL_SLOTS_CUH
#define SB_GPU_KERNEL_SLOTS_CUH

#include "gpu/cuda.h"
#include "gpu/kernel/kernel.h"

/* Y-72: "A call reads the slot that counts, and leaves the state after row t in slot t" if it has
 * a trail. Without a trail it leaves the last state "in slot 1 if it has read slot 0, and in slot 0
 * if another". If `slot` is NULL, there is only one state. */
SB_KERNEL_FN uint32_t sb_slot_read(sb_global<const uint32_t> slot)
{
    if (!slot)
        return 0;
    const uint32_t at = *slot;
    return SB_PLANT(slot_first) ? 0 : at;
}
SB_KERNEL_FN uint32_t sb_slot_written(sb_global<const uint32_t> slot)
{
    if (!slot)
        return 0;
    const uint32_t at = *slot;
    return at == 0 ? 1 : 0;
}

#endif
