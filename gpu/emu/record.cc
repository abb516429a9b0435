/* record.cc - a list of launches. */
#include "gpu/emu/record.h"

#include <stdlib.h>
#include <string.h>

/* An entry of the list: a launch, followed by its arguments. Without a body, the entry marks bytes
 * of a region as without values. */
struct alignas(max_align_t) sb_emu_kept {
    sb_emu_kept *next;
    sb_emu_launch launch;
    const sb_emu_region *region;
    size_t at, bytes;
};

static sb_emu_kept *append(sb_emu_record *record, size_t behind, sb_error *err)
{
    sb_emu_kept *kept = static_cast<sb_emu_kept *>(sb_alloc(1, sizeof *kept + behind));
    if (!kept) {
        sb_fail(err, SB_ERR_MEMORY, "out of memory for a launch that is recorded");
        return nullptr;
    }
    *(record->first ? &record->last->next : &record->first) = kept;
    return record->last = kept;
}

void *sb_emu_keep(sb_emu_record *record, const sb_emu_launch *launch, size_t bytes, sb_error *err)
{
    sb_emu_kept *kept = append(record, bytes, err);
    if (!kept)
        return nullptr;
    record->launches++;
    kept->launch = *launch;
    kept->launch.all = kept + 1;
    return kept + 1;
}

sb_status sb_emu_keep_unset(sb_emu_record *record, const sb_emu_region *region, size_t at,
                            size_t bytes, sb_error *err)
{
    sb_emu_kept *kept = append(record, 0, err);
    if (!kept)
        return SB_ERR_MEMORY;
    kept->region = region;
    kept->at = at;
    kept->bytes = bytes;
    return SB_OK;
}

sb_status sb_emu_replay(sb_emu *emu, const sb_emu_record *record, sb_error *err)
{
    sb_status status = SB_OK;
    for (const sb_emu_kept *kept = record->first; kept && !status; kept = kept->next) {
        if (kept->launch.body)
            status = sb_emu_run(emu, &kept->launch, err);
        else
            memset(kept->region->state + kept->at, SB_EMU_UNSET, kept->bytes);
    }
    return status;
}

void sb_emu_record_free(sb_emu_record *record)
{
    while (record->first) {
        sb_emu_kept *const gone = record->first;
        record->first = gone->next;
        free(gone);
    }
    *record = sb_emu_record();
}
