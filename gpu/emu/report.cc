/* report.cc - explains why no thread can continue. */
#include "gpu/emu/thread.h"

#include <stdio.h>

/* Describes the state of a thread for which other threads wait. */
static void describe(const sb_emu_thread *t, char *text, size_t size)
{
    if (t->waiting == SB_EMU_RETURNED)
        snprintf(text, size, "thread (%u,%u,%u) has returned", t->place.x, t->place.y, t->place.z);
    else
        snprintf(text, size, "thread (%u,%u,%u) waits in %s at %s:%d", t->place.x, t->place.y,
                 t->place.z, t->what, t->site.file, t->site.line);
}

static const sb_emu_thread *first_waiting(const sb_emu *emu, sb_emu_waiting how)
{
    for (uint32_t i = 0; i < emu->threads; i++)
        if (emu->thread[i].waiting == how)
            return &emu->thread[i];
    return nullptr;
}

static void report_warp(const sb_emu *emu, const sb_emu_thread *t, char *text, size_t size)
{
    const uint32_t warp = t->index / SB_EMU_WARP;
    unsigned lane = 0; /* becomes the first lane of the mask that does not wait with this mask */
    for (; lane < SB_EMU_WARP - 1; lane++) {
        const sb_emu_thread *o = &emu->thread[warp * SB_EMU_WARP + lane];
        if ((t->mask >> lane & 1) && (o->waiting != SB_EMU_WARP_OP || o->mask != t->mask))
            break;
    }
    char other[256];
    describe(&emu->thread[warp * SB_EMU_WARP + lane], other, sizeof other);
    snprintf(text, size, "%s with mask 0x%08x misses lane %u: %s", t->what, t->mask, lane, other);
}

static void report_barrier(const sb_emu *emu, const sb_emu_thread *t, char *text, size_t size)
{
    const sb_emu_barrier *b = &emu->barrier[t->barrier];
    const uint32_t wanted = t->barrier ? b->wanted : emu->threads;
    char other[256] = "no other thread comes";
    for (uint32_t i = 0; i < emu->threads; i++) {
        const sb_emu_thread *o = &emu->thread[i];
        if (o->waiting != SB_EMU_BARRIER || o->barrier != t->barrier) {
            describe(o, other, sizeof other);
            break;
        }
    }
    snprintf(text, size, "a divergent barrier: %u of %u threads have arrived; %s", b->arrived,
             wanted, other);
}

static void report_mbarrier(const sb_emu *emu, const sb_emu_thread *t, char *text, size_t size)
{
    const sb_emu_mbarrier *b = &emu->mbarrier[t->barrier];
    snprintf(text, size,
             "phase %u of the mbarrier at byte %lld does not end: %u arrivals and %lld bytes are "
             "missing",
             b->phase, static_cast<long long>(b->at), b->pending,
             static_cast<long long>(b->expected));
}

/* Y-9: "no thread can go on and one has not returned" */
void sb_emu_report_stuck(sb_emu *emu)
{
    char text[640] = "no thread can continue";
    const sb_emu_thread *t = first_waiting(emu, SB_EMU_WARP_OP);
    if (t) {
        report_warp(emu, t, text, sizeof text);
    } else if ((t = first_waiting(emu, SB_EMU_BARRIER)) != nullptr) {
        report_barrier(emu, t, text, sizeof text);
    } else if ((t = first_waiting(emu, SB_EMU_MBARRIER)) != nullptr) {
        report_mbarrier(emu, t, text, sizeof text);
    } else {
        t = &emu->thread[0];
    }
    sb_emu_blame(t, text);
}
