/* pattern_translate.c - from Oniguruma's regular expressions to those of PCRE2: N-5. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "tools/text/pattern.h"
#include "tools/text/utf8.h"

enum {
    MAX_LENGTH = 4096,
    MAX_GROUPS = 64,
    MAX_REPEAT = 1000,
    GROWTH = 128 /* most bytes of the translation of one byte */
};

/* N-5: "U+0009 to U+000D, U+0020, U+0085" and so on, and the complement. */
#define SPACES                                                                                     \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}"             \
    "\\x{202f}\\x{205f}\\x{3000}"
#define OTHERS                                                                                     \
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}"                   \
    "\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}"                 \
    "\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}"

typedef enum atom { NOTHING, ASSERTION, GROUP, CHARACTERS } atom;

typedef struct translation {
    const char *text, *at, *where;
    char *out;
    size_t used;
    atom last;  /* the atom that a following repetition repeats */
    int letter; /* the letter before this place if case is ignored; else 0 */
    int depth;
    unsigned char caseless[MAX_GROUPS + 1], assertion[MAX_GROUPS + 1];
} translation;

static void put(translation *t, const char *text)
{
    size_t n = strlen(text);
    memcpy(t->out + t->used, text, n + 1);
    t->used += n;
}

static void put_character(translation *t, uint32_t character)
{
    t->used += (size_t)sprintf(t->out + t->used, "\\x{%x}", (unsigned)character);
}

static sb_status refuse(const translation *t, const char *what, sb_error *err)
{
    char shown[16] = "";
    size_t n = 0, length;
    uint32_t c;
    while (n < 10 &&
           (length = sb_utf8_get((const unsigned char *)t->at + n, strlen(t->at + n), &c)))
        n += length;
    memcpy(shown, t->at, n);
    return sb_fail(err, SB_ERR_UNSUPPORTED, "%s: the regular expression has \"%s\" at byte %zu: %s",
                   t->where, SB_SHOW(shown), (size_t)(t->at - t->text), what);
}

static int caseless(const translation *t)
{
    return t->caseless[t->depth];
}

/* Checks a literal character. Two letters that equal one ligature if case is ignored ("ss" and
 * U+00DF) are one character for Oniguruma and two for PCRE2. */
static sb_status check_caseless(translation *t, uint32_t c, sb_error *err)
{
    static const char pairs[][3] = {"ss", "st", "ff", "fi", "fl"};
    int before = t->letter;
    t->letter = 0;
    if (!caseless(t))
        return SB_OK;
    if (c > 0x7f)
        return refuse(t, "a non-ASCII character in a case-insensitive group", err);
    t->letter = (c >= 'A' && c <= 'Z') ? (int)c + 32 : (int)c;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (before == pairs[i][0] && t->letter == pairs[i][1])
            return refuse(t, "two letters that match a ligature in a case-insensitive group", err);
    return SB_OK;
}

/* \p{L}: a general category. Scripts and binary properties differ between the libraries. */
static sb_status translate_property(translation *t, sb_error *err)
{
    static const char names[] = " L M N P S Z C Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf "
                                "Po Sm Sc Sk So Zs Zl Zp Cc Cf Co ";
    char name[8] = " ", whole[8];
    size_t n = 0;
    if (t->at[2] == '{')
        n = strcspn(t->at + 3, "}");
    if (n < 1 || n > 2 || t->at[3 + n] != '}')
        return refuse(t, "expected \\p{} with a general category", err);
    memcpy(name + 1, t->at + 3, n);
    name[n + 1] = ' ';
    if (!strstr(names, name))
        return refuse(t, "expected \\p{} with a general category", err);
    if (caseless(t))
        return refuse(t, "a property in a case-insensitive group", err);
    memcpy(whole, t->at, n + 4);
    whole[n + 4] = '\0';
    put(t, whole);
    t->at += n + 4;
    t->letter = 0;
    return SB_OK;
}

/* The character of an escape, or -1. */
static long escaped(char c)
{
    static const char letters[] = "rntf", means[] = "\r\n\t\f";
    const char *at = c ? strchr(letters, c) : NULL;
    if (at)
        return means[at - letters];
    return c && strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ ", c) ? c : -1;
}

static sb_status translate_escape(translation *t, int in_class, sb_error *err)
{
    char c = t->at[1];
    if (c == 'p' || c == 'P')
        return translate_property(t, err);
    if (!c || !strchr("sSdD", c))
        return refuse(t, "an escape that may differ between libraries", err);
    if (c == 'd' || c == 'D') {
        put(t, c == 'd' ? "\\p{Nd}" : "\\P{Nd}");
    } else {
        if (!in_class)
            put(t, "[");
        put(t, c == 's' ? SPACES : OTHERS);
        if (!in_class)
            put(t, "]");
    }
    t->at += 2;
    t->letter = 0;
    return SB_OK;
}

/* The single character at this place of the expression, literal or escaped. Returns its length, 0
 * for a set or an unknown escape. */
static size_t single(const translation *t, uint32_t *character)
{
    const unsigned char *at = (const unsigned char *)t->at;
    if (*at != '\\')
        return *at ? sb_utf8_get(at, strlen(t->at), character) : 0;
    long c = escaped((char)at[1]);
    *character = (uint32_t)c;
    return c < 0 ? 0 : 2;
}

/* A member of a class: a set, a character, or a range of characters. */
static sb_status translate_member(translation *t, int first, sb_error *err)
{
    uint32_t low, high;
    if (*t->at == '[' || (t->at[0] == '&' && t->at[1] == '&'))
        return refuse(t, "a class within a class", err);
    if (*t->at == '-' && !first && t->at[1] != ']')
        return refuse(t, "a range that ends in a set", err);
    size_t n = single(t, &low);
    if (n == 0)
        return translate_escape(t, 1, err);
    sb_status status = check_caseless(t, low, err);
    t->letter = 0;
    if (status)
        return status;
    t->at += n;
    put_character(t, low);
    if (*t->at != '-' || t->at[1] == ']')
        return SB_OK;
    t->at++;
    n = *t->at == '[' ? 0 : single(t, &high);
    if (n == 0 || high < low)
        return refuse(t, "a range without an end", err);
    status = check_caseless(t, high, err);
    t->letter = 0;
    t->at += n;
    put(t, "-");
    put_character(t, high);
    return status;
}

static sb_status translate_class(translation *t, sb_error *err)
{
    sb_status status = SB_OK;
    int first = 1;
    t->at++;
    put(t, "[");
    if (*t->at == '^') {
        put(t, "^");
        t->at++;
    }
    if (*t->at == ']')
        return refuse(t, "an empty class", err);
    while (!status && *t->at && *t->at != ']') {
        status = translate_member(t, first, err);
        first = 0;
    }
    if (status)
        return status;
    if (!*t->at)
        return refuse(t, "a class without an end", err);
    t->at++;
    put(t, "]");
    return SB_OK;
}

static sb_status open_group(translation *t, sb_error *err)
{
    static const struct {
        const char *begins, *means;
        int caseless, assertion;
    } kinds[] = {{"(?:", "(?:", 0, 0}, {"(?i:", "(?i:", 1, 0}, {"(?>", "(?>", 0, 0},
                 {"(?=", "(?=", 0, 1}, {"(?!", "(?!", 0, 1},   {"(", "(?:", 0, 0}};
    size_t i = 0;
    while (strncmp(t->at, kinds[i].begins, strlen(kinds[i].begins)) != 0)
        i++;
    if (kinds[i].begins[1] == '\0' && (t->at[1] == '?' || t->at[1] == '*'))
        return refuse(t, "an unknown kind of group", err);
    if (t->depth == MAX_GROUPS)
        return refuse(t, "groups nested too deep", err);
    t->at += strlen(kinds[i].begins);
    put(t, kinds[i].means);
    t->depth++;
    t->caseless[t->depth] = (unsigned char)(t->caseless[t->depth - 1] || kinds[i].caseless);
    t->assertion[t->depth] = (unsigned char)kinds[i].assertion;
    t->last = NOTHING;
    t->letter = 0;
    return SB_OK;
}

static sb_status close_group(translation *t, sb_error *err)
{
    if (t->depth == 0)
        return refuse(t, "a closing parenthesis without a group", err);
    t->last = t->assertion[t->depth] ? ASSERTION : GROUP;
    t->depth--;
    t->at++;
    t->letter = 0;
    put(t, ")");
    return SB_OK;
}

static const char *read_number(const char *at, unsigned *value)
{
    *value = 0;
    while (*at >= '0' && *at <= '9' && *value <= MAX_REPEAT)
        *value = *value * 10 + (unsigned)(*at++ - '0');
    return at;
}

/* {2}, {2,} or {2,5}: its length, or 0. */
static size_t counted(const char *text)
{
    unsigned low, high;
    const char *at = read_number(text + 1, &low);
    high = low;
    if (at == text + 1 || low > MAX_REPEAT)
        return 0;
    if (*at == ',' && at[1] == '}')
        at++;
    else if (*at == ',')
        at = read_number(at + 1, &high);
    return *at == '}' && high >= low && high <= MAX_REPEAT ? (size_t)(at + 1 - text) : 0;
}

/* Refuses a repeated group: it could take exponential time, and the libraries treat empty matches
 * differently. */
static sb_status translate_repeat(translation *t, sb_error *err)
{
    char whole[32] = "";
    size_t n = 1;
    if (t->last != CHARACTERS && !(t->last == GROUP && *t->at == '?'))
        return refuse(t, t->last == GROUP ? "a group that is repeated" : "nothing to repeat", err);
    if (*t->at == '{')
        n = counted(t->at);
    else if (t->at[1] == '?' || t->at[1] == '+')
        n = 2;
    if (n == 0 || n >= sizeof whole || strspn(t->at + n, "*+?{"))
        return refuse(t, "a repetition that may differ between libraries", err);
    memcpy(whole, t->at, n);
    put(t, whole);
    t->at += n;
    t->last = NOTHING;
    t->letter = 0;
    return SB_OK;
}

static sb_status translate_next(translation *t, sb_error *err)
{
    uint32_t c;
    sb_status status;
    switch (*t->at) {
    case '(':
        return open_group(t, err);
    case ')':
        return close_group(t, err);
    case '*':
    case '+':
    case '?':
    case '{':
        return translate_repeat(t, err);
    case '|':
        put(t, "|");
        t->at++;
        t->last = NOTHING;
        t->letter = 0;
        return SB_OK;
    case '^':
    case '$':
    case '}':
    case ']':
        return refuse(t, "the meaning differs between libraries", err);
    default:
        break;
    }
    t->last = CHARACTERS;
    if (*t->at == '[') {
        t->letter = 0;
        return translate_class(t, err);
    }
    if (*t->at == '.') {
        put(t, "[^\\x{a}]");
        t->at++;
        t->letter = 0;
        return SB_OK;
    }
    size_t n = single(t, &c);
    if (n == 0)
        return translate_escape(t, 0, err);
    status = check_caseless(t, c, err);
    put_character(t, c);
    t->at += n;
    return status;
}

sb_status sb_pattern_translate(const char *text, const char *where, char **out, sb_error *err)
{
    translation t = {.text = text, .at = text, .where = where};
    sb_status status = SB_OK;
    size_t length = strlen(text);
    if (length > MAX_LENGTH)
        return sb_fail(err, SB_ERR_UNSUPPORTED,
                       "%s: the regular expression has %zu bytes, expected at most %d", where,
                       length, MAX_LENGTH);
    t.out = sb_alloc(length + 1, GROWTH);
    if (!t.out)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory for a regular expression", where);
    while (!status && *t.at)
        status = translate_next(&t, err);
    if (!status && t.depth > 0)
        status = refuse(&t, "a group that is not closed", err);
    if (!status)
        *out = t.out;
    else
        free(t.out);
    return status;
}
