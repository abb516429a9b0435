#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "ref/container/stub.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "ref/container/show.h"

enum { MAGIC = sizeof SB_STUB_MAGIC - 1, TAIL = 24 + MAGIC, ROW = 16 };

static int allowed;

void sb_stubs_allow(void)
{
    allowed = 1;
}

/* --- writing ---------------------------------------------------------------------------------- */

static sb_status append_numbers(sb_file_out *out, const uint64_t *numbers, size_t count,
                                sb_error *err)
{
    unsigned char bytes[24];
    for (size_t i = 0; i < count; i++)
        sb_store_u64(bytes + 8 * i, numbers[i]);
    return sb_file_append(out, bytes, 8 * count, err);
}

static sb_status append_all(sb_file_out *out, const sb_stub *s, sb_error *err)
{
    sb_status status = sb_file_append(out, s->header, (size_t)s->header_bytes, err);
    for (size_t i = 0; i < s->piece_count && !status; i++)
        status = sb_file_append(out, s->pieces[i].taken, (size_t)s->pieces[i].bytes, err);
    for (size_t i = 0; i < s->piece_count && !status; i++)
        status = append_numbers(out, (uint64_t[]){s->pieces[i].at, s->pieces[i].bytes}, 2, err);
    if (!status)
        status = append_numbers(out, (uint64_t[]){s->header_bytes, s->file_bytes, s->piece_count},
                                3, err);
    return status ? status : sb_file_append(out, SB_STUB_MAGIC, MAGIC, err);
}

sb_status sb_stub_write(const char *path, const sb_stub *stub, sb_error *err)
{
    sb_file_out out;
    sb_status status = sb_file_begin(path, &out, err);
    if (status)
        return status;
    status = append_all(&out, stub, err);
    if (!status)
        status = sb_file_sync(&out, err);
    if (!status)
        status = sb_file_commit(&out, err);
    sb_file_abort(&out);
    return status;
}

/* --- reading ---------------------------------------------------------------------------------- */

static int is_stub(const sb_map *map)
{
    return map->size >= TAIL && memcmp(map->data + map->size - MAGIC, SB_STUB_MAGIC, MAGIC) == 0;
}

/* Reads the numbers at the end of the file. Fills in all of *out but the pieces' list, which starts
 * at *rows. Returns 0 if the numbers do not fit the file. */
static int read_tail(const sb_map *map, sb_stub *out, const unsigned char **rows)
{
    const unsigned char *tail = map->data + map->size - TAIL;
    uint64_t count = sb_load_u64(tail + 16), room = map->size - TAIL;
    *out = (sb_stub){.header = map->data,
                     .header_bytes = sb_load_u64(tail),
                     .file_bytes = sb_load_u64(tail + 8)};
    if (count > SB_STUB_MAX_PIECES || count * ROW > room)
        return 0;
    room -= count * ROW;
    out->piece_count = (size_t)count;
    *rows = tail - count * ROW;
    return out->header_bytes >= 8 && out->header_bytes <= room &&
           out->header_bytes - 8 == sb_load_u64(out->header) &&
           out->file_bytes >= out->header_bytes && out->file_bytes <= SIZE_MAX / 4;
}

/* Reads the list of pieces, which must fill the file. */
static int read_pieces(const sb_map *map, const sb_stub *s, const unsigned char *rows,
                       sb_stub_piece *pieces)
{
    const unsigned char *at = map->data + s->header_bytes;
    uint64_t end = s->header_bytes;
    for (size_t i = 0; i < s->piece_count; i++) {
        sb_stub_piece *p = &pieces[i];
        *p = (sb_stub_piece){sb_load_u64(rows + ROW * i), sb_load_u64(rows + ROW * i + 8), at};
        if (p->at < end || p->at > s->file_bytes || p->bytes > s->file_bytes - p->at ||
            p->bytes > (uint64_t)(rows - at))
            return 0;
        end = p->at + p->bytes;
        at += p->bytes;
    }
    return at == rows;
}

/* Memory in place of the pages from `from` to `end` - 1. */
static int make_pages(unsigned char *from, const unsigned char *end)
{
    return from == end || mmap(from, (size_t)(end - from), PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

/* Copies header and pieces into the mapping; data is where the header ends, the start of a page. */
static int fill(const sb_stub *s, unsigned char *base, unsigned char *data, size_t page)
{
    unsigned char *made = data;
    if (!make_pages(base, data))
        return 0;
    memcpy(data - s->header_bytes, s->header, (size_t)s->header_bytes);
    for (size_t i = 0; i < s->piece_count; i++) {
        const sb_stub_piece *p = &s->pieces[i];
        uint64_t from = p->at - s->header_bytes, to = from + p->bytes;
        unsigned char *first = data + from / page * page;
        unsigned char *end = data + (to + page - 1) / page * page;
        if (first < made) /* the page is shared with the piece before */
            first = made;
        if (first < end && !make_pages(first, end))
            return 0;
        made = end > made ? end : made;
        memcpy(data + from, p->taken, (size_t)p->bytes);
    }
    return 1;
}

/* Maps the pages behind the end of the stub's file, which cannot be touched, at the length of the
 * whole file. */
static sb_status map_whole(const char *path, const sb_stub *s, size_t stub_bytes, sb_map *out,
                           sb_error *err)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t front = ((size_t)s->header_bytes + page - 1) / page * page;
    const size_t behind = (stub_bytes + page - 1) / page * page;
    const size_t length = front + (size_t)(s->file_bytes - s->header_bytes);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    unsigned char *base =
        fd < 0 ? MAP_FAILED : mmap(NULL, length, PROT_READ, MAP_PRIVATE, fd, (off_t)behind);
    if (fd >= 0)
        close(fd);
    if (base == MAP_FAILED || !fill(s, base, base + front, page) ||
        mprotect(base, length, PROT_READ) != 0) {
        sb_status status = sb_fail(err, SB_ERR_IO, "%s: cannot map a file of %" PRIu64 " bytes: %s",
                                   SB_SHOW(path), s->file_bytes, strerror(errno));
        if (base != MAP_FAILED)
            munmap(base, length);
        return status;
    }
    *out = (sb_map){base + front - s->header_bytes, (size_t)s->file_bytes};
    return SB_OK;
}

static sb_status damaged(const char *path, sb_error *err)
{
    return sb_fail(err, SB_ERR_INPUT, "%s: a damaged stub of a safetensors file", SB_SHOW(path));
}

/* The list of pieces, after read_tail. */
static sb_status take_pieces(const char *path, const sb_map *map, sb_stub *stub,
                             const unsigned char *rows, sb_stub_piece **pieces, sb_error *err)
{
    *pieces = sb_alloc(stub->piece_count, sizeof **pieces);
    if (!*pieces)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(path));
    stub->pieces = *pieces;
    return read_pieces(map, stub, rows, *pieces) ? SB_OK : damaged(path, err);
}

sb_status sb_stub_open(const char *path, sb_map *map, int *is, sb_error *err)
{
    sb_stub stub;
    const unsigned char *rows;
    sb_stub_piece *pieces;
    sb_map whole;
    *is = is_stub(map);
    if (!*is)
        return SB_OK;
    if (!read_tail(map, &stub, &rows))
        return damaged(path, err);
    if (!allowed)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: has only the header of a file of %" PRIu64
                       " bytes, as --remote keeps it: its data is not here. Only info, floor, "
                       "hash --headers, check --headers, check --remote --sample and "
                       "graft --dry-run can use it",
                       SB_SHOW(path), stub.file_bytes);
    sb_status status = take_pieces(path, map, &stub, rows, &pieces, err);
    if (!status)
        status = map_whole(path, &stub, map->size, &whole, err);
    free(pieces);
    if (status)
        return status;
    sb_map_close(map);
    *map = whole;
    return SB_OK;
}

sb_status sb_stub_load(const char *path, sb_map *map, int *is, sb_stub *out, sb_stub_piece **pieces,
                       sb_error *err)
{
    const unsigned char *rows;
    *pieces = NULL;
    sb_status status = sb_map_open(path, map, err);
    if (status)
        return status;
    *is = is_stub(map);
    if (!*is)
        return SB_OK;
    status = read_tail(map, out, &rows) ? take_pieces(path, map, out, rows, pieces, err)
                                        : damaged(path, err);
    if (!status)
        return SB_OK;
    free(*pieces);
    *pieces = NULL;
    sb_map_close(map);
    return status;
}

int sb_stub_has(const sb_stub *stub, uint64_t at, uint64_t bytes)
{
    int has = 0;
    for (size_t i = 0; i < stub->piece_count && !has; i++) {
        const sb_stub_piece *p = &stub->pieces[i];
        has = at >= p->at && at - p->at <= p->bytes && bytes <= p->bytes - (at - p->at);
    }
    return has;
}

int sb_stub_holds(const char *path, uint64_t at, uint64_t bytes)
{
    sb_map map;
    sb_stub stub;
    sb_stub_piece *pieces;
    sb_error why;
    int is;
    if (sb_stub_load(path, &map, &is, &stub, &pieces, &why))
        return 0;
    const int holds = is && sb_stub_has(&stub, at, bytes);
    free(pieces);
    sb_map_close(&map);
    return holds;
}
