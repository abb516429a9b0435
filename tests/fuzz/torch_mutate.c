#include "tests/fuzz/torch_mutate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/text.h"
#include "ref/container/file.h"
#include "tests/lib/splice.h"
#include "tools/dump/zip.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

static void *sure(void *p)
{
    if (!p)
        abort();
    return p;
}

static unsigned char *copy_of(const unsigned char *bytes, size_t size)
{
    unsigned char *out = sure(malloc(size + 1));
    memcpy(out, bytes, size);
    return out;
}

void torch_seed_load(torch_seed *seed, const char *path)
{
    unsigned char *bytes;
    size_t size;
    sb_zip *zip = NULL;
    sb_error err;
    if (sb_read_file(path, 1 << 20, &bytes, &size, &err) ||
        sb_zip_open(bytes, size, path, &zip, &err)) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    for (size_t i = 0; i < sb_zip_count(zip) && seed->count < TORCH_MEMBERS; i++) {
        torch_member *m = &seed->members[seed->count++];
        const unsigned char *content;
        if (sb_zip_read(zip, i, &content, &m->size, &err))
            abort();
        snprintf(m->name, sizeof m->name, "%s", sb_zip_name(zip, i));
        m->bytes = copy_of(content, m->size);
    }
    sb_zip_close(zip);
    free(bytes);
}

/* --- the pickle ------------------------------------------------------------------------------- */

static const char *const texts[] = {"value",
                                    "meta",
                                    "dims",
                                    "t h",
                                    "t h[tp]",
                                    "h(tp) t",
                                    "1 # ranks",
                                    "world_size",
                                    "model",
                                    "model.embed_tokens",
                                    "model.layers.0",
                                    "model.layers.99999999999",
                                    "model.layers.",
                                    "model.norm",
                                    "model.forward_batch_info.input_ids",
                                    ".forward_batch_info.input_ids",
                                    "x.forward_batch_info.input_ids",
                                    "model.forward_batch_info.positions",
                                    "logits_processor",
                                    "logits",
                                    "tokens",
                                    "positions",
                                    "0",
                                    "1",
                                    "-1",
                                    "storage",
                                    "cpu",
                                    "",
                                    ".",
                                    "\033[2J",
                                    "\xe2\x80\xae",
                                    "a\nb"};

/* The position of the n-th byte equal to opcode `op`, counted cyclically; SIZE_MAX if there is
 * none. */
static size_t opcode(const torch_member *m, unsigned char op, size_t n)
{
    size_t found = 0, last = SIZE_MAX;
    for (size_t i = 0; i + 6 < m->size; i++)
        if (m->bytes[i] == op) {
            last = i;
            if (found++ == n)
                break;
        }
    return last;
}

/* Changes a text of BINUNICODE, with its length. */
static void change_text(torch_member *m, json_draws *d)
{
    size_t at = opcode(m, 'X', json_draw(d, 24));
    uint64_t length = at == SIZE_MAX ? 0 : sb_load_u32(m->bytes + at + 1);
    const char *by = texts[json_draw(d, COUNT(texts))];
    unsigned char text[64];
    if (at == SIZE_MAX || length > m->size - at - 5)
        return;
    size_t n = strlen(by);
    sb_store_u32(text, (uint32_t)(json_draw(d, 20) ? n : json_draw(d, 1000)));
    memcpy(text + 4, by, n);
    splice(&m->bytes, &m->size, at + 1, 4 + (size_t)length, text, 4 + n);
}

/* Replaces a number of BININT1 by another one, which may be longer. */
static void change_number(torch_member *m, json_draws *d)
{
    static const int32_t numbers[] = {0, 1, 2, 3, 4, 5, 12, 255, -1, 1 << 20, INT32_MAX, INT32_MIN};
    size_t at = opcode(m, 'K', json_draw(d, 64));
    int32_t by = numbers[json_draw(d, COUNT(numbers))];
    unsigned char text[16] = {'K'};
    if (at == SIZE_MAX)
        return;
    if (json_draw(d, 12) == 0) { /* LONG1 of eight bytes */
        text[0] = 0x8a;
        text[1] = 8;
        sb_store_u64(text + 2, (uint64_t)json_draw(d, 1 << 16) << json_draw(d, 48));
        splice(&m->bytes, &m->size, at, 2, text, 10);
    } else if (by < 0 || by > 255) {
        text[0] = 'J';
        sb_store_u32(text + 1, (uint32_t)by);
        splice(&m->bytes, &m->size, at, 2, text, 5);
    } else {
        text[1] = (unsigned char)by;
        splice(&m->bytes, &m->size, at, 2, text, 2);
    }
}

static void change_bytes(torch_member *m, json_draws *d)
{
    size_t at = json_draw(d, m->size ? m->size : 1), n = json_draw(d, 12);
    n = n < m->size - at ? n : m->size - at;
    switch (json_draw(d, 4)) {
    case 0:
        splice(&m->bytes, &m->size, at, n, "", 0);
        return;
    case 1: { /* repeats a part of itself */
        unsigned char piece[16];
        memcpy(piece, m->bytes + at, n);
        splice(&m->bytes, &m->size, json_draw(d, m->size + 1), 0, piece, n);
        return;
    }
    default:
        if (m->size)
            m->bytes[at] = (unsigned char)json_draw(d, 256);
    }
}

/* --- the archive ------------------------------------------------------------------------------ */

static torch_member *pickle_of(torch_seed *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (sb_ends(s->members[i].name, "data.pkl"))
            return &s->members[i];
    return NULL;
}

static void change_member(torch_seed *s, json_draws *d)
{
    static const uint32_t values[] = {0,          1,          7,          8,         0x3f800000,
                                      0x7f800000, 0x7fc00000, 0xffffffff, 0x80000000};
    torch_member *m = &s->members[json_draw(d, s->count)];
    const torch_member *other = &s->members[json_draw(d, s->count)];
    switch (json_draw(d, 8)) {
    case 0:
        free(m->bytes);
        *m = s->members[--s->count];
        return;
    case 1:
        memmove(m->name, other->name, sizeof m->name);
        return;
    case 2:
        m->size = json_draw(d, m->size + 1);
        return;
    default:
        for (size_t i = 4 * json_draw(d, m->size / 4 + 1); i + 4 <= m->size;
             i += json_draw(d, 4) ? m->size : 4)
            sb_store_u32(m->bytes + i, values[json_draw(d, COUNT(values))]);
    }
}

static void change(torch_seed *s, json_draws *d)
{
    torch_member *pickle = pickle_of(s);
    size_t kind = json_draw(d, 10);
    if (!s->count)
        return;
    if (!pickle || kind < 3)
        change_member(s, d);
    else if (kind < 5)
        change_text(pickle, d);
    else if (kind < 8)
        change_number(pickle, d);
    else
        change_bytes(pickle, d);
}

archive torch_mutate(const torch_seed *from, unsigned steps, json_draws *d)
{
    torch_seed s = *from;
    archive out = {.members = 0};
    for (size_t i = 0; i < s.count; i++)
        s.members[i].bytes = copy_of(from->members[i].bytes, from->members[i].size);
    for (; steps; steps--)
        change(&s, d);
    for (size_t i = 0; i < s.count; i++)
        archive_add(&out, s.members[i].name, s.members[i].bytes, s.members[i].size,
                    json_draw(d, 200) == 0);
    archive_finish(&out);
    for (size_t i = 0; i < s.count; i++)
        free(s.members[i].bytes);
    return out;
}
