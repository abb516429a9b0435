#include "tools/check/read/reader.h"

#include <stdlib.h>
#include <unistd.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"

enum {
    FILES = 8,         /* file descriptors per thread, because checkpoints have hundreds of files */
    AHEAD = 4 << 20,   /* bytes of one direct read, for which there is no read-ahead */
    BEHIND = 8 << 20,  /* bytes that are dropped from the page cache together */
    MAPPED = 32 << 20, /* bytes that leave the mapping together */
    KEPT = 4 << 20     /* memory that a slot always keeps */
};

typedef struct slot {
    unsigned char *memory; /* aligned */
    size_t room;
    const sb_tensor *tensor; /* NULL: the slot is empty */
    uint64_t first, count;   /* the range of its bytes that the slot holds */
    const unsigned char *bytes;
    /* range of the tensor's file that has been read and may leave the page cache */
    const sb_source *source;
    uint32_t shard;
    uint64_t drop_first, drop_end;
} slot;

typedef struct file {
    const sb_source *source; /* NULL: free */
    uint32_t shard;
    int fd, direct;
} file;

struct sb_reader {
    const sb_source *sources[2];
    slot slots[SB_READER_SLOTS];
    file files[FILES];
    unsigned next;   /* index of the file that is closed next */
    uint64_t mapped; /* bytes that were read and may still be mapped */
};

sb_reader *sb_reader_new(const sb_source *own, const sb_source *other)
{
    sb_reader *r = sb_alloc(1, sizeof *r);
    if (r)
        r->sources[0] = own, r->sources[1] = other;
    return r;
}

static sb_status file_of(sb_reader *r, const sb_source *source, uint32_t shard, file **out,
                         sb_error *err)
{
    for (unsigned i = 0; i < FILES; i++)
        if (r->files[i].source == source && r->files[i].shard == shard) {
            *out = &r->files[i];
            return SB_OK;
        }
    file *f = *out = &r->files[r->next++ % FILES];
    if (f->source)
        close(f->fd);
    *f = (file){.source = NULL};
    sb_status status = sb_source_open(source, shard, &f->fd, &f->direct, err);
    if (!status)
        f->source = source, f->shard = shard;
    return status;
}

/* Unmapping each tensor by itself would interrupt all threads for each. */
static void unmap(sb_reader *r)
{
    for (unsigned i = 0; i < 2 && r->mapped; i++)
        if (r->sources[i])
            sb_source_unmap(r->sources[i]);
    r->mapped = 0;
}

/* I-2: "after it was read" */
static void drop(sb_reader *r, slot *s)
{
    file *f;
    sb_error err;
    if (s->drop_end > s->drop_first && !file_of(r, s->source, s->shard, &f, &err))
        r->mapped += sb_source_drop(s->source, s->shard, f->fd, s->drop_first, s->drop_end);
    if (r->mapped >= MAPPED)
        unmap(r);
    s->drop_first = s->drop_end;
}

/* Call it before the content of a slot is replaced: adds the content to the range that will leave
 * the page cache. */
static void let_go(sb_reader *r, slot *s)
{
    if (!s->tensor)
        return;
    uint64_t at = sb_checkpoint_offset(sb_source_checkpoint(s->source), s->tensor) + s->first;
    if (at != s->drop_end) {
        drop(r, s);
        s->drop_first = at;
    }
    s->drop_end = at + s->count;
    s->tensor = NULL;
    if (s->drop_end - s->drop_first >= BEHIND)
        drop(r, s);
}

void sb_reader_free(sb_reader *r)
{
    for (unsigned i = 0; r && i < SB_READER_SLOTS; i++) {
        let_go(r, &r->slots[i]);
        drop(r, &r->slots[i]);
        free(r->slots[i].memory);
    }
    if (r)
        unmap(r);
    for (unsigned i = 0; r && i < FILES; i++)
        if (r->files[i].source)
            close(r->files[i].fd);
    free(r);
}

static sb_status make_room(slot *s, size_t count, const char *name, sb_error *err)
{
    void *memory;
    if (s->room >= count && (s->room <= KEPT || s->room / 8 <= count))
        return SB_OK;
    free(s->memory);
    s->memory = NULL;
    s->room = 0;
    if (posix_memalign(&memory, SB_IO_ALIGN, count) != 0)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory for %zu bytes", SB_SHOW(name), count);
    s->memory = memory;
    s->room = count;
    return SB_OK;
}

/* Reads bytes of a tensor into the slot's memory. A direct read takes whole pages, and reads ahead
 * if the tensor is being read piece by piece. */
static sb_status load(sb_reader *r, slot *s, const sb_tensor *t, uint64_t first, uint64_t count,
                      sb_error *err)
{
    file *f;
    uint64_t base = sb_checkpoint_offset(sb_source_checkpoint(s->source), t);
    sb_status status = file_of(r, s->source, t->shard, &f, err);
    if (status)
        return status;
    if (f->direct && count < AHEAD)
        count = t->bytes - first < AHEAD ? t->bytes - first : AHEAD;
    uint64_t skip = f->direct ? (base + first) % SB_IO_ALIGN : 0;
    uint64_t all = skip + count;
    if (f->direct)
        all = (all + SB_IO_ALIGN - 1) / SB_IO_ALIGN * SB_IO_ALIGN;
    status = make_room(s, (size_t)all, t->name, err);
    if (!status)
        status = sb_source_read(s->source, t->shard, f->fd, f->direct, base + first - skip,
                                s->memory, (size_t)all, err);
    s->bytes = s->memory + skip;
    s->count = count;
    return status;
}

sb_status sb_reader_fetch(sb_reader *r, const sb_checkpoint *checkpoint, const sb_tensor *t,
                          uint64_t first, uint64_t count, unsigned number,
                          const unsigned char **bytes, sb_error *err)
{
    slot *s = &r->slots[number];
    const sb_source *source = r->sources[sb_source_checkpoint(r->sources[0]) != checkpoint];
    sb_status status = SB_OK;
    /* I-3: "what a slot holds is not read again" */
    if (s->tensor == t && first >= s->first && first + count <= s->first + s->count) {
        *bytes = s->bytes + (first - s->first);
        return SB_OK;
    }
    let_go(r, s);
    if (s->source != source || s->shard != t->shard)
        drop(r, s);
    s->source = source;
    s->shard = t->shard;
    /* I-3: "more than 32 MiB at once stay mapped" */
    if (sb_source_io(source) == SB_IO_map || count > SB_READER_LARGEST)
        s->bytes = t->data + first, s->count = count;
    else
        status = load(r, s, t, first, count, err);
    if (status)
        return status;
    s->tensor = t;
    s->first = first;
    *bytes = s->bytes;
    return SB_OK;
}

void sb_reader_done(sb_reader *r, const sb_tensor *t)
{
    for (unsigned i = 0; i < SB_READER_SLOTS; i++)
        if (r->slots[i].tensor == t)
            let_go(r, &r->slots[i]);
}
