/* record.h - launches that are kept in place of run, and run as often as one likes: what a CUDA
 * graph is on a device. Y-17: "A replay does what the launches would do in their order, with the
 * arguments that they had"
 *
 * Buffers are known by their regions, which live as long as the record. */
#ifndef SB_GPU_EMU_RECORD_H
#define SB_GPU_EMU_RECORD_H

#include "gpu/emu/grid.h"
#include "gpu/emu/memory.h"

struct sb_emu_kept;
struct sb_emu_record {
    sb_emu_kept *first, *last;
    size_t launches;
};

/* Between the launches: bytes of a region that have no value from then on. */
sb_status sb_emu_keep_unset(sb_emu_record *record, const sb_emu_region *region, size_t at,
                            size_t bytes, sb_error *err);

/* All that was kept, in its order, up to the first that fails. */
sb_status sb_emu_replay(sb_emu *emu, const sb_emu_record *record, sb_error *err);
void sb_emu_record_free(sb_emu_record *record); /* all but the struct itself */

#endif
