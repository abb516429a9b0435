/* barrier.cc - barriers of all threads of a block, and of some of its warps. */
#include "gpu/emu/thread.h"

void sb_emu_release(sb_emu_clock *into)
{
    const sb_emu *emu = sb_emu_now;
    sb_emu_thread *self = sb_emu_self;
    if (!emu->history)
        return;
    sb_emu_join(into, emu->epoch, &self->clock);
    sb_emu_learn(into, emu->epoch, self->index, self->step);
    self->step++;
}

void sb_emu_acquire(const sb_emu_clock *from)
{
    sb_emu_join(&sb_emu_self->clock, sb_emu_now->epoch, from);
}

static void wait_here(const char *what, uint32_t barrier, sb_emu_site site)
{
    sb_emu_thread *self = sb_emu_self;
    self->waiting = SB_EMU_BARRIER;
    self->barrier = barrier;
    self->what = what;
    self->site = site;
    sb_emu_wait();
}

static void wake_all(sb_emu *emu, uint32_t barrier)
{
    for (uint32_t i = 0; i < emu->threads; i++) {
        sb_emu_thread *t = &emu->thread[i];
        if (t->waiting == SB_EMU_BARRIER && t->barrier == barrier)
            sb_emu_wake(t);
    }
}

static bool same_site(sb_emu_site a, sb_emu_site b)
{
    return a.line == b.line && (a.file == b.file || __builtin_strcmp(a.file, b.file) == 0);
}

unsigned sb_emu_block_count(bool predicate, sb_emu_site site)
{
    sb_emu *emu = sb_emu_now;
    sb_emu_barrier *b = &emu->barrier[0];
    if (b->arrived == 0) {
        b->count = 0;
        b->first = sb_emu_self->index;
    }
    const sb_emu_thread *first = &emu->thread[b->first];
    b->count += predicate;
    /* Y-7: "threads that meet at two different lines" */
    if (b->arrived++ > 0 && !same_site(first->site, site)) {
        sb_emu_self->what = "__syncthreads";
        sb_emu_self->site = site;
        sb_emu_fail("a divergent barrier: thread (%u,%u,%u) waits at %s:%d for the whole block",
                    first->place.x, first->place.y, first->place.z, first->site.file,
                    first->site.line);
    }
    if (b->arrived < emu->threads) {
        wait_here("__syncthreads", 0, site);
    } else {
        sb_emu_self->what = "__syncthreads";
        sb_emu_self->site = site;
        b->arrived = 0;
        emu->epoch++; /* all earlier accesses happen before all later ones */
        emu->answer = b->count;
        wake_all(emu, 0);
        sb_emu_pause();
    }
    return emu->answer;
}

void sb_emu_block_barrier(sb_emu_site site)
{
    sb_emu_block_count(false, site);
}

void sb_emu_named_barrier(int id, int threads, bool wait, sb_emu_site site)
{
    sb_emu *emu = sb_emu_now;
    const char *what = wait ? "sb_barrier_sync" : "sb_barrier_arrive";
    if (id < 1 || id >= SB_EMU_BARRIERS)
        sb_emu_fail("%s: barrier %d, expected 1 to %d", what, id, SB_EMU_BARRIERS - 1);
    if (threads < SB_EMU_WARP || threads % SB_EMU_WARP != 0 ||
        static_cast<uint32_t>(threads) > emu->threads)
        sb_emu_fail("%s: barrier %d of %d threads, in a block of %u", what, id, threads,
                    emu->threads);
    sb_emu_barrier *b = &emu->barrier[id];
    if (b->arrived == 0) {
        b->wanted = static_cast<uint32_t>(threads);
        b->clock.epoch = 0;
    }
    if (b->wanted != static_cast<uint32_t>(threads))
        sb_emu_fail("%s: barrier %d of %d threads, but other threads entered it as a barrier of %u",
                    what, id, threads, b->wanted);
    sb_emu_release(&b->clock);
    if (++b->arrived < b->wanted) {
        if (wait)
            wait_here(what, static_cast<uint32_t>(id), site);
    } else {
        b->arrived = 0;
        for (uint32_t i = 0; i < emu->threads; i++) {
            sb_emu_thread *t = &emu->thread[i];
            if (t->waiting == SB_EMU_BARRIER && t->barrier == static_cast<uint32_t>(id))
                sb_emu_join(&t->clock, emu->epoch, &b->clock);
        }
        if (wait)
            sb_emu_acquire(&b->clock);
        wake_all(emu, static_cast<uint32_t>(id));
    }
}
