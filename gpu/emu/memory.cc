/* memory.cc - the checks of every access. */
#include "gpu/emu/count.h"
#include "gpu/emu/thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sb_status open_region(sb_emu_region *region, const char *name, void *base, size_t bytes,
                             sb_emu_use use, bool history, sb_error *err)
{
    *region = sb_emu_region();
    region->name = name;
    region->base = static_cast<char *>(base);
    region->bytes = bytes;
    region->input = use == SB_EMU_INPUT;
    if (region->input)
        return SB_OK;
    region->state = static_cast<uint8_t *>(sb_alloc(bytes, 1));
    if (history) {
        region->cell = static_cast<sb_emu_cell *>(sb_alloc(bytes / 4 + 1, sizeof(sb_emu_cell)));
        region->rest = static_cast<sb_emu_rest *>(sb_alloc(bytes / 4 + 1, sizeof(sb_emu_rest)));
    }
    if (!region->state || (history && (!region->cell || !region->rest))) {
        sb_emu_region_close(region);
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for the history of buffer %s", name);
    }
    if (use == SB_EMU_INOUT)
        memset(region->state, SB_EMU_SET, bytes);
    return SB_OK;
}

sb_status sb_emu_region_open(sb_emu_region *region, const char *name, void *base, size_t bytes,
                             sb_emu_use use, sb_error *err)
{
    return open_region(region, name, base, bytes, use, true, err);
}

sb_status sb_emu_region_plain(sb_emu_region *region, const char *name, void *base, size_t bytes,
                              sb_emu_use use, sb_error *err)
{
    return open_region(region, name, base, bytes, use, false, err);
}

sb_status sb_emu_region_counted(sb_emu_region *region, const char *name, void *base, size_t bytes,
                                sb_emu_use use, sb_error *err)
{
    const sb_status status = sb_emu_region_open(region, name, base, bytes, use, err);
    if (status != SB_OK)
        return status;
    region->last = static_cast<uint64_t *>(sb_alloc(bytes, 2 * sizeof *region->last));
    if (use == SB_EMU_INPUT)
        region->state = static_cast<uint8_t *>(sb_alloc(bytes, 1));
    if (!region->last || !region->state) {
        sb_emu_region_close(region);
        return sb_fail(err, SB_ERR_MEMORY, "out of memory to count accesses of buffer %s", name);
    }
    if (use == SB_EMU_INPUT)
        memset(region->state, SB_EMU_WATCHED, bytes);
    return SB_OK;
}

void sb_emu_region_close(sb_emu_region *region)
{
    free(region->state);
    free(region->cell);
    free(region->rest);
    free(region->last);
    *region = sb_emu_region();
}

size_t sb_emu_unset(const sb_emu_region *region, size_t from)
{
    while (from < region->bytes && !region->input && region->state[from] == SB_EMU_SET)
        from++;
    return region->input ? region->bytes : from;
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
            sb_emu_fail("%s of byte %lld of %s %s: an asynchronous copy to this byte is under way, "
                        "and no thread has waited for it",
                        access_names[access], byte, kind(region), region->name);
        if (access != SB_EMU_WRITE)
            sb_emu_fail(
                "%s of byte %lld of %s %s (element %lld of %zu bytes), which no thread has written",
                access_names[access], byte, kind(region), region->name,
                static_cast<long long>(spot->at) / static_cast<long long>(bytes), bytes);
    }
}

/* True if this access happened before the current step of `thread`. */
static bool is_before(const sb_emu *emu, const sb_emu_touch *touch, uint32_t thread, bool shared)
{
    if (touch->epoch < (shared ? emu->block_epoch : emu->launch_epoch))
        return true;
    if (touch->epoch < emu->block_epoch)
        return false; /* by another block of this launch */
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
    sb_emu_fail("a race: %s of byte %zu of %s %s, which %s has %s; nothing orders the two accesses",
                access_names[access], byte, kind(region), region->name, who, did);
}

/* True if the access happened before all later accesses of this launch or block, so that the
 * history need not keep it. */
static bool is_over(const sb_emu *emu, const sb_emu_touch *touch, bool shared)
{
    return touch->mask == 0 || touch->epoch < (shared ? emu->epoch : emu->launch_epoch);
}

/* Records a write. It comes after the last writes and reads of its bytes, so the history need not
 * keep these. */
static void record_write(sb_emu_cell *cell, sb_emu_rest *rest, const sb_emu_touch *now)
{
    if (now->mask == 15) {
        *cell = {*now, {}};
        return;
    }
    sb_emu_touch old[4] = {cell->writer};
    int n = 0;
    if ((cell->writer.more & SB_EMU_WRITERS) != 0)
        memcpy(old + 1, rest->writer, sizeof rest->writer);
    memset(static_cast<void *>(rest->writer), 0, sizeof rest->writer);
    for (int i = 0; i < 4 && n < 3; i++) {
        old[i].mask &= static_cast<uint8_t>(~now->mask);
        if (old[i].mask != 0)
            rest->writer[n++] = old[i];
    }
    const int others = cell->writer.more & ~SB_EMU_WRITERS;
    cell->writer = *now;
    cell->writer.more = static_cast<uint8_t>(others | (n > 0 ? SB_EMU_WRITERS : 0));
}

/* Records a read. Reads are not ordered among each other. A new read replaces the thread's own last
 * read, or a read that is over, or the oldest read. */
static void record_read(const sb_emu *emu, bool shared, sb_emu_cell *cell, sb_emu_rest *rest,
                        const sb_emu_touch *now)
{
    sb_emu_touch *reader = &cell->reader;
    if (reader->thread != now->thread || reader->epoch < emu->block_epoch) {
        if (!is_over(emu, reader, shared)) {
            rest->reader = *reader;
            cell->writer.more |= static_cast<uint8_t>(SB_EMU_READERS);
        }
        *reader = *now;
        return;
    }
    const uint8_t mask = reader->epoch == now->epoch ? reader->mask | now->mask : now->mask;
    *reader = *now;
    reader->mask = mask;
}

/* The current access of the running thread. An earlier access that did not happen before it is a
 * race. */
struct sb_emu_visit {
    const sb_emu *emu;
    const sb_emu_region *region;
    size_t word;
    sb_emu_access access;
    sb_emu_touch now;
};

static void comes_after(const sb_emu_visit &visit, const sb_emu_touch *old, const char *did)
{
    if ((old->mask & visit.now.mask) != 0 &&
        !is_before(visit.emu, old, visit.now.thread, visit.region->shared))
        report_race(visit.region, visit.word * 4, old, did, visit.access);
}

/* Y-6: "two accesses of one byte by two threads, at least one a write, not both atomic" */
static void check_cell(const sb_emu_visit &visit)
{
    sb_emu_cell *cell = &visit.region->cell[visit.word];
    sb_emu_rest *rest = &visit.region->rest[visit.word];
    const uint8_t more = cell->writer.more;
    comes_after(visit, &cell->writer, "written");
    for (int i = 0; i < 3 && (more & SB_EMU_WRITERS) != 0; i++)
        comes_after(visit, &rest->writer[i], "written");
    if (visit.access != SB_EMU_ATOMIC && (more & SB_EMU_CHANGED) != 0)
        comes_after(visit, &rest->atomic, "changed atomically");
    if (visit.access != SB_EMU_READ) {
        comes_after(visit, &cell->reader, "read");
        if ((more & SB_EMU_READERS) != 0)
            comes_after(visit, &rest->reader, "read");
    }
    if (visit.access == SB_EMU_READ) {
        record_read(visit.emu, visit.region->shared, cell, rest, &visit.now);
    } else if (visit.access == SB_EMU_WRITE) {
        record_write(cell, rest, &visit.now);
    } else {
        rest->atomic = visit.now;
        cell->writer.more |= static_cast<uint8_t>(SB_EMU_CHANGED);
    }
}

/* A quick test that covers the usual cases of is_before. May be false where is_before is true. */
static inline bool is_past(const sb_emu_visit &visit, const sb_emu_touch &touch)
{
    const sb_emu *emu = visit.emu;
    if (touch.epoch == emu->epoch)
        return touch.thread == visit.now.thread;
    return visit.region->shared || touch.epoch < emu->launch_epoch ||
           touch.epoch >= emu->block_epoch;
}

/* check_cell, with a fast path for nearly all accesses: a whole word that does not use `rest`,
 * whose last reader is this thread or is over. */
static inline void check_word(const sb_emu_visit &visit)
{
    sb_emu_cell *cell = &visit.region->cell[visit.word];
    if (cell->writer.more != 0 || !is_past(visit, cell->writer))
        check_cell(visit);
    else if (visit.access == SB_EMU_WRITE && is_past(visit, cell->reader))
        cell->writer = visit.now;
    else if (visit.access == SB_EMU_READ &&
             (is_over(visit.emu, &cell->reader, visit.region->shared) ||
              (cell->reader.epoch == visit.now.epoch && cell->reader.thread == visit.now.thread)))
        cell->reader = visit.now;
    else
        check_cell(visit);
}

/* The mask of the bytes of a word that lie in [at, end). */
static uint8_t mask_of(size_t word, size_t at, size_t end)
{
    const size_t first = word * 4;
    const unsigned below = end - first >= 4 ? 15u : (1u << (end - first)) - 1;
    const unsigned skip = at <= first ? 0u : (1u << (at - first)) - 1;
    return static_cast<uint8_t>(below & ~skip);
}

/* True if earlier launches do not change the region. */
static bool stays(const sb_emu_region *region)
{
    return region->shared || (region->input && !region->brought);
}

/* Y-16: "Until then a thread touches nothing but shared memory and weights" */
static void check_early(const sb_emu_region *region, sb_emu_access access)
{
    if (!stays(region))
        sb_emu_fail("%s of buffer %s before sb_launch_wait, in a dependent launch: an earlier "
                    "launch may still use the buffer",
                    access_names[access], region->name);
}

/* Y-16: "`__ldg` reads weights alone" */
void sb_emu_read_only(const sb_emu_spot *spot)
{
    if (spot->region && sb_emu_now->launch->dependent && !stays(spot->region))
        sb_emu_fail("__ldg of buffer %s, in a dependent launch: an earlier launch may still write "
                    "the buffer",
                    spot->region->name);
}

void sb_emu_check(const sb_emu_spot *spot, size_t bytes, sb_emu_access access)
{
    const sb_emu_region *region = spot->region;
    if (sb_emu_early)
        check_early(region, access);
    if (sb_emu_now->counts && !region->shared)
        sb_emu_count_access(sb_emu_now, spot, bytes, access);
    if (region->input && access == SB_EMU_READ)
        return;
    if (region->input)
        sb_emu_fail("%s in buffer %s, which the host gave as an input", access_names[access],
                    region->name);
    check_state(spot, bytes, access);
    if (!region->cell)
        return;
    const size_t at = static_cast<size_t>(spot->at), end = at + bytes;
    const sb_emu *emu = sb_emu_now;
    sb_emu_visit visit = {emu, region, at / 4, access, {emu->epoch, sb_emu_self->step, 0, 15, 0}};
    visit.now.thread = static_cast<uint16_t>(sb_emu_self->index);
    for (; visit.word * 4 < end; visit.word++) {
        visit.now.mask = mask_of(visit.word, at, end);
        if (visit.now.mask == 15)
            check_word(visit);
        else
            check_cell(visit);
    }
}

void sb_emu_set_state(const sb_emu_spot *spot, size_t bytes, sb_emu_state state)
{
    if (spot->region->state)
        memset(spot->region->state + spot->at, state, bytes);
}

void sb_emu_mark(const sb_emu_spot *spot, size_t bytes, uint32_t thread, uint32_t step)
{
    const size_t at = static_cast<size_t>(spot->at), end = at + bytes;
    for (size_t word = at / 4; spot->region->cell && word * 4 < end; word++) {
        sb_emu_touch *writer = &spot->region->cell[word].writer;
        const uint8_t more = writer->more & static_cast<uint8_t>(~SB_EMU_WRITERS);
        *writer = {sb_emu_now->epoch, step, static_cast<uint16_t>(thread), 15, more};
    }
}

void *sb_emu_reach(const sb_emu_spot *spot, size_t bytes, size_t align, sb_emu_access access)
{
    if (!sb_emu_now)
        __builtin_trap(); /* the host must not use checked pointers */
    if (!sb_emu_inside(*spot, bytes, align))
        sb_emu_range(spot, bytes, align, access_names[access]);
    sb_emu_check(spot, bytes, access);
    if (access == SB_EMU_WRITE)
        memset(spot->region->state + spot->at, SB_EMU_SET, bytes);
    return spot->region->base + spot->at;
}
