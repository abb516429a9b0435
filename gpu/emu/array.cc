/* array.cc - places the arrays of a block in its shared memory. */
#include "gpu/emu/array.h"

#include <string.h>

#include "gpu/emu/thread.h"

static sb_emu_region *take_region(const void *tag, const char *name, size_t bytes)
{
    sb_emu *emu = sb_emu_now;
    const size_t at = (emu->arena_used + 127) / 128 * 128;
    if (emu->arrays == SB_EMU_STATICS)
        sb_emu_fail("more than %d shared arrays", SB_EMU_STATICS);
    /* Y-11: "A block has at most 101376 bytes of shared memory" */
    if (bytes > SB_EMU_SHARED_BYTES || at > SB_EMU_SHARED_BYTES - bytes)
        sb_emu_fail("shared array %s of %zu bytes: %zu of %d bytes are already in use", name, bytes,
                    at, SB_EMU_SHARED_BYTES);
    emu->arena_used = at + bytes;
    memset(emu->arena_state + at, SB_EMU_UNSET, bytes);
    sb_emu_array *array = &emu->array[emu->arrays++];
    array->tag = tag;
    array->region = {name,
                     emu->arena + at,
                     bytes,
                     emu->arena_state + at,
                     emu->history ? emu->arena_cell + at / 4 : nullptr,
                     emu->history ? emu->arena_rest + at / 4 : nullptr,
                     nullptr,
                     true,
                     false,
                     false};
    return &array->region;
}

sb_emu_region *sb_emu_array_of(const void *tag, const char *name, size_t bytes)
{
    sb_emu *emu = sb_emu_now;
    for (uint32_t i = 0; i < emu->arrays; i++)
        if (emu->array[i].tag == tag)
            return &emu->array[i].region;
    return take_region(tag, name, bytes);
}

sb_emu_region *sb_emu_dynamic(const char *name)
{
    return sb_emu_array_of(nullptr, name, sb_emu_now->launch->shared);
}
