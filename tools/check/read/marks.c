#include "tools/check/read/marks.h"

#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/hash.h"
#include "ref/base/mem.h"

enum {
    PAGE = 4096,
    SECTOR = 512,
    MOST = 1 << 22 /* approximate number of marks kept for a checkpoint */
};

uint64_t sb_tensor_row(const sb_tensor *t)
{
    if (t->rank < 2)
        return 0;
    uint64_t bits = t->shape[t->rank - 1] * sb_dtype_bits(t->dtype);
    return bits % 8 ? 0 : bits / 8;
}

uint64_t sb_mark_size(const sb_tensor *t, sb_grid grid)
{
    return grid == SB_GRID_row ? sb_tensor_row(t) : grid == SB_GRID_page ? PAGE : SECTOR;
}

uint64_t sb_mark_most(const sb_tensor *t)
{
    uint64_t row = sb_tensor_row(t);
    return t->bytes / PAGE + (row >= SB_MARK_KEY ? t->bytes / row : 0);
}

/* V-13: "at most about 4 million parts are compared" */
uint64_t sb_mark_mask(uint64_t marks)
{
    uint64_t mask = 0;
    for (; marks > MOST; marks /= 2)
        mask = mask << 1 | 1;
    return mask;
}

static void set_line(sb_mark_line *line, const sb_tensor *t, uint64_t first, uint64_t size)
{
    int none = size < SB_MARK_KEY || first + size > t->bytes;
    line->next = none ? 1 : first;
    line->last = none ? 0 : t->bytes - size;
    line->step = size;
    line->have = 0;
}

/* If no mark will be left out: reserves memory for all marks of a tensor at once. */
static int reserve(sb_mark_list *list, const sb_tensor *t, int scales, uint64_t mask)
{
    size_t most = list->count + (size_t)(sb_mark_most(t) + (scales ? t->bytes / SECTOR : 0)) + 1;
    if (mask || most <= list->room)
        return 1;
    sb_mark *grown = sb_realloc(list->rows, most, sizeof *grown);
    if (!grown)
        return 0;
    list->rows = grown;
    list->room = most;
    return 1;
}

void sb_mark_begin(sb_mark_scan *s, sb_mark_list *list, const sb_tensor *t, unsigned part,
                   int scales, uint64_t offset, uint64_t mask)
{
    s->list = list;
    s->at = 0;
    s->mask = mask;
    s->part = (uint8_t)part;
    s->lost = !reserve(list, t, scales, mask);
    set_line(&s->lines[SB_GRID_row], t, 0, sb_tensor_row(t));
    set_line(&s->lines[SB_GRID_page], t, (PAGE - offset % PAGE) % PAGE, PAGE);
    set_line(&s->lines[SB_GRID_sector], t, 0, scales ? SECTOR : 0);
}

/* The key of 64 bytes; 0 if the same 8 bytes are repeated: padding, zeros, one scale. */
static uint64_t key_of(const unsigned char *p)
{
    if (sb_load_u64(p) == sb_load_u64(p + 8) && memcmp(p, p + 8, SB_MARK_KEY - 8) == 0)
        return 0;
    return sb_hash_key(p, SB_MARK_KEY);
}

static void note(sb_mark_scan *s, sb_grid grid, uint64_t at, const unsigned char *p)
{
    uint64_t key = key_of(p);
    sb_mark_list *list = s->list;
    if (key == 0 || (key & s->mask))
        return;
    sb_mark *grown = sb_grow(list->rows, list->count, &list->room, sizeof *grown);
    if (!grown) {
        s->lost = 1;
        return;
    }
    list->rows = grown;
    list->rows[list->count++] =
        (sb_mark){.key = key, .place = at << 16 | (uint64_t)s->part << 8 | (uint64_t)grid};
}

static void follow(sb_mark_scan *s, sb_grid grid, const unsigned char *bytes, size_t count)
{
    sb_mark_line *line = &s->lines[grid];
    while (line->next <= line->last && line->next + line->have < s->at + count) {
        size_t from = (size_t)(line->next + line->have - s->at);
        size_t want = SB_MARK_KEY - line->have, there = count - from;
        if (want == SB_MARK_KEY && there >= want) {
            note(s, grid, line->next, bytes + from);
        } else { /* only a part of the key's bytes is in these bytes */
            size_t n = there < want ? there : want;
            memcpy(line->held + line->have, bytes + from, n);
            line->have += (unsigned)n;
            if (line->have < SB_MARK_KEY)
                return;
            note(s, grid, line->next, line->held);
        }
        line->next += line->step;
        line->have = 0;
    }
}

void sb_mark_bytes(sb_mark_scan *s, const unsigned char *bytes, size_t count)
{
    for (unsigned grid = 0; grid < SB_GRIDS; grid++)
        follow(s, (sb_grid)grid, bytes, count);
    s->at += count;
}
