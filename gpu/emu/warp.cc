/* warp.cc - operations of all lanes of a warp. */
#include "gpu/emu/warp.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "gpu/emu/count.h"
#include "gpu/emu/thread.h"

unsigned sb_emu_lane()
{
    return sb_emu_self->index % SB_EMU_WARP;
}

static sb_emu_thread *lane_of(unsigned lane)
{
    return &sb_emu_now->thread[sb_emu_self->index / SB_EMU_WARP * SB_EMU_WARP + lane];
}

/* Y-8: "every lane of the mask calls the same operation with the same mask" */
static void check_mask(const char *name, uint32_t mask, uint32_t self)
{
    const uint32_t base = self / SB_EMU_WARP * SB_EMU_WARP, lanes = sb_emu_now->threads - base;
    if (!(mask >> (self - base) & 1))
        sb_emu_fail("%s: mask 0x%08x does not include lane %u, which calls it", name, mask,
                    self - base);
    if (lanes < SB_EMU_WARP && mask >> lanes != 0)
        sb_emu_fail("%s: mask 0x%08x, in a warp of %u lanes", name, mask, lanes);
}

/* True if all lanes of the mask wait with this mask. A lane that waits with another mask may still
 * come with this mask later. */
static bool all_here(const sb_emu_thread *self, uint32_t waiting)
{
    const uint32_t mask = self->mask;
    if ((waiting & mask) != mask)
        return false;
    const sb_emu_thread *other = lane_of(0);
    for (unsigned lane = 0; lane < SB_EMU_WARP; lane++, other++) {
        if (!(mask >> lane & 1))
            continue;
        if (other->mask != mask)
            return false;
        if (other->apply != self->apply || other->operation != self->operation ||
            (other->what != self->what && strcmp(other->what, self->what) != 0))
            sb_emu_fail("%s: mask 0x%08x, with which lane %u is in %s at %s:%d", self->what, mask,
                        lane, other->what, other->site.file, other->site.line);
    }
    return true;
}

void sb_emu_meet(const char *name, uint32_t mask, void *box, sb_emu_operation *operation,
                 void (*apply)(uint32_t mask, void *const *boxes), sb_emu_site site)
{
    sb_emu_thread *self = sb_emu_self;
    uint32_t *waiting = &sb_emu_now->warp_waiting[self->index / SB_EMU_WARP];
    self->what = name;
    self->site = site;
    check_mask(name, mask, self->index);
    self->mask = mask;
    self->apply = apply;
    self->operation = operation;
    self->box = box;
    *waiting |= 1u << (self->index % SB_EMU_WARP);
    if (!all_here(self, *waiting)) {
        self->waiting = SB_EMU_WARP_OP;
        sb_emu_wait();
        return;
    }
    void *boxes[SB_EMU_WARP] = {};
    sb_emu_thread *first = lane_of(0);
    for (unsigned lane = 0; lane < SB_EMU_WARP; lane++)
        if (mask >> lane & 1)
            boxes[lane] = first[lane].box;
    if (sb_emu_now->counts)
        sb_emu_count_operation(sb_emu_now, name);
    apply(mask, boxes);
    *waiting &= ~mask;
    for (unsigned lane = 0; lane < SB_EMU_WARP; lane++)
        if ((mask >> lane & 1) && &first[lane] != self)
            sb_emu_wake(&first[lane]);
}

void sb_emu_lane_fail(int lane, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    sb_emu_fail_of(lane_of(static_cast<unsigned>(lane)), "%s", text);
}

/* Adds, to the clock of each lane of the mask, the steps of all other lanes of the mask. */
static void share_clocks(uint32_t mask, void *const *)
{
    sb_emu *emu = sb_emu_now;
    sb_emu_clock *all = &emu->scratch;
    if (!emu->history)
        return;
    all->epoch = 0;
    for (unsigned lane = 0; lane < SB_EMU_WARP; lane++) {
        if (!(mask >> lane & 1))
            continue;
        sb_emu_thread *t = lane_of(lane);
        sb_emu_join(all, emu->epoch, &t->clock);
        sb_emu_learn(all, emu->epoch, t->index, t->step);
        t->step++;
    }
    for (unsigned lane = 0; lane < SB_EMU_WARP; lane++)
        if (mask >> lane & 1)
            sb_emu_join(&lane_of(lane)->clock, emu->epoch, all);
}

void sb_emu_sync_warp(uint32_t mask, sb_emu_site site)
{
    char nothing = 0;
    sb_emu_meet("__syncwarp", mask, &nothing, nullptr, share_clocks, site);
}
