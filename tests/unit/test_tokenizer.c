/* test_tokenizer.c - this tokenizer gives the ids and texts of golden/tokenizer, which the package
 * of Hugging Face computed; with a fault it gives others. tools/gen/tokenizer.py says how they were
 * recorded. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "tools/text/tokenizer.h"

enum { MAX_CASES_BYTES = 1 << 28, LEAST_CASES = 350 };

/* A growing array of bytes. */
typedef struct room {
    char *bytes;
    size_t used, size;
} room;

static void add(room *r, const void *bytes, size_t n)
{
    if (r->size - r->used < n) {
        r->size = r->size * 2 + n;
        r->bytes = sb_realloc(r->bytes, r->size, 1);
        assert_non_null(r->bytes);
    }
    memcpy(r->bytes + r->used, bytes, n);
    r->used += n;
}

static unsigned hex(const char *text)
{
    char digits[3] = {text[0], text[1], 0};
    return (unsigned)strtoul(digits, NULL, 16);
}

/* Reads "t TEXT" or "t*N TEXT" after the letter, up to the end of the line. */
static void read_text(const char *line, size_t length, room *out)
{
    const char *end = line + length;
    unsigned long times = 1;
    out->used = 0;
    if (*line == '*')
        times = strtoul(line + 1, (char **)&line, 10);
    assert_true(line < end && *line == ' ');
    for (line++; line < end; line++) {
        char byte = *line;
        if (byte == '\\') {
            byte = (char)hex(line + 2);
            line += 3;
            if (byte & (char)0x80) { /* U+0080 to U+009F stand for themselves */
                fail_msg("an escape that is no byte of ASCII");
            }
        }
        add(out, &byte, 1);
    }
    size_t unit = out->used;
    for (unsigned long i = 1; i < times; i++) {
        room copy = {0};
        add(&copy, out->bytes, unit);
        add(out, copy.bytes, unit);
        free(copy.bytes);
    }
}

/* Reads "i 5 7*3" after the letter. */
static void read_ids(const char *line, size_t length, room *out)
{
    const char *end = line + length;
    out->used = 0;
    while (line < end) {
        unsigned long times = 1;
        uint32_t id = (uint32_t)strtoul(line, (char **)&line, 10);
        if (*line == '*')
            times = strtoul(line + 1, (char **)&line, 10);
        for (unsigned long i = 0; i < times; i++)
            add(out, &id, sizeof id);
    }
}

static uint64_t fnv(const uint32_t *ids, size_t count)
{
    uint64_t value = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < 4 * count; i++)
        value = (value ^ (ids[i / 4] >> 8 * (i % 4) & 0xff)) * UINT64_C(0x100000001b3);
    return value;
}

/* The length of a bad start of this text: the "maximal subpart" of the Unicode standard, for which
 * the package writes one U+FFFD. Returns 0 if the sequence is good; then *good is its length.
 * Written independently of tools/text/utf8.c. */
static size_t bad_part(const unsigned char *s, size_t n, size_t *good)
{
    unsigned low = 0x80, high = 0xbf;
    size_t length = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    if ((s[0] >= 0x80 && s[0] < 0xc2) || s[0] > 0xf4)
        return 1;
    if (s[0] == 0xe0)
        low = 0xa0;
    if (s[0] == 0xed)
        high = 0x9f;
    if (s[0] == 0xf0)
        low = 0x90;
    if (s[0] == 0xf4)
        high = 0x8f;
    for (size_t i = 1; i < length; i++) {
        if (i == n || s[i] < low || s[i] > high)
            return i;
        low = 0x80;
        high = 0xbf;
    }
    *good = length;
    return 0;
}

static void replace_bad(const char *text, size_t size, room *out)
{
    out->used = 0;
    for (size_t at = 0, n = 0; at < size; at += n) {
        size_t bad = bad_part((const unsigned char *)text + at, size - at, &n);
        if (bad)
            add(out, "\xef\xbf\xbd", n = 3);
        else
            add(out, text + at, n);
        n = bad ? bad : n;
    }
}

typedef struct reading {
    const char *name;
    sb_tokenizer *t;
    int quiet;
    size_t line, cases, differ;
    room text, ids, wanted, shown;
} reading;

static void differs(reading *r, const char *what)
{
    if (r->differ++ < 5 && !r->quiet)
        print_error("%s.cases:%zu: %s differ\n", r->name, r->line, what);
}

/* Line "i" or "n": the ids of r->text. */
static void check_ids(reading *r, char kind, const char *line, size_t length)
{
    uint32_t *ids = NULL;
    size_t count = 0;
    sb_error err = {{0}};
    if (sb_tokenizer_encode(r->t, r->text.bytes, r->text.used, &ids, &count, &err))
        fail_msg("%s.cases:%zu: %s", r->name, r->line, err.text);
    if (kind == 'n') {
        char *behind;
        unsigned long wanted = strtoul(line, &behind, 10);
        if (count != wanted || fnv(ids, count) != strtoull(behind, NULL, 16))
            differs(r, "ids");
    } else {
        read_ids(line, length, &r->wanted);
        if (count != r->wanted.used / 4 || memcmp(ids, r->wanted.bytes, r->wanted.used) != 0)
            differs(r, "ids");
    }
    r->ids.used = 0;
    add(&r->ids, ids, 4 * count);
    free(ids);
    r->cases++;
}

/* Line "d": the text of r->ids; with '=' it equals r->text. */
static void check_decoded(reading *r, const char *line, size_t length)
{
    char *bytes = NULL;
    size_t size = 0;
    sb_error err = {{0}};
    const room *wanted = &r->text;
    if (sb_tokenizer_decode(r->t, (const uint32_t *)(void *)r->ids.bytes, r->ids.used / 4, &bytes,
                            &size, NULL, &err))
        fail_msg("%s.cases:%zu: %s", r->name, r->line, err.text);
    if (*line != '=') {
        read_text(line, length, &r->wanted);
        wanted = &r->wanted;
    }
    replace_bad(bytes, size, &r->shown);
    if (r->shown.used != wanted->used || memcmp(r->shown.bytes, wanted->bytes, wanted->used) != 0)
        differs(r, "texts");
    free(bytes);
}

static void check_line(reading *r, const char *line, size_t length)
{
    r->line++;
    if (length == 0 || *line == '#')
        return;
    switch (*line) {
    case 't':
        read_text(line + 1, length - 1, &r->text);
        break;
    case 'i':
    case 'n':
        check_ids(r, *line, line + 1, length - 1);
        break;
    case 'x':
        read_ids(line + 1, length - 1, &r->ids);
        r->cases++;
        break;
    case 'd':
        check_decoded(r, line + 1, length - 1);
        break;
    default:
        fail_msg("%s.cases:%zu: begins with %c", r->name, r->line, *line);
    }
}

/* The whole file NAME.ENDING with a NUL after it; the caller releases it with free(). */
static char *load(const char *name, const char *ending, size_t *size)
{
    const char *folder = getenv("SAMEBIT_TOKENIZER");
    char path[512];
    unsigned char *text = NULL;
    sb_error err = {{0}};
    snprintf(path, sizeof path, "%s/%s.%s", folder ? folder : "golden/tokenizer", name, ending);
    if (sb_read_file(path, MAX_CASES_BYTES, &text, size, &err))
        fail_msg("%s", err.text);
    return (char *)text;
}

/* Runs NAME.cases with this tokenizer.json, and releases it. */
static void run_cases(reading *r, char *json, size_t json_size)
{
    size_t size = 0;
    char *text = load(r->name, "cases", &size);
    sb_error err = {{0}};
    if (sb_tokenizer_parse(json, json_size, r->name, &r->t, &err))
        fail_msg("%s", err.text);
    add(&r->text, "", 1); /* a text may be empty */
    add(&r->ids, "", 1);
    add(&r->wanted, "", 1);
    add(&r->shown, "", 1);
    for (char *line = text; line < text + size;) {
        char *end = memchr(line, '\n', (size_t)(text + size - line));
        assert_non_null(end);
        *end = '\0';
        check_line(r, line, (size_t)(end - line));
        line = end + 1;
    }
    free(text);
    free(json);
    free(r->text.bytes);
    free(r->ids.bytes);
    free(r->wanted.bytes);
    free(r->shown.bytes);
    sb_tokenizer_free(r->t);
}

static void test_variant(void **state)
{
    reading r = {.name = *state};
    size_t size = 0;
    char *json = load(r.name, "json", &size);
    run_cases(&r, json, size);
    if (r.differ || r.cases < LEAST_CASES)
        fail_msg("%s: %zu cases, %zu differ", r.name, r.cases, r.differ);
}

/* Changes to a tokenizer.json: faults, which must change some ids, and benign ones, which must
 * change none. */
static const struct {
    const char *name, *from, *to;
    int benign;
} plants[] = {
    {"qwen", "{\"type\":\"NFC\"}", "null", 0},
    {"qwen", "<|im_end|>", "<|no_end|>", 0},
    {"qwen", "?[\\\\p{L}\\\\p{M}]+", "?\\\\p{L}+", 0},
    {"pairs", "\\\\s+(?!\\\\S)|", "", 0},
    {"pairs", "\\\\p{N}|", "\\\\p{N}+|", 0},
    {"pairs", "(?!\\\\S)", "(?![^\\t\\n \\u000b\\f\\r])", 0}, /* only ASCII white space */
    {"ignore", "\"ignore_merges\":true", "\"ignore_merges\":false", 0},
    {"added", "\"single_word\":true", "\"single_word\":false", 0},
    {"added", "\"lstrip\":true", "\"lstrip\":false", 0},
    {"added", "\"rstrip\":true", "\"rstrip\":false", 0},
    {"added", "\"normalized\":true", "\"normalized\":false", 0},
    {"gpt2", "\"use_regex\":true", "\"use_regex\":false", 0},
    {"qwen", "\"fuse_unk\":false", " \"fuse_unk\" : true", 1},
    {"plain", "\"trim_offsets\":false", "\"trim_offsets\":true", 1},
};

/* Moves the merge of the first rank to the end. */
static void move_first_merge(char *json, size_t size)
{
    char first[64];
    char *at = strstr(json, "\"merges\":["), *end = json + size - strlen("]}}\n");
    assert_non_null(at);
    at += strlen("\"merges\":[");
    char *behind = strstr(at, "],");
    assert_true(behind && behind - at < 60 && strcmp(end, "]}}\n") == 0);
    size_t n = (size_t)(behind + 1 - at);
    memcpy(first, at, n);
    memmove(at, at + n + 1, (size_t)(end - (at + n + 1)));
    end[-(ptrdiff_t)n - 1] = ',';
    memcpy(end - n, first, n);
}

TEST(test_planted)
{
    for (size_t i = 0; i < sizeof plants / sizeof *plants; i++) {
        reading r = {.name = plants[i].name, .quiet = 1};
        size_t size = 0, from = strlen(plants[i].from), to = strlen(plants[i].to);
        char *json = load(r.name, "json", &size);
        char *planted = sb_alloc(size + to + 1, 1), *at = strstr(json, plants[i].from);
        if (!planted || !at) {
            fail_msg("%s.json has no %s", r.name, plants[i].from);
            return;
        }
        memcpy(planted, json, (size_t)(at - json));
        memcpy(planted + (at - json), plants[i].to, to);
        memcpy(planted + (at - json) + to, at + from, strlen(at + from));
        free(json);
        run_cases(&r, planted, size - from + to);
        if ((r.differ == 0) != plants[i].benign)
            fail_msg("%s: %s in place of %s: %zu differ", r.name, plants[i].to, plants[i].from,
                     r.differ);
    }
    reading r = {.name = "qwen", .quiet = 1};
    size_t size = 0;
    char *json = load(r.name, "json", &size);
    move_first_merge(json, size);
    run_cases(&r, json, size);
    assert_true(r.differ > 0);
}

#define VARIANT(name)                                                                              \
    {                                                                                              \
        "the package's ids: " name, test_variant, NULL, NULL, (void *)(uintptr_t)name              \
    }

TEST_ROWS(variants)
{
    static const struct CMUnitTest tests[] = {
        VARIANT("qwen"),   VARIANT("plain"),  VARIANT("gpt2"),  VARIANT("whole"),
        VARIANT("ignore"), VARIANT("pairs"),  VARIANT("twice"), VARIANT("shuffled"),
        VARIANT("added"),  VARIANT("blanks"),
    };
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        suite_add(place, tests[i]);
}
