/* fuzz_tokenizer.c - any bytes as a tokenizer.json; a text to tokenize follows after the first
 * NUL. */
#include "tests/fuzz/fuzz.h"

#include "tools/text/tokenizer.h"

const char fuzz_name[] = "tokenizer";
unsigned long fuzz_accepted;

enum { MOST_TEXT = 256 }; /* a hostile expression may need its limit of steps at each byte */

/* N-1: "where nothing is normalized and no added token strips, decoding gives back every byte".
 * Returns 0 if the JSON text has a normalizer, an added token (which may be of the byte alphabet,
 * N-8), or an escape, which could spell either. */
static int gives_back(const char *json, size_t size)
{
    static const char *const words[] = {"NFC", "content", "\\u"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (size_t at = 0, n = strlen(words[i]); at + n <= size; at++)
            if (memcmp(json + at, words[i], n) == 0)
                return 0;
    return 1;
}

static void check_text(const sb_tokenizer *t, const uint8_t *text, size_t size, int whole)
{
    uint32_t *ids = NULL;
    size_t count = 0, back_size = 0, unknown = 1;
    char *back = NULL;
    sb_error err = {{0}};
    sb_status status = sb_tokenizer_encode(t, text, size, &ids, &count, &err);
    if (status != SB_OK) {
        fuzz_check_refusal(status, &err);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        size_t n;
        FUZZ_CHECK(ids[i] < sb_tokenizer_size(t) && sb_tokenizer_bytes(t, ids[i], &n));
    }
    FUZZ_CHECK(!sb_tokenizer_decode(t, ids, count, &back, &back_size, &unknown, &err));
    FUZZ_CHECK(unknown == 0 && back[back_size] == '\0');
    FUZZ_CHECK(!whole || (back_size == size && memcmp(back, text, size) == 0));
    free(ids);
    free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t some[] =
        "The same bits, e\xcc\x81\xff <|im_end|>\r\n  it's 12 \xe4\xbd\xa0\xe4";
    const uint8_t *end = size ? memchr(data, '\0', size) : NULL;
    size_t json = end ? (size_t)(end - data) : size;
    size_t text = end ? size - json - 1 : 0;
    sb_tokenizer *t = NULL;
    sb_error err = {{0}};
    sb_status status = sb_tokenizer_parse((const char *)data, json, "input", &t, &err);
    if (status != SB_OK) {
        fuzz_check_refusal(status, &err);
        return 0;
    }
    int whole = gives_back((const char *)data, json);
    fuzz_accepted++;
    check_text(t, some, sizeof some - 1, whole);
    if (end)
        check_text(t, end + 1, text < MOST_TEXT ? text : MOST_TEXT, whole);
    sb_tokenizer_free(t);
    return 0;
}
