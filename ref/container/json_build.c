#include "ref/container/json_build.h"

#include <errno.h>
#include <float.h>
#include <locale.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/json.h"
#include "ref/container/json_scan.h"
#include "ref/container/show.h"

typedef struct build {
    const char *text;
    size_t at;
    char *room;   /* scratch for a string or number and a NUL; the keys of the enclosing objects are
                     stored before it */
    size_t count; /* bytes of the string */
    int loose;
    const char *wrong;
} build;

static int refuse(build *b, size_t at, const char *wrong)
{
    b->at = at;
    b->wrong = wrong;
    return 0;
}

/* Moves to the next token and returns its first byte. The text was checked, so commas and colons
 * can be skipped. */
static char peek(build *b)
{
    while (strchr(" \t\r\n,:", b->text[b->at]))
        b->at++;
    return b->text[b->at];
}

/* --- strings and numbers ---------------------------------------------------------------------- */

static size_t put_utf8(char *to, uint32_t code)
{
    const size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n; i-- > 1; code >>= 6)
        to[i] = (char)(0x80 | (code & 0x3f));
    to[0] = (char)(first[n] | code);
    return n;
}

/* Reads the part of an escape after the backslash. */
static void read_escape(build *b)
{
    static const char letters[] = "bfnrt", means[] = "\b\f\n\r\t";
    const char c = b->text[b->at++];
    const char *letter = strchr(letters, c);
    if (c != 'u') {
        b->room[b->count++] = letter ? means[letter - letters] : c;
        return;
    }
    uint32_t code = (uint32_t)sb_json_hex4(b->text + b->at);
    b->at += 4;
    if (code >= 0xd800 && code < 0xdc00) {
        const uint32_t low = (uint32_t)sb_json_hex4(b->text + b->at + 2);
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        b->at += 6;
    }
    b->count += put_utf8(b->room + b->count, code);
}

static int read_string(build *b)
{
    b->count = 0;
    for (b->at++; b->text[b->at] != '"';) {
        uint32_t code;
        const size_t n = sb_utf8_bytes(b->text + b->at, &code);
        if (n == 0)
            return refuse(b, b->at, "bytes in a string that are not UTF-8");
        if (code == '\\') {
            b->at++;
            read_escape(b);
            continue;
        }
        memcpy(b->room + b->count, b->text + b->at, n);
        b->count += n;
        b->at += n;
    }
    b->room[b->count] = '\0';
    return 1;
}

static json_t *build_string(build *b)
{
    if (!read_string(b))
        return NULL;
    b->at++;
    return json_stringn_nocheck(b->room, b->count);
}

/* Replaces the decimal point, because strtod expects the decimal point of the locale. */
static void turn_point(char *number)
{
    const char point = localeconv()->decimal_point[0];
    char *at = strchr(number, '.');
    if (at)
        *at = point;
}

static json_t *build_number(build *b)
{
    const size_t begin = b->at;
    size_t n = 1;
    /* stops inside the text, because no text ends with a number */
    while (strchr("+-.0123456789eE", b->text[begin + n]))
        n++;
    memcpy(b->room, b->text + begin, n);
    b->room[n] = '\0';
    b->at += n;
    const int real = strpbrk(b->room, ".eE") != NULL;
    errno = 0;
    if (!real && !b->loose) {
        const long long value = strtoll(b->room, NULL, 10);
        if (errno != ERANGE)
            return json_integer(value);
        refuse(b, begin, value < 0 ? "too big negative integer" : "too big integer");
        return NULL;
    }
    turn_point(b->room);
    const double value = strtod(b->room, NULL);
    if (value > DBL_MAX || value < -DBL_MAX) {
        refuse(b, begin, "real number overflow");
        return NULL;
    }
    return json_real(value);
}

/* --- objects and arrays ----------------------------------------------------------------------- */

static json_t *build_value(build *b);

static json_t *build_array(build *b)
{
    json_t *array = json_array();
    for (b->at++; array && peek(b) != ']';) {
        json_t *value = build_value(b);
        if (!value || json_array_append_new(array, value) != 0) {
            json_decref(array);
            return NULL;
        }
    }
    b->at++;
    return array;
}

/* C-4: "a duplicate key is refused". */
static int build_member(build *b, json_t *object)
{
    if (!read_string(b))
        return 0;
    if (!b->loose && json_object_get(object, b->room))
        return refuse(b, b->at, "duplicate object key");
    b->at++;
    peek(b);
    char *key = b->room;
    b->room += b->count + 1;
    json_t *value = build_value(b);
    b->room = key;
    return value && json_object_set_new_nocheck(object, key, value) == 0;
}

static json_t *build_object(build *b)
{
    json_t *object = json_object();
    for (b->at++; object && peek(b) != '}';) {
        if (!build_member(b, object)) {
            json_decref(object);
            return NULL;
        }
    }
    b->at++;
    return object;
}

static json_t *build_word(build *b)
{
    const char first = b->text[b->at];
    b->at += first == 'f' ? 5 : 4;
    return first == 'n' ? json_null() : json_boolean(first == 't');
}

static json_t *build_value(build *b)
{
    switch (peek(b)) {
    case '{':
        return build_object(b);
    case '[':
        return build_array(b);
    case '"':
        return build_string(b);
    case 't':
    case 'f':
    case 'n':
        return build_word(b);
    default:
        return build_number(b);
    }
}

json_t *sb_json_build(const char *text, size_t n, size_t token, int loose, size_t *at,
                      const char **wrong)
{
    const size_t most =
        (SB_JSON_MAX_DEPTH + 1) * (token + 1); /* room for one key of each enclosing object */
    char *room = sb_alloc((most < n ? most : n) + 1, 1);
    build b = {.text = text, .room = room, .loose = loose};
    json_t *root = room ? build_value(&b) : NULL;
    free(room);
    *at = b.at;
    *wrong = b.wrong;
    return root;
}
