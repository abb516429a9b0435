#include "tests/fuzz/bundle_mutate.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/run/backend.h"

enum { MOST_TENSORS = 64, MOST_PAIRS = 24, MOST_BYTES = 1 << 18, TAR_BLOCK = 512 };

#define COUNT(list) (sizeof(list) / sizeof *(list))

typedef struct part {
    char name[128];
    sb_dtype dtype;
    unsigned rank;
    uint64_t shape[SB_MAX_RANK];
    unsigned char *bytes;
    size_t size;
} part;

typedef struct pair {
    char key[96], value[2048];
} pair;

typedef struct parts {
    part tensors[MOST_TENSORS];
    pair pairs[MOST_PAIRS];
    size_t count, pair_count;
} parts;

static void *sure(void *p)
{
    if (!p)
        abort();
    return p;
}

static parts *parts_of(const sb_safetensors *from)
{
    parts *p = sure(calloc(1, sizeof *p));
    for (size_t i = 0; i < from->count && p->count < MOST_TENSORS; i++) {
        const sb_tensor *t = &from->tensors[i];
        part *to = &p->tensors[p->count++];
        snprintf(to->name, sizeof to->name, "%s", t->name);
        to->dtype = t->dtype;
        to->rank = t->rank;
        memcpy(to->shape, t->shape, sizeof to->shape);
        to->size = (size_t)t->bytes;
        to->bytes = sure(malloc(to->size + 1));
        memcpy(to->bytes, t->data, to->size);
    }
    for (size_t i = 0; i < from->metadata.count && p->pair_count < MOST_PAIRS; i++) {
        pair *to = &p->pairs[p->pair_count++];
        snprintf(to->key, sizeof to->key, "%s", from->metadata.pairs[i].key);
        snprintf(to->value, sizeof to->value, "%s", from->metadata.pairs[i].value);
    }
    return p;
}

static void free_parts(parts *p)
{
    for (size_t i = 0; i < p->count; i++)
        free(p->tensors[i].bytes);
    free(p);
}

/* --- texts ------------------------------------------------------------------------------------ */

static const char *const numbers[] = {
    "0",        "1",          "2",          "3",
    "4",        "7",          "8",          "16",
    "33",       "128",        "4096",       "67108864",
    "67108865", "2147483647", "4294967296", "18446744073709551616",
    "-1",       "-0",         "0.5",        "1e-30",
    "1e30",     "1e308",      "1e999",      "nan",
    "inf",      "-inf",       "0x1p26",     "0x1p-1074",
    "",         "x"};

static const char *const outputs[] = {"out", "state", "ids", "weights", "x",    "q", "k",
                                      "g",   "beta",  "in",  "logits",  "none", ""};

/* Replaces the `count` bytes at `at` by `by`, as far as there is room. */
static void replace(pair *p, size_t at, size_t count, const char *by)
{
    char text[sizeof p->value];
    snprintf(text, sizeof text, "%.*s%s%s", (int)at, p->value, by, p->value + at + count);
    memcpy(p->value, text, sizeof text);
}

/* Changes one of the numbers in a text like "rows=5 eps=0x1p-20", to another one or by one. */
static void change_number(pair *p, json_draws *d)
{
    size_t equals = 0, chosen = 0;
    char by[32];
    for (const char *at = strchr(p->value, '='); at; at = strchr(at + 1, '='))
        equals++;
    for (size_t n = json_draw(d, equals + 1); n > 0; n--)
        chosen = (size_t)(strchr(p->value + chosen, '=') - p->value) + 1;
    size_t length = strcspn(p->value + chosen, " ");
    if (json_draw(d, 2))
        snprintf(by, sizeof by, "%s", numbers[json_draw(d, COUNT(numbers))]);
    else
        snprintf(by, sizeof by, "%llu",
                 strtoull(p->value + chosen, NULL, 10) + json_draw(d, 5) -
                     (json_draw(d, 2) ? 2 : 1));
    replace(p, chosen, length, by);
}

static void change_bytes(pair *p, json_draws *d)
{
    static const char *const hostile[] = {
        "\033[2J", "\xe2\x80\xae", "\xc2\x9b", "\n",           "\x7f",  "=", " ",
        "%s%n",    "\"",           "<script>", "\xe2\x80\xa8", "rows=", "'"};
    size_t n = strlen(p->value), at = json_draw(d, n + 1);
    size_t gone = json_draw(d, 2) ? json_draw(d, n - at + 1) : 0;
    replace(p, at, gone, json_draw(d, 2) ? hostile[json_draw(d, COUNT(hostile))] : "");
}

static void change_pair(parts *p, json_draws *d)
{
    if (!p->pair_count)
        return;
    pair *one = &p->pairs[json_draw(d, p->pair_count)];
    const pair *other = &p->pairs[json_draw(d, p->pair_count)];
    const char *last = strrchr(one->key, '.');
    switch (json_draw(d, 12)) {
    case 0:
        *one = p->pairs[--p->pair_count];
        return;
    case 1:
        memmove(one->value, other->value, sizeof one->value);
        return;
    case 2:
        change_bytes(one, d);
        return;
    case 3:
        snprintf(one->key, sizeof one->key, "samebit.bundle.param.%s",
                 json_draw(d, 2) ? "weight" : "table");
        return;
    default:
        if (last && strcmp(last, ".op") == 0)
            snprintf(one->value, sizeof one->value, "%s", sb_op_name(json_draw(d, SB_OP_COUNT)));
        else if (last && strcmp(last, ".output") == 0)
            snprintf(one->value, sizeof one->value, "%s", outputs[json_draw(d, COUNT(outputs))]);
        else
            change_number(one, d);
    }
}

/* --- tensors ---------------------------------------------------------------------------------- */

static void resize(part *t, size_t size)
{
    t->bytes = sure(realloc(t->bytes, size + 1));
    for (size_t i = t->size; i < size; i++)
        t->bytes[i] = (unsigned char)(t->size ? t->bytes[i % t->size] : 0);
    t->size = size;
}

/* Gives the tensor as many bytes as its type and shape need, unless that is absurdly many. */
static void fit(part *t)
{
    uint64_t bytes;
    sb_error unused;
    if (!sb_dtype_bytes(t->dtype, t->rank, t->shape, &bytes, &unused) && bytes <= MOST_BYTES)
        resize(t, (size_t)bytes);
}

static void change_shape(part *t, json_draws *d)
{
    static const uint64_t sizes[] = {1, 2, 3, 5, 8, 16, 64, 100, 256, 1 << 20, UINT64_C(1) << 40};
    size_t axis = json_draw(d, t->rank);
    switch (json_draw(d, 5)) {
    case 0:
        t->rank = 1 + (unsigned)json_draw(d, 3);
        for (size_t i = 0; i < t->rank; i++)
            t->shape[i] += t->shape[i] == 0;
        break;
    case 1: /* reverses the shape */
        if (t->rank >= 2) {
            uint64_t first = t->shape[0];
            t->shape[0] = t->shape[1];
            t->shape[1] = first;
        }
        return;
    case 2:
        t->shape[axis] += json_draw(d, 2) ? 1 : UINT64_MAX;
        break;
    default:
        t->shape[axis] = sizes[json_draw(d, COUNT(sizes))];
    }
    if (json_draw(d, 8))
        fit(t);
}

/* Writes a value that often breaks arithmetic, of four or eight bytes. */
static void change_value(part *t, json_draws *d)
{
    static const uint32_t bits[] = {0,          0x80000000, 1,          0x7f800000, 0xff800000,
                                    0x7fc00000, 0x7f7fffff, 0xff7fffff, 0x00800000, 0x3f800000,
                                    0xffffffff, 67108864,   67108865,   255,        0x40000000};
    size_t width = t->dtype == SB_DTYPE_F64 ? 8 : 4, places = t->size / width;
    if (!places) {
        if (t->size)
            t->bytes[json_draw(d, t->size)] = (unsigned char)json_draw(d, 256);
        return;
    }
    uint32_t value = bits[json_draw(d, COUNT(bits))];
    size_t at = json_draw(d, places) * width, all = json_draw(d, 8) == 0;
    for (size_t i = all ? 0 : at; i + width <= (all ? t->size : at + width); i += width) {
        if (width == 8)
            sb_store_u32(t->bytes + i, 0);
        sb_store_u32(t->bytes + i + width - 4, value);
    }
}

static void change_tensor(parts *p, json_draws *d)
{
    static const sb_dtype dtypes[] = {SB_DTYPE_F32, SB_DTYPE_F64, SB_DTYPE_U32,
                                      SB_DTYPE_U8,  SB_DTYPE_I32, SB_DTYPE_BF16};
    if (!p->count)
        return;
    part *t = &p->tensors[json_draw(d, p->count)];
    const part *other = &p->tensors[json_draw(d, p->count)];
    switch (json_draw(d, 12)) {
    case 0:
        free(t->bytes);
        *t = p->tensors[--p->count];
        return;
    case 1:
        memmove(t->name, other->name, sizeof t->name);
        return;
    case 2:
        t->dtype = dtypes[json_draw(d, COUNT(dtypes))];
        if (json_draw(d, 2))
            fit(t);
        return;
    case 3: /* takes the bytes of another tensor */
        memmove(t->bytes, other->bytes, t->size < other->size ? t->size : other->size);
        return;
    case 4:
    case 5:
    case 6:
        change_shape(t, d);
        return;
    default:
        change_value(t, d);
    }
}

/* The position and length of the number of one argument; the first arguments are more likely. */
static size_t size_in(const pair *args, json_draws *d, size_t *length)
{
    const char *at = strchr(args->value, '=');
    for (size_t n = json_draw(d, 4); at && n > 0; n--) {
        const char *next = strchr(at + 1, '=');
        at = next ? next : at;
    }
    *length = at ? strcspn(at + 1, " ") : 0;
    return at ? (size_t)(at - args->value) + 1 : 0;
}

/* Changes a size (rows, experts, heads) everywhere at once. The bundle still fits together, so that
 * the checks between sizes run. */
static void change_size(parts *p, json_draws *d)
{
    static const uint64_t sizes[] = {1, 2, 3, 4, 5, 8, 16, 17, 64, 65};
    uint64_t old = 0, by = sizes[json_draw(d, COUNT(sizes))];
    for (size_t i = 0; i < p->pair_count; i++) {
        if (strcmp(p->pairs[i].key, "samebit.bundle.args") != 0)
            continue;
        char text[24];
        size_t length, at = size_in(&p->pairs[i], d, &length);
        old = strtoull(p->pairs[i].value + at, NULL, 10);
        snprintf(text, sizeof text, "%llu", (unsigned long long)by);
        replace(&p->pairs[i], at, length, text);
    }
    for (size_t i = 0; i < p->count && old; i++) {
        part *t = &p->tensors[i];
        if (strncmp(t->name, "param.", 6) == 0 || !json_draw(d, 30))
            continue;
        for (unsigned k = 0; k < t->rank; k++)
            t->shape[k] = t->shape[k] == old ? by : t->shape[k];
        fit(t);
    }
}

/* --- the file --------------------------------------------------------------------------------- */

/* Bytes that are not UTF-8 cannot be JSON text: jansson returns NULL, and the pair is left out. */
static char *header_of(const parts *p, json_draws *d)
{
    json_t *header = sure(json_object()), *map = sure(json_object());
    size_t at = 0;
    int valid;
    for (size_t i = 0; i < p->pair_count; i++)
        json_object_set_new(map, p->pairs[i].key, json_string(p->pairs[i].value));
    json_object_set_new(header, "__metadata__", map);
    for (size_t i = 0; i < p->count; i++) {
        const part *t = &p->tensors[i];
        json_t *shape = sure(json_array());
        for (size_t k = 0; k < t->rank; k++)
            json_array_append_new(shape, json_integer((json_int_t)t->shape[k]));
        json_object_set_new(header, t->name,
                            json_pack("{s:s,s:o,s:[I,I]}", "dtype", sb_dtype_name(t->dtype),
                                      "shape", shape, "data_offsets", (json_int_t)at,
                                      (json_int_t)(at + t->size)));
        at += t->size;
    }
    char *text = sure(json_dumps(header, JSON_COMPACT));
    json_decref(header);
    if (json_draw(d, 20))
        return text;
    char *changed = json_mutate(text, 1, d, &valid);
    free(text);
    return changed;
}

static bundle_text file_of(const parts *p, json_draws *d)
{
    char *header = header_of(p, d);
    size_t length = strlen(header), padded = (length + 7) / 8 * 8, size = 8 + padded;
    for (size_t i = 0; i < p->count; i++)
        size += p->tensors[i].size;
    bundle_text out = {sure(malloc(size)), size};
    sb_store_u64(out.bytes, padded);
    memset(out.bytes + 8, ' ', padded);
    memcpy(out.bytes + 8, header, length);
    size_t at = 8 + padded;
    for (size_t i = 0; i < p->count; at += p->tensors[i++].size)
        memcpy(out.bytes + at, p->tensors[i].bytes, p->tensors[i].size);
    free(header);
    return out;
}

bundle_text bundle_mutate(const sb_safetensors *from, unsigned steps, json_draws *d)
{
    parts *p = parts_of(from);
    for (; steps; steps--)
        switch (json_draw(d, 5)) {
        case 0:
        case 1:
            change_pair(p, d);
            break;
        case 2:
            change_size(p, d);
            break;
        default:
            change_tensor(p, d);
        }
    bundle_text out = file_of(p, d);
    free_parts(p);
    return out;
}

/* --- a pack ----------------------------------------------------------------------------------- */

static void write_sum(unsigned char *head, unsigned more)
{
    unsigned sum = more;
    memset(head + 148, ' ', 8);
    for (size_t i = 0; i < TAR_BLOCK; i++)
        sum += head[i];
    snprintf((char *)head + 148, 8, "%06o", sum & 0777777);
    head[155] = ' ';
}

/* Changes one field of a header. Mostly the checksum is computed anew. */
static void change_head(unsigned char *head, json_draws *d)
{
    static const char *const sizes[] = {"00000000000", "00000000001", "77777777777", "37777777777",
                                        "0000000001 ", "           ", "0000000000x", "00000001000"};
    switch (json_draw(d, 4)) {
    case 0:
        memcpy(head + 124, sizes[json_draw(d, COUNT(sizes))], 11);
        break;
    case 1:
        head[json_draw(d, 100)] = (unsigned char)json_draw(d, 256);
        break;
    case 2: /* a name without a terminating NUL */
        memset(head, 'n', 100);
        break;
    default:
        head[json_draw(d, TAR_BLOCK)] ^= (unsigned char)(1u << json_draw(d, 8));
    }
    if (json_draw(d, 4))
        write_sum(head, json_draw(d, 8) ? 0 : (unsigned)json_draw(d, 4));
}

static size_t add_member(unsigned char *to, const char *name, const void *bytes, size_t size)
{
    memset(to, 0, TAR_BLOCK);
    snprintf((char *)to, 100, "%s", name);
    snprintf((char *)to + 124, 12, "%011llo", (unsigned long long)size);
    memcpy(to + 257, "ustar", 6);
    memcpy(to + 263, "00", 2);
    write_sum(to, 0);
    memcpy(to + TAR_BLOCK, bytes, size);
    size_t padded = (size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
    memset(to + TAR_BLOCK + size, 0, padded - size);
    return TAR_BLOCK + padded;
}

bundle_text bundle_pack(const bundle_text *bundle, json_draws *d)
{
    static const char *const names[] = {"report.html", "report.json", "replay.safetensors", ""};
    static const char report[] =
        "{\"bundle\": {\"missing\": \"no op was judged alone \\u001b[2J\"}, \"x\": [[[]]]}";
    size_t heads[5], count = 0, at = 0;
    bundle_text out = {sure(malloc(bundle->size + 16 * TAR_BLOCK)), 0};
    for (size_t i = json_draw(d, 3); i > 0; i--) {
        heads[count++] = at;
        at += add_member(out.bytes + at, names[json_draw(d, COUNT(names))], report,
                         json_draw(d, 4) ? strlen(report) : json_draw(d, strlen(report)));
    }
    heads[count++] = at;
    at += add_member(out.bytes + at, json_draw(d, 30) ? "replay.safetensors" : "replay",
                     bundle->bytes, bundle->size);
    heads[count++] = at;
    at += add_member(out.bytes + at, "report.json", report, strlen(report));
    memset(out.bytes + at, 0, 2 * TAR_BLOCK);
    out.size = at + 2 * TAR_BLOCK;
    if (json_draw(d, 4) == 0)
        change_head(out.bytes + heads[json_draw(d, count)], d);
    if (json_draw(d, 16) == 0)
        out.size = json_draw(d, out.size);
    return out;
}
