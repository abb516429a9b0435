/* async.cc - copies in flight, and the waits for them. */
#include "gpu/emu/async.h"

#include <string.h>

#include "gpu/emu/thread.h"

static void called(const char *name, sb_emu_site site)
{
    sb_emu_self->what = name;
    sb_emu_self->site = site;
}

static void push(sb_emu_copies *copies, const sb_emu_copy *copy)
{
    if (copies->count == copies->capacity) {
        const uint32_t capacity = copies->capacity ? 2 * copies->capacity : 8;
        void *grown = sb_realloc(copies->copy, capacity, sizeof(sb_emu_copy));
        if (!grown)
            sb_emu_out_of_memory("asynchronous copies");
        copies->copy = static_cast<sb_emu_copy *>(grown);
        copies->capacity = capacity;
    }
    copies->copy[copies->count++] = *copy;
}

/* Y-10: "happens when it is waited for, and until then its destination is poisoned" */
static void issue(sb_emu_copies *copies, const sb_emu_copy *copy, size_t align, const char *name)
{
    sb_emu_range(&copy->to, copy->bytes, align, name);
    if (copy->read) {
        sb_emu_range(&copy->from, copy->read, align, name);
        sb_emu_check(&copy->from, copy->read, SB_EMU_READ);
    } else if ((static_cast<size_t>(copy->from.at) & (align - 1)) != 0) { /* any source address */
        sb_emu_fail("%s from byte %lld of buffer %s is not aligned to %zu", name,
                    static_cast<long long>(copy->from.at),
                    copy->from.region ? copy->from.region->name : "(none)", align);
    }
    sb_emu_check(&copy->to, copy->bytes, SB_EMU_WRITE);
    sb_emu_set_state(&copy->to, copy->bytes, SB_EMU_COMING);
    push(copies, copy);
}

static void carry_out(const sb_emu_copy *copy, uint32_t thread, uint32_t step)
{
    char *to = copy->to.region->base + copy->to.at;
    if (copy->read)
        memcpy(to, copy->from.region->base + copy->from.at, copy->read);
    memset(to + copy->read, 0, copy->bytes - copy->read);
    sb_emu_set_state(&copy->to, copy->bytes, SB_EMU_SET);
    sb_emu_mark(&copy->to, copy->bytes, thread, step);
}

/* --- cp.async --------------------------------------------------------------------------------- */
void sb_emu_cp_async(const sb_emu_spot *to, const sb_emu_spot *from, uint32_t bytes, uint32_t read,
                     sb_emu_site site)
{
    called("sb_cp_async", site);
    if (read > bytes)
        sb_emu_fail("sb_cp_async reads %u of %u bytes", read, bytes);
    const sb_emu_copy copy = {*to, *from, bytes, read, sb_emu_self->group};
    issue(&sb_emu_self->copies, &copy, bytes, "sb_cp_async");
}

void sb_emu_cp_async_commit()
{
    sb_emu_self->group++;
}

/* Carries out all copies of groups before `end`. */
static void wait_groups(uint64_t end)
{
    sb_emu_thread *self = sb_emu_self;
    sb_emu_copies *copies = &self->copies;
    uint32_t left = 0;
    for (uint32_t i = 0; i < copies->count; i++) {
        if (copies->copy[i].group < end)
            carry_out(&copies->copy[i], self->index, self->step);
        else
            copies->copy[left++] = copies->copy[i];
    }
    copies->count = left;
}

void sb_emu_cp_async_wait(uint32_t left, sb_emu_site site)
{
    called("sb_cp_async_wait", site);
    if (sb_emu_self->group >= left)
        wait_groups(sb_emu_self->group - left);
}

void sb_emu_cp_async_wait_all(sb_emu_site site)
{
    called("sb_cp_async_wait_all", site);
    wait_groups(UINT64_MAX);
}

void sb_emu_returns()
{
    if (sb_emu_self->copies.count != 0)
        sb_emu_fail("returns with %u asynchronous copies that no thread has waited for",
                    sb_emu_self->copies.count);
}

/* --- mbarriers -------------------------------------------------------------------------------- */
static int64_t place_of(const sb_emu_spot *at)
{
    return at->region->base + at->at - sb_emu_now->arena;
}

static sb_emu_mbarrier *find(const sb_emu_spot *at)
{
    sb_emu *emu = sb_emu_now;
    for (uint32_t i = 0; i < emu->mbarriers; i++)
        if (emu->mbarrier[i].at == place_of(at))
            return &emu->mbarrier[i];
    return nullptr;
}

/* Returns the mbarrier that an operation uses. Its initialization must have happened before. */
static sb_emu_mbarrier *use(const sb_emu_spot *at, const char *name, sb_emu_site site)
{
    called(name, site);
    sb_emu_reach(at, 8, 8, SB_EMU_ATOMIC);
    sb_emu_mbarrier *b = find(at);
    if (!b)
        sb_emu_fail("%s: no mbarrier was made at byte %lld of shared array %s", name,
                    static_cast<long long>(at->at), at->region->name);
    return b;
}

void sb_emu_mbarrier_init(const sb_emu_spot *at, uint32_t count, sb_emu_site site)
{
    sb_emu *emu = sb_emu_now;
    called("sb_mbarrier_init", site);
    memset(sb_emu_reach(at, 8, 8, SB_EMU_WRITE), 0, 8);
    if (count < 1 || count >= 1u << 20)
        sb_emu_fail("sb_mbarrier_init: a count of %u", count);
    sb_emu_mbarrier *b = find(at);
    if (!b) {
        if (emu->mbarriers == SB_EMU_MBARRIERS)
            sb_emu_fail("sb_mbarrier_init: more than %d mbarriers", SB_EMU_MBARRIERS);
        b = &emu->mbarrier[emu->mbarriers++];
        b->copies.count = 0;
    }
    if (b->copies.count != 0)
        sb_emu_fail("sb_mbarrier_init: bulk copies are still under way to the mbarrier that was "
                    "there before");
    b->at = place_of(at);
    b->count = b->pending = count;
    b->phase = 0;
    b->expected = 0;
    b->coming.epoch = b->passed.epoch = 0;
}

static bool has_waiters(const sb_emu *emu, const sb_emu_mbarrier *b)
{
    const uint32_t index = static_cast<uint32_t>(b - emu->mbarrier);
    for (uint32_t i = 0; i < emu->threads; i++)
        if (emu->thread[i].waiting == SB_EMU_MBARRIER && emu->thread[i].barrier == index)
            return true;
    return false;
}

/* Ends the phase if all threads and all bytes have arrived. The copies are carried out only when a
 * thread waits for them. */
static void advance(sb_emu *emu, sb_emu_mbarrier *b, bool waited_for)
{
    if (b->pending != 0)
        return;
    const uint32_t index = static_cast<uint32_t>(b - emu->mbarrier);
    if (waited_for) {
        const uint32_t copier = emu->threads + index;
        for (uint32_t i = 0; i < b->copies.count; i++) {
            carry_out(&b->copies.copy[i], copier, ++emu->bulk_step);
            b->expected -= b->copies.copy[i].bytes;
        }
        if (b->copies.count != 0)
            sb_emu_learn(&b->coming, emu->epoch, copier, emu->bulk_step);
        b->copies.count = 0;
    }
    if (b->expected < 0)
        sb_emu_fail("the mbarrier at byte %lld: the bulk copies of a phase have %lld bytes more "
                    "than it expects",
                    static_cast<long long>(b->at), static_cast<long long>(-b->expected));
    if (b->expected != 0 || b->copies.count != 0)
        return;
    sb_emu_join(&b->passed, emu->epoch, &b->coming);
    b->phase++;
    b->pending = b->count;
    for (uint32_t i = 0; i < emu->threads; i++) {
        sb_emu_thread *t = &emu->thread[i];
        if (t->waiting != SB_EMU_MBARRIER || t->barrier != index)
            continue;
        sb_emu_join(&t->clock, emu->epoch, &b->passed);
        sb_emu_wake(t);
    }
}

void sb_emu_mbarrier_arrive(const sb_emu_spot *at, uint32_t bytes, sb_emu_site site)
{
    sb_emu *emu = sb_emu_now;
    sb_emu_mbarrier *b = use(at, "sb_mbarrier_arrive", site);
    if (b->pending == 0)
        sb_emu_fail("sb_mbarrier_arrive: all %u arrivals of the phase have already arrived",
                    b->count);
    sb_emu_release(&b->coming);
    b->pending--;
    b->expected += bytes;
    advance(emu, b, has_waiters(emu, b));
}

void sb_emu_mbarrier_wait(const sb_emu_spot *at, uint32_t parity, sb_emu_site site)
{
    sb_emu *emu = sb_emu_now;
    sb_emu_thread *self = sb_emu_self;
    sb_emu_mbarrier *b = use(at, "sb_mbarrier_wait", site);
    if ((b->phase & 1) == parity)
        advance(emu, b, true);
    if ((b->phase & 1) != parity) {
        sb_emu_acquire(&b->passed);
        return;
    }
    self->waiting = SB_EMU_MBARRIER;
    self->barrier = static_cast<uint32_t>(b - emu->mbarrier);
    sb_emu_wait();
}

void sb_emu_bulk_copy(const sb_emu_spot *to, const sb_emu_spot *from, uint32_t bytes,
                      const sb_emu_spot *mbarrier, sb_emu_site site)
{
    sb_emu_mbarrier *b = use(mbarrier, "sb_bulk_copy", site);
    if (bytes == 0 || bytes % 16 != 0)
        sb_emu_fail("sb_bulk_copy: %u bytes, not a multiple of 16", bytes);
    const sb_emu_copy copy = {*to, *from, bytes, bytes, 0};
    issue(&b->copies, &copy, 16, "sb_bulk_copy");
    sb_emu_release(&b->coming); /* accesses before this call also precede the copy */
    advance(sb_emu_now, b, has_waiters(sb_emu_now, b)); /* other threads may already wait */
}

void sb_emu_block_ends()
{
    sb_emu *emu = sb_emu_now;
    for (uint32_t i = 0; i < emu->mbarriers; i++)
        if (emu->mbarrier[i].copies.count != 0)
            sb_emu_blame(&emu->thread[0],
                         "the block ends with bulk copies under way that no thread has waited for");
}
