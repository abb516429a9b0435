#include "tools/check/remote/shard.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "ref/container/safetensors.h"
#include "ref/container/show.h"
#include "ref/container/stub.h"

enum {
    FIRST = 256 << 10, /* bytes of the first request: most headers are shorter */
    GAP = 64 << 10,    /* bytes between two numbers that are read with them, to spare a request */
    PLACES_MAX = 512,  /* requests for the numbers of one shard */
    NUMBER = 16,       /* bytes of a tensor that is one or two numbers */
    STACK = 4096,      /* bytes of a stack's factor, a number for each expert */
    REQUEST = 8 << 20  /* bytes of a request for data */
};

static const uint64_t file_max = (uint64_t)1 << 46;

/* --- the header ------------------------------------------------------------------------------- */

/* A shard while it is read. */
typedef struct shard {
    sb_http *http;
    sb_http_file *file;
    const char *path;
    unsigned char *header;
    uint64_t header_bytes; /* with the eight bytes of length */
    sb_stub_piece *pieces; /* own their bytes */
    size_t count, room;
} shard;

static sb_status no_memory(const shard *s, sb_error *err)
{
    return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(s->file->url));
}

static sb_status read_rest(shard *s, size_t have, sb_error *err)
{
    unsigned char *rest = NULL;
    size_t got = 0, want = (size_t)s->header_bytes - have;
    unsigned char *grown = sb_realloc(s->header, (size_t)s->header_bytes, 1);
    if (!grown)
        return no_memory(s, err);
    s->header = grown;
    sb_status status = sb_http_range(s->http, s->file, have, want, &rest, &got, err);
    if (!status && got != want)
        status = sb_fail(err, SB_ERR_INPUT, "%s: the file ends within its header",
                         SB_SHOW(s->file->url));
    if (!status)
        memcpy(grown + have, rest, want);
    free(rest);
    return status;
}

/* Reads the header; *whole is set to 1 if the file is no longer than what was read. */
static sb_status read_header(shard *s, int *whole, sb_error *err)
{
    size_t got = 0;
    sb_status status = sb_http_range(s->http, s->file, 0, FIRST, &s->header, &got, err);
    if (status)
        return status;
    const char *url = SB_SHOW(s->file->url);
    s->header_bytes = got;
    *whole = got == s->file->size;
    if (*whole)
        return SB_OK;
    if (s->file->size > file_max)
        return sb_fail(err, SB_ERR_INPUT, "%s: has %" PRIu64 " bytes, expected at most %" PRIu64,
                       url, s->file->size, file_max);
    uint64_t n = sb_load_u64(s->header);
    if (n > SB_MAX_HEADER_BYTES || n > s->file->size - 8)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: header length at offset 0 is %" PRIu64 ", expected at most %" PRIu64
                       " in a file of %" PRIu64 " bytes",
                       url, n,
                       s->file->size - 8 < SB_MAX_HEADER_BYTES ? s->file->size - 8
                                                               : (uint64_t)SB_MAX_HEADER_BYTES,
                       s->file->size);
    s->header_bytes = n + 8;
    return s->header_bytes > got ? read_rest(s, got, err) : SB_OK;
}

static sb_status write_stub(const shard *s, sb_error *err)
{
    sb_stub stub = {s->header, s->header_bytes, s->file->size, s->pieces, s->count};
    return sb_stub_write(s->path, &stub, err);
}

/* --- the numbers ------------------------------------------------------------------------------ */

/* True for the name of a stack of experts: "...mlp.experts.gate_up_proj_input_scale". */
static int of_stack(const char *name)
{
    const char *at = strstr(name, ".experts.");
    return at && !(at[9] >= '0' && at[9] <= '9');
}

/* True for tensors of one or two numbers, and for the factors of a stack of experts: what is read
 * where only headers are looked at (sb_detect_headers). */
static int is_number(const sb_tensor *t)
{
    return t->bytes > 0 && (t->bytes <= NUMBER || (t->bytes <= STACK && of_stack(t->name)));
}

/* Adds the bytes of a tensor, or makes the last piece longer. Tensors come by offset. */
static sb_status add_place(shard *s, uint64_t at, uint64_t bytes, sb_error *err)
{
    sb_stub_piece *last = s->count ? &s->pieces[s->count - 1] : NULL;
    if (last && at - (last->at + last->bytes) <= GAP) {
        last->bytes = at + bytes - last->at;
        return SB_OK;
    }
    if (s->count == PLACES_MAX)
        return sb_fail(
            err, SB_ERR_INPUT,
            "%s: its scales are in more than %d places of the file, too many to be read over HTTP",
            SB_SHOW(s->file->url), PLACES_MAX);
    sb_stub_piece *grown = sb_grow(s->pieces, s->count, &s->room, sizeof *grown);
    if (!grown)
        return no_memory(s, err);
    s->pieces = grown;
    s->pieces[s->count++] = (sb_stub_piece){.at = at, .bytes = bytes};
    return SB_OK;
}

/* Finds the places of the numbers in the stub that was written without them. A damaged header has
 * none, and is judged by who opens the stub. */
static sb_status find_places(shard *s, sb_error *err)
{
    sb_safetensors in;
    sb_error why;
    sb_status status = sb_safetensors_open(s->path, &in, &why);
    if (status == SB_ERR_MEMORY || status == SB_ERR_IO)
        return sb_fail(err, status, "%s", why.text);
    if (status)
        return SB_OK;
    for (size_t i = 0; i < in.count && !status; i++)
        if (is_number(&in.tensors[i]))
            status =
                add_place(s, (uint64_t)(in.tensors[i].data - in.bytes), in.tensors[i].bytes, err);
    sb_safetensors_close(&in);
    return status;
}

static sb_status read_pieces(shard *s, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t i = 0; i < s->count && !status; i++) {
        sb_stub_piece *p = &s->pieces[i];
        unsigned char *bytes = NULL;
        size_t got = 0;
        status = sb_http_range(s->http, s->file, p->at, p->bytes, &bytes, &got, err);
        p->taken = bytes;
        if (!status && got != p->bytes)
            status = sb_fail(err, SB_ERR_INPUT,
                             "%s: the file ends at byte %" PRIu64 ", expected %" PRIu64,
                             SB_SHOW(s->file->url), p->at + got, s->file->size);
    }
    return status;
}

static void free_pieces(sb_stub_piece *pieces, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        union {
            const unsigned char *given;
            void *taken;
        } bytes = {.given = pieces[i].taken};
        free(bytes.taken);
    }
    free(pieces);
}

sb_status sb_remote_shard(sb_http *http, sb_http_file *file, const char *path, sb_error *err)
{
    shard s = {.http = http, .file = file, .path = path};
    int whole = 0;
    sb_status status = read_header(&s, &whole, err);
    if (!status && whole) {
        status = sb_write_file(path, s.header, (size_t)s.header_bytes, err);
    } else if (!status) {
        status = write_stub(&s, err);
        if (!status)
            status = find_places(&s, err);
        if (!status)
            status = read_pieces(&s, err);
        if (!status && s.count)
            status = write_stub(&s, err);
    }
    free_pieces(s.pieces, s.count);
    free(s.header);
    return status;
}

/* --- more of its data ------------------------------------------------------------------------- */

/* A stub that gets more pieces. */
typedef struct growth {
    sb_http *http;
    sb_http_file *file;
    const sb_stub *old;
} growth;

/* Reads bytes of the file into memory, in requests that can be repeated one by one. */
static sb_status read_into(const growth *g, uint64_t at, uint64_t bytes, unsigned char *to,
                           sb_error *err)
{
    sb_status status = SB_OK;
    for (uint64_t done = 0; done < bytes && !status;) {
        unsigned char *got = NULL;
        size_t n = 0;
        const uint64_t want = bytes - done < REQUEST ? bytes - done : REQUEST;
        status = sb_http_range(g->http, g->file, at + done, want, &got, &n, err);
        if (!status && n != want)
            status = sb_fail(err, SB_ERR_INPUT,
                             "%s: the file ends at byte %" PRIu64 ", expected %" PRIu64,
                             SB_SHOW(g->file->url), at + done + n, g->file->size);
        if (!status)
            memcpy(to + done, got, n);
        free(got);
        done += want;
    }
    return status;
}

/* Fills a piece with the bytes that the old stub has, and with those of the server. */
static sb_status fill_piece(const growth *g, const sb_stub_piece *piece, unsigned char *to,
                            sb_error *err)
{
    uint64_t at = piece->at;
    const uint64_t end = piece->at + piece->bytes;
    sb_status status = SB_OK;
    for (size_t i = 0; i < g->old->piece_count && !status; i++) {
        const sb_stub_piece *p = &g->old->pieces[i];
        if (p->at < at || p->at >= end)
            continue;
        status = read_into(g, at, p->at - at, to + (at - piece->at), err);
        memcpy(to + (p->at - piece->at), p->taken, (size_t)p->bytes);
        at = p->at + p->bytes;
    }
    return status ? status : read_into(g, at, end - at, to + (at - piece->at), err);
}

static int by_offset(const void *a, const void *b)
{
    const sb_stub_piece *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

/* Joins sorted pieces that touch or overlap; returns how many are left. */
static size_t join(sb_stub_piece *pieces, size_t count)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        sb_stub_piece *last = n ? &pieces[n - 1] : NULL;
        const uint64_t end = pieces[i].at + pieces[i].bytes;
        if (last && pieces[i].at <= last->at + last->bytes)
            last->bytes = end > last->at + last->bytes ? end - last->at : last->bytes;
        else
            pieces[n++] = (sb_stub_piece){.at = pieces[i].at, .bytes = pieces[i].bytes};
    }
    return n;
}

static sb_status grow(const growth *g, const char *path, sb_stub_piece *pieces, size_t count,
                      sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t i = 0; i < count && !status; i++) {
        unsigned char *bytes = sb_alloc((size_t)pieces[i].bytes, 1);
        pieces[i].taken = bytes;
        status = bytes ? fill_piece(g, &pieces[i], bytes, err)
                       : sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(path));
    }
    if (status)
        return status;
    sb_stub stub = *g->old;
    stub.pieces = pieces;
    stub.piece_count = count;
    return sb_stub_write(path, &stub, err);
}

/* Checks that the ranges are in the file, and sets *more if the stub lacks one of them. */
static sb_status look_for(const sb_stub *stub, const sb_http_file *file, const char *path,
                          const sb_stub_piece *wanted, size_t count, int *more, sb_error *err)
{
    *more = 0;
    if (stub->file_bytes != file->size)
        return sb_fail(err, SB_ERR_INPUT, "%s: the stub of %" PRIu64 " bytes, expected %" PRIu64,
                       SB_SHOW(path), stub->file_bytes, file->size);
    for (size_t i = 0; i < count; i++) {
        if (wanted[i].at < stub->header_bytes || wanted[i].at > file->size ||
            wanted[i].bytes > file->size - wanted[i].at)
            return sb_fail(err, SB_ERR_INPUT, "%s: has no %" PRIu64 " bytes at byte %" PRIu64,
                           SB_SHOW(path), wanted[i].bytes, wanted[i].at);
        *more |= !sb_stub_has(stub, wanted[i].at, wanted[i].bytes);
    }
    return SB_OK;
}

sb_status sb_remote_shard_data(sb_http *http, sb_http_file *file, const char *path,
                               const sb_stub_piece *wanted, size_t count, sb_error *err)
{
    sb_map map;
    sb_stub stub;
    sb_stub_piece *old, *all = NULL;
    int is, more;
    sb_status status = sb_stub_load(path, &map, &is, &stub, &old, err);
    if (status)
        return status;
    if (!is) {
        sb_map_close(&map);
        return SB_OK;
    }
    growth g = {http, file, &stub};
    const size_t most = stub.piece_count + count;
    size_t n = 0;
    status = look_for(&stub, file, path, wanted, count, &more, err);
    if (!status && more && !(all = sb_alloc(most, sizeof *all)))
        status = sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(path));
    if (!status && more) {
        for (size_t i = 0; i < most; i++)
            all[i] = i < count ? wanted[i] : old[i - count];
        qsort(all, most, sizeof *all, by_offset);
        n = join(all, most);
        for (size_t i = 0; i < n; i++)
            all[i].taken = NULL;
        status = grow(&g, path, all, n, err);
    }
    free_pieces(all, n);
    free(old);
    sb_map_close(&map);
    return status;
}
