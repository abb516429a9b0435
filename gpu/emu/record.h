/* record.h - launches that are recorded instead of run. The record can be replayed any number of
 * times, like a CUDA graph on a device. Y-17: "A replay does what the launches would do in their
 * order, with the arguments that they had"
 *
 * A record refers to buffers by their regions, which must outlive it. */
#ifndef SB_GPU_EMU_RECORD_H
#define SB_GPU_EMU_RECORD_H

#include "gpu/emu/grid.h"
#include "gpu/emu/memory.h"

struct sb_emu_kept;
struct sb_emu_record {
    sb_emu_kept *first, *last;
    size_t launches;
};

/* Records that a replay marks bytes of a region as without values, at this place between the
 * launches. */
sb_status sb_emu_keep_unset(sb_emu_record *record, const sb_emu_region *region, size_t at,
                            size_t bytes, sb_error *err);

/* Runs all launches in order; stops at the first failure. */
sb_status sb_emu_replay(sb_emu *emu, const sb_emu_record *record, sb_error *err);
void sb_emu_record_free(sb_emu_record *record); /* frees everything except the struct itself */

#endif
