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
    STACK = 4096       /* bytes of a stack's factor, a number for each expert */
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
    for (size_t i = 0; i < s.count; i++) {
        union {
            const unsigned char *given;
            void *taken;
        } bytes = {.given = s.pieces[i].taken};
        free(bytes.taken);
    }
    free(s.pieces);
    free(s.header);
    return status;
}
