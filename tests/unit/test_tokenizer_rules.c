/* test_tokenizer_rules.c - cases for which the package of Hugging Face gives no answer: bytes that
 * are not UTF-8, refusals, failing allocations, and long texts. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ref/base/mem.h"
#include "ref/base/rng.h"
#include "tools/text/pattern.h"
#include "tools/text/tokenizer.h"
#include "tools/text/utf8.h"

enum { DOCUMENT = 16384, AB = 256, YO = 257, NI = 258, EOT = 259, WORD = 260 };

#define SPLIT "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\p{L}+|\\\\s+\"},"
#define BYTES "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}"
#define FLAGS "\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":true"

/* The id of each byte is its value. The merges: "a b", the two bytes of U+00E9, and the first two
 * bytes of U+4F60. */
static void write_document(char *out)
{
    size_t at = (size_t)sprintf(
        out,
        "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":["
        "{\"id\":259,\"content\":\"<eot>\",\"single_word\":false," FLAGS "},"
        "{\"id\":260,\"content\":\"word\",\"single_word\":true," FLAGS "}],"
        "\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[" SPLIT
        "\"behavior\":\"Isolated\",\"invert\":false}," BYTES "]},"
        "\"post_processor\":null,\"decoder\":" BYTES ",\"model\":{\"type\":\"BPE\","
        "\"dropout\":null,\"unk_token\":null,\"continuing_subword_prefix\":\"\","
        "\"end_of_word_suffix\":\"\",\"fuse_unk\":false,\"byte_fallback\":false,"
        "\"ignore_merges\":false,\"vocab\":{");
    for (unsigned byte = 0; byte < 256; byte++) {
        char name[5] = "";
        sb_utf8_put(sb_alphabet_character(byte), (unsigned char *)name);
        at += (size_t)sprintf(out + at, "\"%s%s\":%u,", byte == '"' || byte == '\\' ? "\\" : "",
                              name, byte);
    }
    sprintf(out + at, "\"ab\":256,\"\u00c3\u00a9\":257,\"\u00e4\u00bd\":258},"
                      "\"merges\":[\"a b\",[\"\u00c3\",\"\u00a9\"],[\"\u00e4\",\"\u00bd\"]]}}");
}

/* Replaces one text in the document by another. */
static void replace(char *document, const char *from, const char *to)
{
    char *at = strstr(document, from);
    if (!at || strlen(document) + strlen(to) >= DOCUMENT) {
        fail_msg("the document has no %s, or no room", from);
        return;
    }
    memmove(at + strlen(to), at + strlen(from), strlen(at + strlen(from)) + 1);
    memcpy(at, to, strlen(to));
}

static sb_tokenizer *make(const char *from, const char *to)
{
    static char document[DOCUMENT];
    sb_tokenizer *t = NULL;
    sb_error err = {{0}};
    write_document(document);
    if (from)
        replace(document, from, to);
    if (sb_tokenizer_parse(document, strlen(document), "input", &t, &err))
        fail_msg("%s", err.text);
    return t;
}

static void expect(const sb_tokenizer *t, const char *text, size_t bytes, const uint32_t *wanted,
                   size_t count)
{
    uint32_t *ids = NULL;
    size_t n = 0;
    sb_error err = {{0}};
    assert_int_equal(sb_tokenizer_encode(t, text, bytes, &ids, &n, &err), SB_OK);
    if (n != count || memcmp(ids, wanted, count * sizeof *ids) != 0) {
        for (size_t i = 0; i < n; i++)
            print_error("%u ", (unsigned)ids[i]);
        fail_msg("of \"%s\": %zu ids, expected %zu", text, n, count);
    }
    free(ids);
}

#define EXPECT(t, text, ...)                                                                       \
    do {                                                                                           \
        const uint32_t wanted_[] = {__VA_ARGS__};                                                  \
        expect(t, text, sizeof text - 1, wanted_, sizeof wanted_ / sizeof *wanted_);               \
    } while (0)

TEST(test_invalid)
{
    sb_tokenizer *t = make(NULL, NULL);
    EXPECT(t, "ab", AB);
    EXPECT(t, "\u00e9\u4f60", YO, NI, 0xa0);
    EXPECT(t,
           "a\xff"
           "b",
           'a', 0xff, 'b');
    EXPECT(t, "\xff", 0xff);
    EXPECT(t, "\x80\x80", 0x80, 0x80);
    EXPECT(t, "\xe4\xbd", 0xe4, 0xbd); /* no merge of bytes that are not a character */
    EXPECT(t,
           "\xe4\xbd"
           "ab",
           0xe4, 0xbd, AB);
    EXPECT(t, "\xe4\xbd\xe4\xbd\xa0", 0xe4, 0xbd, NI, 0xa0);
    EXPECT(t, "\xc0\x80", 0xc0, 0x80);
    EXPECT(t, "\xc1\xbf", 0xc1, 0xbf);
    EXPECT(t, "\xe0\x9f\xbf", 0xe0, 0x9f, 0xbf);
    EXPECT(t, "\xed\xa0\x80", 0xed, 0xa0, 0x80);
    EXPECT(t, "\xed\x9f\xbf", 0xed, 0x9f, 0xbf); /* U+D7FF is a character: the same bytes */
    EXPECT(t, "\xf0\x8f\xbf\xbf", 0xf0, 0x8f, 0xbf, 0xbf);
    EXPECT(t, "\xf4\x90\x80\x80", 0xf4, 0x90, 0x80, 0x80);
    EXPECT(t, "\xf5\x80\x80\x80", 0xf5, 0x80, 0x80, 0x80);
    EXPECT(t, "\0a\0", 0, 'a', 0);
    EXPECT(t, "word", WORD);
    EXPECT(t, "sword", 's', 'w', 'o', 'r', 'd');
    EXPECT(t, "\xffword\xff", 0xff, WORD, 0xff); /* a lone byte separates texts */
    EXPECT(t, "<eo\xfft>", '<', 'e', 'o', 0xff, 't', '>');
    sb_tokenizer_free(t);
    t = make("\"normalizer\":null", "\"normalizer\":{\"type\":\"NFC\"}");
    EXPECT(t, "e\u0301", YO);
    EXPECT(t, "e\xff\u0301", 'e', 0xff, 0xcc, 0x81);
    sb_tokenizer_free(t);
}

/* N-1: "decoding gives back every byte of any text" */
TEST(test_round_trip)
{
    static const char *const words[] = {"ab", "\u00e9", "\u4f60", "<eot>", " ", "\n", "e\u0301"};
    sb_tokenizer *t = make(NULL, NULL);
    uint64_t key = sb_rng_key(42, "tokenizer");
    for (uint64_t round = 0, drawn = 0; round < 3000; round++) {
        char text[64], *back = NULL;
        uint32_t *ids = NULL;
        size_t size = 0, count, unknown = 1, wanted = sb_rng_below(key, drawn++, 40);
        sb_error err = {{0}};
        while (size < wanted) {
            uint32_t kind = sb_rng_below(key, drawn++, 12);
            if (kind < 7) {
                memcpy(text + size, words[kind], strlen(words[kind]));
                size += strlen(words[kind]);
            } else {
                text[size++] = (char)sb_rng_below(key, drawn++, 256);
            }
        }
        assert_int_equal(sb_tokenizer_encode(t, text, size, &ids, &count, &err), SB_OK);
        assert_int_equal(sb_tokenizer_decode(t, ids, count, &back, &wanted, &unknown, &err), SB_OK);
        assert_int_equal(unknown, 0);
        assert_int_equal(wanted, size);
        assert_memory_equal(back, text, size);
        free(ids);
        free(back);
    }
    sb_tokenizer_free(t);
}

TEST(test_asked)
{
    sb_tokenizer *t = make("<eot>", "\u00e9<x>");
    const uint32_t ids[] = {AB, 7000, EOT, 261, WORD};
    char *text = NULL;
    uint32_t id = 0;
    size_t size = 0, unknown = 0;
    sb_error err = {{0}};
    assert_int_equal(sb_tokenizer_size(t), 261);
    assert_true(sb_tokenizer_added(t, "\u00e9<x>", &id) && id == EOT);
    assert_false(sb_tokenizer_added(t, "ab", &id));
    assert_int_equal(sb_tokenizer_decode(t, ids, 5, &text, &size, &unknown, &err), SB_OK);
    assert_int_equal(unknown, 2);
    assert_string_equal(text, "ab\xe9<x>word"); /* N-8: "to the byte 0xE9" */
    assert_null(sb_tokenizer_bytes(t, 261, &size));
    free(text);
    sb_tokenizer_free(t);
}

static const struct {
    const char *from, *to;
    sb_status status; /* SB_OK: a change that is accepted */
    const char *says;
} changes[] = {
    {"\"1.0\"", "\"1.1\"", SB_ERR_UNSUPPORTED, "version is the string \"1.1\""},
    {"\"truncation\":null", "\"truncation\":{}", SB_ERR_UNSUPPORTED, "truncation is an object"},
    {"\"padding\":null", "\"padding\":{\"a\":1}", SB_ERR_UNSUPPORTED, "padding is an object"},
    {"\"padding\":null", "\"chat\":null", SB_ERR_INPUT, "chat is a key"},
    {"\"padding\":null,", "", SB_OK, ""},
    {"\"normalizer\":null", "\"normalizer\":{\"type\":\"NFKC\"}", SB_ERR_UNSUPPORTED,
     "normalizer.type is the string \"NFKC\""},
    {"\"normalizer\":null",
     "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},"
     "{\"type\":\"Lowercase\"}]}",
     SB_ERR_UNSUPPORTED, "normalizer.normalizers.1.type is the string \"Lowercase\""},
    {"\"normalizer\":null", "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[]}", SB_OK, ""},
    {"\"behavior\":\"Isolated\"", "\"behavior\":\"Removed\"", SB_ERR_UNSUPPORTED,
     "pre_tokenizer.pretokenizers.0.behavior is the string \"Removed\""},
    {"\"invert\":false", "\"invert\":true", SB_ERR_UNSUPPORTED, "invert is true"},
    {"\"Regex\":\"\\\\p{L}+|\\\\s+\"", "\"String\":\" \"", SB_ERR_UNSUPPORTED, "pattern.String"},
    {"\\\\s+\"", "\\\\w+\"", SB_ERR_UNSUPPORTED, "has \"\\w+\" at byte 7"},
    {"\\\\s+\"", "\\\\s*\"", SB_ERR_UNSUPPORTED, "can match the empty string"},
    {"false}," BYTES "]", "false}]", SB_ERR_UNSUPPORTED, "ByteLevel as the last step"},
    {"false}," BYTES "]", "false}," BYTES "," BYTES "]", SB_ERR_UNSUPPORTED, "last step only"},
    {"[" SPLIT "\"behavior\":\"Isolated\",\"invert\":false}," BYTES "]", "[]", SB_ERR_UNSUPPORTED,
     "pre_tokenizer is an object"},
    {BYTES "]", "{\"type\":\"ByteLevel\",\"add_prefix_space\":true}]", SB_ERR_UNSUPPORTED,
     "add_prefix_space is true"},
    {BYTES "]", "{\"type\":\"Digits\",\"individual_digits\":true}]", SB_ERR_UNSUPPORTED,
     "\"Digits\""},
    {BYTES "]", "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true}]", SB_OK,
     ""},
    {"\"post_processor\":null",
     "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[]}", SB_ERR_UNSUPPORTED,
     "post_processor.type is the string \"TemplateProcessing\""},
    {"\"post_processor\":null",
     "\"post_processor\":{\"type\":\"Sequence\",\"processors\":[" BYTES "]}", SB_OK, ""},
    {"\"decoder\":" BYTES, "\"decoder\":null", SB_ERR_UNSUPPORTED, "decoder is null"},
    {"\"decoder\":" BYTES, "\"decoder\":{\"type\":\"Metaspace\"}", SB_ERR_UNSUPPORTED,
     "\"Metaspace\""},
    {"\"type\":\"BPE\"", "\"type\":\"Unigram\"", SB_ERR_UNSUPPORTED, "model.type"},
    {"\"dropout\":null", "\"dropout\":0.1", SB_ERR_UNSUPPORTED, "model.dropout is the real number"},
    {"\"dropout\":null", "\"dropout\":0", SB_OK, ""},
    {"\"continuing_subword_prefix\":\"\"", "\"continuing_subword_prefix\":\"##\"",
     SB_ERR_UNSUPPORTED, "continuing_subword_prefix"},
    {"\"end_of_word_suffix\":\"\"", "\"end_of_word_suffix\":\"</w>\"", SB_ERR_UNSUPPORTED,
     "end_of_word_suffix"},
    {"\"unk_token\":null", "\"unk_token\":\"<eot>\"", SB_OK, ""},
    {"\"byte_fallback\":false", "\"byte_fallback\":true", SB_OK, ""},
    {"\"ignore_merges\":false", "\"ignore_merges\":1", SB_ERR_INPUT, "ignore_merges is 1"},
    {"\"A\":65,", "", SB_ERR_UNSUPPORTED, "byte 0x41"},
    {"\"A\":65,", "\"A\":66,", SB_ERR_INPUT, "the id 66 to two tokens"},
    {"\"A\":65,", "\"A\":-1,", SB_ERR_INPUT, "the id -1"},
    {"\"A\":65,", "\"A\":16777216,", SB_ERR_INPUT, "16777216"},
    {"\"a b\"", "\"a bc\"", SB_ERR_INPUT, "number 0 with \"bc\""},
    {"\"a b\"", "\"b a\"", SB_ERR_INPUT, "number 0 with \"ba\""},
    {"\"a b\"", "\"a  b\"", SB_ERR_INPUT, "number 0 that is neither"},
    {"\"a b\"", "\"ab\"", SB_ERR_INPUT, "number 0 that is neither"},
    {"\"a b\"", "[\"a\",\"b\",\"\"]", SB_ERR_INPUT, "number 0 that is neither"},
    {"\"a b\"", "\"a b\",[\"a\",\"b\"]", SB_ERR_INPUT, "twice: numbers"},
    {"\"id\":259", "\"id\":300", SB_ERR_INPUT, "added_tokens.0.id is 300, expected 259"},
    {"\"id\":259,\"content\":\"<eot>\"", "\"id\":256,\"content\":\"ab\"", SB_ERR_INPUT,
     "added_tokens.1.id is 260, expected 259, the next free id"},
    {"\"ab\":256", "\"ab\":259", SB_ERR_INPUT, "added_tokens.0.id is 259, the id of another token"},
    {"\"id\":260,\"content\":\"word\"", "\"id\":256,\"content\":\"ab\"", SB_OK, ""},
    {"\"content\":\"word\"", "\"content\":\"<eot>\"", SB_ERR_INPUT, "\"<eot>\" twice"},
    {"\"content\":\"word\"", "\"content\":\"\"", SB_ERR_INPUT, "added_tokens.1.content is empty"},
    {"\"single_word\":true", "\"single_word\":1", SB_ERR_INPUT, "single_word is 1"},
    {"\"single_word\":true,", "", SB_ERR_INPUT, "single_word is absent"},
    {"\"single_word\":true", "\"single_word\":true,\"bold\":true", SB_ERR_INPUT, "bold is a key"},
};

TEST(test_refused)
{
    static char document[DOCUMENT];
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        sb_tokenizer *t = NULL;
        sb_error err = {{0}};
        write_document(document);
        replace(document, changes[i].from, changes[i].to);
        sb_status status = sb_tokenizer_parse(document, strlen(document), "input", &t, &err);
        if (status != changes[i].status || !strstr(err.text, changes[i].says) ||
            (status && strncmp(err.text, "input: ", 7) != 0))
            fail_msg("%s: status %d: %s", changes[i].to, status, err.text);
        if (!status)
            sb_tokenizer_free(t);
    }
}

TEST(test_patterns)
{
    static const char *const good[] = {"a",       "[a-z]+",  "(?i:'s|'T)", "[^\\s\\p{L}-]+",
                                       "x{2}",    "x{2,3}",  "a??b",       "a*+b",
                                       "(a|b)?c", "(?>a|b)", "\\.\\[\\-",  "[\\]\\-\\^]",
                                       "\\d\\D.", "a(?=b)",  "\u00e9+",    "[\u3040-\u309f]",
                                       "[-a]",    "[a-]",    "[^-]"};
    static const char *const bad[] = {"^a",          "a$",          "\\w",
                                      "\\b",         "\\h",         "\\v",
                                      "\\1",         "\\x41",       "\\u0041",
                                      "\\R",         "\\K",         "\\p{Han}",
                                      "\\p{L",       "\\p{^L}",     "\\p{Letter}",
                                      "\\pL",        "(?<=a)b",     "(?<!a)b",
                                      "(?<n>a)",     "(?P<n>a)",    "(?i)a",
                                      "(?m:a)",      "(?#a)",       "(a",
                                      "a)",          "[a",          "[]",
                                      "[]a]",        "[a[b]]",      "[[:alpha:]]",
                                      "[a&&b]",      "[z-a]",       "[a-\\s]",
                                      "[\\s-a]",     "[\\w]",       "a**",
                                      "a{2}?",       "a{2}+",       "a{,2}",
                                      "a{3,2}",      "a{9999}",     "{",
                                      "a}",          "a]",          "*a",
                                      "(a)*",        "(?:ab)+",     "(a){2}",
                                      "(?=a)?",      "(?i:ss)",     "(?i:aST)",
                                      "(?i:\u00e9)", "(?i:\\p{L})", "(?i:[\u00e0-\u00ff])",
                                      "(*UCP)a",     "a|",          "",
                                      "a*",          "(?=a)",       "\\",
                                      "[\\",         "(?i:a|)"};
    sb_pattern *pattern = NULL;
    sb_error err = {{0}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        if (sb_pattern_compile(good[i], "input", &pattern, &err))
            fail_msg("%s", err.text);
        sb_pattern_free(pattern);
        pattern = NULL;
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (sb_pattern_compile(bad[i], "input", &pattern, &err) != SB_ERR_UNSUPPORTED)
            fail_msg("accepted: %s", bad[i]);
}

TEST(test_characters)
{
    unsigned spaces = 0, words = 0, mapped = 0;
    for (uint32_t c = 0; c < 0x110000; c++) {
        unsigned char text[4];
        uint32_t back = 0;
        size_t n = sb_utf8_put(c, text);
        size_t read = sb_utf8_get(text, n, &back);
        if (c >= 0xd800 && c <= 0xdfff)
            assert_int_equal(read, 0);
        else
            assert_true(read == n && back == c && sb_utf8_get(text, n - 1, &back) == 0);
        spaces += (unsigned)sb_utf8_is_space(c);
        words += (unsigned)sb_utf8_is_word(c);
        mapped += sb_alphabet_byte(c) >= 0;
    }
    assert_int_equal(spaces, 25); /* White_Space of every Unicode since 6.3 */
    assert_int_equal(mapped, 256);
    assert_true(words > 100000 && sb_utf8_is_word(0x24b6) && sb_utf8_is_word(0x2167));
    assert_false(sb_utf8_is_word(0xbd) || sb_utf8_is_word(0x180e) || sb_utf8_is_word(0x1f642));
    for (unsigned byte = 0; byte < 256; byte++)
        assert_int_equal(sb_alphabet_byte(sb_alphabet_character(byte)), (int)byte);
    assert_int_equal(sb_alphabet_character(0), 0x100);
    assert_int_equal(sb_alphabet_character(' '), 0x120);
    assert_int_equal(sb_alphabet_character(0xad), 0x143);
}

/* Every allocation fails once; PCRE2 uses the same allocator. */
TEST(test_memory)
{
    static char document[DOCUMENT];
    static const char text[] = "ab e\u0301 <eot> word \u0323\u0307 x";
    sb_status status = SB_ERR_MEMORY;
    unsigned long failing = 1;
    write_document(document);
    replace(document, "\"normalizer\":null", "\"normalizer\":{\"type\":\"NFC\"}");
    replace(document, "\"ignore_merges\":false", "\"ignore_merges\":true");
    for (; status == SB_ERR_MEMORY; failing++) {
        sb_tokenizer *t = NULL;
        uint32_t *ids = NULL;
        char *back = NULL;
        size_t count = 0, size;
        sb_error err = {{0}};
        sb_alloc_fail_at(failing);
        status = sb_tokenizer_parse(document, strlen(document), "input", &t, &err);
        if (!status)
            status = sb_tokenizer_encode(t, text, sizeof text - 1, &ids, &count, &err);
        if (!status)
            status = sb_tokenizer_decode(t, ids, count, &back, &size, NULL, &err);
        sb_alloc_fail_at(0);
        free(ids);
        free(back);
        sb_tokenizer_free(t);
    }
    assert_int_equal(status, SB_OK);
    assert_true(failing > 30);
}

/* Quadratic time would take hours. */
TEST(test_long)
{
    static const char *const units[] = {"ab",  "a",    "\u0307\u0323", " ",
                                        " \n", "\xff", "<eot>",        "\u4f60"};
    enum { BYTES_LONG = 1 << 20 };
    sb_tokenizer *t = make("\"normalizer\":null", "\"normalizer\":{\"type\":\"NFC\"}");
    char *text = sb_alloc(BYTES_LONG, 1);
    assert_non_null(text);
    alarm(300);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t unit = strlen(units[i]), size = BYTES_LONG / unit * unit, count = 0, back_size = 0;
        uint32_t *ids = NULL;
        char *back = NULL;
        sb_error err = {{0}};
        for (size_t at = 0; at < size; at += unit)
            memcpy(text + at, units[i], unit);
        assert_int_equal(sb_tokenizer_encode(t, text, size, &ids, &count, &err), SB_OK);
        assert_int_equal(sb_tokenizer_decode(t, ids, count, &back, &back_size, NULL, &err), SB_OK);
        assert_int_equal(back_size, size);
        if (units[i][0] == '\xcc') /* NFC sorts the marks: all marks below come first */
            assert_true(memcmp(back, "\u0323\u0323", 4) == 0 &&
                        memcmp(back + size - 2, "\u0307", 2) == 0);
        else
            assert_memory_equal(back, text, size);
        free(ids);
        free(back);
    }
    alarm(0);
    free(text);
    sb_tokenizer_free(t);
}

/* A blank as an added token that strips the blanks around it: each match must not scan all of them
 * again. */
TEST(test_long_strip)
{
    static char document[DOCUMENT];
    enum { BLANKS = 1 << 20 };
    sb_tokenizer *t = NULL;
    sb_error err = {{0}};
    uint32_t *ids = NULL;
    size_t count = 0;
    char *text = sb_alloc(BLANKS, 1);
    assert_non_null(text);
    memset(text, ' ', BLANKS);
    alarm(300);
    for (int left = 0; left < 2; left++) {
        write_document(document);
        replace(document, "<eot>", " ");
        if (left)
            replace(document, "\"lstrip\":false", "\"lstrip\":true");
        else
            replace(document, "\"rstrip\":false", "\"rstrip\":true");
        assert_int_equal(sb_tokenizer_parse(document, strlen(document), "input", &t, &err), SB_OK);
        assert_int_equal(sb_tokenizer_encode(t, text, BLANKS, &ids, &count, &err), SB_OK);
        assert_int_equal(count, BLANKS); /* the same as the package: N-3 */
        free(ids);
        sb_tokenizer_free(t);
    }
    alarm(0);
    free(text);
}
