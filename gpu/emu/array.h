/* array.h - the shared memory of a block: arrays that a kernel declares, and the dynamic part. */
#ifndef SB_GPU_EMU_ARRAY_H
#define SB_GPU_EMU_ARRAY_H

#include "gpu/emu/pointer.h"

/* Returns the array of a declaration, which is the same for all threads of a block. `tag`
 * identifies the declaration. */
sb_emu_region *sb_emu_array_of(const void *tag, const char *name, size_t bytes);
sb_emu_region *sb_emu_dynamic(const char *name);

/* A shared array of `count` elements: SB_SHARED(float, tile, 32 * 33); */
#define SB_SHARED(type, name, count)                                                               \
    static const char name##_declared = 0;                                                         \
    const sb_shared<type> name(sb_emu_array_of(&name##_declared, #name, sizeof(type) * (count)))

/* The dynamic shared memory as an array of a type. Its address is a multiple of 128. */
#define SB_SHARED_DYNAMIC(type, name) const sb_shared<type> name(sb_emu_dynamic(#name))

#endif
