/* order.cc - chooses the thread that runs next. */
#include "gpu/emu/thread.h"

uint32_t sb_emu_draw(sb_emu *emu, uint32_t n)
{
    return emu->key ? sb_rng_below(emu->key, emu->draws++, n) : 0;
}

void sb_emu_nobody(sb_emu *emu)
{
    emu->readies = emu->ready_first = emu->warps = 0;
    emu->warp = emu->turn = SB_EMU_WARP - 1; /* so that seed 0 begins with the first thread */
}

void sb_emu_wake(sb_emu_thread *thread)
{
    sb_emu *emu = sb_emu_now;
    const uint32_t warp = thread->index / SB_EMU_WARP, bit = 1u << thread->index % SB_EMU_WARP;
    thread->waiting = SB_EMU_READY;
    if (emu->history) {
        emu->ready[(emu->ready_first + emu->readies++) % SB_EMU_THREADS] = thread->index;
        return;
    }
    emu->lanes[warp] = emu->warps >> warp & 1 ? emu->lanes[warp] | bit : bit;
    emu->warps |= 1u << warp;
}

/* Y-2: "The next fiber is drawn among those that can go on" */
static sb_emu_thread *any_thread(sb_emu *emu)
{
    if (emu->readies == 0)
        return nullptr;
    const uint32_t first = emu->ready_first;
    const uint32_t chosen = (first + sb_emu_draw(emu, emu->readies)) % SB_EMU_THREADS;
    const uint32_t index = emu->ready[chosen];
    emu->ready[chosen] = emu->ready[first];
    emu->ready_first = (first + 1) % SB_EMU_THREADS;
    emu->readies--;
    return &emu->thread[index];
}

/* Chooses another warp: moves by a drawn number of places, counting only warps that can run. */
static void choose_warp(sb_emu *emu)
{
    const uint32_t ready = static_cast<uint32_t>(__builtin_popcount(emu->warps));
    for (uint32_t n = sb_emu_draw(emu, ready) + 1; n > 0; n -= emu->warps >> emu->warp & 1)
        emu->warp = (emu->warp + 1) % SB_EMU_WARP;
    emu->turn = (emu->turn + 1 + sb_emu_draw(emu, SB_EMU_WARP)) % SB_EMU_WARP;
    emu->gives_way = false;
}

/* Y-14: "a warp goes on until none of its threads can, or one comes to an atomic operation" */
static sb_emu_thread *of_a_warp(sb_emu *emu)
{
    if (emu->warps == 0)
        return nullptr;
    if (emu->gives_way || !(emu->warps >> emu->warp & 1))
        choose_warp(emu);
    const uint32_t ready = emu->lanes[emu->warp], later = ready & ~0u << emu->turn;
    const uint32_t lane = static_cast<uint32_t>(__builtin_ctz(later ? later : ready));
    emu->lanes[emu->warp] &= ~(1u << lane);
    if (emu->lanes[emu->warp] == 0)
        emu->warps &= ~(1u << emu->warp);
    return &emu->thread[emu->warp * SB_EMU_WARP + lane];
}

sb_emu_thread *sb_emu_next(sb_emu *emu)
{
    return emu->history ? any_thread(emu) : of_a_warp(emu);
}
