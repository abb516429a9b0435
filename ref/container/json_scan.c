#include "ref/container/json_scan.h"

#include <string.h>

#include "ref/container/json.h"

typedef struct scan {
    const char *text;
    size_t n;
    size_t at;
    size_t values;
    sb_json_need need;
    size_t depth;
    int loose;
    char closers[SB_JSON_MAX_DEPTH]; /* the closing character of each open object or array */
} scan;

/* The current byte, or 0 at the end. A NUL in the text is not valid JSON either. */
static char peek(const scan *s)
{
    return s->at < s->n ? s->text[s->at] : '\0';
}

static void skip_space(scan *s)
{
    while (peek(s) == ' ' || peek(s) == '\n' || peek(s) == '\t' || peek(s) == '\r')
        s->at++;
}

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

int sb_json_hex4(const char *text)
{
    int value = 0;
    for (size_t i = 0; i < 4; i++) {
        const char *digits = "0123456789abcdef0123456789ABCDEF";
        const char *digit = text[i] ? strchr(digits, text[i]) : NULL;
        if (!digit)
            return -1;
        value = value * 16 + (int)((digit - digits) & 15);
    }
    return value;
}

/* Scans the part of an escape after the backslash. Refuses \u0000, which would end a C string, and
 * half of a surrogate pair, which is not a character. */
static const char *scan_escape(scan *s)
{
    char c = peek(s);
    s->at++;
    if (c != 'u')
        return c && strchr("\"\\/bfnrt", c) ? NULL : "an unknown escape in a string";
    int code = s->n - s->at >= 4 ? sb_json_hex4(s->text + s->at) : -1;
    s->at += 4;
    if (code <= 0 || (code >= 0xdc00 && code <= 0xdfff))
        return "an escape that is no character";
    if (code < 0xd800 || code > 0xdbff)
        return NULL;
    if (s->n - s->at < 6 || s->text[s->at] != '\\' || s->text[s->at + 1] != 'u')
        return "half a surrogate pair";
    code = sb_json_hex4(s->text + s->at + 2);
    s->at += 6;
    return code >= 0xdc00 && code <= 0xdfff ? NULL : "half a surrogate pair";
}

static const char *scan_string(scan *s)
{
    if (peek(s) != '"')
        return "expected a string";
    for (s->at++; s->at < s->n; s->at++) {
        unsigned char c = (unsigned char)s->text[s->at];
        if (c == '"') {
            s->at++;
            return NULL;
        }
        if (c < 0x20)
            return "a control character in a string";
        if (c == '\\') {
            s->at++;
            const char *wrong = scan_escape(s);
            if (wrong)
                return wrong;
            s->at--;
        }
    }
    return "the text ends inside a string";
}

static size_t scan_digits(scan *s)
{
    size_t begin = s->at;
    while (is_digit(peek(s)))
        s->at++;
    return s->at - begin;
}

/* Scans a number. An integer -0 is refused, because its sign would be lost; -0.0 and -0e1 are
 * reals. */
static const char *scan_number(scan *s)
{
    size_t begin = s->at;
    int minus = peek(s) == '-';
    s->at += (size_t)minus;
    int zero = peek(s) == '0';
    int real = 0;
    size_t digits = scan_digits(s);
    if (digits == 0 || (zero && digits > 1))
        return "a number that does not begin with a digit other than 0, or 0 alone";
    if (peek(s) == '.') {
        real = 1;
        s->at++;
        if (scan_digits(s) == 0)
            return "a number without a digit behind its point";
    }
    if (peek(s) == 'e' || peek(s) == 'E') {
        real = 1;
        s->at++;
        s->at += peek(s) == '+' || peek(s) == '-';
        if (scan_digits(s) == 0)
            return "a number without a digit in its exponent";
    }
    if (!minus || !zero || real || s->loose)
        return NULL;
    s->at = begin;
    return "the integer -0, expected digits without a sign";
}

static const char *scan_word(scan *s)
{
    static const char *const words[] = {"true", "false", "null"};
    if (peek(s) == '"')
        return scan_string(s);
    if (peek(s) == '-' || is_digit(peek(s)))
        return scan_number(s);
    for (size_t i = 0; i < 3; i++) {
        size_t length = strlen(words[i]);
        if (s->n - s->at >= length && memcmp(s->text + s->at, words[i], length) == 0) {
            s->at += length;
            return NULL;
        }
    }
    return "expected a value";
}

/* The memory that values take in jansson 2.14, with the allocator's overhead: an object with its
 * buckets, a member with its bucket entry, an array with its slots, a string with its text. */
enum {
    COST_OBJECT = 224,
    COST_MEMBER = 104,
    COST_ARRAY = 128,
    COST_STRING = 66,
    COST_NUMBER = 32,
    COST_PLACE = 24
};

static void note_token(scan *s, size_t begin)
{
    if (s->at - begin > s->need.token)
        s->need.token = s->at - begin;
}

static const char *scan_scalar(scan *s)
{
    const size_t begin = s->at;
    const char first = peek(s);
    const char *wrong = scan_word(s);
    note_token(s, begin);
    s->need.memory += COST_PLACE;
    if (first == '"')
        s->need.memory += COST_STRING + (s->at - begin);
    else if (first == '-' || is_digit(first))
        s->need.memory += COST_NUMBER;
    return wrong;
}

/* Scans the key of a member and its colon, up to the value. */
static const char *scan_key(scan *s)
{
    skip_space(s);
    size_t begin = s->at;
    const char *wrong = scan_string(s);
    if (wrong)
        return wrong;
    note_token(s, begin);
    s->need.memory += COST_MEMBER + (s->at - begin);
    skip_space(s);
    if (peek(s) != ':')
        return "expected ':'";
    s->at++;
    return NULL;
}

/* Enters an object or array, up to its first value; *entered is 0 if it is empty. */
static const char *scan_open(scan *s, int *entered)
{
    if (s->depth == SB_JSON_MAX_DEPTH)
        return "nested deeper than 64 levels";
    char closer = peek(s) == '{' ? '}' : ']';
    s->need.memory += (size_t)(COST_PLACE + (closer == '}' ? COST_OBJECT : COST_ARRAY));
    s->at++;
    skip_space(s);
    *entered = peek(s) != closer;
    if (!*entered) {
        s->at++;
        return NULL;
    }
    s->closers[s->depth++] = closer;
    return closer == '}' ? scan_key(s) : NULL;
}

/* Called after a value. Closes objects and arrays that end here, and moves to the next value if
 * there is one. */
static const char *scan_next(scan *s, size_t outside)
{
    skip_space(s);
    while (s->depth > outside && peek(s) == s->closers[s->depth - 1]) {
        s->depth--;
        s->at++;
        if (s->depth == outside)
            return NULL;
        skip_space(s);
    }
    if (peek(s) != ',')
        return s->closers[s->depth - 1] == '}' ? "expected ',' or '}'" : "expected ',' or ']'";
    s->at++;
    return s->closers[s->depth - 1] == '}' ? scan_key(s) : NULL;
}

/* Scans one value with all its contents. Leaves enclosing objects and arrays open. */
static const char *scan_value(scan *s)
{
    const size_t outside = s->depth;
    for (;;) {
        int entered = 0;
        const char *wrong = NULL;
        skip_space(s);
        if (++s->values > SB_JSON_MAX_VALUES)
            wrong = "more than 16000000 values";
        else if (peek(s) == '{' || peek(s) == '[')
            wrong = scan_open(s, &entered);
        else
            wrong = scan_scalar(s);
        if (!wrong && !entered && s->depth > outside)
            wrong = scan_next(s, outside);
        if (wrong || s->depth == outside)
            return wrong;
    }
}

const char *sb_json_scan(const char *text, size_t n, int loose, size_t *at, sb_json_need *need)
{
    scan s = {.text = text, .n = n, .loose = loose};
    skip_space(&s);
    const char *wrong = peek(&s) != '{' && peek(&s) != '[' ? "expected '{' or '['" : scan_value(&s);
    if (!wrong) {
        skip_space(&s);
        wrong = s.at < n ? "expected the end of the text" : NULL;
    }
    *at = s.at < n ? s.at : n;
    *need = s.need;
    return wrong;
}

int sb_json_next(const char *text, size_t n, size_t *at, sb_json_member *out)
{
    scan s = {.text = text, .n = n, .at = *at};
    skip_space(&s);
    s.at += peek(&s) == ',';
    skip_space(&s);
    if (peek(&s) != '"')
        return 0;
    out->key = s.at;
    (void)scan_string(&s);
    out->key_end = s.at;
    skip_space(&s);
    s.at++;
    skip_space(&s);
    out->value = s.at;
    (void)scan_value(&s);
    out->value_end = s.at;
    *at = s.at;
    return 1;
}
