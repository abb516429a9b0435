#include "ref/container/writer_layout.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/container/index.h"
#include "ref/container/show.h"

static int by_name(const void *left, const void *right)
{
    const sb_tensor *a = *(const sb_tensor *const *)left;
    const sb_tensor *b = *(const sb_tensor *const *)right;
    return strcmp(a->name, b->name);
}

/* Inside a shard: the widest dtype first, so that every tensor is aligned; then by name. */
static int by_place(const void *left, const void *right)
{
    const sb_tensor *a = *(const sb_tensor *const *)left;
    const sb_tensor *b = *(const sb_tensor *const *)right;
    if (a->shard != b->shard)
        return a->shard < b->shard ? -1 : 1;
    if (a->dtype != b->dtype)
        return a->dtype > b->dtype ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Fills shards in the order of declaration. A tensor larger than a shard gets its own. */
static sb_status fill_shards(sb_writer *w, sb_error *err)
{
    uint64_t used = 0;
    size_t cut = 0;
    w->shards = 1;
    w->total = 0;
    for (size_t i = 0; i < w->count; i++) {
        sb_tensor *t = &w->tensors[i];
        if (t->bytes > INT64_MAX - w->total) /* JSON readers have integers of 63 bits */
            return sb_fail(err, SB_ERR_USAGE, "%s: tensor \"%s\": the total overflows 63 bits",
                           SB_SHOW(w->path), SB_SHOW(t->name));
        int cut_here = cut < w->cut_count && w->cuts[cut] == i;
        cut += (size_t)cut_here;
        if (used > 0 &&
            (cut_here || used > w->max_shard_bytes || t->bytes > w->max_shard_bytes - used)) {
            w->shards++;
            used = 0;
        }
        t->shard = (uint32_t)(w->shards - 1);
        used += t->bytes;
        w->total += t->bytes;
    }
    if (w->shards > SB_MAX_SHARDS)
        return sb_fail(err, SB_ERR_USAGE,
                       "%s: shards of %" PRIu64 " bytes make %zu files, expected at most %d",
                       SB_SHOW(w->path), w->max_shard_bytes, w->shards, SB_MAX_SHARDS);
    return SB_OK;
}

sb_status sb_writer_plan(sb_writer *w, sb_error *err)
{
    if (w->by_name || w->count == 0)
        return sb_fail(err, SB_ERR_USAGE,
                       "%s: a writer runs only once and needs at least one tensor",
                       SB_SHOW(w->path));
    sb_status status = fill_shards(w, err);
    if (status != SB_OK)
        return status;
    w->by_name = sb_alloc(w->count, sizeof *w->by_name);
    w->by_place = sb_alloc(w->count, sizeof *w->by_place);
    w->files = sb_alloc(w->shards + 1, sizeof *w->files);
    if (!w->by_name || !w->by_place || !w->files)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory for %zu tensors", SB_SHOW(w->path),
                       w->count);
    for (size_t i = 0; i < w->count; i++)
        w->by_name[i] = w->by_place[i] = &w->tensors[i];
    qsort(w->by_name, w->count, sizeof *w->by_name, by_name);
    qsort(w->by_place, w->count, sizeof *w->by_place, by_place);
    for (size_t i = 1; i < w->count; i++)
        if (strcmp(w->by_name[i]->name, w->by_name[i - 1]->name) == 0)
            return sb_fail(err, SB_ERR_USAGE, "%s: tensor \"%s\" is declared twice",
                           SB_SHOW(w->path), SB_SHOW(w->by_name[i]->name));
    return sb_writer_plan_metadata(w, err);
}

sb_shard_name sb_writer_shard_name(const sb_writer *w, size_t shard)
{
    sb_shard_name name;
    if (w->shards == 1)
        snprintf(name.text, sizeof name.text, "model.safetensors");
    else
        snprintf(name.text, sizeof name.text, "model-%05u-of-%05u.safetensors", (unsigned)shard + 1,
                 (unsigned)w->shards);
    return name;
}

int sb_writer_is_shard_name(const char *name)
{
    static const char pattern[] = "model-#####-of-#####.safetensors";
    if (strcmp(name, "model.safetensors") == 0)
        return 1;
    if (strlen(name) != strlen(pattern))
        return 0;
    for (size_t i = 0; pattern[i]; i++)
        if (pattern[i] == '#' ? name[i] < '0' || name[i] > '9' : name[i] != pattern[i])
            return 0;
    return 1;
}

static int make_room(sb_text *text, size_t bytes)
{
    if (!text->failed && text->room - text->used < bytes) {
        size_t room = 2 * text->room + bytes;
        char *grown = sb_realloc(text->bytes, room, 1);
        if (grown) {
            text->bytes = grown;
            text->room = room;
        }
        text->failed = grown == NULL;
    }
    return !text->failed;
}

void sb_text_put(sb_text *text, const char *format, ...)
{
    /* no caller appends a longer text in one call */
    enum { LONGEST = 2 * SB_MAX_TENSOR_NAME + 512 };
    if (!make_room(text, LONGEST))
        return;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text->bytes + text->used, LONGEST, format, args);
    va_end(args);
    if (n < 0 || n >= LONGEST)
        text->failed = 1;
    else
        text->used += (size_t)n;
}

/* Appends a JSON string. Control characters are escaped; everything else is UTF-8 already. */
void sb_text_string(sb_text *text, const char *string)
{
    sb_text_put(text, "\"");
    for (; *string; string++) {
        unsigned char c = (unsigned char)*string;
        sb_text_put(text, c < 0x20 ? "\\u%04x" : c == '"' || c == '\\' ? "\\%c" : "%c", c);
    }
    sb_text_put(text, "\"");
}

static void put_entry(sb_text *text, const sb_tensor *t, uint64_t begin)
{
    sb_text_string(text, t->name);
    sb_text_put(text, ":{\"dtype\":\"%s\",\"shape\":[", sb_dtype_name(t->dtype));
    for (unsigned i = 0; i < t->rank; i++)
        sb_text_put(text, i ? ",%" PRIu64 : "%" PRIu64, t->shape[i]);
    sb_text_put(text, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin, begin + t->bytes);
}

/* C-1: "eight bytes of little-endian header length n, n bytes of JSON, then the data buffer" -
 * spaces pad n to a multiple of 8, so that the data begins aligned. */
void sb_writer_header(const sb_writer *w, size_t first, size_t end, sb_text *text)
{
    uint64_t at = 0;
    sb_text_put(text, "%8s{\"__metadata__\":{\"format\":\"pt\"", "");
    sb_writer_put_metadata(w, w->by_place[first]->shard, text);
    sb_text_put(text, "}");
    for (size_t i = first; i < end; i++) {
        sb_text_put(text, ",");
        put_entry(text, w->by_place[i], at);
        at += w->by_place[i]->bytes;
    }
    sb_text_put(text, "}");
    while (text->used % 8 != 0 && !text->failed)
        sb_text_put(text, " ");
    if (!text->failed)
        sb_store_u64((unsigned char *)text->bytes, text->used - 8);
}

void sb_writer_index(const sb_writer *w, sb_text *text)
{
    sb_text_put(text,
                "{\n  \"metadata\": {\n    \"total_size\": %" PRIu64 "\n  },\n  \"weight_map\": {",
                w->total);
    for (size_t i = 0; i < w->count; i++) {
        sb_text_put(text, i ? ",\n    " : "\n    ");
        sb_text_string(text, w->by_name[i]->name);
        sb_text_put(text, ": \"%s\"", sb_writer_shard_name(w, w->by_name[i]->shard).text);
    }
    sb_text_put(text, "\n  }\n}\n");
}
