/* memory.cc - the checks of every access. */
#include "gpu/emu/thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

sb_status sb_emu_region_open(sb_emu_region *region, const char *name, void *base, size_t bytes,
                             sb_emu_use use, sb_error *err)
{
    *region = sb_emu_region();
    region->name = name;
    region->base = static_cast<char *>(base);
    region->bytes = bytes;
    if (use == SB_EMU_INPUT)
        return SB_OK;
    region->state = static_cast<uint8_t *>(sb_alloc(bytes, 1));
    region->cell = static_cast<sb_emu_cell *>(sb_alloc(bytes / 4 + 1, sizeof(sb_emu_cell)));
    if (!region->state || !region->cell) {
        sb_emu_region_close(region);
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for the history of buffer %s", name);
    }
    if (use == SB_EMU_INOUT)
        memset(region->state, SB_EMU_SET, bytes);
    return SB_OK;
}

void sb_emu_region_close(sb_emu_region *region)
{
    free(region->state);
    free(region->cell);
    *region = sb_emu_region();
}

size_t sb_emu_unset(const sb_emu_region *region, size_t from)
{
    while (from < region->bytes && region->state && region->state[from] == SB_EMU_SET)
        from++;
    return region->state ? from : region->bytes;
}

static const char *kind(const sb_emu_region *region)
{
    return region->shared ? "shared array" : "buffer";
}

/* Y-4: "an access outside its pointer's range, or at an address that its size does not divide" */
void *sb_emu_range(const sb_emu_spot *spot, size_t bytes, size_t align, const char *what)
{
    const sb_emu_region *region = spot->region;
    if (sb_emu_inside(*spot, bytes, align))
        return region->base + spot->at;
    if (!region)
        sb_emu_fail("%s through a null pointer", what);
    const int64_t size = static_cast<int64_t>(bytes);
    if (spot->at < spot->low || size > spot->high - spot->at)
        sb_emu_fail("%s of %zu bytes at byte %lld of %s %s is out of range: [%lld, %lld), element "
                    "%lld of that size",
                    what, bytes, static_cast<long long>(spot->at), kind(region), region->name,
                    static_cast<long long>(spot->low), static_cast<long long>(spot->high),
                    static_cast<long long>((spot->at - spot->low) / size));
    sb_emu_fail("%s of %zu bytes at byte %lld of %s %s is not aligned to %zu", what, bytes,
                static_cast<long long>(spot->at), kind(region), region->name, align);
}

static const char *const access_names[] = {"a read", "a write", "an atomic operation"};

/* Y-5: "a read of a byte that nothing has written, or that an asynchronous copy is about to write"
 */
static void check_state(const sb_emu_spot *spot, size_t bytes, sb_emu_access access)
{
    const sb_emu_region *region = spot->region;
    const uint8_t *state = region->state + spot->at;
    size_t i = 0;
    for (uint32_t four; i + 4 <= bytes; i += 4)
        if (memcpy(&four, state + i, 4) && four != SB_EMU_SET * 0x01010101u)
            break;
    for (; i < bytes; i++) {
        if (state[i] == SB_EMU_SET)
            continue;
        const long long byte = static_cast<long long>(spot->at) + static_cast<long long>(i);
        if (state[i] == SB_EMU_COMING)
            sb_emu_fail("%s of byte %lld of %s %s, where an asynchronous copy is on its way that "
                        "nothing has waited for",
                        access_names[access], byte, kind(region), region->name);
        if (access != SB_EMU_WRITE)
            sb_emu_fail("%s of byte %lld of %s %s (element %lld of %zu bytes), which nothing has "
                        "written",
                        access_names[access], byte, kind(region), region->name,
                        static_cast<long long>(spot->at) / static_cast<long long>(bytes), bytes);
    }
}

/* Did this touch happen before what `thread` does now? */
static bool is_before(const sb_emu *emu, const sb_emu_touch *touch, uint32_t thread, bool shared)
{
    if (touch->epoch < (shared ? emu->block_epoch : emu->launch_epoch))
        return true;
    if (touch->epoch < emu->block_epoch)
        return false; /* another block of this launch */
    if (touch->epoch < emu->epoch || touch->thread == thread)
        return true;
    return sb_emu_known(&emu->thread[thread].clock, emu->epoch, touch->thread) >= touch->step;
}

[[noreturn]] static void report_race(const sb_emu_region *region, size_t byte,
                                     const sb_emu_touch *old, const char *did, sb_emu_access access)
{
    const sb_emu *emu = sb_emu_now;
    char who[64] = "another block";
    if (old->epoch >= emu->block_epoch && old->thread >= emu->threads)
        snprintf(who, sizeof who, "a bulk copy");
    else if (old->epoch >= emu->block_epoch) {
        const uint3 place = emu->thread[old->thread].place;
        snprintf(who, sizeof who, "thread (%u,%u,%u)", place.x, place.y, place.z);
    }
    sb_emu_fail("a race: %s of byte %zu of %s %s, which %s has %s with nothing between that orders "
                "the two",
                access_names[access], byte, kind(region), region->name, who, did);
}

/* Whoever writes bytes comes after their last writers, so these need not be known any more. */
static void record_write(sb_emu_touch *writer, const sb_emu_touch *now)
{
    sb_emu_touch old[4];
    memcpy(old, writer, sizeof old);
    int n = 0;
    writer[n++] = *now;
    for (int i = 0; i < 4; i++) {
        old[i].mask &= static_cast<uint8_t>(~now->mask);
        if (old[i].mask != 0 && n < 4)
            writer[n++] = old[i];
    }
    for (; n < 4; n++)
        writer[n].mask = 0;
}

/* Readers may come in any order: a thread takes the place of its own last reading, or the oldest
 * one. */
static void record_read(const sb_emu *emu, sb_emu_touch *reader, const sb_emu_touch *now)
{
    if (reader->thread != now->thread || reader->epoch < emu->block_epoch) {
        reader[1] = reader[0];
        reader[0] = *now;
        return;
    }
    const uint8_t mask = reader->epoch == now->epoch ? reader->mask | now->mask : now->mask;
    *reader = *now;
    reader->mask = mask;
}

/* Y-6: "two accesses of one byte by two threads, at least one a write, not both atomic" */
static void check_cell(const sb_emu_region *region, size_t word, uint8_t mask, sb_emu_access access)
{
    const sb_emu *emu = sb_emu_now;
    const sb_emu_thread *self = sb_emu_self;
    sb_emu_cell *cell = &region->cell[word];
    const bool shared = region->shared;
    for (int i = 0; i < 4 && cell->writer[i].mask != 0; i++)
        if ((cell->writer[i].mask & mask) != 0 &&
            !is_before(emu, &cell->writer[i], self->index, shared))
            report_race(region, word * 4, &cell->writer[i], "written", access);
    if (access != SB_EMU_ATOMIC && (cell->atomic.mask & mask) != 0 &&
        !is_before(emu, &cell->atomic, self->index, shared))
        report_race(region, word * 4, &cell->atomic, "changed atomically", access);
    for (int i = 0; i < 2 && access != SB_EMU_READ; i++)
        if ((cell->reader[i].mask & mask) != 0 &&
            !is_before(emu, &cell->reader[i], self->index, shared))
            report_race(region, word * 4, &cell->reader[i], "read", access);
    const sb_emu_touch now = {emu->epoch, self->step, static_cast<uint16_t>(self->index), mask};
    if (access == SB_EMU_READ)
        record_read(emu, cell->reader, &now);
    else if (access == SB_EMU_WRITE)
        record_write(cell->writer, &now);
    else
        cell->atomic = now;
}

/* Which bytes of a word lie in [at, end). */
static uint8_t mask_of(size_t word, size_t at, size_t end)
{
    const size_t first = word * 4;
    const unsigned below = end - first >= 4 ? 15u : (1u << (end - first)) - 1;
    const unsigned skip = at <= first ? 0u : (1u << (at - first)) - 1;
    return static_cast<uint8_t>(below & ~skip);
}

void sb_emu_check(const sb_emu_spot *spot, size_t bytes, sb_emu_access access)
{
    const sb_emu_region *region = spot->region;
    if (!region->state && access == SB_EMU_READ)
        return;
    if (!region->state)
        sb_emu_fail("%s in buffer %s, which the host gave as an input", access_names[access],
                    region->name);
    check_state(spot, bytes, access);
    const size_t at = static_cast<size_t>(spot->at), end = at + bytes;
    for (size_t word = at / 4; word * 4 < end; word++)
        check_cell(region, word, mask_of(word, at, end), access);
}

void sb_emu_set_state(const sb_emu_spot *spot, size_t bytes, sb_emu_state state)
{
    if (spot->region->state)
        memset(spot->region->state + spot->at, state, bytes);
}

void sb_emu_mark(const sb_emu_spot *spot, size_t bytes, uint32_t thread, uint32_t step)
{
    const size_t at = static_cast<size_t>(spot->at), end = at + bytes;
    for (size_t word = at / 4; word * 4 < end; word++) {
        sb_emu_touch *writer = spot->region->cell[word].writer;
        writer[0] = {sb_emu_now->epoch, step, static_cast<uint16_t>(thread), 15};
        writer[1].mask = writer[2].mask = writer[3].mask = 0;
    }
}

void *sb_emu_reach(const sb_emu_spot *spot, size_t bytes, size_t align, sb_emu_access access)
{
    if (!sb_emu_now)
        __builtin_trap(); /* the host has the memory itself */
    void *address = sb_emu_range(spot, bytes, align, access_names[access]);
    sb_emu_check(spot, bytes, access);
    if (access == SB_EMU_WRITE)
        sb_emu_set_state(spot, bytes, SB_EMU_SET);
    return address;
}
